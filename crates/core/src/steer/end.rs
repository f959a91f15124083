//! One end of a tunnel: packets of its interface and frames of its channels in, frames and packets out.
//!
//! Everything about a tunnel that can be decided without a key: what a peer may send, when the other end has begun anew, which frame
//! carries a packet, what a cap still allows, when a session is to be opened again. The sessions that encrypt frames, and the
//! addresses that datagrams go to, are the caller's; it says which sessions are open. What never happens here: a byte is encrypted, a
//! packet from an address that the peer may not use is let in.

use super::compress::{CompressError, Compressor, Decompressor, Encoding};
use super::frame::{Content, EPOCHS, Header};
use super::outlet::{self, Apart};
use super::policy::Entry;
use super::steerer::{self, Steerer};
use super::{
    Arrived, Cap, Channel, ChannelSettings, Facts, FlowKey, Held, Prefix, ProbeSettings, Resequencer, Use, apart,
};
use crate::machine::{Deadline, Machine};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Sessions look at their own timers so often while there is something to time.
const TICK: Duration = Duration::from_millis(250);
/// And so often else: their timers are of seconds.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// After so long without a packet there is nothing to time. Ours: three times WireGuard's longest wait for an answer (5 s).
const QUIET: Duration = Duration::from_secs(15);
/// IPv4 packets are full at the MTU less the difference to IPv6's headers.
const BETWEEN_FAMILIES: usize = 20;

/// Buffers that are kept to be used again, and how long one of them is at most: packets, not what was joined of them.
const MOST_SPARE: usize = 256;
const LONGEST_SPARE: usize = 16_384;

/// The configuration of one end of a tunnel.
#[derive(Clone, Debug)]
pub struct Settings {
    /// It is the host's end, which opens the sessions; else the network's, which waits for them.
    pub is_host: bool,
    /// The longest packet inside, in bytes.
    pub mtu: usize,
    /// By which policy packets are steered.
    pub policy: &'static Entry,
    /// The fat channel and the fast one.
    pub channels: [ChannelSettings; 2],
    /// What each of them may carry, in bytes, in which time.
    pub caps: [Option<(u64, Duration)>; 2],
    /// Between probes of a tunnel at rest, if there are any.
    pub rest: Option<Duration>,
    /// What is behind the peer.
    pub allowed: Vec<Prefix>,
    /// Addresses of this end, for which the peer never speaks.
    pub own: Vec<Prefix>,
    /// The hash keys of tables, so that no sender can choose places in them.
    pub keys: (u64, u64),
    /// Drawn anew each time, so that the other end sees that this one has begun anew.
    pub epoch: u8,
}

/// What the world tells an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A packet from the interface.
    Packet(Vec<u8>),
    /// What was inside an authentic datagram of a channel ([`End::frame`] takes it without a buffer of its own).
    Frame(Channel, Vec<u8>),
    /// Whether the session of a channel is open.
    Session(Channel, bool),
    /// A channel has carried so many bytes, in either direction.
    Carried(Channel, usize),
}

/// What an end asks of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A frame is to be encrypted and sent over a channel.
    Send(Channel, Vec<u8>),
    /// A packet is to be handed to the kernel.
    Deliver(Vec<u8>),
    /// The session of a channel is to be opened, or opened anew.
    Handshake(Channel),
    /// The session of a channel is to look at its own timers.
    Tend(Channel),
}

/// What was not let through, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Refused {
    /// Datagrams that did not authenticate, were replayed or were none.
    pub datagrams: u64,
    /// Frames that were authentic and malformed, or of the other channel.
    pub frames: u64,
    /// Packets from addresses that the peer may not use.
    pub sources: u64,
    /// Packets to addresses that are not behind the peer.
    pub destinations: u64,
    /// Packets that were no IP, or larger than the MTU.
    pub packets: u64,
    /// Compressed packets whose context was lost.
    pub contexts: u64,
    /// Packets for a channel whose other end is not known yet.
    pub nowhere: u64,
}

/// The address that a packet comes from, and the one that it goes to.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let four = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let six = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
    match packet.first()? >> 4 {
        4 => Some((four(12)?, four(16)?)),
        6 => Some((six(8)?, six(24)?)),
        _ => None,
    }
}

/// Buffers of packets and frames that have left: a tunnel in its stride allocates nothing a packet.
#[derive(Debug, Default)]
struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// A copy of `bytes` in a buffer that was used before, if there is one.
    fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    fn take_back(&mut self, buffer: Vec<u8>) {
        if self.0.len() < MOST_SPARE && (1..=LONGEST_SPARE).contains(&buffer.capacity()) {
            self.0.push(buffer);
        }
    }
}

