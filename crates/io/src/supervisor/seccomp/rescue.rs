//! Programs that do not wait in connect(2), and whose attempt has stalled where another address answers.
//!
//! A socket can be exchanged only while a call of its program waits for our answer, and such a program makes none. So its
//! attempt is ended (connect(2), AF_UNSPEC), which wakes it wherever it waits for the socket; it looks what has become of it
//! (getsockopt(2), SO_ERROR; or connect(2) once more), which is trapped, and by then there is a connection under its number.
//! A program that does not look sees its attempt fail, and goes on as it does then.

use super::app_socket::{Fresh, Look, look_again};
use super::exchange::Exchange;
use crate::supervisor::engine::Engine;
use crate::sys::process;
use crate::sys::seccomp::{Kind, Notification};
use headstart_core::connect::{AttemptId, Input, RequestId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::shim::Pass;
use rustix::fs::fstat;
use rustix::net::connect_unspec;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// How long a program may take to look. It has been woken; only a busy machine or a long turn of its own keeps it.
const LOOKS_WITHIN: Duration = Duration::from_secs(5);

/// A connection for a program that has not looked yet.
#[derive(Debug)]
struct Rescue {
    request: RequestId,
    to: IpAddr,
    connection: OwnedFd,
    until: Instant,
}

/// Those of one run, by the inode of the socket that they are to take the place of.
#[derive(Debug, Default)]
pub(super) struct Rescues(BTreeMap<u64, Rescue>);

impl Rescues {
    /// Ends the attempt `stalled` of a program and keeps the connection `by` for it.
    pub fn begin(
        &mut self,
        engine: &mut Engine,
        request: RequestId,
        to: IpAddr,
        (stalled, by): (AttemptId, AttemptId),
    ) {
        let socket = engine.let_go(stalled);
        let connection = engine.hand_over(by, true);
        let begun = socket.zip(connection).and_then(|(socket, connection)| {
            let inode = fstat(&socket).ok()?.st_ino;
            connect_unspec(&socket).ok()?;
            Some((inode, connection))
        });
        let Some((inode, connection)) = begun else { return not_taken(engine, request, to, Pass::NothingReady) };
        let until = engine.clock.now() + LOOKS_WITHIN;
        self.0.insert(inode, Rescue { request, to, connection, until });
    }

    /// Whether a call may be one of those that are waited for.
    pub fn concern(&self, call: &Notification) -> bool {
        !self.0.is_empty() && call.kind != Kind::Send
    }

    /// Puts a connection in the place of the socket that `call` is about, if one is kept for it; the call still waits.
    pub fn complete(&mut self, engine: &mut Engine, hand: Exchange<'_>, call: &Notification, fresh: &Fresh) {
        let Ok(file) = process::descriptor(call.thread, call.number) else { return };
        let rescue = fstat(&file).ok().and_then(|stat| self.0.remove(&stat.st_ino));
        let Some(Rescue { request, to, connection, .. }) = rescue else { return };
        let exchanged = look_again(file, fresh).and_then(|look| match look {
            Look::Tcp(socket) => hand.exchange(call, socket, fresh, &connection),
            Look::Other => Err(Pass::NotNew),
        });
        if let Err(reason) = exchanged {
            not_taken(engine, request, to, reason);
        }
    }

    /// Whether no program is waited for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first of them is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.values().map(|rescue| rescue.until).min()
    }

    /// Gives up those whose program does not look.
    pub fn expire(&mut self, engine: &mut Engine, now: Instant) {
        self.0.retain(|_, rescue| {
            let waits = rescue.until > now;
            if !waits {
                not_taken(engine, rescue.request, rescue.to, Pass::NotNew);
            }
            waits
        });
    }
}

fn not_taken(engine: &mut Engine, request: RequestId, to: IpAddr, reason: Pass) {
    engine.feed(Input::NotTaken { request, to, connected: true, reason });
}
