//! The pool: connections opened before a program asks for them (paper 1, section III-E), its bounds and its accounts.
//!
//! A spare connection is a race that nobody waits for yet: the connector runs it like any other and keeps what comes of
//! it for a while. Here is decided where one is opened, how long it may be handed over, and how long it is watched.
//!
//! A program believes a connection that it is given to be new, and does not try again if the first thing that it hears is
//! a reset. So age is bounded by what the server has been seen to bear, not by what is usual: half of the time after
//! which it closes, and, as long as nobody knows, no more than [`UNPROVEN`]. What is too old to be handed over is watched
//! for a while longer, to learn ([`PROBE`]).
//!
//! What never happens here: a connection to where this program has not been at least twice before, or to a server that
//! speaks first.

use super::AppId;
use super::habits::Port;
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Spare connections at once, over all programs: connect.md.
pub const MAX_SPARES: usize = 16;
/// How old a spare connection may be when it is handed over: connect.md. Servers wait longer for a first request.
pub const MAX_AGE: Duration = Duration::from_secs(10);
/// How old it may be where nobody has seen how long the server bears silence: ours. Less than the shortest time that any
/// server is known to be configured with, by half.
pub const UNPROVEN: Duration = Duration::from_millis(500);
/// How long a connection is left alone to see how long the server bears it: twice [`MAX_AGE`], since half of it counts.
pub const PROBE: Duration = Duration::from_secs(20);
/// A server behind a port that says nothing about who speaks first must have been silent for so long: longer than any
/// greeting takes that is not held back on purpose.
const TRIAL: Duration = Duration::from_secs(3);
/// How long a spare connection may take to open. One that takes longer helps nobody.
pub(super) const OPENS_WITHIN: Duration = Duration::from_secs(5);

/// Launches in which a program must have connected there: connect.md.
const MIN_LAUNCHES: u32 = 2;
/// How likely the connection must be: one less the share that may be wasted.
const LIKELY: f32 = 0.7;
/// From as many connections side by side two are opened ahead.
const SIDE_BY_SIDE: f32 = 1.7;

/// Share of spare connections that may be wasted before the budget is halved, and before a host rests: connect.md.
const WASTE: f64 = 0.3;
const HOST_WASTE: f64 = 0.5;
/// Spare connections that these shares are taken of: the last so many, and no fewer than so many.
const RECENT: (usize, usize) = (32, 8);
const HOST_RECENT: (usize, usize) = (8, 4);
/// How long a host rests: connect.md.
const REST: Duration = Duration::from_secs(3600);
/// Hosts whose accounts are kept.
const MAX_HOSTS: usize = 1024;

/// Ports on which the server speaks first, or where a connection is too dear to be left alone (databases): never.
const NEVER: &[u16] = &[
    21, 22, 23, 25, 109, 110, 119, 143, 194, 220, 465, 587, 993, 995, 1433, 1521, 2049, 3306, 3389, 5432, 5900, 6379,
    11211, 27017,
];
/// Ports on which the client speaks first: HTTP and TLS.
const CLIENT_FIRST: &[u16] = &[80, 443, 853, 8080, 8443];

/// Where a spare connection leads, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host {
    pub app: AppId,
    pub name: Arc<str>,
    pub port: u16,
}

/// How long a spare connection is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// It may be handed over until it is so old.
    pub fresh: Duration,
    /// It is closed when it is so old.
    pub keep: Duration,
    /// Nothing is known of the server's patience yet: it is opened to learn as much as to be used.
    pub learning: bool,
}

/// How a spare connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A program has it.
    Taken,
    /// Nobody wanted it in time.
    Expired,
    /// The server closed it.
    Closed,
    /// The server spoke.
    Spoke,
    /// It was closed for reasons of our own, or never opened; nothing is to be learned from it.
    Dropped,
}

/// Why a spare connection is of no use any more, as io sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// The other side has closed or reset it.
    Closed,
    /// The other side has said something.
    Spoke,
}

#[derive(Debug)]
struct Spare {
    host: Host,
    terms: Terms,
    ready: Option<Instant>,
}

