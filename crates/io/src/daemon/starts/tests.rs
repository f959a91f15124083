//! Connections over loopback in namespaces of the tests' own, whose path is known, known otherwise, or not known.
//!
//! Where the kernel does not let us, tests skip and say so.

use super::*;
use crate::clock::Clock;
use crate::sys::netlink::{LOOPBACK, Netlink};
use crate::sys::netns::NetNs;
use crate::sys::socket_option::deafen;
use crate::sys::tcp_info::{TcpInfo, tcp_info};
use headstart_core::time::Duration;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};

const BOUNDS: Bounds = Bounds { most: 32, share: 0.5, oldest: Duration::from_secs(3600), peers: 8 };
/// A round trip that loopback never exceeds tenfold and always is below.
const SLOW: Duration = Duration::from_secs(1);

/// A namespace with loopback, and the program.
fn stage() -> Option<(NetNs, Starts)> {
    let namespace = NetNs::create().unwrap();
    namespace.run(|| Netlink::open().unwrap().up(LOOPBACK).unwrap()).unwrap();
    match namespace.run(|| Starts::attach(BOUNDS)).unwrap() {
        Ok(starts) => Some((namespace, starts)),
        Err(e) if e.is_not_permitted() => {
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn path(to: &str, bits: u8, window: u32) -> Path {
    Path { to: to.parse().unwrap(), bits, source: None, window, rtt: SLOW, timeout: None }
}

/// Windows so large that even over the round trip of loopback the bound decides.
const WIDE: u32 = u32::MAX;

/// Both ends of a connection, as they begin.
fn ends(namespace: &NetNs, to: &str) -> (TcpStream, TcpStream) {
    let to: IpAddr = to.parse().unwrap();
    let connect = || {
        let listener = TcpListener::bind((to, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    };
    namespace.run(connect).unwrap()
}

/// What the nearer end begins with.
fn begins(namespace: &NetNs, to: &str) -> TcpInfo {
    tcp_info(&ends(namespace, to).0).unwrap()
}

#[test]
fn what_is_known_of_a_host_or_its_prefix_is_given_and_to_others_nothing() {
    let Some((namespace, mut starts)) = stage() else { return };
    let windows = |all: &[&str]| all.iter().map(|to| begins(&namespace, to).snd_cwnd).collect::<Vec<_>>();
    assert_eq!(windows(&["127.0.0.2", "::1"]), [10, 10], "nothing is known");
    starts.tell(&[path("127.0.0.2", 32, WIDE), path("127.0.1.0", 24, WIDE), path("::1", 128, WIDE)]).unwrap();
    assert_eq!(windows(&["127.0.0.2", "127.0.1.77", "::1", "127.0.0.3"]), [32, 32, 32, 10]);
    // Four: over ::1 the peer of both ends is the host that is known.
    assert_eq!((starts.peers(), starts.tally().unwrap().given), (2, 4));
    // The local end of these accepts: its peer is the host that is known.
    let (near, far) = namespace
        .run(|| {
            let listener = TcpListener::bind("127.0.0.3:0").unwrap();
            let to = listener.local_addr().unwrap();
            let from = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            rustix::net::bind(&from, &"127.0.0.2:0".parse::<SocketAddr>().unwrap()).unwrap();
            connect(&from, &to).unwrap();
            (listener.accept().unwrap().0, from)
        })
        .unwrap();
    assert_eq!(tcp_info(&near).unwrap().snd_cwnd, 32, "servers too");
    assert_eq!(tcp_info(&far).unwrap().snd_cwnd, 10);
    let elsewhere = NetNs::create().unwrap();
    elsewhere.run(|| Netlink::open().unwrap().up(LOOPBACK).unwrap()).unwrap();
    assert_eq!(begins(&elsewhere, "127.0.0.2").snd_cwnd, 10, "another network namespace");
    starts.tell(&[path("::1", 128, WIDE)]).unwrap();
    assert_eq!(windows(&["127.0.0.2", "127.0.1.77", "::1"]), [10, 10, 32], "what is known no more");
    drop(starts);
    assert_eq!(windows(&["::1"]), [10]);
}

#[test]
fn it_is_no_faster_than_what_was_seen_and_not_given_where_the_path_is_another() {
    let Some((namespace, mut starts)) = stage() else { return };
    let mut with = |path: Path| {
        starts.tell(&[path]).unwrap();
        begins(&namespace, "127.0.0.2")
    };
    // A tenth of a million segments in a second are as many in as many microseconds of a handshake by ten.
    let seen = with(path("127.0.0.2", 32, 100_000));
    let micros = u32::try_from(seen.rtt.as_micros()).unwrap();
    assert_eq!(seen.snd_cwnd, (micros / 10).clamp(10, 32), "{seen:?}");
    // A window of one segment in a microsecond over 1 us: loopback takes more than ten.
    let elsewhere = Path { rtt: Duration::from_micros(1), ..path("127.0.0.2", 32, WIDE) };
    let took = with(elsewhere);
    assert!(took.rtt < Duration::from_micros(20) || took.snd_cwnd == 10, "{took:?}");
    let source = |ip: &str| Path { source: Some(ip.parse().unwrap()), ..path("127.0.0.2", 32, WIDE) };
    assert_eq!(with(source("127.0.0.9")).snd_cwnd, 10, "it was learned from another address");
    let from = ends(&namespace, "127.0.0.2").0.local_addr().unwrap().ip();
    starts.tell(&[source(&from.to_string())]).unwrap();
    assert_eq!(begins(&namespace, "127.0.0.2").snd_cwnd, 32);
}

#[test]
fn a_first_flight_that_is_lost_halves_what_its_prefix_is_given() {
    let Some((namespace, mut starts)) = stage() else { return };
    // Halved once it is still more than the bound; halved until nothing is left it is the kernel's own.
    starts.tell(&[path("127.0.2.2", 32, WIDE), path("127.0.2.0", 24, WIDE), path("127.0.3.3", 32, WIDE)]).unwrap();
    let mut lost = 0;
    loop {
        let (mut near, far) = ends(&namespace, "127.0.2.2");
        if tcp_info(&near).unwrap().snd_cwnd == 10 {
            break;
        }
        assert!(deafen(&far));
        near.write_all(&[7; 50_000]).unwrap();
        lost += 1;
        let clock = Clock::new();
        while starts.tally().unwrap().lost < lost {
            assert!(lost < 40);
            clock.sleep(Duration::from_millis(20));
        }
    }
    // 2^32 segments a second are 2^32 / 10^6 in each microsecond of the handshake: between the bound and ten lie but few halvings.
    assert!(lost > 5, "{lost}");
    // What is left depends on each handshake's round trip; unhalved it is always the bound.
    let neighbour = || begins(&namespace, "127.0.2.99").snd_cwnd;
    assert!((0..100).any(|_| neighbour() == 10), "a neighbour of the same prefix");
    assert_eq!(begins(&namespace, "127.0.3.3").snd_cwnd, 32, "another prefix");
    assert_eq!(starts.tally().unwrap().lost, lost);
}

#[test]
fn a_lost_syn_is_sent_again_when_the_known_round_trip_says_so() {
    let Some((namespace, mut starts)) = stage() else { return };
    let timeout = |to: &str| {
        namespace
            .run(|| {
                let listener = TcpListener::bind((to.parse::<IpAddr>().unwrap(), 0)).unwrap();
                assert!(deafen(&listener));
                let near = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
                let _ = connect(&near, &listener.local_addr().unwrap());
                tcp_info(&near).unwrap().rto
            })
            .unwrap()
    };
    starts.tell(&[Path { timeout: Some(Duration::from_millis(240)), ..path("127.0.0.2", 32, 0) }]).unwrap();
    assert_eq!([timeout("127.0.0.2"), timeout("127.0.0.3")], [240, 1000].map(Duration::from_millis));
    assert_eq!(starts.tally().unwrap(), message::Starts { given: 0, lost: 0, syns: 1 });
}
