//! An end with its interface and its sockets: descriptors to be listened to, and what is done when they are ready.
//!
//! The interface lives as long as the tunnel, and its addresses and routes with it: whatever ends the process leaves nothing. Each
//! channel is a socket of its own, bound to the interface or the address that its file names. Packets come and go in trains and
//! super-packets where the kernel has them so.

use super::config::{Config, Prefix, Role, Uplink};
use super::end::{Act, End, Refused};
use super::gather::Gather;
use super::usage;
use crate::clock::Clock;
use crate::poll::{Interest, Poll};
use crate::sys::netlink::{Netlink, NetlinkError, Via};
use crate::sys::offload::{Checksum, Offload};
use crate::sys::socket_option::bind_to_device;
use crate::sys::train;
use crate::sys::tun::{self, Tun, TunError};
use headstart_core::machine::Deadline;
use headstart_core::steer::Channel;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::segments::{self, Cut};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// Trains or super-packets that are dealt with before other sources get their turn; each is up to 64 packets.
const BATCH: usize = 32;
/// Packets that wait in the interface to be read: as many as a super-packet has, many times over.
const QUEUE: i32 = 1_000;
/// What caps have counted is written so often.
const WRITTEN: Duration = Duration::from_secs(60);
/// Reasons that a status tells.
const MOST_REASONS: usize = 24;

/// Why there is no tunnel.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The interface could not be made.
    #[error(transparent)]
    Interface(#[from] TunError),
    /// The interface could not be set up.
    #[error("{0}")]
    Netlink(#[from] NetlinkError),
    /// A channel's socket could not be made.
    #[error("the {channel} channel, {what}: {source}")]
    Socket {
        /// Which.
        channel: Channel,
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// No random bytes.
    #[error("random bytes: {0}")]
    Random(io::Error),
}

impl TunnelError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        let kind = match self {
            Self::Interface(e) => {
                let cause = std::error::Error::source(e).and_then(|cause| cause.downcast_ref::<io::Error>());
                cause.map_or(io::ErrorKind::Other, io::Error::kind)
            }
            Self::Socket { source, .. } => source.kind(),
            Self::Netlink(e) => e.kind(),
            Self::Random(_) => return false,
        };
        kind == io::ErrorKind::PermissionDenied
    }
}

/// How far a cap is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapStatus {
    /// Bytes that the channel may carry in a period.
    pub limit: u64,
    /// Bytes that it has carried in this one.
    pub used: u64,
    /// Seconds until the next one.
    pub left_s: u64,
}

/// How one channel is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// `fat` or `fast`.
    pub channel: String,
    /// What it may be used for by now: `primary`, `secondary`, `backup` or `never`.
    pub uses: String,
    /// Its cap, if it has one.
    pub cap: Option<CapStatus>,
    /// Its session is there and its probes come back.
    pub alive: bool,
    /// The share of packets to the other end that it loses, in percent.
    pub loss: f64,
    /// The other end, if it is known.
    pub peer: Option<String>,
    /// The smoothed round trip, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Packets sent over it.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// The share of all bytes sent, in percent.
    pub share: f64,
}

/// What was decided for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasonStatus {
    /// The word for it.
    pub why: String,
    /// `fat` or `fast`.
    pub channel: String,
    /// Packets.
    pub packets: u64,
    /// How much sooner they arrived than over the other channel, as predicted, in milliseconds; on average.
    pub gained_ms: f64,
}

