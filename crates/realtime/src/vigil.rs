//! When a peer is given up: it answers on no connection, or it sends nothing while something is on its way to it.
//!
//! The second is for a peer that stands still while its kernel keeps the connections open, and for streams that no kernel watches. A
//! program that only takes its messages late is not given up: its side reads no further, and says every second that it is there
//! ([`ASSURES`]).

use crate::ending::Why;
use headstart_core::machine::Deadline;
use headstart_core::time::{Duration, Instant};

/// A side that does not read because its program takes nothing says so often that it is there. Ours.
pub(crate) const ASSURES: Duration = Duration::from_secs(1);
/// However short the patience is, silence means nothing before. Ours: three of those words.
const SHORTEST: Duration = Duration::from_secs(3);
/// Woken so much later than asked for, this side stood still itself: what came meanwhile is still to be read. Ours.
const ASLEEP: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Vigil {
    /// How long the peer may not answer.
    pub patience: Duration,
    /// Since when there has been no connection on which the peer answers.
    alone: Option<Instant>,
    /// There was one before.
    met: bool,
    /// Since when the peer has sent nothing while something is on its way to it.
    silent_since: Option<Instant>,
}

impl Vigil {
    pub const fn new(patience: Duration) -> Self {
        Self { patience, alone: None, met: false, silent_since: None }
    }

    /// Whether there is a connection on which the peer answers, and whether something is on its way to it.
    pub fn looked(&mut self, now: Instant, answered: bool, on_its_way: bool) {
        self.met |= answered;
        self.alone = if answered { None } else { self.alone.or(Some(now)) };
        self.silent_since = if answered && on_its_way { self.silent_since.or(Some(now)) } else { None };
    }

    /// Bytes were received from the peer.
    pub fn received(&mut self, now: Instant) {
        self.silent_since = self.silent_since.map(|_| now);
    }

    /// When the peer is to be given up.
    pub fn deadline(&self) -> Option<Deadline> {
        let alone = self.alone.map(|at| Deadline { at: at + self.patience, why: "the peer answers on no connection" });
        let silent = self.silent_since.map(|at| Deadline { at: at + self.longest(), why: "the peer does not answer" });
        Deadline::earliest([alone, silent])
    }

    /// Why the peer is given up now, if it is.
    pub fn verdict(&mut self, now: Instant) -> Option<Why> {
        if is_due(&mut self.alone, self.patience, now) {
            return Some(if self.met { Why::Lost(self.patience) } else { Why::Silent(self.patience) });
        }
        let longest = self.longest();
        is_due(&mut self.silent_since, longest, now).then_some(Why::Lost(longest))
    }

    fn longest(&self) -> Duration {
        self.patience.max(SHORTEST)
    }
}

/// Whether so much time has passed `since` then. If this side stood still meanwhile, it counts from now on.
fn is_due(since: &mut Option<Instant>, longest: Duration, now: Instant) -> bool {
    let Some(due) = since.map(|since| since + longest) else { return false };
    if due + ASLEEP < now {
        *since = Some(now);
        return false;
    }
    due <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    fn vigil() -> Vigil {
        let mut vigil = Vigil::new(PATIENCE);
        vigil.looked(at(0), true, false);
        vigil
    }

    #[test]
    fn an_idle_peer_may_be_silent_for_ever_and_one_that_owes_an_answer_may_not() {
        let mut vigil = vigil();
        assert_eq!((vigil.deadline(), vigil.verdict(at(3600))), (None, None));
        vigil.looked(at(3600), true, true);
        // Further messages are no answer.
        vigil.looked(at(3605), true, true);
        assert_eq!(vigil.deadline().unwrap().at, at(3610));
        assert_eq!(vigil.verdict(at(3609)), None);
        assert_eq!(vigil.verdict(at(3610)), Some(Why::Lost(PATIENCE)));
    }

    #[test]
    fn any_word_of_the_peer_gives_it_more_time() {
        let mut vigil = vigil();
        vigil.looked(at(0), true, true);
        vigil.received(at(9));
        assert_eq!((vigil.verdict(at(18)), vigil.deadline().unwrap().at), (None, at(19)));
        // All has come: nothing is owed.
        vigil.looked(at(18), true, false);
        assert_eq!((vigil.deadline(), vigil.verdict(at(100))), (None, None));
    }

    #[test]
    fn this_side_that_stood_still_itself_listens_first() {
        let mut vigil = vigil();
        vigil.looked(at(0), true, true);
        assert_eq!(vigil.verdict(at(60)), None);
        assert_eq!(vigil.verdict(at(70)), Some(Why::Lost(PATIENCE)));
    }

    #[test]
    fn this_side_that_stood_still_without_a_connection_tries_again_first() {
        let mut vigil = vigil();
        vigil.looked(at(0), false, false);
        // SIGSTOP, or a suspended host.
        assert_eq!(vigil.verdict(at(3600)), None);
        vigil.looked(at(3600), false, false);
        assert_eq!(vigil.verdict(at(3609)), None);
        assert_eq!(vigil.verdict(at(3610)), Some(Why::Lost(PATIENCE)));
    }

    #[test]
    fn a_peer_without_connections_is_given_up_by_that_alone() {
        let mut vigil = vigil();
        vigil.looked(at(0), true, true);
        vigil.looked(at(5), false, true);
        assert_eq!(vigil.deadline().unwrap().at, at(15));
        assert_eq!(vigil.verdict(at(15)), Some(Why::Lost(PATIENCE)));
        let mut never = Vigil::new(PATIENCE);
        never.looked(at(0), false, true);
        assert_eq!(never.verdict(at(10)), Some(Why::Silent(PATIENCE)));
    }

    #[test]
    fn however_short_the_patience_a_side_that_says_that_it_is_there_is_heard() {
        let mut vigil = Vigil::new(Duration::from_millis(1));
        vigil.looked(at(0), true, true);
        assert!(vigil.deadline().unwrap().at >= at(0) + ASSURES * 2);
    }
}
