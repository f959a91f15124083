//! One end of a tunnel, without descriptors: packets of its interface and datagrams of its channels in and out.
//!
//! A WireGuard session a channel (boringtun's), each with its own counters, so that a channel that is late is never taken for one
//! that replays. What is inside is decided by `core::steer::End`; here its frames are encrypted and its peers found. A peer may move:
//! its address is the one that the last authentic datagram came from. Sessions read a clock of their own; everything else
//! gets the time.

use super::config::{Config, Role};
use boringtun::noise::{Tunn, TunnResult};
use headstart_core::machine::{Deadline, Machine};
use headstart_core::realtime::bundle::{self, Bundler};
pub use headstart_core::steer::end::Refused;
use headstart_core::steer::end::{Input, Output, Settings};
use headstart_core::steer::frame::HEADER;
use headstart_core::steer::{self, Cap, Channel, ChannelSettings, Held, Tally, Use};
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// WireGuard's header and tag.
const WIREGUARD: usize = 32;
/// Bytes of UDP and of IPv4 or IPv6 before it.
const OUTER: [usize; 2] = [28, 48];
/// The least room that a session wants for what it writes: a handshake's first message.
const LEAST_ROOM: usize = 148;
/// Before a round trip is known: what cellular networks and wires have.
const FIRST_DELAYS: [Duration; 2] = [Duration::from_millis(15), Duration::from_millis(5)];
/// A bundled packet is made no longer than this, in bytes: every host must be able to receive it (RFC 791, section 3.1).
const LONGEST_BUNDLE: usize = 576;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A datagram is to be sent over a channel.
    Send(Channel, SocketAddr, Vec<u8>),
    /// A packet is to be handed to the kernel.
    Deliver(Vec<u8>),
}

