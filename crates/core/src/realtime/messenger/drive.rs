//! What is written next, and when to wake: the part of the messenger that time drives.

use super::super::frame::{self, Counts, Frame};
use super::*;
use crate::machine::{Deadline, Machine};

/// Bytes of messages in one write at most, unless one alone is longer: what a segment holds by default (RFC 9293).
pub(super) const ONE_SEGMENT: usize = 536;
/// Control frames before them are fewer bytes than this, and come on top: a greeting takes no room from messages. So a write has 669 at
/// most, which is one segment wherever the 1,280 bytes of IPv6 pass (RFC 8200).
pub(super) const ON_TOP: usize = ONE_SEGMENT / 4;
/// Hops without news double the patience so often at most: there are no more connections to leave. Ours.
const MOST_DOUBLINGS: u32 = 3;

impl Messenger {
    /// Tells the caller of work on a connection, once.
    pub(super) fn announce(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        if wire.has_work() && wire.may_speak() && !wire.announced {
            wire.announced = true;
            self.outputs.push_back(Output::Write(Connection(wire.id)));
        }
    }

    /// Tells the caller of new messages that may go out now.
    pub(super) fn announce_new(&mut self, now: Instant) {
        if self.primary.is_none() || self.next_new(now).is_none() {
            return;
        }
        self.choose(now);
        let Some(primary) = self.primary else { return };
        if let Some(wire) = self.wire(primary).filter(|wire| wire.may_speak() && !wire.announced) {
            wire.announced = true;
            self.outputs.push_back(Output::Write(Connection(primary)));
        }
    }

    /// From when on the next message of a `Latest` lane may go: for one that comes just then, and for one that waits.
    ///
    /// A message of a steady rhythm that comes a little early must not wait for its slot, and one that is held must not go
    /// just before the next would: a quarter of an interval to either side.
    fn slots(&self, lane: &OutgoingLane, view: &View) -> Option<(Instant, Instant)> {
        if lane.kind != Kind::Latest {
            return None;
        }
        let technique = &self.settings.technique;
        let one_of = technique.one_of(view);
        let last = lane.last_sent?;
        if one_of > 1 {
            let interval = view.interval?;
            let slot = last + interval * one_of;
            let quarter = interval / 4;
            return Some((
                Instant::from_nanos(slot.as_nanos().saturating_sub(quarter.as_nanos() as u64)),
                slot + quarter,
            ));
        }
        let slot = last + technique.pace(view)?;
        Some((slot, slot))
    }

    /// The new message that has waited longest of those that may go now.
    pub(super) fn next_new(&mut self, now: Instant) -> Option<Handle> {
        let mut best: Option<(Instant, Handle)> = None;
        // Asked far more often than there is something, and most lanes need not know how the path is.
        let mut view = None;
        let owes_much = self.wires.iter().any(|wire| self.primary == Some(wire.id) && wire.owes_much());
        for at in 0..self.lanes.len() {
            let Some((seq, queued)) = self.lanes[at].next_unsent() else { continue };
            let lane = &self.lanes[at];
            if lane.kind == Kind::Latest && owes_much {
                continue;
            }
            let slots =
                (lane.kind == Kind::Latest).then(|| self.slots(lane, view.get_or_insert_with(|| self.view(now))));
            if let Some((for_new, for_held)) = slots.flatten() {
                let slot = if queued >= for_new { for_new } else { for_held };
                if now < slot {
                    continue;
                }
            }
            if best.is_none_or(|(since, _)| queued < since) {
                best = Some((queued, (at, seq)));
            }
        }
        best.map(|(_, handle)| handle)
    }

