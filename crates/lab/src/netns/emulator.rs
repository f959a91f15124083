//! The emulator: one thread among its ports, AF_PACKET sockets, which plays the link models in real time.
//!
//! Packets carry logical time: they arrive when the kernel had them (its receive timestamp), the models decide when they
//! are due, and a late release shifts nothing behind it. The thread sleeps until 60 us before the next release and spins
//! from there, as long as it gets enough sleep; nothing ever leaves early. It accounts for its own lateness (see `certificate`).

use super::certificate::{Certificate, Tally};
use super::frame::ETHERNET;
use super::switch::{Peers, Port, Release, Switch, Verdict};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::{Clock, SPIN};
use headstart_io::sys::netlink::Mac;
use headstart_io::sys::packet::{BATCH, PacketSocket};
use headstart_io::sys::schedule;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

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
/// IEEE 802 local experimental EtherType: the kernel at the other end drops it.
const PROBE_TYPE: [u8; 2] = [0x88, 0xb5];

/// What the emulator stands between: at least one port. The cables of its [`Switch`] name them by their places.
pub(super) struct Ports {
    /// A socket for each port.
    pub sockets: Vec<PacketSocket>,
    /// A port, and the Ethernet address at its far end, for probes.
    pub probe: (Port, Mac),
}

struct Shared {
    tally: Mutex<Tally>,
    /// New peers that the thread has not taken over yet.
    peers: Mutex<Option<Peers>>,
    stop: AtomicBool,
    wake: OwnedFd,
}

/// A running emulator; stops when dropped.
pub(super) struct Emulator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Emulator {
    /// Starts the thread; returns once it has measured its bias and reads the sockets.
    pub fn start(mut switch: Switch, ports: Ports, peers: Peers, clock: Clock) -> io::Result<Self> {
        switch.set_peers(peers);
        let shared = Arc::new(Shared {
            tally: Mutex::default(),
            peers: Mutex::new(None),
            stop: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        });
        let ready = vec![true; ports.sockets.len()];
        let mut worker = Worker {
            switch,
            ports,
            ready,
            clock,
            shared: shared.clone(),
            out: Vec::new(),
            awake: Duration::ZERO,
            counted: clock.now(),
        };
        let (tell_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("emulator".into()).spawn(move || {
            worker.settle()?;
            // Nobody listens only if the caller is gone, and then there is nothing to tell.
            let _ = tell_ready.send(());
            worker.run()
        })?;
        let mut emulator = Self { shared, thread: Some(thread) };
        match (ready.recv(), emulator.thread.take()) {
            (Err(_), Some(dead)) => Err(dead.join().map_or_else(
                |_| io::Error::other("it panicked"),
                |result| result.err().unwrap_or_else(|| io::Error::other("it ended at once")),
            )),
            (_, thread) => {
                emulator.thread = thread;
                Ok(emulator)
            }
        }
    }

    /// Replaces the peers.
    pub fn set_peers(&self, peers: Peers) -> io::Result<()> {
        *lock(&self.shared.peers) = Some(peers);
        self.wake()
    }

    /// The account so far.
    pub fn certificate(&self) -> Certificate {
        let tally = lock(&self.shared.tally).clone();
        let mut certificate = tally.certificate();
        // Packets that a dead emulator never read are in no tally.
        certificate.valid &= self.running();
        certificate
    }

    /// Whether the thread is still at work; it ends by itself only if a socket fails.
    pub fn running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let woken = self.wake();
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// A panic elsewhere must not hide the account.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker {
    switch: Switch,
    ports: Ports,
    /// By port: whether frames may wait there.
    ready: Vec<bool>,
    clock: Clock,
    shared: Arc<Shared>,
    out: Vec<Release>,
    /// Time awake that no sleep has made good for, as of `counted`.
    awake: Duration,
    counted: Instant,
}

impl Worker {
    /// Priority, timers and bias.
    fn settle(&mut self) -> io::Result<()> {
        // Both are better to have than not; the certificate tells how well it went without.
        let real_time = schedule::real_time(PRIORITY).is_ok();
        let _ = schedule::precise_timers();
        if !real_time {
            let _ = schedule::short_turns(TURN);
        }
        lock(&self.shared.tally).real_time_priority = real_time;
        self.measure_bias()
    }

