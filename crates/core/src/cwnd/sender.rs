//! A sender's window: a start rule and a congestion controller put together, in bytes, moments and round-trip times.
//!
//! The transport says what it sends, what is acknowledged and what is lost; [`Sender::window`] says how much may be in flight.
//! It takes its own samples of the round-trip time, since transports update theirs only after they have reported the
//! acknowledgement (quinn), and it never needs a packet number. What it measures for the history is in [`Sender::sample`].

use super::controller::{self, Controller};
use super::history::{Medium, Outcome, Remembered, Sample};
use super::start::{self, Advice, Event, Loss, Phase, Start, Terms, View};
use crate::path::RttEstimate;
use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// A connection is sampled once so many initial windows were acknowledged: RFC 9959, section 3.1.
pub const WORTH_SAMPLING: u64 = 4;

/// Where packets wait after a jump, slow start grows by one part in so many. Ours: with the 4 of RFC 9406 a connection beside others
/// gets less than its share for seconds (docs/decisions/0144).
const SLOW: u64 = 2;

/// Events that wait to be fetched, at most.
const EVENTS: usize = 32;

/// A round trip that is being measured.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    acknowledged: u64,
    /// The last acknowledgement in it.
    last: Instant,
}

impl Round {
    fn new(began: Instant) -> Self {
        Self { began, acknowledged: 0, last: began }
    }

    /// Bytes per second, until `end`. A round trip cannot be shorter than the `shortest`: nor can a rate be higher than this.
    fn rate(&self, end: Instant, shortest: Duration) -> f64 {
        let took = end.since(self.began).max(shortest).as_secs_f64();
        if took > 0.0 { self.acknowledged as f64 / took } else { 0.0 }
    }
}

/// The window of one connection.
#[derive(Debug)]
pub struct Sender {
    controller: Box<dyn Controller>,
    rule: Box<dyn Start>,
    initial: u64,
    packet: u64,
    flight: u64,
    app_limited: bool,
    limited_since: Option<Instant>,
    /// Losses of what was sent until then have been answered.
    recovery: Option<Instant>,
    rtt: Option<RttEstimate>,
    latest: Option<Duration>,
    shortest: Option<Duration>,
    /// The first sample: nothing that this connection has sent waits yet.
    first: Option<Duration>,
    /// The shortest sample of the acknowledgement that is being processed, and whether it ends a round.
    batch: Option<Duration>,
    ends_round: bool,
    round: Option<Round>,
    /// When the last acknowledgement or loss was reported.
    last_feedback: Option<Instant>,
    /// Bytes, and the best bytes per second over a round trip.
    acknowledged: u64,
    lost: u64,
    rate: f64,
    congested: bool,
    refuted: bool,
    events: VecDeque<Event>,
}

impl Sender {
    /// A sender that starts by `rule` and goes on by `controller`.
    pub fn new(rule: &start::Entry, controller: &controller::Entry, terms: &Terms) -> Self {
        Self {
            controller: (controller.new)(terms.initial, terms.packet),
            rule: (rule.new)(terms),
            initial: terms.initial,
            packet: terms.packet,
            flight: 0,
            app_limited: true,
            limited_since: None,
            recovery: None,
            rtt: None,
            latest: None,
            shortest: None,
            first: None,
            batch: None,
            ends_round: false,
            round: None,
            last_feedback: None,
            acknowledged: 0,
            lost: 0,
            rate: 0.0,
            congested: false,
            refuted: false,
            events: VecDeque::new(),
        }
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.controller.window()
    }

    /// The window that it began with, in bytes.
    pub fn initial(&self) -> u64 {
        self.initial
    }

    /// The slow-start threshold in bytes, once there is one.
    pub fn threshold(&self) -> Option<u64> {
        self.controller.threshold()
    }

    /// Bytes in flight, as far as they were reported.
    pub fn flight(&self) -> u64 {
        self.flight
    }

    /// In which phase of careful resume it is.
    pub fn phase(&self) -> Phase {
        self.rule.phase()
    }

    /// When the last acknowledgement or loss was reported.
    pub fn last_feedback(&self) -> Option<Instant> {
        self.last_feedback
    }

    /// Whether it would use what is remembered now. The caller asks the history for a lease and answers by
    /// [`Sender::leased`].
    pub fn wants_lease(&self) -> bool {
        self.rule.wants_lease()
    }

    /// The answer to [`Sender::wants_lease`]: what the lease says.
    pub fn leased(&mut self, now: Instant, granted: Option<Remembered>) {
        let advice = self.rule.leased(&self.view(now), granted);
        self.follow(advice);
    }

    /// Whether the memory has proved wrong and must be deleted (RFC 9959, section 3.5). Says so once.
    pub fn take_refuted(&mut self) -> bool {
        std::mem::take(&mut self.refuted)
    }

    /// The next change of phase that was not fetched yet.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// `bytes` were sent that will be acknowledged.
    pub fn sent(&mut self, now: Instant, bytes: u64) {
        self.flight = self.flight.saturating_add(bytes);
        if self.round.is_none() {
            self.round = Some(Round::new(now));
        }
        let advice = self.rule.sent(&self.view(now), bytes);
        self.follow(advice);
    }

