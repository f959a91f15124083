//! `headstart measure network HOST:PORT`: connect times, round trips idle and under load, throughput of one connection and of
//! many, both ways, of the path to a `headstart measure serve`; with the state of this machine, and whether to believe it.

use super::speech::{CHUNK, DOWN, ECHO, HELLO, MESSAGE, UP};
use crate::exit;
use crate::output::{Format, document};
use anyhow::Context as _;
use headstart_core::forward::active::{RoundTrips, grade};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::{Clock, wall};
use headstart_io::device::{DeviceState, Snapshot};
use headstart_realtime::relay::Destination;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the JSON.
const VERSION: u32 = 1;
/// How long the other end may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take for the first answer, which shows whether it is a headstart server.
const FIRST: Duration = Duration::from_secs(3);
/// How often a transfer is tried whose connections the server ends: it may do that when all its places are taken.
const TRIES: usize = 4;
/// A transfer that was cut off later than this has met the server's time limit, and would again.
const EARLY: Duration = Duration::from_secs(5);
/// How long the server has until the second try, to free what the first one held; twice as long before each one after that.
const BREATH: Duration = Duration::from_millis(500);

/// Arguments of `headstart measure network`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address of a `headstart measure serve`.
    #[arg(value_name = "HOST:PORT")]
    server: Destination,
    /// Duration of each of the four transfers, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// Number of parallel connections.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    flows: u8,
    /// Number of connects and of idle round trips.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    times: u16,
    #[command(flatten)]
    format: Format,
}

/// A transfer, and the round trips beside it.
struct Transfer {
    mbit_s: f64,
    loaded: RoundTrips,
}

impl Transfer {
    /// As JSON. `added`: by how much the transfer lengthened round trips, in ms.
    fn to_json(&self, added: Option<f64>) -> Value {
        json!({
            "mbit_s": round(self.mbit_s), "loaded_ms": figures(&self.loaded),
            "round_trips_a_minute": self.loaded.a_minute().map(f64::round),
            "added_ms": added.map(round), "grade": added.map(grade),
        })
    }

    /// Prints it as a line. `added`: as for [`Self::to_json`].
    fn print(&self, name: &str, added: Option<f64>) {
        let (name, grade) = (name.replace('_', ", "), added.map_or("?", grade));
        let loaded = in_words(&self.loaded);
        crate::say!("{name:<10}  {:.2} Mbit/s, round trip under load {loaded}: {grade}", self.mbit_s);
    }
}

