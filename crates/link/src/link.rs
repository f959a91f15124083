//! One direction of a link, driven by logical time.
//!
//! A packet meets loss, then the queue, then the rate, then the delay. All four work in the logical time that the packet
//! carries, not in the time at which the caller gets round to asking, so that a late caller changes nothing but its own
//! lateness. First in, first out: a packet that drew a short delay waits for the one before it, unless the specification
//! says `order=free`. What never happens here: a packet is never released early, and never altered or copied but by
//! [`Mishaps`](crate::Mishaps) that the specification asks for.

use headstart_core::machine::Deadline;
use headstart_core::time::Instant;

use crate::lane::Lane;
use crate::queue::Backlog;
use crate::rate::Rate;
use crate::{Counters, Dropped, LinkSpec, Outcome, Packet};

/// One direction of a link on a wire of its own. See the module; two directions, whatever joins them, are a
/// [`Duplex`](crate::Duplex).
pub struct Link<P> {
    rate: Box<dyn Rate>,
    /// When the rate before this one is through with what it has begun.
    free: Instant,
    lane: Lane<P>,
}

impl<P: Packet> Link<P> {
    /// An empty link. The same `spec`, `seed` and pushes give the same releases.
    pub fn new(spec: &LinkSpec, seed: u64) -> Self {
        Self { rate: spec.rate.build(), free: Instant::ZERO, lane: Lane::new(spec, seed) }
    }

    /// Becomes another link at `at`: what is under way comes out when it was to, what waits is served by the new rate, and what arrives
    /// from now on meets the new loss and the new queue.
    pub fn change(&mut self, at: Instant, spec: &LinkSpec) {
        self.work_until(at);
        self.free = self.start(at);
        self.rate = spec.rate.build();
        self.lane.change(spec);
    }

    /// A packet arrives. `at` is its logical arrival, which may be earlier than the caller's now; one that is earlier
    /// than the arrival before it counts as simultaneous with that. Whether the caller has polled past `at` already makes
    /// no difference to what is dropped or released, unless the queue drops from its head
    /// ([`Queue::drops_heads`](crate::queue::Queue::drops_heads)): it cannot know of packets that it has not been shown.
    pub fn push(&mut self, at: Instant, packet: P) -> Result<(), Dropped> {
        let at = self.lane.arrive(at, packet.wire_len())?;
        self.work_until(at);
        // A packet that finds the server idle never waits, so the smallest queue still passes it.
        let at_once = self.lane.head().is_none() && self.start(at) <= at;
        self.lane.join(at, packet, at_once)?;
        self.work_until(at);
        Ok(())
    }

