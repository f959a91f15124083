//! Peers that may be gone: they are asked when a program's kernel asks, and where a path has timed out, that kernel is had to find it out by
//! itself. So a program gets the error that it would have had, when it would have had it.

use super::{Teller, Worker, sockets};
use crate::driver::Hands;
use crate::sys::process::descriptor;
use crate::sys::stream;
use headstart_core::forward::{Failure, FlowId, Input};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::time::{Duration, Instant};
use rustix::fs::fstat;
use std::os::fd::OwnedFd;

/// How soon it is seen whether a peer has answered, each time after twice as long, and how long it may take; a program's kernel asks again
/// before that, or has given up.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// How often a program's kernel is made to give up, and for how long: what it needs is a second without a packet, and two ticks of its clock.
const AGAIN: Duration = Duration::from_millis(5);
const LONGEST_END: Duration = Duration::from_millis(2500);

/// A peer that was asked whether it is there.
#[derive(Debug)]
struct Asked {
    flow: FlowId,
    /// Segments that had come from it until then.
    came_in: u32,
    next: Instant,
    wait: Duration,
    until: Instant,
}

/// A program's socket that is to time out.
#[derive(Debug)]
struct TimingOut {
    flow: FlowId,
    socket: OwnedFd,
    next: Instant,
    until: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Silence {
    asked: Vec<Asked>,
    ending: Vec<TimingOut>,
}

impl Silence {
    /// When to look again.
    pub fn deadline(&self) -> Option<Deadline> {
        let asked = self.asked.iter().map(|asked| asked.next);
        let at = asked.chain(self.ending.iter().map(|ending| ending.next)).min()?;
        Some(Deadline { at, why: "a peer may be gone" })
    }
}

impl Worker {
    /// A program's kernel asks whether a peer is there, and so do we.
    pub(super) fn ask_peer(&mut self, now: Instant, flow: FlowId) {
        let Some(upstream) = self.upstreams.get(&flow) else { return };
        let came_in = sockets::came_in(&upstream.socket);
        // A kernel does not ask while data is on its way: its patience with that is another.
        let may_ask = stream::unacknowledged(&upstream.socket) == Some(0);
        let Some(came_in) = came_in.filter(|_| may_ask && sockets::probe(&upstream.socket).is_ok()) else {
            // What cannot be asked may be alive.
            return self.forwarder.handle_input(now, Input::Alive { flow });
        };
        self.silence.asked.retain(|asked| asked.flow != flow);
        let (next, until) = (now + FIRST_LOOK, now + LONGEST_ANSWER);
        self.silence.asked.push(Asked { flow, came_in, next, wait: FIRST_LOOK, until });
    }

    /// A peer has not answered for a while. A socket that is closed while its SYN is on the way sends nothing, so the kernel is asked whether it
    /// is there still: only where it has told of it before, for a program elsewhere it never does.
    pub(super) fn look_at_program(&mut self, now: Instant, flow: FlowId) {
        let known = match self.upstreams.get(&flow) {
            Some(upstream) => upstream.owner.map(|owner| (owner, upstream.app, upstream.peer)),
            None => self.waiting(flow).and_then(|wants| wants.whose.owner.map(|owner| (owner, wants.app, wants.peer))),
        };
        let (Some((owner, app, peer)), Teller::Kernel { owners, .. }) = (known, &mut self.teller) else { return };
        // On its ends there may be another socket by now.
        if owners.of_tcp(app, peer).is_ok_and(|found| found.is_none_or(|found| found.inode != owner.inode)) {
            self.feed(now, Input::GivenUp { flow });
        }
    }

    /// A connection to a peer has timed out, and the program's kernel is to time out too.
    pub(super) fn time_out(&mut self, now: Instant, flow: FlowId) {
        match self.socket_of_program(flow) {
            Some(socket) => {
                self.silence.ending.push(TimingOut { flow, socket, next: now, until: now + LONGEST_END });
                self.look_at_silence(now);
            }
            None => self.forwarder.handle_input(now, Input::Failed { flow, why: Failure::Here }),
        }
    }

    /// The very socket of the program, if its process is known and lets us.
    fn socket_of_program(&mut self, flow: FlowId) -> Option<OwnedFd> {
        let upstream = self.upstreams.get(&flow)?;
        let (inode, known) = (upstream.owner?.inode, upstream.process.clone());
        let is_it = |socket: &OwnedFd| fstat(socket).is_ok_and(|stat| stat.st_ino == u64::from(inode));
        let at_known = known.and_then(|process| descriptor(process.pid, process.fd).ok()).filter(is_it);
        at_known.or_else(|| {
            let process = self.teller.finder()?.at_once(inode)?;
            descriptor(process.pid, process.fd).ok().filter(is_it)
        })
    }

    /// Looks at what was silent; to be called when a deadline may have come.
    pub(super) fn look_at_silence(&mut self, now: Instant) {
        if self.silence.deadline().is_none_or(|deadline| now < deadline.at) {
            return;
        }
        let mut silence = std::mem::take(&mut self.silence);
        let mut inputs = Vec::new();
        silence.asked.retain_mut(|asked| {
            let Some(upstream) = self.upstreams.get(&asked.flow) else { return false };
            if now < asked.next {
                return true;
            }
            if sockets::came_in(&upstream.socket) != Some(asked.came_in) {
                let _ = rustix::net::sockopt::set_socket_keepalive(&upstream.socket, false);
                inputs.push(Input::Alive { flow: asked.flow });
                return false;
            }
            asked.wait = (asked.wait * 2).min(LONGEST_LOOK);
            asked.next = now + asked.wait;
            now < asked.until
        });
        silence.ending.retain_mut(|ending| {
            if now < ending.next {
                return true;
            }
            if !self.upstreams.contains_key(&ending.flow) || sockets::is_closed(&ending.socket) {
                return false;
            }
            if now >= ending.until || sockets::give_up(&ending.socket).is_err() {
                inputs.push(Input::Failed { flow: ending.flow, why: Failure::Here });
                return false;
            }
            ending.next = now + AGAIN;
            true
        });
        self.silence = silence;
        inputs.into_iter().for_each(|input| self.feed(now, input));
    }
}