/// Measures; says what was found.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if !(0.1..=600.0).contains(&args.seconds) {
        return Err(exit::Usage(format!("--seconds: must be from 0.1 to 600 (got {})", args.seconds)).into());
    }
    let what = || format!("cannot measure {}", args.server);
    let unreachable = |why: io::Error| exit::Coded(exit::UNREACHABLE, format!("{}: {why}", what()));
    let server = args.server.to_string();
    let to = server.to_socket_addrs().map_err(unreachable)?.next().with_context(what)?;
    let root = Path::new("/");
    let (began, before) = (wall(), Snapshot::take(root));
    let clock = Clock::new();
    let mut stream = greet(to, ECHO).map_err(unreachable)?;
    first_answer(&mut stream, clock, &server)?;
    let connects = (0..args.times).map(|_| {
        let start = clock.now();
        TcpStream::connect_timeout(&to, PATIENCE).map(|_| ms(clock.now().since(start)))
    });
    let connects = RoundTrips(connects.collect::<io::Result<_>>().with_context(what)?);
    let idle = (0..args.times).map(|_| ask(&mut stream, clock)).collect::<io::Result<_>>();
    let idle = RoundTrips(idle.with_context(what)?);
    let time = Duration::from_secs_f64(args.seconds);
    let (mut transfers, mut doubts) = (Vec::new(), Vec::new());
    for (name, wish, flows) in
        [("down_one", DOWN, 1), ("down_many", DOWN, args.flows), ("up_one", UP, 1), ("up_many", UP, args.flows)]
    {
        let (transfer, cut) = repeated(Wanted { to, wish, flows, time, clock }, &mut stream);
        if cut > 0 {
            doubts.push(format!("{name}: {cut} of {} tries cut off by the server", cut + 1));
        }
        transfers.push((name, transfer.with_context(what)?));
    }
    let device = crate::help::with_commit(DeviceState::over(root, began, before, before, Snapshot::take(root)));
    doubts.extend(device.doubts());
    let verdict = if doubts.is_empty() { "ok" } else { "degraded" };
    let added = |transfer: &Transfer| Some(transfer.loaded.median()? - idle.median()?);
    if args.format.json {
        let each = transfers.iter().map(|(name, transfer)| ((*name).to_owned(), transfer.to_json(added(transfer))));
        let each: serde_json::Map<String, Value> = each.collect();
        let device = serde_json::to_value(&device).context("the state of this machine")?;
        document(
            VERSION,
            json!({
                "server": to.to_string(), "connect_ms": figures(&connects), "idle_ms": figures(&idle),
                "transfers": each, "verdict": verdict, "doubts": doubts, "device": device,
            }),
        );
        return Ok(exit::OK);
    }
    crate::say!("connect     {}", in_words(&connects));
    crate::say!("round trip  {}", in_words(&idle));
    for (name, transfer) in &transfers {
        transfer.print(name, added(transfer));
    }
    crate::say!("verdict     {verdict}");
    doubts.iter().for_each(|doubt| crate::say!("            {doubt}"));
    Ok(exit::OK)
}

/// Waits for the answer that shows that a headstart server is there.
fn first_answer(stream: &mut TcpStream, clock: Clock, server: &str) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(FIRST))?;
    ask(stream, clock).map_err(|why| {
        let why = format!(
            "{server}: no `headstart measure serve` answers there ({why}): start one, or check the address and port"
        );
        exit::Coded(exit::UNREACHABLE, why)
    })?;
    Ok(stream.set_read_timeout(Some(PATIENCE))?)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// To a thousandth.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn figures(trips: &RoundTrips) -> Value {
    let at = |share| trips.quantile(share).map(round);
    json!({ "least": at(0.0), "median": at(0.5), "p95": at(0.95), "jitter": trips.jitter().map(round) })
}

fn in_words(trips: &RoundTrips) -> String {
    match (trips.quantile(0.0), trips.median(), trips.quantile(0.95)) {
        (Some(least), Some(median), Some(p95)) => format!("{median:.2} ms (min {least:.2}, p95 {p95:.2})"),
        _ => "unknown".into(),
    }
}

fn greet(to: SocketAddr, wish: u8) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&HELLO)?;
    stream.write_all(&[wish])?;
    Ok(stream)
}

/// A round trip over an open connection.
fn ask(stream: &mut TcpStream, clock: Clock) -> io::Result<f64> {
    let mut message = [7; MESSAGE];
    let start = clock.now();
    stream.write_all(&message)?;
    stream.read_exact(&mut message).map_err(|why| match why.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
        io::ErrorKind::UnexpectedEof => io::Error::new(why.kind(), "the server closed the connection"),
        _ => why,
    })?;
    if message != [7; MESSAGE] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks another protocol"));
    }
    Ok(ms(clock.now().since(start)))
}

/// A transfer to be made.
#[derive(Clone, Copy)]
struct Wanted {
    to: SocketAddr,
    /// [`DOWN`] or [`UP`].
    wish: u8,
    flows: u8,
    time: Duration,
    clock: Clock,
}

