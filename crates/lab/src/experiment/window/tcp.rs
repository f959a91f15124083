//! `window-tcp`: 1 MB by the kernel's own TCP over a path that is known: without headstart, with initial windows by routes (`up
//! --initcwnd`), and by a program in the kernel (`up --initcwnd ebpf`); and the harm beside.
//!
//! The server is an ordinary program, and the daemon runs on its host. What the kernel itself remembers of a path it uses in every arm.

use super::kernel::background::Background;
use super::kernel::{CLIENT, SERVER, address, scenario};
use super::rows::{self, Metric};
use super::trial::{Cell, LIMIT, Seen};
use super::{Arm, DEFAULT, seed_of};
use crate::experiment::{Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::netns::{Nodes, PREFERRED_CONGESTION_CONTROL};
use crate::program::{Folder, undisturbed};
use crate::sim::quic::Path;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::cwnd::initcwnd::KERNELS_OWN;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::sys::tcp_info::tcp_info;
use rustix::net::sockopt;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path as File;
use std::process::{Child, Command, Stdio};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "window-tcp",
    shows: "How fast unmodified TCP servers send 1 MB over a known path, with initial windows from routes or an eBPF program, and \
            the cost to other flows",
    claims: &[],
    conditions: &["good", "good-1", "shallow", "shallow-1"],
    speeds: Speeds::Namespaces,
    run,
};

/// The arms of ours.
const ROUTES: &str = "routes";
const EBPF: &str = "ebpf";
const ARMS: [&str; 3] = [DEFAULT, ROUTES, EBPF];
const MB: u64 = 1_000_000;
const PORT: u16 = 8080;
/// Background flows begin within a second and have found their share by then.
const SETTLED: Duration = Duration::from_secs(2);
/// From the end of a transfer to the next: the kernel has noted then what it saw.
const PAUSE: Duration = Duration::from_millis(300);

fn cells() -> Vec<Cell> {
    let cell = |condition, queue, flows| {
        let path = Path { queue, ..Path::lossless(100 * MB, Duration::from_millis(38)) };
        Cell { flows, horizon: Duration::from_secs(2), ..Cell::new(condition, path, MB) }
    };
    vec![cell("good", 1.0, 0), cell("good-1", 1.0, 1), cell("shallow", 0.25, 0), cell("shallow-1", 0.25, 1)]
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let program = cx.measured_program()?;
    let trials = if cx.quick { 2 } else { 20 };
    let cells: Vec<_> = cells().into_iter().filter(|cell| cx.wants(cell.condition)).collect();
    let mut steps = Steps::new(cx, cells.len() * trials as usize * ARMS.len());
    for cell in &cells {
        let mut arms = ARMS.map(|name| Arm { name, trials: Vec::new() });
        for trial in 0..trials {
            for arm in &mut arms {
                if !steps.next(&mut outcome, cell.condition) {
                    return Ok(outcome);
                }
                let (seen, doubts) = play(cell, arm.name, &program, seed_of(trial, cx.seed))?;
                for doubt in doubts {
                    outcome.invalidate(format!("{}, {}: {doubt}", cell.condition, arm.name));
                }
                arm.trials.push(seen);
            }
        }
        let metrics = [Metric::Time, Metric::Drops, Metric::Lost, Metric::Background];
        rows::add(&mut outcome, cell, &arms, &metrics, |row, _| Ok(row))?;
        outcome.rows.push(to_routes(cell, &arms, cx.seed)?);
        outcome.condition(cell.condition, cell.about());
    }
    outcome.method.push(format!(
        "A program on the server's host answers each connection with 1 MB; time runs from connect(2) to the last byte. The sender's \
         congestion control is {PREFERRED_CONGESTION_CONTROL} in every arm. Before the transfer that counts, four others go over the same path, \
         without a daemon; then the daemon comes up, if the arm has one. Each trial has a network of its own, arms take turns. Drops are those \
         of the bottleneck's queue and goodput that of the bulk flow, over 2 s from the beginning of the transfer."
    ));
    Ok(outcome)
}

/// Ours by a program in the kernel beside ours by routes.
fn to_routes(cell: &Cell, arms: &[Arm], seed: u64) -> anyhow::Result<Row> {
    let series = |name: &'static str| {
        let trials = arms.iter().find(|arm| arm.name == name).map_or(&[][..], |arm| &arm.trials);
        let values = trials.iter().map(|trial| trial.ms);
        Series::with_failures(cell.condition, "latency of 1 MB, to routes", "ms", name, values)
    };
    Ok(Row::compare(&series(EBPF), &series(ROUTES), Statistic::Mean, Pairing::Paired, seed)?)
}

/// The daemon on the server's host, ended with this.
struct Daemon {
    child: Child,
    _folder: Folder,
}

