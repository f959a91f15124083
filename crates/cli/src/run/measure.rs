//! `headstart run --measure -- CMD`: the program in a network namespace whose only way out is our forwarder (paper 3).
//!
//! The forwarder's own sockets are the host's, which is not changed. Nothing is accelerated, unless that is asked for: what is
//! measured is what the program has without headstart. When the program has ended, what it said last is seen to its peers, then
//! a summary is given.

mod app;
mod kernel;
mod report;

use self::app::{App, ms, round};
use self::report::report;
use super::remains;
use super::summary::Destination;
use crate::exit;
use crate::input::check_writable;
use crate::output::plural;
use anyhow::Context as _;
use clap::ValueEnum;
use headstart_core::connect;
use headstart_core::forward::{NotCarried, Record, Settings, profile};
use headstart_core::time::Duration;
use headstart_io::board::Audience;
use headstart_io::calls::Outstanding;
use headstart_io::clock::Clock;
use headstart_io::forward::board::UNKNOWN;
use headstart_io::forward::capture::{Capture, tap};
use headstart_io::forward::ebpf::Ran;
use headstart_io::forward::{
    Attributed, Enclosure, Inbound, Loopback, Offered, Protector, Theirs, Worker, line_of, settle,
};
use headstart_io::sys::netns::NetNs;
use headstart_io::sys::seccomp::Trap;
use headstart_io::sys::signal;
use headstart_io::sys::tun::Tun;
use headstart_io::telemetry::{self, Telemetry};
use headstart_io::watchdog::{self, Duty};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::rc::Rc;

/// Version of the summary's format.
const VERSION: u32 = 2;
/// How long the last words of a program that has ended may stand still on their way.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for programs that continue when the forwarder stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long what sockets carry may take to arrive when a program has ended: as long as a peer may take to send its FIN.
const LAST_CARRIED: Duration = Duration::from_millis(200);
/// The longest packet for a profile that has programs send more than the path takes.
const LONG_PACKETS: u32 = 65_535;

/// Who measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MeasuredBy {
    /// A forwarder, through a TUN interface.
    #[default]
    Tun,
    /// Programs in the kernel (eBPF).
    Ebpf,
    /// Programs in the kernel where they work, and the forwarder otherwise.
    Auto,
}

/// What is to be run, and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Who measures.
    pub via: MeasuredBy,
    /// Not a word about what was measured.
    pub quiet: bool,
    /// A file for the summary, as JSON.
    pub summary: Option<&'a Path>,
    /// The summary goes to standard error instead, as JSON.
    pub json: bool,
    /// A file for a JSON line for each connection and lookup.
    pub flows: Option<&'a Path>,
    /// A file for a capture.
    pub pcapng: Option<&'a Path>,
    /// How many bytes of each packet the capture keeps at most; all if none.
    pub snap: Option<usize>,
    /// Whether each request is timed by itself.
    pub request_rtt: bool,
    /// Whether the forwarder sleeps at once where an answer is due.
    pub no_lookout: bool,
    /// A profile of the lab.
    pub profile: Option<&'a str>,
    /// Whether, and how, connections are raced over the addresses of their peer's name.
    pub accelerate: Option<&'a connect::Settings>,
    /// What is to be written for the fleet.
    pub telemetry: Option<&'a telemetry::Settings>,
}

/// Runs the program and measures; its exit code.
pub fn run(args: &Wanted<'_>) -> anyhow::Result<u8> {
    // As long as nothing reads from a pipe that is to be written, opening it can be interrupted: signals are not passed on yet.
    let outputs = Outputs::open(args)?;
    let by = match args.via {
        MeasuredBy::Tun => By::default(),
        via => match kernel::attach(args) {
            Ok(kernel) => return kernel::run(args, outputs, kernel),
            Err(not) if via == MeasuredBy::Auto => By::Forwarder { instead: Some(not.why) },
            Err(not) => {
                return Err(exit::Coded(not.code, format!("--via ebpf: {}", not.why)).into());
            }
        },
    };
    remains::in_two(|release| measured(args, outputs, by, release))
}