/// Moves data as `wanted`, and makes round trips beside it.
fn transfer(wanted: Wanted, echo: &mut TcpStream) -> io::Result<Transfer> {
    let Wanted { to, wish, flows, time, clock } = wanted;
    let streams = (0..flows).map(|_| greet(to, wish)).collect::<io::Result<Vec<_>>>()?;
    let start = clock.now();
    let until = start + time;
    let moved = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(move || move_data(stream, wish, clock, until))).collect();
        let trips = scope.spawn(|| {
            let mut trips = Vec::new();
            while !moved.load(Ordering::Relaxed) && clock.now() < until {
                trips.push(ask(echo, clock)?);
            }
            io::Result::Ok(trips)
        });
        let died = || Err(io::Error::other("a thread has died"));
        let bytes: io::Result<u64> = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).sum();
        let took = clock.now().since(start).as_secs_f64();
        moved.store(true, Ordering::Relaxed);
        let trips = trips.join().unwrap_or_else(|_| Err(io::Error::other("a thread has died")))?;
        Ok(Transfer { mbit_s: bytes? as f64 * 8.0 / 1e6 / took, loaded: RoundTrips(trips) })
    })
}

/// As [`transfer`], as often as it takes; how often the server cut it off.
fn repeated(wanted: Wanted, echo: &mut TcpStream) -> (io::Result<Transfer>, usize) {
    until_whole(wanted.clock, EARLY, |before| {
        // The server may have ended that one.
        if before > 0 {
            *echo = greet(wanted.to, ECHO)?;
        }
        transfer(wanted, echo)
    })
}

/// The first transfer that is not cut off within `early`, and how many were before it; `transfer` gets that number.
fn until_whole(
    clock: Clock,
    early: Duration,
    mut transfer: impl FnMut(usize) -> io::Result<Transfer>,
) -> (io::Result<Transfer>, usize) {
    let mut cut = 0;
    loop {
        let began = clock.now();
        let transfer = transfer(cut);
        let is_cut = |why: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
            matches!(why.kind(), BrokenPipe | ConnectionReset | NotConnected | UnexpectedEof)
        };
        let is_late = clock.now().since(began) > early;
        if is_late || cut + 1 == TRIES || !transfer.as_ref().is_err_and(is_cut) {
            return (transfer, cut);
        }
        clock.sleep_until(clock.now() + BREATH * (1 << cut));
        cut += 1;
    }
}

fn move_data(mut stream: TcpStream, wish: u8, clock: Clock, until: Instant) -> io::Result<u64> {
    let mut buffer = vec![7; CHUNK];
    let mut bytes = 0;
    if wish == DOWN {
        while clock.now() < until {
            match stream.read(&mut buffer)? {
                0 => break,
                len => bytes += len as u64,
            }
        }
        return Ok(bytes);
    }
    while clock.now() < until {
        bytes += stream.write(&buffer)? as u64;
    }
    // What counts is what the other end has.
    stream.shutdown(Shutdown::Write)?;
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    Ok(bytes.min(u64::from_be_bytes(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_is_cut_off_is_tried_again_and_one_that_fails_otherwise_is_not() {
        let tried = |early, fails: &[io::ErrorKind]| {
            let mut tries = 0;
            let (transfer, cut) = until_whole(Clock::new(), early, |before| {
                assert_eq!(before, tries);
                tries += 1;
                let whole = Transfer { mbit_s: 1.0, loaded: RoundTrips(Vec::new()) };
                fails.get(tries - 1).map_or(Ok(whole), |kind| Err((*kind).into()))
            });
            (transfer.is_ok(), cut, tries)
        };
        use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, TimedOut, UnexpectedEof};
        assert_eq!(tried(EARLY, &[]), (true, 0, 1));
        assert_eq!(tried(EARLY, &[BrokenPipe, NotConnected, ConnectionReset]), (true, 3, 4));
        assert_eq!(tried(EARLY, &[UnexpectedEof; 9]), (false, 3, 4));
        assert_eq!(tried(EARLY, &[TimedOut]), (false, 0, 1));
        assert_eq!(tried(Duration::ZERO, &[BrokenPipe]), (false, 0, 1), "the time limit of the server");
    }
}
