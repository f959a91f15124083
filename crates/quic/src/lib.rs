//! Congestion windows from history for quinn (RFC 9959, and paper 2's rule).
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod controller;
mod endpoint;
mod plan;
mod qlog;
#[cfg(feature = "s2n-quic")]
pub mod s2n;
mod store;
mod token;

pub use controller::Controller;
pub use endpoint::{Connecting, Connection};
pub use headstart_core::cwnd::history::{History, Medium, Remembered, Sample, Settings};
pub use headstart_core::cwnd::{controller as controllers, start as rules};
pub use headstart_core::path::NetworkId;
pub use headstart_core::time::{Duration, Instant};
pub use plan::{Plan, Watch};
pub use qlog::line as qlog_line;
pub use store::{NotAStore, Store};

use headstart_core::cwnd::history::{Key, Outcome};
use headstart_core::cwnd::start;
use quinn::TransportConfig;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is received over a path is remembered apart from what is sent over it.
const RECEIVING: u64 = 0x7265_6365_6976_6564;

/// A change of phase of a connection, as reported to the listener.
#[derive(Clone, Copy, Debug)]
pub struct StartEvent {
    /// The peer.
    pub remote: SocketAddr,
    /// The change.
    pub event: start::Event,
    /// The first packet number of the jump, if there was one.
    pub first: Option<u64>,
    /// The last.
    pub last: Option<u64>,
}

/// Called on changes of phase, with the connection's state locked, so it must not wait.
pub type Listener = Arc<dyn Fn(&StartEvent) + Send + Sync>;

/// How a memory is used.
#[derive(Clone)]
pub struct Options {
    /// The start rule.
    pub rule: &'static start::Entry,
    /// The congestion controller.
    pub controller: &'static controllers::Entry,
    /// The largest window in bytes that a memory may lead to; the rule's own bound if `None`.
    pub most: Option<u64>,
    /// The share of connections that use the memory, 0 to 1; the others start as without it. For comparisons (A/B).
    pub ratio: f64,
    /// The network that the host is on at first ([`CarefulResume::move_to`]).
    pub network: NetworkId,
    /// Over what.
    pub medium: Medium,
    /// Whether to receive by what is remembered too: flow-control windows that do not cap the sender.
    pub receive_windows: bool,
    /// The flow-control window of a stream that the program's configurations have, in bytes: those out of history are never
    /// smaller. quinn's own by default.
    pub stream_window: u64,
    /// Bounds of the history.
    pub settings: Settings,
    /// Called on changes of phase.
    pub listener: Option<Listener>,
    /// Makes the transport configuration of each connection, before the plan is written into it: a configuration holds the
    /// window of one connection and cannot be shared. quinn's defaults by default.
    pub transport: Arc<dyn Fn() -> TransportConfig + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rule: start::find(start::DEFAULT).unwrap_or(&start::ALL[0]),
            controller: controllers::find(controllers::DEFAULT).unwrap_or(&controllers::ALL[0]),
            most: None,
            ratio: 1.0,
            network: NetworkId::default(),
            medium: Medium::Wired,
            receive_windows: true,
            stream_window: plan::STREAM_WINDOW,
            settings: Settings::default(),
            listener: None,
            transport: Arc::new(TransportConfig::default),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("rule", &self.rule)
            .field("controller", &self.controller)
            .field("most", &self.most)
            .field("ratio", &self.ratio)
            .field("network", &self.network)
            .field("medium", &self.medium)
            .finish_non_exhaustive()
    }
}

/// Turns quinn's moments into those of the history: the wall clock when it was made, steady since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
    wall: Instant,
}

impl Clock {
    /// A clock by which `now` was `wall` after 1970.
    pub fn new(now: std::time::Instant, wall: Duration) -> Self {
        Self { origin: now, wall: Instant::ZERO + wall }
    }

    /// The moment of the history that `at` is; what was before this clock is its beginning.
    pub fn moment(&self, at: std::time::Instant) -> Instant {
        self.wall + at.saturating_duration_since(self.origin)
    }
}

