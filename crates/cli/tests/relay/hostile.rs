//! Connections by the thousand that say nothing, or begin sessions without end, from a few addresses: what comes from others is served
//! without waiting for them.

mod beside;
mod peers;
mod room;

use crate::attack::{Attack, raise_files};
use crate::scene::{Folder, Running, inside};
use headstart_core::realtime::frame::Frame;
use headstart_core::realtime::{Hello, SessionId};
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{LOOPBACK, Netlink};
use headstart_realtime::keys::SecretKey;
use headstart_realtime::relay::Client;
use headstart_realtime::{Config, Kind, Listener, Session};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

/// Connections that say nothing, and the addresses that they come from.
const SILENT: usize = 4000;
const SOURCES: usize = 8;
/// Places of a relay for those who have not said what they want.
const PLACES: usize = 512;

/// A connection from an address of the flood.
fn silent(n: usize, to: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::from(([198, 51, 100, (n % SOURCES) as u8 + 1], 0))).unwrap();
    // The kernel's line of those that are not accepted yet is longer than a loop of ours.
    // One that is sent away at once may be told so as early as here.
    assert!(matches!(connect(&socket, &to), Ok(()) | Err(Errno::CONNRESET)));
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    stream
}

/// The same without waiting until it is there; none where there is no descriptor or port for it.
fn begin_silent(source: usize, to: SocketAddr) -> Option<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).ok()?;
    bind(&socket, &SocketAddr::from(([198, 51, 100, source as u8 + 1], 0))).ok()?;
    matches!(connect(&socket, &to), Ok(()) | Err(Errno::INPROGRESS)).then_some(socket)
}

/// Whether the relay has not closed it yet.
fn is_open(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
}

/// Addresses of the flood, and one that serves.
fn network() {
    let mut netlink = Netlink::open().unwrap();
    netlink.up(LOOPBACK).unwrap();
    netlink.address(LOOPBACK, "192.0.2.1".parse().unwrap(), 32).unwrap();
    for n in 1..=SOURCES {
        netlink.address(LOOPBACK, format!("198.51.100.{n}").parse().unwrap(), 32).unwrap();
    }
    raise_files();
}

/// A relay to that address, where it listens, and a client of it.
fn served(folder: &Folder) -> (Running, String, Client) {
    let mut relay = Running::headstart(folder.serve("192.0.2.1:0", "192.0.2.1:*"));
    let at = relay.address(2);
    let (key, public) = (SecretKey::read(&folder.path("client")).unwrap(), folder.key("relay").1);
    let client = Client::new(&at, &key, public.parse().unwrap()).unwrap();
    (relay, at, client)
}

inside!(a_client_is_served_while_thousands_of_others_say_nothing, || {
    network();
    let folder = Folder::new();
    let (_relay, at, client) = served(&folder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    runtime.block_on(async {
        let door = Listener::bind("192.0.2.1:0").await.unwrap();
        let to = door.address().unwrap().to_string();
        let asked = async || {
            let began = clock.now();
            let config = Config { technique: "plain".into(), interval: None, ..Config::default() };
            let near = client.session(to.parse().unwrap(), config).await.unwrap();
            near.lane(0, Kind::Event).send(b"hello").await.unwrap();
            assert_eq!(door.accept().await.unwrap().receive().await.unwrap().bytes, b"hello");
            clock.now().since(began).as_secs_f64() * 1e3
        };
        let quiet = asked().await;
        let to: SocketAddr = at.parse().unwrap();
        let (began, mut flood): (Instant, Vec<TcpStream>) = (clock.now(), Vec::with_capacity(SILENT));
        let (mut slowest, mut open) = (0.0f64, 0);
        for n in 0..SILENT {
            flood.push(silent(n, to));
            if n % 100 == 99 {
                slowest = slowest.max(asked().await);
                open = open.max(flood.iter().filter(|stream| is_open(stream)).count());
            }
        }
        let took = clock.now().since(began);
        println!(
            "quiet {quiet:.1} ms; among {SILENT} silent connections in {:.1} s the slowest {slowest:.1} ms; {open} still waited",
            took.as_secs_f64()
        );
        // Where all wait in one line, a client's turn comes when all before it but those with places have been sent away. A slow flood has
        // lost some by its end, so that the most counts.
        let sent_away = (SILENT - open.min(SILENT)) as f64;
        let row = Attack { attack: "4,000 silent connections from 8 addresses", listener: "relay serve" };
        row.at_most("connections sent away before a client of another address is served", (SILENT - PLACES) as f64, sent_away);
    });
});

/// Sessions of the flood: each has said its first frame, and none is accepted.
const SESSIONS: usize = 3000;

/// Begins a session and says no more.
fn begins_a_session(n: usize, to: SocketAddr) -> TcpStream {
    let mut stream = silent(n, to);
    let session = SessionId((n as u128 + 1).to_be_bytes());
    let mut bytes = Vec::new();
    Frame::Hello(Hello { session, connection: 0, interval_micros: 0, technique: "plain", goes_on: false })
        .encode(&mut bytes);
    let _ = stream.write_all(&bytes);
    stream
}

inside!(a_session_is_accepted_while_thousands_of_others_are_not, || {
    network();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let door = Listener::bind("192.0.2.1:0").await.unwrap();
        let to = door.address().unwrap();
        let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = files();
        // The far ends are this process's too.
        let (flood, half_open) = tokio::task::block_in_place(|| {
            let flood: Vec<TcpStream> = (0..SESSIONS).map(|n| begins_a_session(n, to)).collect();
            (flood, (0..1000).map(|n| silent(n, to)).collect::<Vec<TcpStream>>())
        });
        let config = Config { technique: "plain".into(), interval: None, ..Config::default() };
        // Over the address of the listener: one that no session of the flood has.
        let dial = move || async move {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind("192.0.2.1:0".parse().unwrap())?;
            socket.connect(to).await
        };
        let near = Session::connect_over(dial, config).await.unwrap();
        near.greeted().await.expect("it is let in");
        near.lane(0, Kind::Event).send(b"ours").await.unwrap();
        let held = files() - before - flood.len() - half_open.len();
        let row =
            Attack { attack: "3,000 sessions that are not accepted, 1,000 half open", listener: "realtime listener" };
        row.at_most("descriptors", 512.0 + 9.0 * 256.0 + 16.0, held as f64);
        // All that wait are accepted; the one that has something to say is ours.
        let (told, mut ours) = tokio::sync::mpsc::channel(1);
        let mut accepted = 0;
        let first: usize = loop {
            tokio::select! {
                first = ours.recv() => break first.unwrap(),
                session = door.accept() => {
                    let (session, told, nth) = (session.unwrap(), told.clone(), accepted);
                    accepted += 1;
                    tokio::spawn(async move {
                        if session.receive().await.is_some_and(|message| message.bytes == b"ours") {
                            told.send(nth).await.unwrap();
                        }
                    });
                }
            }
        };
        row.at_most(
            "sessions of others that are accepted before one from another address",
            SOURCES as f64,
            first as f64,
        );
        drop(flood);
    });
});
