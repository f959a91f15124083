//! The nftables table that marks what is to be measured: connections and datagrams that programs of this host begin, to the
//! configured peers. A rule leads what is marked into the interface of the forwarder, and nothing else.
//!
//! What was there before is left alone, and so is what others begin: a server on this host answers as ever. Where the forwarder is
//! no more its routes are gone with its interface, and what is marked goes by the main table: the marks by themselves do no harm.

use super::table::Marked;
use super::{ChangeError, Entry, Undone};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::net::IpAddr;

/// This kind.
pub const ENTRY: Entry = Entry {
    name: "capture",
    what: "the nftables table `inet headstart-measure`, which marks packets to measure; undone by removing the whole table",
};

/// Its table.
pub(super) const TABLE: Marked = Marked("headstart-measure");
/// The mark of what is led to the forwarder: the number of our routing table, which other programs are unlikely to have chosen.
pub const MARK: u32 = 18_515;
/// The mark of what the forwarder sends itself.
pub const OWN_MARK: u32 = 18_516;

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// The peers: addresses with the bits of their networks. None means all peers.
    to: Vec<(IpAddr, u8)>,
}

impl Capture {
    /// For what is sent to these networks; for everything if there are none.
    pub fn new(to: Vec<(IpAddr, u8)>) -> Self {
        Self { to }
    }

    /// What is inside. Local and link-local addresses, groups and the protocols that configure the host are never measured.
    fn body(&self) -> String {
        let networks = |v4: bool| {
            let all = self.to.iter().filter(|(ip, _)| ip.is_ipv4() == v4).map(|(ip, bits)| format!("{ip}/{bits}"));
            all.collect::<Vec<_>>().join(", ")
        };
        let mut wanted = Vec::new();
        for (family, v4) in [("ip", true), ("ip6", false)] {
            let networks = networks(v4);
            match networks.is_empty() {
                true if self.to.is_empty() => wanted.push(format!("meta nfproto {}", if v4 { "ipv4" } else { "ipv6" })),
                true => {}
                false => wanted.push(format!("{family} daddr {{ {networks} }}")),
            }
        }
        let kinds = [
            "tcp flags & (fin | syn | rst | ack) == syn",
            "meta l4proto udp",
            "icmp type echo-request",
            "icmpv6 type echo-request",
        ];
        let begun = wanted.iter().flat_map(|to| kinds.map(|kind| (to, kind))).filter(|(to, kind)| {
            // A rule for both families at once is none.
            !(kind.starts_with("icmp ") && is_six(to) || kind.starts_with("icmpv6") && !is_six(to))
        });
        let begun = begun.map(|(to, kind)| format!("{to} {kind} ct state new ct mark set {MARK}\n"));
        format!(
            "chain capture {{ type route hook output priority -150; policy accept;\n\
             meta mark != 0 return\n\
             oifname \"lo\" return\n\
             fib daddr type != unicast return\n\
             ip daddr 169.254.0.0/16 return\n\
             ip6 daddr fe80::/10 return\n\
             udp sport {{ 67, 68, 546, 547 }} return\n\
             ct direction reply return\n\
             {}\
             ct mark {MARK} meta mark set {MARK}\n}}",
            begun.collect::<String>()
        )
    }

    pub(super) fn make(&self, lock: &File) -> Result<(), ChangeError> {
        TABLE.make(&self.body(), lock)
    }

    pub(super) fn undo(&self, lock: &File) -> Result<Undone, ChangeError> {
        TABLE.undo(lock)
    }
}

fn is_six(to: &str) -> bool {
    to.starts_with("ip6") || to.ends_with("ipv6")
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TABLE.tell(&self.body(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{nft, program};
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_marked_and_each_family_has_its_own_rules() {
        let body = Capture::new(vec![("198.51.100.0".parse().unwrap(), 24)]).body();
        assert!(body.contains("ip daddr { 198.51.100.0/24 } tcp flags") && !body.contains("nfproto"), "{body}");
        assert!(!body.contains("icmpv6"), "{body}");
        let all = Capture::new(Vec::new()).body();
        assert!(all.contains("meta nfproto ipv4 icmp type") && all.contains("meta nfproto ipv6 icmpv6 type"), "{all}");
        assert!(!all.contains("ipv4 icmpv6") && !all.contains("ipv6 icmp type"), "{all}");
    }

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn the_table_is_made_once_and_gone_after_it_is_undone() {
        use crate::sys::netns::NetNs;
        if program().is_none() {
            return eprintln!("skipped: nft is not installed (Debian package: nftables)");
        }
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        here.run(|| {
            let lock = File::open("/dev/null").unwrap();
            let v6 = ("2001:db8::".parse().unwrap(), 32);
            for to in [vec![], vec![v6], vec![("198.51.100.0".parse().unwrap(), 24), v6]] {
                let capture = Capture::new(to);
                match capture.make(&lock) {
                    Err(ChangeError::Nft(said)) => return eprintln!("skipped: this kernel cannot: {said}"),
                    made => made.unwrap(),
                }
                assert!(matches!(capture.make(&lock), Err(ChangeError::Occupied { .. })));
                assert_eq!(capture.undo(&lock).unwrap(), Undone::Removed);
            }
            assert_eq!(nft(&["list", "ruleset"], "", &lock).unwrap().unwrap(), "");
        })
        .unwrap();
    }
}
