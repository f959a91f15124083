//! What bears our marks on a host, whatever any record says: rules of our protocol number, routes of that number in our tables and
//! in those that such rules lead to (a daemon may have had other settings), values whose mark is such a route, and nftables
//! tables of our names with our comment. For a host whose record is lost, and for all that
//! say that nothing is left.
//!
//! Interfaces are not among them: those of a daemon end with its process.

use super::change::{Change, TABLES, bundle::Bundle, capture::Capture, route, rule, sysctl::Sysctl, table};
use super::{Kernel, KernelError, Numbers, PROTOCOL, QUEUE};
use headstart_core::wire::netlink::{AF_INET, AF_INET6};
use std::collections::BTreeSet;
use std::fs::File;

/// The kernel's own tables (default, main, local): a rule of our number that leads there is not ours.
const KERNELS: std::ops::RangeInclusive<u32> = 253..=255;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What it is, in words, and the change whose undoing removes it.
    pub marked: Vec<(String, Change)>,
    /// Where could not be looked, and why.
    pub not_looked_at: Option<String>,
}

impl Found {
    /// What was found, in words.
    pub fn in_words(&self) -> Vec<String> {
        self.marked.iter().map(|(words, _)| words.clone()).collect()
    }
}

/// Looks at the host.
pub fn look(kernel: &mut Kernel, numbers: Numbers) -> Result<Found, KernelError> {
    let mut found = Found::default();
    let mut tables = BTreeSet::from([numbers.table, numbers.of_captured().table]);
    for family in [AF_INET, AF_INET6] {
        // Rules first: what they lead to is then of no effect.
        for rule in kernel.rules(family)? {
            if rule.protocol() == PROTOCOL && !KERNELS.contains(&rule.table()) {
                tables.insert(rule.table());
                let place = Numbers { table: rule.table(), priority: rule.priority() };
                let change = rule::Rule::new(family, place);
                let change = rule.mark().map_or(change.clone(), |mark| change.with_mark(mark));
                found.marked.push((format!("the rule {}", rule::in_words(&rule)), Change::Rule(change)));
            }
        }
        for route in kernel.routes(family)? {
            if let Some(value) = Sysctl::marked_by(&route) {
                found.marked.push((format!("the value {value}"), Change::Sysctl(value)));
            } else if tables.contains(&route.table()) && route.protocol() == PROTOCOL {
                let change = Change::Route(route::Route::new(&route));
                found.marked.push((format!("the route {}", route::in_words(&route)), change));
            }
        }
    }
    let of_nft = [
        Change::Table(table::Table::new("")),
        Change::Bundle(Bundle::new(QUEUE)),
        Change::Capture(Capture::new(Vec::new())),
    ];
    match File::open("/dev/null").map_err(|e| e.to_string()).and_then(|none| table::ours(&none)) {
        Ok(names) => {
            for (name, change) in TABLES.iter().zip(of_nft).filter(|(name, _)| names.contains(*name)) {
                found.marked.push((format!("the nftables table inet {name}"), change));
            }
        }
        Err(why) => found.not_looked_at = Some(format!("nftables tables were not checked: {why}")),
    }
    Ok(found)
}
