//! Reads what the programs tell, on a thread that sleeps while nothing ends and no question comes.

use super::programs::{Cost, KernelError, Pairs, Programs, Ran};
use crate::board::Audience;
use crate::cgroup::Belongings;
use crate::clock::Clock;
use crate::driver::{self, Ears, Host};
use crate::forward::board::Board;
use crate::forward::owner::{Owner, Process};
use crate::forward::seen::{Attributed, Sink};
use crate::forward::window::Window;
use crate::forward::worker::WorkerError;
use crate::poll::{Interest, Poll};
use aya::maps::{MapData, RingBuf};
use headstart_core::forward::kernel::{Event, FLOW, PAIR, Reader, Whose};
use headstart_core::forward::{Flow, Record, UdpFlow};
use headstart_core::machine::{Deadline, Wakeups};
use headstart_core::time::{Duration, Instant};
use rustix::time::{ClockId, clock_getres, clock_gettime};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

/// What is listened to.
const RING: u64 = 0;
const STOP: u64 = 1;
const BOARD: u64 = 2;
/// How long connections of a program that has ended may take to end themselves: as the forwarder waits for peers.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Records that are read at once, more than the ring holds: what fills it meanwhile waits for the next look.
const MOST_AT_ONCE: usize = 1 << 16;
/// Pairs of ends beyond which those that were silent for longest are reported and forgotten: half of what the kernel's table takes.
const MOST_PAIRS: usize = 8192;

/// See the module.
pub struct Watcher {
    programs: Programs,
    cost: Option<Cost>,
    ring: RingBuf<MapData>,
    pairs: Pairs,
    /// The keys of each socket's pairs, and how many there are.
    peers: BTreeMap<u64, Vec<[u8; PAIR]>>,
    paired: usize,
    reader: Reader,
    groups: RefCell<Belongings>,
    clock: Clock,
    poll: Poll,
    wakeups: Wakeups,
    window: Option<Window>,
    sink: Sink,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl Watcher {
    /// Reads what `programs` tell; times are those of `clock`.
    pub fn new(mut programs: Programs, clock: Clock, sink: Sink) -> Result<Self, KernelError> {
        let (ring, pairs) = (programs.ring()?, programs.pairs()?);
        let poll = Poll::new().map_err(|e| KernelError::io("listening", &e))?;
        poll.add(&ring, RING, Interest::Read).map_err(|e| KernelError::io("listening to the ring", &e))?;
        let time = clock_gettime(ClockId::Monotonic);
        let kernel = Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
        // The coarse clock moves once a jiffy.
        let tick = Duration::from_nanos(u64::try_from(clock_getres(ClockId::MonotonicCoarse).tv_nsec).unwrap_or(0));
        let age = clock.now().since(Instant::ZERO);
        let origin = u64::try_from(kernel.saturating_sub(age).as_nanos()).unwrap_or(0);
        Ok(Self {
            cost: programs.cost().ok(),
            programs,
            ring,
            pairs,
            peers: BTreeMap::new(),
            paired: 0,
            reader: Reader::new(origin, tick),
            groups: RefCell::default(),
            clock,
            poll,
            wakeups: Wakeups::default(),
            window: None,
            sink,
        })
    }

    /// Answers programs of this user that ask how it stands, and of the audience, from now on (see [`board`](crate::forward::board)).
    pub fn tell_who_asks(&mut self, audience: Audience) -> std::io::Result<()> {
        let window = Window::open(audience)?;
        if let Some(listener) = &window.listener {
            self.poll.add(listener, BOARD, Interest::Read)?;
        }
        self.window = Some(window);
        Ok(())
    }

    /// Reads until `stop` can be read; then what is still open is recorded as it is, once connections had a moment to end.
    pub fn run(&mut self, stop: impl AsFd) -> Result<(), WorkerError> {
        self.poll.add(&stop, STOP, Interest::Read)?;
        driver::serve(&mut Running { watcher: self, stop: stop.as_fd(), stopping: None })
    }

    /// Records that the ring had no room for, and pairs of ends that the table had none for.
    pub fn lost(&self) -> Result<[u64; 2], KernelError> {
        self.programs.lost()
    }

    /// How often the programs have run so far, and for how long; none where the kernel does not count it.
    pub fn ran(&self) -> Option<Ran> {
        self.cost.as_ref().map(Cost::read)
    }

    /// Takes what is in the ring.
    fn read(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Some(event) = self.ring.next().map(|record| self.reader.event(&record)) else { return };
            match event {
                Some(Event::Record(record, whose)) => self.tell(record, whose),
                Some(Event::Answered(exchanges, whose)) => {
                    exchanges.into_iter().for_each(|exchange| self.tell(Record::Dns(exchange), whose.clone()));
                }
                Some(Event::Peer { socket, key }) => self.meet(socket, key),
                Some(Event::Closed { socket }) => {
                    let peers = self.peers.remove(&socket).unwrap_or_default();
                    self.paired -= peers.len();
                    peers.into_iter().for_each(|key| self.part(&key));
                }
                Some(Event::Nothing) | None => {}
            }
        }
    }