impl Daemon {
    fn start(nodes: &Nodes, program: &File, arm: &str) -> anyhow::Result<Self> {
        let folder = Folder::new().context("making a folder for a daemon")?;
        let mut command = Command::new(program);
        nodes.adopt(SERVER, &mut command)?;
        undisturbed(&mut command);
        command.env("STATE_DIRECTORY", folder.path()).env("RUNTIME_DIRECTORY", folder.path());
        command.args(["up", "--foreground", "--initcwnd", arm]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut daemon = Self { child: command.spawn().context("starting a daemon")?, _folder: folder };
        let mut said = String::new();
        BufReader::new(daemon.child.stdout.take().context("a daemon's output")?).read_line(&mut said)?;
        anyhow::ensure!(said.starts_with("up: "), "`up --initcwnd {arm}` did not come up (it needs root): {said}");
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let _ = self.child.wait();
    }
}

/// What a server saw of a connection.
struct Answered {
    /// Segments that it could begin with.
    window: u32,
    /// Segments that it sent again, in percent.
    lost: f64,
}

/// Answers one connection with so many bytes.
fn answer(listener: &TcpListener, bytes: u64) -> anyhow::Result<Answered> {
    let (mut stream, _) = listener.accept()?;
    let window = tcp_info(&stream)?.snd_cwnd;
    sockopt::set_tcp_congestion(&stream, PREFERRED_CONGESTION_CONTROL)?;
    stream.write_all(&vec![0; usize::try_from(bytes)?])?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // The client's end says that everything has come.
    stream.read_to_end(&mut Vec::new())?;
    let info = tcp_info(&stream)?;
    let lost = 100.0 * f64::from(info.total_retrans) / f64::from(info.segs_out.unwrap_or(1).max(1));
    Ok(Answered { window, lost })
}

/// How long 1 MB takes over a new connection, and what the server saw of it.
fn fetch(nodes: &Nodes, listener: &TcpListener, bytes: u64, clock: Clock) -> anyhow::Result<(f64, Answered)> {
    std::thread::scope(|scope| {
        let server = scope.spawn(|| answer(listener, bytes));
        let took = nodes.on(CLIENT, || -> anyhow::Result<_> {
            let began = clock.now();
            let mut stream = TcpStream::connect(address(SERVER, PORT))?;
            stream.set_read_timeout(Some(LIMIT))?;
            let mut came = vec![0; 256 * 1024];
            let mut all = 0;
            loop {
                match stream.read(&mut came)? {
                    0 => break,
                    n => all += n as u64,
                }
            }
            let took = clock.now().since(began).as_secs_f64() * 1e3;
            anyhow::ensure!(all == bytes, "{all} bytes came in place of {bytes}");
            Ok(took)
        })?;
        let answered = server.join().unwrap_or_else(|_| anyhow::bail!("a server has died"))?;
        Ok((took?, answered))
    })
}

fn play(cell: &Cell, arm: &str, program: &File, seed: u64) -> anyhow::Result<(Seen, Vec<String>)> {
    let clock = Clock::new();
    let nodes = Nodes::build(&scenario(&cell.path, seed)?).context("building the network")?;
    // The lab's hosts forget paths, lest one trial help the next; here each trial has hosts of its own.
    nodes.on(SERVER, || std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "0"))??;
    let listener = nodes.on(SERVER, || TcpListener::bind(address(SERVER, PORT)))??;
    for _ in 0..cell.before {
        fetch(&nodes, &listener, cell.history, clock)?;
        clock.sleep(PAUSE);
    }
    let daemon = (arm != DEFAULT).then(|| Daemon::start(&nodes, program, arm)).transpose()?;
    let mut background = Background::none();
    if cell.flows > 0 {
        background = Background::start(&nodes, cell.flows, seed, clock)?;
        clock.sleep(SETTLED);
    }
    let drops = || nodes.certificate().drops.queue_full;
    let (start, dropped, came) = (clock.now(), drops(), background.received());
    let (ms, answered) = fetch(&nodes, &listener, cell.bytes, clock)?;
    clock.sleep_until(start + cell.horizon);
    let spent = clock.now().since(start).as_secs_f64();
    let seen = Seen {
        ms: Some(ms),
        drops: (drops() - dropped) as f64,
        lost: answered.lost,
        background: if cell.flows > 0 { (background.received() - came) as f64 * 8e-6 / spent } else { 0.0 },
    };
    drop(daemon);
    let mut doubts = background.end();
    doubts.extend(nodes.certificate().doubt());
    if (answered.window > KERNELS_OWN) != (arm != DEFAULT) {
        doubts.push(format!("a connection over the known path began with {} segments", answered.window));
    }
    Ok((seen, doubts))
}