/// How a tunnel is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The interface.
    pub interface: String,
    /// The policy.
    pub policy: String,
    /// Both channels.
    pub channels: Vec<ChannelStatus>,
    /// Why packets went where they went.
    pub reasons: Vec<ReasonStatus>,
    /// Acknowledgements that a newer one has replaced.
    pub replaced: u64,
    /// Packets that were held to keep order, and those let go because time was up.
    pub held: [u64; 2],
    /// Packets of thin streams that carried others again; none if that is off.
    pub bundled: Option<u64>,
    /// Packets that wait for the fast channel now.
    #[serde(default)]
    pub queued: usize,
    /// Times that a channel was given up.
    #[serde(default)]
    pub failovers: u64,
    /// Packets that left the queue of the fast channel for the fat one.
    #[serde(default)]
    pub moved: u64,
    /// Packets that were sent over both channels.
    #[serde(default)]
    pub twice: u64,
    /// Packets of a lost channel that were resent over the other one.
    #[serde(default)]
    pub again: u64,
    /// Packets that were dropped because a queue was full or too slow for them.
    #[serde(default)]
    pub dropped: u64,
    /// What was refused.
    pub refused: Refused,
}

/// See the module.
pub struct Tunnel {
    end: End,
    tun: Tun,
    name: String,
    gather: Gather,
    sockets: [UdpSocket; 2],
    /// Whether the socket of a channel is one of IPv6.
    v6: [bool; 2],
    policy: &'static str,
    clock: Clock,
    buffer: Vec<u8>,
    /// Bytes read since the last query.
    read: usize,
    /// Where what caps have counted is kept, and when it was written last.
    usage: Option<(PathBuf, Instant)>,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").field("interface", &self.name).finish_non_exhaustive()
    }
}

fn random() -> io::Result<[u64; 3]> {
    let mut bytes = [0; 24];
    let drawn = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if drawn != bytes.len() {
        return Err(io::Error::other("the kernel gave too few"));
    }
    let (words, _) = bytes.as_chunks::<8>();
    Ok([0, 1, 2].map(|n| u64::from_le_bytes(words[n])))
}

fn socket(channel: Channel, way: &Uplink) -> Result<UdpSocket, TunnelError> {
    let fail = |what: &str| {
        let what = what.to_owned();
        move |source: io::Error| TunnelError::Socket { channel, what, source }
    };
    let v6 = way.local.map_or_else(|| way.endpoint.is_none_or(|to| to.is_ipv6()), |local| local.is_ipv6());
    let any = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    let bind = |any: IpAddr| UdpSocket::bind(SocketAddr::new(way.local.unwrap_or(any), way.listen));
    let socket = match bind(any) {
        // A host without IPv6 listens over IPv4 alone.
        Err(_) if v6 && way.local.is_none() && way.endpoint.is_none() => bind(Ipv4Addr::UNSPECIFIED.into()),
        bound => bound,
    };
    let socket = socket.map_err(fail(&format!("binding port {}", way.listen)))?;
    if let Some(interface) = &way.interface {
        bind_to_device(&socket, interface).map_err(fail(&format!("binding to interface {interface}")))?;
    }
    socket.set_nonblocking(true).map_err(fail("making it non-blocking"))?;
    // Where the kernel does not join datagrams they come one by one.
    let _ = train::take(&socket);
    // What the kernel has no room for is lost; it gives as much of this as it may.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20);
    Ok(socket)
}

impl Tunnel {
    /// Makes the interface with its addresses and routes, and the sockets, in the calling thread's namespace. What caps have
    /// counted is kept in `folder`.
    pub fn open(config: &Config, role: Role, clock: Clock, folder: &Path) -> Result<Self, TunnelError> {
        let sockets = [socket(Channel::Fat, &config.ways[0])?, socket(Channel::Fast, &config.ways[1])?];
        let mut netlink = Netlink::open()?;
        let tun = Tun::create(&config.name, QUEUE)?;
        let name = tun.name().to_owned();
        let index = netlink.index(&name)?;
        netlink.set_mtu(index, config.mtu.into())?;
        for Prefix { address, bits } in &config.addresses {
            netlink.address(index, *address, *bits)?;
        }
        netlink.up(index)?;
        for allowed in &config.allowed {
            for Prefix { address, bits } in halves(*allowed) {
                if !config.addresses.iter().any(|own| own.network() == (Prefix { address, bits })) {
                    // What the host had there would be gone after the tunnel.
                    netlink.new_route(address, bits, Via::Interface(index))?;
                }
            }
        }
        let mut end = End::new(config, role, random().map_err(TunnelError::Random)?);
        let capped = config.ways.iter().any(|way| way.cap.is_some());
        let usage = capped.then(|| (folder.join(format!("steer-caps-{}", config.key.public().mark())), clock.now()));
        if let Some((file, now)) = &usage {
            for (channel, used) in Channel::ALL.into_iter().zip(usage::read(file)) {
                let (bytes, since) = used.unwrap_or_default();
                end.resume_cap(*now, channel, bytes, since);
            }
        }
        end.open();
        let mut tunnel = Self {
            end,
            tun,
            name,
            gather: Gather::default(),
            v6: [0, 1].map(|n: usize| sockets[n].local_addr().is_ok_and(|own| own.is_ipv6())),
            sockets,
            policy: config.policy.name,
            clock,
            buffer: Vec::with_capacity(tun::ROOM.max(train::ROOM)),
            read: 0,
            usage,
        };
        tunnel.carry_out();
        tunnel.gather.flush(&tunnel.sockets, &tunnel.tun);
        Ok(tunnel)
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.name
    }

