//! One direction of a link, driven by logical time.
//!
//! A packet meets loss, then the queue, then the rate, then the delay. All four work in the logical time that the packet
//! carries, not in the time at which the caller gets round to asking, so that a late caller changes nothing but its own
//! lateness. First in, first out: a packet that drew a short delay waits for the one before it. What never happens here:
//! a packet is never released early, altered, copied or reordered.

use std::collections::VecDeque;

use headstart_core::machine::Deadline;
use headstart_core::time::Instant;

use crate::delay::Delay;
use crate::loss::Loss;
use crate::queue::{Backlog, Queue};
use crate::rate::Rate;
use crate::{LinkSpec, seed};

/// What a link carries.
pub trait Packet {
    /// Bytes of the IP packet, headers included, link layer excluded.
    fn wire_len(&self) -> usize;
}

impl Packet for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }
}

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Dropped {
    /// The loss model chose it.
    #[error("lost on the link")]
    Lost,
    /// The queue model refused it.
    #[error("dropped: the queue is full")]
    QueueFull,
}

/// What one direction has carried so far. Bytes are those of the IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered, dropped ones included.
    pub packets_in: u64,
    /// Bytes offered, dropped ones included.
    pub bytes_in: u64,
    /// Packets released.
    pub packets_out: u64,
    /// Bytes released.
    pub bytes_out: u64,
    /// Packets that the loss model took.
    pub packets_lost: u64,
    /// Bytes that the loss model took.
    pub bytes_lost: u64,
    /// Packets that the queue refused.
    pub packets_dropped: u64,
    /// Bytes that the queue refused.
    pub bytes_dropped: u64,
}

impl Counters {
    /// Packets that are still inside.
    pub fn packets_held(&self) -> u64 {
        self.packets_in - self.packets_out - self.packets_lost - self.packets_dropped
    }
}

/// One direction of a link. See the module.
pub struct Link<P> {
    rate: Box<dyn Rate>,
    delay: Box<dyn Delay>,
    loss: Box<dyn Loss>,
    queue: Box<dyn Queue>,
    delay_rng: fastrand::Rng,
    loss_rng: fastrand::Rng,
    /// Packets that wait for the rate, each with its arrival.
    waiting: VecDeque<(Instant, P)>,
    backlog: Backlog,
    /// Starts and sizes of packets that left `waiting` later than the last arrival: a late caller polled past it.
    begun: VecDeque<(Instant, usize)>,
    /// Packets that the rate has begun to work on, each with its release; sorted, since order is kept.
    leaving: VecDeque<(Instant, P)>,
    last_arrival: Instant,
    last_release: Instant,
    counters: Counters,
}

impl<P: Packet> Link<P> {
    /// An empty link. The same `spec`, `seed` and pushes give the same releases.
    pub fn new(spec: &LinkSpec, seed: u64) -> Self {
        Self {
            rate: spec.rate.build(),
            delay: spec.delay.build(),
            loss: spec.loss.build(),
            queue: spec.queue.build(),
            delay_rng: seed::stage(seed, 0),
            loss_rng: seed::stage(seed, 1),
            waiting: VecDeque::new(),
            backlog: Backlog::default(),
            begun: VecDeque::new(),
            leaving: VecDeque::new(),
            last_arrival: Instant::ZERO,
            last_release: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    /// A packet arrives. `at` is its logical arrival, which may be earlier than the caller's now; one that is earlier
    /// than the arrival before it counts as simultaneous with that. Whether the caller has polled past `at` already makes
    /// no difference to what is dropped or released.
    pub fn push(&mut self, at: Instant, packet: P) -> Result<(), Dropped> {
        let at = at.max(self.last_arrival);
        self.last_arrival = at;
        let bytes = packet.wire_len();
        self.counters.packets_in += 1;
        self.counters.bytes_in += bytes as u64;
        if self.loss.loses(&mut self.loss_rng) {
            self.counters.packets_lost += 1;
            self.counters.bytes_lost += bytes as u64;
            return Err(Dropped::Lost);
        }
        self.work_until(at);
        // A packet that finds the server idle never waits, so the smallest queue still passes it.
        let at_once = self.waiting.is_empty() && self.rate.start(at) <= at;
        let backlog = self.backlog_at(at);
        if !at_once && !self.queue.admits(at, bytes, backlog) {
            self.counters.packets_dropped += 1;
            self.counters.bytes_dropped += bytes as u64;
            return Err(Dropped::QueueFull);
        }
        self.backlog.packets += 1;
        self.backlog.bytes += bytes;
        self.waiting.push_back((at, packet));
        self.work_until(at);
        Ok(())
    }

    /// The next packet whose release is not later than `now`, with its exact logical release.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, P)> {
        let due = |leaving: &VecDeque<(Instant, P)>| leaving.front().is_some_and(|(release, _)| *release <= now);
        if !due(&self.leaving) {
            self.work_until(now);
            if !due(&self.leaving) {
                return None;
            }
        }
        let (release, packet) = self.leaving.pop_front()?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += packet.wire_len() as u64;
        Some((release, packet))
    }

    /// When to poll next; `None` while the link is empty. Polling later loses nothing.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        // What still waits can only leave after what is already leaving.
        match (self.leaving.front(), self.waiting.front()) {
            (Some((release, _)), _) => Some(Deadline { at: *release, why: "link release" }),
            (None, Some((arrival, _))) => Some(Deadline { at: self.rate.start(*arrival), why: "link start" }),
            (None, None) => None,
        }
    }

