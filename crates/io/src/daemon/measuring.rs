//! What this host's programs send, led through a forwarder and measured: the interface, what leads there, and the thread that
//! forwards. Whatever ends the process ends the interface and its routes; the journal undoes the rest. Or it is measured in the kernel
//! (docs/decisions/0088): then nothing leads anywhere, and whatever ends the process detaches all that there is.

use super::lines::{Lines, Missing};
use crate::board::Audience;
use crate::cgroup;
use crate::clock::Clock;
use crate::forward::ebpf::{Cost, KernelError, Programs, Ran, Watcher};
use crate::forward::{Enclosure, EnclosureError, Sink, Worker, device, line_of};
use crate::host::change::capture::{Capture, MARK, OWN_MARK};
use crate::host::change::{Change, route, rule};
use crate::host::{Numbers, PROTOCOL};
use crate::telemetry::{self, Telemetry};
use headstart_core::connect::Settings as Racing;
use headstart_core::forward::Settings as Forwarding;
use headstart_core::time::Duration;
use headstart_core::wire::netlink::{AF_INET, AF_INET6, Route};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

/// How long what programs said last may stand still on its way when the daemon ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Whether programs in the kernel measure (eBPF), all programs of the host.
    pub in_kernel: bool,
    /// The captured networks: addresses with prefix lengths. None means all: the default route is captured.
    pub to: Vec<(IpAddr, u8)>,
    /// A file to which a JSON line is added for each connection and lookup.
    pub lines: Option<PathBuf>,
    /// Whether, and how, connections are raced over the addresses of their peer's name.
    pub racing: Option<Racing>,
    /// Whether the forwarder polls for answers that are due, rather than sleeping at once.
    pub looks_out: bool,
    /// What is written for the fleet.
    pub telemetry: Option<telemetry::Settings>,
}

/// How it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The interface; none where programs in the kernel measure.
    pub interface: String,
    /// The way of measuring: `tun` or `ebpf`.
    #[serde(default)]
    pub via: String,
    /// What is captured: networks, or `default`.
    pub captured: Vec<String>,
    /// Whether connections are raced over the addresses of their peer's name.
    #[serde(default)]
    pub accelerated: bool,
    /// Whether a forwarder polls for answers that are due (`--no-lookout`).
    #[serde(default)]
    pub looks_out: bool,
    /// What programs in the kernel have cost so far; none where a forwarder measures.
    #[serde(default)]
    pub ran: Option<Ran>,
}

