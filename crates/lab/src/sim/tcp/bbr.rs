//! BBR as Linux's `tcp_bbr.c` has it (version 1): a model of the path, the best rate of ten round trips and the least round trip of ten
//! seconds, says how fast segments leave and how many are under way. Losses say nothing to it.
//!
//! What is not here: policers, idle restarts, packet conservation in the first round of a recovery.

use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;

/// Doubles the rate each round trip (`bbr_high_gain`, 2 / ln 2), and takes the queue of that away again.
const HIGH: f64 = 2.885;
/// Windows are so many times what the path carries in a round trip (`bbr_cwnd_gain`).
const WINDOW: f64 = 2.0;
/// Eight round trips: more is tried, what that left in the queue drains, and six are cruised (`bbr_pacing_gain`).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips for which the best rate holds (`bbr_bw_rtts`).
const RATES: u64 = 10;
/// For so long the least round trip holds (`bbr_min_rtt_win_sec`); then for so long next to nothing is under way
/// (`bbr_probe_rtt_mode_ms`).
const LEAST_HOLDS: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_millis(200);
/// Segments that are under way at least (`bbr_cwnd_min_target`).
const FEW: f64 = 4.0;
/// The pipe is full if three round trips bring less than a quarter more (`bbr_full_bw_thresh`, `bbr_full_bw_cnt`).
const MORE: f64 = 1.25;
const ROUNDS: u32 = 3;
/// Segments leave by one hundredth more slowly than they could (`bbr_pacing_margin_percent`).
const MARGIN: f64 = 0.99;
/// What is sent at once lasts a millisecond; the window has room for three of these (`bbr_quantization_budget`).
const AT_ONCE: f64 = 0.001;

/// What a segment takes along when it leaves, to tell the rate by when it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    delivered: u64,
    at: Instant,
    /// When the segment left whose acknowledgement came last.
    sent: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Startup,
    Drain,
    /// Where in the cycle, and since when.
    Cruise(usize, Instant),
    /// Next to nothing is under way until then, once that is so.
    Look(Option<Instant>),
}

/// The model. Segments are counted, not bytes.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mode: Mode,
    /// Segments per second, and the round in which that was seen; the best first.
    rates: VecDeque<(u64, f64)>,
    least: (Duration, Instant),
    delivered: u64,
    delivered_at: Instant,
    sent: Instant,
    round: u64,
    round_ends: u64,
    full: (f64, u32),
    /// When the next segment may leave.
    pub next: Instant,
}

impl Bbr {
    pub fn new(rtt: Duration, initial: f64) -> Self {
        Self {
            mode: Mode::Startup,
            rates: VecDeque::from([(0, initial / rtt.as_secs_f64().max(1e-3))]),
            least: (rtt, Instant::ZERO),
            delivered: 0,
            delivered_at: Instant::ZERO,
            sent: Instant::ZERO,
            round: 0,
            round_ends: 0,
            full: (0.0, 0),
            next: Instant::ZERO,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.front().map_or(1.0, |(_, rate)| *rate)
    }

    fn gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH,
            Mode::Drain => 1.0 / HIGH,
            Mode::Cruise(at, _) => CYCLE[at],
            Mode::Look(_) => 1.0,
        }
    }

    fn product(&self) -> f64 {
        self.rate() * self.least.0.as_secs_f64()
    }

    /// How many segments may be under way.
    pub fn window(&self) -> f64 {
        let gain = match self.mode {
            Mode::Startup | Mode::Drain => HIGH,
            Mode::Cruise(..) => WINDOW,
            Mode::Look(_) => return FEW,
        };
        (gain * self.product() + 3.0 * (self.rate() * AT_ONCE).max(2.0)).max(FEW)
    }

    /// A segment leaves, with `flying` under way before it.
    pub fn leaves(&mut self, now: Instant, flying: usize) -> Stamp {
        if flying == 0 {
            (self.delivered_at, self.sent) = (now, now);
        }
        // What could not leave while the window was closed may leave at once, within what is sent at once.
        let earliest = Instant::ZERO + now.since(Instant::ZERO).saturating_sub(Duration::from_secs_f64(AT_ONCE));
        let apart = Duration::from_secs_f64(1.0 / (self.rate() * self.gain() * MARGIN).max(1.0));
        self.next = self.next.max(earliest) + apart;
        Stamp { delivered: self.delivered, at: self.delivered_at, sent: self.sent }
    }

    /// A segment that left at `sent` has arrived.
    pub fn arrived(&mut self, now: Instant, sent: Instant, stamp: Stamp) {
        self.delivered += 1;
        (self.delivered_at, self.sent) = (now, sent);
        if stamp.delivered >= self.round_ends {
            self.round += 1;
            self.round_ends = self.delivered;
            self.is_full();
        }
        let took = now.since(stamp.at).max(sent.since(stamp.sent));
        if took < self.least.0 {
            return;
        }
        let rate = (self.delivered - stamp.delivered) as f64 / took.as_secs_f64();
        self.rates.retain(|(round, known)| round + RATES > self.round && *known > rate);
        self.rates.push_back((self.round, rate));
    }

    /// After each round of the first phase: whether there is nothing more to be had.
    fn is_full(&mut self) {
        if self.mode != Mode::Startup {
            return;
        }
        let (seen, rounds) = self.full;
        self.full = if self.rate() >= seen * MORE { (self.rate(), 0) } else { (seen, rounds + 1) };
        if self.full.1 >= ROUNDS {
            self.mode = Mode::Drain;
        }
    }

    /// An acknowledgement was processed: `rtt` is its sample, `flying` is still in flight.
    pub fn on_ack(&mut self, now: Instant, rtt: Option<Duration>, flying: usize) {
        let stale = now.since(self.least.1) > LEAST_HOLDS;
        if let Some(rtt) = rtt
            && (rtt <= self.least.0 || stale)
        {
            self.least = (rtt, now);
        }
        let cruise = Mode::Cruise(2, now);
        match self.mode {
            _ if stale && !matches!(self.mode, Mode::Look(_) | Mode::Startup) => self.mode = Mode::Look(None),
            Mode::Drain if flying as f64 <= self.product() => self.mode = cruise,
            Mode::Cruise(at, since) => {
                let passed = now.since(since) > self.least.0;
                let done = match at {
                    0 => passed && flying as f64 >= CYCLE[0] * self.product(),
                    1 => passed || flying as f64 <= self.product(),
                    _ => passed,
                };
                // A path that never has more under way is not tried for ever.
                let done = done || now.since(since) > self.least.0 * 4;
                if done {
                    self.mode = Mode::Cruise((at + 1) % CYCLE.len(), now);
                }
            }
            Mode::Look(None) if flying as f64 <= FEW => self.mode = Mode::Look(Some(now + LOOKS.max(self.least.0))),
            Mode::Look(Some(until)) if now >= until => {
                self.least.1 = now;
                self.mode = cruise;
            }
            _ => {}
        }
    }
}
