//! An open connection between the browser and a server, both ends: TLS 1.3, then requests and responses.
//!
//! Over HTTP/1.1 a connection carries one request at a time; over HTTP/2 any number, and the server sends the most urgent
//! response first (RFC 9218), deciding anew every 16 kB, the usual size of a frame and of a TLS record; of equally urgent ones
//! those that are of use only as a whole go first, one after the other, and the rest in turns.
//! Nothing here knows pages or time: it is told what to carry, and says what has arrived.

use super::super::packet::Segment;
use super::super::transfer::{Receiver, Sender};
use headstart_core::cwnd;
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;
use std::net::IpAddr;

/// A ClientHello with a hybrid key share (X25519MLKEM768), as Chromium sends it: 1.8 kB.
const CLIENT_HELLO: u64 = 1800;
/// The same in packets of QUIC, which are padded to 1200 bytes each (RFC 9000, section 14.1).
const CLIENT_INITIAL: u64 = 2400;
/// The server's key share (1.1 kB), certificate chain (two certificates, 2.5 kB) and the rest of its flight.
const SERVER_HELLO: u64 = 4000;
/// The client's Finished, which goes in front of its first request.
const FINISHED: u64 = 80;
/// Bytes of a frame; the server decides anew after each.
const FRAME: u64 = 16_384;

/// What reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// The browser's half of the TLS handshake has begun.
    Hello,
    /// A whole request for this object.
    Request(usize),
}

/// What reaches the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// The server's half of the TLS handshake.
    Hello,
    /// So many bytes of this object.
    Bytes(usize, u64),
}

/// One direction: what is under way in it, by the byte behind it.
#[derive(Debug)]
struct Half<M> {
    sender: Sender,
    receiver: Receiver,
    messages: VecDeque<(u64, M)>,
}

impl<M> Half<M> {
    fn new(segment: u64) -> Self {
        Self { sender: Sender::new(segment), receiver: Receiver::default(), messages: VecDeque::new() }
    }

    fn offer(&mut self, bytes: u64, message: M) {
        let end = self.sender.offer(bytes);
        self.messages.push_back((end, message));
    }
}

#[derive(Debug)]
struct Response {
    object: usize,
    left: u64,
    urgency: u8,
    incremental: bool,
}

/// A connection. See the module.
#[derive(Debug)]
pub(super) struct Connection {
    pub socket: u64,
    pub host: usize,
    pub peer: IpAddr,
    /// Whether it carries many requests at once.
    pub multiplexed: bool,
    /// Whether TLS is done.
    pub secured: bool,
    /// Objects that were asked for and have not arrived.
    pub under_way: usize,
    up: Half<Arrived>,
    down: Half<Got>,
    /// Bytes that were reported to the browser.
    reported: u64,
    finished: bool,
    /// What the server has to send, in the order of its being ready.
    ready: Vec<Response>,
    /// When it last wanted to be woken.
    pub armed: Option<Instant>,
    /// When it was called for, its name known, TCP open, TLS done.
    opened: [Instant; 4],
}

impl Connection {
    /// A connection whose TCP handshake is done, or one over QUIC, which has none; TLS begins. Full segments carry `segment` bytes.
    /// It was called for, its name known and it open when `opened` says.
    pub fn new(
        socket: u64,
        host: usize,
        peer: IpAddr,
        (multiplexed, over_quic): (bool, bool),
        segment: u64,
        opened: [Instant; 3],
    ) -> Self {
        let [began, resolved, open] = opened;
        let mut new = Self {
            socket,
            host,
            peer,
            multiplexed,
            secured: false,
            under_way: 0,
            up: Half::new(segment),
            down: Half::new(segment),
            reported: 0,
            finished: false,
            ready: Vec::new(),
            armed: None,
            opened: [began, resolved, open, open],
        };
        new.up.offer(if over_quic { CLIENT_INITIAL } else { CLIENT_HELLO }, Arrived::Hello);
        new
    }

    /// The same, to a server that starts by what it remembers.
    pub fn governed(mut self, by: Box<cwnd::sender::Sender>) -> Self {
        self.down.sender = self.down.sender.governed(by);
        self
    }

    /// What governs the server's half, if anything does.
    pub fn governor(&mut self) -> Option<&mut cwnd::sender::Sender> {
        self.down.sender.governor()
    }

