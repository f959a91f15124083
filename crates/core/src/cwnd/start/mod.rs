//! Start rules: with which window a connection begins, and what it does until that window has proved itself. One file each,
//! one line in [`ALL`].
//!
//! A [`Start`] gets the events of a connection and answers with [`Advice`]: a window, a threshold, "do not grow now". It
//! knows bytes and moments only, keeps no time of its own and never touches the history: that the memory is used by one
//! connection at a time (RFC 9959) is asked of the caller, by [`Start::wants_lease`].

mod careful_resume;
mod careful_wireless;
mod default;
mod history_average;
mod phase;

pub use careful_resume::{Care, CarefulResume};
pub use phase::{Event, Phase, Trigger};

use super::history::Remembered;
use crate::time::{Duration, Instant};
use std::fmt;

/// With what a rule is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The initial window in bytes, as the transport would have it without us.
    pub initial: u64,
    /// Bytes of a packet.
    pub packet: u64,
    /// What is remembered of the path; `None` at the first contact.
    pub remembered: Option<Remembered>,
    /// The largest window in bytes that a memory may lead to.
    pub most: u64,
    /// How much faster than a window in a round trip the transport's pacer sends (quinn: 1.25).
    pub pacing: f64,
}

/// gQUIC's bound on a window out of history, kMaxResumptionCongestionWindow: 200 packets.
pub const MOST_PACKETS: u64 = 200;

/// The largest jump of careful resume, max_jump of RFC 9959: 8 MiB, half of what 50 Mbit/s over a satellite (600 ms) or
/// 1 Gbit/s over 134 ms carries.
pub const MOST_JUMP: u64 = 8 << 20;

/// How things stand, when a rule is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// The moment.
    pub now: Instant,
    /// Bytes in flight.
    pub flight: u64,
    /// The window in bytes.
    pub window: u64,
    /// The last sample of the round-trip time.
    pub latest: Option<Duration>,
    /// The shortest of this connection.
    pub shortest: Option<Duration>,
    /// The application, not the window, is the limit.
    pub app_limited: bool,
}

/// Packets that were lost or marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When the last of them was sent.
    pub sent: Instant,
    /// Bytes; zero for a mark (ECN).
    pub bytes: u64,
    /// Everything of a long time was lost (RFC 9002, section 7.6).
    pub persistent: bool,
}

/// What a rule wants; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// The window is to be this, in bytes.
    pub window: Option<u64>,
    /// The threshold is to be this, in bytes.
    pub threshold: Option<u64>,
    /// The window is not to grow by what was acknowledged.
    pub hold: bool,
    /// Slow start is to grow by half of what was acknowledged: packets wait.
    pub slow: bool,
    /// The loss has been dealt with: it is not passed on to the controller.
    pub handled: bool,
}

/// How a connection starts.
pub trait Start: fmt::Debug + Send + Sync {
    /// A packet of `bytes` was sent; it is in the flight of `view` already.
    fn sent(&mut self, _view: &View, _bytes: u64) -> Advice {
        Advice::default()
    }

    /// A packet of `bytes`, sent at `sent`, was acknowledged; it has left the flight of `view` already.
    fn acknowledged(&mut self, _view: &View, _sent: Instant, _bytes: u64) -> Advice {
        Advice::default()
    }

    /// An acknowledgement has been processed, and its round-trip time samples with it.
    fn end_of_acknowledgement(&mut self, _view: &View) -> Advice {
        Advice::default()
    }

    /// Packets were lost or marked.
    fn lost(&mut self, _view: &View, _loss: &Loss) -> Advice {
        Advice::default()
    }

    /// Whether it would use the memory now, if no other connection does: [`Start::leased`] answers.
    fn wants_lease(&self) -> bool {
        false
    }

    /// The memory that this connection, and no other, may use now; `None` if there is none, or another connection uses it.
    fn leased(&mut self, _view: &View, _granted: Option<Remembered>) -> Advice {
        Advice::default()
    }

    /// In which phase it is.
    fn phase(&self) -> Phase {
        Phase::Normal
    }

    /// The memory has proved wrong and must be deleted (RFC 9959, Safe Retreat). Says so once.
    fn take_refuted(&mut self) -> bool {
        false
    }

