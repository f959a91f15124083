//! Over which connection a new message goes, what goes along with it, and what acknowledgements tell of the connections that
//! they do not name: RACK (RFC 8985) across connections. Ours.
//!
//! A connection hands nothing out behind a lost segment, so what is unacknowledged on one is resent over another, in the
//! segment of a message that goes there anyway: that costs bytes, and no packet. What never happens here: a packet is sent
//! that no message, and no message's deadline, called for.

use super::drive::ONE_SEGMENT;
use super::*;
use std::cmp::Reverse;

/// What was sent so much before something that has arrived over another connection is held up: a quarter of the shortest
/// round trip (RFC 8985, section 6.2, step 4), and no less than timers and schedulers take.
const REORDERING: u32 = 4;
const LEAST_REORDERING: Duration = Duration::from_millis(4);
/// Of what is overdue on a connection, and of what is not, so much is looked at for a message at most: more than a segment
/// holds, and the rest is looked at with the next. Ours.
const LOOKED_AT: usize = 32;
/// How often patience is widened at most, and after how many losses it begins anew (RFC 8985, section 6.2, step 4, which
/// says 16 for the latter).
const MOST_TOLERANCE: u32 = 8;
const LOSSES_OF_TOLERANCE: u32 = 16;

/// How much longer patience is than it would be: acknowledgements that were only late make it so, losses end it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    pub times: u32,
    losses: u32,
}

impl Tolerance {
    pub fn was_late(&mut self) {
        (self.times, self.losses) = ((self.times + 1).min(MOST_TOLERANCE), 0);
    }

    fn was_lost(&mut self) {
        self.losses += 1;
        if self.losses >= LOSSES_OF_TOLERANCE {
            *self = Self::default();
        }
    }
}

impl Messenger {
    /// Chooses the connection for the next new message, where the technique carries messages again.
    ///
    /// The one in use, for its next segment brings the acknowledgement of what came back over it; unless something on it is
    /// late. Where messages follow each other faster than round trips, each goes where nothing is on its way, if there is
    /// such a connection: what is lost then holds nothing else up.
    ///
    /// In a burst that loses everything each goes where nothing is in flight; when there is no such connection left, where
    /// nothing was sent for longest. What was sent just before the burst has arrived, and only its acknowledgement has not: that
    /// connection has no hole, and hands out what comes. It goes where the one before it went as well ([`Self::pair`]).
    pub(super) fn choose(&mut self, now: Instant) {
        self.spell = false;
        if self.wires.len() < 2 {
            return;
        }
        let view = self.view(now);
        let technique = &self.settings.technique;
        if technique.carries(&view).is_none() {
            return;
        }
        let Some(patience) = technique.patience(&view) else { return };
        let long = view.rtt.zip(view.interval).is_some_and(|(rtt, interval)| rtt.smoothed > interval);
        let oldest = |wire: &Wire| wire.unacknowledged().next().map(|flight| flight.sent);
        // What was sent an interval after it should have been heard of by now, and has not, or it would be overtaken.
        let silence = patience + view.interval.unwrap_or_default();
        let waiting = self.wires.iter().filter(|wire| !wire.overtaken).filter_map(oldest);
        let spell = waiting.min().is_some_and(|sent| sent + silence <= now);
        let key = |k: &usize| {
            let wire = &self.wires[*k];
            let since = wire.flights.back().map(|flight| flight.sent).filter(|_| spell);
            let late = oldest(wire).filter(|sent| !spell && *sent + patience <= now);
            let load = if long && !spell { wire.flights.len() + wire.again.len() } else { 0 };
            // Of late ones the latest: its TCP is the least likely to be waiting for a timeout.
            (wire.overtaken, since, late.map(Reverse), load, wire.mute, self.primary != Some(wire.id), *k)
        };
        if let Some(best) = (0..self.wires.len()).min_by_key(key) {
            self.primary = Some(self.wires[best].id);
            self.spell = spell;
        }
    }

