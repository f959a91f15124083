//! The nftables table that hands small TCP segments of thin streams to the daemon (core::realtime::bundle): those that leave
//! with a little payload, and what acknowledges them. Made and removed as our other table is, a table of its own.
//!
//! It can do no harm by itself: where no program reads from the queue, the kernel lets packets pass.

use super::table::Marked;
use super::{ChangeError, Entry, Undone};
use crate::packet_queue;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;

/// This kind.
pub const ENTRY: Entry = Entry {
    name: "bundle",
    what: "the nftables table `inet headstart-bundle`, which passes small TCP segments to the daemon; undone by removing the \
           whole table",
};

/// Its table.
pub(super) const TABLE: Marked = Marked("headstart-bundle");
/// The chain that hands over.
const HAND_OVER: &str = "hand-over";
/// Longest IP packet that is handed over, in bytes: the longest payload of a thin stream (120), with the longest headers of TCP
/// (60) and IPv6 (40).
const LONGEST: u32 = 220;
/// Streams that are known at a time, and for how many seconds after their last small segment their acknowledgements are of
/// interest. Ours.
const STREAMS: u32 = 4096;
const QUIET: u32 = 10;

/// The table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The kernel's packet queue.
    queue: u16,
}

impl Bundle {
    /// With packets to this queue.
    pub fn new(queue: u16) -> Self {
        Self { queue }
    }

    /// What is inside. After everything else on the way out, before everything else on the way in: other rules see packets as
    /// programs made them.
    fn body(&self, hand_over: &str) -> String {
        let mut body = String::new();
        let mut line = |text: &str| {
            body += text;
            body.push('\n');
        };
        let (four, six) =
            ("ip saddr . tcp sport . ip daddr . tcp dport", "ip6 saddr . tcp sport . ip6 daddr . tcp dport");
        let (to_four, to_six) =
            ("ip daddr . tcp dport . ip saddr . tcp sport", "ip6 daddr . tcp dport . ip6 saddr . tcp sport");
        let set = |address: &str| {
            format!(
                "type {address} . inet_service . {address} . inet_service; flags dynamic,timeout; timeout {QUIET}s; \
                 size {STREAMS};"
            )
        };
        line(&format!("set four {{ {} }}", set("ipv4_addr")));
        line(&format!("set six {{ {} }}", set("ipv6_addr")));
        line(&format!("chain {HAND_OVER} {{\n{hand_over}\n}}"));
        // What has a payload: the packet is longer than its headers, by the length that TCP's says (in words).
        let with_payload = |ip: u32, set: &str, stream: &str| {
            let rules = (5..=15).map(|words: u32| {
                let least = ip + 4 * words + 1;
                format!(
                    "tcp doff {words} meta length {least}-{LONGEST} update @{set} {{ {stream} }} goto {HAND_OVER}\n"
                )
            });
            rules.collect::<String>()
        };
        line(&format!("chain thin-four {{\n{}}}", with_payload(20, "four", four)));
        line(&format!("chain thin-six {{\n{}}}", with_payload(40, "six", six)));
        let small = format!("meta l4proto tcp meta length <= {LONGEST}");
        line(&format!(
            "chain out {{ type filter hook output priority 275; policy accept;\n\
             oifname != \"lo\" meta nfproto ipv4 ip hdrlength 5 {small} jump thin-four\n\
             oifname != \"lo\" meta nfproto ipv6 ip6 nexthdr 6 {small} jump thin-six\n}}"
        ));
        line(&format!(
            "chain in {{ type filter hook input priority -350; policy accept;\n\
             iifname != \"lo\" meta nfproto ipv4 {small} {to_four} @four goto {HAND_OVER}\n\
             iifname != \"lo\" meta nfproto ipv6 {small} {to_six} @six goto {HAND_OVER}\n}}"
        ));
        body
    }

    pub(super) fn make(&self, lock: &File) -> Result<(), ChangeError> {
        let own = format!("queue num {} bypass", self.queue);
        match TABLE.make(&self.body(&own), lock) {
            // A kernel whose nf_tables has no `queue`: the target of xtables does the same.
            Err(ChangeError::Nft(said)) if said.contains("No such file") || said.contains("not supported") => {
                TABLE.make(&self.body(""), lock)?;
                packet_queue::add_rule(TABLE.0, HAND_OVER, self.queue).or_else(|why| {
                    TABLE.undo(lock)?;
                    Err(ChangeError::Kernel(why))
                })
            }
            made => made,
        }
    }

    pub(super) fn undo(&self, lock: &File) -> Result<Undone, ChangeError> {
        TABLE.undo(lock)
    }
}

impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body(&format!("queue num {} bypass", self.queue));
        TABLE.tell(&body, f)
    }
}

/// Whether the program that makes it is there.
pub fn is_possible() -> bool {
    super::table::program().is_some()
}

#[cfg(test)]
mod tests {
    use super::super::table::nft;
    use super::*;

    #[test]
    #[ignore = "needs network namespaces: cargo xtask test"]
    fn the_table_is_made_once_and_gone_after_it_is_undone() {
        use crate::sys::netns::NetNs;
        if !is_possible() {
            return eprintln!("skipped: nft is not installed (Debian package: nftables)");
        }
        let Ok(here) = NetNs::create() else { return eprintln!("skipped: no network namespaces for this user") };
        here.run(|| {
            if let Err(why) = packet_queue::PacketQueue::open(1) {
                return eprintln!("skipped: {why}");
            }
            let lock = File::open("/dev/null").unwrap();
            let listed = || nft(&["list", "ruleset"], "", &lock).unwrap().unwrap();
            let bundle = Bundle::new(18515);
            // What a person is told to type, nft understands.
            for told in [format!("{bundle}"), format!("{bundle:#}")] {
                let checked = told.replacen("nft ", "nft --check ", 1);
                let output = std::process::Command::new("sh").args(["-c", &checked]).output().unwrap();
                assert!(output.status.success(), "{checked}: {output:?}");
            }
            assert!(!format!("{bundle}").contains('\n') && format!("{bundle:#}").lines().count() > 40);
            assert_eq!(bundle.undo(&lock).unwrap(), Undone::WasGone);
            bundle.make(&lock).unwrap();
            assert!(listed().contains("chain thin-six"), "{}", listed());
            assert!(matches!(bundle.make(&lock), Err(ChangeError::Occupied { .. })));
            assert_eq!(bundle.undo(&lock).unwrap(), Undone::Removed);
            assert_eq!(listed(), "");
        })
        .unwrap();
    }

    #[test]
    fn only_what_has_a_payload_is_handed_over_whatever_the_options() {
        let body = Bundle::new(5).body("x");
        for rule in ["tcp doff 5 meta length 41-220", "tcp doff 8 meta length 53-220", "tcp doff 8 meta length 73-220"]
        {
            assert!(body.contains(rule), "{body}");
        }
        assert!(Bundle::new(5).to_string().contains("queue num 5 bypass"));
    }
}
