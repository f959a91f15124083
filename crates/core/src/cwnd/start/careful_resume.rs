//! `careful-resume`: RFC 9959 with all its phases. Section numbers are those of the RFC; `Care::Wireless` is ours
//! ([`super::careful_wireless`]).
//!
//! A transport that acknowledges by moments, not by numbers, is enough: a packet belongs to the jump if it was sent between
//! its first and its last moment. What never happens here: a jump before the path is confirmed, a second jump, growth in a
//! retreat.

use super::{Advice, Event, Loss, Phase, Start, Terms, Trigger, View, has_risen};
use crate::cwnd::history::{Remembered, Trust};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// A window of so many times what the path carries in a round trip has a round trip's worth of packets in a queue, if the path is still
/// what it was. Ours.
const QUEUED: u64 = 2;

/// What is left of PipeSize as the threshold after a retreat. Section 3.5: 0.5 by default, CUBIC may take 0.7. Ours takes the default
/// with every controller: others have lost packets, too.
const BETA: f64 = 0.5;

/// QUIC's smallest window, in packets: RFC 9002, section 4.8. No retreat goes below.
const LEAST: u64 = 2;

/// So many samples in a row make a rise of the round-trip time: N_RTT_SAMPLE of RFC 9406.
const SAMPLES: u32 = 8;

/// [`Care::Wireless`]: losses of up to this share of the jump may be the radio's …
const RADIO_SHARE: f64 = 0.05;
/// … and up to so many packets always.
const RADIO_PACKETS: u64 = 3;

/// How a loss of the jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Each is congestion: RFC 9959.
    Standard,
    /// Few losses without a rise of the round-trip time are the radio's.
    Wireless,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct CarefulResume {
    care: Care,
    terms: Terms,
    known: Option<Remembered>,
    phase: Phase,
    /// Reconnaissance: bytes that were acknowledged, and whether all that is needed is there.
    acknowledged: u64,
    ready: bool,
    /// PipeSize.
    pipe: u64,
    jump: Option<Jump>,
    /// Samples of the round-trip time in a row, since the jump, that say that packets wait.
    risen: u32,
    /// What is known of the path, from when it has proved right until slow start is over.
    watched: Option<Remembered>,
    refuted: bool,
    events: VecDeque<Event>,
}

/// The flight that is sent on the word of a memory.
#[derive(Clone, Copy, Debug)]
struct Jump {
    first: Instant,
    last: Instant,
    bytes: u64,
    /// Bytes that were sent at `last`, and those of them that have arrived: a batch of packets has one moment.
    at_last: u64,
    came_of_last: u64,
    lost: u64,
    /// When the retreat began.
    retreat: Option<Instant>,
}

impl Jump {
    fn has(&self, sent: Instant) -> bool {
        (self.first..=self.last).contains(&sent)
    }
}

/// Section 3.2: a path of half the round trip or less, or of more than ten times, is another.
fn is_another_path(known: &Remembered, shortest: Duration) -> bool {
    shortest <= known.rtt / 2 || shortest > known.rtt.saturating_mul(10)
}

/// How much of a path is free whose shortest round trip is `rtt` now: all of it while nothing waits, nothing once as much waits as it
/// carries. Ours (docs/decisions/0099): the RFC asks for less than half where others may be, and leaves open how it is known.
fn free(known: &Remembered, rtt: Duration) -> f64 {
    let waits = rtt.saturating_sub(known.least).as_secs_f64();
    (1.0 - waits / known.least.as_secs_f64().max(1e-6)).max(0.0)
}

/// Whether packets wait by the last sample of the round-trip time.
fn waits(view: &View) -> bool {
    view.shortest.zip(view.latest).is_some_and(|(shortest, latest)| has_risen(shortest, latest))
}

