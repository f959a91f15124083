//! `measure-latency`: how long connecting and asking take, without a TUN and through forwarders (claims P3.1 and P3.2).
//!
//! As the two applications of the paper do it: many connections without data, and small requests over one connection whose
//! TCP_NODELAY is set. Beside the paper's round-trip times, a wire without any, where a forwarder's own microseconds show.

use super::arm::{self, BARE, EBPF, OURS, Stage, Testbed, number, numbers};
use super::least::LEAST;
use super::wire::{WIRED, Wire};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::netns::Network;
use crate::stats::{Pairing, Statistic};
use crate::world::{Fate, Host, Site, World};
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-latency",
    shows: "Connecting and requesting take as long through headstart's forwarder as without one; reproduces the flaws of the \
            paper's tools",
    claims: &["P3.1", "P3.2"],
    conditions: &["speedtest", "speedcheck", WIRE],
    speeds: Speeds::Namespaces,
    run,
};

/// What a probe is asked for.
pub const WORKLOAD: &str = "latency";
/// Bytes of a request and of its answer: "a few bytes, less than 100".
pub(in crate::experiment) const REQUEST: usize = 64;
/// 17 ms and 45 ms round trip: the paper's baselines for requests over a connection, and for connect().
pub(in crate::experiment) const SPEEDTEST: &str = "rate=50mbit,delay=8500us";
pub(in crate::experiment) const SPEEDCHECK: &str = "rate=50mbit,delay=22500us";
/// The condition without a link.
const WIRE: &str = "wire";
/// What the issue asks for where programs in the kernel measure, in microseconds: on top of connecting, and of a request and its answer.
const MORE_TO_CONNECT: Target = Target::AtMost(5.0);
const MORE_TO_ASK: Target = Target::AtMost(2.0);
/// Whether connect() tells the truth: a forwarder that answers before it has connected calls a port open that refuses.
const SAID_OPEN: &str = "connections to a port that refuses, said to be open";
/// What a probe is asked for, such a port of the peer, and how often it is tried.
pub const REFUSED: &str = "closed-port";
const CLOSED: u16 = 1;
const TRIED: usize = 5;
/// Where the peer is behind a link.
const PEER: &str = "198.19.0.41";

/// Connects `times` times, then asks as often over one connection; milliseconds of each.
pub fn probe(to: SocketAddr, times: u64) -> io::Result<serde_json::Value> {
    let clock = Clock::new();
    let (mut connect, mut ask) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let start = clock.now();
        let stream = TcpStream::connect(to)?;
        connect.push(clock.now().since(start).as_secs_f64() * 1e3);
        drop(stream);
    }
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut buffer = [7; REQUEST];
    for _ in 0..times {
        let start = clock.now();
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        ask.push(clock.now().since(start).as_secs_f64() * 1e3);
    }
    Ok(serde_json::json!({ "connect": connect, "ask": ask }))
}

/// How many of some connections to a port of `host` that refuses are made all the same, in percent.
pub fn refused(host: SocketAddr) -> serde_json::Value {
    let closed = SocketAddr::new(host.ip(), CLOSED);
    let open = (0..TRIED).filter(|_| TcpStream::connect(closed).is_ok()).count();
    serde_json::json!({ "said open": 100.0 * open as f64 / TRIED as f64 })
}

/// Answers each client in a thread of its own, for as long as it is listened to.
pub fn serve(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || {
            let mut stream = stream;
            let mut buffer = [0; REQUEST];
            let _ = stream.set_nodelay(true);
            while stream.read_exact(&mut buffer).and_then(|()| stream.write_all(&buffer)).is_ok() {}
        });
    }
}

