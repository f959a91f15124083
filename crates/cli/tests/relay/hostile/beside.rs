//! A client of a relay beside thousands of connections a second that say nothing: how long its first message takes, as a multiple of what it
//! takes without them. Quiet and busy halves of a round follow each other, so that a machine that is slow for a while is slow in both.
//!
//! Times are compared where `cargo xtask hostile` asks for it, on a machine that has nothing else to do. In any other run of the tests
//! there is one short round, and the client is served.

use super::{SOURCES, begin_silent, network, served};
use crate::attack::Attack;
use crate::scene::{Folder, inside};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::{LOOPBACK, Netlink};
use headstart_realtime::relay::Client;
use headstart_realtime::{Config, Kind, Listener};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Asks for the comparison of times.
const TIMED: &str = "HEADSTART_HOSTILE";
/// How many times its quiet time a message may take beside the flood.
const MOST: f64 = 2.0;
/// How long no message may take: so many times the quiet time, and milliseconds more for the scheduler.
const WORST: f64 = 10.0;
const WORST_MORE: f64 = 200.0;
/// Connections of the flood: a second, and held open.
const RATE: u64 = 2000;
const HELD: usize = 6000;
/// Messages of each half of a round, of which the median counts.
const MESSAGES: usize = 15;
/// Rounds where times are compared.
const ROUNDS: usize = 5;

/// Opens connections at the rate of the flood until it is told to stop; `begun` counts them.
fn flood(to: SocketAddr, sources: usize, stop: &AtomicBool, begun: &AtomicUsize) {
    let clock = Clock::new();
    let began = clock.now();
    let mut held: VecDeque<OwnedFd> = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let due = clock.now().since(began).as_millis() as u64 * RATE / 1000;
        for n in begun.load(Ordering::Relaxed)..due as usize {
            held.extend(begin_silent(n % sources, to));
        }
        begun.store(due as usize, Ordering::Relaxed);
        held.drain(..held.len().saturating_sub(HELD));
        clock.sleep(Duration::from_millis(5));
    }
}

/// Stops the flood when it goes, by a panic too: the thread of the flood is waited for.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends a first message through the relay; how long that takes until it is there, in seconds.
async fn asked(clock: &Clock, client: &Client, door: &Listener) -> f64 {
    let began: Instant = clock.now();
    let config = Config { technique: "plain".into(), interval: None, ..Config::default() };
    let near = client.session(door.address().unwrap().to_string().parse().unwrap(), config).await.unwrap();
    near.lane(0, Kind::Event).send(b"hello").await.unwrap();
    assert_eq!(door.accept().await.unwrap().receive().await.unwrap().bytes, b"hello");
    clock.now().since(began).as_secs_f64()
}

inside!(a_client_beside_two_thousand_silent_connections_a_second, || {
    network();
    let folder = Folder::new();
    let (_relay, at, client) = served(&folder);
    let to: SocketAddr = at.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let door = runtime.block_on(Listener::bind("192.0.2.1:0")).unwrap();
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    // The median, and the worst.
    let waited = || {
        runtime.block_on(async {
            let mut all = Vec::new();
            for _ in 0..MESSAGES {
                all.push(asked(&clock, &client, &door).await);
            }
            (median(&mut all), all[MESSAGES - 1])
        })
    };
    let timed = std::env::var_os(TIMED).is_some();
    let (mut ratios, mut quiets, mut worst) = (Vec::new(), Vec::new(), 0f64);
    for _ in 0..if timed { ROUNDS } else { 1 } {
        let quiet = waited().0;
        let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (busy, worst_busy) = std::thread::scope(|scope| {
            scope.spawn(|| flood(to, SOURCES, &stop, &begun));
            let _stop = Stop(&stop);
            // As many as fill every line.
            while begun.load(Ordering::Relaxed) < RATE as usize * 2 {
                clock.sleep(Duration::from_millis(20));
            }
            waited()
        });
        println!(
            "a message: quiet {:.1} ms, busy {:.1} ms, at worst {:.1} ms",
            quiet * 1e3,
            busy * 1e3,
            worst_busy * 1e3
        );
        ratios.push(busy / quiet);
        quiets.push(quiet * 1e3);
        worst = worst.max(worst_busy * 1e3);
    }
    if timed {
        let row = Attack { attack: "2,000 silent connections a second from 8 addresses", listener: "relay serve" };
        row.at_most("time of a client's message, times its quiet time", MOST, median(&mut ratios));
        row.at_most("slowest message of a client, ms", WORST * median(&mut quiets) + WORST_MORE, worst);
    }
});

/// Addresses of a large flood: each has a few places, and none as much as its share.
const MANY: usize = 250;
/// Messages of a client beside it, and how often the rate of the flood it has had before.
const ASKED: usize = 20;
const SECONDS: usize = 3;

inside!(a_client_beside_silent_connections_from_hundreds_of_addresses_is_never_refused, || {
    network();
    let mut netlink = Netlink::open().unwrap();
    for n in SOURCES + 1..=MANY {
        netlink.address(LOOPBACK, format!("198.51.100.{n}").parse().unwrap(), 32).unwrap();
    }
    let folder = Folder::new();
    let (_relay, at, client) = served(&folder);
    let to: SocketAddr = at.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let door = runtime.block_on(Listener::bind("192.0.2.1:0")).unwrap();
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| flood(to, MANY, &stop, &begun));
        let _stop = Stop(&stop);
        // As many as fill the line.
        while begun.load(Ordering::Relaxed) < RATE as usize * SECONDS {
            clock.sleep(Duration::from_millis(20));
        }
        runtime.block_on(async {
            let mut refused = 0;
            for _ in 0..ASKED {
                let config = Config { technique: "plain".into(), interval: None, ..Config::default() };
                let to = door.address().unwrap().to_string().parse().unwrap();
                refused += usize::from(client.session(to, config).await.is_err());
            }
            refused
        })
    });
    let row = Attack { attack: "2,000 silent connections a second from 250 addresses", listener: "relay serve" };
    row.at_most("sessions of a client that are refused, of 20", 0.0, refused as f64);
});