/// Why it cannot be.
#[derive(Debug, thiserror::Error)]
pub enum MeasuringError {
    /// The interface.
    #[error("{0}")]
    Device(#[from] EnclosureError),
    /// The kernel.
    #[error("{0}")]
    Kernel(#[from] KernelError),
    /// The file for lines.
    #[error("{path} (a line for each connection): {source}")]
    Lines {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The thread, or its ends.
    #[error("starting the forwarder: {0}")]
    Start(#[from] io::Error),
}

impl MeasuringError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::Device(e) => e.is_not_permitted(),
            Self::Kernel(e) => e.is_not_permitted(),
            Self::Lines { source, .. } | Self::Start(source) => source.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

/// What packets are led to, or what looks at them.
enum By {
    /// A forwarder behind an interface.
    Forwarder(Enclosure),
    /// Programs in the kernel.
    Kernel(Programs),
}

/// See the module.
pub(super) struct Measuring {
    wish: Wish,
    missing: Missing,
    /// The interface's number, if there is one.
    index: Option<u32>,
    /// What programs in the kernel cost.
    cost: Option<Cost>,
    /// The measurer and the file, until the thread has them.
    parts: Option<(By, Option<Lines>)>,
    /// Ends when this end is closed; tells by its own end that the thread has ended.
    rope: UnixStream,
    far: Option<UnixStream>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl std::fmt::Debug for Measuring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measuring").field("wish", &self.wish).finish_non_exhaustive()
    }
}

impl Measuring {
    /// Makes the interface, which takes nothing yet.
    pub fn open(wish: &Wish) -> Result<Self, MeasuringError> {
        let missing = Missing::default();
        let lines = wish.lines.as_ref().map(|path| {
            let opened = Lines::open(path, missing.clone());
            opened.map_err(|source| MeasuringError::Lines { path: path.clone(), source })
        });
        let lines = lines.transpose()?;
        let mut cost = None;
        let (by, index) = if wish.in_kernel {
            let mut programs = Programs::attach(cgroup::whole_host()?)?;
            programs.see_what_runs()?;
            // Where the kernel does not count, it is not known.
            cost = programs.cost().ok();
            (By::Kernel(programs), None)
        } else {
            let (device, index) = device::create()?;
            (By::Forwarder(device), Some(index))
        };
        let (rope, far) = UnixStream::pair()?;
        Ok(Self {
            wish: wish.clone(),
            missing,
            index,
            cost,
            parts: Some((by, lines)),
            rope,
            far: Some(far),
            thread: None,
        })
    }

    /// What leads there, if it leads anywhere: routes of a table of their own, a rule a family, and last what marks. Undone from the last to the first.
    pub fn changes(&self, numbers: Numbers) -> Vec<Change> {
        let Some(index) = self.index else { return Vec::new() };
        let numbers = numbers.of_captured();
        let wanted = |v4: bool| self.wish.to.is_empty() || self.wish.to.iter().any(|(ip, _)| ip.is_ipv4() == v4);
        let has_six = std::path::Path::new("/proc/sys/net/ipv6/conf").join(device::NAME).exists();
        let families = [(AF_INET, wanted(true)), (AF_INET6, wanted(false) && has_six)];
        let mut changes = Vec::new();
        for (family, _) in families.into_iter().filter(|(_, wanted)| *wanted) {
            let route = Route::everything(family, index, numbers.table, PROTOCOL);
            changes.push(Change::Route(route::Route::new(&route)));
            changes.push(Change::Rule(rule::Rule::new(family, numbers).with_mark(MARK)));
        }
        changes.push(Change::Capture(Capture::new(self.wish.to.clone())));
        changes
    }

    /// Whether programs in the kernel measure.
    pub fn is_in_kernel(&self) -> bool {
        self.wish.in_kernel
    }

    /// Where it writes files for the fleet, if it does.
    pub fn folder(&self) -> Option<&Path> {
        self.wish.telemetry.as_ref().map(|wanted| wanted.folder.as_path())
    }

    /// Begins, in a thread: to be called in the process that stays. From then on the audience can ask what is measured.
    pub fn start(&mut self, audience: Audience) -> io::Result<()> {
        let (Some((by, mut lines)), Some(far)) = (self.parts.take(), self.far.take()) else { return Ok(()) };
        // A socket for each connection of all programs.
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        let (racing, looks_out) = (self.wish.racing.clone(), self.wish.looks_out);
        // Not to be had, it costs nothing else.
        let mut telemetry = self.wish.telemetry.as_ref().and_then(|wanted| Telemetry::open(wanted).ok());
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let (up, is_up) = mpsc::channel();
        let work = move || {
            let sink: Sink = Box::new(move |seen| {
                if let Some(telemetry) = &mut telemetry {
                    telemetry.seen(&seen);
                }
                if let Some(lines) = &mut lines {
                    lines.add(&line_of(&seen).to_string());
                }
            });
            let device = match by {
                By::Forwarder(device) => device,
                By::Kernel(programs) => return watch(programs, sink, audience, &far, &up),
            };
            let settings = Forwarding { seed: u64::from_ne_bytes(seed), ..Forwarding::default() };
            let mut worker = Worker::new(device, settings, Clock::new(), sink).map_err(|e| e.to_string())?;
            worker.mark(OWN_MARK);
            if let Some(racing) = racing {
                worker.accelerate(racing);
            }
            if !looks_out {
                worker.sleep_at_once();
            }
            worker.tell_who_asks(audience).map_err(|e| e.to_string())?;
            let _ = up.send(());
            worker.run(&far, PATIENCE).map_err(|e| e.to_string())
        };
        self.thread = Some(std::thread::Builder::new().name("forwarder".into()).spawn(work)?);
        is_up.recv().map_err(|_| io::Error::other(self.ended()))
    }

    /// Why the thread has ended without a request.
    pub fn ended(&mut self) -> String {
        let why = self.thread.take().map(JoinHandle::join);
        let why = match why {
            Some(Ok(Err(why))) => why,
            Some(Err(_)) => "it has died".into(),
            _ => "it has ended".into(),
        };
        format!("measuring has stopped, and programs connect directly: {why}")
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let captured = self.wish.to.iter().map(|(ip, bits)| format!("{ip}/{bits}")).collect();
        let captured = if self.wish.to.is_empty() { vec!["default".into()] } else { captured };
        let (interface, via) = if self.wish.in_kernel { ("", "ebpf") } else { (device::NAME, "tun") };
        let accelerated = self.wish.racing.is_some();
        let ran = self.cost.as_ref().map(Cost::read);
        let looks_out = self.wish.looks_out && !self.wish.in_kernel;
        Status { interface: interface.into(), via: via.into(), captured, accelerated, looks_out, ran }
    }

    /// What is wrong with the file of lines, if something is.
    pub fn problem(&self) -> Option<String> {
        self.missing.problem(self.wish.lines.as_ref()?)
    }

    /// Ends the thread, when nothing is led there any more.
    pub fn end(self) {
        drop(OwnedFd::from(self.rope));
        if let Some(thread) = self.thread {
            let _ = thread.join();
        }
    }
}

/// Reads what programs in the kernel tell until `end` can be read.
fn watch(programs: Programs, sink: Sink, audience: Audience, end: &UnixStream, up: &Sender<()>) -> Result<(), String> {
    let mut watcher = Watcher::new(programs, Clock::new(), sink).map_err(|e| e.to_string())?;
    watcher.tell_who_asks(audience).map_err(|e| e.to_string())?;
    let _ = up.send(());
    watcher.run(end).map_err(|e| e.to_string())
}

impl AsFd for Measuring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rope.as_fd()
    }
}
