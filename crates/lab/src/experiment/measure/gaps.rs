//! `measure-gaps`: how regularly packets go and come, without a TUN and through forwarders (claims P3.4 to P3.6).
//!
//! The paper's Listings 1 and 2 (1300 bytes each 20 ms over TCP, with and without Nagle's algorithm, and the same coming in)
//! and a call over UDP with a small packet each 20 ms. What goes out is timed where it leaves the link; what comes in, in the
//! program.

use super::arm::{self, EBPF, Stage, Testbed, numbers};
use super::latency::world;
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::netns::Network;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::{self, TCP, UDP, tcp};
use headstart_io::clock::Clock;
use headstart_io::sys::netlink::Netlink;
use headstart_io::sys::packet::PacketSocket;
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-gaps",
    shows: "Packets arrive as regularly through headstart's forwarder as without one; reproduces the flaws of the paper's tools",
    claims: &["P3.4", "P3.5", "P3.6"],
    conditions: &["call-out", "nodelay-out", "nagle-out", "in"],
    speeds: Speeds::Namespaces,
    run,
};

/// What a probe is asked for.
pub const WORKLOAD: &str = "gaps";
/// Between two messages (paper 3, section 3.6), and their length.
pub(in crate::experiment) const INTERVAL: Duration = Duration::from_millis(20);
pub(in crate::experiment) const MESSAGE: usize = 1300;
/// A packet of a call: 20 ms of 64 kbit/s.
pub(in crate::experiment) const VOICE: usize = 160;
/// A gap longer than this is a packet late: half an interval more than there should be.
pub(in crate::experiment) const LATE_MS: f64 = 30.0;
/// The paper's network: a campus behind LTE.
pub(in crate::experiment) const LINK: &str = "rate=30mbit,delay=20ms";
const PEER: &str = "198.19.0.43";
/// How long a peer waits for a program: long for any machine.
const PATIENCE: Duration = Duration::from_secs(30);
const ETHERNET: usize = 14;
/// Bytes of the headers of IPv4 and TCP.
const HEADERS: f64 = 40.0;

/// Sends, or takes, `count` messages; the gaps of those that came, in milliseconds, and the longest TCP packet that may go.
pub fn probe(to: SocketAddr, kind: &str, count: u64) -> io::Result<serde_json::Value> {
    let clock = Clock::new();
    let start = clock.now() + INTERVAL;
    let each = |mut send: Box<dyn FnMut() -> io::Result<()>>| {
        (0..count).try_for_each(|n| {
            clock.sleep_until(start + INTERVAL * u32::try_from(n).unwrap_or(u32::MAX));
            send()
        })
    };
    if kind == "call-out" {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(to)?;
        each(Box::new(move || socket.send(&[7; VOICE]).map(drop)))?;
        return Ok(serde_json::json!({}));
    }
    let mut stream = TcpStream::connect(to)?;
    let longest = headstart_io::sys::socket_option::get(&stream, (6, 2)).and_then(|value| value.int());
    stream.set_nodelay(kind == "nodelay-out")?;
    if kind != "in" {
        let mut writing = stream.try_clone()?;
        each(Box::new(move || writing.write_all(&[7; MESSAGE])))?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new())?;
        return Ok(serde_json::json!({ "mss": longest }));
    }
    stream.write_all(b"?")?;
    stream.shutdown(Shutdown::Write)?;
    let mut buffer = [0; 4096];
    let mut times: Vec<Instant> = Vec::new();
    while stream.read(&mut buffer)? > 0 {
        times.push(clock.now());
    }
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64() * 1e3).collect();
    Ok(serde_json::json!({ "gaps": gaps, "mss": longest }))
}

/// One connection: sends messages if it is asked to, and otherwise takes what comes.
fn serve(listener: &TcpListener, count: u64) -> io::Result<()> {
    // A program that does not come is not waited for.
    sockopt::set_socket_timeout(listener, sockopt::Timeout::Recv, Some(PATIENCE))?;
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut first = [0; 4096];
    let asked = stream.read(&mut first)? == 1;
    if !asked {
        while stream.read(&mut first)? > 0 {}
        return Ok(());
    }
    stream.set_nodelay(true)?;
    let clock = Clock::new();
    let start = clock.now();
    (0..count).try_for_each(|n| {
        clock.sleep_until(start + INTERVAL * u32::try_from(n).unwrap_or(u32::MAX));
        stream.write_all(&[7; MESSAGE])
    })
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let network = Network::build(&world(LINK, PEER, cx.seed))?;
    let stage = Stage::new(Testbed::Network(&network), cx.program.clone())?;
    for (name, about) in [
        ("call-out", "A call: 160 bytes over UDP each 20 ms, timed behind the link."),
        ("nodelay-out", "Listing 1 with TCP_NODELAY: 1300 bytes each 20 ms, timed behind the link."),
        ("nagle-out", "Listing 1 without it, likewise."),
        ("in", "Listing 2: 1300 bytes each 20 ms from the peer, timed in the program."),
    ] {
        if cx.wants(name) {
            outcome.condition(name, about);
            one(cx, &mut outcome, name, &stage)?;
        }
    }
    outcome.doubts(network.certificate().doubt());
    outcome.method.push(format!(
        "Arms take turns. A gap is the time between two packets with data; one above {LATE_MS} ms is a packet late. The link \
         has 30 Mbit/s and 40 ms there and back."
    ));
    Ok(outcome)
}

