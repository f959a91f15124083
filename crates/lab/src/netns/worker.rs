//! The emulator's thread among its ports, AF_PACKET sockets, which plays the link models in real time.
//!
//! Packets carry logical time: they arrive when the kernel had them (its receive timestamp), the models decide when they
//! are due, and a late release shifts nothing behind it. The thread sleeps until shortly before the next release and spins
//! from there, as long as it gets enough sleep: so long before as it has been late to wake lately, 60 us at most. Nothing ever leaves early. Among ports for fast links, where something is
//! always due soon, it spins for a small part of the time only: the hosts need the processor too. It accounts for its
//! own lateness (see `certificate`).

use super::certificate::Tally;
use super::frame::ETHERNET;
use super::gather::Gather;
use super::parcel::{Frame, Parcel, Pool};
use super::record::Recorder;
use super::super_packet::Headers;
use super::switch::{Gone, Peers, Port, Release, Switch, Verdict, Why};
use crate::lock;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::{Clock, SPIN, thread_time};
use headstart_io::sys::netlink::Mac;
use headstart_io::sys::packet::{BATCH, Departing, PacketSocket};
use headstart_io::sys::schedule;
use headstart_link::medium::Way;
use headstart_link::{DuplexSpec, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Lowest real-time priority that is still above every ordinary thread; the emulator needs no more.
const PRIORITY: i32 = 1;
/// Probes that measure the bias; the first few warm up caches and are not counted.
const PROBES: (u32, u32) = (8, 64);
/// Time between probes: long enough that the thread really goes to sleep in between.
const PROBE_GAP: Duration = Duration::from_micros(500);
/// Without real-time priority: shortest turn that the kernel grants, for the quickest wake-ups.
const TURN: Duration = Duration::from_micros(100);
/// The kernel stops a real-time thread for 50 ms if it was awake for 95 % of a second, and disfavours an ordinary one. So a
/// thread that has been awake for this long naps, whatever is due.
const AWAKE: Duration = Duration::from_millis(5);
/// The nap: long enough to be one, short of the lateness that is always tolerated.
const NAP: Duration = Duration::from_micros(100);
/// What each part asleep makes good for: at least one part in eleven is spent asleep.
const RECOVERY: u32 = 10;
/// Among ports of super-packets: at most one part in sixteen is spun away, and at most this much of it at a stretch.
const SPARING: (u32, Duration) = (16, Duration::from_millis(1));
/// IEEE 802 local experimental EtherType: the kernel at the other end drops it.
const PROBE_TYPE: [u8; 2] = [0x88, 0xb5];

/// What the emulator stands between: at least one port. The cables of its [`Switch`] name them by their places.
pub(super) struct Ports {
    /// A socket for each port.
    pub sockets: Vec<PacketSocket>,
    /// For each port: the time within which segments leave together (see `gather`); zero on a port of single packets.
    pub gather: Vec<Duration>,
    /// A port, and the Ethernet address at its far end, for probes.
    pub probe: (Port, Mac),
}

/// What the thread and the rest of the lab tell each other.
pub(super) struct WorkerState {
    pub tally: Mutex<Tally>,
    /// New peers that the thread has not taken over yet.
    pub peers: Mutex<Option<Peers>>,
    /// Links that become others, and that have not yet: a cable and its link.
    pub links: Mutex<Vec<(usize, DuplexSpec)>>,
    /// Packets that should be in the records and are not.
    pub unrecorded: Arc<AtomicU64>,
    pub stop: AtomicBool,
    pub wake: OwnedFd,
}

impl WorkerState {
    /// Has the thread look.
    pub fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

/// The thread's own.
pub(super) struct Worker {
    switch: Switch,
    ports: Ports,
    pool: Pool,
    /// By port: packets that are known to leave by it soon.
    leaving: Vec<Gather>,
    /// By port: whether frames may wait there.
    ready: Vec<bool>,
    clock: Clock,
    shared: Arc<WorkerState>,
    recorder: Recorder,
    out: Vec<Release>,
    gone: Vec<Gone>,
    /// Time awake that no sleep has made good for, as of `counted`.
    awake: Duration,
    counted: Instant,
    /// Among ports of super-packets: time that may be spun away.
    spare: Option<Duration>,
    waking: Waking,
}

/// How late the thread wakes: nine of ten times at most so late. That depends on the machine, and on what else runs there.
struct Waking {
    late: Duration,
}

impl Waking {
    /// So much less after a wake-up that was not so late, and nine times as much more after one that was later.
    const STEP: Duration = Duration::from_nanos(250);
    /// Less is no time to be told from nothing.
    const LEAST: Duration = Duration::from_micros(2);

    /// It has woken so late.
    fn woke(&mut self, late: Duration) {
        self.late = if late > self.late {
            (self.late + 9 * Self::STEP).min(SPIN)
        } else {
            self.late.saturating_sub(Self::STEP).max(Self::LEAST)
        };
    }
}

impl Default for Waking {
    fn default() -> Self {
        Self { late: SPIN }
    }
}

/// Packets that leave as one frame.
struct Group {
    /// Where they are in the list of those that leave.
    first: usize,
    len: usize,
    /// None if they are all that was in their frame.
    headers: Option<Headers>,
}

impl Worker {
    pub fn new(switch: Switch, ports: Ports, clock: Clock, shared: Arc<WorkerState>, recorder: Recorder) -> Self {
        Self {
            recorder,
            spare: ports.gather.iter().any(|quantum| !quantum.is_zero()).then_some(SPARING.1),
            leaving: ports.gather.iter().map(|quantum| Gather::new(*quantum)).collect(),
            ready: vec![true; ports.sockets.len()],
            pool: Pool::default(),
            switch,
            ports,
            clock,
            shared,
            out: Vec::new(),
            gone: Vec::new(),
            awake: Duration::ZERO,
            waking: Waking::default(),
            counted: clock.now(),
        }
    }

    /// Sets the priority and the timers of this thread, and measures its bias.
    pub fn prepare(&mut self, real_time: bool) -> io::Result<()> {
        // Both are better to have than not; the certificate tells how well it went without.
        let real_time = real_time && schedule::real_time(PRIORITY).is_ok();
        let _ = schedule::precise_timers();
        if !real_time {
            let _ = schedule::short_turns(TURN);
        }
        lock(&self.shared.tally).real_time_priority = real_time;
        self.measure_bias()
    }

    /// Works until it is told to stop, or a socket fails.
    pub fn run(mut self) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Acquire) {
            // First what the thread has just waited for.
            self.let_out();
            if let Some(peers) = lock(&self.shared.peers).take() {
                self.switch.set_peers(peers);
            }
            for (cable, link) in std::mem::take(&mut *lock(&self.shared.links)) {
                self.switch.change(cable, self.clock.now(), &link);
            }
            for port in 0..self.ports.sockets.len() {
                if self.ready[port] {
                    self.take_in(port)?;
                }
            }
            self.let_out();
            self.wait()?;
        }
        Ok(())
    }

    /// Sends probes that meet no model, to learn how late a packet leaves at the least.
    fn measure_bias(&mut self) -> io::Result<()> {
        let (port, mac) = self.ports.probe;
        let mut probe = mac.to_vec();
        probe.extend([0x02, 0, 0, 0, 0, 0]);
        probe.extend(PROBE_TYPE);
        probe.resize(ETHERNET + 46, 0);
        for n in 0..PROBES.1 {
            let due = self.clock.now() + PROBE_GAP;
            // Not through poll: packets of the client may wait already, and would wake it.
            self.clock.wait_until(due);
            self.ports.sockets[port].send(&[Departing { headers: &probe, ..Departing::default() }])?;
            let left = self.clock.now();
            if n >= PROBES.0 {
                lock(&self.shared.tally).probe(due, left);
            }
        }
        Ok(())
    }

    /// Reads one batch and hands it to the models.
    fn take_in(&mut self, port: Port) -> io::Result<()> {
        let Self { switch, ports, pool, clock, gone, recorder, .. } = self;
        let mut passed = Vec::new();
        let mut unreadable = 0;
        let received = ports.sockets[port].receive(|mut arrived| {
            let at = arrived.stamp.map_or_else(|| clock.now(), |stamp| clock.moment_of(stamp));
            let offload = arrived.offload;
            let frame = Frame::new(pool.keep(&mut arrived), offload);
            let seen = |cable, way, parcel: &Parcel| {
                if way == Way::Up && recorder.captures() {
                    recorder.arrived(cable, at, parcel.clone());
                }
            };
            match frame.map(|frame| switch.arrive(port, at, frame, gone, seen)) {
                Some(Verdict::Taken) => {}
                Some(Verdict::Passed(to, frame)) => passed.push((to, frame)),
                None => unreadable += 1,
            }
        })?;
        // A full batch hints at a backlog, the only time when the kernel may have dropped something.
        let full = received.frames == ports.sockets[port].batch();
        let overflowed = if full { u64::from(ports.sockets[port].overflowed()?) } else { 0 };
        let refused = received.refused as u64 + unreadable;
        if gone.is_empty() && passed.is_empty() && refused + overflowed == 0 {
            return Ok(());
        }
        let mut tally = lock(&self.shared.tally);
        for (to, frame) in passed {
            let departing = Departing { offload: frame.offload(), headers: frame.bytes(), payload: &[] };
            match ports.sockets[to].send(&[departing]) {
                Ok(_) => tally.passed += 1,
                Err(_) => tally.drops.send_failed += 1,
            }
        }
        tally.drops.oversize += refused;
        tally.drops.overflow += overflowed;
        forget(gone, &mut tally, recorder);
        Ok(())
    }

    /// Sends all that is due.
    fn let_out(&mut self) {
        let now = self.clock.now();
        self.switch.release(now, &mut self.out, &mut self.gone);
        if !self.gone.is_empty() {
            forget(&mut self.gone, &mut lock(&self.shared.tally), &self.recorder);
        }
        for release in self.out.drain(..) {
            self.leaving[release.port].add(release);
        }
        for port in 0..self.leaving.len() {
            self.leaving[port].know(now + self.ports.gather[port]);
            self.let_out_by(port, now);
        }
    }

    /// Sends all that is due at `now` by one port.
    fn let_out_by(&mut self, port: Port, now: Instant) {
        let Self { ports, leaving, clock, shared, out, recorder, .. } = self;
        loop {
            let mut groups = Vec::new();
            while groups.len() < BATCH {
                let first = out.len();
                if !leaving[port].take(now, out) {
                    break;
                }
                groups.push(Group::of(first, &out[first..]));
            }
            let full = groups.len() == BATCH;
            let frames: Vec<Departing<'_>> = groups.iter().map(|group| group.departing(out)).collect();
            let mut sent = 0;
            while sent < frames.len() {
                let result = ports.sockets[port].send(&frames[sent..]);
                let left = clock.now();
                let mut tally = lock(&shared.tally);
                match result {
                    Ok(count) => {
                        for group in &groups[sent..sent + count] {
                            tally.frames += 1;
                            for release in &out[group.first..group.first + group.len] {
                                tally.left(release.arrived, release.due, left, release.parcel.wire_len());
                                recorder.left(release, left);
                            }
                        }
                        sent += count;
                    }
                    // The error is that of the first frame of the batch: leave that one out and go on.
                    Err(_) => {
                        tally.drops.send_failed += groups[sent].len as u64;
                        sent += 1;
                    }
                }
            }
            drop(frames);
            out.clear();
            if !full {
                return;
            }
        }
    }

    /// When something is to leave, or is to be looked at.
    fn next(&self) -> Option<Instant> {
        self.leaving.iter().filter_map(Gather::next).chain(self.switch.next()).min()
    }

    /// Sleeps until a frame, a command, or shortly before something is due; then spins until that moment.
    fn wait(&mut self) -> io::Result<()> {
        let at = self.next();
        let now = self.clock.now();
        let passed = now - self.counted;
        self.awake += passed;
        self.counted = now;
        if let Some(spare) = &mut self.spare {
            *spare = (*spare + passed / SPARING.0).min(SPARING.1);
        }
        let spin = if self.spare.is_some_and(|spare| spare < SPIN) { Duration::ZERO } else { self.waking.late };
        let left = at.map(|at| at - now);
        match left {
            _ if self.awake > AWAKE => {
                self.clock.sleep(NAP);
                self.ready.fill(true);
            }
            Some(left) if left <= spin => {
                while self.clock.now() < now + left {
                    std::hint::spin_loop();
                }
                self.spare = self.spare.map(|spare| spare.saturating_sub(left));
                return self.poll(Some(Duration::ZERO));
            }
            Some(left) => {
                let asked = now + (left - spin);
                self.poll(Some(left - spin))?;
                if !self.ready.contains(&true) {
                    self.waking.woke(self.clock.now().since(asked));
                }
            }
            None => self.poll(None)?,
        }
        let woken = self.clock.now();
        let asleep = woken - now;
        self.awake = self.awake.saturating_sub(asleep * RECOVERY);
        self.spare = self.spare.map(|spare| (spare + asleep / SPARING.0).min(SPARING.1));
        self.counted = woken;
        lock(&self.shared.tally).cpu = thread_time();
        Ok(())
    }

    /// Sleeps until a frame, a command, or for `longest`; notes which ports have frames.
    fn poll(&mut self, longest: Option<Duration>) -> io::Result<()> {
        let timeout = longest.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) });
        let wake = PollFd::new(&self.shared.wake, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = self.ports.sockets.iter().map(PacketSocket::readable).chain([wake]).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        for (ready, fd) in self.ready.iter_mut().zip(&fds) {
            *ready = !fd.revents().is_empty();
        }
        if fds.last().is_some_and(|wake| wake.revents().contains(PollFlags::IN)) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut count);
        }
        Ok(())
    }
}

