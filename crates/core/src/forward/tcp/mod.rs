//! One TCP connection of a program, ended here and begun again in a socket of the host (RFC 9293).
//!
//! The way to the program is on this host, so there is no congestion control; but it may lose packets (the device's queue is
//! bounded), so there are a reordering queue, one timer for what was not acknowledged, and windows that fit the queue. The
//! rules, each of them a check of `measure-semantics`: a SYN is answered when the peer has answered, never earlier; a refusal is
//! a reset, no route an ICMP error, silence is silence. What is acknowledged is in the socket, or, where the socket is full, has
//! waited in here for [`GRACE`] within the window. A FIN comes behind all data, and either half may stay open for as long as
//! its sides like. Resets go both ways with exact numbers. Never: data that is dropped after it was acknowledged.

mod call;
mod down;
mod emit;
mod stamps;
mod up;

use super::observed::{Flow, FlowEnd};
use super::{Agreed, Failure, FlowId, Output, Packet, Settings, WINDOW, profile};
use crate::time::{Duration, Instant};
use crate::wire::ip::icmp::{self, Trouble};
use crate::wire::ip::tcp::{Flags, HEADER, Segment, before};
use crate::wire::ip::{self, HOP_LIMIT, Header};
use down::Down;
use stamps::Stamps;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use up::Up;

/// How long data waits for a full socket until it is acknowledged. 100 ms: half of the least time after which a program's
/// kernel would send it again (RFC 6298 allows 1 s, Linux 200 ms), so that nothing is sent twice.
const GRACE: Duration = Duration::from_millis(100);
/// How often an answer to a SYN is retransmitted, each time after twice as long, 1 s at first: as Linux does (tcp_synack_retries).
const MOST_ANSWERS: u32 = 5;
/// When this host's kernel repeats a SYN that is not answered: after a second (RFC 6298), each second until there were five (Linux:
/// tcp_syn_linear_timeouts), and then each time after twice as long. Before each of them the program is looked at, so that nothing is said for one
/// that has given up. Not more rarely than each 16 s; a look costs as much as a connection's first.
const FIRST_REPETITION: Duration = Duration::from_secs(1);
const EVEN_REPETITIONS: u32 = 5;
const LONGEST_LOOK: Duration = Duration::from_secs(16);
/// How long before. 100 ms: at the very moment the two would race. Ten ticks of a kernel with few, and what gives up in between is rare.
const BEFORE_REPETITION: Duration = Duration::from_millis(100);
/// How long a program's kernel is left alone to find out by itself that there is no peer; it needs a second at most (see
/// `Output::TimeOut`).
const LONGEST_SILENCE: Duration = Duration::from_secs(3);
/// A segment that is longer than this one was made for no wire: 9216 bytes, the longest frames of Ethernet in use, less headers.
const LONGEST_OF_WIRES: u16 = 9216 - 40;
/// The traffic class without ECN, which is between the kernel and its peer.
const DSCP: u8 = !ip::ECN;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The peer has not answered, and neither have we.
    Asked,
    /// Answered; the program's acknowledgement is to come.
    Answered { times: u32 },
    /// The peer has asked, and the program's answer is to come.
    Calling { times: u32 },
    /// Open, or one half of it.
    Open,
    /// The peer is silent for good, and the program's kernel is to find that out by itself: it gets no packet until this moment.
    Silent { until: Instant },
    /// The peer is no more, and the program hears of it when its kernel has acknowledged what the peer said before.
    Broken,
    /// Over; the socket is to be closed.
    Over,
}