/// Which of the last spare connections were wasted.
#[derive(Debug, Default)]
struct Waste(VecDeque<bool>);

impl Waste {
    fn add(&mut self, wasted: bool, (most, least): (usize, usize)) -> Option<f64> {
        self.0.push_back(wasted);
        if self.0.len() > most {
            self.0.pop_front();
        }
        let wasted = self.0.iter().filter(|w| **w).count();
        (self.0.len() >= least).then(|| wasted as f64 / self.0.len() as f64)
    }
}

#[derive(Debug, Default)]
struct Account {
    waste: Waste,
    rests_until: Option<Instant>,
    used: Instant,
}

/// All spare connections. See the module.
#[derive(Debug)]
pub(super) struct Pool {
    limit: usize,
    budget: usize,
    /// By the job that opens them.
    spares: BTreeMap<u64, Spare>,
    hosts: BTreeMap<Host, Account>,
    waste: Waste,
}

impl Pool {
    pub fn new(limit: usize) -> Self {
        Self { limit, budget: limit, spares: BTreeMap::new(), hosts: BTreeMap::new(), waste: Waste::default() }
    }

    /// How many spare connections there may be to a host now that one is expected with this `chance`; 0 for none.
    pub fn wanted(&self, now: Instant, host: &Host, known: &Port, chance: f32) -> usize {
        let resting = |a: &Account| a.rests_until.is_some_and(|until| now < until);
        let unwanted = known.launches < MIN_LAUNCHES
            || chance < LIKELY
            || known.speaks_first
            || NEVER.contains(&host.port)
            || self.hosts.get(host).is_some_and(resting);
        match () {
            () if unwanted => 0,
            // One is enough to learn from.
            () if terms(host.port, known).fresh <= UNPROVEN => 1,
            () if known.parallel >= SIDE_BY_SIDE => 2,
            () => 1,
        }
    }

    /// Whether one more to this host is within the bounds, `wanted` being how many there may be.
    pub fn has_room(&self, now: Instant, host: &Host, wanted: usize) -> bool {
        let counts = |s: &&Spare| s.is_fresh(now) || s.host == *host;
        let fresh = self.spares.values().filter(counts);
        let of_host = self.spares.values().filter(|s| s.host == *host).count();
        fresh.count() < self.budget && of_host < wanted && self.spares.len() < 2 * self.limit
    }

    /// Job `number` opens one.
    pub fn opened(&mut self, number: u64, host: Host, terms: Terms) {
        self.spares.insert(number, Spare { host, terms, ready: None });
    }

    /// It is open.
    pub fn ready(&mut self, number: u64, now: Instant) {
        if let Some(spare) = self.spares.get_mut(&number) {
            spare.ready.get_or_insert(now);
        }
    }

    /// It has ended; where it led, and how long it had been open. `None` if that is known already.
    pub fn ended(&mut self, number: u64, now: Instant, end: End) -> Option<(Host, Duration)> {
        let Spare { host, terms, ready } = self.spares.remove(&number)?;
        let age = ready.map_or(Duration::ZERO, |at| now - at);
        // What was kept to learn how long it lasts has done so.
        let probed = terms.learning && end != End::Taken;
        if end != End::Dropped && !probed {
            self.account(now, &host, end != End::Taken);
        }
        Some((host, age))
    }

    fn account(&mut self, now: Instant, host: &Host, wasted: bool) {
        if let Some(share) = self.waste.add(wasted, RECENT) {
            if share > WASTE {
                self.budget = (self.budget / 2).max(1);
                self.waste = Waste::default();
            } else if self.waste.0.len() >= RECENT.0 {
                self.budget = (self.budget * 2).min(self.limit);
                self.waste = Waste::default();
            }
        }
        if self.hosts.len() >= MAX_HOSTS
            && !self.hosts.contains_key(host)
            && let Some(oldest) = self.hosts.iter().min_by_key(|(_, a)| a.used).map(|(h, _)| h.clone())
        {
            self.hosts.remove(&oldest);
        }
        let account = self.hosts.entry(host.clone()).or_default();
        account.used = now;
        if account.waste.add(wasted, HOST_RECENT).is_some_and(|share| share > HOST_WASTE) {
            *account = Account { rests_until: Some(now + REST), used: now, ..Account::default() };
        }
    }
}