fn one(cx: &Context, outcome: &mut Outcome, name: &str, stage: &Stage<'_>) -> anyhow::Result<()> {
    let claims = Claims::built_in()?;
    let (turns, count) = if cx.quick { (2, 100) } else { (5, 500) };
    let arms = arm::and_kernel(arm::all(), outcome);
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
    let mut longest = vec![None; arms.len()];
    let mut steps = Steps::new(cx, turns * arms.len());
    for _ in 0..turns {
        for (n, arm) in arms.iter().enumerate() {
            if !steps.next(outcome, &format!("{name}, {arm}")) {
                return Ok(());
            }
            let (gaps, mss) = trial(stage, name, arm, count)?;
            all[n].extend(gaps);
            longest[n] = mss.or(longest[n]);
        }
    }
    let series = |n: usize| Series::new(name, "inter-packet gap", "ms", arms[n], all[n].iter().copied());
    let late =
        |n: usize| 100.0 * all[n].iter().filter(|gap| **gap > LATE_MS).count() as f64 / all[n].len().max(1) as f64;
    for n in 1..arms.len() {
        let row = Row::compare(&series(n), &series(0), Statistic::Quantile(0.95), Pairing::Unpaired, cx.seed)?;
        // The claims are of forwarders: what the kernel tells carries nothing.
        let carries = arms[n] != EBPF;
        outcome.rows.push(if name == "call-out" && carries { row.serving(&claims, "P3.4", arms[n])? } else { row });
        let compared = |metric: &str, unit: &str, ours: f64, theirs: f64| {
            Row::measured(name, metric, unit, arms[n], ours).beside(arms[0], theirs)
        };
        let row = compared("packets late", "%", late(n), late(0));
        outcome.rows.push(if name == "call-out" || !carries { row } else { row.serving(&claims, "P3.6", "")? });
        if let (Some(ours), Some(theirs)) = (longest[n], longest[0]) {
            let row = compared("largest TCP packet", "bytes", ours + HEADERS, theirs + HEADERS);
            outcome.rows.push(if carries { row.serving(&claims, "P3.5", "")? } else { row });
        }
    }
    outcome.samples.extend((0..arms.len()).map(series));
    Ok(())
}

/// Gaps of one turn, and the largest segment that the program was told to send.
fn trial(stage: &Stage<'_>, name: &str, arm: &str, count: u64) -> anyhow::Result<(Vec<f64>, Option<f64>)> {
    let (listener, udp, mut wire) = stage.on_servers(|| -> anyhow::Result<_> {
        let (listener, udp) = (TcpListener::bind((PEER, 0))?, UdpSocket::bind((PEER, 0))?);
        let wire = PacketSocket::bind(Netlink::open()?.index("eth0")?, false).context("opening a capture")?;
        Ok((listener, udp, wire))
    })??;
    let to = if name == "call-out" { udp.local_addr()? } else { listener.local_addr()? };
    let words = [WORKLOAD.to_owned(), to.to_string(), name.to_owned(), count.to_string()];
    let said = std::thread::scope(|scope| {
        let serving = (name != "call-out").then(|| scope.spawn(|| serve(&listener, count)));
        let said = stage.say(arm, &words)?;
        serving.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a peer has died"))))?;
        anyhow::Ok(said)
    })?;
    let mss = said["mss"].as_f64();
    if name == "in" {
        return Ok((numbers(&said, "gaps"), mss));
    }
    let mut times = Vec::new();
    loop {
        let took = wire.receive(|arrived| {
            let packet = arrived.room.get(ETHERNET..arrived.len).and_then(ip::parse);
            let has_data = packet.is_some_and(|(header, payload)| match header.protocol {
                UDP => name == "call-out",
                TCP => tcp::parse(payload).is_some_and(|(_, data)| !data.is_empty()),
                _ => false,
            });
            if has_data {
                times.extend(arrived.stamp);
            }
        })?;
        if took.frames == 0 {
            break;
        }
    }
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).as_secs_f64() * 1e3).collect();
    Ok((gaps, mss))
}
