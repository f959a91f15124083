//! How well the emulator kept its word: the lateness of every packet, and what it dropped and why.
//!
//! Lateness is the moment at which the send call for a packet returned, less the moment at which the packet was due.
//! A run is valid if the 99th percentile of that, with nothing subtracted, is at most the larger of 0.5 ms and 2 % of the
//! delay that was emulated, and if no packet was lost other than by the models. The histogram's buckets are 3 % wide and
//! percentiles are the upper edges of their buckets: never flattering.

use super::settings::PortKind;
use headstart_core::time::{Duration, Instant};
use headstart_link::Dropped;
use serde::{Deserialize, Serialize};
use std::fmt;

/// 0.5 ms: lateness that is always tolerated.
const TOLERATED: Duration = Duration::from_micros(500);
/// 2 % of the delay is tolerated too, where that is more.
const TOLERATED_PART: f64 = 0.02;

/// Packets that did not come out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// The loss model took them.
    pub lost: u64,
    /// The queue model refused them, or dropped them from its head.
    pub queue_full: u64,
    /// Their peer is a black hole.
    pub black_hole: u64,
    /// The kernel dropped them before the emulator read them. Not modelled: makes a run invalid.
    pub overflow: u64,
    /// Larger than any frame that the emulator takes in, or unfinished in a way that it does not know (a super-packet inside
    /// a tunnel of the kernel's). Not modelled: makes a run invalid.
    pub oversize: u64,
    /// The kernel refused to send them. Not modelled: makes a run invalid.
    pub send_failed: u64,
}

impl Drops {
    /// Those that no model has dropped.
    fn not_modelled(&self) -> u64 {
        self.overflow + self.oversize + self.send_failed
    }
}

/// In words: `none`, or `40 by the queue, 12 not read in time`.
impl fmt::Display for Drops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            (self.lost, "by the loss model"),
            (self.queue_full, "by the queue"),
            (self.black_hole, "in black holes"),
            (self.overflow, "not read in time"),
            (self.oversize, "too large for the emulator"),
            (self.send_failed, "refused by the kernel"),
        ];
        let some: Vec<_> = reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
        if some.is_empty() { f.write_str("none") } else { f.write_str(&some.join(", ")) }
    }
}

/// Percentiles of a lateness, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The latest packet.
    pub max_us: f64,
}

/// The emulator's account of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Whether measurements made over this emulator may be believed; see the module.
    pub valid: bool,
    /// Emulated packets that came out.
    pub packets: u64,
    /// Whether the emulator was still at work. If not, what it never read is in no count here.
    pub running: bool,
    /// Packets that passed without emulation (ARP, neighbour discovery, multicast).
    pub passed: u64,
    /// Packets that left before their moment. Zero, or the emulator is broken.
    pub early: u64,
    /// Packets that did not come out.
    pub drops: Drops,
    /// Gross lateness.
    pub lateness: Lateness,
    /// The largest 99th percentile with which a run is valid, in microseconds.
    pub allowed_us: f64,
    /// The shortest delay that a packet was due to have, in microseconds; what the allowance is computed from.
    pub least_delay_us: f64,
    /// Median lateness of probes sent through an idle emulator at the start, in microseconds: part of every delay.
    pub bias_us: f64,
    /// Lateness less the bias.
    pub net_lateness: Lateness,
    /// Whether the emulator ran with real-time priority.
    pub real_time_priority: bool,
    /// The kind of port; of several, the one for fast links.
    pub ports: PortKind,
    /// Frames that those packets left in: fewer than packets if neighbours left together.
    pub frames: u64,
    /// Bytes of those packets, from the IP header on.
    pub bytes: u64,
    /// Time that the emulator spent on a processor, in seconds, spinning included.
    pub cpu_s: f64,
    /// Packets that should be in the records (see `Settings`) and are not: what was written does not tell all.
    pub unrecorded: u64,
}

impl Certificate {
    /// Processor time of the emulator for each gigabyte (10^9 bytes) that it carried, in seconds; none if it carried none.
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_s / (self.bytes as f64 / 1e9))
    }
}

impl Certificate {
    /// Whether every packet came out that its models let through, and none early: what remains to be asked of a measurement in which
    /// late packets are as late on both sides of a comparison.
    pub fn is_whole(&self) -> bool {
        self.running && self.early + self.drops.not_modelled() == 0
    }

