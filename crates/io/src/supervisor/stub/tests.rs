//! Programs, the stub and a scripted server, in a network namespace of their own.

use super::*;
use crate::names::Names;
use crate::supervisor::token::{ATTEMPT, EXCHANGE, ROOM};
use crate::sys::netlink::{LOOPBACK, Netlink, VethEnd, Via};
use crate::sys::netns::NetNs;
use headstart_core::connect::{Settings, race};
use headstart_core::time::Duration;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const A: u8 = 1;
const AAAA: u8 = 28;
const TXT: u8 = 16;
const NO_QUESTION: &[u8] = b"no question at all";

/// What a server is asked, and what it says to it.
type Script = dyn Fn(&[u8]) -> Vec<Vec<u8>> + Send + Sync;

/// What happens on a host whose servers have been asked this; whether sockets are redirected in place.
type Story<'a> = dyn Fn(Half, &Mutex<Vec<Vec<u8>>>, bool) + Sync + 'a;

/// The supervisor's half of a story.
struct Half {
    engine: Engine,
    stub: Stub,
    folder: PathBuf,
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Half {
    fn new(in_place: bool) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("headstart-stub-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("resolv.conf"), "nameserver 127.0.0.1\nnameserver ::1\n").unwrap();
        std::fs::write(folder.join("hosts"), "192.0.2.77 known.example\n").unwrap();
        let engine = Engine::new(Settings::of(race::find("adaptive").unwrap()), Names::from_folder(&folder)).unwrap();
        let mut stub = Stub::new();
        if in_place {
            stub.ways = redirect::Ways::without_room();
        }
        Self { engine, stub, folder }
    }

    /// What becomes of `socket` when it turns to `to`: the socket that the program has then.
    fn redirect(&mut self, socket: UdpSocket, to: &str, call: Call) -> Option<UdpSocket> {
        let app: AppId = "test".into();
        self.engine.wake_up();
        match self.stub.redirect(&mut self.engine, (&app, 5), to.parse().unwrap(), socket.as_fd(), call)? {
            Redirected::Exchange(stand_in) => Some(stand_in.into()),
            Redirected::InPlace => Some(socket),
        }
    }

    /// Serves until `socket` has received something, or for a second if nothing is `expected`.
    fn receive(&mut self, socket: &UdpSocket, expected: bool) -> Option<(Vec<u8>, SocketAddr)> {
        socket.set_nonblocking(true).unwrap();
        let until = self.engine.clock.now() + Duration::from_secs(if expected { 30 } else { 1 });
        let mut buf = [0; 4096];
        let mut tokens = Vec::new();
        while self.engine.clock.now() < until {
            match socket.recv_from(&mut buf) {
                Ok((n, from)) => return Some((buf[..n].to_vec(), from)),
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            let soon = self.engine.clock.now() + Duration::from_millis(5);
            let deadline = self.engine.deadline().map_or(soon, |due| due.at.min(soon));
            self.engine.poll.wait(&self.engine.clock, Some(deadline), &mut tokens).unwrap();
            self.engine.wake_up();
            for token in tokens.clone() {
                match split(token) {
                    (EXCHANGE, n) => self.engine.exchange_event(n),
                    (ATTEMPT, n) => self.engine.attempt_event(n),
                    _ => self.stub.event(&mut self.engine, token),
                }
            }
            self.engine.timeout();
            while let Some((RequestId(id), told)) = self.engine.next_notice() {
                self.stub.tell(&mut self.engine, split(id).1, told);
            }
        }
        assert!(!expected, "nothing came");
        None
    }

    /// Asks and waits for the answer.
    fn ask(&mut self, socket: &UdpSocket, query: &[u8]) -> Vec<u8> {
        socket.send(query).unwrap();
        self.receive(socket, true).unwrap().0
    }
}

/// A query for `name` and type `qtype`, with these bits in its flags.
fn query(id: u8, name: &str, qtype: u8, bits: u8) -> Vec<u8> {
    let mut m = vec![0, id, 1, bits, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        m.push(label.len() as u8);
        m.extend(label.as_bytes());
    }
    m.extend([0, 0, qtype, 0, 1]);
    m
}

/// The type that is asked for.
fn qtype(query: &[u8]) -> u8 {
    let end = 12 + query[12..].iter().position(|b| *b == 0).unwrap();
    query[end + 2]
}

/// A reply to `query` with one record of `data` and a TTL of 60 s, or without any.
fn reply(query: &[u8], data: &[u8]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|b| *b == 0).unwrap() + 5;
    let mut m = query[..end].to_vec();
    m[2..4].copy_from_slice(&[0x81, 0x80]);
    m[6..12].copy_from_slice(&[0, u8::from(!data.is_empty()), 0, 0, 0, 0]);
    if !data.is_empty() {
        m.extend([0xc0, 12, 0, qtype(query), 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        m.extend(data);
    }
    m
}

fn address(query: &[u8]) -> Vec<u8> {
    let data =
        if qtype(query) == A { &[192, 0, 2, 9][..] } else { &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] };
    reply(query, data)
}

/// Routes for both families, by a router that is known and never used. To be called `here`.
fn give_a_way_out(here: &NetNs, there: &NetNs) {
    let mut netlink = Netlink::open().unwrap();
    let router = [2, 0, 0, 0, 0, 9];
    let one = VethEnd { name: "one", mac: [2, 0, 0, 0, 0, 1], ns: here };
    netlink.veth(one, VethEnd { name: "two", mac: router, ns: there }).unwrap();
    let up = || {
        let mut netlink = Netlink::open().unwrap();
        let two = netlink.index("two").unwrap();
        netlink.up(two).unwrap();
    };
    there.run(up).unwrap();
    let one = netlink.index("one").unwrap();
    netlink.up(one).unwrap();
    for (any, own, gateway) in [("0.0.0.0", "198.51.100.2", "198.51.100.1"), ("::", "2001:db8:1::2", "2001:db8:1::1")] {
        let [any, own, gateway]: [IpAddr; 3] = [any, own, gateway].map(|ip| ip.parse().unwrap());
        netlink.address(one, own, if own.is_ipv4() { 24 } else { 64 }).unwrap();
        netlink.neighbour(one, gateway, router).unwrap();
        netlink.route(any, 0, Via::Gateway(gateway, one)).unwrap();
    }
}

/// Runs `story` in a network namespace with servers on 127.0.0.1 and ::1 that do as `script` says, once by a room and once
/// in place. It is given what the servers have been asked.
fn with_servers(script: &Script, story: &Story<'_>) {
    for in_place in [false, true] {
        let Ok(ns) = NetNs::create() else { return println!("skipped: only root makes a network namespace here") };
        let there = NetNs::create().unwrap();
        ns.run(|| {
            Netlink::open().unwrap().up(LOOPBACK).unwrap();
            give_a_way_out(&ns, &there);
            let (asked, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
            std::thread::scope(|scope| {
                for server in ["127.0.0.1:53", "[::1]:53"] {
                    let socket = UdpSocket::bind(server).unwrap();
                    socket.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
                    let (asked, stop) = (&asked, &stop);
                    scope.spawn(move || {
                        let mut buf = [0; 4096];
                        while !stop.load(Ordering::Relaxed) {
                            let Ok((n, peer)) = socket.recv_from(&mut buf) else { continue };
                            asked.lock().unwrap().push(buf[..n].to_vec());
                            script(&buf[..n]).iter().for_each(|m| drop(socket.send_to(m, peer)));
                        }
                    });
                }
                // However the story ends, the servers must, or it would never be told.
                let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    story(Half::new(in_place), &asked, in_place)
                }));
                stop.store(true, Ordering::Relaxed);
                if let Err(panic) = told {
                    std::panic::resume_unwind(panic);
                }
            });
        })
        .unwrap();
    }
}

