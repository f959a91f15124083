//! Which of several connections is best: Algorithm 1 of paper 1, over all addresses instead of one a family.
//!
//! The paper's order: both ready, the lower initial round-trip time; one ready, that one; none, the family that the
//! program asked for. A peer with a history of failures counts last (section III-D). Ours extends it from two
//! connections to any number, and breaks ties by the family asked for.

use super::race::{Attempt, State};
use crate::path::{Family, Network};
use crate::time::Instant;

/// The best of `attempts` for a program that asked for `asked`: a ready one if there is any, else the one under way in
/// the family asked for that began first. What was begun to learn gives way to one whose address is known to answer. `usable` says which of them the program's socket can be exchanged for.
pub fn best<'a>(
    attempts: &'a [Attempt],
    asked: Family,
    path: &Network,
    now: Instant,
    usable: impl Fn(&Attempt) -> bool,
) -> Option<&'a Attempt> {
    let candidates = || attempts.iter().filter(|a| usable(a));
    let answers = |a: &Attempt| path.peer(a.addr).is_some_and(|p| p.rtt.is_some()) && !path.is_failing(a.addr, now);
    let ready = candidates().filter_map(|a| match a.state {
        State::Ready { rtt, .. } => Some(((path.is_failing(a.addr, now), rtt, Family::of(a.addr) != asked, a.id), a)),
        _ => None,
    });
    ready.min_by_key(|(key, _)| *key).map(|(_, a)| a).or_else(|| {
        candidates()
            .filter(|a| a.state == State::InFlight && (Family::of(a.addr) == asked || answers(a)))
            .min_by_key(|a| (a.exploring, Family::of(a.addr) != asked, a.started, a.id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::AttemptId;
    use crate::path::Outcome;
    use crate::time::Duration;

    const NOW: Instant = Instant::from_millis(100);

    fn attempt(id: u64, family: Family, state: State) -> Attempt {
        let addr = match family {
            Family::V4 => [192, 0, 2, 1].into(),
            Family::V6 => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
        };
        Attempt {
            id: AttemptId(id),
            addr,
            domain: family,
            started: Instant::ZERO,
            state,
            exploring: false,
            given: false,
        }
    }
    fn ready(ms: u64) -> State {
        State::Ready { rtt: Duration::from_millis(ms), at: Instant::from_millis(ms) }
    }
    fn choose(attempts: &[Attempt], asked: Family, path: &Network) -> Option<u64> {
        best(attempts, asked, path, NOW, |_| true).map(|a| a.id.0)
    }

    #[test]
    fn algorithm_1_line_by_line() {
        let path = Network::default();
        let (v6, v4) = (Family::V6, Family::V4);
        let two = |s6, s4| [attempt(6, v6, s6), attempt(4, v4, s4)];
        assert_eq!(choose(&two(ready(40), ready(30)), v6, &path), Some(4), "both ready: lowest initial RTT");
        assert_eq!(choose(&two(ready(30), ready(40)), v4, &path), Some(6), "whatever was asked for");
        assert_eq!(choose(&two(ready(90), State::InFlight), v4, &path), Some(6), "IPv6 alone is ready");
        assert_eq!(choose(&two(State::InFlight, ready(90)), v6, &path), Some(4), "IPv4 alone is ready");
        assert_eq!(choose(&two(State::InFlight, State::InFlight), v4, &path), Some(4), "none: as asked");
        assert_eq!(choose(&two(State::InFlight, State::Failed(111)), v4, &path), None, "nothing to give");
    }

    #[test]
    fn a_history_of_failures_outweighs_a_lower_round_trip_time() {
        let mut path = Network::default();
        let both = [attempt(6, Family::V6, ready(30)), attempt(4, Family::V4, ready(80))];
        path.record(Instant::ZERO, both[0].addr, Outcome::Failed);
        assert_eq!(choose(&both, Family::V6, &path), Some(4));
    }

    #[test]
    fn equal_round_trip_times_go_to_the_family_asked_for() {
        let both = [attempt(6, Family::V6, ready(30)), attempt(4, Family::V4, ready(30))];
        assert_eq!(choose(&both, Family::V4, &Network::default()), Some(4));
        assert_eq!(choose(&both, Family::V6, &Network::default()), Some(6));
    }

    #[test]
    fn while_none_is_ready_the_other_family_stands_in_only_where_it_is_known_to_answer() {
        let known = |failed: bool| {
            let mut path = Network::default();
            let addr = attempt(6, Family::V6, State::InFlight).addr;
            path.record(Instant::ZERO, addr, Outcome::Connected(Duration::from_millis(20)));
            if failed {
                path.record(Instant::ZERO, addr, Outcome::Failed);
            }
            path
        };
        let other = || attempt(6, Family::V6, State::InFlight);
        assert_eq!(choose(&[other()], Family::V4, &known(false)), Some(6));
        assert_eq!(choose(&[other()], Family::V4, &known(true)), None, "it has failed since");
        assert_eq!(choose(&[other()], Family::V4, &Network::default()), None);
        let asked = Attempt { started: NOW, ..attempt(4, Family::V4, State::InFlight) };
        let both = [other(), asked.clone()];
        assert_eq!(choose(&both, Family::V4, &known(false)), Some(4), "be it the later one");
        let both = [other(), Attempt { exploring: true, ..asked }];
        assert_eq!(choose(&both, Family::V4, &known(false)), Some(6), "but not what was begun to learn");
    }
}