    /// Listens under `first` and the two tokens behind it.
    pub fn listen(&self, poll: &Poll, first: u64) -> io::Result<()> {
        poll.add(&self.tun, first, Interest::Read)?;
        poll.add(&self.sockets[0], first + 1, Interest::Read)?;
        poll.add(&self.sockets[1], first + 2, Interest::Read)
    }

    /// Deals with what is ready: the token of [`Tunnel::listen`] less its first one.
    pub fn ready(&mut self, which: u64) {
        for _ in 0..BATCH {
            self.buffer.clear();
            let went = if which == 0 {
                self.take_from_interface()
            } else {
                self.take_from(Channel::ALL[usize::from(which > 1)])
            };
            if went.is_err() {
                break;
            }
            self.read += self.buffer.len();
        }
        self.timeout();
        self.gather.flush(&self.sockets, &self.tun);
    }

    /// Takes what the interface has: a packet, or one super-packet.
    fn take_from_interface(&mut self) -> io::Result<()> {
        let offload = self.tun.read(&mut self.buffer)?.ok_or(io::ErrorKind::WouldBlock)?;
        let now = self.clock.now();
        match offload {
            Offload { segments: None, checksum } => {
                if let Some(Checksum { start, offset }) = checksum {
                    segments::finish(&mut self.buffer, start.into(), offset.into());
                }
                self.end.packet(now, &self.buffer);
            }
            Offload { segments: Some(shape), .. } => {
                let Some(cut) = Cut::plan(&self.buffer, shape.size.into()) else { return Ok(()) };
                for n in 0..cut.count() {
                    let mut segment = self.end.buffer();
                    cut.write(n, &mut segment);
                    self.end.give(now, segment);
                }
            }
        }
        self.carry_out();
        Ok(())
    }

    /// Takes what came over a channel: a datagram, or one train.
    fn take_from(&mut self, channel: Channel) -> io::Result<()> {
        let (from, size) = train::receive(&self.sockets[channel.index()], &mut self.buffer)?;
        let now = self.clock.now();
        // Some implementations take an empty datagram for a question of their own: there are none in an empty buffer.
        for datagram in self.buffer.chunks(size.max(1)) {
            self.end.datagram(now, channel, plain(from), datagram);
        }
        self.carry_out();
        Ok(())
    }

    /// How many bytes were read since this was asked before, if any: see [`Lookout::begin`](headstart_core::lookout::Lookout::begin).
    pub fn passed(&mut self) -> Option<usize> {
        Some(std::mem::take(&mut self.read)).filter(|read| *read > 0)
    }

    /// Time has passed.
    pub fn timeout(&mut self) {
        let now = self.clock.now();
        if self.end.deadline().is_some_and(|deadline| deadline.at <= now) {
            self.end.timeout(now);
            self.carry_out();
            self.gather.flush(&self.sockets, &self.tun);
            if self.usage.as_ref().is_some_and(|(_, written)| now.since(*written) >= WRITTEN) {
                self.write_usage();
            }
        }
    }

