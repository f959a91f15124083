//! Techniques: what one end does so that messages do not wait.
//!
//! A [`Technique`] is a pure function of a [`View`]; it keeps no time and sends nothing. Each question has an answer that
//! does nothing, so a technique is only what it answers otherwise, and several are combined by asking each
//! (`reduction-50+trigger+echo`). To add one: a file here, a line in [`ALL`].

mod auto;
mod combined;
mod echo;
mod hedge;
mod plain;
mod reduction;
mod trigger;

use super::state::State;
use crate::path::RttEstimate;
use crate::time::{Duration, Instant};
use std::fmt;

/// How things stand: all that a technique may know.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The moment of asking.
    pub now: Instant,
    /// Round trips of messages and their acknowledgements.
    pub rtt: Option<RttEstimate>,
    /// The shortest of late.
    pub shortest: Option<Duration>,
    /// The time between messages: as the program said, or as measured.
    pub interval: Option<Duration>,
    /// How much the time between arriving messages varies.
    pub jitter: Duration,
    /// How often of late what was overdue turned out to be late, not lost.
    pub tolerance: u32,
    /// How the path is doing.
    pub state: State,
}

/// What to do so that messages do not wait.
pub trait Technique: fmt::Debug + Send {
    /// Connections to keep open, the one in use included.
    fn connections(&self) -> usize {
        1
    }

    /// The receiver acknowledges each message by a frame of its own, at once.
    fn acknowledges(&self) -> bool {
        false
    }

    /// The receiver sends something back for each message.
    fn echoes(&self) -> bool {
        false
    }

    /// Of so many messages of a `Latest` lane one is sent, the newest; at least 1.
    fn one_of(&self, _view: &View) -> u32 {
        1
    }

    /// After how long without a message the receiver says that it misses one. `interval` is the time between messages as
    /// they are sent.
    fn silence(&self, _view: &View, _interval: Duration) -> Option<Duration> {
        None
    }

    /// How long a message may be unacknowledged before its connection is left for another.
    fn patience(&self, _view: &View) -> Option<Duration> {
        None
    }

    /// How many messages that are not overdue, and not acknowledged either, go again in the segment of a new one, over another
    /// connection. `None`: a new message goes alone, and where the one before it went.
    fn carries(&self, _view: &View) -> Option<usize> {
        None
    }

    /// Hundredths of a packet that each message earns for sending another one again.
    fn earns(&self, _view: &View) -> u32 {
        0
    }

    /// Values of a `Latest` lane are sent at most so often.
    fn pace(&self, _view: &View) -> Option<Duration> {
        None
    }
}

/// A registered technique.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name on the command line, in tables and on the wire. A `P` in the end stands for a number.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// Makes one; the number is what the name has in place of `P`, zero for others. `None` if that number makes no sense.
    pub new: fn(u32) -> Option<Box<dyn Technique>>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The technique that is used when none is named.
pub const DEFAULT: &str = "auto";

/// Every technique.
pub const ALL: &[Entry] = &[
    Entry {
        name: "plain",
        what: "TCP with TCP_NODELAY and nothing else (baseline)",
        new: |_| Some(Box::new(plain::Plain)),
    },
    Entry {
        name: "reduction-P",
        what: "paper 4: of `Latest` lanes P percent fewer messages are sent (50: every second, 66: every third), the newest",
        new: |percent| reduction::Reduction::new(percent).map(|r| Box::new(r) as _),
    },
    Entry {
        name: "trigger",
        what: "paper 4: the receiver misses a message after interval + 20 ms, and the sender writes three tiny segments",
        new: |_| Some(Box::new(trigger::Trigger::Fixed)),
    },
    Entry {
        name: "trigger-adaptive",
        what: "ours: as trigger, after interval + max(20 ms, 4 times the jitter of arrivals)",
        new: |_| Some(Box::new(trigger::Trigger::Adaptive)),
    },
    Entry {
        name: "echo",
        what: "paper 4, Return: a reply to each message, so that TCP acknowledges at once",
        new: |_| Some(Box::new(echo::Echo)),
    },
    Entry {
        name: "hedge",
        what: "ours: six warm connections; when a message on one is overdue, resends it on another and switches to that",
        new: |_| Some(Box::new(hedge::Hedge)),
    },
    Entry {
        name: "auto",
        what: "ours: hedge, and resends unacknowledged messages with the next one over another connection; nothing extra while \
               round trips are inflated",
        new: |_| Some(Box::new(auto::Auto)),
    },
];

/// No technique of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; join several with `+`", crate::choice::unknown("technique", .0, &names()))]
pub struct UnknownTechnique(pub String);

fn names() -> Vec<&'static str> {
    ALL.iter().map(|e| e.name).collect()
}