    /// The next change of phase that has not been reported.
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

/// What counts as a rise of the round-trip time: HyStart++'s measure (RFC 9406, section 4.3).
pub(super) fn has_risen(shortest: Duration, latest: Duration) -> bool {
    let margin = (shortest / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
    latest > shortest.saturating_add(margin)
}

/// A registered rule.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name in settings and tables.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// The largest window in bytes that a memory may lead to, for packets of this many bytes, unless the settings say
    /// otherwise.
    pub most: fn(u64) -> u64,
    /// Makes one.
    pub new: fn(&Terms) -> Box<dyn Start>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The rule that is used when none is named.
pub const DEFAULT: &str = "careful-resume";

/// Every rule.
pub const ALL: &[Entry] = &[
    Entry {
        name: "default",
        what: "the initial window of RFC 9002, without history (baseline)",
        most: |_| 0,
        new: |_| Box::new(default::Default),
    },
    Entry {
        name: "history-average",
        what: "the average window of earlier connections, at most 200 packets, at once; only for your own networks",
        most: |packet| MOST_PACKETS * packet,
        new: |terms| Box::new(history_average::HistoryAverage::new(terms)),
    },
    Entry {
        name: "history-unbounded",
        what: "paper 2, Algorithm 1 as printed: history-average without a limit; for experiments",
        most: |_| u64::MAX,
        new: |terms| Box::new(history_average::HistoryAverage::new(terms)),
    },
    Entry {
        name: "careful-resume",
        what: "RFC 9959: half of the window that the path carried, once its round-trip time is confirmed; safe retreat on loss",
        most: |_| MOST_JUMP,
        new: |terms| Box::new(CarefulResume::new(terms, Care::Standard)),
    },
    Entry {
        name: "careful-wireless",
        what: "careful resume that treats a loss without a longer round-trip time as a radio loss, not as congestion",
        most: |_| MOST_JUMP,
        new: |terms| Box::new(careful_wireless::new(terms)),
    },
];

/// The rule called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_more_is_a_rise_within_four_to_sixteen_milliseconds() {
        let ms = Duration::from_millis;
        assert!(!has_risen(ms(10), ms(14)) && has_risen(ms(10), ms(15)));
        assert!(!has_risen(ms(80), ms(90)) && has_risen(ms(80), ms(91)));
        assert!(!has_risen(ms(600), ms(616)) && has_risen(ms(600), ms(617)));
    }

    #[test]
    fn names_are_hyphenated_and_unique_and_the_default_exists() {
        for (at, entry) in ALL.iter().enumerate() {
            assert!(entry.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{entry:?}");
            assert!(ALL[..at].iter().all(|other| other.name != entry.name) && !entry.what.is_empty());
        }
        assert!(find(DEFAULT).is_some() && find("careful").is_none());
    }

    #[test]
    fn at_the_first_contact_no_rule_does_anything() {
        let terms = Terms { initial: 12_000, packet: 1200, remembered: None, most: u64::MAX, pacing: 1.25 };
        for entry in ALL {
            let mut rule = (entry.new)(&terms);
            let mut view = View {
                now: Instant::from_millis(1),
                flight: 12_000,
                window: 12_000,
                latest: Some(Duration::from_millis(40)),
                shortest: Some(Duration::from_millis(40)),
                app_limited: false,
            };
            let loss = Loss { sent: view.now, bytes: 1200, persistent: false };
            for _ in 0..40 {
                view.now += Duration::from_millis(10);
                assert_eq!(rule.sent(&view, 1200), Advice::default(), "{entry:?}");
                assert_eq!(rule.acknowledged(&view, view.now, 1200), Advice::default(), "{entry:?}");
                assert_eq!(rule.end_of_acknowledgement(&view), Advice::default(), "{entry:?}");
                assert!(!rule.wants_lease() && !rule.take_refuted() && rule.poll_event().is_none(), "{entry:?}");
            }
            assert_eq!(rule.lost(&view, &loss), Advice::default(), "{entry:?}");
            assert_eq!(rule.phase(), Phase::Normal, "{entry:?}");
        }
    }
}
