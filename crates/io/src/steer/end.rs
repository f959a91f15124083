//! One end of a tunnel, without descriptors: packets of its interface and datagrams of its channels in and out.
//!
//! A WireGuard session a channel (boringtun's), each with its own counters, so that a channel that is late is never taken for one
//! that replays. Inside: the eight bytes of `core::steer::frame`, and compressed headers on the fast channel. A peer may move:
//! its address is the one that the last authentic datagram came from. Sessions read a clock of their own; everything else
//! is told the time.

use super::config::{Config, Prefix};
use boringtun::noise::{Tunn, TunnResult};
use headstart_core::machine::Machine;
use headstart_core::realtime::bundle::{self, Bundler};
use headstart_core::steer::apart;
use headstart_core::steer::compress::{CompressError, Compressor, Decompressor, Said};
use headstart_core::steer::frame::{Content, EPOCHS, HEADER, Header};
use headstart_core::steer::{
    Apart, Arrived, Cap, Channel, ChannelSettings, Facts, FlowKey, Held, Input, Output, ProbeSettings, Resequencer,
    Settings, Steerer, Tally, Use,
};
use headstart_core::time::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// WireGuard's header and tag.
const WIREGUARD: usize = 32;
/// Bytes of UDP and of IPv4 or IPv6 before it.
const OUTER: [usize; 2] = [28, 48];
/// The least room that a session wants for what it writes: a handshake's first message.
const LEAST_ROOM: usize = 148;
/// Before a round trip is known: what cellular networks and wires have.
const FIRST_DELAYS: [Duration; 2] = [Duration::from_millis(15), Duration::from_millis(5)];
/// Sessions look at their own timers so often while there is something to time.
const TICK: Duration = Duration::from_millis(250);
/// And so often else: their timers are of seconds.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// IPv4 packets are full at the MTU less the difference to IPv6's headers.
const BETWEEN_FAMILIES: usize = 20;

/// Buffers that are kept to be used again, and how long one of them is at most: packets, not what was joined of them.
const MOST_SPARE: usize = 256;
const LONGEST_SPARE: usize = 16_384;

/// A bundled packet is made no longer than this, in bytes: every host must be able to receive it (RFC 791, section 3.1).
const LONGEST_BUNDLE: usize = 576;

/// Which end it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host's: it opens the sessions.
    Host,
    /// The network's: it waits for them.
    Gateway,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A datagram is to be sent over a channel.
    Send(Channel, SocketAddr, Vec<u8>),
    /// A packet is to be handed to the kernel.
    Deliver(Vec<u8>),
}

