//! `adaptive`: ours, the default. RFC 8305 fixes its delays for all networks; this race sets them from what this network
//! has shown (RFC 8305, sections 4 and 5, allow both), and falls back to the standard's values where nothing is known.
//!
//! - **When to go.** The family that answers first goes at once unless waiting for the other is worth it: the other's
//!   round-trip time must be shorter by more than what is left of its usual lookup time, and it is never waited for
//!   longer than the Resolution Delay.
//! - **In what order.** By expected round-trip time, over all addresses of both families; peers with recent failures
//!   and suspended families last; IPv6 first where nothing is known. A silent address is a dead host or a dead family:
//!   where the family has been seen to work, or the program's socket can go nowhere else, one more of its addresses may
//!   come next; else it is the other's turn.
//! - **How far apart.** By when an answer should have come (smoothed round-trip time and four variations), 250 ms where nothing
//!   is known and never more, unless answers are known to take longer. What fails is followed at once.
//! - **Exploring.** In the races drawn for it, where a program comes again and nothing was ever measured of the name over the
//!   other family, and, within a budget (docs/decisions/0147), where a program waits and nothing is known of the name, or a family
//!   that is nearer on average has an address that was never measured, another address is tried beside the chosen one: of
//!   the other family, or, where there is none, of the same; the one tried longest ago. The program does not wait for it, and is
//!   served by it if it answers first; it keeps history from becoming prejudice. The first race after a suspension has run out does
//!   the same.

use super::staggered::{self, RESOLUTION_DELAY};
use super::{Lookup, Next, Race, State, View};
use crate::path::{Family, PeerHistory, SOON};
use crate::time::{Duration, Instant};
use std::net::IpAddr;

/// Connection Attempt Delay where nothing is known: RFC 8305, section 8.
const DEFAULT_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Shortest Connection Attempt Delay. RFC 8305 recommends 100 ms for fixed delays and forbids less than 10; with an
/// estimate at hand, 50 ms is what Firefox ships (draft-ietf-happy-happyeyeballs-v3, issue 138).
const MIN_ATTEMPT_DELAY: Duration = Duration::from_millis(50);
/// Longest Connection Attempt Delay: RFC 8305, section 8.
const MAX_ATTEMPT_DELAY: Duration = Duration::from_secs(2);
/// Slack on top of the estimate, for the scheduling of host and server.
const SLACK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Adaptive;

impl Race for Adaptive {
    fn next(&self, view: &View<'_>) -> Next {
        if let Some(record) = view.unasked() {
            return Next::Query(record);
        }
        let go = go(view);
        let tell_at = match go {
            // No port, so nothing to begin meanwhile, and an address that has been reached before: the other family is waited for only
            // where it is usually answered in time. What has been reached may have died since.
            Go::Now if !view.may_connect && has_known_peer(view) && other_is_slow(view) => Some(view.now),
            _ => staggered::tell_at(view),
        };
        let tell_at = tell_at.filter(|_| !view.answered);
        if tell_at.is_some_and(|at| view.now >= at) {
            return Next::Answer;
        }
        let next = match go {
            Go::Now => race(view),
            Go::At(due) => Next::Wait(Some((due, "resolution delay"))),
            Go::NotYet => Next::Wait(None),
        };
        staggered::sooner(next, tell_at, "resolution delay")
    }

    fn order(&self, view: &View<'_>, addresses: &mut Vec<IpAddr>) {
        // Where this host knows nothing, no order is better than the one without us, and programs that go from one address to the next
        // with a time limit for each would be later by another.
        let unknown = |a: &IpAddr| view.path.peer(*a).is_none_or(PeerHistory::is_prior);
        let is_news = |a: &IpAddr| unknown(a) && !view.path.is_suspended(Family::of(*a), view.now);
        if addresses.iter().all(is_news) {
            return;
        }
        let mut arranged = addresses.clone();
        arrange(view, &mut arranged, None);
        // Programs give up each address after a while, but wait for the last: what is slow is not moved away from the end in favour
        // of what fails at once.
        let is_off =
            |a: &IpAddr| view.path.is_failing(*a, view.now) || view.path.is_suspended(Family::of(*a), view.now);
        let is_soon = |a: &IpAddr| view.path.expected_rtt(*a).is_some_and(|rtt| rtt.smoothed <= SOON) && !is_off(a);
        if arranged.first().is_some_and(is_soon) || !addresses.iter().any(is_off) {
            *addresses = arranged;
        }
    }
}

