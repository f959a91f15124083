//! The emulator as the rest of the lab has it: started, told of peers and of changed links, asked for its account, stopped.
//!
//! The work is done by one thread (see `worker`). What never happens here: a packet is touched.

use super::certificate::Certificate;
use super::record::{Recorder, Writer};
use super::settings::Settings;
use super::switch::{Cable, Peers, Switch};
use super::worker::{Ports, Worker, WorkerState};
use crate::lock;
use headstart_io::clock::Clock;
use headstart_io::sys::packet::PacketSocket;
use headstart_link::DuplexSpec;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A running emulator; stops when dropped.
pub(super) struct Emulator {
    shared: Arc<WorkerState>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Ended after the thread that it writes for.
    _writer: Writer,
}

impl Emulator {
    /// Starts the thread; returns once it has measured its bias and reads the sockets.
    pub fn start(
        cables: &[Cable],
        seed: u64,
        ports: Ports,
        peers: Peers,
        clock: Clock,
        settings: &Settings,
    ) -> io::Result<Self> {
        let mut switch = Switch::new(cables, seed);
        switch.set_peers(peers);
        let shared = Arc::new(WorkerState {
            tally: Mutex::default(),
            peers: Mutex::new(None),
            links: Mutex::default(),
            unrecorded: Arc::default(),
            stop: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        });
        lock(&shared.tally).super_packets = ports.sockets.iter().any(PacketSocket::offloads);
        let links: Vec<_> = cables.iter().map(|cable| cable.name.clone()).collect();
        let (recorder, writer) = Recorder::start(settings, &links, clock, shared.unrecorded.clone())?;
        let mut worker = Worker::new(switch, ports, clock, shared.clone(), recorder);
        let real_time = settings.real_time;
        let (tell_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("emulator".into()).spawn(move || {
            worker.prepare(real_time)?;
            // The receiver is gone only if the caller is, and then there is nothing to tell.
            let _ = tell_ready.send(());
            worker.run()
        })?;
        let mut emulator = Self { shared, thread: Some(thread), _writer: writer };
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
        self.shared.wake()
    }

    /// The account so far.
    pub fn certificate(&self) -> Certificate {
        let tally = lock(&self.shared.tally).clone();
        let mut certificate = tally.certificate();
        certificate.unrecorded = self.shared.unrecorded.load(Ordering::Relaxed);
        // Packets that a dead emulator never read are in no tally.
        certificate.running = self.running();
        certificate.valid &= certificate.running;
        certificate
    }

    /// The account since the last one of these, which begins a new one.
    pub fn take_certificate(&self) -> Certificate {
        let certificate = self.certificate();
        lock(&self.shared.tally).begin_anew();
        certificate
    }

    /// Whether the thread is still at work; it ends by itself only if a socket fails.
    pub fn running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// What changes its links while it runs.
    pub fn links(&self) -> Links {
        Links(self.shared.clone())
    }
}

/// A handle by which the links of an emulator are changed.
pub(super) struct Links(Arc<WorkerState>);

impl Links {
    /// Makes another link of the `cable`th; its medium must be the same.
    pub fn change(&self, cable: usize, link: DuplexSpec) -> io::Result<()> {
        lock(&self.0.links).push((cable, link));
        self.0.wake()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let woken = self.shared.wake();
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}
