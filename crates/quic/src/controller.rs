//! quinn's congestion traits over `headstart_core::cwnd::sender`.
//!
//! What quinn-proto 0.11 does that one would not expect, and what is done about it: the factory is called again on migration
//! (it is good for one path, later ones begin as without a memory); controllers are copied on a change of port and for a look
//! (a copy has neither memory nor lease); the first acknowledgement comes with a round-trip time of 333 ms (times are taken
//! here, from the moments); `on_sent` is called once a batch of segments, acknowledgements alone included (the account of what
//! is in flight is made good with each acknowledgement).

use super::{CarefulResume, StartEvent, locked};
use headstart_core::cwnd::history::{Lease, Remembered, Sample};
use headstart_core::cwnd::sender::Sender;
use headstart_core::cwnd::start::{self, Loss, Phase, Terms};
use headstart_core::cwnd::{controller as controllers, initial_window};
use headstart_core::path::NetworkId;
use headstart_core::time::Instant;
use quinn::congestion::{Controller as Quinn, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// quinn's pacer sends a quarter faster than a window in a round trip (quinn-proto, `connection/pacing.rs`).
const PACING: f64 = 1.25;
/// QUIC's smallest datagram, by which quinn counts its initial window whatever the path takes.
const BASE_DATAGRAM: u64 = 1200;

/// Makes the controller of one connection.
#[derive(Debug)]
pub struct Factory {
    memory: CarefulResume,
    remote: SocketAddr,
    remembered: Option<Remembered>,
    validated: bool,
    used: AtomicBool,
    live: Arc<Mutex<Option<Live>>>,
}

impl Factory {
    pub(super) fn new(
        memory: CarefulResume,
        remote: SocketAddr,
        remembered: Option<Remembered>,
        validated: bool,
        live: Arc<Mutex<Option<Live>>>,
    ) -> Self {
        Self { memory, remote, remembered, validated, used: AtomicBool::new(false), live }
    }

    fn sender(&self, mtu: u16, remembered: Option<Remembered>) -> Sender {
        let options = self.memory.options();
        let packet = u64::from(mtu);
        let most = options.most.unwrap_or_else(|| (options.rule.most)(packet));
        let terms = Terms { initial: initial_window(BASE_DATAGRAM), packet, remembered, most, pacing: PACING };
        let rule = if remembered.is_some() { options.rule } else { &start::ALL[0] };
        Sender::new(rule, options.controller, &terms)
    }
}

impl Factory {
    /// The controller of a path: with what is remembered the first time, then without.
    pub(super) fn make(&self, now: std::time::Instant, current_mtu: u16) -> Controller {
        let clock = self.memory.clock();
        if self.used.swap(true, Ordering::Relaxed) {
            // Another path: nothing is known of it.
            return Controller::Branch(clock, Box::new(self.sender(current_mtu, None)));
        }
        let mut live = Live {
            sender: self.sender(current_mtu, self.remembered),
            memory: self.memory.clone(),
            network: self.memory.network(),
            remote: self.remote,
            lease: None,
            packets: [None; 3],
        };
        if self.validated {
            live.lease(clock.moment(now));
        }
        *locked(&self.live) = Some(live);
        Controller::Live(clock, Owner(Arc::clone(&self.live), self.memory.clone()))
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: std::time::Instant, current_mtu: u16) -> Box<dyn Quinn> {
        Box::new(self.make(now, current_mtu))
    }
}

/// The state of the path that a connection began on.
#[derive(Debug)]
pub struct Live {
    pub(super) sender: Sender,
    memory: CarefulResume,
    /// The network that it began on.
    network: NetworkId,
    remote: SocketAddr,
    lease: Option<Lease>,
    /// The last packet number, and those of the jump.
    packets: [Option<u64>; 3],
}

impl Live {
    /// Asks for the memory, if the rule wants it now.
    fn lease(&mut self, now: Instant) {
        if !self.sender.wants_lease() {
            return;
        }
        let (network, remote) = (self.network, self.remote.ip());
        let mut granted = None;
        // A memory of one network is none of another.
        if network == self.memory.network()
            && let Some((lease, known)) = self.memory.with(|history| history.lease(now, network, remote))
        {
            (self.lease, granted) = (Some(lease), Some(known));
        }
        let before = self.sender.phase();
        self.sender.leased(now, granted);
        if before != Phase::Unvalidated && self.sender.phase() == Phase::Unvalidated {
            self.packets[1] = self.packets[0].map(|last| last + 1);
        }
        self.tell(now);
    }

    /// After anything that may have changed the phase.
    fn tell(&mut self, now: Instant) {
        if self.sender.take_refuted()
            && let Some(lease) = &self.lease
        {
            let (network, remote) = (self.network, self.remote.ip());
            let keys = self.memory.with(|history| {
                history.refute(lease, network, remote);
                history.keys(network, remote)
            });
            self.memory.has_misled(keys, now);
        }
        while let Some(event) = self.sender.poll_event() {
            if let Some(listener) = &self.memory.options().listener {
                let [_, first, last] = self.packets;
                listener(&StartEvent { remote: self.remote, event, first, last });
            }
        }
    }

    pub(super) fn sample(&self) -> Option<Sample> {
        // Four initial windows cannot be acknowledged before the handshake is done: without its keys nothing but a few
        // packets of the handshake can be, and a server sends no more than three times what it got until then.
        self.sender.sample(self.memory.options().medium)
    }

    /// Teaches the history, and gives back what was leased of it.
    pub(super) fn end(mut self, now: std::time::Instant) {
        self.learn(now);
        if let Some(lease) = self.lease.take() {
            self.memory.with(|history| history.release(lease));
        }
    }

    pub(super) fn learn(&self, now: std::time::Instant) {
        self.learn_at(self.memory.clock().moment(now));
    }

    fn learn_at(&self, now: Instant) {
        // A connection that outlived its network: it is unknown of which path it speaks.
        if self.network == self.memory.network()
            && let Some(sample) = self.sample()
        {
            let (network, remote) = (self.network, self.remote.ip());
            self.memory.with(|history| history.learn(now, network, remote, &sample));
        }
    }
}

/// Ends what is live when the controller goes.
pub struct Owner(Arc<Mutex<Option<Live>>>, CarefulResume);

impl Drop for Owner {
    fn drop(&mut self) {
        let Some(mut live) = locked(&self.0).take() else { return };
        // The last thing that happened is when the connection was last alive: no clock is asked.
        if let Some(last) = live.sender.last_feedback() {
            live.learn_at(last);
        }
        if let Some(lease) = live.lease.take() {
            self.1.with(|history| history.release(lease));
        }
    }
}

/// A controller as quinn has it.
pub enum Controller {
    /// Of the path that the connection began on.
    Live(super::Clock, Owner),
    /// Of another path, or a copy.
    Branch(super::Clock, Box<Sender>),
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Live(..) => "Controller::Live",
            Self::Branch(..) => "Controller::Branch",
        })
    }
}