/// One end. See the module.
pub struct End {
    inner: steer::End,
    sessions: [Tunn; 2],
    peers: [Option<SocketAddr>; 2],
    /// Of what enters here, if thin streams are bundled.
    bundler: Option<Bundler>,
    /// What sessions say by themselves.
    acts: VecDeque<Act>,
    datagrams: u64,
    nowhere: u64,
    room: Vec<u8>,
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
        let sessions = Channel::ALL.map(|channel| {
            let index = (random[2] as u32).wrapping_add(channel.index() as u32) & 0x00ff_ffff;
            let preshared = config.preshared.as_ref().map(|key| key.secret().to_bytes());
            Tunn::new(config.key.secret(), config.peer.key(), preshared, None, index, None)
        });
        Self {
            inner: steer::End::new(Settings {
                is_host: role == Role::Host,
                mtu,
                policy: config.policy,
                channels,
                caps: [0, 1].map(|n| config.ways[n].cap),
                rest: config.keepalive(role),
                allowed: config.allowed.clone(),
                own: config.addresses.clone(),
                keys: (random[0], random[1]),
                epoch: (random[2] >> 32) as u8,
            }),
            sessions,
            peers: [0, 1].map(|n| config.ways[n].endpoint),
            bundler: config.bundle.then(Bundler::new),
            acts: VecDeque::new(),
            datagrams: 0,
            nowhere: 0,
            room: vec![0; (mtu + HEADER + 64 + WIREGUARD).max(LEAST_ROOM)],
        }
    }

    /// Opens both sessions at once, so that one channel that is dead holds up nothing.
    pub fn open(&mut self) {
        self.inner.begin();
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Act> {
        let act = loop {
            if let Some(act) = self.acts.pop_front() {
                break act;
            }
            match self.inner.poll_output()? {
                Output::Deliver(packet) => break Act::Deliver(packet),
                Output::Send(channel, frame) => {
                    let datagram = self.encrypt(channel, &frame);
                    self.inner.recycle(frame);
                    self.acts.extend(datagram);
                }
                Output::Handshake(channel) => {
                    let n = channel.index();
                    let said = self.sessions[n].format_handshake_initiation(&mut self.room, false);
                    self.acts.extend(of_session(said, channel, self.peers[n]));
                }
                Output::Tend(channel) => {
                    let n = channel.index();
                    let said = self.sessions[n].update_timers(&mut self.room);
                    let said = of_session(said, channel, self.peers[n]);
                    self.acts.extend(said.filter(|_| self.uses(channel) != Use::Never));
                }
            }
        };
        if let Act::Send(channel, to, datagram) = &act {
            self.carried(*channel, *to, datagram.len());
        }
        Some(act)
    }

    /// Has a frame encrypted for the peer of its channel.
    fn encrypt(&mut self, channel: Channel, frame: &[u8]) -> Option<Act> {
        let n = channel.index();
        let Some(to) = self.peers[n] else {
            self.nowhere += 1;
            return None;
        };
        let room = (frame.len() + WIREGUARD).max(LEAST_ROOM);
        let mut datagram = self.inner.used_buffer();
        if datagram.len() < room {
            datagram.resize(room, 0);
        }
        let TunnResult::WriteToNetwork(written) = self.sessions[n].encapsulate(frame, &mut datagram) else {
            self.inner.recycle(datagram);
            return None;
        };
        // It is written at the beginning.
        let written = written.len();
        datagram.truncate(written);
        Some(Act::Send(channel, to, datagram))
    }

    /// A buffer of an [`Act`] that was done, to be used again: a tunnel in its stride allocates nothing a packet.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.inner.recycle(buffer);
    }

    /// A channel has carried a datagram, to `other` or from it.
    fn carried(&mut self, channel: Channel, other: SocketAddr, bytes: usize) {
        let bytes = bytes + OUTER[usize::from(other.is_ipv6())];
        // No time passes by it.
        self.inner.handle_input(Instant::ZERO, Input::Carried(channel, bytes));
    }

    /// Says which sessions are open by now: they end by a clock of their own.
    fn look_at_sessions(&mut self, now: Instant) {
        for channel in Channel::ALL {
            self.inner.handle_input(now, Input::Session(channel, self.is_open(channel)));
        }
    }

    /// The cap of a channel, if it has one.
    pub fn cap(&self, channel: Channel) -> Option<&Cap> {
        self.inner.cap(channel)
    }

    /// The period of a channel's cap began so long before `now`, and so much was used in it by another run.
    pub fn resume_cap(&mut self, now: Instant, channel: Channel, used: u64, since: Duration) {
        self.inner.resume_cap(now, channel, used, since);
    }

    /// What a channel may be used for by now.
    pub fn uses(&self, channel: Channel) -> Use {
        self.inner.steerer().uses(channel)
    }

    /// What was refused.
    pub fn refused(&self) -> Refused {
        Refused { datagrams: self.datagrams, nowhere: self.nowhere, ..self.inner.refused() }
    }

    /// Packets that wait for the fast channel now.
    pub fn queued(&self) -> usize {
        self.inner.steerer().backlog()
    }

    /// What was decided of the packets that leave.
    pub fn tally(&self) -> &Tally {
        self.inner.steerer().tally()
    }

    /// What was put back in order.
    pub fn held(&self) -> Held {
        self.inner.held()
    }

    /// Whether a channel's session is there and its probes come back.
    pub fn is_alive(&self, channel: Channel) -> bool {
        self.is_open(channel) && self.inner.steerer().is_alive(channel)
    }

    /// The smoothed round trip of a channel.
    pub fn round_trip(&self, channel: Channel) -> Option<Duration> {
        self.inner.steerer().round_trip(channel)
    }

    /// The share of packets to the other end that a channel loses, 0 to 1.
    pub fn loss(&self, channel: Channel) -> f64 {
        self.inner.steerer().loss(channel)
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
        let packet = self.inner.buffer(packet);
        self.give(now, packet);
    }

    /// An empty buffer for [`End::give`].
    pub fn buffer(&mut self) -> Vec<u8> {
        self.inner.buffer(&[])
    }

    /// A packet from the interface, in a buffer of its own.
    pub fn give(&mut self, now: Instant, mut packet: Vec<u8>) {
        if let Some(bundler) = &mut self.bundler {
            bundler.outgoing(now, &mut packet, LONGEST_BUNDLE);
        }
        self.look_at_sessions(now);
        self.inner.handle_input(now, Input::Packet(packet));
    }

    /// What was bundled of what entered here; none if nothing is to be.
    pub fn bundled(&self) -> Option<bundle::Tally> {
        self.bundler.as_ref().map(Bundler::tally)
    }

    /// A datagram from a channel.
    pub fn datagram(&mut self, now: Instant, channel: Channel, from: SocketAddr, datagram: &[u8]) {
        let n = channel.index();
        self.carried(channel, from, datagram.len());
        let mut room = std::mem::take(&mut self.room);
        if room.len() < datagram.len() {
            room.resize(datagram.len(), 0);
        }
        match self.sessions[n].decapsulate(Some(from.ip()), datagram, &mut room) {
            TunnResult::WriteToTunnelV4(frame, _) | TunnResult::WriteToTunnelV6(frame, _) => {
                self.peers[n] = Some(from);
                self.look_at_sessions(now);
                let bundler = &mut self.bundler;
                let admitted = |packet: &[u8]| bundler.iter_mut().for_each(|bundler| bundler.incoming(now, packet));
                self.inner.frame(now, channel, frame, admitted);
            }
            TunnResult::WriteToNetwork(answer) => {
                /// A cookie: the peer has not proved its address yet.
                const COOKIE: u8 = 3;
                if answer.first() != Some(&COOKIE) {
                    self.peers[n] = Some(from);
                }
                let answer = self.inner.buffer(answer);
                self.acts.push_back(Act::Send(channel, from, answer));
                // What waited for the session.
                while let TunnResult::WriteToNetwork(waited) = self.sessions[n].decapsulate(None, &[], &mut room) {
                    let waited = self.inner.buffer(waited);
                    self.acts.push_back(Act::Send(channel, from, waited));
                }
            }
            TunnResult::Done => self.peers[n] = Some(from),
            TunnResult::Err(_) => self.datagrams += 1,
        }
        self.room = room;
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Instant) {
        self.look_at_sessions(now);
        self.inner.handle_timeout(now);
    }

    /// When to call [`End::timeout`], and why.
    pub fn deadline(&self) -> Option<Deadline> {
        self.inner.poll_timeout()
    }
}

/// What a session says by itself, for where its peer is.
fn of_session(said: TunnResult<'_>, channel: Channel, to: Option<SocketAddr>) -> Option<Act> {
    let TunnResult::WriteToNetwork(datagram) = said else { return None };
    to.map(|to| Act::Send(channel, to, datagram.to_vec()))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
