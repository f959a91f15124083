//! Clients of the small servers of a host (`ui`, `metrics`, `measure serve`) that say nothing, ask without end, take nothing of what they
//! have asked for, or want every place.

use crate::attack::{Attack, raise_files};
use crate::lab::{Scratch, ended, inside, supervisors, until};
use crate::one_supervisor::end;
use crate::processes::ask_to_end;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{LOOPBACK, Netlink};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;

/// Connections that say nothing. A server has 64 places for those, and lets eight times as many wait.
const SILENT: usize = 1000;
const MOST_SILENT: f64 = 64.0 * 9.0 + 32.0;
/// Clients that ask at a time, and for how long.
const ASKERS: usize = 8;
const ASKING: Duration = Duration::from_secs(3);
/// What a look costs the supervisor, in turns of its threads, and how often one is due in a second: see `metrics::FRESH`.
const TURNS: f64 = 10.0;
const LOOKS: f64 = 4.0;
/// Connections that are served at a time.
const PLACES: usize = 64;

/// A server of one test, and what it said first.
struct Serving {
    child: Child,
    said: String,
    address: SocketAddr,
}

impl Serving {
    fn start(scratch: &Scratch, words: &[&str]) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = scratch.headstart(words);
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let child = command.spawn().unwrap();
        drop(command);
        let mut said = String::new();
        BufReader::new(reader).read_line(&mut said).unwrap();
        let address = said.split_whitespace().last().unwrap().trim_start_matches("http://");
        let address = address.split('/').next().unwrap().parse().unwrap_or_else(|e| panic!("{e}: {said}"));
        Self { child, said, address }
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The status of the answer to a GET with this Host and these header lines.
    fn get(&self, path: &str, host: &str, lines: &str) -> Option<u16> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}\r\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        line.split(' ').nth(1)?.parse().ok()
    }

    /// The status that one who has done nothing wrong is told.
    fn asked(&self, path: &str) -> Option<u16> {
        self.get(path, &self.address.to_string(), "")
    }

    fn end(mut self) {
        ask_to_end(self.child.id());
        until("it ends", || self.child.try_wait().unwrap().is_some());
    }
}

/// Loopback, and a home.
fn scene() -> Scratch {
    Netlink::open().unwrap().up(LOOPBACK).unwrap();
    raise_files();
    Scratch::new()
}

/// A connection from this address of loopback.
fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    // One that is sent away at once may be told so as early as here.
    let _ = connect(&socket, &to);
    socket.into()
}

/// Thousands of connections say nothing; a row, and one that asks is served beside them.
fn is_served_beside_silent_ones(listener: &'static str, server: &Serving, path: &str) {
    let silent: Vec<TcpStream> = (0..SILENT).map(|_| from([127, 0, 0, 1], server.address)).collect();
    let most = server.descriptors();
    until("it is served", || server.asked(path) == Some(200));
    let most = most.max(server.descriptors());
    drop(silent);
    Attack { attack: "1,000 silent connections", listener }.at_most("descriptors", MOST_SILENT, most as f64);
}

inside!(scrapes_by_the_thousand_ask_the_supervisor_four_times_a_second, || {
    let scratch = scene();
    let mut run = scratch.headstart(["run", "--", "true"]);
    run.env_remove("HEADSTART").env("HEADSTART_LINGER", "3600");
    assert_eq!(ended(run.spawn().unwrap()).code, Some(0));
    let supervisor = supervisors()[0];
    let server = Serving::start(&scratch, &["metrics", "--listen", "127.0.0.1:0"]);
    assert_eq!(server.asked("/metrics"), Some(200));
    let turns = || {
        let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let of = |status: String| {
            let told = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            told.and_then(|told| told.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        fs::read_dir(format!("/proc/{supervisor}/task"))
            .unwrap()
            .flatten()
            .map(|thread| of(status(thread)))
            .sum::<u64>()
    };
    let (clock, before) = (Clock::new(), turns());
    let scrapes: usize = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..ASKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut served = 0;
                    while clock.now().since(Instant::ZERO) < ASKING {
                        served += usize::from(server.asked("/metrics") == Some(200));
                    }
                    served
                })
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).sum()
    });
    let (lasted, turns) = (clock.now().since(Instant::ZERO).as_secs_f64(), turns() - before);
    println!("{scrapes} scrapes in {lasted:.1} s");
    assert!(scrapes > 100, "{scrapes}: the flood is none");
    let row = Attack { attack: "scrapes without end by 8 clients", listener: "metrics --listen" };
    row.at_most("turns of the supervisor", TURNS * (LOOKS * lasted + 1.0), turns as f64);
    is_served_beside_silent_ones("metrics --listen", &server, "/metrics");
    server.end();
    end(supervisor);
});