/// The same, in the process that forwards.
fn measured(args: &Wanted<'_>, outputs: Outputs, by: By, release: remains::Release) -> anyhow::Result<u8> {
    let name = args.profile.unwrap_or(profile::DEFAULT.name);
    let profile = profile::find(name).map_err(|e| exit::Usage(e.to_string()))?;
    signal::pass_on_to(0).context("handling signals")?;
    let mut command = command(args)?;
    // First of all, while there is one thread: there is no filter without a watchdog.
    let served = Served::begin(&mut command);
    let enclosure = Enclosure::create(profile.claimed_mss.map(|_| LONG_PACKETS))
        .map_err(|e| exit::Coded(exit::NOT_PERMITTED, format!("--measure: {e}")))?;
    let theirs = Theirs::new().context("an event")?;
    let loopback = Loopback::offer(&enclosure.namespace, &theirs);
    if let Err(why) = &loopback {
        args.complain(format_args!("services on loopback addresses are not reachable: {why}"));
    }
    enclosure.namespace.adopt(&mut command).context("preparing the program")?;
    let namespace = enclosure.namespace.id().context("the network namespace")?;
    let scope = (enclosure.namespace.try_clone().context("the network namespace")?, enclosure.addresses.clone());
    let (mut worker, measured, clock) = prepare(enclosure, profile, args, outputs)?;
    measured.borrow_mut().by = by;
    let (mut child, pid) = start(&mut command)?;
    worker.expect(pid);
    raise_limit();
    // As long as this process answers calls; its watchdog does from then on.
    let _duty = match served.and_then(|served| served.carry_calls(&mut worker, scope, theirs)) {
        Ok(duty) => Some(duty),
        Err(why) => {
            args.complain(format_args!("other hosts cannot connect to the program: {why}"));
            None
        }
    };
    let ended = headstart_io::process_end(pid).context("watching the program")?;
    let forwarded = worker.run(&ended, PATIENCE);
    let status = child.wait().context("waiting for the program")?;
    signal::pass_on_to(0).context("handling signals")?;
    forwarded?;
    settle(LAST_CARRIED);
    measured.borrow_mut().looked_out = worker.looked_out();
    measured.borrow_mut().not_carried = worker.forwarder().tally().not_carried;
    measured.borrow_mut().moved = worker.moved().to_vec();
    let left = remains::until_all_have_left(namespace);
    let worker = left.is_some().then_some(worker);
    let is_whole = report(args, &mut measured.borrow_mut(), clock.now());
    // What the program says of itself goes before what is missing here.
    let code = match exit::of_child(status) {
        exit::OK if !is_whole => exit::FAILURE,
        code => code,
    };
    if let (Some(left), Some(mut worker)) = (left, worker) {
        release.go_on_alone(code).context("letting the command end")?;
        let _ = worker.run(&left, LAST_WORDS);
    }
    Ok(code)
}

/// The program, as it is asked for.
fn command(args: &Wanted<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if args.pcapng == Some(Path::new("-")) {
        // Standard output is the capture's.
        let other = rustix::io::dup(rustix::stdio::stderr()).context("leading the program's output elsewhere")?;
        command.stdout(std::process::Stdio::from(other));
    }
    Ok(command)
}

/// A program whose calls of listen(2) and bind(2) are trapped, so that other hosts can call it.
struct Served {
    trap: Trap,
    outstanding: Outstanding,
    duty: Duty,
}

impl Served {
    /// Has `command` trap its calls. Only for a process without further threads.
    fn begin(command: &mut Command) -> anyhow::Result<Self> {
        let outstanding = Outstanding::new()?;
        let trap = Trap::of_serving()?;
        let duty = watchdog::begin(&trap, &outstanding)?;
        trap.set_before(command)?;
        Ok(Self { trap, outstanding, duty })
    }

    /// Has other hosts call it, once it has begun; it has these addresses inside.
    fn carry_calls(
        self,
        worker: &mut Worker,
        (inside, addresses): (NetNs, Vec<IpAddr>),
        theirs: Theirs,
    ) -> anyhow::Result<Duty> {
        let inbound = Inbound::new((self.trap.listener()?, self.outstanding), &inside, addresses, theirs)?;
        worker.carry_calls(inbound)?;
        Ok(self.duty)
    }
}