/// The next attempt, now that there is an address to race.
fn race(view: &View<'_>) -> Next {
    if let Some(addr) = to_explore(view) {
        return Next::Explore(addr);
    }
    let mut candidates = view.untried();
    let twice = twice(view);
    arrange(view, &mut candidates, twice.or_else(|| unproven(view)));
    if twice.is_none() {
        // What the waiting program's socket cannot be exchanged for helps only when it has given up on all else.
        candidates.sort_by_key(|a| !(view.fits)(*a));
    }
    staggered::next(view, &candidates, attempt_delay(view))
}

/// Puts `addresses` in order: families in turn, each by preference, so that one family's outage never has to be sat out
/// address by address; what has failed lately comes last and delays no other. `done` is not the first family to come.
fn arrange(view: &View<'_>, addresses: &mut Vec<IpAddr>, done: Option<Family>) {
    addresses.sort_by_key(|a| preference(view, *a));
    let good = addresses.partition_point(|a| !preference(view, *a).0 && !preference(view, *a).1);
    let mut doubtful = addresses.split_off(good);
    for part in [&mut *addresses, &mut doubtful] {
        part.sort_by_key(|a| Some(view.family(*a)) == done);
        staggered::interleave(view, part);
    }
    addresses.append(&mut doubtful);
}

/// The family of the last two attempts, if they were of one: of a third it is the other's turn in any case.
fn twice(view: &View<'_>) -> Option<Family> {
    let mut racing =
        view.attempts.iter().rev().filter(|a| !a.exploring && !a.was_refused()).map(|a| view.family(a.addr));
    let last = racing.next()?;
    (racing.next() == Some(last)).then_some(last)
}

/// The family of the last attempt, if it has never been seen to work: one silent host says little of one that works, and one
/// that refuses shows that it does.
fn unproven(view: &View<'_>) -> Option<Family> {
    let last = view.attempts.iter().rfind(|a| !a.exploring).filter(|a| !a.was_refused())?.addr;
    view.path.family(Family::of(last)).rtt.is_none().then(|| view.family(last))
}

/// Whether an address that is known so far has answered before, soon, and has not failed since.
fn has_known_peer(view: &View<'_>) -> bool {
    let good = |a: &IpAddr| view.path.peer(*a).is_some_and(|p| p.will_do(view.now));
    Family::BOTH.iter().flat_map(|f| view.lookup(*f).addresses()).any(good)
}

/// Whether the family that has not been answered takes longer than the Resolution Delay on this network, so that waiting for that long
/// would bring nothing.
fn other_is_slow(view: &View<'_>) -> bool {
    let slow = |f: &Family| view.path.family(*f).lookup.is_some_and(|lookup| lookup.smoothed > RESOLUTION_DELAY);
    Family::BOTH.into_iter().filter(|f| !view.lookup(*f).is_complete()).all(|f| slow(&f))
}

/// Whether to begin with what is known so far.
enum Go {
    Now,
    At(Instant),
    NotYet,
}

fn go(view: &View<'_>) -> Go {
    if view.all_complete() {
        return Go::Now;
    }
    let Some(first) = Family::BOTH.into_iter().find(|f| matches!(view.lookup(*f), Lookup::Addresses(..))) else {
        return Go::NotYet;
    };
    let Lookup::Asked(asked) = *view.lookup(first.other()) else { return Go::Now };
    let answered = view.lookup(first).completed_at().unwrap_or(view.now);
    match worth_waiting(view, first, asked) {
        Some(wait_until) => {
            let due = wait_until.min(answered + RESOLUTION_DELAY);
            if view.now < due { Go::At(due) } else { Go::Now }
        }
        None => Go::Now,
    }
}

