//! Connections of MPTCP (RFC 8684): each subflow is a connection, marked, with the same token, and belongs to the same program.

use super::{Stage, answers, flows, play as line};
use crate::clock::Clock;
use crate::forward::Attributed;
use headstart_core::forward::{Flow, FlowEnd};
use headstart_core::time::Duration;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// What the ends of a connection say.
const UP: usize = 5001;
const DOWN: usize = 7001;

fn socket() -> OwnedFd {
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP)).unwrap()
}

/// Connections that are established here.
fn established() -> usize {
    let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    text.lines().filter(|line| line.split_whitespace().nth(3) == Some("01")).count()
}

/// For `player`: a connection with itself at an address, once it has so many ends; or one to a port that is somebody else's.
pub(super) fn play(what: &str) {
    let words: Vec<&str> = what.split(' ').collect();
    let near = socket();
    if let ["mptcp", "to", port] = words[..] {
        connect(&near, &SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()))).unwrap();
        let mut near = TcpStream::from(near);
        near.write_all(&[7; 1000]).unwrap();
        return near.read_exact(&mut [0; 2000]).unwrap();
    }
    let ["mptcp", "at", at, ends] = words[..] else { panic!("{what}") };
    let listener = socket();
    bind(&listener, &SocketAddr::new(at.parse().unwrap(), 0)).unwrap();
    listen(&listener, 1).unwrap();
    let listener = TcpListener::from(listener);
    connect(&near, &listener.local_addr().unwrap()).unwrap();
    let (mut near, (mut far, _)) = (TcpStream::from(near), listener.accept().unwrap());
    near.write_all(&[7; UP]).unwrap();
    far.read_exact(&mut [0; UP]).unwrap();
    far.write_all(&[7; DOWN]).unwrap();
    near.read_exact(&mut [0; DOWN]).unwrap();
    let (clock, ends) = (Clock::new(), ends.parse::<usize>().unwrap());
    // A minute at most: this is for what never comes to be.
    assert!((0..6000).any(|_| established() >= ends || {
        clock.sleep(Duration::from_millis(10));
        false
    }));
    drop(near);
    assert_eq!(far.read(&mut [0]).unwrap(), 0);
}

/// Whether the kernel has MPTCP switched on; if not, a line that says so.
fn is_on(stage: &Stage) -> bool {
    let text = stage.namespace.run(|| std::fs::read_to_string("/proc/sys/net/mptcp/enabled")).unwrap();
    let is_on = text.is_ok_and(|text| text.trim() == "1");
    if !is_on {
        eprintln!("skipped: this kernel has no MPTCP");
    }
    is_on
}

fn is_accepted(flow: &Flow) -> bool {
    flow.kernel_stats.as_ref().unwrap().accepted
}

fn token(flow: &Flow) -> Option<u32> {
    flow.kernel_stats.as_ref().unwrap().mptcp
}

#[test]
fn a_connection_of_mptcp_with_one_subflow_is_a_marked_connection_with_its_owner_and_its_bytes() {
    let Some((stage, programs)) = Stage::new() else { return };
    if !is_on(&stage) {
        return;
    }
    let (seen, _, lost) = stage.run(programs, &line("mptcp at 127.0.0.1 2"));
    let told = flows(&seen);
    let mut ends: Vec<_> =
        told.iter().map(|flow| (is_accepted(flow), flow.up.bytes, flow.down.bytes, flow.end)).collect();
    ends.sort_unstable_by_key(|end| end.0);
    let [up, down] = [UP as u64, DOWN as u64];
    assert_eq!((ends, lost), (vec![(false, up, down, FlowEnd::Finished), (true, down, up, FlowEnd::Finished)], 0));
    assert!(seen.iter().all(|seen| seen.process.is_some()), "{seen:#?}");
    // Each end has a token of its own.
    assert!(told.iter().all(|flow| token(flow).is_some()) && token(told[0]) != token(told[1]), "{told:#?}");
}

#[test]
fn a_subflow_that_the_kernel_adds_has_the_token_and_the_owner_of_the_first() {
    let Some((stage, programs)) = Stage::new() else { return };
    if !is_on(&stage) {
        return;
    }
    let has_ip = |path: &str| std::path::Path::new(path).exists();
    if !["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"].into_iter().any(has_ip) {
        return eprintln!("skipped: ip is not installed (Debian package: iproute2)");
    }
    let script = format!(
        "export PATH=$PATH:/usr/sbin:/sbin; set -e; \
         ip addr add 192.0.2.1/24 dev lo; ip addr add 192.0.2.2/24 dev lo; \
         ip mptcp limits set subflow 2 add_addr_accepted 2; ip mptcp endpoint add 192.0.2.2 dev lo subflow; {}",
        line("mptcp at 192.0.2.1 4")
    );
    let (seen, _, lost) = stage.run(programs, &script);
    // Both ends try to add one; what comes to nothing is no subflow.
    let mut by_token = BTreeMap::<u32, Vec<&Attributed>>::new();
    for one in &seen {
        flows(std::slice::from_ref(one)).into_iter().filter_map(token).for_each(|token| {
            by_token.entry(token).or_default().push(one);
        });
    }
    assert_eq!((by_token.len(), lost), (2, 0), "each end has a token of its own: {seen:#?}");
    let owner = |seen: &Attributed| seen.process.as_ref().map(|process| (process.pid, process.name.clone()));
    let first = owner(&seen[0]).unwrap();
    for subflows in by_token.values() {
        assert!(subflows.len() >= 2 && subflows.iter().all(|seen| owner(seen).as_ref() == Some(&first)), "{seen:#?}");
    }
    let locals: BTreeSet<_> = flows(&seen).iter().map(|flow| flow.app.ip().to_string()).collect();
    assert!(["192.0.2.1", "192.0.2.2"].iter().all(|ip| locals.contains(*ip)), "{locals:?}");
}

#[test]
fn a_socket_of_mptcp_whose_peer_speaks_only_tcp_has_a_plain_connection() {
    let Some((stage, programs)) = Stage::new() else { return };
    if !is_on(&stage) {
        return;
    }
    let to = stage.listen("127.0.0.1:0", answers);
    let (seen, ..) = stage.run(programs, &line(&format!("mptcp to {}", to.port())));
    let told = flows(&seen);
    assert_eq!(told.iter().map(|flow| (flow.up.bytes, token(flow))).collect::<Vec<_>>(), [(1000, None)], "{told:#?}");
    assert!(seen[0].process.is_some());
}
