//! Datagrams at a steady rate, and pings.

use super::{Actor, Load};
use crate::scenario::flow::{Flow, Measured, Traffic};
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};

/// How long a ping's or a datagram's arrival is waited for after the last was sent.
const PATIENCE: Duration = crate::scenario::flow::PATIENCE;

/// One flow of them.
pub(super) struct Datagrams {
    start: Instant,
    gap: Duration,
    count: u64,
    wire_len: usize,
    echo: bool,
    payload: usize,
    sent: u64,
    over: bool,
    measured: Measured,
}

impl Datagrams {
    pub(super) fn new(start: Instant, flow: &Flow) -> Self {
        let (payload, gap, count) = flow.traffic.datagrams().unwrap_or((0, Duration::ZERO, 0));
        // IP and UDP headers.
        let headers = if flow.family == Family::V4 { 28 } else { 48 };
        Self {
            start,
            gap,
            count,
            wire_len: payload + headers,
            echo: matches!(flow.traffic, Traffic::Ping { .. }),
            payload,
            sent: 0,
            over: false,
            measured: Measured::nothing(),
        }
    }

    /// When datagram number `n` is due.
    fn due(&self, n: u64) -> Instant {
        crate::scenario::flow::due(self.start, self.gap, n)
    }

    fn end(&self) -> Instant {
        self.due(self.count.saturating_sub(1)) + PATIENCE
    }
}

impl Actor for Datagrams {
    fn receive(&mut self, at: Instant, forth: bool, load: Load, out: &mut Vec<(bool, Load)>) {
        let Load::Datagram { number, sent, wire_len } = load else { return };
        if forth && self.echo {
            out.push((false, Load::Datagram { number, sent, wire_len }));
            return;
        }
        self.measured.bytes += self.payload as u64;
        self.measured.datagrams.1 += 1;
        self.measured.delays.push(at - sent);
    }

    fn poll(&mut self, now: Instant, out: &mut Vec<(bool, Load)>) {
        while self.sent < self.count && self.due(self.sent) <= now {
            let sent = self.due(self.sent);
            out.push((true, Load::Datagram { number: self.sent, sent, wire_len: self.wire_len }));
            self.sent += 1;
            self.measured.datagrams.0 = self.sent;
        }
        self.over |= self.sent == self.count && now >= self.end();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.sent < self.count { Some(self.due(self.sent)) } else { (!self.over).then(|| self.end()) }
    }

    fn measured(&self) -> Measured {
        self.measured.clone()
    }

    fn done(&self) -> bool {
        self.over || self.sent == self.count && self.measured.datagrams.1 == self.count
    }
}