/// The technique called `name`: one of [`ALL`] with its number, or several joined with `+`.
pub fn find(name: &str) -> Result<Box<dyn Technique>, UnknownTechnique> {
    let unknown = || UnknownTechnique(name.to_owned());
    let mut parts = name.split('+').map(|part| {
        ALL.iter().find_map(|entry| match entry.name.strip_suffix('P') {
            None => (entry.name == part).then(|| (entry.new)(0))?,
            Some(prefix) => {
                let digits = part.strip_prefix(prefix)?;
                // One way to write a number: names are compared and printed.
                let number: u32 = digits.parse().ok().filter(|n: &u32| n.to_string() == digits)?;
                (entry.new)(number)
            }
        })
    });
    let first = parts.next().flatten().ok_or_else(unknown)?;
    let rest: Vec<_> = parts.collect::<Option<_>>().ok_or_else(unknown)?;
    if rest.is_empty() { Ok(first) } else { Ok(Box::new(combined::Combined::new(first, rest))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn view(rtt_ms: u64) -> View {
        let rtt = Duration::from_millis(rtt_ms);
        View {
            now: Instant::from_millis(1000),
            rtt: Some(RttEstimate { smoothed: rtt, variation: Duration::from_millis(1), prior: false }),
            shortest: Some(rtt),
            interval: Some(Duration::from_millis(30)),
            jitter: Duration::ZERO,
            tolerance: 0,
            state: State::Clean,
        }
    }

    #[test]
    fn names_are_found_with_their_numbers_and_combined() {
        for name in
            ["plain", "reduction-50", "reduction-66", "trigger", "echo", "hedge", "auto", "reduction-50+trigger+echo"]
        {
            assert!(find(name).is_ok(), "{name}");
        }
        for name in
            ["", "reduction-", "reduction-100", "reduction-050", "reduction-P", "trigger+", "+", "plain-5", "Auto"]
        {
            assert!(find(name).is_err(), "{name}");
        }
        assert!(find("x").unwrap_err().to_string().contains("reduction-P, trigger"));
    }

    #[test]
    fn every_name_fits_on_the_wire_and_is_there_once() {
        for entry in ALL {
            assert!(entry.name.len() * 3 < super::super::frame::MAX_TECHNIQUE);
            assert_eq!(ALL.iter().filter(|e| e.name == entry.name).count(), 1);
        }
        assert!(find(DEFAULT).is_ok());
    }

    #[test]
    fn the_papers_methods_do_what_the_paper_sets() {
        let view = view(10);
        let ms = Duration::from_millis;
        assert_eq!(find("reduction-50").unwrap().one_of(&view), 2);
        assert_eq!(find("reduction-66").unwrap().one_of(&view), 3);
        assert_eq!(find("trigger").unwrap().silence(&view, ms(30)), Some(ms(50)));
        let all = find("reduction-50+trigger+echo").unwrap();
        assert_eq!((all.one_of(&view), all.echoes(), all.silence(&view, ms(60))), (2, true, Some(ms(80))));
        assert_eq!((all.connections(), all.carries(&view)), (1, None));
        assert_eq!((all.earns(&view), all.pace(&view)), (0, None), "nothing goes again");
    }

    #[test]
    fn the_adaptive_trigger_waits_longer_where_arrivals_scatter() {
        let ms = Duration::from_millis;
        let trigger = find("trigger-adaptive").unwrap();
        assert_eq!(trigger.silence(&view(10), ms(30)), Some(ms(50)));
        assert_eq!(trigger.silence(&View { jitter: ms(15), ..view(10) }, ms(30)), Some(ms(90)));
    }

    #[test]
    fn auto_carries_what_may_be_lost_and_holds_back_where_packets_wait() {
        let auto = find("auto").unwrap();
        let in_state = |state| View { state, ..view(40) };
        assert_eq!(auto.carries(&in_state(State::Clean)), Some(0));
        assert_eq!(auto.carries(&in_state(State::Lossy)), Some(1));
        assert_eq!(auto.carries(&in_state(State::Outage)), Some(2));
        assert_eq!(auto.carries(&in_state(State::Queued)), None);
        assert!(auto.earns(&in_state(State::Queued)) < auto.earns(&in_state(State::Clean)));
        assert_eq!(auto.patience(&in_state(State::Clean)), Some(Duration::from_millis(44)));
        assert!(auto.patience(&in_state(State::Queued)) > auto.patience(&in_state(State::Clean)));
        assert!(auto.pace(&in_state(State::Queued)).is_some());
    }

    #[test]
    fn of_several_techniques_the_one_that_does_most_has_its_way() {
        let ms = Duration::from_millis;
        let [all, auto, hedge] = ["plain+hedge+auto", "auto", "hedge"].map(|name| find(name).unwrap());
        assert_eq!((all.connections(), all.acknowledges(), all.echoes()), (6, true, false));
        assert!(!find("trigger+echo").unwrap().acknowledges());
        let lossy = View { state: State::Lossy, ..view(40) };
        assert_eq!((all.carries(&lossy), auto.carries(&lossy)), (Some(1), Some(1)));
        assert_eq!((all.earns(&lossy), hedge.earns(&lossy)), (100, 100));
        // Where packets wait, `auto` waits twice as long and holds values back; `hedge` does neither.
        let queued = View { state: State::Queued, ..view(40) };
        assert_eq!((all.patience(&queued), auto.patience(&queued)), (Some(ms(44)), Some(ms(88))));
        assert_eq!((all.pace(&queued), hedge.pace(&queued)), (Some(ms(20)), None));
    }
}