impl Group {
    /// The group of `packets`, at least one, which begin at `first` of the list.
    fn of(first: usize, packets: &[Release]) -> Self {
        let headers = packets.first().zip(packets.last()).and_then(|(from, to)| {
            let frame = from.parcel.frame();
            let range = from.parcel.segment()..to.parcel.segment() + 1;
            let cut = frame.cut().filter(|cut| range.len() < cut.count())?;
            Some(cut.headers(frame.bytes(), &range))
        });
        Self { first, len: packets.len(), headers }
    }

    /// Its frame, out of the list of `packets` that leave.
    fn departing<'a>(&'a self, packets: &'a [Release]) -> Departing<'a> {
        let (from, to) = (&packets[self.first].parcel, &packets[self.first + self.len - 1].parcel);
        let frame = from.frame();
        match (&self.headers, frame.cut()) {
            (Some(headers), Some(cut)) => Departing {
                offload: headers.offload,
                headers: headers.bytes(),
                payload: &frame.bytes()[cut.payload(&(from.segment()..to.segment() + 1))],
            },
            _ => Departing { offload: frame.offload(), headers: frame.bytes(), payload: &[] },
        }
    }
}

/// Counts what has gone.
fn forget(gone: &mut Vec<Gone>, tally: &mut Tally, recorder: &Recorder) {
    for gone in gone.drain(..) {
        recorder.gone(&gone);
        match gone.why {
            Why::Dropped(reason) => tally.dropped(reason),
            Why::BlackHole => tally.drops.black_hole += 1,
            // A port that leads nowhere is a black hole of its own.
            Why::Unplugged => tally.drops.black_hole += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spun_is_how_late_nine_of_ten_wake_ups_are_at_most() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut waking = Waking::default();
        let mut settle = |most_us: u64| {
            let mut sum = Duration::ZERO;
            for n in 0..4000 {
                waking.woke(Duration::from_nanos(rng.u64(0..most_us * 1000)));
                sum += if n < 2000 { Duration::ZERO } else { waking.late };
            }
            (sum / 2000).as_micros()
        };
        assert!((16..=20).contains(&settle(20)), "18 us of at most 20");
        assert!((33..=39).contains(&settle(40)), "and follows");
        assert_eq!(settle(1), 2, "never less");
        assert!(settle(10_000) <= 60, "never more");
    }
}
