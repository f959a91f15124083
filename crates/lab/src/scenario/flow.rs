//! What a scenario sends, and what became of it.
//!
//! Three kinds of traffic: a TCP connection that carries bytes one way, datagrams at a steady rate, and pings (datagrams
//! that are sent back). Quantities are written as in links.

use crate::stats;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};

/// Bytes of a ping's payload: room for a number and a time, as `ping` sends.
pub const PING_BYTES: usize = 56;
/// Bytes that a datagram's payload has at least: its number and its time.
pub const LEAST_BYTES: usize = 16;
/// Bytes that a datagram's payload has at most, so that no family fragments it.
pub const MOST_BYTES: usize = 1400;

/// How long the last datagram of a flow may be under way before it counts as lost.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// A connection that carries this many bytes from `from` to `to`.
    Tcp {
        /// Bytes of the stream.
        bytes: u64,
        /// The congestion control of the sender, by Linux's name; CUBIC if none.
        congestion: Option<String>,
    },
    /// Datagrams at a steady rate.
    Datagrams {
        /// Bytes of payload in each.
        size: usize,
        /// From one to the next.
        gap: Duration,
        /// How many.
        count: u64,
    },
    /// Datagrams that `to` sends back.
    Ping {
        /// From one to the next.
        gap: Duration,
        /// How many.
        count: u64,
    },
}

impl Traffic {
    /// Its name in files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Datagrams { .. } => "datagrams",
            Self::Ping { .. } => "ping",
        }
    }

    /// Payload, gap and number of its datagrams; none for a connection.
    pub fn datagrams(&self) -> Option<(usize, Duration, u64)> {
        match *self {
            Self::Tcp { .. } => None,
            Self::Datagrams { size, gap, count } => Some((size, gap, count)),
            Self::Ping { gap, count } => Some((PING_BYTES, gap, count)),
        }
    }
}

/// A flow of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The node that begins, by its place in the scenario.
    pub from: usize,
    /// The node at the other end.
    pub to: usize,
    /// The link whose address of `to` is used; that of the shortest way if none.
    pub over: Option<usize>,
    /// Family of the addresses.
    pub family: Family,
    /// When it begins, from the start of the scenario.
    pub start: Duration,
    /// What it sends.
    pub traffic: Traffic,
    /// Line of the file, for messages.
    pub(super) line: usize,
}

/// What became of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Bytes of payload that arrived.
    pub bytes: u64,
    /// Datagrams that were sent, and those that came through (came back, of pings); 0 of a connection.
    pub datagrams: (u64, u64),
    /// From the start of the flow to its last byte; none if it was given up, and of datagrams.
    pub completion: Option<Duration>,
    /// One-way delays of datagrams, round-trip times of pings, in the order of arrival.
    pub delays: Vec<Duration>,
}

/// One figure of a flow, for tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its name: most telling word first.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value; none if the flow did not get that far.
    pub value: Option<f64>,
}

impl Measured {
    /// Nothing has happened.
    pub(super) fn nothing() -> Self {
        Self { bytes: 0, datagrams: (0, 0), completion: None, delays: Vec::new() }
    }

    /// The figures that tell of this kind of traffic.
    pub fn figures(&self, traffic: &Traffic) -> Vec<Figure> {
        let millis = |d: Duration| d.as_secs_f64() * 1e3;
        let delays: Vec<f64> = self.delays.iter().copied().map(millis).collect();
        let delay = |share| stats::quantile(&delays, share).ok();
        let (sent, arrived) = self.datagrams;
        let lost = (sent > 0).then(|| (sent - arrived.min(sent)) as f64 / sent as f64 * 100.0);
        match traffic {
            Traffic::Tcp { .. } => {
                let rate =
                    self.completion.filter(|d| !d.is_zero()).map(|d| self.bytes as f64 * 8.0 / d.as_secs_f64() / 1e6);
                vec![
                    Figure { metric: "completion", unit: "ms", value: self.completion.map(millis) },
                    Figure { metric: "goodput", unit: "Mbit/s", value: rate },
                ]
            }
            Traffic::Datagrams { .. } => vec![
                Figure { metric: "delay-p50", unit: "ms", value: delay(0.5) },
                Figure { metric: "delay-p99", unit: "ms", value: delay(0.99) },
                Figure { metric: "lost", unit: "%", value: lost },
            ],
            Traffic::Ping { .. } => vec![
                Figure { metric: "rtt-p50", unit: "ms", value: delay(0.5) },
                Figure { metric: "rtt-p99", unit: "ms", value: delay(0.99) },
                Figure { metric: "lost", unit: "%", value: lost },
            ],
        }
    }
}

/// When datagram number `n` of a flow is due.
pub fn due(start: Instant, gap: Duration, n: u64) -> Instant {
    let gap = u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
    start + Duration::from_nanos(gap.saturating_mul(n))
}
