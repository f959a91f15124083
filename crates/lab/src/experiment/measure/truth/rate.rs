//! How fast data goes: what is said of each connection, beside what tshark finds in a capture of its own on the other side of the
//! forwarder: bytes that were acknowledged over the time in which some were on their way.

use super::super::arm::{Stage, Testbed, number};
use super::super::latency;
use super::capture::Capture;
use super::measured;
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row, Series};
use crate::netns::Network;
use crate::stats::Statistic;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

/// What a probe is asked for.
pub const WORKLOAD: &str = "rates";
/// The condition.
pub const CONDITION: &str = "rates";
const ABOUT: &str = "50 Mbit/s, 20 ms there and back; connections carry 100 kB, 1 MB or 10 MB, up or down, at once or in four parts with \
                     pauses of half a second.";
const LINK: &str = "rate=50mbit,delay=10ms";
const PEER: &str = "198.19.0.52";
const SIZES: [u64; 3] = [100_000, 1_000_000, 10_000_000];
const PARTS: u64 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// A silence of the peer that is no time of its transfer: what the meter `down_mbit_s` says of itself.
const SILENCE: f64 = 0.2;
/// What the issue asks for, in per cent.
const TARGET: Target = Target::AtMost(3.0);

/// A connection: up or down, so many bytes, in so many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    up: bool,
    bytes: u64,
    parts: u64,
}

fn shapes() -> impl Iterator<Item = Shape> {
    let sizes = SIZES.into_iter().flat_map(|bytes| [1, PARTS].map(|parts| (bytes, parts)));
    sizes.flat_map(|(bytes, parts)| [true, false].map(|up| Shape { up, bytes, parts }))
}

impl Shape {
    fn name(self) -> String {
        let (direction, pauses) = (if self.up { "up" } else { "down" }, if self.parts > 1 { ", pauses" } else { "" });
        format!("{} kB {direction}{pauses}", self.bytes / 1000)
    }
}

/// Carries all shapes so often, a connection each.
pub fn probe(to: SocketAddr, times: u64) -> io::Result<serde_json::Value> {
    let clock = Clock::new();
    for shape in (0..times).flat_map(|_| shapes()) {
        let (mut stream, part) = (TcpStream::connect(to)?, shape.bytes / shape.parts);
        for n in 0..shape.parts {
            if n > 0 {
                clock.sleep(PAUSE);
            }
            stream.write_all(&[u8::from(shape.up)])?;
            stream.write_all(&part.to_be_bytes())?;
            if shape.up {
                io::copy(&mut io::repeat(7).take(part), &mut stream)?;
                stream.read_exact(&mut [0])?;
            } else {
                io::copy(&mut (&mut stream).take(part), &mut io::sink())?;
            }
        }
    }
    Ok(serde_json::json!({ "connections": times * shapes().count() as u64 }))
}

fn serve(listener: &TcpListener) {
    for mut stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || {
            let mut wish = [0; 9];
            while stream.read_exact(&mut wish).is_ok() {
                let part = u64::from_be_bytes(std::array::from_fn(|n| wish[n + 1]));
                let done = if wish[0] == 1 {
                    io::copy(&mut (&mut stream).take(part), &mut io::sink()).and_then(|_| stream.write_all(b"y"))
                } else {
                    io::copy(&mut io::repeat(7).take(part), &mut stream).map(drop)
                };
                if done.is_err() {
                    return;
                }
            }
        });
    }
}

