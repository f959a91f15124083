//! The daemon of `headstart up`: makes its changes, keeps them as they should be, answers clients, and undoes them when it
//! ends. Killed, it leaves a journal, by which any process with its rights can undo them (see [`crate::host`]).
//!
//! It sleeps until a client asks, the host's routes change, memories are to be looked at again, or a small segment waits to be
//! bundled; nothing else wakes it.

mod bundling;
pub mod client;
pub mod door;
mod lines;
pub mod measuring;
pub mod message;
pub mod readiness;
pub mod recovery;
mod rights;
pub mod starts;
pub mod windows;

use crate::board::Audience;
use crate::clock::Clock;
use crate::driver::{self, Ears, Hands, Host};
use crate::forward::ebpf::KernelError;
use crate::host::Numbers;
use crate::host::change::Change;
use crate::host::folders::{Folders, FoldersError, Lock};
use crate::host::journal::Steps;
use crate::host::ledger::{Ledger, LedgerError, Report};
use crate::host::{Kernel, occupants};
use crate::poll::{Interest, Poll};
use crate::steer::{Tunnel, TunnelError};
use crate::sys::netlink::Watch;
use crate::sys::signal;
use bundling::Bundling;
use door::{Demand, Door};
use headstart_core::cwnd::initcwnd::Bounds;
use headstart_core::cwnd::rounds::{Changed, Look, Rounds};
use headstart_core::lookout::Lookout;
use headstart_core::machine::{Deadline, Machine, Wakeups};
use headstart_core::time::{Duration, Instant};
use measuring::{Measuring, MeasuringError};
use message::{Answer, Status, Undoing};
use starts::Starts;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use windows::Windows;

/// Most changes that a status lists.
const MOST_LISTED: usize = 256;

const STOP: u64 = 0;
const DOOR: u64 = 1;
const HOST: u64 = 2;
const PACKETS: u64 = 3;
/// The tunnel's three.
const STEERING: u64 = 4;
const STEERED: u64 = STEERING + 2;
const MEASURING: u64 = STEERED + 1;
/// Clients are numbered from 1.
const CLIENTS: u64 = MEASURING;

/// Which initial windows are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Initial {
    /// How careful to be.
    pub bounds: Bounds,
    /// How often they are learned anew.
    pub every: Duration,
    /// By a program in the kernel rather than by routes.
    pub in_kernel: bool,
}

/// What a daemon is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is ours by number.
    pub numbers: Numbers,
    /// Initial windows, if they are wanted.
    pub windows: Option<Initial>,
    /// Whether small segments of thin streams carry those before them again.
    pub bundle: bool,
    /// A tunnel over two channels, and which end of it this is.
    pub steering: Option<(crate::steer::Config, crate::steer::Role)>,
    /// What is measured of this host's programs, if anything is.
    pub measuring: Option<measuring::Wish>,
    /// The group that may ask.
    pub group: Option<String>,
    /// Changes that are made once and stay.
    pub standing: Vec<Change>,
    /// After how many steps of the journal to be killed: for the test that kills it everywhere.
    pub die_at: Option<u32>,
}