    /// Whether nothing was sent on a connection since the last sign of life from the peer, half a round trip before it came: what
    /// was sent by then has arrived, as far as is known.
    pub(super) fn is_whole(&self, wire: &Wire) -> bool {
        let way = self.gauge.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed / 2);
        wire.flights.back().is_none_or(|flight| flight.sent + way <= self.last_ack)
    }

    /// Message `handle` has been written on connection `at`, which was `whole` before, for the first time. In a burst it goes, with
    /// all that it takes along, also over the last connection that was without a hole when it was taken: if any has got through since,
    /// that one has, and it is not known yet. Not in an outage: by then that has been tried with all of them.
    pub(super) fn pair(&mut self, now: Instant, at: usize, whole: bool, handle: Handle) {
        let last = self.last_whole;
        if !self.spell || whole {
            self.last_whole = Some(self.wires[at].id);
        }
        if !self.spell || self.state(now) == State::Outage {
            return;
        }
        if let Some(other) = self.wires.iter().position(|wire| Some(wire.id) == last).filter(|other| *other != at) {
            let along = self.carried.iter().rev().map(|(_, message, _)| *message);
            self.wires[other].again.extend(along.chain([handle]));
            self.announce(other);
        }
    }

    /// Until when what is overdue waits for the next message, which takes it along: where round trips are longer than an interval it
    /// has been taken along before, and in a burst one that goes by itself is lost and leaves a hole. A quarter of an interval late
    /// is not late.
    pub(super) fn next_message(&self, view: &View) -> Option<Instant> {
        let (last, interval) = self.gauge.sends.last.zip(view.interval)?;
        let waits = self.spell || view.rtt.is_some_and(|rtt| rtt.smoothed > interval);
        let carries = self.wires.len() > 1 && self.settings.technique.carries(view).is_some();
        (carries && waits).then(|| last + interval + interval / 4)
    }

    /// Appends messages that are unacknowledged on other connections, before a new one of `size` bytes is: those that are
    /// overdue, and as many of the newest as the technique says. Only small ones, as far as [`ONE_SEGMENT`] has room beside all else.
    pub(super) fn carry(&mut self, now: Instant, at: usize, size: usize, out: &mut Vec<u8>) {
        self.carried.clear();
        let view = self.view(now);
        let Some(newest) = self.settings.technique.carries(&view) else { return };
        let Some(patience) = self.settings.technique.patience(&view) else { return };
        // In a spell the first segment to get through is to bring all that was lost.
        let patience = if self.spell { Duration::ZERO } else { patience };
        let mut room = ONE_SEGMENT.saturating_sub(out.len() + size);
        let mut candidates = std::mem::take(&mut self.carried);
        for (k, wire) in self.wires.iter().enumerate().filter(|(k, _)| *k != at) {
            let wanted = |flight: &&Flight| {
                let (lane, seq) = flight.message;
                flight.end > wire.kernel_has && !self.lanes[lane].is_done(seq)
            };
            let may_go = |flight: &&Flight| self.may_go(flight, at);
            let is_overdue = |flight: &Flight| wire.overtaken || flight.sent + patience <= now;
            // What is overdue comes first in a connection, and what is fresh last: neither is looked for in all of it.
            let overdue = wire.flights.iter().take_while(|flight| is_overdue(flight));
            let fresh = wire.flights.iter().rev().take_while(|flight| !is_overdue(flight));
            let overdue = overdue.filter(wanted).take(LOOKED_AT).filter(may_go);
            let fresh = fresh.filter(wanted).take(LOOKED_AT).filter(may_go).take(newest);
            candidates.extend(overdue.chain(fresh).map(|flight| (flight.sent, flight.message, k)));
        }
        // The newest first; one that went over several connections at once is there for each.
        candidates.sort_unstable_by_key(|(sent, message, _)| Reverse((message.1, *sent)));
        candidates.dedup_by_key(|(_, message, _)| *message);
        let mut fresh = 0;
        let mut chosen = 0;
        for n in 0..candidates.len() {
            let (sent, message, wire) = candidates[n];
            let overdue = sent + patience <= now || self.wires[wire].overtaken;
            fresh += usize::from(!overdue);
            let size = self.size(message);
            if (!overdue && fresh > newest) || size > room {
                continue;
            }
            room -= size;
            candidates[chosen] = candidates[n];
            chosen += 1;
        }
        // The oldest is waited for most.
        candidates.truncate(chosen);
        for (_, message, _) in candidates.iter().rev() {
            self.stats.carried += 1;
            self.write(now, at, *message, true, out);
        }
        self.carried = candidates;
    }

    /// Whether a message may go again over connection `at`: this was the last time that it went, it was not overtaken, and it is
    /// not on its way there already.
    fn may_go(&self, flight: &Flight, at: usize) -> bool {
        let (lane, seq) = flight.message;
        let lane = &self.lanes[lane];
        let Some(message) = lane.kept(seq).filter(|message| message.last == flight.sent) else { return false };
        let mut since = self.wires[at].flights.iter().rev().take_while(|there| there.sent >= message.queued);
        !lane.is_overtaken(seq) && !since.any(|there| there.message == flight.message)
    }

    /// Something has arrived: connections with messages from well before it, which have not, are held up.
    pub(super) fn overtake(&mut self, now: Instant) {
        let window = self.gauge.shortest().map_or(LEAST_REORDERING, |rtt| (rtt / REORDERING).max(LEAST_REORDERING));
        for at in 0..self.wires.len() {
            let wire = &self.wires[at];
            let oldest = wire.unacknowledged().next();
            if wire.overtaken || oldest.is_none_or(|flight| flight.sent + window > self.newest) {
                continue;
            }
            self.wires[at].overtaken = true;
            self.gauge.last_loss = Some(now);
            self.tolerance.was_lost();
            if !self.wires[at].stalled && self.settings.technique.patience(&self.view(now)).is_some() {
                self.stall(now, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_stays_widened_until_sixteen_losses_in_a_row_were_losses() {
        let mut tolerance = Tolerance::default();
        let lost = |tolerance: &mut Tolerance, times| (0..times).for_each(|_| tolerance.was_lost());
        (0..3).for_each(|_| tolerance.was_late());
        lost(&mut tolerance, 15);
        assert_eq!(tolerance.times, 3);
        tolerance.was_late();
        lost(&mut tolerance, 15);
        assert_eq!(tolerance.times, 4, "it began anew");
        lost(&mut tolerance, 1);
        assert_eq!(tolerance.times, 0);
        (0..20).for_each(|_| tolerance.was_late());
        assert_eq!(tolerance.times, MOST_TOLERANCE);
    }
}