impl Spare {
    fn is_fresh(&self, now: Instant) -> bool {
        self.ready.is_none_or(|at| now - at < self.terms.fresh)
    }
}

/// How long a spare connection to this port is of use.
pub(super) fn terms(port: u16, known: &Port) -> Terms {
    if !CLIENT_FIRST.contains(&port) && known.idle < TRIAL {
        return Terms { fresh: Duration::ZERO, keep: PROBE, learning: true };
    }
    let fresh = match known.closes {
        Some(closes) => (closes / 2).min(MAX_AGE),
        None => (known.idle / 2).clamp(UNPROVEN, MAX_AGE),
    };
    let proven = known.closes.is_none() && known.idle >= PROBE;
    let learning = known.closes.is_none() && fresh <= UNPROVEN;
    Terms { fresh, keep: if proven { fresh } else { PROBE }, learning }
}

/// What the end of a spare connection says of the server.
pub(super) fn learn(known: &mut Port, end: End, age: Duration) {
    match end {
        End::Spoke => known.speaks_first = true,
        // Sooner than ever: at once. Later than before: half way, for the next may be soon again.
        End::Closed => {
            known.closes = Some(known.closes.map_or(age, |old| if age < old { age } else { (old + age) / 2 }));
        }
        // It bears more than it was thought to: what closed the other was an accident. How much more is to be seen again.
        End::Taken | End::Expired if known.closes.is_some_and(|closes| age > closes) => {
            (known.closes, known.idle) = (None, age);
        }
        End::Taken | End::Expired => known.idle = known.idle.max(age),
        End::Dropped => {}
    }
}

