//! Quiet moments of a machine that others use too. A round of a measurement begins when little else runs, and is played again if the links
//! that it went over could not keep their times.

use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::device::Snapshot;
use std::path::Path;

/// Share of the processors' time that may be taken when a round begins, in percent: browsers that wait for it take some.
const BUSY: f64 = 15.0;
/// How long is looked each time.
const LOOK: Duration = Duration::from_millis(200);
/// How long is waited in all: others may go on for hours.
const PATIENCE: Duration = Duration::from_secs(300);

/// Rounds and what came between them.
pub struct Quiet {
    waited: Duration,
    rounds: u64,
    again: u64,
    /// Rounds that may be played again.
    at_most: u64,
    /// What was wrong with a round that was kept all the same.
    doubt: Option<String>,
}

impl Quiet {
    /// None yet; at most `at_most` will be played again.
    pub fn new(at_most: u64) -> Self {
        Self { waited: Duration::ZERO, rounds: 0, again: 0, at_most, doubt: None }
    }

    /// Waits until little runs on this machine, as far as there is patience.
    pub fn wait(&mut self) {
        let (clock, root) = (Clock::new(), Path::new("/"));
        self.wait_by(|| {
            let before = Snapshot::take(root);
            clock.sleep(LOOK);
            before.busy(&Snapshot::take(root))
        });
    }

    fn wait_by(&mut self, mut look: impl FnMut() -> Option<f64>) {
        while look().is_some_and(|busy| busy > BUSY) && self.waited < PATIENCE {
            self.waited += LOOK;
        }
    }

    /// Whether a round is kept of whose links this is to be doubted; if not, it is to be played again.
    pub fn keeps(&mut self, doubt: Option<String>) -> bool {
        self.rounds += 1;
        let Some(doubt) = doubt else { return true };
        if self.again < self.at_most {
            self.again += 1;
            return false;
        }
        self.doubt.get_or_insert(doubt);
        true
    }

    /// Why what was kept is not to be believed, if it is not.
    pub fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    /// What it saw, for readers.
    pub fn note(&self, of: &str) -> String {
        let seconds = self.waited.as_secs_f64();
        format!(
            "{of}: {} rounds, of which {} were played again, since their links could not keep their times; {seconds:.1} s were waited \
             because others had the processors.",
            self.rounds, self.again
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_waits_for_others_but_not_for_ever() {
        let mut quiet = Quiet::new(0);
        let mut seen = [90.0, 40.0, 3.0, 90.0].into_iter();
        quiet.wait_by(|| seen.next());
        assert_eq!((seen.len(), quiet.waited), (1, 2 * LOOK));
        quiet.wait_by(|| Some(100.0));
        assert_eq!(quiet.waited, PATIENCE);
        // Nobody knows: as good as quiet.
        quiet.wait_by(|| None);
    }

    #[test]
    fn a_round_whose_links_were_late_is_played_again_so_often_and_then_kept_with_a_doubt() {
        let late = || Some("late".to_owned());
        let mut quiet = Quiet::new(1);
        assert_eq!([None, late(), None].map(|doubt| quiet.keeps(doubt)), [true, false, true]);
        assert_eq!(quiet.doubt(), None);
        assert!(quiet.keeps(late()));
        assert_eq!(quiet.doubt(), Some("late"));
        assert!(quiet.note("x").starts_with("x: 4 rounds, of which 1 were played again"), "{}", quiet.note("x"));
    }
}