/// A packet of the program, taken apart.
pub(super) struct Arrived<'a> {
    /// Its IP header.
    pub header: &'a Header,
    /// Its TCP header.
    pub segment: Segment,
    /// The packet.
    pub bytes: Vec<u8>,
    /// Where its payload begins.
    pub from: usize,
    /// Where its payload ends.
    pub to: usize,
    /// In how many segments the payload would have gone.
    pub segments: usize,
    /// More may follow at once.
    pub batch: bool,
    /// More do, and this is said to the peer with what they bring.
    pub row: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    id: FlowId,
    /// What was seen of it.
    pub flow: Flow,
    phase: Phase,
    /// Whether the peer is connected: not the same as having answered, for a profile may answer early.
    connected: bool,
    profile: &'static profile::Entry,
    up: Up,
    down: Down,
    stamps: Stamps,
    /// The beginning of the SYN, for errors that quote it.
    syn: Vec<u8>,
    /// The most data of a segment of the program's, options left out.
    mss: u16,
    /// The longest packet of the program: as its segments say that it takes, or as it was told of the path.
    mtu: u32,
    /// Where its segments are longer than the path's: how long those are.
    cut_to: Option<u16>,
    /// Whether they may be.
    long: bool,
    traffic_class: u8,
    /// When the answer is to be retransmitted.
    answer_again: Option<Instant>,
    /// When the program is to be looked at while its peer has not answered, and how often it was.
    look: (Instant, u32),
    /// Segments with data that were shorter than they might have been.
    small: u32,
    /// When its timer in the forwarder's list goes off, if it is there.
    pub armed: Option<Instant>,
}

