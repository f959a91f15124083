//! A connection's plan: what to write into its transport configuration, and how to look at it afterwards.

use super::controller::{Factory, Live};
use super::{CarefulResume, locked};
use headstart_core::cwnd::history::{Remembered, Sample};
use headstart_core::cwnd::start::Phase;
use headstart_core::time::Duration;
use quinn::{TransportConfig, VarInt};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// quinn's own flow-control window for a stream: 100 Mbit/s over 100 ms.
pub const STREAM_WINDOW: u64 = 1_250_000;
/// What a peer may make this host keep in memory for one stream, at most, on the word of a history.
pub const MOST_STREAM_WINDOW: u64 = 64 << 20;
/// Room beyond what was seen: a window that is just the path's capacity would keep it from being found larger.
const HEADROOM: u64 = 4;

/// What a connection begins with.
#[derive(Debug)]
pub struct Plan {
    memory: CarefulResume,
    remote: SocketAddr,
    sending: Option<Remembered>,
    receiving: Option<Remembered>,
    validated: bool,
}

impl Plan {
    pub(super) fn new(
        memory: CarefulResume,
        remote: SocketAddr,
        sending: Option<Remembered>,
        receiving: Option<Remembered>,
        validated: bool,
    ) -> Self {
        Self { memory, remote, sending, receiving, validated }
    }

    /// What is remembered of the way to the peer; `None` at the first contact, and for connections that the A/B ratio leaves
    /// out.
    pub fn remembered(&self) -> Option<Remembered> {
        self.sending
    }

    /// The round-trip time to begin with, if one is remembered. It paces the first flight (quinn assumes 333 ms).
    pub fn initial_rtt(&self) -> Option<Duration> {
        self.sending.or(self.receiving).map(|known| known.rtt)
    }

    /// The flow-control window of a stream, in bytes, if what is remembered says that quinn's own would be in the way.
    pub fn stream_window(&self) -> Option<u64> {
        if !self.memory.options().receive_windows {
            return None;
        }
        let carried = self.receiving?.window;
        Some((carried.saturating_mul(HEADROOM)).min(MOST_STREAM_WINDOW).max(self.memory.options().stream_window))
    }

    /// Writes it all into the configuration of this one connection, and hands out a way to look at it.
    ///
    /// The configuration must be this connection's own: the window in it is used once. What else it says stays; of a
    /// receive window of its own, which cannot be read back, [`super::Options::stream_window`] must say.
    pub fn apply(self, transport: &mut TransportConfig) -> Watch {
        if let Some(rtt) = self.initial_rtt() {
            transport.initial_rtt(rtt);
        }
        if let Some(window) = self.stream_window().and_then(|window| VarInt::from_u64(window).ok()) {
            transport.stream_receive_window(window);
        }
        let (factory, watch) = self.into_factory();
        transport.congestion_controller_factory(Arc::new(factory));
        watch
    }

    pub(super) fn into_factory(self) -> (Factory, Watch) {
        let live = Arc::new(Mutex::new(None));
        let factory = Factory::new(self.memory, self.remote, self.sending, self.validated, Arc::clone(&live));
        (factory, Watch { live })
    }
}

/// A look at a connection's window while it lives.
#[derive(Clone, Debug)]
pub struct Watch {
    live: Arc<Mutex<Option<Live>>>,
}

impl Watch {
    /// The phase of careful resume; `None` before the connection begins and after its end.
    pub fn phase(&self) -> Option<Phase> {
        locked(&self.live).as_ref().map(|live| live.sender.phase())
    }

    /// The window in bytes; `None` before the connection begins and after its end.
    pub fn window(&self) -> Option<u64> {
        locked(&self.live).as_ref().map(|live| live.sender.window())
    }

    /// Bytes in flight; `None` before the connection begins and after its end.
    pub fn flight(&self) -> Option<u64> {
        locked(&self.live).as_ref().map(|live| live.sender.flight())
    }

    /// What it would teach the history now; `None` if too little was acknowledged.
    pub fn sample(&self) -> Option<Sample> {
        locked(&self.live).as_ref().and_then(Live::sample)
    }

    /// Teaches the history what the connection has shown so far. Paper 2 samples when a 0-RTT handshake was accepted; a
    /// connection that closes is sampled without being asked, one that lives for hours may be from time to time.
    pub fn learn(&self, now: std::time::Instant) {
        if let Some(live) = locked(&self.live).as_ref() {
            live.learn(now);
        }
    }

    /// The connection is over: what it has shown goes into the history now, and what it used may be used by another. quinn
    /// keeps a closed connection for three more round trips, and peers come back sooner than that.
    pub fn close(&self, now: std::time::Instant) {
        // The lock is free again before the end of what was taken asks for it.
        let live = locked(&self.live).take();
        if let Some(live) = live {
            live.end(now);
        }
    }
}