/// Starts the program, to which signals are passed on from now on; its number.
fn start(command: &mut Command) -> anyhow::Result<(Child, i32)> {
    let child = command.spawn().map_err(|why| exit::Coded::not_executed(command.get_program(), &why))?;
    let pid = i32::try_from(child.id()).context("the child's process id")?;
    signal::pass_on_to(pid).context("handling signals")?;
    Ok((child, pid))
}

/// Forwards what comes out of an interface that somebody else has made, until this process is stopped or the interface is gone.
pub fn forward(tun: Tun, protector: Option<Protector>, args: &Wanted<'_>) -> anyhow::Result<u8> {
    let outputs = Outputs::open(args)?;
    let stop = signal::ending().context("handling signals")?;
    let namespace = NetNs::current().context("the network namespace")?;
    let enclosure = Enclosure { namespace, tun, mtu: None, addresses: Vec::new(), routes: None };
    let (mut worker, measured, clock) = prepare(enclosure, profile::DEFAULT, args, outputs)?;
    match protector {
        Some(protector) => worker.protect(protector),
        None => worker.watch_for_loops(),
    }
    raise_limit();
    match worker.run(&stop, LAST_WORDS) {
        Err(gone) if gone.is_lost() => args.complain(format_args!("{gone}")),
        forwarded => forwarded?,
    }
    measured.borrow_mut().looked_out = worker.looked_out();
    measured.borrow_mut().not_carried = worker.forwarder().tally().not_carried;
    drop(worker);
    let is_whole = report(args, &mut measured.borrow_mut(), clock.now());
    Ok(if is_whole { exit::OK } else { exit::FAILURE })
}

/// The files that are written meanwhile. Opened before signals are kept for the program: a pipe that nothing reads from is waited
/// for, and may be waited for no longer.
struct Outputs {
    lines: Option<File>,
    capture: Option<Capture>,
    telemetry: Option<Telemetry>,
    summary: Option<Destination>,
}

impl Outputs {
    fn open(args: &Wanted<'_>) -> anyhow::Result<Self> {
        let capture_file = args.pcapng.filter(|file| *file != Path::new("-"));
        let summary = Destination::open(args.summary, args.json)?;
        // All of them before one is made.
        args.flows.iter().chain(&capture_file).try_for_each(|file| check_writable(file))?;
        let create = |file: &Path| File::create(file).map_err(|why| exit::Usage::unwritable(file, why));
        let lines = args.flows.map(create).transpose()?;
        let capture = match (args.pcapng, capture_file) {
            (None, _) => None,
            (Some(_), None) => Some(Box::new(std::io::stdout()) as Box<dyn Write>),
            (_, Some(file)) => Some(Box::new(create(file)?) as Box<dyn Write>),
        };
        let capture = capture.map(Capture::begin);
        let named = |why| anyhow::Error::from(why).context(format!("writing a capture to {}", args.capture_name()));
        let telemetry = crate::telemetry::open(args.telemetry, args.quiet);
        let capture = capture.transpose().map_err(named)?;
        Ok(Self { lines, capture, telemetry, summary })
    }
}

/// A forwarder with all that is wanted of it, and what it will have measured by a clock.
fn prepare(
    enclosure: Enclosure,
    profile: &'static profile::Entry,
    args: &Wanted<'_>,
    Outputs { lines, capture, telemetry, summary }: Outputs,
) -> anyhow::Result<(Worker, Rc<RefCell<Measured>>, Clock)> {
    let clock = Clock::new();
    let capture = capture.map(|capture| Rc::new(RefCell::new(capture)));
    let measured = Measured { lines, telemetry, capture: capture.clone(), summary, ..Measured::default() };
    let measured = Rc::new(RefCell::new(measured));
    let sink = Rc::clone(&measured);
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).context("drawing a seed")?;
    let settings = Settings { seed: u64::from_ne_bytes(seed), profile, ..Settings::default() };
    let sink = Box::new(move |seen: Attributed| sink.borrow_mut().take(&seen));
    let mut worker = Worker::new(enclosure, settings, clock, sink)?;
    if let Some(racing) = args.accelerate {
        worker.accelerate(racing.clone());
    }
    if args.request_rtt {
        worker.time_requests();
    }
    if args.no_lookout {
        worker.sleep_at_once();
    }
    if let Err(why) = worker.tell_who_asks(Audience::Owner) {
        args.complain(format_args!("`headstart top` cannot ask: {why}"));
    }
    if let Some(capture) = capture {
        worker.show(tap(capture, args.snap.unwrap_or(usize::MAX), clock));
    }
    Ok((worker, measured, clock))
}

