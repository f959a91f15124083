//! Connections to peers that are being opened or open: written to, read in turn, closed.

use super::{BATCH, MOST_SPARE, SMALL, Upstream, Whose, Worker, sockets};
use crate::driver::Hands;
use crate::poll::Readiness;
use crate::sys::tun::ROOM;
use crate::sys::{stamps, stream};
use headstart_core::forward::{FlowId, HEADROOM, Input, MUCH, Piece, UNSENT, advance};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg, sockopt};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Pieces that one call sends at most. 16: a megabyte where they are large.
const MOST_PIECES: usize = 16;

impl Upstream {
    /// One call for the first pieces of a row: what it took, and how many bytes they are. None where there are none.
    fn send(&mut self, now: Instant, pieces: &VecDeque<Piece>, urgent: bool) -> Option<(Result<usize, Errno>, usize)> {
        let first = pieces.front()?.data();
        let mut parts = [IoSlice::new(&[]); MOST_PIECES];
        let mut all = 0;
        for (part, piece) in parts.iter_mut().zip(pieces) {
            *part = IoSlice::new(piece.data());
            all += piece.data().len();
        }
        let parts = &parts[..pieces.len().min(MOST_PIECES)];
        let times = !urgent && parts.len() == 1 && all <= SMALL && self.begins_request();
        let flags =
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL | if urgent { SendFlags::OOB } else { SendFlags::empty() };
        let wants_stamp = !times && !urgent && self.delivery.wants_stamp(now, all);
        let sent = if times || wants_stamp {
            stamps::send(&self.socket, parts, times)
        } else if parts.len() > 1 {
            sendmsg(&self.socket, parts, &mut SendAncillaryBuffer::default(), flags)
        } else {
            send(&self.socket, first, flags)
        };
        match sent {
            Ok(taken) => {
                let before = self.delivery.carried;
                self.delivery.taken(now, taken, wants_stamp);
                if before < MUCH && self.delivery.carried >= MUCH {
                    sockets::hold_unsent(&self.socket, UNSENT);
                }
            }
            Err(_) => self.ends_request(),
        }
        Some((sent, all))
    }
}

