//! The networks of `realtime-tail`.

use crate::sim::messages::{Fades, Hop};
use anyhow::Context as _;
use headstart_core::time::Duration;

/// Which of the two metrics a condition is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Messages, over one hop.
    Message,
    /// The paper's: streams, over its two hops.
    Paper,
}

/// A network.
pub struct Condition {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub what: &'static str,
    /// The metric that it is for.
    pub part: Part,
    /// The condition that is the same without the bulk flow; empty where there is none.
    pub without_bulk: &'static str,
    /// Its hops.
    pub hops: fn() -> anyhow::Result<Vec<Hop>>,
}

/// The names of [`ALL`].
pub const NAMES: &[&str] = &[
    "iid1-r10",
    "iid1-r40",
    "iid1-r100",
    "iid3-r10",
    "iid3-r40",
    "iid3-r100",
    "burst",
    "outage",
    "clean",
    "contended",
    "no-bulk",
    "strong",
    "weak",
];

/// Every network.
pub const ALL: &[Condition] = &[
    message("iid1-r10", "1 % of packets are lost each way, round trips of 10 ms.", || one("delay=5ms,loss=1%", 10)),
    message("iid1-r40", "1 % of packets are lost each way, round trips of 40 ms.", || one("delay=20ms,loss=1%", 40)),
    message("iid1-r100", "1 % of packets are lost each way, round trips of 100 ms.", || one("delay=50ms,loss=1%", 100)),
    message("iid3-r10", "3 % of packets are lost each way, round trips of 10 ms.", || one("delay=5ms,loss=3%", 10)),
    message("iid3-r40", "3 % of packets are lost each way, round trips of 40 ms.", || one("delay=20ms,loss=3%", 40)),
    message("iid3-r100", "3 % of packets are lost each way, round trips of 100 ms.", || one("delay=50ms,loss=3%", 100)),
    message(
        "burst",
        "Spells of 60 ms, every 2 s on average, take 90 % of the packets of all connections; 20 ms.",
        || faded(60, 2000),
    ),
    message(
        "outage",
        "Spells of 150 ms, every 2 s on average, take 90 % of the packets of all connections; 20 ms.",
        || faded(150, 2000),
    ),
    message("clean", "Nothing is lost, round trips of 20 ms.", || one("delay=10ms", 20)),
    message(
        "contended",
        "802.11n at 65 Mbit/s with three neighbours, on and off by turns of 400 ms; 10 ms of wire.",
        || one("medium=wlan:65mbit:3:400ms:400ms,delay=5ms", 12),
    ),
    Condition {
        name: "no-bulk",
        what: "The paper's way without the file transfer: the sender's 802.11n, wire, a relay, wire, a strong 802.11n.",
        part: Part::Paper,
        without_bulk: "",
        hops: || Ok(vec![hop(SENDER, 12)?, hop(STRONG, 12)?]),
    },
    Condition {
        name: "strong",
        what: "The paper's way: the sender's 802.11n with a file transfer to another host, a relay, a strong 802.11n.",
        part: Part::Paper,
        without_bulk: "no-bulk",
        hops: || Ok(vec![Hop { bulk: true, ..hop(SENDER, 12)? }, hop(STRONG, 12)?]),
    },
    Condition {
        name: "weak",
        what: "The paper's way with a weak signal at the receiver: 26 Mbit/s, 5 % errors, fades of 60 ms each 2 s.",
        part: Part::Paper,
        without_bulk: "",
        hops: || Ok(vec![Hop { bulk: true, ..hop(SENDER, 12)? }, hop(WEAK, 12)?]),
    },
];

/// The sender's WLAN: no neighbours but the bulk flow's station; 5 ms of fixed network each way are ours.
const SENDER: &str = "medium=wlan:65mbit:0,delay=5ms";
/// The receiver's, with `wlan-strong` and `wlan-weak` of the links' presets.
const STRONG: &str = "medium=wlan:strong,delay=5ms";
const WEAK: &str = "medium=wlan:weak,delay=5ms";

const fn message(name: &'static str, what: &'static str, hops: fn() -> anyhow::Result<Vec<Hop>>) -> Condition {
    Condition { name, what, part: Part::Message, without_bulk: "", hops }
}

fn hop(link: &str, rtt_ms: u64) -> anyhow::Result<Hop> {
    let parsed = headstart_link::parse_duplex(link).with_context(|| format!("the link {link}"))?;
    Ok(Hop { link: parsed, rtt: Duration::from_millis(rtt_ms), fades: None, bulk: false })
}

fn one(link: &str, rtt_ms: u64) -> anyhow::Result<Vec<Hop>> {
    Ok(vec![hop(link, rtt_ms)?])
}

fn faded(length_ms: u64, every_ms: u64) -> anyhow::Result<Vec<Hop>> {
    let fades = Fades { length: Duration::from_millis(length_ms), every: Duration::from_millis(every_ms), loss: 0.9 };
    Ok(vec![Hop { fades: Some(fades), ..hop("delay=10ms", 20)? }])
}