/// What was not let through, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// One end. See the module.
pub struct End {
    role: Role,
    mtu: usize,
    allowed: Vec<Prefix>,
    own: Vec<Prefix>,
    sessions: [Tunn; 2],
    peers: [Option<SocketAddr>; 2],
    steerer: Steerer<Vec<u8>>,
    resequencer: Resequencer<Vec<u8>>,
    /// Of what enters here, if thin streams are bundled.
    bundler: Option<Bundler>,
    compressor: Compressor,
    decompressor: Decompressor,
    keys: (u64, u64),
    epoch: u8,
    caps: [Option<Cap>; 2],
    /// What each cap allowed when the steerer was told last.
    told: [Use; 2],
    /// Packets that have come over each channel since the other end began.
    come: [u64; 2],
    /// The other end's epoch, once it is known.
    theirs: Option<u8>,
    next_tick: Instant,
    used: Instant,
    acts: VecDeque<Act>,
    /// Buffers of packets and datagrams that have left.
    spare: Vec<Vec<u8>>,
    refused: Refused,
    frame: Vec<u8>,
    body: Vec<u8>,
    room: Vec<u8>,
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

/// A copy of `bytes` in a buffer that was used before, if there is one.
fn copied(spare: &mut Vec<Vec<u8>>, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.clear();
    buffer.extend_from_slice(bytes);
    buffer
}

impl End {
    /// An end that has not spoken yet. `random` is for keys of tables, session numbers and the epoch; it must differ each time.
    pub fn new(config: &Config, role: Role, random: [u64; 3]) -> Self {
        let channels = Channel::ALL.map(|channel| {
            let way = &config.ways[channel.index()];
            let v6 = way.endpoint.is_some_and(|to| to.is_ipv6());
            ChannelSettings {
                rate: way.rate,
                delay: FIRST_DELAYS[channel.index()],
                loss: None,
                overhead: OUTER[usize::from(v6)] + WIREGUARD + HEADER,
                compresses: channel == Channel::Fast,
                uses: way.uses,
            }
        });
        let mtu = usize::from(config.mtu);
        let steerer = Steerer::new(Settings {
            policy: config.policy,
            uplink: role == Role::Host,
            full: mtu - BETWEEN_FAMILIES,
            channels,
            probes: Some(ProbeSettings { rest: config.keepalive(role), ..ProbeSettings::default() }),
        });
        let sessions = Channel::ALL.map(|channel| {
            let index = (random[2] as u32).wrapping_add(channel.index() as u32) & 0x00ff_ffff;
            let preshared = config.preshared.as_ref().map(|key| key.secret().to_bytes());
            Tunn::new(config.key.secret(), config.peer.key(), preshared, None, index, None)
        });
        Self {
            role,
            mtu,
            allowed: config.allowed.clone(),
            own: config.addresses.clone(),
            sessions,
            peers: [0, 1].map(|n| config.ways[n].endpoint),
            resequencer: Resequencer::new(steerer.hold()),
            steerer,
            bundler: config.bundle.then(Bundler::new),
            compressor: Compressor::default(),
            decompressor: Decompressor::default(),
            keys: (random[0], random[1]),
            epoch: (random[2] >> 32) as u8 % EPOCHS,
            caps: [0, 1].map(|n| config.ways[n].cap.map(|(limit, period)| Cap::new(Instant::ZERO, limit, period))),
            told: [Use::Primary; 2],
            come: [0; 2],
            theirs: None,
            next_tick: Instant::ZERO,
            used: Instant::ZERO,
            acts: VecDeque::new(),
            spare: Vec::new(),
            refused: Refused::default(),
            frame: Vec::new(),
            body: Vec::new(),
            room: vec![0; (mtu + HEADER + 64 + WIREGUARD).max(LEAST_ROOM)],
        }
    }

    /// Opens both sessions at once, so that one channel that is dead holds up nothing.
    pub fn open(&mut self) {
        for channel in Channel::ALL {
            self.handshake(channel);
        }
    }

    fn handshake(&mut self, channel: Channel) {
        if self.role == Role::Host
            && self.steerer.uses(channel) != Use::Never
            && let TunnResult::WriteToNetwork(datagram) =
                self.sessions[channel.index()].format_handshake_initiation(&mut self.room, false)
            && let Some(to) = self.peers[channel.index()]
        {
            self.acts.push_back(Act::Send(channel, to, datagram.to_vec()));
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Act> {
        let act = self.acts.pop_front()?;
        if let Act::Send(channel, to, datagram) = &act {
            self.carried(*channel, *to, datagram.len());
        }
        Some(act)
    }

    /// A buffer of an [`Act`] that was done, to be used again: a tunnel in its stride allocates nothing a packet.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MOST_SPARE && (1..=LONGEST_SPARE).contains(&buffer.capacity()) {
            self.spare.push(buffer);
        }
    }

    /// An empty buffer in the place of one that is to be used again.
    fn recycled(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        self.recycle(buffer);
        Vec::new()
    }

    /// A channel has carried a datagram, to `other` or from it.
    fn carried(&mut self, channel: Channel, other: SocketAddr, bytes: usize) {
        if let Some(cap) = &mut self.caps[channel.index()] {
            cap.add((bytes + OUTER[usize::from(other.is_ipv6())]) as u64);
        }
    }