impl Worker {
    /// Something has changed about a connection.
    pub(super) fn change(&mut self, now: Instant, flow: FlowId, change: Readiness) {
        let change = if change.failed && self.stamped(now, flow) { change.but_for_errors() } else { change };
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        if upstream.connecting {
            if !change.writable {
                return;
            }
            let outcome = match sockopt::socket_error(&upstream.socket) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(errno)) | Err(errno) => Err(errno),
            };
            let opened = match outcome {
                Ok(()) => {
                    upstream.connecting = false;
                    Ok(sockets::agreed(&upstream.socket))
                }
                Err(errno) => Err(sockets::refusal(&upstream.socket, errno)),
            };
            self.time(flow);
            match opened {
                Ok(agreed) => {
                    self.connected(now, flow, agreed);
                    self.has_opened(now, flow);
                }
                Err(why) => self.feed(now, Input::Failed { flow, why }),
            }
        } else if change.writable {
            self.feed(now, Input::Writable { flow });
        }
        if let Some(upstream) = self.upstreams.get_mut(&flow).filter(|_| change.readable) {
            upstream.readable = true;
            upstream.ending |= change.ending;
            upstream.urgent |= change.urgent;
            self.enqueue(flow);
        }
        if change.over {
            self.look_behind_the_end(now, flow);
        }
    }

    /// A peer that sends no more may yet reset the connection, or be gone: reading does not tell that any more, and the program must hear of
    /// it. Not where the program sends no more either, for then all was said.
    fn look_behind_the_end(&mut self, now: Instant, flow: FlowId) {
        let Some(upstream) = self.upstreams.get(&flow).filter(|upstream| upstream.ended && !upstream.shut) else {
            return;
        };
        // An error that is none of the connection's end, such as one of a router, is left where it is.
        if upstream.broken.is_none() && !sockets::is_closed(&upstream.socket) {
            return;
        }
        let errno = upstream.broken.unwrap_or_else(|| match sockopt::socket_error(&upstream.socket) {
            Ok(Err(errno)) | Err(errno) => errno,
            Ok(Ok(())) => Errno::PIPE,
        });
        self.feed(now, Input::Failed { flow, why: sockets::failure(errno) });
    }

    /// There is nothing more to read for the program now: if its data came back, that is said.
    fn nothing_to_read(&mut self, now: Instant, flow: FlowId) {
        if let Some(errno) = self.upstreams.get(&flow).and_then(|upstream| upstream.broken) {
            self.feed(now, Input::Failed { flow, why: sockets::failure(errno) });
        }
    }

    /// Puts a connection among those that are read, if there may be something to read.
    pub(super) fn enqueue(&mut self, flow: FlowId) {
        if let Some(upstream) = self.upstreams.get_mut(&flow).filter(|u| u.readable && !u.queued && !u.ended) {
            upstream.queued = true;
            self.queue.push_back(flow);
        }
    }

    /// Reads connections in turn; how many reads brought something.
    pub(super) fn read_peers(&mut self, now: Instant) -> usize {
        let mut count = 0;
        let mut turns = self.queue.len().min(BATCH);
        while turns > 0 {
            turns -= 1;
            let Some(flow) = self.queue.pop_front() else { break };
            if let Some(upstream) = self.upstreams.get_mut(&flow) {
                upstream.queued = false;
                count += usize::from(self.read_peer(now, flow));
            }
        }
        self.peers.read(now, count > 0);
        if count > 0 {
            self.peers.read(now, false);
        }
        count
    }

    /// Reads once; whether there was something.
    fn read_peer(&mut self, now: Instant, flow: FlowId) -> bool {
        let room = self.forwarder.room(now, flow);
        if room == 0 {
            // Resume comes when there is room. What the program has none for now, its own kernel would not have had either.
            self.nothing_to_read(now, flow);
            return false;
        }
        self.make_room();
        let Some(upstream) = self.upstreams.get_mut(&flow).filter(|upstream| !upstream.ended) else { return false };
        let urgent = upstream.urgent && stream::is_next(&upstream.socket);
        let most = if urgent { 1 } else { room };
        self.room.resize(HEADROOM, 0);
        let got = match stream::receive(&upstream.socket, &mut self.room, most) {
            Ok(Some(got)) => got,
            Ok(None) => {
                upstream.ended = true;
                // A socket that is no more, and has said why, has nothing to read either; its peer has said its end only where that was EPIPE.
                if matches!(upstream.broken, None | Some(Errno::PIPE)) {
                    self.feed(now, Input::Ended { flow });
                }
                self.look_behind_the_end(now, flow);
                return true;
            }
            Err(Errno::AGAIN) => {
                upstream.readable = false;
                self.nothing_to_read(now, flow);
                return false;
            }
            Err(Errno::INTR) => {
                self.enqueue(flow);
                return false;
            }
            Err(errno) => {
                let errno = upstream.broken.unwrap_or(errno);
                self.feed(now, Input::Failed { flow, why: sockets::failure(errno) });
                return true;
            }
        };
        self.passed += got;
        upstream.ends_request();
        upstream.urgent &= !urgent;
        // Less than asked for is all that there was: what comes later is told anew. Not before an end or an urgent byte.
        upstream.readable = got == most || upstream.ending || upstream.urgent || urgent;
        let bytes = if got <= SMALL { self.room.clone() } else { std::mem::take(&mut self.room) };
        self.feed(now, Input::Received { flow, bytes, urgent });
        self.enqueue(flow);
        true
    }

    /// Gives a socket what it takes of a row of pieces.
    pub(super) fn send(&mut self, now: Instant, flow: FlowId, mut pieces: VecDeque<Piece>, urgent: bool) {
        self.begin_delivery(now, flow);
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        let mut broken = false;
        let input = loop {
            let Some((sent, all)) = upstream.send(self.clock.now(), &pieces, urgent) else {
                break Input::Sent { flow, pieces };
            };
            match sent {
                Ok(taken) => {
                    let spare = &mut self.spare;
                    advance(&mut pieces, taken, |bytes| {
                        if bytes.capacity() >= ROOM && spare.len() < MOST_SPARE {
                            spare.push(bytes);
                        }
                    });
                    if taken < all {
                        break Input::Sent { flow, pieces };
                    }
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => break Input::Sent { flow, pieces },
                Err(errno) if upstream.ended => break Input::Failed { flow, why: sockets::failure(errno) },
                Err(errno) => {
                    // What the peer said before may still wait here, and is the program's.
                    upstream.broken.get_or_insert(errno);
                    (upstream.readable, upstream.ending, broken) = (true, true, true);
                    break Input::Sent { flow, pieces };
                }
            }
        };
        self.forwarder.handle_input(now, input);
        if broken {
            self.enqueue(flow);
        }
    }

    pub(super) fn close(&mut self, now: Instant, flow: FlowId, abrupt: bool) {
        let mut facts = None;
        let whose = match self.upstreams.remove(&flow) {
            Some(upstream) => {
                self.ends.leave(now, upstream.app, flow);
                if let Some(own) = &mut self.own
                    && let Some(local) = sockets::local(&upstream.socket)
                {
                    own.remove(&local);
                }
                facts = (!upstream.connecting).then(|| sockets::facts(&upstream.socket)).flatten();
                if abrupt {
                    self.inbound.iter_mut().filter(|_| upstream.called).for_each(|inbound| inbound.look_soon(now));
                    let _ = sockopt::set_socket_linger(&upstream.socket, Some(std::time::Duration::ZERO));
                }
                Whose { owner: upstream.owner, process: upstream.process, sought: upstream.sought }
            }
            // It was never opened.
            None => self
                .abandon(now, flow)
                .map(|waiting| waiting.whose)
                .or_else(|| self.closed.remove(&flow))
                .unwrap_or_default(),
        };
        self.closed.insert(flow, whose);
        self.forwarder.handle_input(now, Input::Closed { flow, facts });
    }
}
