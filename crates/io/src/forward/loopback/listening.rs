//! What listens in a network namespace (proc_net(5)), and sockets that listen likewise.

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// States of sockets in /proc/net (net/tcp_states.h): one that listens, and one of UDP that is connected to no peer.
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";
/// The port of DNS.
const DNS: u16 = 53;
/// Connections that may wait to be accepted: what the kernel makes of it is `somaxconn`, 4096 where nothing else is set.
const BACKLOG: i32 = 4096;

/// What a service talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::forward) enum ServiceKind {
    /// TCP.
    Streams,
    /// UDP.
    Datagrams,
}

/// Something that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::forward) struct Service {
    /// What it talks.
    pub kind: ServiceKind,
    /// Where it listens.
    pub at: SocketAddr,
}

/// What listens in the namespace of the calling thread, as far as it is offered elsewhere.
pub(in crate::forward) fn services() -> io::Result<Vec<Service>> {
    let mut all = Vec::new();
    for (file, kind) in [
        ("tcp", ServiceKind::Streams),
        ("tcp6", ServiceKind::Streams),
        ("udp", ServiceKind::Datagrams),
        ("udp6", ServiceKind::Datagrams),
    ] {
        // A kernel without IPv6 has no file of it.
        let text = match fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        text.lines().for_each(|line| all.extend(read(line, kind).into_iter().flatten()));
    }
    Ok(all)
}

/// The ports on which sockets of UDP receive in the namespace of the calling thread, those that have a peer too.
pub(in crate::forward) fn ports_of_datagrams() -> io::Result<BTreeSet<SocketAddr>> {
    let mut all = BTreeSet::new();
    for file in ["udp", "udp6"] {
        let text = match fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        all.extend(text.lines().filter_map(|line| address(line.split_whitespace().nth(1)?)));
    }
    Ok(all)
}

/// The services of a line.
fn read(line: &str, kind: ServiceKind) -> Option<Vec<Service>> {
    let mut words = line.split_whitespace().skip(1);
    let (at, state) = (address(words.next()?)?, words.nth(1)?);
    let is_one = match kind {
        ServiceKind::Streams => state == LISTENS,
        ServiceKind::Datagrams => state == UNCONNECTED,
    };
    is_one.then(|| seen_as(at, kind)).filter(|all| !all.is_empty())
}

/// What a socket that listens there is taken for: one that listens on every address of IPv6 is there for IPv4 too, unless it says
/// otherwise, which is not told.
pub(in crate::forward) fn seen_as(at: SocketAddr, kind: ServiceKind) -> Vec<Service> {
    let ips = match kind {
        ServiceKind::Streams => {
            let v4 = (at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)).then_some(Ipv4Addr::UNSPECIFIED);
            std::iter::once(at.ip()).chain(v4.map(IpAddr::V4)).collect()
        }
        ServiceKind::Datagrams if at.ip().is_loopback() => vec![at.ip()],
        // A resolver that listens everywhere is asked at loopback; other ports are most often those of clients.
        ServiceKind::Datagrams if at.ip().is_unspecified() && at.port() == DNS => {
            let mut ips = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
            ips.extend(at.is_ipv6().then_some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
            ips
        }
        ServiceKind::Datagrams => Vec::new(),
    };
    ips.into_iter().map(|ip| Service { kind, at: SocketAddr::new(ip, at.port()) }).collect()
}

/// An address as /proc/net has it: words of the host's byte order in hexadecimal digits, and the port. What is mapped is IPv4.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    if ip.len() % 8 != 0 {
        return None;
    }
    let words = ip.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        16 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
        _ => return None,
    };
    (port != 0).then(|| SocketAddr::new(ip.to_canonical(), port))
}

/// A socket that listens in the namespace of the calling thread; one of IPv6 listens for IPv4 too if it is to.
pub(in crate::forward) fn listen(at: SocketAddr, takes_mapped: bool) -> io::Result<OwnedFd> {
    let socket = socket(at, SocketType::STREAM, ipproto::TCP)?;
    if at.is_ipv6() && takes_mapped {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket for datagrams in the namespace of the calling thread.
pub(super) fn bind(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(at, SocketType::DGRAM, ipproto::UDP)?;
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}

fn socket(at: SocketAddr, kind: SocketType, protocol: rustix::net::Protocol) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(protocol))?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn who_listens_is_seen_and_who_only_asks_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (service, asker) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("0.0.0.0:0").unwrap());
        let all = services().unwrap();
        let has = |kind, at: SocketAddr| all.contains(&Service { kind, at });
        assert!(has(ServiceKind::Streams, listener.local_addr().unwrap()), "{all:?}");
        assert!(has(ServiceKind::Datagrams, service.local_addr().unwrap()), "{all:?}");
        assert!(
            !all.iter()
                .any(|one| one.kind == ServiceKind::Datagrams && one.at.port() == asker.local_addr().unwrap().port())
        );
    }

    #[test]
    fn every_port_that_receives_is_told_with_a_peer_or_without() {
        let [one, other] = ["127.0.0.1:0", "[::1]:0"].map(|at| UdpSocket::bind(at).unwrap());
        other.connect(other.local_addr().unwrap()).unwrap();
        let all = ports_of_datagrams().unwrap();
        assert!([&one, &other].iter().all(|socket| all.contains(&socket.local_addr().unwrap())), "{all:?}");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_the_kernel_are_read_and_others_are_none() {
        let at =
            |line: &str, kind| read(line, kind).map(|all| all.iter().map(|one| one.at.to_string()).collect::<Vec<_>>());
        let v4 = " 0: 3500007F:0035 00000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(at(v4, ServiceKind::Streams), Some(vec!["127.0.0.53:53".to_owned()]));
        let v6 = " 1: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0";
        assert_eq!(at(v6, ServiceKind::Streams), Some(vec!["[::]:22".to_owned(), "0.0.0.0:22".to_owned()]));
        let mapped = " 2: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 0:0";
        assert_eq!(at(mapped, ServiceKind::Streams), Some(vec!["127.0.0.1:8080".to_owned()]));
        let everywhere = " 3: 00000000:0035 00000000:0000 07 0:0";
        assert_eq!(at(everywhere, ServiceKind::Datagrams), Some(vec!["127.0.0.1:53".to_owned()]));
        let open = " 4: 0100007F:1F90 0100007F:C000 01 0:0";
        assert_eq!(at(open, ServiceKind::Streams), None);
        let client = " 6: 00000000:1F90 00000000:0000 07 0:0";
        assert_eq!(at(client, ServiceKind::Datagrams), None);
        for line in
            ["", "sl local_address", " 5: 0100007F:0000 0:0 0A", " 6: 01:1F90 0:0 0A", " 7: zz00007F:1F90 0:0 0A"]
        {
            assert_eq!(at(line, ServiceKind::Streams), None, "{line}");
        }
    }
}
