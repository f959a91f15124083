//! Bulk flows of the kernel's TCP with CUBIC, from the server's host to the client's, for as long as a trial lasts.

use super::{CLIENT, SERVER, TCP_PORT, address};
use crate::netns::{Nodes, PREFERRED_CONGESTION_CONTROL};
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// The flows of a trial, ended with it.
#[derive(Default)]
pub struct Background {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    doubts: Vec<String>,
}

impl Background {
    /// No flows.
    pub fn none() -> Self {
        Self::default()
    }

    /// `count` flows, which begin within a second.
    pub fn start(nodes: &Nodes, count: usize, seed: u64, clock: Clock) -> anyhow::Result<Self> {
        let to = address(CLIENT, TCP_PORT);
        let listener = nodes.on(CLIENT, || TcpListener::bind(to))?.context("listening for background flows")?;
        let mut all = Self::default();
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x6261_636b);
        let now = clock.now();
        for _ in 0..count {
            let at = now + Duration::from_micros(rng.u64(..1_000_000));
            all.add(nodes, &listener, to, clock, at).context("a background flow")?;
        }
        Ok(all)
    }

    fn add(
        &mut self,
        nodes: &Nodes,
        listener: &TcpListener,
        to: SocketAddr,
        clock: Clock,
        at: Instant,
    ) -> anyhow::Result<()> {
        let sender = nodes.on(SERVER, || TcpStream::connect(to))??;
        let (receiver, _) = listener.accept()?;
        // The host's default may be another, and be changed by others; this one is the socket's own.
        sockopt::set_tcp_congestion(&sender, PREFERRED_CONGESTION_CONTROL)
            .with_context(|| format!("asking for {PREFERRED_CONGESTION_CONTROL}: is its module loaded?"))?;
        let control = sockopt::tcp_congestion(&sender)?;
        if control != PREFERRED_CONGESTION_CONTROL {
            self.doubts.push(format!("a background flow goes by {control}"));
        }
        self.streams.extend([sender.try_clone()?, receiver.try_clone()?]);
        let received = self.received.clone();
        self.threads.push(std::thread::spawn(move || write_for_ever(sender, clock, at)));
        self.threads.push(std::thread::spawn(move || count_what_comes(receiver, &received)));
        Ok(())
    }

    /// Bytes that the client's host has received.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends them; why what they showed may not be believed.
    pub fn end(mut self) -> Vec<String> {
        self.stop();
        std::mem::take(&mut self.doubts)
    }

    fn stop(&mut self) {
        for stream in self.streams.drain(..) {
            // This wakes the thread that writes or reads.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

fn write_for_ever(mut to: TcpStream, clock: Clock, at: Instant) {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    clock.sleep_until(at);
    while to.write_all(&ZEROS).is_ok() {}
}

fn count_what_comes(mut from: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => _ = received.fetch_add(length as u64, Ordering::Relaxed),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
