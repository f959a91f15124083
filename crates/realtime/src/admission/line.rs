//! Who has a place, who waits for one, and who gives way: rules without a clock and without a socket.

use super::network::{Network, Site};
use headstart_core::time::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// No connection is closed before: a handshake of TLS takes two round trips of any path, and its turn on a busy processor.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// The share of a network: a part of all places. As much is left to those that have none.
pub(crate) const SHARE: usize = 16;
/// Networks of one site that together have as much as they would have alone. Ours.
const SITE: usize = 4;
/// Connections of a network that wait for a place, and of all networks, for each place that there is: as many as a kernel's own
/// line holds (somaxconn).
const LINE: usize = 2;
pub(super) const LINES: usize = 8;
/// What a connection that said nothing for as long as it might adds to a network's penalty, from when on it counts, and how long it gets at most.
const PENALTY: Duration = Duration::from_secs(1);
const COUNTS: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(60);
/// For how long it is known that a network was silent: until then the last places are not for it.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Places and waiting connections of a network that is penalised.
pub(super) const PENALISED: usize = 4;
/// Networks whose penalties are remembered.
const MOST_NETWORKS: usize = 16_384;

pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) since: Instant,
    pub(super) from: Network,
    /// It has a place, or none any more.
    pub(super) enter: Arc<Notify>,
    pub(super) leave: Arc<Notify>,
}

/// How many connections each network has, and each site.
#[derive(Default)]
struct Counts {
    networks: HashMap<Network, usize>,
    sites: HashMap<Site, usize>,
}

impl Counts {
    fn add(&mut self, from: Network) {
        *self.networks.entry(from).or_default() += 1;
        if let Some(site) = from.site() {
            *self.sites.entry(site).or_default() += 1;
        }
    }

    fn remove(&mut self, from: Network) {
        fn less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
            match counts.get_mut(&key) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = counts.remove(&key),
            }
        }
        less(&mut self.networks, from);
        if let Some(site) = from.site() {
            less(&mut self.sites, site);
        }
    }

    fn of(&self, from: Network) -> usize {
        self.networks.get(&from).copied().unwrap_or_default()
    }

    fn of_site(&self, from: Network) -> usize {
        from.site().and_then(|site| self.sites.get(&site)).copied().unwrap_or_default()
    }

    /// What counts where networks are compared, with `more` of this one: a large site weighs as a few networks.
    fn weight(&self, from: Network, more: usize) -> usize {
        (self.of(from) + more).max((self.of_site(from) + more).div_ceil(SITE))
    }
}

/// Connections that have had their time: the oldest of each network, that of the heaviest network of each site, and of all.
#[derive(Default)]
struct Patient {
    of: HashMap<Network, usize>,
    of_site: HashMap<Site, usize>,
    of_all: Option<usize>,
}

/// What can be done for the next connection of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// It has a place.
    Seat,
    /// It has the place of this one, which is sent away.
    Replace(usize),
    /// This one is sent away, so that a place is left to a network that has none.
    Close(usize),
}

#[derive(Default)]
pub(super) struct Line {
    next: u64,
    /// Those with a place, the oldest first.
    waiting: Vec<Waiting>,
    places: Counts,
    /// Those without, of each network the oldest first.
    outside: HashMap<Network, VecDeque<Waiting>>,
    lined: Counts,
    /// How many there are outside.
    without: usize,
    /// Until when a network is penalised: the more it was silent, the later.
    penalties: HashMap<Network, Instant>,
    /// When to look again who may come in, unless something has changed since.
    look: Instant,
    changed: bool,
    /// When one of those outside will look.
    keeper: Instant,
}

/// How one that has come stands.
pub(super) enum Standing {
    Seated,
    /// Until when to wait at most.
    Outside(Instant),
    /// It gave way to another.
    Gone,
}