/// One end. See the module.
pub struct End {
    is_host: bool,
    mtu: usize,
    allowed: Vec<Prefix>,
    own: Vec<Prefix>,
    steerer: Steerer<Vec<u8>>,
    resequencer: Resequencer<Vec<u8>>,
    compressor: Compressor,
    decompressor: Decompressor,
    keys: (u64, u64),
    epoch: u8,
    caps: [Option<Cap>; 2],
    /// What each cap allowed when it was last reported to the steerer.
    reported_use: [Use; 2],
    /// Packets that have come over each channel since the other end began.
    come: [u64; 2],
    /// The other end's epoch, once it is known.
    theirs: Option<u8>,
    /// Which sessions are open.
    open: [bool; 2],
    next_tick: Instant,
    used: Instant,
    outputs: VecDeque<Output>,
    spare: Spare,
    refused: Refused,
    body: Vec<u8>,
}

impl End {
    /// An end that has not spoken yet.
    pub fn new(settings: Settings) -> Self {
        let Settings { is_host, mtu, policy, channels, caps, rest, allowed, own, keys, epoch } = settings;
        let steerer = Steerer::new(steerer::Settings {
            policy,
            uplink: is_host,
            full: mtu - BETWEEN_FAMILIES,
            channels,
            probes: Some(ProbeSettings { rest, ..ProbeSettings::default() }),
        });
        Self {
            is_host,
            mtu,
            allowed,
            own,
            resequencer: Resequencer::new(steerer.hold()),
            steerer,
            compressor: Compressor::default(),
            decompressor: Decompressor::default(),
            keys,
            epoch: epoch % EPOCHS,
            caps: caps.map(|cap| cap.map(|(limit, period)| Cap::new(Instant::ZERO, limit, period))),
            reported_use: [Use::Primary; 2],
            come: [0; 2],
            theirs: None,
            open: [false; 2],
            next_tick: Instant::ZERO,
            used: Instant::ZERO,
            outputs: VecDeque::new(),
            spare: Spare::default(),
            refused: Refused::default(),
            body: Vec::new(),
        }
    }

    /// Opens both sessions at once, so that one channel that is dead holds up nothing.
    pub fn begin(&mut self) {
        Channel::ALL.into_iter().for_each(|channel| self.handshake(channel));
    }

    fn handshake(&mut self, channel: Channel) {
        if self.is_host && self.steerer.uses(channel) != Use::Never {
            self.outputs.push_back(Output::Handshake(channel));
        }
    }