/// The history of paths of a process, and the windows that connections begin with. Clones share it.
#[derive(Clone)]
pub struct CarefulResume(Arc<Shared>);

struct Shared {
    options: Options,
    clock: Clock,
    secret: [u8; 16],
    history: Mutex<History>,
    /// The network that the host is on.
    network: Mutex<NetworkId>,
    /// Connections that were planned, for the ratio.
    planned: Mutex<u64>,
    /// When a retreat last deleted what was remembered of an address.
    refuted: Mutex<token::Recent<Key, Instant>>,
}

impl fmt::Debug for CarefulResume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CarefulResume").field("options", &self.0.options).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves numbers behind, no broken promise.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CarefulResume {
    /// With what `store` holds, and the default options: RFC 9959 over CUBIC.
    pub fn new(store: Store) -> Self {
        Self::with_options(store, Options::default())
    }

    /// As [`CarefulResume::new`], with options.
    pub fn with_options(store: Store, options: Options) -> Self {
        let mut history = History::new(options.settings, store.secret);
        for (key, prefix, record) in store.records {
            history.import(key, prefix, record);
        }
        let (clock, secret) = (store.clock, store.secret);
        let (history, network) = (Mutex::new(history), Mutex::new(options.network));
        Self(Arc::new(Shared {
            options,
            clock,
            secret,
            history,
            network,
            planned: Mutex::new(0),
            refuted: Mutex::default(),
        }))
    }

    /// The host is on another network: connections that begin now are remembered there, and nothing of elsewhere is used.
    pub fn move_to(&self, network: NetworkId) {
        *locked(&self.0.network) = network;
    }

    /// The network that the host is on.
    pub fn network(&self) -> NetworkId {
        *locked(&self.0.network)
    }

    /// How it is used.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    fn secret(&self) -> [u8; 16] {
        self.0.secret
    }

    /// Its clock.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Looks at the history, or changes it (a store does: records out, records in). Connections wait meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut History) -> T) -> T {
        look(&mut locked(&self.0.history))
    }

    /// What to do with a connection to `remote` that begins at `now`. `validated`: the peer has shown that it is at this
    /// address (always true of an address that one connects to); a memory is not used up for an address that may be forged.
    pub fn plan(&self, now: std::time::Instant, remote: SocketAddr, validated: bool) -> Plan {
        let moment = self.0.clock.moment(now);
        let options = &self.0.options;
        let uses = {
            let mut planned = locked(&self.0.planned);
            *planned += 1;
            // Evenly spread, and the same in each run: no luck in a comparison.
            let due = |n: u64| (n as f64 * options.ratio.clamp(0.0, 1.0)).floor();
            due(*planned) > due(*planned - 1)
        };
        let network = self.network();
        let (sending, receiving) = self.with(|history| {
            (
                history.recall(moment, network, remote.ip()),
                history.recall(moment, NetworkId(network.0 ^ RECEIVING), remote.ip()),
            )
        });
        Plan::new(self.clone(), remote, sending.filter(|_| uses), receiving.filter(|_| uses), validated)
    }

    /// Takes in what was received from `remote`: `bytes` in `took`, over a path whose shortest round trip is `rtt`. For
    /// clients, whose own sending says nothing of what comes back; the next plan has windows to receive as much.
    pub fn received(&self, now: std::time::Instant, remote: IpAddr, bytes: u64, took: Duration, rtt: Duration) {
        let rate = bytes as f64 / took.max(rtt).as_secs_f64().max(1e-6);
        let window = (rate * rtt.as_secs_f64()) as u64;
        let (medium, network) = (self.0.options.medium, NetworkId(self.network().0 ^ RECEIVING));
        let sample = Sample {
            window,
            carried: window,
            rtt,
            rate: rate as u64,
            loss: 0.0,
            limited: true,
            shared: false,
            outcome: Outcome::Clean,
            medium,
        };
        let moment = self.0.clock.moment(now);
        self.with(|history| history.learn(moment, network, remote, &sample));
    }
}

#[cfg(test)]
mod tests;
