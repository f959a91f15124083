//! CUBIC (RFC 9438) with slow start ended by HyStart++ (RFC 9406).
//!
//! Our own, since the transports that we serve hide the threshold of theirs, which a start rule must set (RFC 9959).

use super::hystart::HyStart;
use super::{Controller, MOST, bounded};
use crate::time::{Duration, Instant};

/// Multiplicative decrease: RFC 9438, section 4.6.
const BETA: f64 = 0.7;
/// Packets per second cubed: section 5.
const C: f64 = 0.4;
/// The additive increase of the Reno-friendly region: section 4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    packet: f64,
    /// W_max and the window before the last reduction, in bytes.
    most: f64,
    prior: f64,
    /// When congestion avoidance began or went on after a reduction.
    epoch: Option<Epoch>,
    hystart: Option<HyStart>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// K, in seconds.
    k: f64,
    /// W_est, in bytes.
    reno: f64,
}

impl Cubic {
    /// In slow start with this window, in bytes.
    pub fn new(window: u64, packet: u64) -> Self {
        let packet = packet.max(1) as f64;
        Self {
            window: bounded(window as f64, packet),
            threshold: f64::INFINITY,
            packet,
            most: 0.0,
            prior: 0.0,
            epoch: None,
            hystart: Some(HyStart::default()),
        }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn avoid(&mut self, now: Instant, bytes: f64, rtt: f64) {
        let (window, packet) = (self.window, self.packet);
        if self.epoch.is_none() {
            self.most = self.most.max(window);
        }
        let most = self.most;
        let epoch = self.epoch.get_or_insert_with(|| {
            // Section 4.2: K is what it takes to come back to W_max; beyond it there is nothing to come back to.
            let k = if window < most { ((most - window) / packet / C).cbrt() } else { 0.0 };
            Epoch { began: now, k, reno: window }
        });
        let t = now.since(epoch.began).as_secs_f64();
        let cubic = |t: f64| (C * (t - epoch.k).powi(3)) * packet + most;
        let alpha = if epoch.reno < self.prior { ALPHA } else { 1.0 };
        epoch.reno = (epoch.reno + alpha * packet * bytes / window).min(MOST as f64);
        let reno = epoch.reno;
        let grown = if cubic(t) < reno {
            window.max(reno)
        } else {
            // Section 4.4: at most half as much again in a round trip.
            let target = cubic(t + rtt).clamp(window, 1.5 * window);
            window + (target - window) / window * bytes
        };
        // RFC 9002, section 7.3.3, by another way: never faster than slow start.
        self.window = bounded(grown.min(window + bytes), packet);
    }
}

impl Controller for Cubic {
    fn window(&self) -> u64 {
        self.window as u64
    }

    fn threshold(&self) -> Option<u64> {
        self.threshold.is_finite().then_some(self.threshold as u64)
    }

    fn grow(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        let bytes = bytes as f64;
        if self.in_slow_start() {
            let share = self.hystart.as_ref().map_or(1.0, HyStart::share);
            self.window = bounded(self.window + bytes * share, self.packet);
        } else {
            self.avoid(now, bytes, rtt.as_secs_f64());
        }
    }

    fn sample(&mut self, rtt: Duration, ends_round: bool) {
        // Section 4.2 of RFC 9406: for the first slow start only.
        let Some(hystart) = &mut self.hystart else { return };
        if hystart.sample(rtt, ends_round) {
            (self.threshold, self.hystart) = (self.window, None);
            (self.most, self.prior) = (self.window, self.window);
        }
    }

    fn is_slow(&self) -> bool {
        self.hystart.as_ref().is_some_and(|hystart| hystart.share() < 1.0)
    }

    fn idle(&mut self, time: Duration) {
        // Section 5.8: time without data is no time for the window to grow in.
        if let Some(epoch) = &mut self.epoch {
            epoch.began += time;
        }
    }

