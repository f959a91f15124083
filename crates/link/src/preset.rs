//! Links with a name, each number with its reason.
//!
//! Delays are one way. A rate counts bits of IP packets. Where a paper is silent, the reason says what was taken instead.
//! Nothing here is fitted to a result.

use headstart_core::choice::unknown;
use headstart_core::time::Duration;

use crate::medium::wlan::Wlan;
use crate::medium::{self, MediumSpec};
use crate::{DuplexSpec, LinkSpec, delay, loss, queue, rate};

/// A link with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name to write instead of a specification.
    pub name: &'static str,
    /// The reason for each number.
    pub why: &'static str,
    /// The direction away from the host.
    pub up: fn() -> LinkSpec,
    /// The direction towards the host.
    pub down: fn() -> LinkSpec,
    /// What joins them.
    pub medium: fn() -> MediumSpec,
}

impl Preset {
    /// Both directions and what joins them.
    pub fn spec(&self) -> DuplexSpec {
        DuplexSpec { up: (self.up)(), down: (self.down)(), medium: (self.medium)() }
    }
}

/// A preset that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; or write items such as rate=100mbit,delay=15ms", unknown("preset", name, &names()))]
pub struct UnknownPreset {
    /// What was asked for.
    pub name: String,
}

/// Every preset.
pub const ALL: &[Preset] = &[
    Preset {
        name: "lte",
        why: "129 Mbit/s down, 20 up: means measured in a commercial LTE network (paper 2, section 3, Fig. 4). 9 ms each way \
              with 0.5 ms of jitter: an RTT of 18 ms, the upper end of the 16-18 ms that paper 3 (Fig. 4) saw to a server \
              inside an LTE operator's network; jitter of half a 1 ms subframe; the distance to a server is added by \
              the condition that places it. No loss of its own: LTE retransmits below IP. Queues of 1000 packets: Linux's default; \
              base stations keep deep buffers.",
        up: || lte(20_000_000),
        down: || lte(129_000_000),
        medium: medium::wire,
    },
    Preset {
        name: "3g",
        why: "5.4 Mbit/s down, 2.4 up: means measured in a commercial 3G network (paper 2, section 3, Fig. 4). 75 ms each \
              way with 10 ms of jitter: no paper gives a 3G delay (paper 2, section 3: tens of ms to Korean sites, LTE and \
              3G alike); 150 ms of RTT is what WebPageTest's profile 3GFast uses, the jitter is one transmission interval of HSPA (10 ms). No loss of its own: the radio link control \
              retransmits. Queues of 1000 packets: Linux's default, deep as cellular buffers are.",
        up: || umts(2_400_000),
        down: || umts(5_400_000),
        medium: medium::wire,
    },
    Preset {
        name: "good",
        why: "100 Mbit/s, RTT 38 ms, 1 % loss: paper 2, Table 1. Half of the delay each way; the loss is on the way down, \
              where the paper's data goes, once (netem's `loss random` on one interface). Queue of 1000 packets: netem's \
              default limit.",
        up: || table_1(38, 0.0),
        down: || table_1(38, 0.01),
        medium: medium::wire,
    },
    Preset {
        name: "average",
        why: "100 Mbit/s, RTT 50 ms, 2 % loss: paper 2, Table 1. Directions, loss and queue as in `good`.",
        up: || table_1(50, 0.0),
        down: || table_1(50, 0.02),
        medium: medium::wire,
    },
    Preset {
        name: "bad",
        why: "100 Mbit/s, RTT 188 ms, 8 % loss: paper 2, Table 1. Directions, loss and queue as in `good`.",
        up: || table_1(188, 0.0),
        down: || table_1(188, 0.08),
        medium: medium::wire,
    },
    Preset {
        name: "embb",
        why: "1500 Mbit/s and RTT 30 ms: the high-bandwidth channel of paper 5, section 4.1 (the paper leaves the rate \
              unclear, see the claims). Half of the delay each way, no loss. An endless queue: the paper names none and \
              builds on Mahimahi, whose default that is.",
        up: embb,
        down: embb,
        medium: medium::wire,
    },
    Preset {
        name: "urllc",
        why: "2 Mbit/s and RTT 5 ms: the low-latency channel of paper 5, section 4.1. Half of the delay each way, no loss. An \
              endless queue, as in `embb`: excess packets wait here.",
        up: urllc,
        down: urllc,
        medium: medium::wire,
    },
    Preset {
        name: "wlan-strong",
        why: "An 802.11n channel at 65 Mbit/s (MCS 7, one antenna, 20 MHz), which both directions share with one neighbour: paper \
              4's receiver at -40 dBm, 24 dB above what MCS 7 wants (IEEE 802.11-2012, table 20-23). Frames fail only by \
              collision. The neighbour is on and off for 400 ms each on average: ours. The hop alone, without delay beyond the \
              air. Queues of 1000 packets: Linux's default.",
        up: LinkSpec::default,
        down: LinkSpec::default,
        medium: || medium::wlan(Wlan::STRONG),
    },
    Preset {
        name: "wlan-weak",
        why: "As `wlan-strong`, at 26 Mbit/s (MCS 3): paper 4's receiver at -58 dBm is 16 dB above what MCS 3 wants, a margin for \
              delays that move as much as the paper says (section 7). 5 % of the frames fail, and 90 % in fades of 60 ms each 2 s \
              on average: ours, because the paper gives only the signal.",
        up: LinkSpec::default,
        down: LinkSpec::default,
        medium: || medium::wlan(Wlan::WEAK),
    },
    Preset {
        name: "geo",
        why: "20 Mbit/s down, 2 up, RTT 600 ms: the geostationary link on which Endres et al. compare implementations of \
              QUIC (arXiv 2202.08228). Half of the delay each way; 240 to 279 ms of it are the way to the satellite and \
              back to earth (RFC 2488, section 2), the rest is access and coding. No loss: forward error correction. \
              Queues of 1000 packets: the product of rate and RTT on the way down.",
        up: || geo(2_000_000),
        down: || geo(20_000_000),
        medium: medium::wire,
    },
    Preset {
        name: "yardstick",
        why: "100 Mbit/s, 15 ms each way, no loss: the emulator's own yardstick, on which its rate and lateness are \
              certified. Queue of 1000 packets: four products of rate and RTT (375 kB), so that one flow fills the link.",
        up: yardstick,
        down: yardstick,
        medium: medium::wire,
    },
    Preset {
        name: "lan",
        why: "No rate limit, 0.2 ms each way: a switched Ethernet with idle ports, where hosts answer a ping in some 0.4 ms. No \
              loss; no queue, because no rate limit.",
        up: lan,
        down: lan,
        medium: medium::wire,
    },
];