    /// A socket speaks to one more peer.
    fn meet(&mut self, socket: u64, key: [u8; PAIR]) {
        self.peers.entry(socket).or_default().push(key);
        self.paired += 1;
        if self.paired > MOST_PAIRS {
            let mut all: Vec<_> = self.open_datagrams();
            all.sort_by_key(|(_, flow, _)| flow.last());
            let over: BTreeSet<_> = all.into_iter().take(MOST_PAIRS / 4).map(|(key, ..)| key).collect();
            over.iter().for_each(|key| self.part(key));
            self.peers.values_mut().for_each(|keys| keys.retain(|key| !over.contains(key)));
            self.peers.retain(|_, keys| !keys.is_empty());
            self.paired = self.peers.values().map(Vec::len).sum();
        }
    }

    /// Datagrams between two ends are over.
    fn part(&mut self, key: &[u8; PAIR]) {
        let kept = self.pairs.get(key, 0).ok();
        let _ = self.pairs.remove(key);
        if let Some((flow, whose)) = kept.and_then(|kept| self.reader.datagrams(&kept)) {
            self.tell(Record::Udp(Box::new(flow)), whose);
        }
    }

    fn process(&self, whose: Whose) -> Option<Process> {
        let group = || self.groups.borrow_mut().of(whose.cgroup);
        (whose.pid > 0).then(|| Process { pid: whose.pid, group: group(), name: whose.name, fd: -1 })
    }

    fn tell(&mut self, record: Record, whose: Whose) {
        let owner = (whose.pid > 0).then_some(Owner { user: whose.user, inode: 0 });
        let seen = Attributed { record, owner, process: self.process(whose) };
        if let Some(window) = &mut self.window {
            window.take(&seen);
        }
        (self.sink)(seen);
    }

    fn open_flows(&self) -> Vec<(Flow, Whose)> {
        let all = self.programs.flows().unwrap_or_default();
        all.chunks(FLOW).filter_map(|flow| self.reader.flow(flow)).collect()
    }

    fn open_datagrams(&self) -> Vec<([u8; PAIR], UdpFlow, Whose)> {
        let read = |key: &[u8; PAIR]| {
            let (flow, whose) = self.reader.datagrams(&self.pairs.get(key, 0).ok()?)?;
            Some((*key, flow, whose))
        };
        self.peers.values().flatten().filter_map(read).collect()
    }

    fn record_open(&mut self) {
        for (flow, whose) in self.open_flows() {
            self.tell(Record::Flow(Box::new(flow)), whose);
        }
        self.paired = 0;
        let keys: Vec<_> = std::mem::take(&mut self.peers).into_values().flatten().collect();
        keys.iter().for_each(|key| self.part(key));
    }

    fn asked(&self, now: Instant) {
        let Some(window) = &self.window else { return };
        window.answer(|part| {
            let (mut flows, mut datagrams) = (self.open_flows(), self.open_datagrams());
            let is_seen = |whose: &Whose| part.has((whose.pid > 0).then_some(whose.user));
            flows.retain(|(_, whose)| is_seen(whose));
            datagrams.retain(|(.., whose)| is_seen(whose));
            let age = |since| now.since(since).as_secs_f64() * 1e3;
            let flows: Vec<_> = flows.into_iter().map(|(flow, whose)| (flow, self.process(whose))).collect();
            let lines = flows.iter().map(|(flow, process)| (flow, process.as_ref(), age(flow.asked)));
            let udp = datagrams.iter().map(|(_, flow, whose)| (flow, self.process(whose.clone()), age(flow.began)));
            let lost = self.lost().map_or(0, |lost| lost.iter().sum());
            let board = part.tallies.board(lines, udp);
            let (at_ms, wakeups) = (now.as_millis_f64(), self.wakeups.named());
            let ran = self.ran();
            Board { at_ms, lost, ran, wakeups, via: "ebpf".into(), ..board }
        });
    }
}

/// A watcher that reads until it is stopped.
struct Running<'a> {
    watcher: &'a mut Watcher,
    stop: BorrowedFd<'a>,
    /// When it ends at the latest, once it is to.
    stopping: Option<Instant>,
}

impl Host for Running<'_> {
    type Ended = ();
    type Error = WorkerError;

    fn ears(&mut self) -> Ears<'_> {
        let Watcher { clock, poll, wakeups, .. } = &mut *self.watcher;
        Ears { clock: *clock, poll, lookout: None, wakeups }
    }

    fn cause(token: u64) -> &'static str {
        if token == RING { "something has ended" } else { "control" }
    }

    fn deadline(&mut self, _: Instant) -> Option<Deadline> {
        self.stopping.map(|at| Deadline { at, why: "the end" })
    }

    fn woken(&mut self, tokens: &[u64]) -> Result<Option<()>, WorkerError> {
        let watcher = &mut *self.watcher;
        let now = watcher.clock.now();
        watcher.read();
        if tokens.contains(&BOARD) {
            watcher.asked(now);
        }
        if tokens.contains(&STOP) {
            watcher.poll.remove(self.stop);
            // Not from each record on: others than the program have connections and lookups too, and never end.
            self.stopping = Some(now + LAST_WORDS);
        }
        let Some(until) = self.stopping else { return Ok(None) };
        if now < until && !watcher.open_flows().is_empty() {
            return Ok(None);
        }
        // What has ended since it was looked.
        watcher.read();
        watcher.record_open();
        Ok(Some(()))
    }
}