/// A world with one host that a probe speaks to, behind `link`.
pub fn world(link: &str, addr: &str, seed: u64) -> World {
    let host = Host {
        addr: addr.parse::<IpAddr>().expect("an address"),
        extra_rtt: Duration::ZERO,
        // Nothing of the lab's listens there.
        fate: Fate::Refuses,
    };
    World::new(link, seed, vec![Site::new("peer.lab.example", vec![host], vec![])])
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    for (name, link, about) in [
        ("speedtest", Some(SPEEDTEST), "17 ms round trip: the paper's baseline for requests over a connection."),
        ("speedcheck", Some(SPEEDCHECK), "45 ms round trip: the paper's baseline for connect()."),
        (WIRE, None, "Two namespaces and a veth pair: the time of the forwarder itself."),
    ] {
        if !cx.wants(name) {
            continue;
        }
        outcome.condition(name, about);
        match link {
            Some(link) => {
                let network = Network::build(&world(link, PEER, cx.seed))?;
                one(cx, &mut outcome, name, Stage::new(Testbed::Network(&network), cx.program.clone())?, PEER)?;
                outcome.doubts(network.certificate().doubt());
            }
            None => {
                let wire = Wire::lay()?;
                let stage = Stage::new(Testbed::Wire(&wire), cx.program.clone())?;
                one(cx, &mut outcome, name, stage, &WIRED.to_string())?;
            }
        }
    }
    outcome.how(
        "Arms take turns. In each turn a program connects, closes, and connects again, then sends 64 bytes with TCP_NODELAY and \
         waits for as many, over one connection; the same number of times each. Ratios are of medians over all turns. On the wire \
         the arm `least` only reads a SYN, connects and answers, reads data and passes it on. At last the program connects to a port \
         that refuses.",
    );
    Ok(outcome)
}

fn one(cx: &Context, outcome: &mut Outcome, name: &str, stage: Stage<'_>, peer: &str) -> anyhow::Result<()> {
    let claims = Claims::built_in()?;
    let to = stage.listen(peer, serve)?;
    let (turns, times) = if cx.quick { (3, 10) } else { (10, 20) };
    let mut arms = if name == WIRE { arm::on_wire(outcome) } else { arm::and_kernel(arm::all(), outcome) };
    // Where a forwarder's own microseconds show, those that nobody can save stand beside them.
    arms.extend((name == WIRE).then_some(LEAST));
    let mut all: Vec<[Vec<f64>; 2]> = vec![Default::default(); arms.len()];
    let mut steps = Steps::new(cx, turns * arms.len());
    for _ in 0..turns {
        for (n, arm) in arms.iter().enumerate() {
            if !steps.next(outcome, &format!("{name}, {arm}")) {
                return Ok(());
            }
            let said = stage.say(arm, &[WORKLOAD.into(), to.to_string(), times.to_string()])?;
            all[n][0].extend(numbers(&said, "connect"));
            all[n][1].extend(numbers(&said, "ask"));
        }
    }
    // That forwarder knows nothing but success.
    for arm in arms.iter().filter(|arm| **arm != LEAST) {
        let said = stage.say(arm, &[REFUSED.into(), to.to_string()])?;
        outcome.rows.push(Row::measured(name, SAID_OPEN, "%", arm, number(&said, "said open")?));
    }
    for (testbed, metric, claim, target) in
        [(0, "connect time", "P3.2", MORE_TO_CONNECT), (1, "request-response latency", "P3.1", MORE_TO_ASK)]
    {
        let series = |n: usize| Series::new(name, metric, "ms", arms[n], all[n][testbed].iter().copied());
        let base = series(0);
        let more = |arm| -> anyhow::Result<f64> {
            let of =
                |arm| Statistic::Median.of(&series(arms.iter().position(|one| *one == arm).unwrap_or(0)).present());
            Ok((of(arm)? - of(BARE)?) * 1e3)
        };
        if name == WIRE {
            if arms.contains(&EBPF) {
                let about = format!("{name}, {EBPF}, added to {metric} (medians)");
                outcome.notes.push(target.note(&about, more(EBPF)?, "us"));
            }
            outcome.notes.push(format!(
                "{name}, {metric}: ours adds {:.0} us, the least forwarder {:.0} us (medians).",
                more(OURS)?,
                more(LEAST)?
            ));
        }
        for (n, arm) in arms.iter().enumerate().skip(1) {
            let row = Row::compare(&series(n), &base, Statistic::Median, Pairing::Unpaired, cx.seed)?;
            let is_papers = (name == "speedtest" && claim == "P3.1") || (name == "speedcheck" && claim == "P3.2");
            outcome.rows.push(if is_papers && *arm != EBPF { row.serving(&claims, claim, arm)? } else { row });
        }
        outcome.samples.extend((0..arms.len()).map(series));
    }
    debug_assert_eq!(arms[0], BARE);
    Ok(())
}