/// The preset of that name.
pub fn find(name: &str) -> Result<&'static Preset, UnknownPreset> {
    ALL.iter().find(|preset| preset.name == name).ok_or_else(|| UnknownPreset { name: name.to_owned() })
}

/// All names.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|preset| preset.name).collect()
}

fn lte(bits_per_second: u64) -> LinkSpec {
    let delay = delay::normal(Duration::from_millis(9), Duration::from_micros(500));
    LinkSpec { rate: rate::constant(bits_per_second), delay, ..LinkSpec::default() }
}

fn umts(bits_per_second: u64) -> LinkSpec {
    let delay = delay::normal(Duration::from_millis(75), Duration::from_millis(10));
    LinkSpec { rate: rate::constant(bits_per_second), delay, ..LinkSpec::default() }
}

/// A row of paper 2's Table 1: the RTT in milliseconds and the share lost.
fn table_1(rtt_ms: u64, lost: f64) -> LinkSpec {
    let spec = LinkSpec::constant(100_000_000, Duration::from_millis(rtt_ms) / 2);
    if lost > 0.0 { spec.with_loss(loss::bernoulli(lost)) } else { spec }
}

fn embb() -> LinkSpec {
    LinkSpec::constant(1_500_000_000, Duration::from_millis(15)).with_queue(queue::infinite())
}

fn urllc() -> LinkSpec {
    LinkSpec::constant(2_000_000, Duration::from_micros(2500)).with_queue(queue::infinite())
}

