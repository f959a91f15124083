//! The distributed coordination function: which station transmits when, which collide, what gets through.
//!
//! IEEE 802.11-2012, section 9.3. Every station draws a backoff after each of its transmissions and counts it down, slot by
//! slot, while the channel is idle; one whose backoff is over and that gets a packet on an idle channel sends at once.
//! Two that start less than a slot apart do not hear each other, and both fail. A failure doubles the next backoff's
//! range. What never happens here: a station hears nothing of another for longer than a slot (no hidden stations), captures
//! a collision, changes its rate, or sends RTS and CTS.

use headstart_core::time::{Duration, Instant};

use super::Wlan;
use super::spell::Spell;
use super::timing::{self, BLOCK_ACK, CW_MAX, CW_MIN, DIFS, RETRIES, SIFS, SLOT};
use crate::medium::{Shared, Turn};

/// After a time without own packets the neighbours are played for only so long, to find the channel as it is amid
/// them: some ten of their longest transmissions.
const WARM_UP: Duration = Duration::from_millis(50);
/// What neighbours send, in bytes of IP: full Ethernet frames.
const NEIGHBOURS_PACKET: usize = 1500;

/// One that contends.
#[derive(Clone, Default)]
struct Station {
    /// Slots of its backoff that are left.
    backoff: u32,
    /// Failures in a row.
    failures: u32,
}

impl Station {
    /// Draws the next backoff after the failures so far.
    fn draw(&mut self, rng: &mut fastrand::Rng) {
        let range = ((CW_MIN + 1) << self.failures.min(16)) - 1;
        self.backoff = rng.u32(0..=range.min(CW_MAX));
    }

    /// After a transmission; at the retry limit the range starts anew.
    fn learn(&mut self, success: bool, rng: &mut fastrand::Rng) {
        self.failures = if success || self.failures >= RETRIES { 0 } else { self.failures + 1 };
        self.draw(rng);
    }
}

/// Another station on the channel, which always has something to send while it is on.
struct Neighbour {
    station: Station,
    spell: Spell,
    /// Since when it is on; `None` while it is off.
    since: Option<Instant>,
}

impl Neighbour {
    fn look(&mut self, at: Instant, rng: &mut fastrand::Rng) {
        let on = self.spell.at(at, rng);
        self.since = on.then(|| self.since.unwrap_or(at));
    }
}

/// The channel. See the module.
pub(super) struct Channel {
    wlan: Wlan,
    ours: [Station; 2],
    neighbours: Vec<Neighbour>,
    fade: Spell,
    /// When the backoffs begin to count: a DIFS after the last transmission and its acknowledgement.
    idle: Instant,
    /// Bytes of the longest transmission.
    most_bytes: usize,
    /// Frames in a neighbour's longest transmission.
    neighbours_most: usize,
    /// Neighbours that transmit in the turn that was given out.
    sending: Vec<usize>,
    begun: bool,
}

impl Channel {
    pub fn new(wlan: Wlan) -> Self {
        let neighbour = || Neighbour { station: Station::default(), spell: Spell::new(wlan.on, wlan.off), since: None };
        let most_bytes = timing::most_bytes(wlan.bits_per_second);
        Self {
            wlan,
            ours: Default::default(),
            neighbours: (0..wlan.contenders).map(|_| neighbour()).collect(),
            fade: Spell::new(wlan.fade, wlan.clear),
            idle: Instant::ZERO,
            neighbours_most: (1..=timing::MOST_FRAMES)
                .rev()
                .find(|&n| timing::fits(n, n * NEIGHBOURS_PACKET, most_bytes))
                .unwrap_or(1),
            most_bytes,
            sending: Vec::new(),
            begun: false,
        }
    }

    /// When a station that has something since `ready` would send.
    fn start(&self, station: &Station, ready: Instant) -> Instant {
        (self.idle + SLOT * station.backoff).max(ready)
    }