impl CarefulResume {
    /// Ready to look at the path, if anything is remembered that is worth a jump.
    pub fn new(terms: &Terms, care: Care) -> Self {
        // Section 3.1: what is no more than a few initial windows is not worth it.
        let known = terms.remembered.filter(|known| known.window / 2 > terms.initial && !known.rtt.is_zero());
        let phase = if known.is_some() { Phase::Reconnaissance } else { Phase::Normal };
        Self {
            care,
            terms: *terms,
            known,
            phase,
            acknowledged: 0,
            ready: false,
            pipe: 0,
            jump: None,
            risen: 0,
            watched: None,
            refuted: false,
            events: VecDeque::new(),
        }
    }

    /// jump_cwnd (section 3.3: at most half of what was saved) for a path whose shortest round trip is `rtt`.
    fn jump_window(&self, known: &Remembered, rtt: Duration) -> u64 {
        let trusted = known.trust.of(known.window) / 2;
        // Section 4.3: no faster than what was seen. A pacer that is quicker than a window in a round trip counts.
        let slower = rtt.as_secs_f64() / known.rtt.as_secs_f64().max(1e-6);
        let rate = known.window as f64 * slower / self.terms.pacing.max(1.0);
        let window = trusted.min(self.terms.most).min(rate as u64);
        (window as f64 * free(known, rtt)) as u64
    }

    /// Ends slow start where a window is [`QUEUED`] times what the path is known to carry and packets wait in a queue. Ours; the RFC
    /// lets it go on until something is lost, which may be another flow's packet (docs/decisions/0045).
    fn end_slow_start(&mut self, view: &View) -> Advice {
        let is_full = |known: Remembered| view.window >= known.window.saturating_mul(QUEUED);
        if !(waits(view) && self.watched.is_some_and(is_full)) {
            return Advice::default();
        }
        self.watched = None;
        Advice { threshold: Some(view.window), ..Advice::default() }
    }

    fn enter(&mut self, view: &View, new: Phase, trigger: Trigger, window: Option<u64>, threshold: Option<u64>) {
        let (saved_window, saved_rtt) = self.known.map_or((0, Duration::ZERO), |known| (known.window, known.rtt));
        self.events.push_back(Event {
            at: view.now,
            old: self.phase,
            new,
            trigger,
            pipe: self.pipe,
            first_unvalidated: self.jump.map(|jump| jump.first),
            last_unvalidated: self.jump.map(|jump| jump.last),
            window: window.unwrap_or(view.window),
            threshold,
            saved_window,
            saved_rtt,
        });
        self.phase = new;
    }

    /// The end of the Unvalidated Phase (section 3.3, 3.4): the window is what is in flight.
    fn validate(&mut self, view: &View, trigger: Trigger) -> Advice {
        let window = if view.flight < self.terms.initial || view.flight <= self.pipe {
            let window = self.pipe.max(self.terms.initial);
            self.enter(view, Phase::Normal, Trigger::RateLimited, Some(window), None);
            window
        } else {
            self.enter(view, Phase::Validating, trigger, Some(view.flight), None);
            view.flight
        };
        Advice { window: Some(window), ..Advice::default() }
    }

    /// Section 3.5: half of what the path has proved, and the memory is deleted. The annex's `Max(10, PS/2)` is more than the half that
    /// the section allows; the section counts.
    fn retreat(&mut self, view: &View, trigger: Trigger) -> Advice {
        let window = (self.pipe / 2).max(LEAST * self.terms.packet);
        if let Some(jump) = &mut self.jump {
            jump.retreat = Some(view.now);
        }
        self.refuted = true;
        self.enter(view, Phase::SafeRetreat, trigger, Some(window), None);
        Advice { window: Some(window), hold: true, handled: true, ..Advice::default() }
    }

    /// Section 3.5: at most PipeSize by Beta. Of the annex's readings of PipeSize (docs/internals/rfc9959.md) it is each byte once.
    fn after_retreat(&self) -> u64 {
        (self.pipe as f64 * BETA) as u64
    }