fn geo(bits_per_second: u64) -> LinkSpec {
    LinkSpec::constant(bits_per_second, Duration::from_millis(300))
}

fn yardstick() -> LinkSpec {
    LinkSpec::constant(100_000_000, Duration::from_millis(15))
}

fn lan() -> LinkSpec {
    LinkSpec::default().with_delay(delay::constant(Duration::from_micros(200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_and_every_number_has_a_reason() {
        for preset in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == preset.name).count(), 1, "{}", preset.name);
            assert_eq!(find(preset.name).unwrap().why, preset.why);
            assert!(preset.why.len() > 40, "{}", preset.name);
        }
        assert_eq!(find("5g").unwrap_err().name, "5g");
    }

    /// A table of numbers: a change of a preset shows up in review as a change of this text.
    #[test]
    fn the_numbers_are_those_of_the_papers() {
        let table: Vec<String> = ALL
            .iter()
            .map(|p| match p.spec() {
                spec if spec.is_wire() => format!("{}: {} / {}", p.name, spec.up, spec.down),
                spec => format!("{}: {} / {} / {}", p.name, spec.up, spec.down, spec.medium),
            })
            .collect();
        let expected = [
            "lte: rate=constant:20mbit,delay=normal:9ms:500us,loss=none,queue=drop-tail:1000p / \
             rate=constant:129mbit,delay=normal:9ms:500us,loss=none,queue=drop-tail:1000p",
            "3g: rate=constant:2400kbit,delay=normal:75ms:10ms,loss=none,queue=drop-tail:1000p / \
             rate=constant:5400kbit,delay=normal:75ms:10ms,loss=none,queue=drop-tail:1000p",
            "good: rate=constant:100mbit,delay=constant:19ms,loss=none,queue=drop-tail:1000p / \
             rate=constant:100mbit,delay=constant:19ms,loss=bernoulli:0.01,queue=drop-tail:1000p",
            "average: rate=constant:100mbit,delay=constant:25ms,loss=none,queue=drop-tail:1000p / \
             rate=constant:100mbit,delay=constant:25ms,loss=bernoulli:0.02,queue=drop-tail:1000p",
            "bad: rate=constant:100mbit,delay=constant:94ms,loss=none,queue=drop-tail:1000p / \
             rate=constant:100mbit,delay=constant:94ms,loss=bernoulli:0.08,queue=drop-tail:1000p",
            "embb: rate=constant:1500mbit,delay=constant:15ms,loss=none,queue=infinite / \
             rate=constant:1500mbit,delay=constant:15ms,loss=none,queue=infinite",
            "urllc: rate=constant:2mbit,delay=constant:2500us,loss=none,queue=infinite / \
             rate=constant:2mbit,delay=constant:2500us,loss=none,queue=infinite",
            "wlan-strong: rate=unlimited,delay=constant:0ms,loss=none,queue=drop-tail:1000p / \
             rate=unlimited,delay=constant:0ms,loss=none,queue=drop-tail:1000p / \
             wlan:65mbit:1:400ms:400ms:0:0ms:0ms:0",
            "wlan-weak: rate=unlimited,delay=constant:0ms,loss=none,queue=drop-tail:1000p / \
             rate=unlimited,delay=constant:0ms,loss=none,queue=drop-tail:1000p / \
             wlan:26mbit:1:400ms:400ms:0.05:60ms:2s:0.9",
            "geo: rate=constant:2mbit,delay=constant:300ms,loss=none,queue=drop-tail:1000p / \
             rate=constant:20mbit,delay=constant:300ms,loss=none,queue=drop-tail:1000p",
            "yardstick: rate=constant:100mbit,delay=constant:15ms,loss=none,queue=drop-tail:1000p / \
             rate=constant:100mbit,delay=constant:15ms,loss=none,queue=drop-tail:1000p",
            "lan: rate=unlimited,delay=constant:200us,loss=none,queue=drop-tail:1000p / \
             rate=unlimited,delay=constant:200us,loss=none,queue=drop-tail:1000p",
        ];
        assert_eq!(table, expected);
    }
}
