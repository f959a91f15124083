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
