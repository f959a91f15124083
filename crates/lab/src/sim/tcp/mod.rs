//! TCP of three ages in virtual time: what matters to small messages, after the connection is open.
//!
//! Loss recovery, acknowledgements and the congestion window follow the RFCs as Linux reads them, each rule cited where it stands: RACK-TLP (RFC 8985) with
//! SACK, or NewReno (RFC 6582) without; delayed acknowledgements; CUBIC (RFC 9438) with HyStart as in Linux's `tcp_cubic.c`; RFC 6298 with Linux's 200 ms. What
//! is not here: handshakes, closing, flow control, ECN, F-RTO, undoing of false recoveries, SACK compression.

mod bbr;
mod receiver;
mod sender;

use headstart_core::time::{Duration, Instant};
use receiver::Receiver;
use sender::Sender;

/// Bytes of payload in a full segment: 1500 of IP less headers with timestamps.
pub const MSS: usize = 1448;
/// IPv4, TCP and timestamps.
const HEADERS: usize = 52;

/// An age of TCP: what both ends do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its name in tables.
    pub name: &'static str,
    /// SACK and RACK; else three duplicate acknowledgements and NewReno.
    pub sack: bool,
    /// Tail loss probes.
    pub probes: bool,
    /// Every acknowledgement waits for data to go with, or for its timer.
    pub delays_acks: bool,
    /// The window of a new connection, in segments.
    pub initial_window: u32,
    /// BBR in place of CUBIC.
    pub bbr: bool,
}

/// Linux 6: RACK-TLP and SACK; acknowledgements at once, until the receiver answers what it gets. RFC 6928's window.
pub const MODERN: Stack =
    Stack { name: "modern", sack: true, probes: true, delays_acks: false, initial_window: 10, bbr: false };
/// The same before a receiver that delays acknowledgements, as other systems do.
pub const DELAYED_ACK: Stack = Stack { name: "delayed-ack", delays_acks: true, ..MODERN };
/// The same with BBR, version 1.
pub const BBR: Stack = Stack { name: "bbr", bbr: true, ..MODERN };
/// What Android 2.3 and Windows XP had (paper 4, table 1): no SACK in use, no probes, delayed acknowledgements, RFC 3390's
/// window.
pub const LEGACY: Stack =
    Stack { name: "legacy", sack: false, probes: false, delays_acks: true, initial_window: 3, bbr: false };

/// Every age.
pub const ALL: &[Stack] = &[MODERN, DELAYED_ACK, LEGACY];

/// A segment on its way. Payload without bytes (of a bulk flow) has a length alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of its first byte.
    pub seq: u64,
    /// Length of its payload.
    pub len: usize,
    /// Its payload, where it is read.
    pub bytes: Vec<u8>,
    /// Everything before this has arrived.
    pub ack: u64,
    /// What has arrived beyond it: the newest block first.
    pub sacks: [(u64, u64); 3],
}

impl Segment {
    /// Bytes of IP.
    pub fn wire_len(&self) -> usize {
        let blocks = self.sacks.iter().filter(|(from, to)| from < to).count();
        HEADERS + if blocks > 0 { 4 + 8 * blocks } else { 0 } + self.len
    }
}

/// One end of an open connection.
#[derive(Debug)]
pub struct Tcp {
    sender: Sender,
    receiver: Receiver,
}

impl Tcp {
    /// An open connection whose handshake took `rtt`.
    pub fn new(stack: Stack, rtt: Duration) -> Self {
        Self { sender: Sender::new(stack, rtt), receiver: Receiver::new(stack) }
    }

    /// Full segments have `bytes` of payload, at both ends, instead of [`MSS`]: what a tunnel leaves of them.
    #[must_use]
    pub fn with_segments(mut self, bytes: usize) -> Self {
        self.sender.segment = bytes;
        self.receiver.segment = bytes;
        self
    }

    /// Bytes that have arrived in order.
    pub fn arrived(&self) -> u64 {
        self.receiver.state().0
    }

    /// The program writes; with TCP_NODELAY it leaves at once if the window allows it.
    pub fn write(&mut self, bytes: &[u8]) {
        self.sender.write(bytes);
        self.receiver.answered();
    }

    /// The program writes so many bytes whose content does not matter.
    pub fn write_blank(&mut self, bytes: u64) {
        self.sender.blank += bytes;
        self.receiver.answered();
    }

    /// From now on there is always something to send: a bulk flow.
    pub fn write_for_ever(&mut self) {
        self.sender.endless = true;
    }

    /// A segment arrives.
    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        if segment.len > 0 {
            self.receiver.data(now, segment);
        }
        self.sender.acknowledged(now, segment);
    }

    /// What the program reads: all that is there.
    pub fn read(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.receiver.ready)
    }

    /// The next segment to send.
    pub fn poll(&mut self, now: Instant) -> Option<Segment> {
        let (ack, sacks) = self.receiver.state();
        if let Some((seq, len, bytes)) = self.sender.poll(now) {
            self.receiver.acknowledged();
            return Some(Segment { seq, len, bytes, ack, sacks });
        }
        self.receiver.ack_now.then(|| {
            self.receiver.acknowledged();
            Segment { seq: self.sender.next(), len: 0, bytes: Vec::new(), ack, sacks }
        })
    }

    /// An acknowledgement that does not wait for what the program will make of the data.
    pub fn poll_ack(&mut self) -> Option<Segment> {
        let (ack, sacks) = self.receiver.state();
        self.receiver.ack_now.then(|| {
            self.receiver.acknowledged();
            Segment { seq: self.sender.next(), len: 0, bytes: Vec::new(), ack, sacks }
        })
    }

    /// When to call [`Tcp::timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        [self.sender.deadline(), self.receiver.ack_at].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Instant) {
        self.sender.timeout(now);
        self.receiver.timeout(now);
    }

    /// Bytes that the program has written and the peer's TCP has not acknowledged (SIOCOUTQ).
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// Segments sent again so far.
    pub fn retransmissions(&self) -> u64 {
        self.sender.retransmissions
    }
}

#[cfg(test)]
mod tests;
