//! Connections by the thousand that say nothing, from a few addresses: what comes from others is served without waiting for them.

use crate::scene::{Folder, Running, inside};
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{LOOPBACK, Netlink};
use headstart_realtime::keys::SecretKey;
use headstart_realtime::relay::Client;
use headstart_realtime::{Config, Kind, Listener};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};

/// Connections that say nothing, and the addresses that they come from.
const SILENT: usize = 4000;
const SOURCES: usize = 8;
/// Places of a relay for those who have not said what they want.
const PLACES: usize = 512;

/// A connection from an address of the flood.
fn silent(n: usize, to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([198, 51, 100, (n % SOURCES) as u8 + 1], 0))).unwrap();
    // The kernel's line of those that are not accepted yet is longer than a loop of ours.
    connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Whether the relay has not closed it yet.
fn is_open(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
}

inside!(a_client_is_served_while_thousands_of_others_say_nothing, || {
    let mut netlink = Netlink::open().unwrap();
    netlink.up(LOOPBACK).unwrap();
    netlink.address(LOOPBACK, "192.0.2.1".parse().unwrap(), 32).unwrap();
    for n in 1..=SOURCES {
        netlink.address(LOOPBACK, format!("198.51.100.{n}").parse().unwrap(), 32).unwrap();
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let folder = Folder::new();
    let mut relay = Running::headstart(folder.serve("192.0.2.1:0", "192.0.2.1:*"));
    let at = relay.address(2);
    let (key, public) = (SecretKey::read(&folder.path("client")).unwrap(), folder.key("relay").1);
    let client = Client::new(&at, &key, public.parse().unwrap()).unwrap();
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
            if n % 500 == 499 {
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
        assert!(open > PLACES, "the client has waited for those that came before it: only {open} wait still");
    });
});
