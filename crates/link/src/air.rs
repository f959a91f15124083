//! Two lanes on a medium that they share: packets wait, are tried, tried again, and leave in order.
//!
//! The medium says whose turn it is and what was received; this keeps the packets. What never happens here: a packet
//! overtakes one of its own direction before its delay begins, is tried more often than the medium says, or leaves while
//! one before it may still be received.

use std::collections::VecDeque;

use headstart_core::machine::Deadline;
use headstart_core::time::Instant;

use crate::lane::Lane;
use crate::medium::{Shared, Turn, Way};
use crate::queue::Backlog;
use crate::{Counters, Dropped, LinkSpec, Outcome, Packet, seed};

/// A packet that has been tried.
struct Tried<P> {
    packet: P,
    tries: u32,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// To be tried again.
    Open,
    Received,
    GivenUp,
}

/// One direction and its packets on the medium.
struct Side<P> {
    lane: Lane<P>,
    /// From the first whose fate is open.
    window: VecDeque<Tried<P>>,
    /// When the first of the window was last tried.
    tried: Instant,
    /// The present transmission: places in the window, bytes, verdicts. Kept to spare allocations.
    places: Vec<usize>,
    bytes: Vec<usize>,
    received: Vec<bool>,
}

impl<P: Packet> Side<P> {
    fn new(spec: &LinkSpec, seed: u64) -> Self {
        Self {
            lane: Lane::new(spec, seed),
            window: VecDeque::new(),
            tried: Instant::ZERO,
            places: Vec::new(),
            bytes: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Since when something waits for the medium.
    fn ready(&self) -> Option<Instant> {
        if self.window.is_empty() { self.lane.head() } else { Some(self.tried) }
    }

    /// Makes up the transmission of `at`: what is open first, then from the queue, as long as it fits.
    fn load(&mut self, at: Instant, medium: &dyn Shared) {
        let (places, bytes) = (&mut self.places, &mut self.bytes);
        let mut sum = 0usize;
        let mut fits = |more: usize, count: usize| {
            let fits = medium.fits(count + 1, sum.saturating_add(more));
            sum = if fits { sum.saturating_add(more) } else { sum };
            fits
        };
        for (place, tried) in self.window.iter().enumerate().filter(|(_, tried)| tried.fate == Fate::Open) {
            let more = tried.packet.wire_len();
            if !fits(more, places.len()) {
                return;
            }
            places.push(place);
            bytes.push(more);
        }
        while self.window.len() < medium.window() {
            self.lane.cull(at);
            let Some(more) = self.lane.head_bytes() else { return };
            if !fits(more, places.len()) {
                return;
            }
            let Some(packet) = self.lane.take(at) else { return };
            places.push(self.window.len());
            bytes.push(more);
            self.window.push_back(Tried { packet, tries: 0, fate: Fate::Open });
        }
    }

    /// Notes the result of the transmission that ended at `through`, and releases what need not wait.
    fn note_fates(&mut self, through: Instant, most_tries: u32) {
        for (place, received) in self.places.iter().zip(&self.received) {
            let Some(tried) = self.window.get_mut(*place) else { continue };
            tried.tries += 1;
            tried.fate = match *received {
                true => Fate::Received,
                false if tried.tries >= most_tries => Fate::GivenUp,
                false => Fate::Open,
            };
        }
        self.tried = through;
        while self.window.front().is_some_and(|tried| tried.fate != Fate::Open) {
            let Some(tried) = self.window.pop_front() else { break };
            match tried.fate {
                Fate::Received => self.lane.depart(through, tried.packet),
                _ => self.lane.lose(through, tried.packet),
            }
        }
    }
}

/// See the module.
pub(crate) struct Air<P> {
    sides: [Side<P>; 2],
    medium: Box<dyn Shared>,
    rng: fastrand::Rng,
}

impl<P: Packet> Air<P> {
    /// An empty medium; the seeds of the lanes are those that two wires would have.
    pub fn new(specs: [&LinkSpec; 2], medium: Box<dyn Shared>, seed: u64) -> Self {
        let sides = [Side::new(specs[0], seed::mix(seed, 0)), Side::new(specs[1], seed::mix(seed, 1))];
        Self { sides, medium, rng: seed::stage(seed, 2) }
    }

    pub fn change(&mut self, at: Instant, way: Way, spec: &LinkSpec) {
        self.work_until(at);
        self.sides[way.index()].lane.change(spec);
    }

    pub fn push(&mut self, at: Instant, way: Way, packet: P) -> Result<(), Dropped> {
        let at = self.sides[way.index()].lane.arrive(at, packet.wire_len())?;
        self.work_until(at);
        let side = &mut self.sides[way.index()];
        let at_once = side.lane.head().is_none() && side.window.is_empty();
        side.lane.join(at, packet, at_once)?;
        self.work_until(at);
        Ok(())
    }

    pub fn poll_outcome(&mut self, now: Instant) -> Option<(Way, Outcome<P>)> {
        self.work_until(now);
        let ends = Way::BOTH.into_iter().filter_map(|way| Some((self.sides[way.index()].lane.next_end()?, way)));
        let (_, way) = ends.min().filter(|(at, _)| *at <= now)?;
        Some((way, self.sides[way.index()].lane.end(now)?))
    }

    pub fn poll_timeout(&self) -> Option<Deadline> {
        let ends = self.sides.iter().filter_map(|side| side.lane.next_end());
        let release = ends.min().map(|at| Deadline { at, why: "link release" });
        let ready = self.ready();
        let contention = (ready != [None; 2]).then(|| Deadline { at: self.medium.next(ready), why: "link contention" });
        [release, contention].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    pub fn counters(&self, way: Way) -> Counters {
        self.sides[way.index()].lane.counters()
    }

    pub fn backlog(&self, way: Way) -> Backlog {
        self.sides[way.index()].lane.backlog()
    }

    fn ready(&self) -> [Option<Instant>; 2] {
        [self.sides[0].ready(), self.sides[1].ready()]
    }

    /// Lets the medium do all that it does until `now`.
    fn work_until(&mut self, now: Instant) {
        loop {
            let ready = self.ready();
            if ready == [None; 2] {
                return;
            }
            let Some(turn) = self.medium.contend(ready, now, &mut self.rng) else { return };
            self.take(turn);
        }
    }

    fn take(&mut self, turn: Turn) {
        let most_tries = self.medium.most_tries();
        for (side, _) in self.sides.iter_mut().zip(turn.ways).filter(|(_, sends)| *sends) {
            side.load(turn.at, &*self.medium);
            side.received.resize(side.places.len(), false);
        }
        let [up, down] = &mut self.sides;
        let through =
            self.medium.carry(turn, [&up.bytes, &down.bytes], [&mut up.received, &mut down.received], &mut self.rng);
        for (side, _) in self.sides.iter_mut().zip(turn.ways).filter(|(_, sends)| *sends) {
            side.note_fates(through, most_tries);
            side.places.clear();
            side.bytes.clear();
            side.received.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::queue::{Head, Queue, QueueSpec};
    use headstart_core::time::Duration;
    use std::sync::{Arc, Mutex};

    /// Sends whatever waits, a millisecond each time, of which the first packet is not received. Notes how many packets each takes.
    struct FirstFails(Arc<Mutex<Vec<usize>>>, Instant);

    impl Shared for FirstFails {
        fn next(&self, ready: [Option<Instant>; 2]) -> Instant {
            ready.into_iter().flatten().min().map_or(Instant::FAR_FUTURE, |ready| ready.max(self.1))
        }

        fn contend(&mut self, ready: [Option<Instant>; 2], until: Instant, _: &mut fastrand::Rng) -> Option<Turn> {
            let at = self.next(ready);
            (at <= until).then(|| Turn { at, ways: ready.map(|ready| ready.is_some()) })
        }

        fn fits(&self, packets: usize, bytes: usize) -> bool {
            packets <= 1 || bytes <= 1000
        }

        fn carry(
            &mut self,
            turn: Turn,
            bytes: [&[usize]; 2],
            received: [&mut [bool]; 2],
            _: &mut fastrand::Rng,
        ) -> Instant {
            self.0.lock().unwrap().push(bytes[0].len());
            received.into_iter().for_each(|received| received.iter_mut().skip(1).for_each(|one| *one = true));
            self.1 = turn.at + Duration::from_millis(1);
            self.1
        }

        fn most_tries(&self) -> u32 {
            2
        }

        fn window(&self) -> usize {
            3
        }
    }

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// What was taken in each transmission, and when each packet came to its end, of so many bytes each.
    fn carried(spec: &LinkSpec, sizes: &[usize]) -> (Vec<usize>, Vec<(Instant, bool)>) {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let medium = Box::new(FirstFails(Arc::clone(&taken), ms(5)));
        let mut air = Air::new([spec, &LinkSpec::default()], medium, 1);
        for size in sizes {
            air.push(ms(0), Way::Up, vec![0u8; *size]).unwrap();
        }
        let mut ends = Vec::new();
        while let Some((_, outcome)) = air.poll_outcome(ms(100)) {
            ends.push(match outcome {
                Outcome::Released(at, _) => (at, true),
                Outcome::Dropped(at, ..) => (at, false),
            });
        }
        let taken = taken.lock().unwrap().clone();
        (taken, ends)
    }

    #[test]
    fn what_is_behind_a_missing_packet_waits_for_it_and_no_more_is_under_way_than_the_window() {
        let (taken, ends) = carried(&LinkSpec::default(), &[100; 5]);
        // Three; the first again, which is given up; two, of which the first goes twice.
        assert_eq!(taken, [3, 1, 2, 1]);
        assert_eq!(ends, [(ms(7), false), (ms(7), true), (ms(7), true), (ms(9), false), (ms(9), true)]);
    }

    #[test]
    fn a_packet_that_does_not_fit_waits_for_the_next_transmission() {
        assert_eq!(carried(&LinkSpec::default(), &[500, 500, 1]).0, [2, 2]);
        assert_eq!(carried(&LinkSpec::default(), &[2000, 1]).0, [1, 1, 1, 1], "one goes whatever its size");
    }

    /// Notes what it is shown.
    struct Notes(Arc<Mutex<Vec<Vec<Head>>>>);

    impl Queue for Notes {
        fn admits(&mut self, _: Instant, _: usize, _: Backlog) -> bool {
            true
        }

        fn drops_heads(&self) -> bool {
            true
        }

        fn drops(&mut self, _: Instant, heads: &mut dyn Iterator<Item = Head>) -> usize {
            let heads: Vec<Head> = heads.collect();
            if !heads.is_empty() {
                self.0.lock().unwrap().push(heads);
            }
            0
        }
    }

    #[test]
    fn a_queue_is_shown_all_that_wait_once_for_each_packet_that_is_taken() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let queue = QueueSpec::new("notes", String::new(), move || Box::new(Notes(Arc::clone(&notes))));
        carried(&LinkSpec::default().with_queue(queue), &[600, 500, 400]);
        let head = |bytes, packets, behind| {
            let behind = Backlog { packets, bytes: behind };
            Head { arrival: ms(0), bytes, behind }
        };
        let (first, second, third) = (head(600, 2, 900), head(500, 1, 400), head(400, 0, 0));
        // The second does not fit beside the first, and is not judged anew when it does.
        assert_eq!(*seen.lock().unwrap(), [vec![first, second, third], vec![second, third], vec![third]]);
    }

    #[test]
    fn what_finds_the_medium_busy_needs_room_in_the_queue() {
        let spec = parse("queue=100b").unwrap().0;
        let medium = Box::new(FirstFails(Arc::default(), ms(0)));
        let mut air = Air::new([&spec, &spec], medium, 1);
        assert_eq!(air.push(ms(0), Way::Up, vec![0u8; 1000]), Ok(()));
        assert_eq!(air.push(ms(0), Way::Up, vec![0u8; 1000]), Err(Dropped::QueueFull));
        assert_eq!(air.push(ms(0), Way::Down, vec![0u8; 1000]), Ok(()), "the other direction has its own");
    }
}
