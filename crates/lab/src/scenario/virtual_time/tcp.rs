//! A TCP transfer between two smoltcp hosts.
//!
//! Congestion control is CUBIC, as the namespaces have it; segments of 1500 bytes of IP. smoltcp counts microseconds, so a
//! timer of its may be up to one late.

use super::{Actor, Load};
use crate::scenario::flow::Measured;
use headstart_core::time::{Duration, Instant};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Bytes of IP in a full packet.
const MTU: usize = 1500;
/// Room for what is in flight: more than any shipped link's bandwidth-delay product.
const BUFFER: usize = 8 << 20;
const PORTS: [u16; 2] = [40_000, 5001];

/// One transfer.
pub(super) struct Transfer {
    start: Instant,
    bytes: u64,
    written: u64,
    read: u64,
    completion: Option<Duration>,
    /// Of `from`, of `to`.
    hosts: [Host; 2],
    addresses: [IpAddr; 2],
    /// When each host wants to be polled.
    wake: [Option<Instant>; 2],
    connected: bool,
}

struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    line: Line,
}

/// What a host has received and what it sends: its network card.
#[derive(Default)]
struct Line {
    received: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

impl Transfer {
    pub(super) fn new(start: Instant, bytes: u64, addresses: [IpAddr; 2]) -> Self {
        let hosts = addresses.map(|address| Host::new(address, start));
        let mut transfer = Self {
            start,
            bytes,
            written: 0,
            read: 0,
            completion: None,
            hosts,
            addresses,
            wake: [Some(start), None],
            connected: false,
        };
        let [_, to] = &mut transfer.hosts;
        // An address and a port that are not zero: there is nothing to refuse.
        let listening = to.sockets.get_mut::<Socket>(to.socket).listen(PORTS[1]);
        debug_assert!(listening.is_ok(), "{listening:?}");
        transfer
    }

    fn connect(&mut self) {
        let [from, _] = &mut self.hosts;
        let socket = from.sockets.get_mut::<Socket>(from.socket);
        let remote = (IpAddress::from(self.addresses[1]), PORTS[1]);
        let local = (IpAddress::from(self.addresses[0]), PORTS[0]);
        let connecting = socket.connect(from.interface.context(), remote, local);
        debug_assert!(connecting.is_ok(), "{connecting:?}");
        self.connected = true;
    }

    /// Lets both programs and both stacks do what they can at `now`.
    fn work(&mut self, now: Instant, out: &mut Vec<(bool, Load)>) {
        if !self.connected && now >= self.start {
            self.connect();
        }
        for side in 0..2 {
            loop {
                let moved = self.hosts[side].poll(now);
                if !(if side == 0 { self.write() } else { self.read(now) } || moved) {
                    break;
                }
            }
            let host = &mut self.hosts[side];
            out.extend(host.line.sent.drain(..).map(|packet| (side == 0, Load::Tcp(packet))));
            self.wake[side] = host.wake(now);
        }
        if !self.connected {
            self.wake[0] = Some(self.start);
        }
    }

    /// The sender's program; whether it wrote anything.
    fn write(&mut self) -> bool {
        static ZEROS: [u8; 65_536] = [0; 65_536];
        let [from, _] = &mut self.hosts;
        let socket = from.sockets.get_mut::<Socket>(from.socket);
        let left = usize::try_from(self.bytes - self.written).unwrap_or(usize::MAX).min(ZEROS.len());
        if left == 0 {
            if socket.may_send() && self.connected {
                socket.close();
                return true;
            }
            return false;
        }
        let wrote = if socket.can_send() { socket.send_slice(&ZEROS[..left]).unwrap_or(0) } else { 0 };
        self.written += wrote as u64;
        wrote > 0
    }

    /// The receiver's; whether it read anything.
    fn read(&mut self, now: Instant) -> bool {
        let [_, to] = &mut self.hosts;
        let socket = to.sockets.get_mut::<Socket>(to.socket);
        let read = if socket.can_recv() { socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0) } else { 0 };
        self.read += read as u64;
        if self.read == self.bytes && self.completion.is_none() {
            self.completion = Some(now - self.start);
        }
        if socket.state() == State::CloseWait {
            socket.close();
            return true;
        }
        read > 0
    }
}

impl Actor for Transfer {
    fn receive(&mut self, at: Instant, forth: bool, load: Load, out: &mut Vec<(bool, Load)>) {
        let Load::Tcp(packet) = load else { return };
        self.hosts[usize::from(forth)].line.received.push_back(packet);
        self.work(at, out);
    }

    fn poll(&mut self, now: Instant, out: &mut Vec<(bool, Load)>) {
        self.work(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake.into_iter().flatten().min().filter(|_| !self.done())
    }

    fn measured(&self) -> Measured {
        Measured { bytes: self.read, completion: self.completion, ..Measured::nothing() }
    }

    fn done(&self) -> bool {
        self.completion.is_some()
    }
}

impl Host {
    fn new(address: IpAddr, now: Instant) -> Self {
        let mut line = Line::default();
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut line, moment(now));
        // The whole family is "on the link": ways are the scenario's business.
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::new(address.into(), 0));
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(CongestionControl::Cubic);
        socket.set_nagle_enabled(false);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Self { interface, sockets, socket, line }
    }

    /// Whether a packet came in or went out.
    fn poll(&mut self, now: Instant) -> bool {
        let before = (self.line.received.len(), self.line.sent.len());
        self.interface.poll(moment(now), &mut self.line, &mut self.sockets);
        (self.line.received.len(), self.line.sent.len()) != before
    }

    fn wake(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(moment(now), &self.sockets)?;
        // What smoltcp would do at once it has done; its clock is a microsecond coarse.
        let micros = u64::try_from(at.total_micros()).unwrap_or(0);
        let next = Instant::from_nanos(micros.saturating_mul(1000));
        Some(next.max(now + Duration::from_micros(1)))
    }
}

fn moment(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(i64::try_from(now.as_nanos() / 1000).unwrap_or(i64::MAX))
}

impl Device for Line {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        // Nothing alters a packet on the way.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Received, Sent<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Received(packet), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

struct Sent<'a>(&'a mut VecDeque<Vec<u8>>);

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push_back(packet);
        result
    }
}
