//! The state of the forwarder, for its readers.

use super::{BOARD, Worker, WorkerError, failed, sockets};
use crate::board::Audience;
use crate::forward::board::Board;
use crate::forward::window::{Part, Window};
use crate::poll::Interest;
use headstart_core::forward::Flow;
use headstart_core::time::Instant;

impl Worker {
    /// Answers programs of this user that ask how it stands, and of the audience, from now on (see [`board`](crate::forward::board)).
    pub fn tell_who_asks(&mut self, audience: Audience) -> Result<(), WorkerError> {
        let window = Window::open(audience).map_err(failed("opening the status socket"))?;
        if let Some(listener) = &window.listener {
            self.poll.add(listener, BOARD, Interest::Read).map_err(failed("listening on the status socket"))?;
        }
        self.window = Some(window);
        Ok(())
    }

    /// A client asks.
    pub(super) fn asked(&mut self, now: Instant) {
        if let Some(window) = &self.window {
            window.answer(|part| self.board(now, part));
        }
    }

    pub(super) fn board(&self, now: Instant, part: Part<'_>) -> Board {
        let whose = |flow: &Flow| self.upstreams.get(&flow.id).and_then(|upstream| Some(upstream.owner?.user));
        let seen = self.forwarder.open().into_iter().filter(|flow| part.has(whose(flow)));
        let mut open: Vec<_> = seen.cloned().collect();
        for flow in &mut open {
            let upstream = self.upstreams.get(&flow.id).filter(|upstream| !upstream.connecting);
            flow.facts = upstream.and_then(|upstream| sockets::facts(&upstream.socket));
        }
        let lines = open.iter().map(|flow| {
            let process = self.upstreams.get(&flow.id).and_then(|upstream| upstream.process.as_ref());
            (flow, process, now.since(flow.asked).as_secs_f64() * 1e3)
        });
        let udp = self.forwarder.udp_flows();
        let udp = udp.map(|flow| (flow, self.whose_port(flow.app)));
        let udp = udp.filter(|(_, whose)| part.has(whose.owner.map(|owner| owner.user)));
        let udp = udp.map(|(flow, whose)| (flow, whose.process, now.since(flow.began).as_secs_f64() * 1e3));
        let tally = self.forwarder.tally();
        let board = part.tallies.board(lines, udp);
        Board {
            at_ms: now.as_millis_f64(),
            packets: tally.packets,
            left_out: tally.left_out,
            wakeups: self.wakeups.named(),
            via: "tun".into(),
            ..board
        }
    }
}
