//! Tells a client that asks how the measurement stands, without waiting for it.

use super::{BOARD, Worker, WorkerError, failed, sockets};
use crate::forward::board::{self, Board, Tallies};
use crate::poll::Interest;
use headstart_core::time::Instant;
use rustix::net::{SendFlags, SocketFlags, accept_with, send, sockopt};
use std::os::fd::OwnedFd;

/// Room for a whole board in the client's socket; the kernel gives as much of it as it may.
const ROOM: usize = 1 << 20;

/// The socket that clients ask at, and what they are told.
pub(super) struct Window {
    listener: OwnedFd,
    pub(super) tallies: Tallies,
}

impl Worker {
    /// From now on a client of this user is told how it stands (see [`board`]).
    pub fn tell_who_asks(&mut self) -> Result<(), WorkerError> {
        let listener = board::listener().map_err(failed("opening the status socket"))?;
        self.poll.add(&listener, BOARD, Interest::Read).map_err(failed("listening on the status socket"))?;
        self.window = Some(Window { listener, tallies: Tallies::default() });
        Ok(())
    }

    /// A client asks.
    pub(super) fn asked(&mut self, now: Instant) {
        let Some(window) = &self.window else { return };
        let Ok(client) = accept_with(&window.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else { return };
        if !board::is_trusted(&client) {
            return;
        }
        let Ok(text) = serde_json::to_vec(&self.board(now, &window.tallies)) else { return };
        let _ = sockopt::set_socket_send_buffer_size(&client, ROOM);
        // What does not fit is not told; the next question may be luckier.
        let _ = send(&client, &text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    fn board(&self, now: Instant, tallies: &Tallies) -> Board {
        let mut open: Vec<_> = self.forwarder.open().into_iter().cloned().collect();
        for flow in &mut open {
            let upstream = self.upstreams.get(&flow.id).filter(|upstream| !upstream.connecting);
            flow.facts = upstream.and_then(|upstream| sockets::facts(&upstream.socket));
        }
        let lines = open.iter().map(|flow| {
            let process = self.upstreams.get(&flow.id).and_then(|upstream| upstream.process.as_ref());
            (flow, process, now.since(flow.asked).as_secs_f64() * 1e3)
        });
        let udp = self.forwarder.udp_flows();
        let udp = udp.map(|flow| (flow, self.whose_port(flow.app).process, now.since(flow.began).as_secs_f64() * 1e3));
        let tally = self.forwarder.tally();
        let board = tallies.board(lines, udp);
        Board {
            at_ms: now.as_millis_f64(),
            packets: tally.packets,
            left_out: tally.left_out,
            wakeups: self.wakeups.named(),
            ..board
        }
    }
}