    /// Writes what caps have counted; a disk that is full is no reason to steer no more.
    fn write_usage(&mut self) {
        let now = self.clock.now();
        if let Some((file, written)) = &mut self.usage {
            let used = Channel::ALL.map(|channel| {
                let cap = self.end.cap(channel)?;
                Some((cap.used(), cap.period().saturating_sub(cap.left(now))))
            });
            let _ = usage::write(file, used);
            *written = now;
        }
    }

    /// When to call [`Tunnel::timeout`], and why.
    pub fn deadline(&self) -> Option<Deadline> {
        self.end.deadline()
    }

    fn carry_out(&mut self) {
        while let Some(act) = self.end.poll() {
            match act {
                Act::Send(channel, to, datagram) => {
                    let to = if self.v6[channel.index()] { mapped(to) } else { to };
                    self.gather.send(&self.sockets, channel, to, &datagram);
                    self.end.recycle(datagram);
                }
                Act::Deliver(packet) => {
                    if let Some(buffer) = self.gather.deliver(&self.tun, packet) {
                        self.end.recycle(buffer);
                    }
                }
            }
        }
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let tally = self.end.tally();
        let all: u64 = Channel::ALL.iter().map(|c| tally.bytes(*c)).sum();
        let channel = |channel: Channel| ChannelStatus {
            channel: channel.name().into(),
            uses: self.end.uses(channel).name().into(),
            cap: self.end.cap(channel).map(|cap| CapStatus {
                limit: cap.limit(),
                used: cap.used(),
                left_s: cap.left(self.clock.now()).as_secs(),
            }),
            loss: 100.0 * self.end.loss(channel),
            alive: self.end.is_alive(channel),
            peer: self.end.peer(channel).map(|to| to.to_string()),
            rtt_ms: self.end.round_trip(channel).map(|rtt| rtt.as_secs_f64() * 1e3),
            packets: tally.packets(channel),
            bytes: tally.bytes(channel),
            share: 100.0 * tally.bytes(channel) as f64 / all.max(1) as f64,
        };
        let reasons = tally.reasons.iter().take(MOST_REASONS).map(|reason| ReasonStatus {
            why: reason.why.into(),
            channel: reason.channel.name().into(),
            packets: reason.packets,
            gained_ms: reason.gained.as_secs_f64() * 1e3 / reason.packets.max(1) as f64,
        });
        let held = self.end.held();
        Status {
            interface: self.name.clone(),
            policy: self.policy.into(),
            channels: Channel::ALL.map(channel).into(),
            reasons: reasons.collect(),
            replaced: tally.replaced,
            held: [held.held, held.impatient],
            bundled: self.end.bundled().map(|tally| tally.bundled),
            queued: self.end.queued(),
            failovers: tally.lost_channels,
            moved: tally.moved,
            twice: tally.twice,
            again: tally.again,
            dropped: tally.dropped,
            refused: self.end.refused(),
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.write_usage();
    }
}

/// A default route in two halves, which goes before the host's own and leaves it as it is.
fn halves(prefix: Prefix) -> Vec<Prefix> {
    match (prefix.bits, prefix.address) {
        (0, IpAddr::V4(_)) => {
            [0, 128].map(|first| Prefix { address: Ipv4Addr::new(first, 0, 0, 0).into(), bits: 1 }).to_vec()
        }
        (0, IpAddr::V6(_)) => [0, 0x8000]
            .map(|first| Prefix { address: Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), bits: 1 })
            .to_vec(),
        _ => vec![prefix],
    }
}

/// An address as IPv4 if it is one inside IPv6.
fn plain(from: SocketAddr) -> SocketAddr {
    match from {
        SocketAddr::V6(v6) => v6.ip().to_ipv4_mapped().map_or(from, |v4| SocketAddr::new(v4.into(), v6.port())),
        SocketAddr::V4(_) => from,
    }
}

/// An address as a socket of IPv6 wants it.
fn mapped(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => to,
    }
}