    /// Appends to `out` what is to be written next on `connection`, in one write; `false` if there is nothing.
    pub fn transmit(&mut self, now: Instant, connection: Connection, out: &mut Vec<u8>) -> bool {
        let Some(at) = self.wires.iter().position(|wire| wire.id == connection.0) else { return false };
        if !self.wires[at].may_speak() {
            self.wires[at].announced = false;
            return false;
        }
        let before = out.len();
        if self.wires[at].hello {
            self.wires[at].hello = false;
            Frame::Hello(self.hello(connection.0)).encode(out);
        }
        if let Some(proof) = self.wires[at].welcome.take() {
            Frame::Welcome(proof).encode(out);
        }
        if std::mem::take(&mut self.wires[at].ack) {
            self.write_ack(out);
        }
        // Tiny segments are of use by themselves.
        let wire = &mut self.wires[at];
        if out.len() == before {
            for (count, frame) in [
                (&mut wire.fillers, Frame::Filler),
                (&mut wire.notices, Frame::Notice),
                (&mut wire.echoes, Frame::Echo),
            ] {
                if *count > 0 {
                    *count -= 1;
                    match frame {
                        Frame::Notice => self.stats.notices += 1,
                        _ => self.stats.fillers += 1,
                    }
                    frame.encode(out);
                    break;
                }
            }
        }
        if out.len() == before || (out.len() - before < ON_TOP && self.wires[at].fillers + self.wires[at].echoes == 0) {
            self.write_messages(now, at, out);
        }
        // Last of all: what is to be said after it is not said.
        if out.len() == before && std::mem::take(&mut self.wires[at].bye) {
            Frame::Bye { untaken: self.inbox.untaken() }.encode(out);
        }
        let wire = &mut self.wires[at];
        let written = (out.len() - before) as u64;
        wire.written += written;
        for flight in wire.flights.iter_mut().rev().take_while(|flight| flight.end == u64::MAX) {
            flight.end = wire.written;
        }
        wire.announced = written > 0;
        written > 0
    }

    fn write_ack(&mut self, out: &mut Vec<u8>) {
        let mut counts = Counts::default();
        self.stats.acks += 1;
        // There is room for every connection that a session can have.
        for wire in self.wires.iter_mut().filter(|wire| wire.received > 0) {
            if counts.push(wire.id, wire.received) {
                wire.acknowledged = wire.received;
            }
        }
        self.ack_since = None;
        Frame::Ack(counts).encode(out);
    }

    /// Messages that go again, as many as [`ONE_SEGMENT`], and a new one if there is room.
    fn write_messages(&mut self, now: Instant, at: usize, out: &mut Vec<u8>) {
        let before = out.len();
        let whole = self.is_whole(&self.wires[at]);
        while let Some(&(lane, seq)) = self.wires[at].again.front() {
            let needed = !self.lanes[lane].is_done(seq) && !self.lanes[lane].is_overtaken(seq);
            let size = self.size((lane, seq));
            if needed && out.len() > before && out.len() - before + size > ONE_SEGMENT {
                return;
            }
            self.wires[at].again.pop_front();
            if needed {
                self.write(now, at, (lane, seq), true, out);
            } else {
                // An old value that was lost would be unconfirmed for good.
                self.lanes[lane].give_up(seq);
                self.lanes[lane].tidy(&mut self.spare);
            }
        }
        if self.primary != Some(self.wires[at].id) {
            return;
        }
        let Some(handle) = self.next_new(now) else { return };
        if out.len() > before && out.len() - before + self.size(handle) > ONE_SEGMENT {
            return;
        }
        let (lane, seq) = handle;
        let size = self.size(handle);
        self.carry(now, at, size, out);
        self.lanes[lane].last_sent = Some(now);
        if let Some(message) = self.lanes[lane].get(seq) {
            message.sent = true;
        }
        self.write(now, at, handle, false, out);
        self.pair(now, at, whole, handle);
    }

    /// Bytes of a message with its header.
    pub(super) fn size(&mut self, (lane, seq): Handle) -> usize {
        let (id, kind) = (self.lanes[lane].id, self.lanes[lane].kind);
        let message = self.lanes[lane].get(seq);
        message.map_or(0, |message| {
            let length = message.bytes.len();
            frame::header_length(id, kind, seq, message.key, length) + length
        })
    }

