//! s2n-quic's congestion traits over the controller that quinn gets, whose moments and calls these are turned into.
//!
//! What s2n-quic 1.83 does that one would not expect, and what is done about it: a controller counts the bytes in flight and paces by
//! itself; its clock has a beginning of its own (moments are taken from the first one that is seen); acknowledged bytes come as one sum with
//! the moment at which the newest of their packets was sent, so that a jump counts as acknowledged up to one acknowledgement too early; a
//! loss says its packet's moment only if the controller has written it down; each path has a controller of its own, so that a new path begins with
//! what is remembered of its own peer.

use super::controller::Controller;
use super::{CarefulResume, Plan, locked};
use quinn::congestion::Controller as _;
use quinn::{Runtime as _, TokioRuntime};
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::congestion_controller::{CongestionController, Endpoint, PathInfo, Publisher};
use s2n_quic_core::time::Timestamp;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Packets that may leave at once: RFC 9002, section 7.7, by its recommendation of the initial window.
const BURST: u64 = 10;
/// How much faster than a window in a round trip: RFC 9002, section 7.7.
const PACING: f64 = 1.25;
/// In slow start the window doubles in a round trip, so that packets at its pace would come too late for the next: Linux and s2n-quic's own
/// controllers take twice the window.
const PACING_IN_SLOW_START: f64 = 2.0;
/// Below this round trip a timer takes longer than the path.
const TOO_SHORT_TO_PACE: Duration = Duration::from_millis(2);

impl CarefulResume {
    /// For `s2n_quic::Server::builder().with_congestion_controller(…)`, or a client's: connections of that endpoint begin with what their
    /// paths have carried. Of [`Options`](super::Options), `transport`, `receive_windows` and `stream_window` are quinn's alone.
    pub fn s2n_quic(&self) -> Controllers {
        Controllers(self.clone())
    }
}

/// Makes the controller of each path of an endpoint of s2n-quic; see [`CarefulResume::s2n_quic`].
#[derive(Debug)]
pub struct Controllers(CarefulResume);

impl Endpoint for Controllers {
    type CongestionController = Path;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Path {
        let remote: SocketAddr = path.remote_address.into();
        let now = TokioRuntime.now();
        // Nobody knows yet whether the peer is where it says: what is remembered waits for its first acknowledgement.
        Path::new(self.0.plan(now, remote, false), now, path.max_datagram_size)
    }
}

/// The window of one path of a connection.
///
/// A copy has the same controller: s2n-quic begins each connection with a copy, and drops what it has copied.
#[derive(Clone, Debug)]
pub struct Path {
    inner: Arc<Mutex<Controller>>,
    /// A moment of s2n-quic's clock, and what it was by the host's.
    origin: Option<Timestamp>,
    began: Instant,
    packet: u16,
    flight: u32,
    sent: u64,
    app_limited: bool,
    /// A packet may leave in spite of the window: the first after a loss (RFC 9002, section 7.3.2).
    retransmits: bool,
    /// When all that has left would have, spread evenly over the round trip.
    spread: Option<Timestamp>,
    burst: Duration,
}

impl Path {
    pub(super) fn new(plan: Plan, now: Instant, packet: u16) -> Self {
        let (factory, _) = plan.into_factory();
        Self {
            inner: Arc::new(Mutex::new(factory.make(now, packet))),
            origin: None,
            began: now,
            packet,
            flight: 0,
            sent: 0,
            app_limited: true,
            retransmits: false,
            spread: None,
            burst: Duration::ZERO,
        }
    }

