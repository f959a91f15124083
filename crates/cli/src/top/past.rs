//! What is kept of moments before this one: round-trip times of late, and connections that have ended.

use super::view::{View, rtt};
use headstart_io::forward::board::{App, Line};
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
    closed: VecDeque<(f64, Line)>,
}

impl Past {
    /// Takes in what is there now, after `before`.
    pub fn update(&mut self, before: &View, now: &View) {
        let at = now.board.at_ms;
        let there = |app: &App| now.board.apps.iter().any(|other| other.name == app.name);
        before.board.apps.iter().filter(|app| !there(app)).for_each(|app| _ = self.trends.remove(&app.name));
        for app in &now.board.apps {
            let Some(rtt) = rtt(&app.meters) else { continue };
            let trend = self.trends.entry(app.name.clone()).or_default();
            trend.push_back(rtt);
            trend.drain(..trend.len().saturating_sub(TREND));
        }
        // Connections that the board has left out for want of room have not ended.
        if now.board.omitted == 0 && before.board.omitted == 0 {
            let goes_on = |line: &&Line| {
                let same = |other: &Line| (&other.local, &other.peer) == (&line.local, &line.peer);
                now.board.connections.iter().any(|other| same(other) && other.age_ms >= line.age_ms)
            };
            self.closed.extend(before.board.connections.iter().filter(|line| !goes_on(line)).map(|l| (at, l.clone())));
        }
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
        let bar = |rtt: &f64| match span > 0.0 {
            true => BARS[((rtt - least) / span * 7.0).round().clamp(0.0, 7.0) as usize],
            false => BARS[0],
        };
        trend.iter().map(bar).collect()
    }

    /// Connections that ended within the last minute, the latest first.
    pub fn closed(&self) -> impl Iterator<Item = &Line> {
        self.closed.iter().rev().map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::board;
    use super::*;

    #[test]
    fn what_has_ended_is_kept_for_a_minute() {
        let (open, mut gone) = (View::first(board(1000.0, 0)), board(2000.0, 0));
        gone.connections.clear();
        let mut past = Past::default();
        past.update(&open, &View::first(board(2000.0, 0)));
        assert_eq!(past.closed().count(), 0);
        past.update(&open, &View::first(gone.clone()));
        assert_eq!(past.closed().count(), 1);
        // The same ends again are another connection.
        let mut again = board(3000.0, 0);
        again.connections[0].age_ms = 10.0;
        past.update(&View::first(board(2000.0, 0)), &View::first(again));
        assert_eq!(past.closed().count(), 2);
        gone.at_ms = 62_500.0;
        past.update(&View::first(gone.clone()), &View::first(gone));
        assert_eq!(past.closed().count(), 1);
    }

    #[test]
    fn a_trend_goes_from_the_least_to_the_most() {
        let mut past = Past::default();
        let mut before = View::first(board(0.0, 0));
        for (n, rtt) in [90.0, 10.0, 20.0, 80.0, 80.0, 80.0, 80.0, 80.0, 10.0].into_iter().enumerate() {
            let mut now = board(n as f64, 0);
            now.apps[0].meters.insert("rtt_ms".into(), rtt);
            let now = View::first(now);
            past.update(&before, &now);
            before = now;
        }
        assert_eq!(past.trend("curl"), "▁▂█████▁");
        assert_eq!(past.trend("wget"), "");
    }
}