    /// Whether a loss of the jump may be the radio's: little of it, and packets come back as quickly as ever.
    fn is_radio(&self, view: &View, loss: &Loss) -> bool {
        let Some(jump) = self.jump.filter(|_| self.care == Care::Wireless && loss.bytes > 0) else { return false };
        let share = (jump.bytes as f64 * RADIO_SHARE) as u64;
        let few = jump.lost <= share.max(RADIO_PACKETS * self.terms.packet);
        few && !waits(view)
    }
}

impl Start for CarefulResume {
    fn sent(&mut self, view: &View, bytes: u64) -> Advice {
        if self.phase != Phase::Unvalidated {
            return Advice::default();
        }
        if let Some(jump) = &mut self.jump {
            jump.at_last = bytes.saturating_add(if jump.last == view.now { jump.at_last } else { 0 });
            jump.last = view.now;
            jump.bytes = jump.bytes.saturating_add(bytes);
        }
        // Section 3.3: the flight has reached the window, within a packet.
        if view.flight.saturating_add(self.terms.packet) > view.window {
            return self.validate(view, Trigger::LastUnvalidatedPacketSent);
        }
        Advice::default()
    }

    fn acknowledged(&mut self, view: &View, sent: Instant, bytes: u64) -> Advice {
        let of_jump = self.jump.is_some_and(|jump| sent >= jump.first);
        let is_last = self.jump.as_mut().is_some_and(|jump| {
            jump.came_of_last = jump.came_of_last.saturating_add(if sent == jump.last { bytes } else { 0 });
            sent > jump.last || (sent == jump.last && jump.came_of_last >= jump.at_last)
        });
        // Ours: the RFC lets slow start go on until something is lost, which may be another flow's packet.
        let slow = self.risen >= SAMPLES;
        match self.phase {
            Phase::Normal => Advice { slow, ..Advice::default() },
            Phase::Reconnaissance => {
                self.acknowledged = self.acknowledged.saturating_add(bytes);
                Advice::default()
            }
            Phase::Unvalidated if of_jump => {
                self.pipe = self.pipe.saturating_add(bytes);
                // Its own packet is part of what the path carries.
                let view = View { flight: view.flight.saturating_add(bytes), ..*view };
                self.validate(&view, Trigger::FirstUnvalidatedPacketAcknowledged)
            }
            // Until the jump has shown itself, the window is the jump's.
            Phase::Unvalidated => Advice { hold: true, ..Advice::default() },
            Phase::Validating => {
                self.pipe = self.pipe.saturating_add(if of_jump { bytes } else { 0 });
                if is_last {
                    self.watched = self.known.filter(|known| known.found && known.trust == Trust::Exact);
                    self.enter(view, Phase::Normal, Trigger::LastUnvalidatedPacketAcknowledged, None, None);
                }
                Advice { slow, ..Advice::default() }
            }
            Phase::SafeRetreat => {
                let counts = self.jump.is_some_and(|jump| jump.has(sent));
                self.pipe = self.pipe.saturating_add(if counts { bytes } else { 0 });
                if !is_last {
                    return Advice { hold: true, ..Advice::default() };
                }
                let threshold = self.after_retreat();
                self.enter(view, Phase::Normal, Trigger::ExitRecovery, None, Some(threshold));
                Advice { window: Some(view.window), threshold: Some(threshold), hold: true, ..Advice::default() }
            }
        }
    }