/// Until when to wait for the other family, whose lookup was `asked` then, now that `first` has answered.
fn worth_waiting(view: &View<'_>, first: Family, asked: Instant) -> Option<Instant> {
    let other = first.other();
    if view.path.is_suspended(other, view.now) || view.path.family(other).is_unanswered() {
        return None;
    }
    let usable = || view.lookup(first).addresses().iter().filter(|a| !view.path.is_failing(**a, view.now));
    if usable().next().is_none() || view.path.is_suspended(first, view.now) {
        // Nothing that has answered is to be trusted: give the other all the time that it may have.
        return Some(Instant::FAR_FUTURE);
    }
    let here = usable().filter_map(|a| view.path.peer(*a)?.rtt).map(|r| r.smoothed).min();
    // Where the other family leads is known from last time, if at all; else it is like its family.
    let there = view
        .remembered
        .iter()
        .filter(|a| Family::of(**a) == other && !view.path.is_failing(**a, view.now))
        .filter_map(|a| view.path.expected_rtt(*a))
        .map(|r| r.smoothed)
        .min();
    let all_failing = {
        let mut of_other = view.remembered.iter().filter(|a| Family::of(**a) == other).peekable();
        of_other.peek().is_some() && of_other.all(|a| view.path.is_failing(*a, view.now))
    };
    if all_failing {
        return None;
    }
    let (Some(here), Some(there)) = (here, there) else {
        // Nothing known: the standard's preference for IPv6.
        return (first == Family::V4).then_some(Instant::FAR_FUTURE);
    };
    let lead = here.checked_sub(there)?;
    let lookup = view.path.family(other).lookup?;
    let remaining = (asked + lookup.smoothed).since(view.now);
    // An answer that is late is waited for as long as a handshake that is late, but never longer than it can still win.
    (remaining < lead).then(|| (asked + lookup.timeout() + SLACK).min(view.now + lead))
}

/// What to try first: working before failing, active before suspended, then the shorter expected round-trip time.
///
/// Hosts of one network are near and far. That a family's hosts are near on average is no reason to prefer one that was not
/// measured to a measured one of the other family. An address that may be nearer is explored beside it ([`promises_more`]),
/// at no risk to the program.
fn preference(view: &View<'_>, addr: IpAddr) -> (bool, bool, Duration) {
    let family = Family::of(addr);
    let off = view.path.is_suspended(family, view.now) || view.path.family(family).wants_probe(view.now);
    let guess = || {
        let guess = view.path.family(family).rtt?.smoothed;
        let good =
            |a: &IpAddr| !view.path.is_failing(*a, view.now) && !view.path.is_suspended(Family::of(*a), view.now);
        // The measured addresses of this name, those of the other family before an equal guess.
        let known = |a: IpAddr| Some((measured(view, a)?, Family::of(a) != family));
        let best = view.addresses().into_iter().filter(good).filter_map(known).min();
        Some(best.map_or(guess, |(best, other)| guess.max(best + Duration::from_nanos(other.into()))))
    };
    // Where nothing is known, the standard's preference stands: IPv6 first, IPv4 last.
    // A family that has failed for this name is better left for what has not.
    let failing = |a: &IpAddr| Family::of(*a) == family && view.path.is_failing(*a, view.now);
    let is_first = family == Family::V6 && !view.addresses().iter().any(failing);
    let unknown = if is_first { Duration::ZERO } else { Duration::MAX };
    (view.path.is_failing(addr, view.now), off, measured(view, addr).or_else(guess).unwrap_or(unknown))
}

/// The round-trip time that handshakes with `addr` have shown.
fn measured(view: &View<'_>, addr: IpAddr) -> Option<Duration> {
    view.path.peer(addr).and_then(|p| p.rtt).map(|r| r.smoothed)
}

