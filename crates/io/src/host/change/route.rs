//! A route in our own table. The routes of others, those of the main table above all, are never touched: what they say is
//! copied, and holds again as soon as the copy is gone.

use super::{ChangeError, Entry, Undone, hex};
use crate::host::{Kernel, PROTOCOL};
use headstart_core::wire::netlink::{self, Attribute, TABLE_MAIN, rta};
use serde::{Deserialize, Serialize};
use std::fmt;

/// This kind.
pub const ENTRY: Entry =
    Entry { name: "route", what: "a route in headstart's own routing table; undone by removing it" };

/// A route, as the message that adds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    #[serde(with = "hex")]
    message: Vec<u8>,
    /// The same for people; nothing reads it.
    words: String,
}

impl Route {
    /// A route that bears our mark and is in a table of headstart's.
    pub fn new(route: &netlink::Route) -> Self {
        Self { message: route.encode(), words: in_words(route) }
    }

    /// What the message says; an error if it was never ours.
    fn read(&self) -> Result<netlink::Route, ChangeError> {
        let route = netlink::Route::decode(&self.message).ok();
        // 253, 254, 255: the tables default, main and local.
        let ours = route.filter(|route| route.protocol() == PROTOCOL && !(253..=255).contains(&route.table()));
        ours.ok_or_else(|| ChangeError::NotOurs(format!("the route {}", self.words)))
    }

    pub(super) fn make(&self, kernel: &mut Kernel) -> Result<(), ChangeError> {
        match kernel.add_route(&self.read()?, &self.words) {
            Err(e) if e.is_there() => Err(ChangeError::Occupied { what: format!("a route like {}", self.words) }),
            made => Ok(made?),
        }
    }

    pub(super) fn undo(&self, kernel: &mut Kernel) -> Result<Undone, ChangeError> {
        match kernel.delete_route(&self.read()?, &self.words) {
            Err(e) if e.is_missing() => Ok(Undone::WasGone),
            undone => undone.map(|()| Undone::Removed).map_err(Into::into),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip route add {}", self.words)
    }
}

/// A route as ip-route(8) would write it, as far as people need.
pub fn in_words(route: &netlink::Route) -> String {
    let mut words = match route.destination() {
        Some((to, bits)) => format!("{to}/{bits}"),
        None => "(a route of an unknown family)".to_owned(),
    };
    let address = |kind| route.attribute(kind).and_then(Attribute::as_ip);
    let number = |kind| route.attribute(kind).and_then(Attribute::as_u32);
    if let Some(gateway) = address(rta::GATEWAY) {
        words += &format!(" via {gateway}");
    }
    if let Some(index) = number(rta::OIF) {
        words += &format!(" dev {}", interface(index));
    }
    if let Some(object) = number(rta::NH_ID) {
        words += &format!(" nhid {object}");
    }
    if route.attribute(rta::MULTIPATH).is_some() {
        words += " (several next hops)";
    }
    if route.table() != TABLE_MAIN {
        words += &format!(" table {}", route.table());
    }
    words += &format!(" proto {}", route.protocol());
    if let Some(segments) = route.initcwnd() {
        words += &format!(" initcwnd {segments}");
    }
    words
}

fn interface(index: u32) -> String {
    let name = || {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        netdevice::index_to_name(socket, index).ok()
    };
    name().unwrap_or_else(|| format!("if{index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_cannot_make_us_remove_what_was_never_ours() {
        let mut head = [2, 24, 0, 0, 0, 72, 0, 1, 0, 0, 0, 0];
        let route = |head: [u8; 12]| {
            let route = netlink::Route::decode(&head).unwrap().narrowed([192, 0, 2, 1].into(), 18515, head[5], 20);
            Route::new(&route).read()
        };
        assert!(route(head).is_ok());
        head[5] = 4;
        assert!(route(head).unwrap_err().to_string().contains("never changes"));
        let main = netlink::Route::decode(&head).unwrap().narrowed([192, 0, 2, 1].into(), TABLE_MAIN, PROTOCOL, 20);
        assert!(Route::new(&main).read().is_err());
    }
}
