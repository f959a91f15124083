//! What is kept of moments before this one: round-trip times of late, and connections that have ended.

use headstart_io::forward::board::{App, Board, FlowLine};
use std::collections::{HashMap, VecDeque};

/// How many moments a trend has: as many as its column is wide.
const TREND: usize = 8;
/// For how long a connection that has ended is shown.
const KEPT_MS: f64 = 60_000.0;
/// How many of them at most: a program may open thousands a minute.
const MOST: usize = 500;
/// The signs of a trend, the least first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Past {
    trends: HashMap<String, VecDeque<f64>>,
    /// When it was seen to have ended, the latest last.
    closed: VecDeque<(f64, FlowLine)>,
}

impl Past {
    /// Takes in what is there now, after `before`.
    pub fn update(&mut self, before: &Board, now: &Board) {
        let at = now.at_ms;
        let there = |app: &App| now.apps.iter().any(|other| other.name == app.name);
        before.apps.iter().filter(|app| !there(app)).for_each(|app| _ = self.trends.remove(&app.name));
        for app in &now.apps {
            let Some(rtt) = app.meters.get("rtt_ms") else { continue };
            let trend = self.trends.entry(app.name.clone()).or_default();
            trend.push_back(*rtt);
            trend.drain(..trend.len().saturating_sub(TREND));
        }
        let known = before.ended.last().map_or(0, |ended| ended.number);
        let new = now.ended.iter().filter(|ended| ended.number > known);
        self.closed.extend(new.map(|ended| (at, ended.line.clone())));
        self.closed.retain(|(since, _)| at - since < KEPT_MS);
        self.closed.drain(..self.closed.len().saturating_sub(MOST));
    }

    /// The round-trip times of a program as bars, from the least of them to the most.
    pub fn trend(&self, app: &str) -> String {
        let Some(trend) = self.trends.get(app) else { return String::new() };
        let least = trend.iter().copied().fold(f64::INFINITY, f64::min);
        let most = trend.iter().copied().fold(0.0, f64::max);
        // Less than a tenth between them is no difference worth a look.
        let span = (most - least).max(most / 10.0);
        let bar = |rtt: &f64| {
            if span > 0.0 { BARS[((rtt - least) / span * 7.0).round().clamp(0.0, 7.0) as usize] } else { BARS[0] }
        };
        trend.iter().map(bar).collect()
    }

    /// Connections that ended within the last minute, the latest first.
    pub fn closed(&self) -> impl Iterator<Item = &FlowLine> {
        self.closed.iter().rev().map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::board;
    use super::*;
    use headstart_io::forward::board::Ended;

    /// A board at a moment, at which the connections of these numbers are the latest that have ended.
    fn ended(at_ms: f64, numbers: impl Iterator<Item = u64>) -> Board {
        let mut board = board(at_ms, 0);
        let line = board.connections[0].clone();
        board.ended = numbers.map(|number| Ended { number, line: line.clone() }).collect();
        board
    }

    #[test]
    fn what_has_ended_is_kept_for_a_minute_even_if_it_was_never_seen_open() {
        let mut past = Past::default();
        past.update(&ended(1000.0, 0..0), &ended(2000.0, 0..0));
        assert_eq!(past.closed().count(), 0);
        past.update(&ended(2000.0, 0..0), &ended(3000.0, 1..41));
        assert_eq!(past.closed().count(), 40);
        // The board still has what was known already.
        past.update(&ended(3000.0, 1..41), &ended(4000.0, 2..42));
        assert_eq!(past.closed().count(), 41);
        past.update(&ended(4000.0, 2..42), &ended(63_500.0, 2..42));
        assert_eq!(past.closed().count(), 1);
    }

    #[test]
    fn a_trend_goes_from_the_least_to_the_most() {
        let mut past = Past::default();
        let mut before = board(0.0, 0);
        for (n, rtt) in [90.0, 10.0, 20.0, 80.0, 80.0, 80.0, 80.0, 80.0, 10.0].into_iter().enumerate() {
            let mut now = board(n as f64, 0);
            now.apps[0].meters.insert("rtt_ms".into(), rtt);
            past.update(&before, &now);
            before = now;
        }
        assert_eq!(past.trend("curl"), "▁▂█████▁");
        assert_eq!(past.trend("wget"), "");
    }
}
