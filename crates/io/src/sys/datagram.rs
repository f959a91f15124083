//! Datagrams with what surrounds them: the traffic class and the hop limit of each, and what the network says of those that did
//! not arrive (ip(7), ipv6(7): IP_RECVERR).
//!
//! For sockets of UDP, and raw ones of ICMP.

use headstart_core::wire::ip::HOP_LIMIT;
use headstart_core::wire::ip::icmp::Trouble;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Room for control messages: an error with an IPv6 address and two numbers.
pub(super) const CONTROL: usize = 256;
/// Origins of errors (linux/errqueue.h): this host, ICMP of either family.
const LOCAL: u8 = 1;
const ICMP: u8 = 2;
const ICMP6: u8 = 3;
/// ICMP_FILTER of linux/icmp.h, at SOL_RAW, and ICMPV6_FILTER of linux/icmpv6.h.
const ICMP_FILTER: libc::c_int = 1;
const SOL_RAW: libc::c_int = 255;
const ICMPV6_FILTER: libc::c_int = 1;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL]);

/// A datagram that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The sender.
    pub from: SocketAddr,
    /// Its traffic class, ECN included; zero if the kernel does not tell.
    pub traffic_class: u8,
    /// How many routers it might still have passed; [`HOP_LIMIT`] if the kernel does not tell.
    pub hop_limit: u8,
    /// It is many, of so many bytes each but perhaps the last: of sockets that take trains.
    pub train: Option<u16>,
    /// The address of this host that it was sent to, of sockets that [tell](tell_destination).
    pub at: Option<IpAddr>,
}

/// What surrounds a datagram that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Its traffic class.
    pub traffic_class: u8,
    /// How many routers it may pass.
    pub hop_limit: u8,
    /// The address of this host that it comes from, if that is not the kernel's choice. It is where this host has it no more.
    pub from: Option<IpAddr>,
}

/// What became of a datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The destination.
    pub to: SocketAddr,
    /// The host that reports the error, if it is not this one.
    pub reporter: Option<IpAddr>,
    /// What is wrong, if it is something that is reported to programs.
    pub trouble: Option<Trouble>,
    /// How many routers the report might still have passed; [`HOP_LIMIT`] if it is this host's.
    pub hop_limit: u8,
}

/// A non-blocking socket for UDP that tells what surrounds datagrams.
pub fn udp(v4: bool) -> io::Result<OwnedFd> {
    let family = if v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if !v4 {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
    }
    tell_more(&socket, v4)?;
    Ok(socket)
}

/// A non-blocking raw socket that receives replies to echoes, and nothing else. Needs CAP_NET_RAW.
pub fn echo(v4: bool) -> io::Result<OwnedFd> {
    let (family, protocol) =
        if v4 { (AddressFamily::INET, ipproto::ICMP) } else { (AddressFamily::INET6, ipproto::ICMPV6) };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    if v4 {
        // A bit for each type that is left out; type 0 is the reply.
        set(&socket, SOL_RAW, ICMP_FILTER, &(!1u32).to_ne_bytes())?;
    } else {
        let mut blocked = [u32::MAX; 8];
        blocked[129 / 32] &= !(1 << (129 % 32));
        let bytes: Vec<u8> = blocked.iter().flat_map(|word| word.to_ne_bytes()).collect();
        set(&socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &bytes)?;
    }
    tell_more(&socket, v4)?;
    Ok(socket)
}

/// A non-blocking socket for the echoes of one asker (icmp(7)), in which the kernel puts a number of its own. Needs no right, but that the host lets
/// this user's group (net.ipv4.ping_group_range).
pub fn ping(v4: bool) -> io::Result<OwnedFd> {
    let (family, protocol) =
        if v4 { (AddressFamily::INET, ipproto::ICMP) } else { (AddressFamily::INET6, ipproto::ICMPV6) };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(protocol))?;
    tell_more(&socket, v4)?;
    Ok(socket)
}

fn tell_more(socket: &OwnedFd, v4: bool) -> io::Result<()> {
    let on = 1i32.to_ne_bytes();
    let (level, options) = if v4 {
        (libc::IPPROTO_IP, [libc::IP_RECVERR, libc::IP_RECVTOS, libc::IP_RECVTTL])
    } else {
        (libc::IPPROTO_IPV6, [libc::IPV6_RECVERR, libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT])
    };
    options.into_iter().try_for_each(|option| set(socket, level, option, &on))
}

