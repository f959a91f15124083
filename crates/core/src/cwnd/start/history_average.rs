//! `history-average` and, without a bound as the paper has it, `history-unbounded`: Algorithm 1 of paper 2. A connection starts with the larger of the default window and the average of
//! the windows of earlier connections, at once and without a look at the path.
//!
//! In the paper's words: a 1-RTT handshake starts from the average, a 0-RTT handshake goes on with the window that was kept;
//! IETF QUIC keeps no window, so both start from the average here. RFC 9959 forbids what makes this fast (more than half of
//! what was saved, before the path is confirmed): it is for the lab and for networks of one's own, and bounded elsewhere.
//! One addition of ours: the memory is leased, so that ten connections do not send ten averages at once.

use super::{Advice, Event, Phase, Start, Terms, Trigger, View};
use crate::cwnd::history::Remembered;
use crate::time::Duration;

/// Starts with an average.
#[derive(Clone, Copy, Debug)]
pub struct HistoryAverage {
    /// The bound, until the average was applied or refused.
    most: Option<u64>,
    event: Option<Event>,
}

impl HistoryAverage {
    /// From what is remembered; does nothing if the average is not more than the default.
    pub fn new(terms: &Terms) -> Self {
        let average = terms.remembered.map_or(0, |known| known.average.min(terms.most));
        Self { most: (average > terms.initial).then_some(terms.most), event: None }
    }
}

impl Start for HistoryAverage {
    fn wants_lease(&self) -> bool {
        self.most.is_some()
    }

    fn leased(&mut self, view: &View, granted: Option<Remembered>) -> Advice {
        let Some(most) = self.most.take() else { return Advice::default() };
        let window = granted.map(|known| known.average.min(most).max(view.window));
        self.event = Some(Event {
            at: view.now,
            old: Phase::Normal,
            new: Phase::Normal,
            trigger: if granted.is_some() { Trigger::CwndLimited } else { Trigger::InUse },
            pipe: view.flight,
            first_unvalidated: None,
            last_unvalidated: None,
            window: window.unwrap_or(view.window),
            threshold: None,
            saved_window: granted.map_or(0, |known| known.average),
            saved_rtt: granted.map_or(Duration::ZERO, |known| known.rtt),
        });
        Advice { window, ..Advice::default() }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.event.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cwnd::history::Trust;
    use crate::time::Instant;

    fn started(average: u64, most: u64, granted: bool) -> Option<u64> {
        let remembered = Remembered {
            window: 99,
            found: true,
            average,
            rtt: Duration::from_millis(38),
            least: Duration::from_millis(38),
            rate: 0,
            age: Duration::ZERO,
            trust: Trust::Exact,
        };
        let terms = Terms { initial: 12_000, packet: 1200, remembered: Some(remembered), most, pacing: 1.25 };
        let view =
            View { now: Instant::ZERO, flight: 0, window: 12_000, latest: None, shortest: None, app_limited: true };
        let mut rule = HistoryAverage::new(&terms);
        rule.wants_lease().then(|| rule.leased(&view, granted.then_some(remembered)).window).flatten()
    }

    #[test]
    fn the_larger_of_default_and_average_is_the_start() {
        assert_eq!(started(400_000, u64::MAX, true), Some(400_000));
        assert_eq!(started(12_000, u64::MAX, true), None);
        assert_eq!(started(400_000, 240_000, true), Some(240_000), "within the bound");
    }

    #[test]
    fn while_another_connection_uses_the_memory_the_default_is_the_start() {
        assert_eq!(started(400_000, u64::MAX, false), None);
    }
}
