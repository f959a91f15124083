//! How the emulator goes about its work: which kind of port, with which priority, what it records. Not what it emulates.

use super::gather::QUANTUM;
use headstart_core::time::{Duration, Instant};
use headstart_link::{DuplexSpec, initial_rate};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How packets get in and out of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// The kernel finishes each packet before the emulator sees it: the simplest, and quick enough for about 1 Gbit/s.
    SinglePackets,
    /// The kernel hands over super-packets of up to 64 KiB, unfinished; the emulator decides about each segment, and lets
    /// those leave together that are due within 50 us. For links that are too fast for single packets.
    SuperPackets,
}

impl PortKind {
    /// Links of more than 500 Mbit/s get super-packets: 42 000 packets a second, for which a system call and a walk
    /// through the kernel each would already take a good part of a processor.
    const SINGLE_PACKETS_UP_TO: f64 = 500e6;

    /// The kind for a link: super-packets if either direction is faster than single packets are good for.
    pub fn of(link: &DuplexSpec) -> Self {
        let fast = |spec| initial_rate(spec) > Self::SINGLE_PACKETS_UP_TO;
        // A shared medium takes the place of the rates, and none comes near 500 Mbit/s.
        if link.is_wire() && (fast(&link.up) || fast(&link.down)) { Self::SuperPackets } else { Self::SinglePackets }
    }

    /// The time within which segments leave together.
    pub(super) fn quantum(self) -> Duration {
        match self {
            Self::SinglePackets => Duration::ZERO,
            Self::SuperPackets => QUANTUM,
        }
    }
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SinglePackets => "single-packets",
            Self::SuperPackets => "super-packets",
        })
    }
}

/// Not a kind of port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of port `{0}`; choose one of single-packets, super-packets")]
pub struct UnknownPortKind(String);

impl FromStr for PortKind {
    type Err = UnknownPortKind;

    fn from_str(text: &str) -> Result<Self, UnknownPortKind> {
        [Self::SinglePackets, Self::SuperPackets]
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| UnknownPortKind(text.to_owned()))
    }
}

/// Is shown each packet that leaves the first end of a link, as it comes to the link: when, and the frame. It is called by the
/// emulator's thread, so it must not take long.
#[derive(Clone)]
pub struct Follower(Arc<Follow>);

/// What is called.
type Follow = dyn Fn(Instant, &[u8]) + Send + Sync;

impl Follower {
    /// One that calls `follow`.
    pub fn new(follow: impl Fn(Instant, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(follow))
    }

    /// A frame has come to its link.
    pub(super) fn show(&self, at: Instant, frame: &[u8]) {
        (self.0)(at, frame);
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kind of port; what suits the link if none.
    pub ports: Option<PortKind>,
    /// Whether to ask for real-time priority. Without the right to it, nothing is lost by asking.
    pub real_time: bool,
    /// A file for one line a packet, as JSON.
    pub events: Option<PathBuf>,
    /// A file for a capture of all links.
    pub pcapng: Option<PathBuf>,
    /// What is shown packets as they come, those included that are lost later.
    pub follower: Option<Follower>,
    /// Becomes true when one of these files cannot be written on; final when the network is gone.
    pub cut_off: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ports: None, real_time: true, events: None, pcapng: None, follower: None, cut_off: Arc::default() }
    }
}

impl Settings {
    /// The kind of port for a link.
    pub(super) fn ports_for(&self, link: &DuplexSpec) -> PortKind {
        self.ports.unwrap_or_else(|| PortKind::of(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PortKind::{SinglePackets, SuperPackets};
    use headstart_link::LinkSpec;

    #[test]
    fn a_link_that_is_fast_in_either_direction_gets_super_packets() {
        for (link, kind) in [
            ("rate=500mbit", SinglePackets),
            ("rate=501mbit", SuperPackets),
            ("delay=5ms", SuperPackets),
            ("rate=10mbit;rate=1gbit", SuperPackets),
            ("lte", SinglePackets),
            ("embb", SuperPackets),
            ("wlan-strong", SinglePackets),
        ] {
            let spec = headstart_link::parse_duplex(link).unwrap();
            assert_eq!(PortKind::of(&spec), kind, "{link}");
        }
    }

    #[test]
    fn a_trace_counts_by_its_rate() {
        let spec = |line: &str| {
            let trace = headstart_link::rate::Trace::parse("t", line).unwrap();
            LinkSpec::default().with_rate(headstart_link::rate::trace(trace))
        };
        let unhurried = || headstart_link::rate::constant(1_000_000);
        // 60 packets of 1500 bytes each millisecond are 720 Mbit/s, 12 are 144.
        for (packets, kind) in [(60, SuperPackets), (12, SinglePackets)] {
            let spec = spec(&"1\n".repeat(packets));
            assert_eq!(PortKind::of(&DuplexSpec::wire(LinkSpec::default().with_rate(unhurried()), spec)), kind);
        }
    }

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in [SinglePackets, SuperPackets] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("gso".parse::<PortKind>().unwrap_err().to_string().contains("super-packets"));
    }
}