    fn controller(&self) -> MutexGuard<'_, Controller> {
        locked(&self.inner)
    }

    /// The moment of the host's clock that `at` is; before the first, it is the first.
    fn moment(&mut self, at: Timestamp) -> Instant {
        let origin = *self.origin.get_or_insert(at);
        self.began + at.saturating_duration_since(origin)
    }

    /// A packet has left. Acknowledgements alone are not counted: they have no bytes.
    fn has_left(&mut self, at: Timestamp, bytes: usize, app_limited: Option<bool>, rtt: Duration) {
        let now = self.moment(at);
        if bytes > 0 {
            self.flight = self.flight.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
            self.app_limited = app_limited.unwrap_or(self.app_limited);
            self.retransmits = false;
            self.controller().on_sent(now, bytes as u64, self.sent);
            self.pace(at, bytes, rtt);
        }
        self.sent += 1;
    }

    /// `bytes` are acknowledged, the newest of them sent at `newest_sent`.
    fn is_acknowledged(&mut self, at: Timestamp, newest_sent: Timestamp, bytes: usize) {
        let (sent, now) = (self.moment(newest_sent), self.moment(at));
        self.leave(bytes);
        let mut controller = self.controller();
        controller.acknowledged(now, sent, bytes as u64, self.app_limited);
        controller.on_end_acks(now, self.flight.into(), self.app_limited, None);
    }

    /// A packet of `bytes`, sent at `sent`, is lost.
    fn is_lost(&mut self, at: Timestamp, sent: Timestamp, bytes: u32, persistent: bool) {
        let (sent, now) = (self.moment(sent), self.moment(at));
        self.leave(bytes as usize);
        let before = self.congestion_window();
        self.controller().on_congestion_event(now, sent, persistent, bytes.into());
        self.retransmits |= self.congestion_window() < before;
    }

    /// So much is in flight no more.
    fn leave(&mut self, bytes: usize) {
        self.flight = self.flight.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// `bytes` have left at `now`: those after them wait until as many would have, at the pace of the window.
    fn pace(&mut self, now: Timestamp, bytes: usize, rtt: Duration) {
        if rtt < TOO_SHORT_TO_PACE {
            self.spread = None;
            return;
        }
        let pacing = if self.controller().is_in_slow_start() { PACING_IN_SLOW_START } else { PACING };
        let rate = pacing * f64::from(self.congestion_window().max(1)) / rtt.as_secs_f64();
        let takes = |bytes: f64| Duration::from_secs_f64(bytes / rate);
        self.burst = takes(BURST as f64 * f64::from(self.packet));
        let from = self.spread.map_or(now, |spread| spread.max(now));
        self.spread = Some(from + takes(bytes as f64));
    }
}

impl CongestionController for Path {
    /// When the packet was sent.
    type PacketInfo = Timestamp;

    fn congestion_window(&self) -> u32 {
        u32::try_from(self.controller().window()).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        self.flight
    }

    fn is_congestion_limited(&self) -> bool {
        self.congestion_window().saturating_sub(self.flight) < u32::from(self.packet)
    }

    fn requires_fast_retransmission(&self) -> bool {
        self.retransmits
    }

    fn on_packet_sent<P: Publisher>(
        &mut self,
        sent: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        _: &mut P,
    ) -> Timestamp {
        self.has_left(sent, bytes, app_limited, rtt.smoothed_rtt());
        sent
    }

    /// The controller takes its own samples.
    fn on_rtt_update<P: Publisher>(&mut self, _: Timestamp, _: Timestamp, _: &RttEstimator, _: &mut P) {}

    fn on_ack<P: Publisher>(
        &mut self,
        newest_sent: Timestamp,
        bytes: usize,
        _: Timestamp,
        _: &RttEstimator,
        _: &mut dyn Generator,
        received: Timestamp,
        _: &mut P,
    ) {
        self.is_acknowledged(received, newest_sent, bytes);
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        lost_bytes: u32,
        sent: Timestamp,
        persistent_congestion: bool,
        _: bool,
        _: &mut dyn Generator,
        at: Timestamp,
        _: &mut P,
    ) {
        self.is_lost(at, sent, lost_bytes, persistent_congestion);
    }

    fn on_explicit_congestion<P: Publisher>(&mut self, _: u64, at: Timestamp, _: &mut P) {
        let now = self.moment(at);
        self.controller().on_congestion_event(now, now, false, 0);
    }

    fn on_mtu_update<P: Publisher>(&mut self, bytes: u16, _: &mut P) {
        self.packet = bytes;
        self.controller().on_mtu_update(bytes);
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, _: &mut P) {
        self.leave(bytes);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.spread.and_then(|spread| spread.checked_sub(self.burst))
    }
}

#[cfg(test)]
mod tests;
