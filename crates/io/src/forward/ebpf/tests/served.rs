//! Servers: what they accept is theirs, over sockets of IPv6 that speak IPv4 too (RFC 4291, section 2.5.5.2).

use super::{Stage, datagrams, flows, play as line};
use headstart_core::forward::FlowEnd;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};

/// For `player`: a server of both families that is asked over IPv4, and one that answers a datagram so.
pub(super) fn play() {
    let listener = TcpListener::bind("[::]:0").unwrap();
    let mut near = TcpStream::connect(("127.0.0.1", listener.local_addr().unwrap().port())).unwrap();
    let (mut far, from) = listener.accept().unwrap();
    assert!(from.ip().to_canonical() == Ipv4Addr::LOCALHOST && from.is_ipv6());
    near.write_all(&[7; 1000]).unwrap();
    far.read_exact(&mut [0; 1000]).unwrap();
    far.write_all(&[7; 2000]).unwrap();
    near.read_exact(&mut [0; 2000]).unwrap();
    drop(near);
    assert_eq!(far.read(&mut [0]).unwrap(), 0);
    let (server, client) = (UdpSocket::bind("[::]:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    client.send_to(b"12345", ("127.0.0.1", server.local_addr().unwrap().port())).unwrap();
    let (_, from) = server.recv_from(&mut [0; 10]).unwrap();
    server.send_to(b"1234567", from).unwrap();
    client.recv_from(&mut [0; 10]).unwrap();
}

#[test]
fn what_a_server_of_both_families_accepts_over_ipv4_is_its_own_and_has_ends_of_ipv4() {
    let Some((stage, programs)) = Stage::new() else { return };
    let (seen, _, lost) = stage.run(programs, &line("served"));
    let mut told = flows(&seen);
    told.sort_by_key(|flow| flow.kernel_stats.as_ref().unwrap().accepted);
    let [asked, accepted] = told.as_slice() else { panic!("{seen:#?}") };
    assert_eq!((accepted.app, accepted.peer), (asked.peer, asked.app));
    assert_eq!([accepted.app.ip(), accepted.peer.ip()], [IpAddr::V4(Ipv4Addr::LOCALHOST); 2]);
    let sent = |of: &headstart_core::forward::Flow| (of.up.bytes, of.down.bytes, of.end);
    assert_eq!((sent(asked), sent(accepted)), ((1000, 2000, FlowEnd::Finished), (2000, 1000, FlowEnd::Finished)));
    assert!(asked.handshake.is_some() && accepted.handshake.is_none(), "who accepts has not waited: {seen:#?}");
    let mut packets: Vec<_> = datagrams(&seen).iter().map(|of| (of.up.bytes, of.down.bytes)).collect();
    packets.sort_unstable();
    assert_eq!((packets, lost), (vec![(5, 7), (7, 5)], 0), "{seen:#?}");
    assert!(datagrams(&seen).iter().all(|of| of.app.is_ipv4() && of.peer.is_ipv4()), "{seen:#?}");
    let first = seen[0].process.as_ref().unwrap().pid;
    assert!(first > 0 && seen.iter().all(|seen| seen.process.as_ref().is_some_and(|process| process.pid == first)));
}
