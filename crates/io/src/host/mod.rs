//! What headstart changes on a host, and the way back (docs/decisions/0010).
//!
//! Every change is written into a [`journal`] of two copies that has reached the disk before the change is made, and every change can be
//! undone twice without harm. Everything is in one routing table, one range of rule priorities, one nftables table, and bears
//! headstart's mark, so that what others made is distinguished and left alone. /etc is never written to.

pub mod change;
pub mod folders;
pub mod found;
pub mod journal;
pub mod ledger;
mod netlink;

pub use netlink::{Kernel, KernelError};

use headstart_core::wire::netlink::{AF_INET, AF_INET6, Route};
use std::ops::RangeInclusive;

/// The mark of our routes and rules: a routing protocol number that is not registered (`rt_protos` of iproute2).
pub const PROTOCOL: u8 = 72;
/// The name of our nftables table.
pub const TABLE_NAME: &str = "headstart";
/// The number of our queue of packets: the one of our routing table, which other programs are unlikely to have chosen.
pub const QUEUE: u16 = 18_515;
/// How many rule priorities are ours, the configured one and those before it.
pub const PRIORITIES: u32 = 10;

/// What is ours by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The routing table.
    pub table: u32,
    /// The last of our rule priorities.
    pub priority: u32,
}

impl Numbers {
    /// Our rule priorities.
    pub fn priorities(&self) -> RangeInclusive<u32> {
        self.priority.saturating_sub(PRIORITIES - 1)..=self.priority
    }

    /// The table and the priority of what is measured: the next and the one before, so that neither has to know the other.
    pub fn of_captured(&self) -> Self {
        Self { table: self.table.saturating_add(1), priority: self.priority.saturating_sub(1) }
    }
}

/// What is in our places without our mark, a line each, and what is there with it. What other programs made is never touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupants {
    /// Others'.
    pub strangers: Vec<String>,
    /// Ours.
    pub ours: Vec<String>,
}

/// Looks into our routing table and at rules that lead there.
pub fn occupants(kernel: &mut Kernel, numbers: Numbers) -> Result<Occupants, KernelError> {
    let mut found = Occupants::default();
    let tables = [numbers.table, numbers.of_captured().table];
    for family in [AF_INET, AF_INET6] {
        let is_mark = |route: &Route| change::sysctl::Sysctl::marked_by(route).is_some();
        let routes = kernel.routes(family)?.into_iter();
        for route in routes.filter(|route| tables.contains(&route.table()) || is_mark(route)) {
            let place = if route.protocol() == PROTOCOL { &mut found.ours } else { &mut found.strangers };
            place.push(change::route::in_words(&route));
        }
        for rule in kernel.rules(family)?.into_iter().filter(|rule| tables.contains(&rule.table())) {
            let place = if rule.protocol() == PROTOCOL { &mut found.ours } else { &mut found.strangers };
            place.push(change::rule::in_words(&rule));
        }
    }
    Ok(found)
}