/// Has a socket tell of each datagram to which of this host's addresses it was sent.
pub fn tell_destination(socket: impl AsFd, v4: bool) -> io::Result<()> {
    let (level, option) =
        if v4 { (libc::IPPROTO_IP, libc::IP_PKTINFO) } else { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) };
    set(socket, level, option, &1i32.to_ne_bytes())
}

/// Who may cut what a socket sends (IP_MTU_DISCOVER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cutting {
    /// The kernel and routers.
    Anyone,
    /// Nobody. What is longer than the kernel knows the path to take is refused.
    Nobody,
    /// Nobody, and what the kernel knows of the path does not count: what is too long leaves all the same, and the router that it does not
    /// pass says so.
    NobodyKnows,
}

/// Sets who may cut what is sent from now on.
pub fn cut(socket: impl AsFd, v4: bool, cutting: Cutting) -> io::Result<()> {
    let (level, option, [dont, must, probe]) = if v4 {
        let values = [libc::IP_PMTUDISC_DONT, libc::IP_PMTUDISC_DO, libc::IP_PMTUDISC_PROBE];
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, values)
    } else {
        let values = [libc::IPV6_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DO, libc::IPV6_PMTUDISC_PROBE];
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, values)
    };
    let value = match cutting {
        Cutting::Anyone => dont,
        Cutting::Nobody => must,
        Cutting::NobodyKnows => probe,
    };
    set(socket, level, option, &value.to_ne_bytes())
}

fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: &[u8]) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads as many bytes as there are.
    let rc = unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a datagram with this traffic class, past so many routers at most.
pub fn send(socket: impl AsFd, to: SocketAddr, data: &[u8], traffic_class: u8, hop_limit: u8) -> io::Result<()> {
    send_around(socket, to, data, Around { traffic_class, hop_limit, from: None })
}

/// Sends a datagram so.
pub fn send_around(socket: impl AsFd, to: SocketAddr, data: &[u8], around: Around) -> io::Result<()> {
    from_here(around, |around| send_with(&socket, to, data, Some(around), None))
}

/// Sends from the address that is wanted, or, where this host has it no more, from another.
fn from_here(around: Around, send: impl Fn(Around) -> io::Result<()>) -> io::Result<()> {
    match send(around) {
        Err(e) if around.from.is_some() && matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EADDRNOTAVAIL)) => {
            send(Around { from: None, ..around })
        }
        other => other,
    }
}

/// Sends again what was not sent because an earlier datagram was refused, which is in the queue of errors too.
pub fn past_refusals(mut send: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match send() {
        Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => send(),
        other => other,
    }
}

/// Sends `data` at once: with what is to surround it, or the socket's own; as a train of datagrams of so many bytes, or as one.
pub(super) fn send_with(
    socket: impl AsFd,
    to: SocketAddr,
    data: &[u8],
    around: Option<Around>,
    train: Option<u16>,
) -> io::Result<()> {
    let (mut address, address_len) = address_of(to);
    let mut vector = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: `msghdr` is plain data; all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = address_len;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    // SAFETY: the control buffer is there and long enough for a header.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let mut used = 0;
    let mut add = |level: libc::c_int, kind: libc::c_int, value: &[u8]| {
        // SAFETY: all messages fit into the control buffer, and `header` points to room for the next one.
        unsafe {
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(value.len() as _) as _;
            std::ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(header), value.len());
            used += libc::CMSG_SPACE(value.len() as _) as usize;
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    };
    if let Some(Around { traffic_class, hop_limit, from }) = around {
        let (level, class, limit) = if to.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
        };
        add(level, class, &i32::from(traffic_class).to_ne_bytes());
        add(level, limit, &i32::from(hop_limit).to_ne_bytes());
        match from {
            // `struct in_pktinfo` has the interface, where to send from, and nothing that counts; `struct in6_pktinfo` has the interface last.
            Some(IpAddr::V4(ip)) => add(level, libc::IP_PKTINFO, &[[0; 4], ip.octets(), [0; 4]].concat()),
            Some(IpAddr::V6(ip)) => add(level, libc::IPV6_PKTINFO, &[&ip.octets()[..], &[0; 4]].concat()),
            None => {}
        }
    }
    if let Some(size) = train {
        add(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
    }
    message.msg_controllen = used as _;
    // SAFETY: everything that `message` points to outlives the call, which only reads.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives a datagram into the spare room of `bytes`.
pub fn receive(socket: impl AsFd, bytes: &mut Vec<u8>) -> io::Result<Arrived> {
    let (mut traffic_class, mut hop_limit, mut train, mut at, before) = (0, HOP_LIMIT, None, None, bytes.len());
    let from = receive_with(socket, bytes, 0, |level, kind, data| {
        if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO) {
            train = data.first_chunk().and_then(|word| u16::try_from(i32::from_ne_bytes(*word)).ok());
        }
        let is_class =
            matches!((level, kind), (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS));
        if let (true, Some(byte)) = (is_class, data.first()) {
            // A byte for IPv4, and an int for IPv6, whose upper bytes are zero.
            traffic_class = if cfg!(target_endian = "big") { *data.last().unwrap_or(byte) } else { *byte };
        }
        hop_limit = hop_limit_of((level, kind), data).unwrap_or(hop_limit);
        at = destination_of((level, kind), data).or(at);
    })?;
    let from = from.ok_or_else(|| io::Error::other("a datagram from nowhere"))?;
    let len = bytes.len() - before;
    let train = train.filter(|size| (1..len).contains(&usize::from(*size)));
    Ok(Arrived { from, traffic_class, hop_limit, train, at })
}