    pub(super) fn write(&mut self, now: Instant, at: usize, (lane, seq): Handle, copy: bool, out: &mut Vec<u8>) {
        let (id, kind) = (self.lanes[lane].id, self.lanes[lane].kind);
        let keeps = self.settings.resume || self.settings.technique.acknowledges();
        let Some(message) = self.lanes[lane].get(seq) else { return };
        let before = out.len();
        Frame::Message { lane: id, kind, seq, key: message.key, payload: &message.bytes }.encode(out);
        message.done |= !keeps;
        message.last = now;
        self.stats.written += 1;
        let bytes = (out.len() - before) as u64;
        self.stats.bytes += bytes;
        if copy {
            self.stats.copies += 1;
            self.stats.bytes_again += bytes;
        }
        let wire = &mut self.wires[at];
        wire.sent += 1;
        if keeps {
            wire.flights.push_back(Flight { message: (lane, seq), sent: now, copy, end: u64::MAX });
        } else {
            self.lanes[lane].tidy(&mut self.spare);
        }
    }

    /// The connection but `at` that has least on its way, if there is one that is not stalled.
    fn cleanest_but(&self, at: usize) -> Option<usize> {
        let others = (0..self.wires.len()).filter(|k| *k != at && !self.wires[*k].stalled);
        others.min_by_key(|k| (self.wires[*k].flights.len() + self.wires[*k].again.len(), *k))
    }

    /// A message on connection `at` is overdue, or overtaken.
    pub(super) fn stall(&mut self, now: Instant, at: usize) {
        self.wires[at].stalled = true;
        self.stats.stalls += 1;
        let Some(other) = self.cleanest_but(at) else { return };
        if self.primary == Some(self.wires[at].id) {
            self.primary = Some(self.wires[other].id);
        }
        // All of it may have come over other connections.
        if self.waiting(&self.wires[at]).is_some() {
            self.hops = (self.hops + 1).min(MOST_DOUBLINGS);
        }
        let has = self.wires[at].kernel_has;
        // Small messages go again several in a segment, and a segment is what is paid for.
        let mut room = 0;
        for k in 0..self.wires[at].flights.len() {
            let flight = self.wires[at].flights[k];
            let (lane, seq) = flight.message;
            let size = self.size(flight.message);
            let Some(message) = self.lanes[lane].get(seq) else { continue };
            // What went again since is waited for there.
            let again_since = message.last > flight.sent;
            if flight.end <= has || message.done || again_since || message.again >= MOST_AGAIN {
                continue;
            }
            if size > room {
                if !self.bucket.take() {
                    break;
                }
                room = ONE_SEGMENT;
            }
            room = room.saturating_sub(size);
            message.again += 1;
            self.wires[other].again.push_back(flight.message);
        }
        self.announce(other);
        self.announce_new(now);
    }

    /// How long a message may be unacknowledged before its connection is left: twice as long after each hop since the last
    /// news, or a burst of loss would spoil every connection before it is over.
    fn patience(&self, view: &View) -> Option<Duration> {
        Some(self.settings.technique.patience(view)? * 2u32.pow(self.hops))
    }

    /// When the receiver will say that it misses a message.
    fn silence_until(&self, now: Instant) -> Option<Instant> {
        let last = self.gauge.arrivals.last.filter(|_| !self.noticed)?;
        let view = self.view(now);
        // What was told counts for messages as the program makes them; fewer of them are sent.
        let told = self.settings.interval.map(|i| i * self.settings.technique.one_of(&view));
        let interval = told.or(self.gauge.arrivals.interval())?;
        Some(last + self.settings.technique.silence(&view, interval)?)
    }