    /// A buffer of an [`Output`] that was done, to be used again.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.take_back(buffer);
    }

    /// A buffer that holds a copy of `bytes`, for [`Input::Packet`] and whatever leaves.
    pub fn buffer(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.spare.copy(bytes)
    }

    /// A buffer as it was left, which is filled anew: what would be written over need not be cleared.
    pub fn used_buffer(&mut self) -> Vec<u8> {
        self.spare.0.pop().unwrap_or_default()
    }

    /// Reports to the steerer what caps allow now.
    fn report_caps(&mut self, now: Instant) {
        for channel in Channel::ALL {
            let n = channel.index();
            let Some(cap) = &mut self.caps[n] else { continue };
            cap.pass(now);
            let allows = cap.allows();
            if std::mem::replace(&mut self.reported_use[n], allows) != allows {
                self.steerer.allow(now, channel, allows);
            }
        }
    }

    /// The cap of a channel, if it has one.
    pub fn cap(&self, channel: Channel) -> Option<&Cap> {
        self.caps[channel.index()].as_ref()
    }

    /// The period of a channel's cap began so long before `now`, and so much was used in it by another run.
    pub fn resume_cap(&mut self, now: Instant, channel: Channel, used: u64, since: Duration) {
        if let Some(cap) = &mut self.caps[channel.index()] {
            *cap = Cap::resume(now, cap.limit(), cap.period(), used, since);
        }
        self.report_caps(now);
    }

    /// What is decided of the packets that leave, to be looked at.
    pub fn steerer(&self) -> &Steerer<Vec<u8>> {
        &self.steerer
    }

    /// Steers by `steerer` from now on, which may know of its channels what is not in [`Settings`].
    pub fn steer_by(&mut self, steerer: Steerer<Vec<u8>>) {
        self.steerer = steerer;
    }

    /// What was refused; datagrams and what goes nowhere are the caller's to count.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// What was put back in order.
    pub fn held(&self) -> Held {
        self.resequencer.tally()
    }

    /// A packet from the interface.
    fn packet(&mut self, now: Instant, packet: Vec<u8>) {
        let facts = Facts::parse(&packet, self.keys).filter(|facts| facts.len <= self.mtu);
        let (Some(facts), Some((_, to))) = (facts, addresses(&packet)) else {
            self.refused.packets += 1;
            return self.recycle(packet);
        };
        if !self.allowed.iter().any(|prefix| prefix.contains(to)) {
            self.refused.destinations += 1;
            return self.recycle(packet);
        }
        self.used = now;
        self.report_caps(now);
        self.steerer.handle_input(now, steerer::Input::Packet(facts, packet));
        self.carry_out(now);
    }

    /// What was inside an authentic datagram of a channel. `admitted` is shown a packet that may come in, before what waits for its turn.
    pub fn frame(&mut self, now: Instant, channel: Channel, frame: &[u8], admitted: impl FnMut(&[u8])) {
        self.report_caps(now);
        self.on_frame(now, channel, frame, admitted);
        self.carry_out(now);
    }

    fn on_frame(&mut self, now: Instant, channel: Channel, frame: &[u8], admitted: impl FnMut(&[u8])) {
        let Ok((header, said)) = Header::read(frame, channel) else {
            self.refused.frames += 1;
            return;
        };
        if self.theirs.replace(header.epoch).is_some_and(|known| known != header.epoch) {
            // The other end has begun anew.
            self.resequencer.reset();
            self.come = [0; 2];
            self.decompressor = Decompressor::default();
        }
        self.come[channel.index()] += u64::from(header.content.is_packet());
        match header.content {
            Content::Probe => {
                let after = Some(self.come[channel.index()] as u16);
                self.say(Header { content: Content::Echo, epoch: self.epoch, after, ..header }, &[]);
                self.steerer.handle_input(now, steerer::Input::Probed(channel));
            }
            Content::Echo => {
                let (number, come) = (header.number, header.after);
                self.steerer.handle_input(now, steerer::Input::Echo { channel, number, come });
                self.resequencer.set_hold(self.steerer.hold());
            }
            Content::Forget => self.compressor.forget(header.number as u8),
            Content::Whole | Content::Context | Content::Compressed | Content::Copy => {
                self.unpack(now, (channel, header, said), admitted);
            }
        }
    }

    /// Takes a packet out of its frame, and lets it in if it may come in.
    fn unpack(
        &mut self,
        now: Instant,
        (channel, header, said): (Channel, Header, &[u8]),
        mut admitted: impl FnMut(&[u8]),
    ) {
        let mut packet = self.spare.copy(&[]);
        let made = match header.content {
            Content::Context => self.decompressor.context(said, &mut packet),
            Content::Compressed => self.decompressor.decompress(said, &mut packet),
            _ => {
                packet.extend_from_slice(said);
                Ok(())
            }
        };
        let Header { number, after, .. } = header;
        let (after, copy_of) = if header.content == Content::Copy { (None, after) } else { (after, None) };
        let again = self.resequencer.has_come(channel, number, copy_of);
        if made.is_ok_and(|()| again || self.admits(now, channel, &packet)) {
            if again {
                // What has come already is counted, and no more.
                self.recycle(std::mem::take(&mut packet));
            } else {
                admitted(&packet);
            }
            self.resequencer.handle_input(now, Arrived { channel, number, after, copy_of, packet });
            return;
        }
        self.recycle(packet);
        match made {
            Err(CompressError::UnknownContext(id)) => {
                self.refused.contexts += 1;
                let (content, number) = (Content::Forget, u16::from(id));
                self.say(Header { content, channel, epoch: self.epoch, number, after: None }, &[]);
            }
            Err(_) => self.refused.frames += 1,
            Ok(()) => {}
        }
    }

    /// Whether the peer may say this; it is counted if not.
    fn admits(&mut self, now: Instant, channel: Channel, packet: &[u8]) -> bool {
        let facts = Facts::parse(packet, self.keys).filter(|facts| facts.len <= self.mtu);
        let (Some(facts), Some((from, _))) = (facts, addresses(packet)) else {
            self.refused.packets += 1;
            return false;
        };
        // A peer speaks for what is behind it, and never for us.
        let theirs = self.allowed.iter().any(|prefix| prefix.contains(from));
        if !theirs || self.own.iter().any(|prefix| prefix.address == from) {
            self.refused.sources += 1;
            return false;
        }
        self.used = now;
        self.steerer.handle_input(now, steerer::Input::Seen(facts, channel));
        true
    }

    /// Sends a frame over its channel.
    fn say(&mut self, header: Header, body: &[u8]) {
        // Not even an answer: so the other end sees that the channel is not to be used.
        if self.steerer.uses(header.channel) == Use::Never {
            return;
        }
        let mut frame = self.spare.copy(&[]);
        if header.write(body, &mut frame) {
            self.outputs.push_back(Output::Send(header.channel, frame));
        } else {
            self.refused.packets += 1;
            self.recycle(frame);
        }
    }

    /// Does what the steerer and the resequencer ask for.
    fn carry_out(&mut self, now: Instant) {
        use outlet::Output as Wish;
        while let Some(wish) = self.steerer.poll_output() {
            match wish {
                Wish::Send { .. } => self.send(now, wish),
                Wish::Again { channel, number, of, packet, .. } => {
                    let (number, after) = (number as u16, Some(of as u16));
                    self.say(Header { content: Content::Copy, channel, epoch: self.epoch, number, after }, &packet);
                    self.recycle(packet);
                }
                // Without a session there is nothing to probe; a host tries for one instead.
                Wish::Probe { channel, .. } if !self.open[channel.index()] => self.handshake(channel),
                Wish::Probe { channel, number } => {
                    // A peer that does not answer may have begun anew, and know nothing of this session.
                    if !self.steerer.is_alive(channel) {
                        self.handshake(channel);
                    }
                    self.say(Header { content: Content::Probe, channel, epoch: self.epoch, number, after: None }, &[]);
                }
                Wish::Drop(packet) => self.recycle(packet),
            }
        }
        while let Some(packet) = self.resequencer.poll_output() {
            self.outputs.push_back(Output::Deliver(packet));
        }
    }

    /// Puts a packet that the steerer sends into frames.
    fn send(&mut self, now: Instant, wish: outlet::Output<Vec<u8>>) {
        let outlet::Output::Send { channel, order, apart, copy, facts, mut packet, .. } = wish else { return };
        let mut body = std::mem::take(&mut self.body);
        if let Some(Apart { back_to, order }) = apart {
            if let Some(order) = order
                && apart::alone(&packet, &mut body)
            {
                let (content, channel, number) = (Content::Whole, Channel::Fat, order.number as u16);
                self.say(Header { content, channel, epoch: self.epoch, number, after: None }, &body);
            }
            apart::set_back(&mut packet, back_to);
        }
        let (number, after) = (order.number as u16, order.after.map(|after| after as u16));
        let content = match channel {
            Channel::Fat => Content::Whole,
            Channel::Fast => self.squeeze(facts.flow, &packet, &mut body),
        };
        let said = if channel == Channel::Fat { &packet } else { &body };
        self.say(Header { content, channel, epoch: self.epoch, number, after }, said);
        if let Some(number) = copy {
            let (channel, number, after) = (channel.other(), number as u16, Some(order.number as u16));
            self.say(Header { content: Content::Copy, channel, epoch: self.epoch, number, after }, &packet);
        }
        self.body = body;
        if let Some(packet) = self.steerer.keep(now, channel, order.number, facts, packet) {
            self.recycle(packet);
        }
    }

    fn squeeze(&mut self, flow: FlowKey, packet: &[u8], body: &mut Vec<u8>) -> Content {
        match self.compressor.compress(flow, packet, body) {
            Encoding::Whole => Content::Whole,
            Encoding::Context => Content::Context,
            Encoding::Compressed => Content::Compressed,
        }
    }
}

impl Machine for End {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Packet(packet) => self.packet(now, packet),
            Input::Frame(channel, frame) => {
                self.frame(now, channel, &frame, |_| {});
                self.recycle(frame);
            }
            Input::Session(channel, open) => self.open[channel.index()] = open,
            Input::Carried(channel, bytes) => {
                if let Some(cap) = &mut self.caps[channel.index()] {
                    cap.add(bytes as u64);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next_tick <= now {
            self.report_caps(now);
            let quiet = now.since(self.used) > QUIET && self.open == [true; 2];
            self.next_tick = now + if quiet { IDLE_TICK } else { TICK };
            self.outputs.extend(Channel::ALL.map(Output::Tend));
        }
        self.steerer.handle_timeout(now);
        self.resequencer.handle_timeout(now);
        self.carry_out(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let tick = Deadline { at: self.next_tick, why: "timers of the sessions" };
        Deadline::earliest([self.steerer.poll_timeout(), self.resequencer.poll_timeout(), Some(tick)])
    }
}

#[cfg(test)]
#[path = "tests/end.rs"]
mod tests;