impl Connection {
    /// A program asks for a connection; `first` is our first sequence number.
    pub fn new(
        now: Instant,
        (id, (app, peer)): (FlowId, (SocketAddr, SocketAddr)),
        (syn, first): (&Arrived<'_>, u32),
        settings: &Settings,
        out: &mut VecDeque<Output>,
    ) -> Self {
        let (header, profile) = (syn.header, settings.profile);
        // 536 and 1220: what is taken to hold where nothing is said (RFC 9293, section 3.7.1).
        let offered = syn.segment.mss.unwrap_or(if app.is_ipv4() { 536 } else { 1220 });
        let quoted = syn.bytes.len().min(icmp::most_quoted(app.is_ipv4()));
        let traffic_class = header.traffic_class & DSCP;
        let long = settings.long_segments && offered > LONGEST_OF_WIRES;
        let window = if settings.long_segments && !long { up::PLAIN_WINDOW } else { WINDOW };
        let mut connection = Self {
            id,
            flow: Flow::new(id, (app, peer), now),
            phase: Phase::Asked,
            connected: false,
            profile,
            up: Up::new(syn.segment.sequence, syn.segment.scale.is_some(), window),
            down: Down::new(first, &syn.segment, offered),
            stamps: Stamps::new(now, &syn.segment, first.rotate_left(16)),
            syn: syn.bytes[..quoted].to_vec(),
            mss: offered,
            mtu: u32::from(offered) + headers_len(app),
            cut_to: None,
            long,
            traffic_class,
            answer_again: None,
            look: (now + (FIRST_REPETITION - BEFORE_REPETITION), 0),
            small: 0,
            armed: None,
        };
        let no_delay = profile.mirrors_delay;
        let hop_limit = header.hop_limit;
        out.push_back(Output::Connect { flow: id, app, peer, traffic_class, hop_limit, no_delay, mss: offered });
        if profile.early_answer {
            connection.answer(now, None, out);
        }
        connection
    }

    /// Whether nothing more is to come of it.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the program's kernel is left alone until it gives up.
    fn is_silent(&self) -> bool {
        matches!(self.phase, Phase::Silent { .. })
    }

    /// Whether the peer hears nothing more.
    fn is_deaf(&self) -> bool {
        self.is_over() || self.is_silent() || self.phase == Phase::Broken
    }

    /// Whether all that the program had to say has been said to the peer, and it says no more.
    pub fn program_is_done(&self) -> bool {
        self.is_deaf() || self.up.is_shut()
    }

    /// Bytes of the program that wait for the socket.
    pub fn waiting(&self) -> usize {
        self.up.waiting()
    }

    /// How much of the peer's data may be read for the program now. Where there is none, [`Output::Resume`] follows.
    pub fn room(&mut self, now: Instant) -> usize {
        if self.phase == Phase::Open { self.down.room(now) } else { self.down.starve() }
    }

    /// The host and the peer have agreed on this, before the program is answered.
    pub fn agree(&mut self, agreed: Agreed) {
        if self.phase == Phase::Asked {
            self.stamps.agree(agreed);
        }
    }

    /// The peer is connected.
    pub fn connected(&mut self, now: Instant, mss: Option<u16>, out: &mut VecDeque<Output>) {
        if self.is_over() {
            return;
        }
        self.flow.connected = Some(now);
        self.connected = true;
        if self.phase == Phase::Asked {
            self.answer(now, mss, out);
        } else {
            self.push(now, false, out);
            self.resume(out);
        }
    }

    fn answer(&mut self, now: Instant, mss: Option<u16>, out: &mut VecDeque<Output>) {
        // What the path takes in both directions: segments come to the program as they came to the socket.
        let (path, options) = (mss.unwrap_or(u16::MAX), self.stamps.len());
        self.stamps.tick(now);
        self.down.mss = self.down.mss.saturating_sub(options).max(1);
        self.mss = self.mss.saturating_sub(options).max(1);
        if self.long {
            self.cut_to = mss.filter(|mss| *mss > 0);
        } else {
            self.down.mss = self.down.mss.min(path);
            self.mss = self.profile.claimed_mss.unwrap_or(self.mss.min(path));
        }
        self.phase = Phase::Answered { times: 0 };
        self.send_answer(now, out);
    }

    fn send_answer(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        let (Phase::Answered { times } | Phase::Calling { times }) = &mut self.phase else { return };
        self.answer_again = Some(now + Duration::from_secs(1 << (*times).min(MOST_ANSWERS)));
        *times += 1;
        let calls = matches!(self.phase, Phase::Calling { .. });
        out.push_back(Output::Packet(if calls { self.syn() } else { self.syn_ack() }));
    }

    /// The path takes no longer packets than these: the program's kernel is told as by a router, so that it sends and says what it would
    /// without a forwarder. Data is cut in its socket anyway.
    pub fn path_mtu(&mut self, mtu: u32, out: &mut VecDeque<Output>) {
        if mtu >= self.mtu || self.long || matches!(self.phase, Phase::Asked | Phase::Calling { .. }) || self.is_deaf()
        {
            return;
        }
        self.mtu = mtu;
        let (app, peer) = (self.flow.app.ip(), self.flow.peer.ip());
        let error = icmp::error(peer, app, Trouble::TooBig(mtu), &self.as_sent_by_the_program(), HOP_LIMIT);
        out.extend(error.map(|packet| Output::Packet(Packet::finished(packet))));
    }

    /// The connection failed.
    pub fn failed(&mut self, now: Instant, why: Failure, out: &mut VecDeque<Output>) {
        if self.is_over() || self.phase == Phase::Broken {
            return;
        }
        if self.is_silent() {
            return self.abandon(now, out);
        }
        let end = match why {
            Failure::Refused => FlowEnd::Refused,
            Failure::Reset => FlowEnd::ResetByPeer,
            Failure::Trouble(trouble) | Failure::Told { trouble, .. } => match trouble {
                Trouble::PortUnreachable => FlowEnd::Refused,
                _ => FlowEnd::Unreachable,
            },
            Failure::Silence => FlowEnd::Silent,
            Failure::Here => FlowEnd::Failed,
        };
        self.flow.end(now, end);
        match (self.phase, why) {
            (Phase::Asked, Failure::Refused | Failure::Reset) => {
                out.push_back(Output::Packet(self.refusal()));
            }
            // If the sender of the ICMP error is not known, the peer's own address: the program's kernel looks at the quotation alone.
            (Phase::Asked, Failure::Trouble(trouble)) => self.refuse(self.flow.peer.ip(), trouble, out),
            (Phase::Asked, Failure::Told { reporter, trouble }) => {
                // A kernel that has this address too does not hear what the host says by it.
                let reporter = if reporter == self.flow.app.ip() { self.flow.peer.ip() } else { reporter };
                self.refuse(reporter, trouble, out);
            }
            (Phase::Asked, Failure::Silence | Failure::Here) => {}
            // A reset would be another error than the one that the program's own kernel would have had.
            (Phase::Open, Failure::Silence) => return self.time_out(now, None, out),
            (Phase::Open, Failure::Trouble(trouble)) => return self.time_out(now, Some(trouble), out),
            (Phase::Open, _) if self.down.head().is_some() => {
                // A reset takes back what has not arrived, and where a packet was lost on the way to the program only we have it. Its kernel
                // acknowledges later what it need not at once: it is asked.
                self.phase = Phase::Broken;
                return out.push_back(Output::Packet(self.probe()));
            }
            _ => out.push_back(Output::Packet(self.reset())),
        }
        self.close(true, out);
    }

    /// A host of the network says to the program what is wrong with its SYN.
    fn refuse(&self, reporter: IpAddr, trouble: Trouble, out: &mut VecDeque<Output>) {
        let error = icmp::error(reporter, self.flow.app.ip(), trouble, &self.syn, HOP_LIMIT);
        out.extend(error.map(|packet| Output::Packet(Packet::finished(packet))));
    }

    /// A packet of the program behind which there is no peer any more: what matters is what its kernel has of what the peer has said.
    fn packet_to_nobody(&mut self, now: Instant, arrived: &Arrived<'_>, out: &mut VecDeque<Output>) {
        let segment = &arrived.segment;
        if segment.flags.has(Flags::RST) {
            return self.close(true, out);
        }
        if !segment.flags.has(Flags::ACK) || before(self.down.next(), segment.acknowledged) {
            return;
        }
        if self.down.acknowledged(now, segment, arrived.from == arrived.to) {
            self.send_again(out);
        }
        if self.down.head().is_none() {
            out.push_back(Output::Packet(self.reset()));
            self.close(true, out);
        }
    }

    /// The program's kernel is to time out, by an error of the network if there is one (RFC 5461: a soft one until then).
    fn time_out(&mut self, now: Instant, trouble: Option<Trouble>, out: &mut VecDeque<Output>) {
        self.phase = Phase::Silent { until: now + LONGEST_SILENCE };
        let (app, peer) = (self.flow.app.ip(), self.flow.peer.ip());
        let error =
            trouble.and_then(|trouble| icmp::error(peer, app, trouble, &self.as_sent_by_the_program(), HOP_LIMIT));
        out.extend(error.map(|packet| Output::Packet(Packet::finished(packet))));
        out.push_back(Output::TimeOut { flow: self.id });
    }

    /// The peer has answered what the program's kernel asked.
    pub fn alive(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        self.stamps.tick(now);
        self.acknowledge(out);
    }

    fn close(&mut self, abrupt: bool, out: &mut VecDeque<Output>) {
        self.phase = Phase::Over;
        self.answer_again = None;
        out.push_back(Output::Close { flow: self.id, abrupt });
    }

    /// The program wants the connection no more, before its peer has answered.
    pub fn given_up(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        if self.phase == Phase::Asked {
            self.flow.end(now, FlowEnd::ResetByProgram);
            self.close(true, out);
        }
    }

    /// Whether its peer has not answered.
    pub fn is_asked(&self) -> bool {
        self.phase == Phase::Asked
    }

    /// Makes room for another, before its peer has answered. The program hears nothing: it asks again.
    pub fn make_room(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        self.flow.end(now, FlowEnd::Failed);
        self.close(true, out);
    }

    /// Gives up: the program and the peer see a reset.
    fn abandon(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        self.flow.end(now, FlowEnd::Failed);
        out.push_back(Output::Packet(self.reset()));
        self.close(true, out);
    }

    /// A packet of the program.
    pub fn packet(&mut self, now: Instant, arrived: Arrived<'_>, out: &mut VecDeque<Output>) {
        let segment = arrived.segment;
        let flags = segment.flags;
        self.stamps.tick(now);
        match self.phase {
            Phase::Over => return,
            Phase::Asked => {
                // The same SYN again is the program's kernel being patient.
                if flags.has(Flags::RST) && segment.sequence == self.up.next() {
                    self.given_up(now, out);
                }
                return;
            }
            Phase::Silent { .. } => {
                if flags.has(Flags::RST) {
                    self.close(true, out);
                }
                return;
            }
            Phase::Broken => return self.packet_to_nobody(now, &arrived, out),
            Phase::Calling { .. } => return self.answered(now, &segment, arrived.to - arrived.from, out),
            _ => {}
        }
        if flags.has(Flags::RST) {
            return self.was_reset(now, segment.sequence, arrived.batch, out);
        }
        if flags.has(Flags::SYN) {
            return self.asked_again(segment.sequence, out);
        }
        // A segment of the past (RFC 7323, section 5.3).
        if self.stamps.is_old(now, &segment) {
            return self.acknowledge(out);
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        //= RFC 9293#3.10.7.4/unsent
        if before(self.down.next(), segment.acknowledged) {
            return self.acknowledge(out);
        }
        if let Phase::Answered { .. } = self.phase {
            if segment.acknowledged != self.down.next() {
                return;
            }
            self.phase = Phase::Open;
            self.answer_again = None;
        }
        let class = arrived.header.traffic_class & DSCP;
        if class != self.traffic_class {
            self.traffic_class = class;
            out.push_back(Output::Mark { flow: self.id, traffic_class: class });
        }
        self.stamps.took(now, &segment, self.up.acked());
        let lost = self.down.acknowledged(now, &segment, arrived.from == arrived.to);
        if lost {
            self.send_again(out);
        }
        self.data(now, arrived, out);
        self.advance(now, out);
    }

    /// A SYN on a connection that is there.
    fn asked_again(&mut self, sequence: u32, out: &mut VecDeque<Output>) {
        match self.phase {
            Phase::Answered { .. } if sequence.wrapping_add(1) == self.up.next() => {
                out.push_back(Output::Packet(self.syn_ack()));
            }
            // An attacker guesses, or the program's host has forgotten: the answer tells (RFC 5961, section 4).
            _ => self.acknowledge(out),
        }
    }

    //= RFC 9293#3.10.7.4/rst
    fn was_reset(&mut self, now: Instant, sequence: u32, batch: bool, out: &mut VecDeque<Output>) {
        // Both sides are closed, and a kernel that has forgotten the connection takes back nothing of what was said on it.
        let gone = self.up.is_fin_acknowledged() && self.down.is_done();
        if gone || !self.up.is_in_window(sequence) {
            return;
        }
        if self.phase == Phase::Open && !self.up.is_next(sequence) {
            // A guess that is near (RFC 5961, section 3.2), or something before it was lost: a kernel that knows of no connection answers
            // with the right number.
            return self.acknowledge(out);
        }
        // What was said before is heard before.
        self.push_deferred(now, batch, out);
        self.flow.end(now, FlowEnd::ResetByProgram);
        self.close(true, out);
    }

    /// What follows from what has changed: reading goes on, or all is said.
    fn advance(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        if self.is_over() {
            return;
        }
        if self.up.is_shut() && self.down.is_done() {
            // There is no later.
            self.catch_up(out);
            self.flow.end(now, FlowEnd::Finished);
            return self.close(false, out);
        }
        self.resume(out);
    }

    fn resume(&mut self, out: &mut VecDeque<Output>) {
        if self.phase == Phase::Open && self.connected && self.down.has_recovered() {
            out.push_back(Output::Resume { flow: self.id });
        }
    }

    /// The peer's data.
    pub fn received(&mut self, now: Instant, bytes: Vec<u8>, urgent: bool, out: &mut VecDeque<Output>) {
        let data = &bytes[super::HEADROOM.min(bytes.len())..];
        if self.is_deaf() || data.is_empty() {
            return;
        }
        let segments = data.len().div_ceil(usize::from(self.cut_to.unwrap_or(self.down.mss)).max(1));
        self.flow.received(now, data, segments);
        self.stamps.tick(now);
        let packet = self.data_packet(now, bytes, urgent);
        out.push_back(Output::Packet(packet));
    }

    /// The peer sends no more.
    pub fn ended(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        if self.is_deaf() || self.down.has_ended() {
            return;
        }
        self.stamps.tick(now);
        out.push_back(Output::Packet(self.fin(now)));
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Instant, out: &mut VecDeque<Output>) {
        if self.is_over() {
            return;
        }
        self.stamps.tick(now);
        if self.answer_again.is_some_and(|at| now >= at) {
            let (Phase::Answered { times } | Phase::Calling { times }) = self.phase else { return };
            if times > MOST_ANSWERS {
                return self.abandon(now, out);
            }
            self.send_answer(now, out);
        }
        if let Phase::Silent { until } = self.phase {
            if now >= until {
                self.abandon(now, out);
            }
            return;
        }
        let (look, looks) = self.look;
        if self.phase == Phase::Asked && now >= look {
            // From when it was due: late once is not late for good.
            self.look = (next_look(look, looks + 1).max(now), looks + 1);
            out.push_back(Output::LookAtProgram { flow: self.id });
        }
        if self.up.grace_is_over(now) {
            self.acknowledge(out);
        }
        match self.down.timeout(now) {
            down::Due::Nothing => {}
            down::Due::SendAgain => self.send_again(out),
            down::Due::Probe => out.push_back(Output::Packet(self.probe())),
            down::Due::GiveUp => self.abandon(now, out),
        }
    }

    /// When its timer is to go off, and why.
    pub fn deadline(&self) -> Option<(Instant, &'static str)> {
        if self.is_over() {
            return None;
        }
        if let Phase::Silent { until } = self.phase {
            return Some((until, "a timeout of a program's kernel"));
        }
        if self.phase == Phase::Asked {
            return Some((self.look.0, "a peer that has not answered"));
        }
        let what =
            if self.flow.accepted { "a call that was not answered" } else { "a SYN-ACK that was not acknowledged" };
        let answer = self.answer_again.map(|at| (at, what));
        let grace = self.up.grace().map(|at| (at, "data waiting for a full socket"));
        let down = self.down.deadline();
        [answer, grace, down].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// Bytes of headers before the data of a segment without options.
fn headers_len(app: SocketAddr) -> u32 {
    (ip::header_len(app.ip()) + HEADER) as u32
}

/// When a program is looked at after so many looks, of which the last was due then.
fn next_look(last: Instant, looks: u32) -> Instant {
    let doublings = (looks + 1).saturating_sub(EVEN_REPETITIONS).min(8);
    last + (FIRST_REPETITION * (1 << doublings)).min(LONGEST_LOOK)
}

//= RFC 9293#3.5.2
/// What a segment gets that belongs to no connection (RFC 9293, section 3.10.7.1); a reset gets nothing.
pub(super) fn reset_for(app: SocketAddr, peer: SocketAddr, segment: &Segment, len: usize) -> Option<Packet> {
    if segment.flags.has(Flags::RST) {
        return None;
    }
    let ports = Segment { source: peer.port(), destination: app.port(), ..Segment::default() };
    let reset = if segment.flags.has(Flags::ACK) {
        Segment { sequence: segment.acknowledged, flags: Flags::RST, ..ports }
    } else {
        let flags = u32::from(segment.flags.has(Flags::SYN)) + u32::from(segment.flags.has(Flags::FIN));
        let acknowledged = segment.sequence.wrapping_add(len as u32).wrapping_add(flags);
        Segment { acknowledged, flags: Flags::RST | Flags::ACK, ..ports }
    };
    Some(emit::bare(peer, app, &reset))
}