    fn deadlines(&self) -> impl Iterator<Item = Deadline> {
        let event = self.gauge.sends.last.max(self.gauge.arrivals.last);
        let now = event.map_or(self.looked, |event| event.max(self.looked));
        let view = self.view(now);
        let patience = self.patience(&view);
        let next = self.next_message(&view);
        let overdue = self.wires.iter().filter(|wire| !wire.stalled).filter_map(move |wire| {
            let at = self.waiting(wire)?.sent + patience?;
            Some(Deadline { at: next.map_or(at, |next| at.max(next)), why: "message overdue" })
        });
        // Where the connection cannot be written, or there is none, waking would change nothing.
        let may_send = |wire: &Wire| wire.may_speak() && !wire.announced && !wire.owes_much();
        let can_write = self.wires.iter().any(|wire| self.primary == Some(wire.id) && may_send(wire));
        let held = self.lanes.iter().filter(move |lane| can_write && lane.has_unsent()).filter_map(move |lane| {
            let (_, held) = self.slots(lane, &view)?;
            Some(Deadline { at: held, why: "value held" })
        });
        let silence = self.silence_until(now).map(|at| Deadline { at, why: "message missed" });
        let ack = self.ack_since.map(|since| Deadline { at: since + ACK_WITHIN, why: "acknowledgement" });
        overdue.chain(held).chain(silence).chain(ack)
    }
}

impl Machine for Messenger {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Opened { connection, rtt, introduce } => {
                if self.wires.len() >= MAX_CONNECTIONS || self.wire(connection.0).is_some() {
                    return;
                }
                if let Some(rtt) = rtt {
                    self.gauge.sample(now, rtt);
                }
                self.wires.push(Wire { id: connection.0, hello: introduce, opened: introduce, ..Wire::default() });
                let at = self.wires.len() - 1;
                if self.primary.is_none() {
                    self.primary = Some(connection.0);
                    // What is not known to have arrived over connections that are gone.
                    for lane in 0..self.lanes.len() {
                        let again: Vec<u64> = self.lanes[lane].undelivered().collect();
                        self.wires[at].again.extend(again.into_iter().map(|seq| (lane, seq)));
                    }
                }
                self.announce(at);
                self.announce_new(now);
            }
            Input::Closed(connection) => {
                let Some(at) = self.wires.iter().position(|wire| wire.id == connection.0) else { return };
                let gone = self.wires.remove(at);
                let next = (0..self.wires.len()).min_by_key(|k| {
                    let wire = &self.wires[*k];
                    (wire.stalled, wire.flights.len(), *k)
                });
                if self.primary == Some(gone.id) {
                    self.primary = next.map(|k| self.wires[k].id);
                }
                if let Some(next) = next {
                    let lost = gone.flights.iter().map(|f| f.message).chain(gone.again.iter().copied());
                    self.wires[next].again.extend(lost);
                    self.announce(next);
                }
                self.announce_new(now);
            }
            Input::Unacknowledged { connection, bytes } => {
                if let Some(wire) = self.wire(connection.0) {
                    wire.kernel_has = wire.kernel_has.max(wire.written.saturating_sub(bytes));
                    if wire.unacknowledged().next().is_none() {
                        wire.stalled = false;
                    }
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.looked = now;
        let view = self.view(now);
        if let Some(patience) = self.patience(&view)
            && self.next_message(&view).is_none_or(|next| next <= now)
        {
            for at in 0..self.wires.len() {
                let wire = &self.wires[at];
                if !wire.stalled && self.waiting(wire).is_some_and(|flight| flight.sent + patience <= now) {
                    self.stall(now, at);
                }
            }
        }
        if self.silence_until(now).is_some_and(|at| at <= now) {
            self.noticed = true;
            let busiest = (0..self.wires.len()).max_by_key(|k| (self.wires[*k].received, usize::MAX - k));
            if let Some(at) = busiest {
                self.wires[at].notices += 1;
                self.announce(at);
            }
        }
        if self.ack_since.is_some_and(|since| since + ACK_WITHIN <= now) {
            self.ack_since = None;
            for at in 0..self.wires.len() {
                self.wires[at].ack |= self.wires[at].received > self.wires[at].acknowledged;
                self.announce(at);
            }
        }
        self.announce_new(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.deadlines().min_by_key(|deadline| deadline.at)
    }
}