    /// The first start of any station, or the first end of a neighbour's spell.
    fn first(&self, ready: [Option<Instant>; 2]) -> Instant {
        let ours = self.ours.iter().zip(ready).filter_map(|(station, ready)| Some(self.start(station, ready?)));
        let theirs = self.neighbours.iter().flat_map(|neighbour| {
            let start = neighbour.since.map(|since| self.start(&neighbour.station, since));
            [start, Some(neighbour.spell.until())].into_iter().flatten()
        });
        ours.chain(theirs).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Begins, or skips a time without own packets that ends at `first`.
    fn arrive(&mut self, first: Instant, rng: &mut fastrand::Rng) {
        let long_ago = first.since(self.idle) > WARM_UP && !self.neighbours.is_empty();
        if self.begun && !long_ago {
            return;
        }
        // Before the origin the channel was idle for ever, and all backoffs over.
        if long_ago {
            self.idle = Instant::from_nanos(first.as_nanos() - WARM_UP.as_nanos() as u64);
            self.ours.iter_mut().for_each(|station| station.draw(rng));
        }
        for neighbour in &mut self.neighbours {
            neighbour.look(self.idle, rng);
            neighbour.station.draw(rng);
        }
        self.begun = true;
    }

    /// The slots that have passed when a station starts at `at` count for all others; one that has waited with an empty queue
    /// until its backoff was over draws a new one, for the channel is no longer idle.
    fn count_down(&mut self, at: Instant, ours_send: [bool; 2], rng: &mut fastrand::Rng) {
        let passed = u32::try_from(at.since(self.idle).as_nanos() / SLOT.as_nanos()).unwrap_or(u32::MAX);
        let sending = &self.sending;
        let neighbours = self.neighbours.iter_mut().enumerate().filter(|(k, _)| !sending.contains(k));
        let ours = self.ours.iter_mut().zip(ours_send).filter(|(_, sends)| !sends);
        for station in ours.map(|(station, _)| station).chain(neighbours.map(|(_, n)| &mut n.station)) {
            match station.backoff.checked_sub(passed) {
                Some(left) if left > 0 => station.backoff = left,
                _ => station.draw(rng),
            }
        }
    }

    /// The neighbours' part of a transmission at `at`: its end. They succeed if they are `alone`.
    fn neighbours_send(&mut self, at: Instant, alone: bool, rng: &mut fastrand::Rng) -> Instant {
        let mut end = at;
        for k in std::mem::take(&mut self.sending) {
            let frames = [NEIGHBOURS_PACKET; timing::MOST_FRAMES];
            let count = rng.usize(1..=self.neighbours_most);
            let air = timing::of_packets(&frames[..count], self.wlan.bits_per_second);
            end = end.max(at + air);
            self.neighbours[k].station.learn(alone, rng);
        }
        end
    }
}

impl Shared for Channel {
    fn next(&self, ready: [Option<Instant>; 2]) -> Instant {
        self.first(ready)
    }

    fn contend(&mut self, ready: [Option<Instant>; 2], until: Instant, rng: &mut fastrand::Rng) -> Option<Turn> {
        self.arrive(ready.into_iter().flatten().min()?, rng);
        loop {
            let first = self.first(ready);
            if first > until || first == Instant::FAR_FUTURE {
                return None;
            }
            // Spells that end now, or ended while the channel was busy with an own packet.
            if self.neighbours.iter().any(|neighbour| neighbour.spell.until() <= first) {
                for neighbour in &mut self.neighbours {
                    neighbour.look(first, rng);
                }
                continue;
            }
            let unheard = |station: &Station, ready: Option<Instant>| {
                ready.is_some_and(|ready| self.start(station, ready) < first + SLOT)
            };
            let ways = [0, 1].map(|k| unheard(&self.ours[k], ready[k]));
            let theirs = self.neighbours.iter().enumerate().filter(|(_, n)| unheard(&n.station, n.since));
            let sending = theirs.map(|(k, _)| k).collect();
            self.sending = sending;
            self.count_down(first, ways, rng);
            if ways != [false; 2] {
                return Some(Turn { at: first, ways });
            }
            let alone = self.sending.len() == 1;
            self.idle = self.neighbours_send(first, alone, rng) + SIFS + BLOCK_ACK + DIFS;
        }
    }

    fn fits(&self, packets: usize, bytes: usize) -> bool {
        timing::fits(packets, bytes, self.most_bytes)
    }

    fn carry(
        &mut self,
        turn: Turn,
        bytes: [&[usize]; 2],
        received: [&mut [bool]; 2],
        rng: &mut fastrand::Rng,
    ) -> Instant {
        let alone = self.sending.is_empty() && turn.ways != [true; 2];
        let errors = if self.fade.at(turn.at, rng) { self.wlan.errors_in_fade } else { self.wlan.errors };
        let mut through = turn.at;
        let mut end = self.neighbours_send(turn.at, alone, rng);
        for (way, received) in received.into_iter().enumerate().filter(|(way, _)| turn.ways[*way]) {
            through = through.max(turn.at + timing::of_packets(bytes[way], self.wlan.bits_per_second));
            if alone {
                received.iter_mut().for_each(|received| *received = rng.f64() >= errors);
            }
            let acknowledged = received.contains(&true);
            self.ours[way].learn(acknowledged, rng);
        }
        end = end.max(through);
        // Without an answer, stations wait as long as the answer would have taken (EIFS).
        self.idle = end + SIFS + BLOCK_ACK + DIFS;
        through
    }

    fn most_tries(&self) -> u32 {
        1 + RETRIES
    }

    fn window(&self) -> usize {
        timing::WINDOW
    }
}