/// A row for each shape.
pub fn run(cx: &Context, outcome: &mut Outcome, arm: &str, folder: &Path) -> anyhow::Result<()> {
    outcome.condition(CONDITION, ABOUT);
    let network = Network::build(&latency::world(LINK, PEER, cx.seed))?;
    let stage = Stage::new(Testbed::Network(&network), cx.program.clone())?;
    let to = stage.listen(PEER, serve)?;
    let file = folder.join(format!("{arm}-rates.pcapng"));
    let Some(capture) = Capture::begin(outcome, CONDITION, &network, to, &file)? else { return Ok(()) };
    let times = if cx.quick { 1 } else { 5 };
    cx.progress.step(0, 1, CONDITION);
    let words = [WORKLOAD.to_owned(), to.to_string(), times.to_string()];
    let (_, lines) = measured(&stage, arm, &folder.join("rates"), &words)?;
    let connections = times as usize * shapes().count();
    let filter = format!("tcp.port == {}", to.port());
    let fields = ["tcp.stream", "frame.time_epoch", "tcp.dstport", "tcp.len", "tcp.seq", "tcp.ack"];
    let ended = |seen: &BTreeMap<u32, Seen>| seen.len() == connections && seen.values().all(|seen| seen.bytes[0] > 0);
    let seen = capture.end(&filter, &fields, |text| read(text, to.port()), ended)?;
    anyhow::ensure!(
        lines.len() == connections && seen.len() == connections,
        "{} connections were reported and {} captured, of {connections}",
        lines.len(),
        seen.len()
    );
    // One after the other: in the order in which they were begun they are the same.
    let mut off: Vec<(Shape, Vec<f64>)> = shapes().map(|shape| (shape, Vec::new())).collect();
    for (n, (line, seen)) in lines.iter().zip(seen.values()).enumerate() {
        let testbed = n % off.len();
        let (shape, off) = &mut off[testbed];
        let (meter, captured) = if shape.up { ("up_mbit_s", seen.up()) } else { ("down_mbit_s", seen.down()) };
        off.push((number(line, meter)? / captured - 1.0).abs() * 100.0);
    }
    for (shape, off) in off {
        let metric = format!("{}, rate off by (median)", shape.name());
        let series = Series::new(CONDITION, &metric, "%", arm, off);
        let value = Statistic::Quantile(0.5).of(&series.present())?;
        outcome.rows.push(Row::measured(CONDITION, &metric, "%", arm, value));
        outcome.notes.push(TARGET.note(&format!("{arm}, {metric}"), value, "%"));
        outcome.samples.push(series);
    }
    outcome.how(
        "Rates are compared with a capture of tshark behind the forwarder: upload: acknowledged bytes divided by the time with \
         data in flight; download: bytes after the first divided by the time between, without pauses of more than 200 ms.",
    );
    Ok(())
}

/// What was captured of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// Bytes up, that were acknowledged, and down, behind the first packet.
    bytes: [u64; 2],
    /// Seconds in which some were on their way, and between packets.
    time: [f64; 2],
    /// When what is on its way upwards began, and its end.
    on_the_way: Option<(f64, u64)>,
    /// The highest sequence numbers: sent upwards, and acknowledged.
    sent: u64,
    acknowledged: u64,
    /// When the peer's last data came.
    last: Option<f64>,
}

impl Seen {
    fn up(&self) -> f64 {
        self.bytes[0] as f64 * 8.0 / 1e6 / self.time[0]
    }

    fn down(&self) -> f64 {
        self.bytes[1] as f64 * 8.0 / 1e6 / self.time[1]
    }

    fn packet(&mut self, at: f64, up: bool, len: u64, sequence: u64, acknowledgement: u64) {
        if up && len > 0 {
            self.sent = self.sent.max(sequence + len);
            let since = self.on_the_way.map_or(at, |(since, _)| since);
            self.on_the_way = Some((since, self.sent));
        } else if !up {
            if let Some((since, _)) = self.on_the_way.filter(|(_, end)| acknowledgement >= *end) {
                // The questions of 9 bytes are no transfers: less than 8 KiB at a time has no rate.
                let bytes = self.sent - self.acknowledged.max(1);
                if bytes >= 8192 {
                    self.bytes[0] += bytes;
                    self.time[0] += at - since;
                }
                (self.acknowledged, self.on_the_way) = (self.sent, None);
            }
            if len > 0 {
                if let Some(gap) = self.last.map(|last| at - last).filter(|gap| *gap <= SILENCE) {
                    self.bytes[1] += len;
                    self.time[1] += gap;
                }
                self.last = Some(at);
            }
        }
    }
}

/// Reads tshark's lines of a packet each.
fn read(text: &str, port: u16) -> BTreeMap<u32, Seen> {
    let mut all: BTreeMap<u32, Seen> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let [stream, at, to, len, sequence, acknowledgement] = words[..] else { continue };
        let (Ok(stream), Ok(at), Ok(to)) = (stream.parse(), at.parse(), to.parse::<u16>()) else { continue };
        let number = |word: &str| word.parse().unwrap_or_default();
        let (len, sequence, acknowledgement) = (number(len), number(sequence), number(acknowledgement));
        all.entry(stream).or_default().packet(at, to == port, len, sequence, acknowledgement);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captures_rates_leave_pauses_out() {
        let text = "0\t10.0\t80\t100000\t1\t1\n0\t10.1\t5000\t0\t1\t50001\n0\t10.4\t5000\t0\t1\t100001\n\
                    0\t20.0\t80\t9\t100001\t1\n0\t20.1\t5000\t1000\t1\t100010\n0\t20.2\t5000\t1000\t1001\t100010\nnonsense\n\
                    0\t21.0\t5000\t1000\t2001\t100010\n";
        let seen = read(text, 80).remove(&0).unwrap();
        assert_eq!(seen.bytes, [100_000, 1000]);
        assert!((seen.time[0] - 0.4).abs() < 1e-6 && (seen.time[1] - 0.1).abs() < 1e-6, "{seen:?}");
        assert!((seen.up() - 2.0).abs() < 1e-6 && (seen.down() - 0.08).abs() < 1e-6);
    }
}