    /// How long looking up its name, connecting and TLS took after `moment`.
    pub fn opening_after(&self, moment: Instant) -> [Duration; 3] {
        std::array::from_fn(|n| self.opened[n + 1].max(moment) - self.opened[n].max(moment))
    }

    /// Whether another request may be sent.
    pub fn is_free(&self) -> bool {
        self.secured && (self.multiplexed || self.under_way == 0)
    }

    /// The browser asks for `object`.
    pub fn request(&mut self, object: usize, bytes: u64) {
        self.under_way += 1;
        let finished = if self.finished { 0 } else { FINISHED };
        self.finished = true;
        self.up.offer(bytes.max(1) + finished, Arrived::Request(object));
    }

    /// The server has `bytes` to send for `object`.
    pub fn respond(&mut self, object: usize, bytes: u64, urgency: u8, incremental: bool) {
        self.ready.push(Response { object, left: bytes.max(1), urgency, incremental });
    }

    /// Gives the server's TCP as much as it will send soon; what is given can no longer be overtaken.
    fn fill(&mut self) {
        let order = |(i, r): (usize, &Response)| (r.urgency, r.incremental, i);
        while self.down.sender.unsent() < FRAME
            && let Some((.., first)) = self.ready.iter().enumerate().map(order).min()
        {
            let mut response = self.ready.remove(first);
            let bytes = response.left.min(FRAME);
            response.left -= bytes;
            self.down.offer(bytes, Got::Bytes(response.object, bytes));
            match response.left {
                0 => {}
                _ if response.incremental => self.ready.push(response),
                _ => self.ready.insert(first, response),
            }
        }
    }

    /// A segment has come to the end that it was sent to.
    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        let (sender, receiver) = if segment.up {
            (&mut self.down.sender, &mut self.up.receiver)
        } else {
            (&mut self.up.sender, &mut self.down.receiver)
        };
        if let Some(ranges) = &segment.acknowledges {
            sender.acknowledged(now, ranges);
        }
        if let Some(data) = segment.data {
            receiver.receive(now, data);
        }
    }

    /// The next message that the server has received.
    pub fn received(&mut self) -> Option<Arrived> {
        let there = self.up.receiver.delivered();
        let arrived = self.up.messages.front().filter(|(end, _)| *end <= there)?.1;
        self.up.messages.pop_front();
        if arrived == Arrived::Hello {
            self.down.offer(SERVER_HELLO, Got::Hello);
        }
        Some(arrived)
    }

    /// The next message that the browser has received.
    pub fn got(&mut self, now: Instant) -> Option<Got> {
        let there = self.down.receiver.delivered();
        let (end, message) = self.down.messages.front().copied()?;
        match message {
            Got::Hello if there >= end => {
                self.down.messages.pop_front();
                (self.reported, self.secured, self.opened[3]) = (end, true, now);
                Some(Got::Hello)
            }
            Got::Bytes(object, _) if there > self.reported => {
                let new = there.min(end) - self.reported;
                self.reported += new;
                if self.reported == end {
                    self.down.messages.pop_front();
                }
                Some(Got::Bytes(object, new))
            }
            _ => None,
        }
    }

    /// Everything that may be sent now.
    pub fn flush(&mut self, now: Instant, out: &mut Vec<Segment>) {
        let (socket, peer) = (self.socket, self.peer);
        let mut push = |up, data, acknowledges| out.push(Segment { socket, peer, up, data, acknowledges });
        while let Some(data) = self.up.sender.send(now) {
            push(true, Some(data), self.down.receiver.piggyback());
        }
        if let Some(ranges) = self.down.receiver.acknowledge(now) {
            push(true, None, Some(ranges));
        }
        self.fill();
        while let Some(data) = self.down.sender.send(now) {
            self.fill();
            push(false, Some(data), self.up.receiver.piggyback());
        }
        if let Some(ranges) = self.up.receiver.acknowledge(now) {
            push(false, None, Some(ranges));
        }
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let (up, down) = (&self.up, &self.down);
        [up.sender.deadline(), up.receiver.deadline(), down.sender.deadline(), down.receiver.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Wakes it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.up.sender.handle_timeout(now);
        self.down.sender.handle_timeout(now);
    }
}