/// Whether an address of `other` that was never measured may well be nearer than the one that was chosen: its family's
/// hosts are, as far as they are known.
fn promises_more(view: &View<'_>, chosen: IpAddr, other: Family) -> bool {
    let (Some(here), Some(there)) = (measured(view, chosen), view.path.family(other).rtt) else { return false };
    let news =
        |a: &IpAddr| Family::of(*a) == other && measured(view, *a).is_none() && !view.path.is_failing(*a, view.now);
    there.smoothed < here && view.addresses().iter().any(news)
}

/// Whether nothing is known of any address of `family` that this name has, not even that it has failed.
fn is_news(view: &View<'_>, family: Family) -> bool {
    let all = view.addresses();
    let mut of_family = all.iter().filter(|a| Family::of(**a) == family).peekable();
    let unknown = |a: &IpAddr| measured(view, *a).is_none() && !view.path.is_failing(*a, view.now);
    of_family.peek().is_some() && of_family.all(unknown)
}

/// Whether a program waits, and nothing is known of any address of the name: waiting is what costs on a first visit, and which family is
/// nearer is a matter of luck.
fn is_first_visit(view: &View<'_>, other: Family) -> bool {
    let fits = |a: &IpAddr| view.family(*a) == other && (view.fits)(*a);
    view.waits && Family::BOTH.into_iter().all(|f| is_news(view, f)) && view.addresses().iter().any(fits)
}

/// Time from the last beginning to the next.
fn attempt_delay(view: &View<'_>) -> Duration {
    let racing: Vec<_> = view.in_flight().filter(|a| !a.exploring).collect();
    let Some(last) = racing.last() else { return Duration::ZERO };
    if goes_on(view) {
        return Duration::ZERO;
    }
    if view.path.is_failing(last.addr, view.now) {
        return MIN_ATTEMPT_DELAY;
    }
    view.path.expected_rtt(last.addr).map_or(DEFAULT_ATTEMPT_DELAY, |rtt| {
        let longest = DEFAULT_ATTEMPT_DELAY.max(rtt.smoothed + SLACK).min(MAX_ATTEMPT_DELAY);
        (rtt.timeout() + SLACK).clamp(MIN_ATTEMPT_DELAY, longest)
    })
}

/// Whether an attempt has failed in whose place less than two were started: without headstart the program would continue at once
/// with its next address, which may be of the same family or of the other.
fn goes_on(view: &View<'_>) -> bool {
    let racing: Vec<_> = view.attempts.iter().filter(|a| !a.exploring).collect();
    let Some(last) = racing.iter().rposition(|a| matches!(a.state, State::Failed(_))) else { return false };
    racing.len() - 1 - last < 2
}