    /// The next packet whose release is not later than `now`, with its exact logical release. Packets that were dropped
    /// on the way are passed over; [`Link::poll_outcome`] hands them out too.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, P)> {
        loop {
            match self.poll_outcome(now)? {
                Outcome::Released(release, packet) => return Some((release, packet)),
                Outcome::Dropped(..) => {}
            }
        }
    }

    /// The next packet that has come to an end until `now`: released, or dropped after it was taken. Releases are in the
    /// order of time, and so are drops, but a drop may be found out after a later release.
    #[inline]
    pub fn poll_outcome(&mut self, now: Instant) -> Option<Outcome<P>> {
        self.work_before(now);
        self.lane.end(now)
    }

    /// The moment of what [`Link::poll_outcome`] would tell.
    pub(crate) fn next_end(&mut self, now: Instant) -> Option<Instant> {
        self.work_before(now);
        self.lane.next_end().filter(|at| *at <= now)
    }

    /// Works until `now` if that may change what comes out next.
    #[inline]
    fn work_before(&mut self, now: Instant) {
        if self.lane.overtakes() || self.lane.next_release().is_none_or(|release| release > now) {
            self.work_until(now);
        }
    }

    /// When to poll next; `None` while the link is empty. Polling later loses nothing.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let release = self.lane.next_end().map(|at| Deadline { at, why: "link release" });
        if release.is_some() && !self.lane.overtakes() {
            // What still waits can only leave after what is already leaving.
            return release;
        }
        let start = self.lane.head().map(|arrival| Deadline { at: self.start(arrival), why: "link start" });
        [release, start].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    /// What was carried so far.
    pub fn counters(&self) -> Counters {
        self.lane.counters()
    }

    /// What waits for the rate, as of the last push or poll.
    pub fn backlog(&self) -> Backlog {
        self.lane.backlog()
    }

    /// When work on a packet begins that waits since `ready`.
    #[inline]
    fn start(&self, ready: Instant) -> Instant {
        self.rate.start(ready.max(self.free))
    }

    /// Lets the rate begin all the work that it begins until `now`.
    #[inline]
    fn work_until(&mut self, now: Instant) {
        while let Some(arrival) = self.lane.head() {
            let mut start = self.start(arrival);
            if start > now {
                return;
            }
            self.lane.cull(start);
            // The packet that is at the head now may have come too late for this start.
            match self.lane.head() {
                Some(next) if next != arrival => start = self.start(next),
                Some(_) => {}
                None => return,
            }
            if start > now {
                return;
            }
            let Some(packet) = self.lane.take(start) else { return };
            let through = self.rate.serve(start, packet.wire_len());
            self.lane.depart(through, packet);
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
    fn with_free_order_a_short_delay_overtakes_and_no_packet_is_early_or_missing() {
        let mut link = link("delay=uniform:1ms:50ms,order=free");
        for k in 0..500u64 {
            link.push(ms(k), k.to_be_bytes().to_vec()).unwrap();
        }
        let out: Vec<(Instant, u64)> = std::iter::from_fn(|| link.poll(ms(10_000)))
            .map(|(at, packet)| (at, u64::from_be_bytes(packet.try_into().unwrap())))
            .collect();
        assert!(out.is_sorted_by_key(|(at, _)| *at));
        assert!(!out.is_sorted_by_key(|(_, number)| *number));
        assert!(out.iter().all(|(at, number)| (ms(number + 1)..=ms(number + 50)).contains(at)));
        let mut numbers: Vec<u64> = out.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..500));
    }

    #[test]
    fn a_controlled_queue_holds_the_delay_of_a_flow_that_heeds_drops_and_says_what_it_dropped() {
        // 12 Mbit/s is a packet each millisecond. The sender slows down by a tenth for each drop, and else speeds up.
        let run = |queue: &str| {
            let mut link = link(&format!("rate=12mbit,queue={queue}"));
            let (mut now, mut gap, mut drops, mut waits) = (Instant::ZERO, 900_000.0, 0, Vec::new());
            while now < ms(30_000) {
                while let Some(outcome) = link.poll_outcome(now) {
                    match outcome {
                        Outcome::Released(at, packet) => {
                            let sent = u64::from_be_bytes(packet[..8].try_into().unwrap());
                            waits.push((at - Instant::from_nanos(sent)).as_millis());
                        }
                        Outcome::Dropped(at, why, _) => {
                            assert!(at <= now);
                            assert_eq!(why, Dropped::QueueDelay);
                            gap *= 1.1;
                            drops += 1;
                        }
                    }
                }
                let mut packet = now.as_nanos().to_be_bytes().to_vec();
                packet.resize(1500, 0);
                link.push(now, packet).unwrap();
                gap = f64::max(gap * 0.9998, 500_000.0);
                now += Duration::from_nanos(gap as u64);
            }
            let counters = link.counters();
            assert_eq!(counters.packets_dropped, drops);
            assert_eq!(counters.packets_in, counters.packets_out + drops + counters.packets_held());
            let later = &mut waits[10_000..];
            later.sort_unstable();
            (drops, later[later.len() / 2])
        };
        let (drops, median) = run("codel:5ms:100ms:100000p");
        assert!(drops > 5, "{drops}");
        assert!(median < 20, "{median} ms");
        let (drops, median) = run("infinite");
        assert_eq!(drops, 0);
        assert!(median > 1000, "{median} ms");
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
    fn a_link_that_becomes_another_finishes_what_it_has_begun() {
        let mut link = link("rate=12mbit,delay=15ms,queue=2p");
        for _ in 0..3 {
            link.push(ms(0), vec![0; 1500]).unwrap();
        }
        // The first is under way, the second is half through; the third takes 10 ms now, and no delay, but overtakes none.
        let slow = parse("rate=1200kbit,queue=3p").unwrap().0;
        link.change(Instant::from_nanos(1_500_000), &slow);
        let waits: Vec<_> = (0..3).map(|_| link.push(ms(2), vec![0; 1500]).is_ok()).collect();
        assert_eq!(waits, [true, true, true], "the third is with the rate, so that all three places are free");
        assert_eq!(link.push(ms(2), vec![0; 1500]), Err(Dropped::QueueFull));
        let releases: Vec<_> = std::iter::from_fn(|| link.poll(ms(500))).map(|(at, _)| at).collect();
        assert_eq!(releases, [16, 17, 17, 22, 32, 42].map(ms));
        assert_eq!(link.counters().packets_held(), 0);
    }

    #[test]
    fn packets_that_overtake_are_kept_when_the_link_becomes_one_that_keeps_order() {
        let mut link = link("delay=20ms,reorder=50%");
        for k in 0..100u64 {
            link.push(ms(k), k.to_be_bytes().to_vec()).unwrap();
        }
        link.change(ms(100), &parse("delay=1ms").unwrap().0);
        link.push(ms(100), 100u64.to_be_bytes().to_vec()).unwrap();
        let out: Vec<_> = std::iter::from_fn(|| link.poll(ms(500))).collect();
        assert_eq!((out.len(), out.last().unwrap().1.clone()), (101, 100u64.to_be_bytes().to_vec()));
        assert!(out.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn where_any_packet_might_overtake_none_does_so_once_order_is_kept() {
        let mut link = link("delay=20ms,order=free");
        link.push(ms(0), vec![1]).unwrap();
        link.change(ms(1), &parse("delay=1ms").unwrap().0);
        link.push(ms(1), vec![2]).unwrap();
        let out: Vec<_> = std::iter::from_fn(|| link.poll(ms(500))).collect();
        assert_eq!(out, [(ms(20), vec![1]), (ms(20), vec![2])]);
    }

    #[test]
    fn a_delay_that_outlives_the_clock_saturates() {
        let spec = LinkSpec::constant(1, Duration::MAX);
        let mut link = Link::new(&spec, 1);
        link.push(ms(1), vec![0; 1500]).unwrap();
        assert_eq!(link.poll_timeout().map(|d| d.at), Some(Instant::FAR_FUTURE));
    }

    #[test]
    fn what_waits_for_the_rate_is_counted() {
        let mut link = link("rate=12mbit");
        (0..3).for_each(|_| link.push(ms(0), vec![0; 1500]).unwrap());
        assert_eq!(link.backlog(), Backlog { packets: 2, bytes: 3000 });
        assert_eq!(std::iter::from_fn(|| link.poll(ms(9))).count(), 3);
        assert_eq!(link.backlog(), Backlog::default());
    }
}