/// Whether a connection to `addr` may be opened and left alone: not to this host, nor to a neighbour who may be serving one
/// caller at a time (development servers), but over TLS.
pub(super) fn may_lead_to(addr: IpAddr, port: u16) -> bool {
    match addr {
        IpAddr::V4(v4) => {
            !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified() && (!v4.is_private() || port == 443)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => may_lead_to(v4.into(), port),
            None => {
                let ours = v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified();
                !ours && (!v6.is_unique_local() || port == 443)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: usize) -> Host {
        Host { app: "mail".into(), name: format!("{n}.example").into(), port: 443 }
    }
    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }
    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }
    fn habit() -> Port {
        Port { launches: 2, share: 1.0, parallel: 1.0, idle: PROBE, ..Port::default() }
    }
    /// Opens one to each of `hosts` and lets it end at once.
    fn play(pool: &mut Pool, hosts: std::ops::Range<usize>, end: End) {
        for n in hosts {
            pool.opened(0, host(n), terms(443, &habit()));
            pool.ready(0, at(0));
            pool.ended(0, at(1), end).unwrap();
        }
    }

    #[test]
    fn a_place_that_was_visited_twice_and_is_likely_gets_one_and_two_where_two_are_used() {
        let pool = Pool::new(MAX_SPARES);
        let wanted = |port: &Port, chance| pool.wanted(at(0), &host(0), port, chance);
        assert_eq!(wanted(&habit(), 0.9), 1);
        assert_eq!(wanted(&Port { parallel: 6.0, ..habit() }, 0.9), 2);
        assert_eq!(wanted(&habit(), 0.6), 0);
        assert_eq!(wanted(&Port { launches: 1, ..habit() }, 1.0), 0);
        assert_eq!(wanted(&Port { speaks_first: true, ..habit() }, 1.0), 0);
        let ssh = Host { port: 22, ..host(0) };
        assert_eq!(pool.wanted(at(0), &ssh, &habit(), 1.0), 0);
    }

    #[test]
    fn no_more_than_the_budget_are_fresh_at_once_and_a_host_has_one() {
        let mut pool = Pool::new(3);
        for n in 0..3 {
            assert!(pool.has_room(at(0), &host(n), 1));
            pool.opened(n as u64, host(n), terms(443, &habit()));
            assert!(!pool.has_room(at(0), &host(n), 1), "one a host");
        }
        assert!(!pool.has_room(at(0), &host(9), 1));
        pool.ended(1, at(1), End::Taken).unwrap();
        assert!(pool.has_room(at(1), &host(9), 1));
        assert!(pool.ended(1, at(1), End::Expired).is_none(), "it ends once");
    }

    #[test]
    fn waste_halves_the_budget_and_use_brings_it_back() {
        let mut pool = Pool::new(16);
        play(&mut pool, 0..5, End::Taken);
        play(&mut pool, 5..8, End::Expired);
        assert_eq!(pool.budget, 8, "three of eight are more than 30 %");
        play(&mut pool, 8..40, End::Taken);
        assert_eq!(pool.budget, 16);
        (0..10).for_each(|_| play(&mut pool, 0..8, End::Expired));
        assert_eq!(pool.budget, 1, "never none: nothing could be learned any more");
    }

    #[test]
    fn a_host_that_wastes_more_than_half_rests_for_an_hour() {
        let mut pool = Pool::new(16);
        (0..4).for_each(|_| play(&mut pool, 0..1, End::Expired));
        assert_eq!(pool.wanted(at(3600), &host(0), &habit(), 1.0), 0);
        assert_eq!(pool.wanted(at(3602), &host(0), &habit(), 1.0), 1);
        assert_eq!(pool.wanted(at(3), &host(1), &habit(), 1.0), 1);
    }

    #[test]
    fn age_is_bounded_by_what_the_server_bears() {
        let mut known = Port::default();
        assert_eq!(terms(443, &known), Terms { fresh: UNPROVEN, keep: PROBE, learning: true });
        learn(&mut known, End::Expired, secs(6));
        assert_eq!(terms(443, &known), Terms { fresh: secs(3), keep: PROBE, learning: false });
        learn(&mut known, End::Expired, PROBE);
        assert_eq!(terms(443, &known), Terms { fresh: MAX_AGE, keep: MAX_AGE, learning: false });
        learn(&mut known, End::Closed, secs(5));
        assert_eq!(terms(443, &known), Terms { fresh: secs(5) / 2, keep: PROBE, learning: false });
        learn(&mut known, End::Closed, secs(1));
        assert_eq!(terms(443, &known).fresh, secs(1) / 2, "sooner: at once");
        learn(&mut known, End::Closed, secs(15));
        assert_eq!(terms(443, &known).fresh, secs(4), "later: half way");
        learn(&mut known, End::Expired, PROBE);
        assert_eq!(terms(443, &known).fresh, MAX_AGE, "it has borne it all");
        learn(&mut known, End::Closed, secs(1) / 10);
        assert_eq!(terms(443, &known).fresh, secs(1) / 20);
        learn(&mut known, End::Taken, secs(1) / 5);
        assert_eq!(terms(443, &known).fresh, UNPROVEN, "an accident, and nothing is known of it any more");
    }

    #[test]
    fn an_unknown_port_is_tried_in_silence_before_a_connection_is_handed_over() {
        let mut known = habit();
        known.idle = secs(0);
        assert_eq!(terms(2222, &known).fresh, Duration::ZERO);
        learn(&mut known, End::Spoke, secs(1));
        assert_eq!(Pool::new(16).wanted(at(0), &Host { port: 2222, ..host(0) }, &known, 1.0), 0);
        let mut silent = habit();
        silent.idle = secs(4);
        assert_eq!(terms(2222, &silent).fresh, secs(2));
    }

    #[test]
    fn nothing_is_opened_ahead_to_this_host_or_its_neighbours_development_servers() {
        for (addr, port, may) in [
            ("127.0.0.1", 443, false),
            ("::1", 443, false),
            ("::ffff:127.0.0.1", 443, false),
            ("169.254.1.1", 443, false),
            ("fe80::1", 443, false),
            ("10.0.0.1", 80, false),
            ("10.0.0.1", 443, true),
            ("fd00::1", 8080, false),
            ("198.18.0.1", 80, true),
            ("2001:db8::1", 80, true),
        ] {
            assert_eq!(may_lead_to(addr.parse().unwrap(), port), may, "{addr} {port}");
        }
    }
}
