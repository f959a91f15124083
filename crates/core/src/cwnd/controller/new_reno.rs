//! NewReno as QUIC does it: RFC 9002, section 7.

use super::{Controller, bounded};
use crate::time::{Duration, Instant};

/// kLossReductionFactor: RFC 9002, section B.1.
const BETA: f64 = 0.5;

/// NewReno.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: f64,
    threshold: f64,
    packet: f64,
}

impl NewReno {
    /// In slow start with this window, in bytes.
    pub fn new(window: u64, packet: u64) -> Self {
        let packet = packet.max(1) as f64;
        Self { window: bounded(window as f64, packet), threshold: f64::INFINITY, packet }
    }
}

impl Controller for NewReno {
    fn window(&self) -> u64 {
        self.window as u64
    }

    fn threshold(&self) -> Option<u64> {
        self.threshold.is_finite().then_some(self.threshold as u64)
    }

    fn grow(&mut self, _now: Instant, bytes: u64, _rtt: Duration) {
        let bytes = bytes as f64;
        let more = if self.window < self.threshold { bytes } else { (self.packet * bytes / self.window).min(bytes) };
        self.window = bounded(self.window + more, self.packet);
    }

    fn reduce(&mut self, _now: Instant) {
        self.window = bounded(self.window * BETA, self.packet);
        self.threshold = self.window;
    }

    fn collapse(&mut self, now: Instant) {
        self.reduce(now);
        self.window = bounded(0.0, self.packet);
    }

    fn set(&mut self, window: u64, threshold: Option<u64>) {
        self.window = bounded(window as f64, self.packet);
        if let Some(threshold) = threshold {
            self.threshold = bounded(threshold as f64, self.packet);
        }
    }

    fn set_packet(&mut self, bytes: u64) {
        self.packet = bytes.max(1) as f64;
        self.window = bounded(self.window, self.packet);
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