/// The address to learn about beside the chosen one, once per race.
fn to_explore(view: &View<'_>) -> Option<IpAddr> {
    if !view.may_connect || view.attempts.iter().any(|a| a.exploring) {
        return None;
    }
    let chosen = view.attempts.first()?.addr;
    let other = Family::of(chosen).other();
    let known = !view.path.is_suspended(other, view.now)
        && (view.comes_again && is_news(view, other)
            || view.may_spend && (promises_more(view, chosen, other) || is_first_visit(view, other)));
    let drawn = view.explore || view.path.family(other).wants_probe(view.now) || known;
    if !drawn || view.attempts.iter().any(|a| Family::of(a.addr) == other) {
        return None;
    }
    let open = !view.path.is_suspended(other, view.now);
    let mut all = view.addresses();
    all.retain(|a| !view.has_just_failed(*a));
    let of_other = all.iter().filter(|a| Family::of(**a) == other && open);
    let longest_ago = |a: &&IpAddr| view.path.peer(**a).map(|p| p.last_used);
    let of_same = || {
        let known = !view.want.includes(other) || view.lookup(other).is_complete() || !open;
        let untried = all.iter().filter(|a| view.attempts.iter().all(|t| t.addr != **a) && Family::of(**a) != other);
        untried.filter(|_| view.explore && known).min_by_key(longest_ago)
    };
    of_other.min_by_key(longest_ago).or_else(of_same).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::race::Attempt;
    use crate::connect::{AttemptId, Want};
    use crate::path::{Network, Outcome};

    fn v4(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }
    fn v6(n: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])
    }
    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }
    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// What is known to a race, a second after the beginning.
    struct Known {
        path: Network,
        v4: Lookup,
        v6: Lookup,
        attempts: Vec<Attempt>,
        remembered: Vec<IpAddr>,
        may_connect: bool,
        explore: bool,
    }

    impl Known {
        /// A name with these addresses, known since 10 ms.
        fn new(v6: &[IpAddr], v4: &[IpAddr]) -> Self {
            Self {
                path: Network::default(),
                v4: Lookup::Addresses(at(990), v4.to_vec()),
                v6: Lookup::Addresses(at(990), v6.to_vec()),
                attempts: Vec::new(),
                remembered: Vec::new(),
                may_connect: true,
                explore: false,
            }
        }

        fn measured(mut self, addr: IpAddr, rtt: u64) -> Self {
            self.path.record(at(0), addr, Outcome::Connected(ms(rtt)));
            self
        }

        fn failed(mut self, addr: IpAddr) -> Self {
            self.path.record(at(0), addr, Outcome::Failed);
            self
        }

        fn tried(mut self, addr: IpAddr, state: State, exploring: bool) -> Self {
            let (id, domain) = (AttemptId(self.attempts.len() as u64), Family::of(addr));
            self.attempts.push(Attempt { id, addr, domain, started: at(995), state, exploring, given: false });
            self
        }

        fn see<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
            look(&View {
                now: at(1000),
                want: Want::Both,
                v4: &self.v4,
                v6: &self.v6,
                https: &Lookup::Without(at(990)),
                positive: Some(at(990)),
                answered: false,
                may_connect: self.may_connect,
                done: false,
                attempts: &self.attempts,
                usable: &|_| true,
                fits: &|_| true,
                serves: &|_| true,
                just_failed: &[],
                path: &self.path,
                remembered: &self.remembered,
                explore: self.explore,
                comes_again: false,
                waits: false,
                may_spend: false,
                faster: None,
            })
        }

        /// In what order a program gets these.
        fn order<const N: usize>(&self, mut list: [IpAddr; N]) -> Vec<IpAddr> {
            let mut all = list.to_vec();
            self.see(|view| Adaptive.order(view, &mut all));
            list.sort();
            let mut sorted = all.clone();
            sorted.sort();
            assert_eq!(list[..], sorted, "the same addresses");
            all
        }

        /// In what order a race tries these.
        fn arrange(&self, list: &[IpAddr]) -> Vec<IpAddr> {
            let mut list = list.to_vec();
            self.see(|view| arrange(view, &mut list, None));
            list
        }
    }

    #[test]
    fn the_order_of_addresses_of_which_nothing_is_known_stays() {
        let known = Known::new(&[v6(1)], &[v4(1)]);
        assert_eq!(known.order([v4(1), v6(1)]), [v4(1), v6(1)]);
    }

    #[test]
    fn what_has_failed_comes_behind_all_that_works_and_not_in_its_familys_turn() {
        let known = Known::new(&[v6(1), v6(2), v6(3)], &[v4(1)]);
        let known = known.measured(v6(1), 10).measured(v6(2), 20).measured(v6(3), 30).failed(v4(1));
        assert_eq!(known.order([v4(1), v6(3), v6(2), v6(1)]), [v6(1), v6(2), v6(3), v4(1)]);
    }

    #[test]
    fn what_was_measured_comes_before_a_guess_by_the_hosts_of_another_name() {
        let known = Known::new(&[v6(9)], &[v4(1), v4(2)]).measured(v6(50), 20).measured(v4(1), 40);
        // It was near, and is gone.
        let known = known.measured(v4(2), 10).failed(v4(2));
        assert_eq!(known.order([v6(9), v4(2), v4(1)]), [v4(1), v6(9), v4(2)]);
    }

    #[test]
    fn ipv6_comes_first_where_nothing_is_known_unless_it_has_failed_for_the_name() {
        let known = Known::new(&[v6(1)], &[v4(1), v4(2)]).failed(v4(2));
        assert_eq!(known.arrange(&[v4(1), v6(1), v4(2)]), [v6(1), v4(1), v4(2)]);
        let known = Known::new(&[v6(1), v6(2)], &[v4(1)]).failed(v6(2));
        assert_eq!(known.arrange(&[v4(1), v6(1), v6(2)]), [v4(1), v6(1), v6(2)]);
    }

    #[test]
    fn a_family_has_had_its_turns_by_attempts_that_race_and_were_not_refused() {
        let known = || Known::new(&[v6(1), v6(2)], &[v4(1)]).tried(v6(1), State::InFlight, false);
        let twice = |known: Known| known.see(twice);
        assert_eq!(twice(known()), None);
        assert_eq!(twice(known().tried(v6(2), State::InFlight, false)), Some(Family::V6));
        assert_eq!(twice(known().tried(v6(2), State::InFlight, true)), None);
        assert_eq!(twice(known().tried(v6(2), State::Failed(super::super::ECONNREFUSED), false)), None);
    }

    #[test]
    fn without_a_port_one_family_is_told_at_once_only_if_it_is_known_and_the_other_slow() {
        let known = |lookup, rtt: Option<u64>| {
            let mut known = Known::new(&[v6(1)], &[]);
            (known.v4, known.may_connect) = (Lookup::Asked(at(985)), false);
            known.path.family_mut(Family::V4).looked_up(Some(ms(lookup)));
            rtt.into_iter().fold(known, |known, rtt| known.measured(v6(1), rtt)).see(|view| Adaptive.next(view))
        };
        assert_eq!(known(200, Some(20)), Next::Answer);
        assert_eq!(known(20, Some(20)), Next::Wait(Some((at(990) + RESOLUTION_DELAY, "resolution delay"))));
        assert_eq!(known(200, None), Next::Wait(None), "it may lead nowhere");
        assert_eq!(known(200, Some(300)), Next::Wait(None), "programs may give it up");
    }

    #[test]
    fn the_other_family_is_waited_for_as_long_as_it_can_still_win() {
        let known = |here| {
            let mut known = Known::new(&[], &[v4(1)]).measured(v4(1), here).measured(v4(2), 5).measured(v6(1), 20);
            known.v6 = Lookup::Asked(at(990));
            known.remembered = vec![v6(1), v4(1), v4(2)];
            known.path.family_mut(Family::V6).looked_up(Some(ms(30)));
            known
        };
        let wait = |known: Known| known.see(|view| worth_waiting(view, Family::V4, at(990)));
        assert_eq!(wait(known(100)), Some(at(1080)), "it leads by 80 ms");
        assert_eq!(wait(known(30)), None, "its answer takes 20 ms more, and it leads by 10");
        assert_eq!(wait(known(100).failed(v6(1))), None, "it had nothing that works");
    }

    #[test]
    fn an_address_that_was_never_measured_promises_more_where_its_family_is_nearer() {
        let known = || Known::new(&[v6(1)], &[v4(1)]).measured(v4(1), 100);
        let promises = |known: Known| known.see(|view| promises_more(view, v4(1), Family::V6));
        assert!(promises(known().measured(v6(50), 20)));
        assert!(!promises(known().measured(v6(50), 200)), "it is farther");
        assert!(!promises(known().measured(v6(1), 20)), "it was measured");
        assert!(!promises(known().measured(v6(50), 20).failed(v6(1))), "it fails");
    }

    #[test]
    fn a_draw_explores_the_same_family_where_the_other_cannot_be_had() {
        let explored = |is_there| {
            let mut known = Known::new(&[], &[v4(1), v4(2)]).tried(v4(1), State::InFlight, false);
            (known.v6, known.explore) = (Lookup::Asked(at(990)), true);
            known.path.family_mut(Family::V6).has_route = is_there;
            known.see(to_explore)
        };
        assert_eq!(explored(false), Some(v4(2)));
        assert_eq!(explored(true), None, "its answer may come");
    }
}