    /// Has the steerer know what caps allow by now.
    fn mind_caps(&mut self, now: Instant) {
        for channel in Channel::ALL {
            let n = channel.index();
            let Some(cap) = &mut self.caps[n] else { continue };
            cap.pass(now);
            let allows = cap.allows();
            if std::mem::replace(&mut self.told[n], allows) != allows {
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
        self.mind_caps(now);
    }

    /// What a channel may be used for by now.
    pub fn uses(&self, channel: Channel) -> Use {
        self.steerer.uses(channel)
    }

    /// What was refused.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// What was decided of the packets that leave.
    pub fn tally(&self) -> &Tally {
        self.steerer.tally()
    }

    /// What was put back in order.
    pub fn held(&self) -> Held {
        self.resequencer.tally()
    }

    /// Whether a channel's session is there and its probes come back.
    pub fn is_alive(&self, channel: Channel) -> bool {
        self.is_open(channel) && self.steerer.is_alive(channel)
    }

    /// The smoothed round trip of a channel.
    pub fn round_trip(&self, channel: Channel) -> Option<Duration> {
        self.steerer.round_trip(channel)
    }

    /// The share of packets to the other end that a channel loses, 0 to 1.
    pub fn loss(&self, channel: Channel) -> f64 {
        self.steerer.loss(channel)
    }

    /// Where the other end of a channel is.
    pub fn peer(&self, channel: Channel) -> Option<SocketAddr> {
        self.peers[channel.index()]
    }

    fn is_open(&self, channel: Channel) -> bool {
        self.sessions[channel.index()].time_since_last_handshake().is_some()
    }

    /// A packet from the interface.
    pub fn packet(&mut self, now: Instant, packet: &[u8]) {
        let packet = copied(&mut self.spare, packet);
        self.give(now, packet);
    }

    /// An empty buffer for [`End::give`].
    pub fn buffer(&mut self) -> Vec<u8> {
        copied(&mut self.spare, &[])
    }

    /// A packet from the interface, in a buffer of its own.
    pub fn give(&mut self, now: Instant, mut packet: Vec<u8>) {
        if let Some(bundler) = &mut self.bundler {
            bundler.outgoing(now, &mut packet, LONGEST_BUNDLE);
        }
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
        self.mind_caps(now);
        self.steerer.handle_input(now, Input::Packet(facts, packet));
        self.carry_out(now);
    }

    /// What was bundled of what entered here; none if nothing is to be.
    pub fn bundled(&self) -> Option<bundle::Tally> {
        self.bundler.as_ref().map(Bundler::tally)
    }

    /// A datagram from a channel.
    pub fn datagram(&mut self, now: Instant, channel: Channel, from: SocketAddr, datagram: &[u8]) {
        let n = channel.index();
        self.carried(channel, from, datagram.len());
        self.mind_caps(now);
        let mut room = std::mem::take(&mut self.room);
        if room.len() < datagram.len() {
            room.resize(datagram.len(), 0);
        }
        match self.sessions[n].decapsulate(Some(from.ip()), datagram, &mut room) {
            TunnResult::WriteToTunnelV4(frame, _) | TunnResult::WriteToTunnelV6(frame, _) => {
                self.peers[n] = Some(from);
                self.frame(now, channel, frame);
            }
            TunnResult::WriteToNetwork(answer) => {
                /// A cookie: the peer has not shown who it is yet.
                const COOKIE: u8 = 3;
                if answer.first() != Some(&COOKIE) {
                    self.peers[n] = Some(from);
                }
                let answer = copied(&mut self.spare, answer);
                self.acts.push_back(Act::Send(channel, from, answer));
                // What waited for the session.
                while let TunnResult::WriteToNetwork(waited) = self.sessions[n].decapsulate(None, &[], &mut room) {
                    let waited = copied(&mut self.spare, waited);
                    self.acts.push_back(Act::Send(channel, from, waited));
                }
            }
            TunnResult::Done => self.peers[n] = Some(from),
            TunnResult::Err(_) => self.refused.datagrams += 1,
        }
        self.room = room;
        self.carry_out(now);
    }

    /// What was inside an authentic datagram.
    fn frame(&mut self, now: Instant, channel: Channel, frame: &[u8]) {
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
            }
            Content::Echo => {
                self.steerer.handle_input(now, Input::Echo { channel, number: header.number, come: header.after });
                self.resequencer.set_hold(self.steerer.hold());
            }
            Content::Forget => self.compressor.forget(header.number as u8),
            Content::Whole | Content::Context | Content::Compressed | Content::Copy => {
                let mut packet = copied(&mut self.spare, &[]);
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
                    // What has come already is counted, and no more.
                    let packet = if again { self.recycled(packet) } else { packet };
                    self.resequencer.handle_input(now, Arrived { channel, number, after, copy_of, packet });
                    return;
                }
                self.recycle(packet);
                match made {
                    Err(CompressError::UnknownContext(id)) => {
                        self.refused.contexts += 1;
                        let number = u16::from(id);
                        self.say(
                            Header { content: Content::Forget, channel, epoch: self.epoch, number, after: None },
                            &[],
                        );
                    }
                    Err(_) => self.refused.frames += 1,
                    Ok(()) => {}
                }
            }
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
        if let Some(bundler) = &mut self.bundler {
            bundler.incoming(now, packet);
        }
        self.steerer.handle_input(now, Input::Seen(facts, channel));
        true
    }

