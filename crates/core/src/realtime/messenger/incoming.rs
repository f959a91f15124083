//! What comes in over a session's connections: frames, and what the peer acknowledges.

use super::super::frame::{self, Counts, Frame, FrameError, Proof};
use super::super::inbox::Accepted;
use super::{ACK_EVERY, Connection, FILLERS, Messenger, Output, SPARE};
use crate::time::Instant;

impl Messenger {
    /// Takes in bytes of a connection. After an error the connection is of no more use: close it, and tell so.
    pub fn received(&mut self, now: Instant, connection: Connection, bytes: &[u8]) -> Result<(), FrameError> {
        let Some(at) = self.wires.iter().position(|wire| wire.id == connection.0) else { return Ok(()) };
        if let Some(first) = bytes.first()
            && !std::mem::replace(&mut self.wires[at].introduced, true)
            && !frame::begins_a_connection(*first)
        {
            return Err(FrameError::Impossible("not a headstart connection"));
        }
        // Taken out while its frames, which lie in it, are dealt with.
        let mut decoder = std::mem::take(&mut self.wires[at].decoder);
        decoder.push(bytes);
        let result = loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    if let Err(error) = self.take_in(now, at, &frame) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.wires[at].decoder = decoder;
        self.announce(at);
        result
    }

    fn take_in(&mut self, now: Instant, at: usize, frame: &Frame<'_>) -> Result<(), FrameError> {
        match frame {
            Frame::Hello(_) if self.wires[at].opened => return Err(FrameError::Echoed),
            Frame::Hello(hello) if !self.wires[at].met => {
                self.ours = true;
                let wire = &mut self.wires[at];
                (wire.met, wire.welcome) = (true, Some(Proof::welcome(self.session, hello.connection)));
            }
            Frame::Welcome(proof) | Frame::Gone(proof) if self.wires[at].opened && !self.wires[at].met => {
                let (session, connection) = (self.session, self.wires[at].id);
                if *proof == Proof::gone(session, connection) {
                    let elsewhere = self.answered() > 0;
                    (self.forgotten, self.scattered) = (!elsewhere, elsewhere);
                    return Err(FrameError::Gone);
                }
                if *proof != Proof::welcome(session, connection) {
                    return Err(FrameError::Impossible("an answer to another connection"));
                }
                (self.ours, self.wires[at].met) = (true, true);
            }
            Frame::Hello(_) | Frame::Welcome(_) | Frame::Gone(_) => {
                return Err(FrameError::Impossible("an unexpected greeting"));
            }
            _ if !self.wires[at].met => return Err(FrameError::Impossible("data before the greeting")),
            Frame::Ack(counts) => return self.acknowledged(now, at, counts),
            Frame::Notice => self.wires[at].fillers = FILLERS,
            Frame::Bye { untaken } => self.peer_left = Some(*untaken),
            Frame::Filler | Frame::Echo => {}
            Frame::Message { lane, kind, seq, key, payload } => {
                let accepted = self.inbox.accept(*lane, *kind, *seq, *key, payload)?;
                self.arrived(now, at, accepted);
            }
        }
        Ok(())
    }

    fn arrived(&mut self, now: Instant, at: usize, accepted: Accepted) {
        match accepted {
            Accepted::Copy => self.stats.copies_received += 1,
            Accepted::Stale | Accepted::Conflated => self.stats.conflated += 1,
            Accepted::New => {}
        }
        if matches!(accepted, Accepted::New | Accepted::Conflated) {
            self.stats.received += 1;
            self.gauge.arrivals.beat(now);
            self.noticed = false;
            self.outputs.push_back(Output::Deliver);
        }
        let technique = &self.settings.technique;
        let wire = &mut self.wires[at];
        wire.received += 1;
        if technique.echoes() {
            wire.echoes += 1;
        }
        // Copies as well: their sender waits to hear how the connection is.
        let acknowledges = technique.acknowledges();
        if acknowledges || (self.settings.resume && wire.received - wire.acknowledged >= ACK_EVERY) {
            wire.ack = true;
        } else if self.settings.resume {
            self.ack_since.get_or_insert(now);
        }
    }

    /// An acknowledgement has come over connection `over`.
    fn acknowledged(&mut self, now: Instant, over: usize, counts: &Counts) -> Result<(), FrameError> {
        let (mut sample, mut heard) = (None, false);
        let prompt = self.settings.technique.acknowledges();
        for (id, count) in counts.as_slice() {
            let Some(at) = self.wires.iter().position(|wire| wire.id == *id) else { continue };
            let wire = &mut self.wires[at];
            if *count > wire.sent {
                return Err(FrameError::Impossible("an acknowledgement of messages that were not sent"));
            }
            let news = (wire.flights.len() as u64).saturating_sub(wire.sent - count);
            for _ in 0..news {
                let Some(flight) = wire.flights.pop_front() else { break };
                let (lane, seq) = flight.message;
                self.newest = self.newest.max(flight.sent);
                if let Some(message) = self.lanes[lane].get(seq).filter(|message| !message.done) {
                    message.done = true;
                    if flight.copy {
                        self.stats.ahead += 1;
                        self.ahead.note(now, flight.message);
                    }
                    // No measure of the path are copies, where the peer speaks when it suits it; what waited for TCP to send it
                    // again; and what is told late, by what came after it.
                    let measures = prompt && at == over && !wire.overtaken;
                    sample = measures.then(|| now.since(flight.sent)).or(sample);
                } else if let Some(known) = self.ahead.take(&flight) {
                    self.stats.saved += now.since(known);
                }
            }
            if at == over {
                wire.mute = false;
            }
            if news > 0 {
                wire.mute |= at != over;
                if wire.stalled && !wire.overtaken && at == over {
                    self.stats.late += 1;
                    self.tolerance.was_late();
                }
                (wire.stalled, wire.overtaken) = (false, false);
                heard = true;
            }
        }
        if let Some(rtt) = sample {
            self.gauge.sample(now, rtt);
        }
        if heard {
            self.last_ack = now;
            self.hops = 0;
            self.overtake(now);
            for lane in &mut self.lanes {
                lane.tidy(&mut self.spare);
            }
            self.spare.truncate(SPARE);
            // The window has moved, and a lane that was held may go on.
            self.announce_new(now);
        }
        Ok(())
    }
}