inside!(a_page_is_served_beside_clients_that_say_nothing_or_have_no_token, || {
    let scratch = scene();
    let server = Serving::start(&scratch, &["ui", "--no-browser"]);
    is_served_beside_silent_ones("ui", &server, "/");
    let own = server.address.to_string();
    let token = server.said.trim().split_once('#').unwrap().1.to_owned();
    let bearer = format!("authorization: Bearer {token}\r\n");
    assert_eq!(server.get("/api/results", &own, &bearer), Some(200));
    let port = server.address.port();
    let rebound = [format!("evil.example:{port}"), format!("192.0.2.1:{port}"), "localhost.evil.example".into()];
    let mut told = 0;
    for path in ["/api/events", "/api/explain?host=a", "/api/history?from=0&to=1", "/api/results", "/api/result?id=0/"]
    {
        told += rebound.iter().filter(|host| server.get(path, host, &bearer) == Some(200)).count();
        told += ["", "authorization: Bearer wrong\r\n"]
            .iter()
            .filter(|line| server.get(path, &own, line) == Some(200))
            .count();
    }
    let row = Attack { attack: "requests by another Host, and without a token", listener: "ui" };
    row.at_most("requests for data that are served, of 25", 0.0, told as f64);
    server.end();
});

inside!(who_takes_nothing_of_a_page_is_left, || {
    let scratch = scene();
    let server = Serving::start(&scratch, &["ui", "--no-browser"]);
    // As much as fills every buffer on the way.
    let request = format!("GET /uplot.js HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).repeat(400);
    assert_eq!(server.asked("/"), Some(200));
    let before = server.descriptors();
    let deaf: Vec<TcpStream> = (0..PLACES)
        .map(|_| {
            let mut stream = from([127, 0, 0, 1], server.address);
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(request.as_bytes());
            stream
        })
        .collect();
    until("they have asked", || server.descriptors() >= before + PLACES / 2);
    let kept = || server.descriptors().saturating_sub(before);
    let clock = Clock::new();
    // Ten seconds; here as long as the slowest machine may take.
    while kept() > 0 && clock.now() < Instant::from_millis(60_000) {
        clock.sleep(Duration::from_millis(50));
    }
    let row = Attack { attack: "64 clients that take nothing of a page", listener: "ui" };
    row.at_most("connections that are never ended", 0.0, kept() as f64);
    drop(deaf);
    until("others are served", || server.asked("/") == Some(200));
    server.end();
});

inside!(one_address_does_not_keep_every_place_of_a_measurement, || {
    let scratch = scene();
    let server = Serving::start(&scratch, &["measure", "serve", "--listen", "127.0.0.1:0"]);
    let asks = |stream: &mut TcpStream| {
        let _ = stream.write_all(b"HSMEAS1p");
    };
    let mut taken: Vec<TcpStream> = (0..2 * PLACES).map(|_| from([127, 0, 1, 1], server.address)).collect();
    taken.iter_mut().for_each(asks);
    until("they have their places", || server.descriptors() >= PLACES);
    let to = server.address.to_string();
    // As many connections at once as a client may open, and one that was open before.
    let words = ["measure", "network", &to, "--seconds", "0.2", "--flows", "32", "--json"];
    let measured = ended(scratch.headstart(words).spawn().unwrap());
    println!("{measured:?}");
    let row = Attack { attack: "every place taken by one address", listener: "measure serve" };
    row.at_most("measurements of others that fail, of 1", 0.0, f64::from(u8::from(measured.code != Some(0))));
    row.at_most("descriptors", (PLACES * 2 + 32) as f64, server.descriptors() as f64);
    let is_kept = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
    };
    let kept = taken.iter().filter(|stream| is_kept(stream)).count();
    assert!(kept >= PLACES / 4, "{kept}: who has most loses no more than others need");
    server.end();
});