    fn run(mut self) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Acquire) {
            // First what the thread has just waited for.
            self.let_out();
            if let Some(peers) = lock(&self.shared.peers).take() {
                self.switch.set_peers(peers);
            }
            for port in 0..self.ports.sockets.len() {
                if self.ready[port] {
                    self.take_in(port)?;
                }
            }
            self.let_out();
            self.wait(self.switch.next())?;
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
            self.ports.sockets[port].send(&[&probe])?;
            let left = self.clock.now();
            if n >= PROBES.0 {
                lock(&self.shared.tally).probe(due, left);
            }
        }
        Ok(())
    }

    /// Reads one batch and hands it to the models.
    fn take_in(&mut self, port: Port) -> io::Result<()> {
        let Self { switch, ports, clock, shared, .. } = self;
        let mut tally = None;
        let mut passed = Vec::new();
        let from = &mut ports.sockets[port];
        let received = from.receive(|frame, stamp| {
            let at = stamp.map_or_else(|| clock.now(), |stamp| clock.moment_of(stamp));
            let tally = tally.get_or_insert_with(|| lock(&shared.tally));
            match switch.arrive(port, at, frame.to_vec()) {
                Verdict::Held => {}
                Verdict::Dropped(reason) => tally.dropped(reason),
                Verdict::Vanished => tally.drops.black_hole += 1,
                Verdict::Passed(to, frame) => passed.push((to, frame)),
            }
        })?;
        for (to, frame) in passed {
            let tally = tally.get_or_insert_with(|| lock(&shared.tally));
            match ports.sockets[to].send(&[&frame]) {
                Ok(_) => tally.passed += 1,
                Err(_) => tally.drops.send_failed += 1,
            }
        }
        if received.oversize > 0 {
            tally.get_or_insert_with(|| lock(&shared.tally)).drops.oversize += received.oversize as u64;
        }
        // A full batch hints at a backlog, the only time when the kernel may have dropped something.
        if received.frames == BATCH {
            let overflowed = u64::from(ports.sockets[port].overflowed()?);
            tally.get_or_insert_with(|| lock(&shared.tally)).drops.overflow += overflowed;
        }
        Ok(())
    }

    /// Sends all that is due, in runs by one port.
    fn let_out(&mut self) {
        let Self { switch, ports, clock, shared, out, .. } = self;
        switch.release(clock.now(), out, |reason| lock(&shared.tally).dropped(reason));
        if out.is_empty() {
            return;
        }
        for run in out.chunk_by(|a, b| a.port == b.port) {
            let port = &ports.sockets[run[0].port];
            let mut rest = run;
            while !rest.is_empty() {
                let frames: Vec<&[u8]> = rest.iter().take(BATCH).map(|release| release.bytes.as_slice()).collect();
                let sent = port.send(&frames);
                let left = clock.now();
                let mut tally = lock(&shared.tally);
                let count = match sent {
                    Ok(count) => {
                        rest[..count].iter().for_each(|release| tally.left(release.arrived, release.due, left));
                        count
                    }
                    // The error is that of the first frame of the batch: leave that one out and go on.
                    Err(_) => {
                        tally.drops.send_failed += 1;
                        1
                    }
                };
                rest = &rest[count..];
            }
        }
        out.clear();
    }

    /// Sleeps until a frame, a command, or shortly before `at`; then spins until `at`.
    fn wait(&mut self, at: Option<Instant>) -> io::Result<()> {
        let now = self.clock.now();
        self.awake += now - self.counted;
        self.counted = now;
        let left = at.map(|at| at - now);
        match left {
            _ if self.awake > AWAKE => {
                self.clock.sleep(NAP);
                self.ready.fill(true);
            }
            Some(left) if left <= SPIN => {
                while self.clock.now() < now + left {
                    std::hint::spin_loop();
                }
                return self.poll(Some(Duration::ZERO));
            }
            _ => self.poll(left.map(|left| left - SPIN))?,
        }
        let woken = self.clock.now();
        self.awake = self.awake.saturating_sub((woken - now) * RECOVERY);
        self.counted = woken;
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