/// What the network says of a datagram that was sent; the beginning of the datagram goes into the spare room of `bytes`.
pub fn receive_error(socket: impl AsFd, bytes: &mut Vec<u8>) -> io::Result<Lost> {
    let (mut said, mut hop_limit) = (None, HOP_LIMIT);
    let to = receive_with(socket, bytes, libc::MSG_ERRQUEUE, |level, kind, data| {
        let is_error =
            matches!((level, kind), (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR));
        if is_error {
            said = read_error(data);
        }
        hop_limit = hop_limit_of((level, kind), data).unwrap_or(hop_limit);
    })?;
    let to = to.ok_or_else(|| io::Error::other("an error without a cause"))?;
    let (reporter, trouble) = said.unwrap_or_default();
    Ok(Lost { to, reporter, trouble, hop_limit })
}

/// What a control message says of where a datagram was sent to, if it is about that: `struct in_pktinfo` and `in6_pktinfo`.
fn destination_of(what: (libc::c_int, libc::c_int), data: &[u8]) -> Option<IpAddr> {
    match what {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => Some(IpAddr::from(*data.get(8..)?.first_chunk::<4>()?)),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => Some(IpAddr::from(*data.first_chunk::<16>()?)),
        _ => None,
    }
}

/// What a control message says of a hop limit, if it is about that.
fn hop_limit_of(what: (libc::c_int, libc::c_int), data: &[u8]) -> Option<u8> {
    let is_limit = matches!(what, (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT));
    let limit = data.first_chunk().filter(|_| is_limit)?;
    u8::try_from(i32::from_ne_bytes(*limit)).ok()
}

/// `struct sock_extended_err`, followed by the address of the reporting host: errno, origin, type, code, padding, info, data.
fn read_error(data: &[u8]) -> Option<(Option<IpAddr>, Option<Trouble>)> {
    let head = data.first_chunk::<16>()?;
    let errno = i32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
    let (origin, kind, code) = (head[4], head[5], head[6]);
    let info = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
    let reporter = read_address(&data[16..]).map(|address| address.ip());
    Some(match origin {
        ICMP => (reporter, Trouble::of(true, kind, code, info)),
        ICMP6 => (reporter, Trouble::of(false, kind, code, info)),
        LOCAL if errno == libc::EMSGSIZE => (None, Some(Trouble::TooBig(info))),
        _ => (None, trouble_of(errno)),
    })
}

/// What an errno says of the network.
pub fn trouble_of(errno: i32) -> Option<Trouble> {
    match errno {
        libc::ENETUNREACH => Some(Trouble::NoRoute),
        libc::EHOSTUNREACH | libc::EHOSTDOWN => Some(Trouble::HostUnreachable),
        libc::ECONNREFUSED => Some(Trouble::PortUnreachable),
        libc::EACCES | libc::EPERM => Some(Trouble::Prohibited),
        _ => None,
    }
}

