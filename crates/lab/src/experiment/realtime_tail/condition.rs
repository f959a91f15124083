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
    /// The case of the paper's claims that it is judged by; empty where it judges none.
    pub case: &'static str,
    /// Its hops.
    pub legs: &'static [Leg],
    /// Every processor has something else to do. Virtual time has no processors.
    pub busy: bool,
}

/// A hop as it is written down.
pub struct Leg {
    /// The link.
    link: &'static str,
    /// Its round trip when it is idle, in ms.
    rtt: u64,
    /// Length of its spells of loss in ms.
    fades: Option<u64>,
    /// A bulk flow towards the sender's side is on it.
    pub bulk: bool,
}

/// Spells come each 2 s on average, and take 90 % of the packets. Ours.
const GAP: Duration = Duration::from_secs(2);
const LOSS: f64 = 0.9;

impl Leg {
    /// For virtual time.
    fn hop(&self) -> anyhow::Result<Hop> {
        let link = headstart_link::parse_duplex(self.link).with_context(|| format!("the link {}", self.link))?;
        let fades = self.fades.map(|length| Fades { length: Duration::from_millis(length), every: GAP, loss: LOSS });
        Ok(Hop { link, rtt: Duration::from_millis(self.rtt), fades, bulk: self.bulk })
    }

    /// For the emulator, with spells of that seed.
    pub fn text(&self, seed: u64) -> String {
        let spells = |length| format!(",loss=fades:{length}ms:{}s:{}%:{seed}", GAP.as_secs(), LOSS * 100.0);
        format!("{}{}", self.link, self.fades.map_or_else(String::new, spells))
    }
}

impl Condition {
    /// Its hops in virtual time.
    pub fn hops(&self) -> anyhow::Result<Vec<Hop>> {
        self.legs.iter().map(Leg::hop).collect()
    }
}

/// The names of [`ALL`].
pub const NAMES: [&str; ALL.len()] = {
    let (mut names, mut n) = ([""; ALL.len()], 0);
    while n < names.len() {
        names[n] = ALL[n].name;
        n += 1;
    }
    names
};