    /// A packet of `bytes`, sent at `sent`, was acknowledged. `app_limited`: the application had nothing more to send.
    pub fn acknowledged(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool) {
        self.flight = self.flight.saturating_sub(bytes);
        self.acknowledged = self.acknowledged.saturating_add(bytes);
        self.app_limited = app_limited;
        let sample = now.since(sent);
        self.batch = Some(self.batch.map_or(sample, |least| least.min(sample)));
        if let Some(round) = &mut self.round {
            round.acknowledged = round.acknowledged.saturating_add(bytes);
            round.last = now;
            self.ends_round |= sent >= round.began;
        }
        let advice = self.rule.acknowledged(&self.view(now), sent, bytes);
        self.follow(advice);
        if app_limited {
            self.limited_since.get_or_insert(now);
            return;
        }
        if let Some(since) = self.limited_since.take() {
            self.controller.idle(now.since(since));
        }
        let in_recovery = self.recovery.is_some_and(|began| sent <= began);
        if !advice.hold && !in_recovery {
            let rtt = self.rtt.map_or(sample, |rtt| rtt.smoothed);
            let in_slow_start = self.controller.threshold().is_none_or(|end| self.window() < end);
            let slow = advice.slow && in_slow_start && !self.controller.is_slow();
            self.controller.grow(now, if slow { bytes / SLOW } else { bytes }, rtt);
        }
    }

    /// An acknowledgement has been processed. `flight`: bytes in flight, by the transport's own account.
    pub fn end_of_acknowledgement(&mut self, now: Instant, flight: u64, app_limited: bool) {
        self.flight = flight;
        self.app_limited = app_limited;
        self.last_feedback = Some(now);
        if let Some(sample) = self.batch.take().filter(|sample| !sample.is_zero()) {
            self.latest = Some(sample);
            self.first.get_or_insert(sample);
            self.shortest = Some(self.shortest.map_or(sample, |least| least.min(sample)));
            self.rtt = Some(self.rtt.map_or_else(|| RttEstimate::first(sample), |rtt| rtt.update(sample)));
            self.controller.sample(sample, self.ends_round);
        }
        if std::mem::take(&mut self.ends_round)
            && let Some(round) = self.round.replace(Round::new(now))
        {
            self.rate = self.rate.max(round.rate(now, self.shortest.unwrap_or_default()));
        }
        let advice = self.rule.end_of_acknowledgement(&self.view(now));
        self.follow(advice);
    }

    /// Packets were lost, or marked (ECN: no bytes).
    pub fn lost(&mut self, now: Instant, loss: &Loss) {
        self.flight = self.flight.saturating_sub(loss.bytes);
        self.lost = self.lost.saturating_add(loss.bytes);
        self.last_feedback = Some(now);
        let advice = self.rule.lost(&self.view(now), loss);
        self.follow(advice);
        self.congested = true;
        let answered = self.recovery.is_some_and(|began| loss.sent <= began);
        if loss.persistent {
            // RFC 9002, section 7.6.2.
            self.controller.collapse(now);
            self.recovery = None;
        } else if advice.handled {
            self.recovery = Some(self.recovery.map_or(now, |began| began.max(now)));
        } else if !answered {
            self.controller.reduce(now);
            self.recovery = Some(now);
        }
    }

    /// Packets have so many bytes now.
    pub fn set_packet(&mut self, bytes: u64) {
        self.packet = bytes;
        self.controller.set_packet(bytes);
    }

    /// What the history should learn of this connection; `None` if it has carried too little to say anything (RFC 9959,
    /// section 3.1). To be asked after the handshake only: until then an address may be forged.
    pub fn sample(&self, medium: Medium) -> Option<Sample> {
        let rtt = self.shortest?;
        if self.acknowledged < WORTH_SAMPLING * self.initial {
            return None;
        }
        let window = self.window();
        // Section 4.1: no overshoot. What a queue holds is not what the path carries in a round trip, and no claim of a peer
        // to have received makes a path faster than it was measured.
        let rate = self.round.map_or(0.0, |round| round.rate(round.last, rtt)).max(self.rate);
        let carried = (rate * rtt.as_secs_f64()) as u64;
        let total = self.acknowledged.saturating_add(self.lost).max(1);
        Some(Sample {
            window,
            carried: carried.min(window.max(self.initial)),
            rtt,
            rate: rate as u64,
            loss: self.lost as f32 / total as f32,
            // It never came to the end of slow start: the path may carry more.
            limited: !self.congested && self.controller.threshold().is_none_or(|end| window < end),
            // What waited at first was sent by others.
            shared: self.first.is_some_and(|first| start::has_risen(rtt, first)),
            outcome: if self.congested { Outcome::Congested } else { Outcome::Clean },
            medium,
        })
    }

    /// A sender for a path that branches off this one (another port of the same peer, say): without memory and without
    /// lease. A window that has not proved itself does not go with it.
    pub fn branch(&self) -> Self {
        let mut controller = self.controller.boxed();
        if self.phase() != Phase::Normal {
            controller.set(self.initial, None);
        }
        let none = Terms { initial: self.initial, packet: self.packet, remembered: None, most: 0, pacing: 1.0 };
        let rule = (start::ALL[0].new)(&none);
        Self { controller, rule, events: VecDeque::new(), refuted: false, ..*self }
    }

    fn view(&self, now: Instant) -> View {
        View {
            now,
            flight: self.flight,
            window: self.controller.window(),
            latest: self.batch.or(self.latest),
            shortest: self.shortest,
            app_limited: self.app_limited,
        }
    }

    fn follow(&mut self, advice: Advice) {
        if advice.window.is_some() || advice.threshold.is_some() {
            let window = advice.window.unwrap_or_else(|| self.controller.window());
            self.controller.set(window, advice.threshold);
        }
        self.refuted |= self.rule.take_refuted();
        while let Some(event) = self.rule.poll_event() {
            if self.events.len() < EVENTS {
                self.events.push_back(event);
            }
        }
    }
}

#[cfg(test)]
mod tests;