    /// Why what was measured behind these links may not be believed, with the figures and what to do; none if it may.
    pub fn doubt(&self) -> Option<String> {
        let why = || {
            format!(
                "the emulated link could not keep its times: p99 {:.0} us late (allowed: {:.0} us), {} packets early, \
                 packets dropped: {}{}; close other programs and try again",
                self.lateness.p99_us,
                self.allowed_us,
                self.early,
                self.drops,
                if self.running { "" } else { ", and the emulator has ended, its sockets gone" }
            )
        };
        (!self.valid).then(why)
    }
}

/// Counts while the emulator runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    lateness: Histogram,
    probes: Histogram,
    least_delay: Option<Duration>,
    early: u64,
    pub passed: u64,
    pub drops: Drops,
    pub real_time_priority: bool,
    pub super_packets: bool,
    pub frames: u64,
    pub cpu: Duration,
    bytes: u64,
}

impl Tally {
    /// A packet of `bytes` that came in at `arrived` and was due at `due` has left at `left`.
    pub fn left(&mut self, arrived: Instant, due: Instant, left: Instant, bytes: usize) {
        self.bytes += bytes as u64;
        self.early += u64::from(left < due);
        self.lateness.add(left - due);
        let delay = due - arrived;
        self.least_delay = Some(self.least_delay.map_or(delay, |least| least.min(delay)));
    }

    /// A probe that was due at `due` has left at `left`.
    pub fn probe(&mut self, due: Instant, left: Instant) {
        self.probes.add(left - due);
    }

    /// Begins a new account: what has been counted is forgotten; what the emulator is stays.
    pub fn begin_anew(&mut self) {
        let (probes, cpu) = (std::mem::take(&mut self.probes), self.cpu);
        let (real_time_priority, super_packets) = (self.real_time_priority, self.super_packets);
        *self = Self { probes, real_time_priority, super_packets, cpu, ..Self::default() };
    }

    /// The link dropped a packet.
    pub fn dropped(&mut self, reason: Dropped) {
        match reason {
            Dropped::Lost => self.drops.lost += 1,
            Dropped::QueueFull | Dropped::QueueDelay => self.drops.queue_full += 1,
        }
    }

    /// The account as of now, of an emulator that is at work.
    pub fn certificate(&self) -> Certificate {
        let bias = self.probes.percentile(0.5);
        let of = |less: Duration| {
            let us = |d: Duration| d.saturating_sub(less).as_nanos() as f64 / 1e3;
            Lateness {
                p50_us: us(self.lateness.percentile(0.5)),
                p99_us: us(self.lateness.percentile(0.99)),
                max_us: us(self.lateness.max),
            }
        };
        let least = self.least_delay.unwrap_or_default();
        let allowed = TOLERATED.max(least.mul_f64(TOLERATED_PART));
        let kept = self.early + self.drops.not_modelled() == 0;
        Certificate {
            valid: kept && self.lateness.percentile(0.99) <= allowed,
            packets: self.lateness.count,
            running: true,
            passed: self.passed,
            early: self.early,
            drops: self.drops,
            lateness: of(Duration::ZERO),
            allowed_us: allowed.as_nanos() as f64 / 1e3,
            least_delay_us: least.as_nanos() as f64 / 1e3,
            bias_us: bias.as_nanos() as f64 / 1e3,
            net_lateness: of(bias),
            real_time_priority: self.real_time_priority,
            ports: if self.super_packets { PortKind::SuperPackets } else { PortKind::SinglePackets },
            frames: self.frames,
            bytes: self.bytes,
            cpu_s: self.cpu.as_secs_f64(),
            unrecorded: 0,
        }
    }
}

/// Sub-buckets of a power of two; 32 make buckets 3 % wide.
const FINE: u64 = 32;
const FINE_BITS: u32 = FINE.trailing_zeros();
/// Up to 2^40 ns, 18 minutes; what is later counts in the last bucket.
const BUCKETS: usize = (40 - FINE_BITS as usize + 1) * FINE as usize;

/// Durations in buckets whose width grows with their value.
#[derive(Clone, Debug)]
struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

impl Histogram {
    fn add(&mut self, d: Duration) {
        let nanos = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(FINE_BITS + 1);
        let bucket = u64::from(shift) * FINE + (nanos >> shift);
        self.buckets[(bucket as usize).min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.max = self.max.max(d);
    }

    /// The value that at least the share `q` of the durations do not exceed; zero if there are none.
    fn percentile(&self, q: f64) -> Duration {
        let wanted = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|n| {
            seen += n;
            seen >= wanted
        });
        found.map_or(Duration::ZERO, |bucket| upper_edge(bucket as u64).min(self.max))
    }
}