    fn reduce(&mut self, _now: Instant) {
        // Section 4.7, fast convergence.
        self.most = if self.window < self.most { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.prior = self.window;
        self.window = bounded(self.window * BETA, self.packet);
        self.threshold = self.window;
        (self.epoch, self.hystart) = (None, None);
    }

    fn collapse(&mut self, now: Instant) {
        self.reduce(now);
        self.most = self.window;
        self.window = bounded(0.0, self.packet);
    }

    fn set(&mut self, window: u64, threshold: Option<u64>) {
        self.window = bounded(window as f64, self.packet);
        self.epoch = None;
        if let Some(threshold) = threshold {
            self.threshold = bounded(threshold as f64, self.packet);
            self.hystart = None;
            // There was no reduction to come back from.
            self.most = self.window.max(self.threshold);
            self.prior = self.most;
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

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1000;
    const RTT: Duration = Duration::from_millis(100);

    fn rounds(cubic: &mut Cubic, from: Instant, count: u64) -> Instant {
        let mut now = from;
        for _ in 0..count {
            now += RTT;
            for _ in 0..cubic.window() / PACKET {
                cubic.grow(now, PACKET, RTT);
            }
        }
        now
    }

    //= RFC 9438#4.4
    //= RFC 9438#4.6
    #[test]
    fn the_window_comes_back_to_where_it_was_after_k_seconds_and_stays_there_for_a_while() {
        let mut cubic = Cubic::new(1_000_000, PACKET);
        cubic.reduce(Instant::ZERO);
        assert_eq!(cubic.window(), 700_000);
        // K = cbrt(1000 packets * 0.3 / 0.4) = 9.1 s.
        let mut now = rounds(&mut cubic, Instant::ZERO, 45);
        let half = cubic.window();
        assert!((900_000..970_000).contains(&half), "concave: most of it in the first half, {half}");
        now = rounds(&mut cubic, now, 46);
        assert!((990_000..=1_002_000).contains(&cubic.window()), "{}", cubic.window());
        rounds(&mut cubic, now, 60);
        assert!(cubic.window() > 1_050_000, "convex beyond: {}", cubic.window());
    }

    //= RFC 9438#4.3
    #[test]
    fn on_short_paths_it_is_never_slower_than_reno() {
        let mut cubic = Cubic::new(20_000, PACKET);
        cubic.reduce(Instant::ZERO);
        let (mut now, rtt) = (Instant::ZERO, Duration::from_millis(5));
        for _ in 0..20 {
            now += rtt;
            for _ in 0..cubic.window() / PACKET {
                cubic.grow(now, PACKET, rtt);
            }
        }
        // 14 packets and 0.53 a round trip; a cubic alone would be below 15.5 after a tenth of a second.
        assert!(cubic.window() > 22_000, "{}", cubic.window());
    }

    //= RFC 9438#4.7
    #[test]
    fn a_second_loss_below_the_first_leaves_room_for_others() {
        let mut cubic = Cubic::new(100_000, PACKET);
        cubic.reduce(Instant::ZERO);
        cubic.reduce(Instant::ZERO);
        assert_eq!(cubic.most, 70_000.0 * 0.85);
    }

    //= RFC 9438#5.8
    #[test]
    fn time_without_data_is_no_time_to_grow_in() {
        let (mut patient, mut idle) = (Cubic::new(100_000, PACKET), Cubic::new(100_000, PACKET));
        for cubic in [&mut patient, &mut idle] {
            cubic.reduce(Instant::ZERO);
            rounds(cubic, Instant::ZERO, 1);
        }
        let pause = Duration::from_secs(60);
        idle.idle(pause);
        rounds(&mut patient, Instant::ZERO + RTT, 1);
        rounds(&mut idle, Instant::ZERO + RTT + pause, 1);
        assert_eq!(patient.window(), idle.window());
    }

    #[test]
    fn after_a_reduction_each_acknowledgement_brings_its_part_of_what_a_round_trip_is_to_bring() {
        let mut cubic = Cubic::new(1_000_000, PACKET);
        assert!(!cubic.is_slow(), "nothing has risen");
        cubic.reduce(Instant::ZERO);
        cubic.grow(Instant::ZERO + RTT, PACKET, RTT);
        assert_eq!(cubic.window(), 700_000, "slow start is over: a byte, not a packet");
        rounds(&mut cubic, Instant::ZERO, 1);
        let before = cubic.window();
        cubic.grow(Instant::ZERO + RTT * 2, PACKET, RTT);
        // In a tenth of a second the window is to be 719 packets, 19 more: one in 700 of these now.
        assert!((before + 20..before + 35).contains(&cubic.window()), "{before} to {}", cubic.window());
    }

    //= RFC 9438#4.3
    #[test]
    fn a_reno_friendly_window_grows_by_half_a_packet_until_it_is_where_it_was_and_then_by_one() {
        let mut cubic = Cubic::new(20_000, PACKET);
        cubic.reduce(Instant::ZERO);
        let mut now = Instant::ZERO;
        let windows = [10, 10].map(|rounds| {
            for _ in 0..rounds {
                now += RTT / 20;
                (0..cubic.window() / PACKET).for_each(|_| cubic.grow(now, PACKET, RTT / 20));
            }
            cubic.window()
        });
        assert!((19_000..19_300).contains(&windows[0]) && (27_500..28_500).contains(&windows[1]), "{windows:?}");
    }

    //= RFC 9438#4.7
    #[test]
    fn a_loss_where_the_last_one_was_leaves_no_more_room_for_others() {
        let mut cubic = Cubic::new(100_000, PACKET);
        cubic.set(100_000, Some(50_000));
        cubic.reduce(Instant::ZERO);
        assert_eq!(cubic.most, 100_000.0);
    }
}