/// Every network.
pub const ALL: &[Condition] = &[
    message("iid1-r10", "1 % of packets are lost each way, round trips of 10 ms.", &[leg("delay=5ms,loss=1%", 10)]),
    message("iid1-r40", "1 % of packets are lost each way, round trips of 40 ms.", &[leg("delay=20ms,loss=1%", 40)]),
    message("iid1-r100", "1 % of packets are lost each way, round trips of 100 ms.", &[leg("delay=50ms,loss=1%", 100)]),
    message("iid3-r10", "3 % of packets are lost each way, round trips of 10 ms.", &[leg("delay=5ms,loss=3%", 10)]),
    message("iid3-r40", "3 % of packets are lost each way, round trips of 40 ms.", &[leg("delay=20ms,loss=3%", 40)]),
    message("iid3-r100", "3 % of packets are lost each way, round trips of 100 ms.", &[leg("delay=50ms,loss=3%", 100)]),
    message("gilbert-r10", GILBERT, &[leg("delay=5ms,loss=gilbert-elliott:1.5%:50%", 10)]),
    message("gilbert-r40", GILBERT, &[leg("delay=20ms,loss=gilbert-elliott:1.5%:50%", 40)]),
    message("gilbert-r100", GILBERT, &[leg("delay=50ms,loss=gilbert-elliott:1.5%:50%", 100)]),
    message(
        "burst",
        "Bursts of 60 ms, every 2 s on average, lose 90 % of all packets; 20 ms.",
        &[faded(60, "delay=10ms", 20)],
    ),
    message("burst-r60", "The same bursts with round trips of 60 ms.", &[faded(60, "delay=30ms", 60)]),
    message("burst-r100", "The same bursts with round trips of 100 ms.", &[faded(60, "delay=50ms", 100)]),
    message(
        "outage",
        "Bursts of 150 ms, every 2 s on average, lose 90 % of all packets; 20 ms.",
        &[faded(150, "delay=10ms", 20)],
    ),
    message("outage-r60", "The same bursts with round trips of 60 ms.", &[faded(150, "delay=30ms", 60)]),
    message("outage-r100", "The same bursts with round trips of 100 ms.", &[faded(150, "delay=50ms", 100)]),
    message("clean", "Nothing is lost, round trips of 20 ms.", &[leg("delay=10ms", 20)]),
    message(
        "clean-r60",
        "Nothing is lost, round trips of 60 ms, longer than the time between two messages.",
        &[leg("delay=30ms", 60)],
    ),
    Condition {
        busy: true,
        ..message("busy", "As clean, while one thread per processor computes all the time.", &[leg("delay=10ms", 20)])
    },
    Condition {
        busy: true,
        ..message("busy-lossy", "As iid3-r40, beside such threads.", &[leg("delay=20ms,loss=3%", 40)])
    },
    message(
        "contended",
        "802.11n at 65 Mbit/s with three neighbours, on and off by turns of 400 ms; 10 ms of wire.",
        &[leg("medium=wlan:65mbit:3:400ms:400ms,delay=5ms", 12)],
    ),
    paper(
        "no-bulk",
        "The paper's way without the file transfer: the sender's 802.11n, wire, a relay, wire, a strong 802.11n.",
        &[leg(SENDER, 12), leg(STRONG, 12)],
    ),
    Condition {
        without_bulk: "no-bulk",
        ..paper(
            "strong",
            "The paper's way: the sender's 802.11n with a file transfer to another host, a relay, a strong 802.11n.",
            &[bulk(SENDER), leg(STRONG, 12)],
        )
    },
    paper(
        "weak",
        "The paper's way with a weak signal at the receiver: 26 Mbit/s, 5 % errors, fades of 60 ms each 2 s.",
        &[bulk(SENDER), leg(WEAK, 12)],
    ),
    paper(
        "fitted-no-bulk",
        "As no-bulk, and 2 % of what the sender's WLAN carries away from it is lost: plain TCP as printed (42 ms).",
        &[leg(FITTED_STRONG, 12), leg(STRONG, 12)],
    ),
    Condition {
        without_bulk: "fitted-no-bulk",
        case: "strong",
        ..paper(
            "fitted-strong",
            "As strong, with that loss and a sender's WLAN of 52 Mbit/s, under which plain TCP is as printed (336 ms).",
            &[bulk(FITTED_STRONG), leg(STRONG, 12)],
        )
    },
    Condition {
        case: "weak",
        ..paper(
            "fitted-weak",
            "As weak, with that loss and a sender's WLAN of 65 Mbit/s, under which plain TCP is as printed (242 ms).",
            &[bulk(FITTED_WEAK), leg(WEAK, 12)],
        )
    },
];

const GILBERT: &str =
    "2.9 % of packets are lost each way, by Gilbert and Elliott: two in a row on average; round trips of the name.";
/// The sender's WLAN: no neighbours but the bulk flow's station; 5 ms of fixed network each way are ours.
const SENDER: &str = "medium=wlan:65mbit:0,delay=5ms";
/// The sender's as plain TCP of the oldest age shows it in the paper, and as nothing else does (docs/decisions/0074): 2 % of what
/// goes away from it is lost, and the file transfer fills Linux's 1000 packets at one or the other rate of 802.11n.
const FITTED_STRONG: &str = "medium=wlan:52mbit:0,delay=5ms,loss=2%;medium=wlan:52mbit:0,delay=5ms";
const FITTED_WEAK: &str = "medium=wlan:65mbit:0,delay=5ms,loss=2%;medium=wlan:65mbit:0,delay=5ms";
/// The receiver's, with `wlan-strong` and `wlan-weak` of the links' presets.
const STRONG: &str = "medium=wlan:strong,delay=5ms";
const WEAK: &str = "medium=wlan:weak,delay=5ms";

const fn message(name: &'static str, what: &'static str, legs: &'static [Leg]) -> Condition {
    Condition { name, what, part: Part::Message, without_bulk: "", case: "", legs, busy: false }
}

const fn paper(name: &'static str, what: &'static str, legs: &'static [Leg]) -> Condition {
    Condition { part: Part::Paper, ..message(name, what, legs) }
}

const fn leg(link: &'static str, rtt: u64) -> Leg {
    Leg { link, rtt, fades: None, bulk: false }
}

/// The sender's hop with the file transfer.
const fn bulk(link: &'static str) -> Leg {
    Leg { bulk: true, ..leg(link, 12) }
}

const fn faded(length: u64, link: &'static str, rtt: u64) -> Leg {
    Leg { fades: Some(length), ..leg(link, rtt) }
}
