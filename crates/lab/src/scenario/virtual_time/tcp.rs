//! A TCP transfer: a handshake, then bytes one way between two ends of [`crate::sim::tcp`].

use super::{Actor, Load};
use crate::scenario::flow::Measured;
use crate::sim::tcp::{MSS, Stack, Tcp};
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};

/// RFC 6298, section 2; it doubles.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// IPv4 and TCP with the options of a SYN.
const SYN: usize = 60;
/// A header of IPv6 is so much longer.
const V6: usize = 20;

/// One transfer.
pub(super) struct Transfer {
    start: Instant,
    bytes: u64,
    stack: Stack,
    /// Bytes of each packet beyond those of IPv4.
    extra: usize,
    /// The SYN: when the last went, and how many went.
    syn: (Instant, u32),
    /// Of `from`, and of `to`, from its first SYN on.
    ends: [Option<Tcp>; 2],
    completion: Option<Duration>,
}

impl Transfer {
    pub(super) fn new(start: Instant, bytes: u64, stack: Stack, family: Family) -> Self {
        let extra = if family == Family::V4 { 0 } else { V6 };
        Self { start, bytes, stack, extra, syn: (start, 0), ends: [None, None], completion: None }
    }

    /// One end of the connection, whose handshake took `rtt`.
    fn open(&self, rtt: Duration) -> Tcp {
        Tcp::new(self.stack, rtt).with_segments(MSS - self.extra)
    }

    /// When the next SYN is due.
    fn syn_due(&self) -> Instant {
        match self.syn {
            (at, 0) => at,
            (at, sent) => at + SYN_TIMEOUT * 2u32.pow((sent - 1).min(6)),
        }
    }

    /// All that both ends send at `now`.
    fn send(&mut self, now: Instant, out: &mut Vec<(bool, Load)>) {
        for (tcp, forth) in self.ends.iter_mut().zip([true, false]) {
            let Some(tcp) = tcp else { continue };
            if tcp.deadline().is_some_and(|at| at <= now) {
                tcp.timeout(now);
            }
            while let Some(segment) = tcp.poll(now) {
                out.push((forth, Load::Segment(segment, self.extra)));
            }
        }
    }
}

impl Actor for Transfer {
    fn receive(&mut self, at: Instant, forth: bool, load: Load, out: &mut Vec<(bool, Load)>) {
        match load {
            Load::Syn(len) if forth => {
                // Only data tell `to` how long a round trip is, and it sends none.
                let opened = self.open(Duration::ZERO);
                self.ends[1].get_or_insert(opened);
                out.push((false, Load::Syn(len)));
            }
            Load::Syn(_) if self.ends[0].is_none() => {
                let mut from = self.open(at.since(self.syn.0));
                from.write_blank(self.bytes);
                self.ends[0] = Some(from);
            }
            Load::Segment(segment, _) => {
                if let Some(tcp) = &mut self.ends[usize::from(forth)] {
                    tcp.receive(at, &segment);
                }
            }
            Load::Syn(_) | Load::Datagram { .. } => {}
        }
        if self.completion.is_none() && self.ends[1].as_ref().is_some_and(|to| to.arrived() >= self.bytes) {
            self.completion = Some(at - self.start);
        }
        self.send(at, out);
    }

    fn poll(&mut self, now: Instant, out: &mut Vec<(bool, Load)>) {
        if self.ends[0].is_none() && self.syn_due() <= now {
            self.syn = (now, self.syn.1 + 1);
            out.push((true, Load::Syn(SYN + self.extra)));
        }
        self.send(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let syn = self.ends[0].is_none().then(|| self.syn_due());
        let ends = self.ends.iter().flatten().filter_map(Tcp::deadline);
        ends.chain(syn).min().filter(|_| !self.done())
    }

    fn measured(&self) -> Measured {
        let bytes = self.ends[1].as_ref().map_or(0, Tcp::arrived);
        Measured { bytes, completion: self.completion, ..Measured::nothing() }
    }

    fn done(&self) -> bool {
        self.completion.is_some()
    }
}