/// A program's socket as the C library or Go makes it, which both ways take.
fn resolver(local: &str) -> UdpSocket {
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_broadcast(true).unwrap();
    socket
}

#[test]
fn a_room_can_be_had_before_the_first_question() {
    let mut host = Half::new(false);
    assert!(!host.stub.ways.is_private());
    host.stub.furnish(&host.engine);
    // Told by the event loop when the child has made it.
    let mut tokens = Vec::new();
    while !tokens.contains(&ROOM) {
        host.engine.poll.wait(&host.engine.clock, None, &mut tokens).unwrap();
    }
    host.stub.attend(&host.engine, true);
    assert_eq!(host.stub.ways.is_private(), crate::sys::room::Room::new().is_ok());
    let servers = host.engine.names.servers().len();
    assert_eq!(host.stub.posts.len(), if host.stub.ways.is_private() { servers } else { 0 });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_question_is_answered_with_the_servers_words_and_then_from_memory() {
    with_servers(&|q| vec![address(q)], &|mut host, asked, in_place| {
        for (server, local) in
            [("127.0.0.1:53", "0.0.0.0:0"), ("[::1]:53", "[::]:0"), ("[::ffff:127.0.0.1]:53", "[::]:0")]
        {
            let socket = host.redirect(resolver(local), server, Call::Connect).unwrap();
            if !in_place {
                assert_eq!(socket.peer_addr().unwrap(), server.parse().unwrap(), "the program sees its server");
                let probe = UdpSocket::bind(local).unwrap();
                probe.connect(server).unwrap();
                assert_eq!(socket.local_addr().unwrap().ip(), probe.local_addr().unwrap().ip(), "and its own address");
            }
            for (id, kind) in [(1, A), (2, AAAA), (3, A)] {
                let asked = query(id, "wWw.example.org", kind, 0);
                assert_eq!(host.ask(&socket, &asked)[..], address(&asked)[..], "{server}");
            }
        }
        let mut kinds: Vec<_> = asked.lock().unwrap().iter().map(|q| qtype(q)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, [A, AAAA]);
        // Queries may have been repeated while this machine had other things to do.
        let tally = host.engine.connector.tally_of(5);
        assert_eq!(tally.asked, 9, "counted on the program's account");
        // The second family was asked for with the first. Where it is late, a connection of both families is begun beside it.
        assert!(tally.cache_hits >= 7 && (1..=4).contains(&tally.cache_misses), "{tally:?}");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_family_that_is_lost_does_not_hold_up_the_other() {
    for lost in [A, AAAA] {
        let script = move |q: &[u8]| if qtype(q) == lost { vec![] } else { vec![address(q)] };
        with_servers(&script, &|mut host, _, _| {
            // That the other family does is shown by a connection.
            let other: IpAddr = if lost == A { "2001:db8::9" } else { "192.0.2.9" }.parse().unwrap();
            let prefix = if other.is_ipv4() { 32 } else { 128 };
            Netlink::open().unwrap().address(LOOPBACK, other, prefix).unwrap();
            let _web = std::net::TcpListener::bind((other, 443)).unwrap();
            let socket = host.redirect(resolver("0.0.0.0:0"), "127.0.0.1:53", Call::Connect).unwrap();
            let questions = [query(1, "www.example.org", A, 0), query(2, "www.example.org", AAAA, 0)];
            questions.iter().for_each(|q| assert_eq!(socket.send(q).unwrap(), q.len()));
            let mut answers = [host.receive(&socket, true).unwrap().0, host.receive(&socket, true).unwrap().0];
            answers.sort();
            for (answer, asked) in answers.iter().zip(&questions) {
                let expected = if qtype(asked) == lost { reply(asked, &[]) } else { address(asked) };
                assert_eq!(answer, &expected);
            }
        });
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn whatever_is_not_for_us_goes_to_the_server_and_back_byte_for_byte() {
    let script = |q: &[u8]| {
        if q == NO_QUESTION {
            return vec![];
        }
        let mut forged = reply(q, b"\x04evil");
        forged[1] ^= 1;
        vec![b"garbage".to_vec(), forged, reply(q, b"\x05hello")]
    };
    with_servers(&script, &|mut host, asked, _| {
        let socket = host.redirect(resolver("0.0.0.0:0"), "127.0.0.1:53", Call::Connect).unwrap();
        let with_cookie = {
            let mut q = query(9, "www.example.org", A, 0);
            q[11] = 1;
            q.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
            q
        };
        let odd = [
            query(1, "www.example.org", TXT, 0),
            query(3, "www.example.org", A, 0x10),
            query(4, "known.example", A, 0),
            query(5, "printer", A, 0),
            query(6, "printer.local", AAAA, 0),
            with_cookie,
        ];
        for question in &odd {
            assert_eq!(host.ask(&socket, question), reply(question, b"\x05hello"));
        }
        assert_eq!(*asked.lock().unwrap(), odd);
        assert_eq!(host.engine.transport.ignored, 2 * odd.len() as u64);
        socket.send(NO_QUESTION).unwrap();
        host.receive(&socket, false);
        assert_eq!(asked.lock().unwrap().last().unwrap(), NO_QUESTION);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_that_sends_without_connecting_gets_its_answer_from_the_server_it_sent_to() {
    with_servers(&|q| vec![address(q)], &|mut host, _, in_place| {
        let bound = resolver("0.0.0.0:0");
        let port = bound.local_addr().unwrap().port();
        let Some(socket) = host.redirect(bound, "127.0.0.1:53", Call::Send) else {
            return assert!(in_place, "only by a room");
        };
        assert_eq!(socket.local_addr().unwrap().port(), port);
        let asked = query(7, "www.example.org", A, 0);
        socket.send_to(&asked, "127.0.0.1:53").unwrap();
        let (answer, from) = host.receive(&socket, true).unwrap();
        assert_eq!((answer, from), (address(&asked), "127.0.0.1:53".parse().unwrap()));
        let socket = host.redirect(socket, "127.0.0.1:53", Call::Send).unwrap();
        assert_eq!(socket.local_addr().unwrap().port(), port, "it leads here already");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_that_asks_every_server_at_once_from_one_socket_is_answered_by_the_one_that_is_there() {
    const SILENT: u8 = 1;
    with_servers(&|q| if q[1] == SILENT { vec![] } else { vec![reply(q, b"\x05hello")] }, &|mut host, _, _| {
        // As musl does: of both families, and without connecting.
        let Some(socket) = host.redirect(resolver("[::]:0"), "[::ffff:127.0.0.1]:53", Call::Send) else { return };
        socket.send_to(&query(SILENT, "www.example.org", TXT, 0), "[::ffff:127.0.0.1]:53").unwrap();
        let socket = host.redirect(socket, "[::1]:53", Call::Send).unwrap();
        let asked = query(2, "www.example.org", TXT, 0);
        socket.send_to(&asked, "[::1]:53").unwrap();
        let (answer, from) = host.receive(&socket, true).unwrap();
        assert_eq!((answer, from), (reply(&asked, b"\x05hello"), "[::1]:53".parse().unwrap()));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_that_sends_elsewhere_after_it_has_asked_gets_there() {
    with_servers(&|q| vec![address(q)], &|mut host, _, _| {
        let Some(socket) = host.redirect(resolver("0.0.0.0:0"), "127.0.0.1:53", Call::Send) else { return };
        let elsewhere = UdpSocket::bind("127.0.0.1:54").unwrap();
        elsewhere.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        let socket = host.redirect(socket, "127.0.0.1:54", Call::Send).unwrap();
        socket.send_to(b"out again", "127.0.0.1:54").unwrap();
        // Most often from the same port; a child that another test has just forked may hold it still.
        assert_eq!(elsewhere.recv(&mut [0; 16]).unwrap(), 9);
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_program_that_asks_servers_that_we_cannot_reach_too_keeps_its_socket() {
    with_servers(&|q| vec![address(q)], &|mut host, _, _| {
        std::fs::write(host.folder.join("resolv.conf"), "nameserver 127.0.0.1\nnameserver fe80::1%eth0\n").unwrap();
        assert!(host.redirect(resolver("[::]:0"), "[::ffff:127.0.0.1]:53", Call::Send).is_none());
        assert!(host.redirect(resolver("0.0.0.0:0"), "127.0.0.1:53", Call::Connect).is_some());
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn sockets_that_turn_elsewhere_or_are_special_are_left_alone() {
    with_servers(&|q| vec![address(q)], &|mut host, _, in_place| {
        for to in ["127.0.0.1:54", "127.0.0.2:53", "192.0.2.1:53"] {
            assert!(host.redirect(resolver("0.0.0.0:0"), to, Call::Connect).is_none(), "{to}");
        }
        let marked = resolver("0.0.0.0:0");
        assert!(crate::sys::socket_option::set(&marked, (1, 36), &crate::sys::socket_option::Value::of_int(7)));
        assert_eq!(host.redirect(marked, "127.0.0.1:53", Call::Connect).is_some(), in_place);
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (app, to) = ("test".into(), "127.0.0.1:53".parse().unwrap());
        assert!(host.stub.redirect(&mut host.engine, (&app, 0), to, tcp.as_fd(), Call::Connect).is_none());
        if in_place {
            let unknown = UdpSocket::bind("0.0.0.0:0").unwrap();
            assert!(host.redirect(unknown, "127.0.0.1:53", Call::Connect).is_none(), "it may check the sender");
        } else {
            let socket = host.redirect(resolver("0.0.0.0:0"), "127.0.0.1:53", Call::Connect).unwrap();
            let socket = host.redirect(socket, "127.0.0.1:54", Call::Connect).unwrap();
            let elsewhere = UdpSocket::bind("127.0.0.1:54").unwrap();
            socket.send(b"out again").unwrap();
            let mut buf = [0; 16];
            assert_eq!(elsewhere.recv(&mut buf).unwrap(), 9);
        }
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_flood_of_questions_leaves_bounded_traces_and_the_next_is_answered() {
    with_servers(&|q| if q[0] == 0 { vec![address(q)] } else { vec![] }, &|mut host, _, _| {
        let socket = host.redirect(resolver("0.0.0.0:0"), "127.0.0.1:53", Call::Connect).unwrap();
        for n in 0..3000u16 {
            let mut q = query(0, &format!("n{n}.example.org"), if n % 3 == 0 { TXT } else { A }, 0);
            q[..2].copy_from_slice(&(n | 0x100).to_be_bytes());
            // Lost if there is no room, as any may be.
            let _ = socket.send(&q);
            host.stub.read(&mut host.engine, 0);
        }
        assert!(host.stub.pending.len() <= MAX_PENDING);
        let asked = query(7, "www.example.org", A, 0);
        socket.send(&asked).unwrap();
        let answer = loop {
            let (answer, _) = host.receive(&socket, true).unwrap();
            if answer[..2] == asked[..2] {
                break answer;
            }
        };
        assert_eq!(answer, address(&asked));
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_server_that_is_not_there_has_failed() {
    with_servers(&|_| vec![], &|mut host, _, _| {
        std::fs::write(host.folder.join("resolv.conf"), "nameserver 127.0.0.9\n").unwrap();
        let socket = host.redirect(resolver("0.0.0.0:0"), "127.0.0.9:53", Call::Connect).unwrap();
        let asked = query(1, "www.example.org", A, 0);
        assert_eq!(host.ask(&socket, &asked)[3] & 0xf, 2, "SERVFAIL");
    });
}