/// The largest value that falls into `bucket`.
fn upper_edge(bucket: u64) -> Duration {
    let shift = (bucket / FINE).saturating_sub(1);
    let fine = bucket - shift * FINE;
    Duration::from_nanos(((fine + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::from_nanos(n * 1000)
    }

    #[test]
    fn every_duration_lies_in_a_bucket_whose_edge_is_at_most_one_part_in_32_above_it() {
        for nanos in (0..70).chain((0..39).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + (1 << e) / 3])) {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_nanos(nanos));
            let bucket = histogram.buckets.iter().position(|n| *n == 1).unwrap() as u64;
            let edge = upper_edge(bucket).as_nanos() as u64;
            assert!(edge >= nanos && edge - nanos <= nanos / 32, "{nanos} in a bucket up to {edge}");
        }
    }

    #[test]
    fn a_new_account_knows_nothing_of_what_was_late_before() {
        let mut tally = Tally { real_time_priority: true, ..Tally::default() };
        tally.probe(us(10), us(30));
        tally.left(us(0), us(10), us(2000), 100);
        assert!(!tally.certificate().valid);
        tally.begin_anew();
        tally.left(us(0), us(10), us(30), 100);
        let certificate = tally.certificate();
        assert!(certificate.valid && certificate.real_time_priority, "{certificate:?}");
        assert_eq!((certificate.packets, certificate.bytes), (1, 100));
        assert!((certificate.bias_us - 20.0).abs() < 1.0, "{certificate:?}");
    }

    #[test]
    fn percentiles_are_those_of_the_packets() {
        let mut tally = Tally::default();
        for n in 1..=100 {
            tally.left(us(0), us(15_000), us(15_000 + n), 1500);
        }
        let certificate = tally.certificate();
        assert!((50.0..52.0).contains(&certificate.lateness.p50_us), "{certificate:?}");
        assert!((99.0..=100.0).contains(&certificate.lateness.p99_us), "{certificate:?}");
        assert_eq!((certificate.packets, certificate.lateness.max_us), (100, 100.0));
        assert!(certificate.valid);
    }

    #[test]
    fn the_allowance_grows_with_the_delay() {
        for (delay_us, late_us, valid) in [(15_000, 600, false), (15_000, 480, true), (50_000, 900, true)] {
            let mut tally = Tally::default();
            tally.left(us(0), us(delay_us), us(delay_us + late_us), 1500);
            assert_eq!(tally.certificate().valid, valid, "{late_us} us late over {delay_us} us");
        }
    }

    #[test]
    fn a_packet_lost_by_anything_but_the_models_spoils_the_run() {
        let mut tally = Tally::default();
        tally.dropped(Dropped::Lost);
        tally.drops.black_hole += 1;
        assert!(tally.certificate().valid);
        tally.drops.overflow += 1;
        assert!(!tally.certificate().valid);
    }

    #[test]
    fn a_doubt_names_what_is_wrong_and_what_is_valid_is_not_doubted() {
        let mut tally = Tally::default();
        tally.left(us(0), us(1000), us(1010), 1500);
        assert_eq!(tally.certificate().doubt(), None);
        let ended = Certificate { valid: false, running: false, ..tally.certificate() };
        assert!(ended.doubt().unwrap().contains("the emulator has ended"));
        tally.left(us(0), us(1000), us(999), 1500);
        let doubt = tally.certificate().doubt().unwrap();
        assert!(doubt.contains("1 packets early") && !doubt.contains("has ended"), "{doubt}");
        assert!(doubt.contains("packets dropped: none;"), "{doubt}");
        (tally.drops.overflow, tally.drops.send_failed) = (12, 3);
        let doubt = tally.certificate().doubt().unwrap();
        assert!(doubt.contains("packets dropped: 12 not read in time, 3 refused by the kernel;"), "{doubt}");
    }

    #[test]
    fn the_bias_is_reported_beside_the_gross_figure_never_instead_of_it() {
        let mut tally = Tally::default();
        tally.probe(us(0), us(20));
        tally.left(us(0), us(1000), us(1050), 1500);
        let certificate = tally.certificate();
        assert!((certificate.bias_us - 20.0).abs() < 1.0);
        assert!((certificate.lateness.p50_us - 50.0).abs() < 1.0);
        assert!((certificate.net_lateness.p50_us - 30.0).abs() < 1.0);
    }
}