impl Controller {
    /// Does something to the sender at a moment of quinn's, and all that follows from it.
    fn act(&mut self, now: std::time::Instant, act: impl FnOnce(&mut Sender, Instant)) {
        match self {
            Self::Branch(clock, sender) => {
                let now = clock.moment(now);
                act(sender, now);
                // Without a memory there is nothing to tell.
                while sender.poll_event().is_some() {}
            }
            Self::Live(clock, owner) => {
                let now = clock.moment(now);
                if let Some(live) = locked(&owner.0).as_mut() {
                    act(&mut live.sender, now);
                    live.tell(now);
                }
            }
        }
    }

    /// Asks for the memory if the rule wants it. After acknowledgements only: a peer that acknowledges is where it says it is.
    fn ask(&mut self, now: std::time::Instant) {
        if let Self::Live(clock, owner) = self
            && let Some(live) = locked(&owner.0).as_mut()
        {
            live.lease(clock.moment(now));
        }
    }

    /// Whether its window doubles in a round trip: not while what is remembered is being tried.
    #[cfg(feature = "s2n-quic")]
    pub(super) fn is_in_slow_start(&self) -> bool {
        let doubles = |sender: &Sender| {
            sender.phase() != Phase::Unvalidated && sender.threshold().is_none_or(|end| sender.window() < end)
        };
        self.look(doubles).unwrap_or(false)
    }

    fn look<T>(&self, look: impl FnOnce(&Sender) -> T) -> Option<T> {
        match self {
            Self::Branch(_, sender) => Some(look(sender)),
            Self::Live(_, owner) => locked(&owner.0).as_ref().map(|live| look(&live.sender)),
        }
    }

    pub(super) fn acknowledged(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
    ) {
        let sent = self.moment(sent);
        self.act(now, |sender, now| sender.acknowledged(now, sent, bytes, app_limited));
        self.ask(now);
    }

    fn moment(&self, at: std::time::Instant) -> Instant {
        match self {
            Self::Live(clock, _) | Self::Branch(clock, _) => clock.moment(at),
        }
    }
}

impl Quinn for Controller {
    fn on_sent(&mut self, now: std::time::Instant, bytes: u64, last_packet_number: u64) {
        if let Self::Live(_, owner) = self
            && let Some(live) = locked(&owner.0).as_mut()
        {
            live.packets[0] = Some(last_packet_number);
            if live.sender.phase() == Phase::Unvalidated {
                live.packets[2] = Some(last_packet_number);
            }
        }
        self.act(now, |sender, now| sender.sent(now, bytes));
    }

    fn on_ack(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
        _rtt: &quinn_proto::RttEstimator,
    ) {
        self.acknowledged(now, sent, bytes, app_limited);
    }

    fn on_end_acks(&mut self, now: std::time::Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        self.act(now, |sender, now| sender.end_of_acknowledgement(now, in_flight, app_limited));
        self.ask(now);
    }

    fn on_congestion_event(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let loss = Loss { sent: self.moment(sent), bytes: lost_bytes, persistent: is_persistent_congestion };
        self.act(now, |sender, now| sender.lost(now, &loss));
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        match self {
            Self::Branch(_, sender) => sender.set_packet(new_mtu.into()),
            Self::Live(_, owner) => {
                if let Some(live) = locked(&owner.0).as_mut() {
                    live.sender.set_packet(new_mtu.into());
                }
            }
        }
    }

    fn window(&self) -> u64 {
        self.look(Sender::window).unwrap_or(BASE_DATAGRAM)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.look(Sender::threshold).flatten();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Quinn> {
        let (Self::Live(clock, _) | Self::Branch(clock, _)) = self;
        let terms = Terms {
            initial: initial_window(BASE_DATAGRAM),
            packet: BASE_DATAGRAM,
            remembered: None,
            most: 0,
            pacing: PACING,
        };
        let branch = self.look(Sender::branch);
        let branch = branch.unwrap_or_else(|| Sender::new(&start::ALL[0], &controllers::ALL[0], &terms));
        Box::new(Self::Branch(*clock, Box::new(branch)))
    }

    fn initial_window(&self) -> u64 {
        self.look(Sender::initial).unwrap_or_else(|| initial_window(BASE_DATAGRAM))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