/// A socket for each connection of programs, which have limits of their own.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

impl Wanted<'_> {
    fn capture_name(&self) -> String {
        self.pcapng.map_or_else(String::new, |file| file.display().to_string())
    }

    fn complain(&self, what: std::fmt::Arguments<'_>) {
        if !self.quiet {
            crate::complain!("headstart: {what}");
        }
    }
}

/// Who has measured.
#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// The forwarder; why not the kernel, if that was asked for.
    Forwarder { instead: Option<String> },
    /// Programs in the kernel; records that were lost, and what the programs have cost where the kernel counts it.
    Kernel { lost: u64, ran: Option<Ran> },
}

impl Default for By {
    fn default() -> Self {
        Self::Forwarder { instead: None }
    }
}

impl By {
    fn name(&self) -> &'static str {
        match self {
            Self::Forwarder { .. } => "tun",
            Self::Kernel { .. } => "ebpf",
        }
    }

    fn lost(&self) -> u64 {
        match self {
            Self::Forwarder { .. } => 0,
            Self::Kernel { lost, .. } => *lost,
        }
    }

    fn ran(&self) -> Option<Ran> {
        match self {
            Self::Forwarder { .. } => None,
            Self::Kernel { ran, .. } => *ran,
        }
    }

    /// A line for people, where there was a choice.
    fn line(&self) -> Option<String> {
        match self {
            Self::Forwarder { instead } => instead.as_ref().map(|why| format!("measured by tun, not by ebpf: {why}")),
            Self::Kernel { lost, ran } => {
                let mut line = "measured by ebpf: no packet was carried".to_owned();
                if *lost > 0 {
                    line += &format!("; {} lost", plural(*lost, "record"));
                }
                if let Some(Ran { ns, .. }) = ran {
                    line += &format!("; its programs took {} ms of a processor", round(*ns as f64 / 1e6));
                }
                Some(line)
            }
        }
    }
}

/// What was seen of all.
#[derive(Default)]
struct Measured {
    by: By,
    apps: BTreeMap<String, App>,
    lookups: Vec<f64>,
    /// Requests for an echo, and replies.
    echoes: (u64, u64),
    /// How often the forwarder was awake when an answer came.
    looked_out: u64,
    /// What programs sent and the forwarder does not carry.
    not_carried: NotCarried,
    /// What programs listened on and was reachable by another port, or not at all.
    moved: Vec<Offered>,
    summary: Option<Destination>,
    lines: Option<File>,
    telemetry: Option<Telemetry>,
    capture: Option<Rc<RefCell<Capture>>>,
    /// The first line that could not be written.
    lost: Option<std::io::Error>,
}

impl Measured {
    fn take(&mut self, seen: &Attributed) {
        match &seen.record {
            Record::Flow(flow) => {
                let name = seen.process.as_ref().map_or(UNKNOWN, |process| process.name.as_str());
                self.apps.entry(name.to_owned()).or_default().take(flow);
            }
            // No server was asked.
            Record::Dns(lookup) if lookup.cached => {}
            Record::Dns(lookup) => self.lookups.push(ms(lookup.took)),
            Record::Udp(flow) => {
                let name = seen.process.as_ref().map_or(UNKNOWN, |process| process.name.as_str());
                self.apps.entry(name.to_owned()).or_default().take_udp(flow);
            }
            Record::Echo(flow) => {
                self.echoes.0 += flow.requests;
                self.echoes.1 += flow.replies;
            }
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.seen(seen);
        }
        if let Some(file) = &mut self.lines
            // A line is one call: packets wait meanwhile.
            && let Err(e) = file.write_all(format!("{}\n", line_of(seen)).as_bytes())
        {
            self.lost.get_or_insert(e);
        }
    }
}