/// Why there is no daemon. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another one is up.
    #[error("a daemon is already running in this network namespace{}; `headstart status` shows it, `headstart down` stops it", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Taken {
        /// Its process, if it said so.
        pid: Option<u32>,
    },
    /// Its folders cannot be used.
    #[error("{0}")]
    Folders(#[from] FoldersError),
    /// Another program occupies the place of its changes.
    #[error("these are in headstart's routing table but were not created by headstart, and stay unchanged: {}. Set `host.table` to an unused table", .0.join("; "))]
    Strangers(Vec<String>),
    /// A killed daemon's changes could not be undone. The journal keeps them: a new daemon's would take its place.
    #[error("a daemon that was killed here has left changes that cannot be undone: {}. Fix the causes, then run `headstart \
             recover`", .0.join("; "))]
    Leftovers(Vec<String>),
    /// What bears our marks is there, and no journal names it.
    #[error("these were made by headstart but are in no journal: {}. `headstart recover --found` removes them", .0.join("; "))]
    Unrecorded(Vec<String>),
    /// A change was not made, and some before it could not be undone; they are in the journal.
    #[error("{why}; and these could not be undone: {}. Fix the causes, then run `headstart recover`", .left.join("; "))]
    Halfway {
        /// Why the change was not made.
        why: LedgerError,
        /// What could not be undone.
        left: Vec<String>,
    },
    /// A change was not made. Those before it are undone.
    #[error("{0}")]
    Ledger(#[from] LedgerError),
    /// The tunnel could not be opened.
    #[error("{0}")]
    Tunnel(#[from] TunnelError),
    /// The kernel does not take a program.
    #[error("{0}")]
    Kernel(#[from] KernelError),
    /// Nothing can be measured.
    #[error("{0}")]
    Measuring(#[from] MeasuringError),
    /// The socket could not be made.
    #[error("{path}: {source}")]
    Door {
        /// Where.
        path: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anything else.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl DaemonError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::Folders(e) => e.is_not_permitted(),
            Self::Ledger(e) => e.is_not_permitted(),
            Self::Tunnel(e) => e.is_not_permitted(),
            Self::Measuring(e) => e.is_not_permitted(),
            Self::Kernel(e) => e.is_not_permitted(),
            _ => false,
        }
    }
}

/// A daemon whose changes are made, and which listens.
#[derive(Debug)]
pub struct Daemon {
    ledger: Ledger,
    windows: Option<Windows>,
    starts: Option<Starts>,
    every: Option<Duration>,
    bundling: Option<Bundling>,
    steering: Option<Tunnel>,
    measuring: Option<Measuring>,
    watch: Watch,
    door: Door,
    lock: Lock,
    /// Where it writes as long as it runs.
    folders: [PathBuf; 2],
    clock: Clock,
    problem: Option<String>,
    /// What has ended before its time.
    lost: Option<String>,
    /// How often it has woken up, by cause.
    wakeups: Wakeups,
}

/// What a daemon that was just made found.
#[derive(Debug, Default)]
pub struct Begun {
    /// What a dead one had left was undone first.
    pub recovered: Option<Report>,
}

impl Daemon {
    /// Undoes what a dead one left, makes all changes and listens. If anything fails, everything is undone.
    pub fn begin(folders: &Folders, settings: Settings) -> Result<(Self, Begun), DaemonError> {
        folders.prepare()?;
        let lock = folders.lock()?.map_err(|pid| DaemonError::Taken { pid })?;
        folders.sweep();
        let recovered = recovered(folders, &lock, settings.numbers)?;
        // From before the first change, so that none is missed.
        let watch = Watch::open_with_rules().map_err(io::Error::other)?;
        let clock = Clock::new();
        let path = folders.socket();
        // Gone with this process, whatever ends it: no journal need name it.
        let open = |(config, role): &(_, _)| Tunnel::open(config, *role, clock, &folders.state);
        let steering = settings.steering.as_ref().map(open).transpose()?;
        let measuring = settings.measuring.as_ref().map(Measuring::open).transpose()?;
        let starts =
            settings.windows.filter(|wish| wish.in_kernel).map(|wish| Starts::attach(wish.bounds)).transpose()?;
        let door = Door::open(&path, settings.group.as_deref());
        let door = door.map_err(|source| DaemonError::Door { path, source })?;
        match make_changes(folders, &settings, (clock, &lock), measuring.as_ref()) {
            Ok((ledger, windows, bundling)) => {
                let mut daemon = Self {
                    ledger,
                    windows,
                    starts,
                    every: settings.windows.map(|wish| wish.every),
                    bundling,
                    steering,
                    measuring,
                    watch,
                    door,
                    lock,
                    folders: [folders.state.clone(), folders.runtime.clone()],
                    clock,
                    problem: None,
                    lost: None,
                    wakeups: Wakeups::default(),
                };
                daemon.refresh_starts();
                Ok((daemon, Begun { recovered }))
            }
            Err(why) => {
                door.close();
                Err(why)
            }
        }
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let problems = self.problem.clone().into_iter().chain(self.lost.clone());
        let problems = problems.chain(self.measuring.as_ref().and_then(Measuring::problem));
        let problems = problems.chain(self.starts.as_ref().and_then(Starts::problem));
        let problems = problems.chain(self.windows.iter().flat_map(Windows::problems)).collect();
        let known = self.windows.as_ref().map(Windows::peers);
        let changes: Vec<_> = self.ledger.changes().take(MOST_LISTED).map(Change::to_string).collect();
        Status {
            pid: std::process::id(),
            up_ms: u64::try_from(self.clock.now().since(Instant::ZERO).as_millis()).unwrap_or(u64::MAX),
            wakeups: message::but_for_packets(&self.wakeups),
            causes: self.wakeups.named(),
            omitted: self.ledger.changes().len() - changes.len(),
            changes,
            initial_windows: known.or_else(|| self.starts.as_ref().map(Starts::peers)),
            starts: self.starts.as_ref().and_then(Starts::tally),
            bundling: self.bundling.as_ref().map(Bundling::tally),
            steering: self.steering.as_ref().map(Tunnel::status),
            measuring: self.measuring.as_ref().map(Measuring::status),
            problems,
        }
    }

    /// Serves until a signal or an authorised client stops it, or until it cannot go on; then undoes everything. `up` is called
    /// when it serves, `say` with problems. The caller has blocked the signals (see [`signal::ending`]) before it began.
    pub fn serve(mut self, up: impl FnOnce(), say: impl FnMut(&str)) -> Result<Report, DaemonError> {
        let ended = self.attend_all(up, say);
        let report = self.end();
        if let (Ok(Some(client)), Ok(report)) = (&ended, &report) {
            door::answer(client, Answer::Down(Undoing::from(report)));
        }
        ended?;
        report
    }

    /// Undoes everything.
    pub fn end(mut self) -> Result<Report, DaemonError> {
        let report = self.ledger.undo_all();
        // Nothing more is led there.
        if let Some(measuring) = self.measuring.take() {
            measuring.end();
        }
        // Those that were handed over before the rule was gone; the next would be dropped with the queue.
        self.bundling.as_mut().and_then(Bundling::serve);
        self.door.close();
        Ok(report?)
    }

    /// Serves until the end is wanted: by which client, if not by a signal.
    fn attend_all(&mut self, up: impl FnOnce(), say: impl FnMut(&str)) -> io::Result<Option<OwnedFd>> {
        // Here, in the process that reads it: a descriptor of signals belongs to the process that listens to it.
        let stop = signal::ending()?;
        self.lock.note_holder();
        let poll = Poll::new()?;
        poll.add(&stop, STOP, Interest::Read)?;
        poll.add(self.door.listener(), DOOR, Interest::Read)?;
        poll.add(&self.watch, HOST, Interest::Read)?;
        if let Some(bundling) = &self.bundling {
            poll.add(bundling, PACKETS, Interest::Read)?;
        }
        if let Some(tunnel) = &self.steering {
            tunnel.listen(&poll, STEERING)?;
        }
        if let Some(measuring) = &mut self.measuring {
            // A tunnel opens sockets as links come and go.
            if measuring.is_in_kernel() && self.steering.is_none() {
                let folders = self.folders.iter().map(PathBuf::as_path).chain(measuring.folder());
                let kept = rights::keep_what_is_needed(folders);
                kept.map_err(|e| io::Error::new(e.kind(), format!("giving up rights that are not needed: {e}")))?;
            }
            measuring.start(Audience::Host { group: self.door.group() })?;
            poll.add(&*measuring, MEASURING, Interest::HangUp)?;
        }
        let rounds = Rounds::new(self.clock.now(), self.every);
        up();
        driver::serve(&mut Attendance { daemon: self, poll, lookout: Lookout::default(), rounds, say })
    }

    /// Hears a client; its connection if it wants the end and may have it.
    fn attend(&mut self, number: u64) -> Option<OwnedFd> {
        match self.door.read_request(number)? {
            (client, Demand::Down) => Some(client),
            (client, Demand::Status) => {
                door::answer(&client, Answer::Status(Box::new(self.status())));
                None
            }
        }
    }

    /// Lets clients in, and listens to them.
    fn answer_the_door(&mut self, poll: &Poll) -> io::Result<()> {
        let (came, sent_away) = self.door.admit();
        sent_away.iter().for_each(|client| poll.remove(client));
        for number in came {
            if let Some(client) = self.door.client(number) {
                poll.add(client, CLIENTS + number, Interest::Read)?;
            }
        }
        Ok(())
    }

    /// Tells the program in the kernel what is known now.
    fn refresh_starts(&mut self) {
        let Some(starts) = &mut self.starts else { return };
        if let Err(why) = starts.refresh(self.ledger.kernel()) {
            // What it knows stays; the next round tries again.
            self.problem = Some(why.to_string());
        }
    }

    fn refresh(&mut self, now: Instant, say: &mut impl FnMut(&str)) {
        let before = self.problem.take();
        self.refresh_starts();
        let Some(windows) = &mut self.windows else { return };
        if let Err(why) = windows.refresh(now, &mut self.ledger) {
            // What is there stays, and is in the journal; the next round tries again.
            let why = why.to_string();
            if before.as_ref() != Some(&why) {
                say(&why);
            }
            self.problem = Some(why);
        }
    }
}

/// Undoes what a dead daemon has left; an error if there is something that a new one's journal must not hide.
fn recovered(folders: &Folders, lock: &Lock, numbers: Numbers) -> Result<Option<Report>, DaemonError> {
    let recovered = recovery::recover_under(folders, lock, numbers, false)?;
    if !recovered.failed.is_empty() {
        return Err(DaemonError::Leftovers(recovered.failed));
    }
    if !recovered.found.is_empty() {
        return Err(DaemonError::Unrecorded(recovered.found));
    }
    let mut kernel = Kernel::open().map_err(LedgerError::from)?;
    let strangers = occupants(&mut kernel, numbers).map_err(LedgerError::from)?.strangers;
    if !strangers.is_empty() {
        return Err(DaemonError::Strangers(strangers));
    }
    Ok(recovered.had_record.then_some(recovered))
}

/// What has come of the changes: the record of them, and what keeps them.
type Made = (Ledger, Option<Windows>, Option<Bundling>);

/// Makes all changes; if one of them fails, those before it are undone.
fn make_changes(
    folders: &Folders,
    settings: &Settings,
    (clock, lock): (Clock, &Lock),
    measuring: Option<&Measuring>,
) -> Result<Made, DaemonError> {
    let steps = Steps::until(settings.die_at);
    let mut ledger = Ledger::begin(folders.journal(), folders.here.clone(), lock.file().try_clone()?, steps)?;
    let by_routes = settings.windows.filter(|wish| !wish.in_kernel);
    let mut windows = by_routes.map(|wish| Windows::new(wish.bounds, settings.numbers));
    // Bundling listens before anything is handed over.
    let bundling = settings.bundle.then(|| Bundling::open(clock)).transpose().map_err(LedgerError::from)?;
    let standing = settings.standing.iter().cloned().chain(bundling.as_ref().map(Bundling::change));
    let captured = measuring.map(|measuring| measuring.changes(settings.numbers));
    let mut changes = standing.chain(captured.into_iter().flatten());
    let made = changes.try_for_each(|change| ledger.make(&change).map(drop));
    let refreshed = made.and_then(|()| match &mut windows {
        Some(windows) => windows.refresh(clock.now(), &mut ledger),
        None => Ok(()),
    });
    let Err(why) = refreshed else { return Ok((ledger, windows, bundling)) };
    let Report { failed, .. } = ledger.undo_all()?;
    if failed.is_empty() { Err(why.into()) } else { Err(DaemonError::Halfway { why, left: failed }) }
}

/// A daemon while it serves.
struct Attendance<'a, S> {
    daemon: &'a mut Daemon,
    poll: Poll,
    lookout: Lookout,
    rounds: Rounds,
    say: S,
}

impl<S: FnMut(&str)> Hands for Attendance<'_, S> {
    type Machine = Rounds;

    fn machine(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    fn act(&mut self, now: Instant, Look: Look) {
        self.daemon.refresh(now, &mut self.say);
    }
}

impl<S: FnMut(&str)> Host for Attendance<'_, S> {
    type Ended = Option<OwnedFd>;
    type Error = io::Error;

    fn ears(&mut self) -> Ears<'_> {
        let Daemon { clock, wakeups, .. } = &mut *self.daemon;
        Ears { clock: *clock, poll: &mut self.poll, lookout: Some(&mut self.lookout), wakeups }
    }

    fn cause(token: u64) -> &'static str {
        match token {
            STOP => "stop",
            HOST => "host",
            PACKETS..=STEERED => message::PACKETS,
            MEASURING => "forwarder",
            _ => "control",
        }
    }

    fn deadline(&mut self, _: Instant) -> Option<Deadline> {
        Deadline::earliest([self.rounds.poll_timeout(), self.daemon.steering.as_ref().and_then(Tunnel::deadline)])
    }

    fn passed(&mut self) -> Option<usize> {
        self.daemon.steering.as_mut().and_then(Tunnel::passed)
    }

    fn woken(&mut self, tokens: &[u64]) -> io::Result<Option<Option<OwnedFd>>> {
        let Self { daemon, poll, say, .. } = self;
        if let Some(tunnel) = &mut daemon.steering {
            for token in tokens.iter().filter(|token| (STEERING..=STEERED).contains(*token)) {
                tunnel.ready(token - STEERING);
            }
            tunnel.timeout();
        }
        if tokens.contains(&PACKETS)
            && let Some(bundling) = &mut daemon.bundling
            && let Some(why) = bundling.serve()
        {
            say(&why);
            poll.remove(&*bundling);
        }
        if tokens.contains(&MEASURING)
            && let Some(measuring) = &mut daemon.measuring
        {
            poll.remove(&*measuring);
            let why = measuring.ended();
            say(&why);
            daemon.lost = Some(why);
        }
        if tokens.contains(&STOP) {
            return Ok(Some(None));
        }
        if tokens.contains(&DOOR) {
            daemon.answer_the_door(poll)?;
        }
        let mut clients = tokens.iter().filter(|token| **token > CLIENTS).map(|token| token - CLIENTS);
        if let Some(client) = clients.find_map(|number| daemon.attend(number)) {
            return Ok(Some(Some(client)));
        }
        let now = daemon.clock.now();
        if tokens.contains(&HOST) && daemon.watch.changed() {
            self.feed(now, Changed);
        }
        self.wake(now);
        Ok(None)
    }
}