    fn end_of_acknowledgement(&mut self, view: &View) -> Advice {
        if self.jump.is_some() {
            self.risen = if waits(view) { self.risen.saturating_add(1) } else { 0 };
        }
        match (self.phase, self.known, view.shortest) {
            (Phase::Reconnaissance, Some(known), Some(shortest)) => {
                if is_another_path(&known, shortest) {
                    self.ready = false;
                    self.enter(view, Phase::Normal, Trigger::RttNotValidated, None, None);
                } else {
                    // Section 3.2: all of the initial data has arrived, and there is more than the window lets out.
                    self.ready = self.acknowledged >= self.terms.initial && !view.app_limited;
                }
                Advice::default()
            }
            // Section 3.3: it has become another path meanwhile.
            (Phase::Unvalidated, Some(known), Some(shortest)) if is_another_path(&known, shortest) => {
                self.retreat(view, Trigger::PathChanged)
            }
            (Phase::Unvalidated, _, Some(shortest)) => match self.jump {
                Some(jump) if view.now.since(jump.first) > shortest.max(view.latest.unwrap_or_default()) => {
                    self.validate(view, Trigger::RttExceeded)
                }
                _ => Advice::default(),
            },
            (Phase::Normal, ..) => self.end_slow_start(view),
            _ => Advice::default(),
        }
    }

    fn lost(&mut self, view: &View, loss: &Loss) -> Advice {
        let trigger = if loss.bytes == 0 { Trigger::EcnCe } else { Trigger::PacketLoss };
        if let Some(jump) = &mut self.jump
            && loss.sent >= jump.first
        {
            jump.lost = jump.lost.saturating_add(loss.bytes);
        }
        match self.phase {
            Phase::Normal => {
                // The controller ends slow start itself.
                self.watched = None;
                Advice::default()
            }
            Phase::Reconnaissance => {
                self.ready = false;
                self.enter(view, Phase::Normal, trigger, None, None);
                Advice::default()
            }
            // Section 3.7: persistent congestion ends careful resume; the controller knows what to do.
            _ if loss.persistent => {
                self.refuted = self.phase != Phase::SafeRetreat;
                self.enter(view, Phase::Normal, trigger, None, None);
                Advice::default()
            }
            Phase::Unvalidated | Phase::Validating if self.is_radio(view, loss) => {
                if self.phase == Phase::Unvalidated {
                    return self.validate(view, trigger);
                }
                Advice::default()
            }
            Phase::Unvalidated | Phase::Validating => self.retreat(view, trigger),
            // Other packets of the same flight; or of one that was sent since, which is news.
            Phase::SafeRetreat => match self.jump.and_then(|jump| jump.retreat) {
                Some(retreat) if loss.sent > retreat => {
                    let threshold = self.after_retreat();
                    self.enter(view, Phase::Normal, trigger, None, Some(threshold));
                    Advice { threshold: Some(threshold), ..Advice::default() }
                }
                _ => Advice { hold: true, handled: true, ..Advice::default() },
            },
        }
    }

    fn wants_lease(&self) -> bool {
        self.phase == Phase::Reconnaissance && self.ready
    }

    fn leased(&mut self, view: &View, granted: Option<Remembered>) -> Advice {
        if !self.wants_lease() {
            return Advice::default();
        }
        self.ready = false;
        let Some(known) = granted else {
            self.enter(view, Phase::Normal, Trigger::InUse, None, None);
            return Advice::default();
        };
        // What is leased counts, not what was remembered when the connection began: it may have been deleted since.
        self.known = granted;
        let shortest = view.shortest.unwrap_or(known.rtt);
        if is_another_path(&known, shortest) {
            self.enter(view, Phase::Normal, Trigger::RttNotValidated, None, None);
            return Advice::default();
        }
        let window = self.jump_window(&known, shortest);
        if window <= view.window {
            // The connection has come as far by itself.
            self.enter(view, Phase::Normal, Trigger::RateLimited, None, None);
            return Advice::default();
        }
        self.pipe = view.flight;
        self.jump = Some(Jump {
            first: view.now,
            last: view.now,
            bytes: 0,
            at_last: 0,
            came_of_last: 0,
            lost: 0,
            retreat: None,
        });
        self.enter(view, Phase::Unvalidated, Trigger::CwndLimited, Some(window), None);
        Advice { window: Some(window), ..Advice::default() }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn take_refuted(&mut self) -> bool {
        std::mem::take(&mut self.refuted)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