    /// Sends a frame over its channel.
    fn say(&mut self, header: Header, body: &[u8]) {
        let n = header.channel.index();
        // Not even an answer: so the other end sees that the channel is not to be used.
        if self.steerer.uses(header.channel) == Use::Never {
            return;
        }
        let Some(to) = self.peers[n] else {
            self.refused.nowhere += 1;
            return;
        };
        if !header.write(body, &mut self.frame) {
            self.refused.packets += 1;
            return;
        }
        let room = (self.frame.len() + WIREGUARD).max(LEAST_ROOM);
        let mut datagram = self.spare.pop().unwrap_or_default();
        if datagram.len() < room {
            datagram.resize(room, 0);
        }
        let written = match self.sessions[n].encapsulate(&self.frame, &mut datagram) {
            TunnResult::WriteToNetwork(written) => written.len(),
            _ => return self.recycle(datagram),
        };
        // It is written at the beginning.
        datagram.truncate(written);
        self.acts.push_back(Act::Send(header.channel, to, datagram));
    }

    /// Does what the steerer and the resequencer ask for.
    fn carry_out(&mut self, now: Instant) {
        while let Some(output) = self.steerer.poll_output() {
            match output {
                Output::Send { channel, order, apart, copy, facts, mut packet, .. } => {
                    let mut body = std::mem::take(&mut self.body);
                    if let Some(Apart { back_to, order }) = apart {
                        if let Some(order) = order
                            && apart::alone(&packet, &mut body)
                        {
                            let (content, number) = (Content::Whole, order.number as u16);
                            let channel = Channel::Fat;
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
                Output::Again { channel, number, of, packet, .. } => {
                    let (number, after) = (number as u16, Some(of as u16));
                    self.say(Header { content: Content::Copy, channel, epoch: self.epoch, number, after }, &packet);
                    self.recycle(packet);
                }
                // Without a session there is nothing to probe; a host tries for one instead.
                Output::Probe { channel, .. } if !self.is_open(channel) => self.handshake(channel),
                Output::Probe { channel, number } => {
                    // Whoever does not answer may have begun anew, and know nothing of this session.
                    if !self.steerer.is_alive(channel) {
                        self.handshake(channel);
                    }
                    self.say(Header { content: Content::Probe, channel, epoch: self.epoch, number, after: None }, &[]);
                }
                Output::Drop(packet) => self.recycle(packet),
            }
        }
        while let Some(packet) = self.resequencer.poll_output() {
            self.acts.push_back(Act::Deliver(packet));
        }
    }

    fn squeeze(&mut self, flow: FlowKey, packet: &[u8], body: &mut Vec<u8>) -> Content {
        match self.compressor.compress(flow, packet, body) {
            Said::Whole => Content::Whole,
            Said::Context => Content::Context,
            Said::Compressed => Content::Compressed,
        }
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Instant) {
        if self.next_tick <= now {
            self.mind_caps(now);
            let quiet = now.since(self.used) > Duration::from_secs(15) && Channel::ALL.iter().all(|c| self.is_open(*c));
            self.next_tick = now + if quiet { IDLE_TICK } else { TICK };
            for channel in Channel::ALL {
                let n = channel.index();
                if let TunnResult::WriteToNetwork(datagram) = self.sessions[n].update_timers(&mut self.room)
                    && self.steerer.uses(channel) != Use::Never
                    && let Some(to) = self.peers[n]
                {
                    self.acts.push_back(Act::Send(channel, to, datagram.to_vec()));
                }
            }
        }
        self.steerer.handle_timeout(now);
        self.resequencer.handle_timeout(now);
        self.carry_out(now);
    }

    /// When to call [`End::timeout`].
    pub fn deadline(&self) -> Instant {
        let machines = [self.steerer.poll_timeout(), self.resequencer.poll_timeout()];
        machines.into_iter().flatten().map(|deadline| deadline.at).fold(self.next_tick, Instant::min)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