    /// What was carried so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What waits for the rate, as of the last push or poll.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// What waits at `at`, the time of the newest arrival: also what has begun since, if the caller polled past it.
    fn backlog_at(&mut self, at: Instant) -> Backlog {
        while self.begun.front().is_some_and(|(start, _)| *start <= at) {
            self.begun.pop_front();
        }
        let mut backlog = self.backlog;
        for (_, bytes) in &self.begun {
            backlog.packets += 1;
            backlog.bytes += bytes;
        }
        backlog
    }

    /// Lets the rate begin all the work that it begins until `now`.
    fn work_until(&mut self, now: Instant) {
        while let Some((arrival, _)) = self.waiting.front() {
            let start = self.rate.start(*arrival);
            if start > now {
                return;
            }
            let Some((_, packet)) = self.waiting.pop_front() else { return };
            let bytes = packet.wire_len();
            self.backlog.packets -= 1;
            self.backlog.bytes -= bytes;
            if start > self.last_arrival {
                self.begun.push_back((start, bytes));
            }
            let through = self.rate.serve(start, bytes);
            let release = (through + self.delay.draw(&mut self.delay_rng)).max(self.last_release);
            self.last_release = release;
            self.leaving.push_back((release, packet));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use headstart_core::time::Duration;

    fn link(text: &str) -> Link<Vec<u8>> {
        Link::new(&parse(text).unwrap().0, 1)
    }

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_packet_takes_its_serialisation_and_the_delay() {
        let mut link = link("rate=12mbit,delay=15ms");
        link.push(ms(3), vec![0; 1500]).unwrap();
        let deadline = link.poll_timeout().unwrap();
        assert_eq!((deadline.at, deadline.why), (ms(19), "link release"));
        assert_eq!(link.poll(Instant::from_nanos(ms(19).as_nanos() - 1)), None);
        assert_eq!(link.poll(ms(100)).map(|(at, packet)| (at, packet.len())), Some((ms(19), 1500)));
        assert_eq!(link.poll_timeout(), None);
    }

    #[test]
    fn asking_late_does_not_shift_what_follows() {
        let mut link = link("rate=12mbit,delay=15ms");
        for _ in 0..3 {
            link.push(ms(0), vec![0; 1500]).unwrap();
        }
        let releases: Vec<_> = std::iter::from_fn(|| link.poll(ms(500))).map(|(at, _)| at).collect();
        assert_eq!(releases, [ms(16), ms(17), ms(18)]);
        // The logical arrival counts, not the moment of the last poll.
        link.push(ms(30), vec![0; 1500]).unwrap();
        assert_eq!(link.poll(ms(500)).map(|(at, _)| at), Some(ms(46)));
    }

    #[test]
    fn a_full_queue_drops_what_comes_and_says_why() {
        let mut link = link("rate=12mbit,queue=2p");
        let taken: Vec<_> = (0..4).map(|_| link.push(ms(0), vec![0; 1500])).collect();
        // One is on the wire, two wait.
        assert_eq!(taken, [Ok(()), Ok(()), Ok(()), Err(Dropped::QueueFull)]);
        assert_eq!(link.push(Instant::from_nanos(999_999), vec![0; 1500]), Err(Dropped::QueueFull));
        assert_eq!(link.push(ms(1), vec![0; 1500]), Ok(()));
        let counters = link.counters();
        assert_eq!((counters.packets_in, counters.packets_dropped, counters.bytes_dropped), (6, 2, 3000));
        assert_eq!(counters.packets_held(), 4);
    }

    #[test]
    fn the_smallest_queue_passes_what_finds_the_line_idle() {
        let mut link = link("rate=12mbit,queue=100b");
        assert_eq!(link.push(ms(0), vec![0; 1500]), Ok(()));
        assert_eq!(link.push(ms(0), vec![0; 1500]), Err(Dropped::QueueFull));
        assert_eq!(link.push(ms(1), vec![0; 1500]), Ok(()));
    }

    #[test]
    fn a_short_delay_never_overtakes_a_long_one() {
        let mut link = link("delay=uniform:1ms:50ms");
        for k in 0..500u64 {
            link.push(ms(k), k.to_be_bytes().to_vec()).unwrap();
        }
        let out: Vec<_> = std::iter::from_fn(|| link.poll(ms(10_000))).collect();
        assert!(out.is_sorted_by_key(|(at, _)| *at));
        assert!(out.iter().enumerate().all(|(k, (_, packet))| *packet == (k as u64).to_be_bytes()));
        assert_eq!(out.len(), 500);
    }

    #[test]
    fn an_arrival_before_the_last_counts_as_simultaneous() {
        let mut link = link("delay=1ms");
        link.push(ms(5), vec![1]).unwrap();
        link.push(ms(4), vec![2]).unwrap();
        assert_eq!(link.poll(ms(9)), Some((ms(6), vec![1])));
        assert_eq!(link.poll(ms(9)), Some((ms(6), vec![2])));
    }

    #[test]
    fn the_rate_of_a_saturated_link_holds_to_a_thousandth() {
        for (text, rate) in [("rate=129mbit", 129e6), ("rate=2400kbit", 2.4e6), ("rate=1500mbit", 1.5e9)] {
            let mut link = link(&format!("{text},queue=infinite"));
            let size = 1400;
            let count = (rate * 0.5 / 8.0 / size as f64) as u64;
            for _ in 0..count {
                link.push(ms(0), vec![0; size]).unwrap();
            }
            let end = std::iter::from_fn(|| link.poll(ms(60_000))).last().unwrap().0;
            let found = link.counters().bytes_out as f64 * 8.0 / (end - ms(0)).as_secs_f64();
            assert!((found / rate - 1.0).abs() < 0.001, "{text}: {found}");
        }
    }

    #[test]
    fn a_trace_carries_its_mean_rate() {
        let trace = crate::rate::Trace::parse("t", "1\n1\n4\n7\n").unwrap();
        let wanted = trace.bits_per_second();
        let spec = LinkSpec::default().with_rate(crate::rate::trace(trace)).with_queue(crate::queue::infinite());
        let mut link = Link::new(&spec, 1);
        for _ in 0..20_000 {
            link.push(ms(0), vec![0u8; 700]).unwrap();
        }
        let end = std::iter::from_fn(|| link.poll(Instant::FAR_FUTURE)).last().unwrap().0;
        let found = link.counters().bytes_out as f64 * 8.0 / (end - ms(0)).as_secs_f64();
        assert!((found / wanted - 1.0).abs() < 0.001, "{found} against {wanted}");
    }

    #[test]
    fn a_delay_that_outlives_the_clock_saturates() {
        let spec = LinkSpec::constant(1, Duration::MAX);
        let mut link = Link::new(&spec, 1);
        link.push(ms(1), vec![0; 1500]).unwrap();
        assert_eq!(link.poll_timeout().map(|d| d.at), Some(Instant::FAR_FUTURE));
    }
}