/// What a datagram that was not sent for its length (EMSGSIZE) had to fit into, as the kernel has just said (IP_RECVERR). Errors of others
/// that wait before it are given to `other`, each with the beginning of its datagram.
pub fn too_long(socket: impl AsFd, bytes: &mut Vec<u8>, mut other: impl FnMut(Lost, &[u8])) -> Option<Trouble> {
    loop {
        bytes.clear();
        let lost = receive_error(&socket, bytes).ok()?;
        match lost.trouble {
            // A local one names the port of a connected socket, and so none.
            Some(trouble @ Trouble::TooBig(_)) if lost.reporter.is_none() => return Some(trouble),
            _ => other(lost, bytes),
        }
    }
}

pub(super) fn receive_with(
    socket: impl AsFd,
    bytes: &mut Vec<u8>,
    flags: libc::c_int,
    mut each: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<Option<SocketAddr>> {
    let spare = bytes.spare_capacity_mut();
    let mut vector = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() };
    // Large enough for either family.
    let mut address = [0u8; 128];
    let mut control = Control([0; CONTROL]);
    // SAFETY: `msghdr` is plain data; all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = address.as_mut_ptr().cast();
    message.msg_namelen = address.len() as libc::socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    // SAFETY: everything that `message` points to is live memory of the lengths given.
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let len = bytes.len() + got;
    // SAFETY: the kernel has written so many bytes behind the old ones, within the capacity.
    unsafe { bytes.set_len(len) };
    // SAFETY: `message` is as the kernel left it, and points to the control buffer.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give whole headers or null.
        let head = unsafe { *header };
        // SAFETY: no pointers.
        let before = unsafe { libc::CMSG_LEN(0) } as usize;
        // SAFETY: the data of a message is as long as its header says, within the control buffer.
        let data = unsafe {
            std::slice::from_raw_parts(libc::CMSG_DATA(header), (head.cmsg_len as usize).saturating_sub(before))
        };
        each(head.cmsg_level, head.cmsg_type, data);
        // SAFETY: `header` is one of this message's.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(read_address(&address[..(message.msg_namelen as usize).min(address.len())]))
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn read_address(bytes: &[u8]) -> Option<SocketAddr> {
    let [a, b, high, low, ..] = *bytes else { return None };
    let port = u16::from_be_bytes([high, low]);
    let ip: IpAddr = match i32::from(u16::from_ne_bytes([a, b])) {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..8)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..24)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn address_of(to: SocketAddr) -> ([u8; 28], libc::socklen_t) {
    let mut bytes = [0; 28];
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&to.port().to_be_bytes());
    match to.ip() {
        IpAddr::V4(ip) => {
            bytes[4..8].copy_from_slice(&ip.octets());
            (bytes, 16)
        }
        IpAddr::V6(ip) => {
            bytes[8..24].copy_from_slice(&ip.octets());
            (bytes, 28)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_datagram_has_the_traffic_class_and_the_hop_limit_that_it_was_sent_with() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(there) = UdpSocket::bind(here) else { continue };
            let to = there.local_addr().unwrap();
            tell_more(&there.try_clone().unwrap().into(), to.is_ipv4()).unwrap();
            let socket = udp(to.is_ipv4()).unwrap();
            send(&socket, to, b"hello", 0xb9, 9).unwrap();
            let mut bytes = Vec::with_capacity(100);
            let arrived = loop {
                match receive(&there, &mut bytes) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                    other => break other.unwrap(),
                }
            };
            assert_eq!((arrived.traffic_class, arrived.hop_limit, bytes.as_slice()), (0xb9, 9, &b"hello"[..]));
        }
    }

    #[test]
    fn what_the_network_says_of_a_datagram_is_heard() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = udp(true).unwrap();
        send(&socket, nobody, b"hello", 0, 64).unwrap();
        let mut bytes = Vec::with_capacity(100);
        let lost = loop {
            match receive_error(&socket, &mut bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        let reporter = Some(nobody.ip());
        assert_eq!(lost, Lost { to: nobody, reporter, trouble: Some(Trouble::PortUnreachable), hop_limit: 64 });
        assert_eq!(bytes, b"hello");
    }

    #[test]
    fn an_error_that_is_cut_is_none() {
        assert_eq!(read_error(&[0; 15]), None);
        assert_eq!(read_address(&[2, 0, 1]), None);
        assert_eq!(read_address(&[2, 0, 1, 2, 3, 4]), None);
    }
}
