//! A plain tunnel over one channel: a WireGuard session, the same trains and super-packets as ours, and nothing else.
//!
//! The baseline for ours. It answers only its peer, and serves for minutes: no roaming, no cookies, no account.

use super::super::ends::{HOST, INSIDE, Polled};
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use headstart_core::steer::Channel;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::segments::{self, Cut};
use headstart_io::clock::Clock;
use headstart_io::poll::{Interest, Poll};
use headstart_io::steer::Gather;
use headstart_io::sys::netlink::Netlink;
use headstart_io::sys::offload::{Checksum, Offload};
use headstart_io::sys::train;
use headstart_io::sys::tun::{self, Tun};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// WireGuard's own inner MTU.
const MTU: u32 = 1420;
/// Its header and tag, and room for its handshake.
const OVERHEAD: usize = 148;
const PORT: u16 = 7000;
/// Trains or super-packets that are dealt with before other sources get their turn, as in ours.
const BATCH: usize = 32;
/// A session looks at its timers so often.
const TICK: Duration = Duration::from_millis(250);

/// What an end knows before it begins.
pub struct Settings {
    own: Ipv4Addr,
    secret: StaticSecret,
    peer: PublicKey,
    to: Option<SocketAddr>,
}

/// The host's end and the gateway's, which the host finds at `gateway`. Keys are of this run, and guard nothing.
pub fn pair(gateway: Ipv4Addr) -> [Settings; 2] {
    let keys = [0, 1].map(|_: usize| {
        let mut bytes = [0; 32];
        fastrand::fill(&mut bytes);
        StaticSecret::from(bytes)
    });
    let public = [0, 1].map(|n: usize| PublicKey::from(&keys[n]));
    let [of_host, of_gateway] = keys;
    [
        Settings { own: HOST, secret: of_host, peer: public[1], to: Some((gateway, PORT).into()) },
        Settings { own: INSIDE, secret: of_gateway, peer: public[0], to: None },
    ]
}

/// One end.
pub struct Plain {
    session: Tunn,
    peer: Option<SocketAddr>,
    tun: Tun,
    sockets: [UdpSocket; 2],
    gather: Gather,
    clock: Clock,
    tick: Instant,
    buffer: Vec<u8>,
    segment: Vec<u8>,
    room: Vec<u8>,
}

impl Plain {
    /// Makes the interface and the socket in the calling thread's namespace.
    pub fn open(settings: &Settings, clock: Clock) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, if settings.to.is_some() { 0 } else { PORT }))?;
        socket.set_nonblocking(true)?;
        train::take(&socket)?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20)?;
        let tun = Tun::create("plain0", 1_000)?;
        let mut netlink = Netlink::open()?;
        let index = netlink.index("plain0")?;
        netlink.set_mtu(index, MTU)?;
        netlink.address(index, IpAddr::from(settings.own), 24)?;
        netlink.up(index)?;
        let session = Tunn::new(settings.secret.clone(), settings.peer, None, None, 1, None);
        let mut end = Self {
            session,
            peer: settings.to,
            tun,
            sockets: [socket.try_clone()?, socket],
            gather: Gather::default(),
            clock,
            tick: Instant::ZERO,
            buffer: Vec::with_capacity(tun::ROOM.max(train::ROOM)),
            segment: Vec::new(),
            room: vec![0; MTU as usize + OVERHEAD],
        };
        if let TunnResult::WriteToNetwork(hello) = end.session.format_handshake_initiation(&mut end.room, false)
            && let Some(to) = end.peer
        {
            end.gather.send(&end.sockets, Channel::Fat, to, hello);
        }
        end.gather.flush(&end.sockets, &end.tun);
        Ok(end)
    }

    fn encrypt(&mut self, packet: &[u8]) {
        if let TunnResult::WriteToNetwork(datagram) = self.session.encapsulate(packet, &mut self.room)
            && let Some(to) = self.peer
        {
            self.gather.send(&self.sockets, Channel::Fat, to, datagram);
        }
    }

    fn take_from_interface(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut segment = std::mem::take(&mut self.segment);
        let read = self.tun.read(&mut buffer);
        match &read {
            Ok(Some(Offload { segments: Some(shape), .. })) => {
                if let Some(cut) = Cut::plan(&buffer, shape.size.into()) {
                    for n in 0..cut.count() {
                        cut.write(n, &mut segment);
                        self.encrypt(&segment);
                    }
                }
            }
            Ok(Some(Offload { checksum, .. })) => {
                if let Some(Checksum { start, offset }) = checksum {
                    segments::finish(&mut buffer, (*start).into(), (*offset).into());
                }
                self.encrypt(&buffer);
            }
            _ => {}
        }
        (self.buffer, self.segment) = (buffer, segment);
        read?.map(drop).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn take_from_peer(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = train::receive(&self.sockets[0], &mut buffer);
        if let Ok((from, size)) = &received {
            for datagram in buffer.chunks((*size).max(1)) {
                self.decrypt(*from, datagram);
            }
        }
        self.buffer = buffer;
        received.map(drop)
    }

    fn decrypt(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut said = self.session.decapsulate(Some(from.ip()), datagram, &mut self.room);
        loop {
            match said {
                TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
                    self.peer = Some(from);
                    self.gather.deliver(&self.tun, packet.to_vec());
                    return;
                }
                TunnResult::WriteToNetwork(answer) => {
                    self.peer = Some(from);
                    self.gather.send(&self.sockets, Channel::Fat, from, answer);
                }
                TunnResult::Done | TunnResult::Err(_) => return,
            }
            said = self.session.decapsulate(None, &[], &mut self.room);
        }
    }
}

impl Polled for Plain {
    fn listen(&self, poll: &Poll) -> io::Result<()> {
        poll.add(&self.tun, 0, Interest::Read)?;
        poll.add(&self.sockets[0], 1, Interest::Read)
    }

    fn ready(&mut self, token: u64) {
        for _ in 0..BATCH {
            self.buffer.clear();
            let went = if token == 0 { self.take_from_interface() } else { self.take_from_peer() };
            if went.is_err() {
                break;
            }
        }
        self.gather.flush(&self.sockets, &self.tun);
    }

    fn timeout(&mut self) {
        let now = self.clock.now();
        if self.tick > now {
            return;
        }
        self.tick = now + TICK;
        if let TunnResult::WriteToNetwork(datagram) = self.session.update_timers(&mut self.room)
            && let Some(to) = self.peer
        {
            self.gather.send(&self.sockets, Channel::Fat, to, datagram);
        }
        self.gather.flush(&self.sockets, &self.tun);
    }

    fn deadline(&self) -> Instant {
        self.tick
    }

    /// A plain one sleeps.
    fn passed(&mut self) -> Option<usize> {
        None
    }

    fn is_up(&self) -> bool {
        self.session.time_since_last_handshake().is_some()
    }
}