impl Line {
    /// A number that no other connection has.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn is_penalised(&self, now: Instant, from: Network) -> bool {
        self.penalties.get(&from).is_some_and(|until| *until > now + COUNTS)
    }

    fn was_silent(&self, now: Instant, from: Network) -> bool {
        self.penalties.get(&from).is_some_and(|until| *until + REMEMBERED > now)
    }

    pub(super) fn penalise(&mut self, now: Instant, from: Network) {
        if from.is_bounded() && (self.penalties.len() < MOST_NETWORKS || self.penalties.contains_key(&from)) {
            let until = self.penalties.entry(from).or_insert(now);
            *until = ((*until).max(now) + PENALTY).min(now + LONGEST);
        }
        if self.penalties.len() >= MOST_NETWORKS {
            self.penalties.retain(|_, until| *until > now);
        }
    }

    /// Places that are this network's whatever others have.
    fn share(&self, now: Instant, from: Network, most: usize) -> usize {
        match from.is_bounded() {
            false => most,
            true if self.is_penalised(now, from) => PENALISED.min(most),
            true => (most / SHARE).max(1),
        }
    }

    /// How many places may be taken if this network is to have one more: the last are for networks that have none, and that were not
    /// silent of late.
    fn limit(&self, now: Instant, from: Network, most: usize) -> usize {
        let is_new = self.places.weight(from, 0) == 0 && !self.was_silent(now, from);
        if is_new || from == Network::Other { most } else { most - most / SHARE }
    }

    fn patient(&self, now: Instant) -> Patient {
        let mut patient = Patient::default();
        let all = || self.waiting.iter().enumerate().take_while(|(_, waiting)| waiting.since + GRACE <= now);
        for (at, waiting) in all() {
            patient.of.entry(waiting.from).or_insert(at);
            if let Some(site) = waiting.from.site() {
                let heaviest = patient.of_site.entry(site).or_insert(at);
                if self.places.of(waiting.from) > self.places.of(self.waiting[*heaviest].from) {
                    *heaviest = at;
                }
            }
        }
        // Of equals the first, which is the oldest.
        let heaviest = |(at, waiting): &(usize, &Waiting)| {
            (self.places.weight(waiting.from, 0), self.places.of(waiting.from), Reverse(*at))
        };
        patient.of_all = all().max_by_key(heaviest).map(|(at, _)| at);
        patient
    }

    /// What can be done for one more of this network.
    fn step(&self, now: Instant, from: Network, most: usize, patient: &Patient) -> Option<Step> {
        let (taken, limit) = (self.waiting.len(), self.limit(now, from, most));
        let (own, share) = (self.places.of(from), self.share(now, from, most));
        let site_has_all = self.places.of_site(from) >= SITE * (most / SHARE).max(1);
        let has_all = own >= share || site_has_all;
        let is_calm = taken < most / 2 && !self.is_penalised(now, from);
        if taken < limit && (is_calm || !has_all) {
            return Some(Step::Seat);
        }
        // A network that has its share makes room for itself, and a site.
        let away = if own >= share {
            *patient.of.get(&from)?
        } else if site_has_all {
            *from.site().and_then(|site| patient.of_site.get(&site))?
        } else {
            let heaviest = patient.of_all?;
            let is_heavier = self.places.weight(from, 1) > self.places.weight(self.waiting[heaviest].from, 0);
            patient.of.get(&from).copied().filter(|_| is_heavier).unwrap_or(heaviest)
        };
        Some(if taken > limit { Step::Close(away) } else { Step::Replace(away) })
    }

    /// A connection has come: it has a place, or waits; not if it is one too many.
    pub(super) fn arrive(&mut self, now: Instant, waiting: Waiting, most: usize) -> bool {
        let from = waiting.from;
        let theirs = self.lined.of(from);
        // Those of its network that came before come first.
        if theirs == 0 && self.step(now, from, most, &Patient::default()) == Some(Step::Seat) {
            self.seat(now, waiting);
            return true;
        }
        let longest = if self.is_penalised(now, from) { PENALISED } else { LINE * most };
        if from.is_bounded() && theirs >= longest || self.without >= LINES * most && !self.give_way(from) {
            return false;
        }
        self.lined.add(from);
        self.without += 1;
        self.outside.entry(from).or_default().push_back(waiting);
        // Nobody who was here could come in, but this one may if another has had its time.
        self.changed |= self.waiting.first().is_some_and(|oldest| oldest.since + GRACE <= now);
        true
    }

    /// From a full line, the newest of the heaviest network leaves for one of a lighter one.
    fn give_way(&mut self, from: Network) -> bool {
        let all = || self.outside.iter().filter(|(of, _)| **of != Network::Other);
        let longest = |(_, line): &(&Network, &VecDeque<Waiting>)| (line.len(), line.back().map(|last| last.number));
        let Some((mut of, line)) = all().max_by_key(longest) else { return false };
        let mut weight = line.len();
        if let Some((site, count)) = self.lined.sites.iter().max_by_key(|(_, count)| **count)
            && count.div_ceil(SITE) > weight
            && let Some((of_site, _)) = all().filter(|(of, _)| of.site() == Some(*site)).max_by_key(longest)
        {
            (of, weight) = (of_site, count.div_ceil(SITE));
        }
        let of = *of;
        // Networks of one site are compared as they are.
        let is_lighter = match of.site() {
            Some(site) if from.site() == Some(site) => self.lined.of(from) + 1 < self.lined.of(of),
            _ => self.lined.weight(from, 1) < weight,
        };
        if !is_lighter {
            return false;
        }
        let newest = self.outside.get_mut(&of).and_then(VecDeque::pop_back);
        if let Some(newest) = newest {
            self.left(of);
            newest.enter.notify_one();
        }
        true
    }

    /// One of a network is outside no more.
    fn left(&mut self, of: Network) {
        self.lined.remove(of);
        self.without -= 1;
        if self.outside.get(&of).is_some_and(VecDeque::is_empty) {
            self.outside.remove(&of);
        }
    }

    fn seat(&mut self, now: Instant, waiting: Waiting) {
        self.places.add(waiting.from);
        self.waiting.push(Waiting { since: now, ..waiting });
    }

    fn unseat(&mut self, at: usize) -> Waiting {
        let waiting = self.waiting.remove(at);
        self.places.remove(waiting.from);
        waiting
    }

    /// Gives places to those outside, as far as that is just: one of the lightest network comes first.
    pub(super) fn advance(&mut self, now: Instant, most: usize) {
        if !self.changed && now < self.look {
            return;
        }
        while self.without > 0 {
            let patient = self.patient(now);
            let steps = self.outside.iter().filter_map(|(from, line)| {
                let step = self.step(now, *from, most, &patient)?;
                let (weight, own) = (self.places.weight(*from, 0), self.places.of(*from));
                let key = (step != Step::Seat, weight, own, self.was_silent(now, *from));
                Some((key, line.front()?.number, *from, step))
            });
            let Some((_, _, from, step)) = steps.min_by_key(|(key, number, ..)| (*key, *number)) else { break };
            if let Step::Replace(at) | Step::Close(at) = step {
                let away = self.unseat(at);
                self.penalise(now, away.from);
                away.leave.notify_one();
            }
            if !matches!(step, Step::Close(_))
                && let Some(first) = self.outside.get_mut(&from).and_then(VecDeque::pop_front)
            {
                self.left(from);
                first.enter.notify_one();
                self.seat(now, first);
            }
        }
        self.changed = false;
        let oldest = self.waiting.first().map_or(now, |oldest| oldest.since) + GRACE;
        self.look = if oldest > now { oldest } else { now + GRACE / 8 };
    }

    /// How the connection stands.
    pub(super) fn standing(&mut self, now: Instant, number: u64, from: Network, most: usize) -> Standing {
        self.advance(now, most);
        let line = self.outside.get(&from);
        if line.is_some_and(|line| line.binary_search_by_key(&number, |out| out.number).is_ok()) {
            // One of them looks as soon as something may have changed; the others after it, should it be gone.
            let keeps = self.keeper <= now || self.look < self.keeper;
            if keeps {
                self.keeper = self.look;
            }
            return Standing::Outside(if keeps { self.look } else { self.look.max(now + GRACE / 8) });
        }
        if self.waiting.iter().any(|waiting| waiting.number == number) { Standing::Seated } else { Standing::Gone }
    }

    /// A connection is done, wherever it was.
    pub(super) fn leave(&mut self, now: Instant, number: u64, from: Network, most: usize) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.number == number) {
            self.unseat(at);
            self.changed = true;
            return self.advance(now, most);
        }
        let line = self.outside.get_mut(&from);
        let at = line.as_ref().and_then(|line| line.binary_search_by_key(&number, |out| out.number).ok());
        if let Some((line, at)) = line.zip(at) {
            line.remove(at);
            self.left(from);
        }
    }

    /// How many have a place, how many wait for one, and how many networks are known as silent.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.waiting.len(), self.without, self.penalties.len()]
    }

    /// Places that a network has, and its site.
    #[cfg(test)]
    pub(super) fn places_of(&self, from: Network) -> [usize; 2] {
        [self.places.of(from), self.places.of_site(from)]
    }
}

#[cfg(test)]
mod tests;
