//! The pool: connections opened before a program asks for them (paper 1, section III-E), its bounds and its accounts.
//!
//! A spare connection is a race that no program waits for yet: the connector runs it like any other and keeps what comes of
//! it for a while. This module decides where one is opened, how long it may be handed over, and how long it is watched.
//!
//! A program takes a connection that it is given for new, and does not try again if the first packet that it gets is
//! a reset. So age is bounded by what the server has been seen to bear, not by what is usual: at most half of it, and so
//! that [`LEFT`] of it are left, since the program may be starved between its connect and its first word. Where nothing
//! has been seen, nothing that has been left alone is handed over. What is of no use to a program any more is watched for
//! a while longer, to learn ([`PROBE`]).
//!
//! What never happens here: a connection to where this program has not been at least twice before, or to a server that
//! speaks first; a connection handed over to a server that may close it within two seconds.

use super::AppId;
use super::pool_miss::PoolMiss;
use super::prefetch_model::Port;
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Spare connections at once, over all programs: ours. Pages lead to dozens of hosts within
/// seconds, and each connection is open for a few.
pub const MAX_SPARES: usize = 32;
/// How old a spare connection may be when it is handed over. Ours: servers wait longer for a first request.
pub const MAX_AGE: Duration = Duration::from_secs(10);
/// How much of a server's patience must be left at a hand-over: ours. A program on a machine with a load of twenty was
/// seen to need more than half a second for its first word.
pub const LEFT: Duration = Duration::from_secs(2);
/// What is opened while a program is asking already may be so old when it connects. It is as old as a connection of the
/// program's own would be, and some time for a program that is not given the processor.
const AS_ITS_OWN: Duration = Duration::from_millis(500);
/// How long a connection is left alone to see how long the server bears it: twice [`MAX_AGE`], since half of it counts.
pub const PROBE: Duration = Duration::from_secs(20);
/// A server behind a port that does not say which side speaks first must have been silent for so long: longer than any
/// greeting takes that is not delayed on purpose.
const TRIAL: Duration = Duration::from_secs(3);
/// How long a spare connection may take to open. One that takes longer is of no use.
pub(super) const OPENS_WITHIN: Duration = Duration::from_secs(5);

/// Launches in which a program must have connected there. Ours.
const MIN_LAUNCHES: u32 = 2;
/// How likely the connection must be: as likely as not. Most are likelier by far, so that less than the share is wasted
/// that may be.
pub(super) const LIKELY: f32 = 0.5;
/// From as many connections side by side two are opened ahead.
const SIDE_BY_SIDE: f32 = 1.7;
/// What is expected is opened so long before, and so many spreads. A connection takes some round trips of lookup and
/// handshake, and of a uniform spread no launch is off by more than twice the mean.
const BEFORE: (Duration, u32) = (Duration::from_millis(500), 3);

/// Share of spare connections that may be wasted before the budget is halved, and before a host rests. Ours.
const WASTE: f64 = 0.3;
const HOST_WASTE: f64 = 0.5;
/// Spare connections that these shares are taken of: of all, each so many; of a host, the last so many and no fewer than so
/// many. Ours: of 8
/// connections that are wanted with a chance of 0.8 three or more are wasted in one case of five, of 64 more than 30 % in
/// one of fifty.
const RECENT: usize = 64;
const HOST_RECENT: (usize, usize) = (16, 8);
/// How long a host rests. Ours.
const REST: Duration = Duration::from_secs(3600);
/// A server that has closed so many in a row so soon that none could be handed over is not asked again for as long: it will
/// not have been an accident.
const IMPATIENT: u32 = 3;
/// Connections to a host beyond those that may be handed over, kept to learn.
const MAX_KEPT: usize = 2;
/// Hosts whose accounts are kept.
const MAX_HOSTS: usize = 1024;
/// Fates that are kept: more than there are names of all launches that go on.
const MAX_FATES: usize = 4096;

/// Ports on which the server speaks first, or where a connection is too dear to be left alone (databases): never.
const NEVER: &[u16] = &[
    21, 22, 23, 25, 109, 110, 119, 143, 194, 220, 465, 587, 993, 995, 1433, 1521, 2049, 3306, 3389, 5432, 5900, 6379,
    11211, 27017,
];
/// Ports on which the client speaks first: HTTP and TLS.
const CLIENT_FIRST: &[u16] = &[80, 443, 853, 8080, 8443];

/// Where a spare connection leads, and the program that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpareKey {
    pub app: AppId,
    pub name: Arc<str>,
    pub port: u16,
}

/// How long a spare connection is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// It may be handed over until it is this old, counted from its beginning (zero: only while it is under way); `None`:
    /// never.
    pub fresh: Option<Duration>,
    /// It is closed when it is so old.
    pub keep: Duration,
    /// Too little is known of the server's patience yet: it is opened to learn.
    pub learning: bool,
}

impl Terms {
    /// The same, now that a program is asking for what has not been opened yet.
    pub fn as_its_own(self) -> Self {
        Self { fresh: self.fresh.map(|fresh| fresh.max(AS_ITS_OWN)), ..self }
    }

    /// The same, now that the program is no more.
    pub fn for_nobody(self) -> Self {
        Self { fresh: None, ..self }
    }

    /// How long it is of use, once it is open.
    pub fn of_use(self) -> Duration {
        self.fresh.unwrap_or_default()
    }
}

/// How a spare connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpareEnd {
    /// A program has it.
    Taken,
    /// No program wanted it in time.
    Expired,
    /// The server closed it.
    Closed,
    /// The server spoke.
    Spoke,
    /// It was closed for reasons of our own, or never opened; nothing is to be learned from it.
    Dropped,
    /// Nothing may be opened ahead to where it leads.
    Barred,
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
    host: SpareKey,
    terms: Terms,
    began: Instant,
    ready: Option<Instant>,
}

/// What is known of a host beside its model: which of the last connections were wasted.
#[derive(Debug, Default)]
struct Account {
    wasted: VecDeque<bool>,
    /// Connections in a row that were closed before they could be of use.
    closed_early: u32,
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
    hosts: BTreeMap<SpareKey, Account>,
    /// Of the last connections: all, and those that were wasted.
    waste: (usize, usize),
}

impl Pool {
    pub fn new(limit: usize) -> Self {
        Self { limit, budget: limit, spares: BTreeMap::new(), hosts: BTreeMap::new(), waste: (0, 0) }
    }

    /// How many spare connections there may be to a host now that one is expected with this `chance`, or why there may
    /// be none.
    pub fn wanted(&self, now: Instant, host: &SpareKey, known: &Port, chance: f32) -> Result<usize, PoolMiss> {
        let resting = |a: &Account| a.rests_until.is_some_and(|until| now < until);
        if is_unknown(known) {
            Err(PoolMiss::Unknown)
        } else if chance < LIKELY {
            Err(PoolMiss::Unlikely)
        } else if known.speaks_first || NEVER.contains(&host.port) {
            Err(PoolMiss::Barred)
        } else if self.hosts.get(host).is_some_and(resting) {
            Err(PoolMiss::Resting)
        } else {
            // One is enough to learn from.
            let learns = terms(host.port, known).of_use().is_zero();
            Ok(if !learns && known.parallel >= SIDE_BY_SIDE { 2 } else { 1 })
        }
    }

    /// Whether one more to this host is within the bounds, `wanted` being how many there may be.
    pub fn has_room(&self, now: Instant, host: &SpareKey, wanted: usize, terms: Terms) -> bool {
        let counts = |s: &&Spare| s.is_of_use(now);
        let of_host = || self.spares.values().filter(|s| s.host == *host);
        let learning = terms.learning && of_host().any(|s| s.terms.learning);
        !learning
            && self.spares.values().filter(counts).count() < self.budget
            && of_host().filter(counts).count() < wanted
            && of_host().count() < wanted + MAX_KEPT
            && self.spares.len() < 2 * self.limit
    }

    /// Whether there is one that a program may still be given.
    pub fn has_any(&self, now: Instant, host: &SpareKey) -> bool {
        self.spares.values().any(|s| s.host == *host && s.is_of_use(now))
    }

    /// How long connections to this host that are open now have borne silence, the oldest of them.
    pub fn borne(&self, now: Instant, host: &SpareKey) -> Duration {
        let open = self.spares.values().filter(|s| s.host == *host).filter_map(|s| s.ready);
        open.min().map_or(Duration::ZERO, |at| now - at)
    }

    /// Job `number` opens one.
    pub fn opened(&mut self, now: Instant, number: u64, host: SpareKey, terms: Terms) {
        self.spares.insert(number, Spare { host, terms, began: now, ready: None });
    }

    /// It is open.
    pub fn ready(&mut self, number: u64, now: Instant) {
        if let Some(spare) = self.spares.get_mut(&number) {
            spare.ready.get_or_insert(now);
        }
    }

    /// It has ended; where it led, and how long it had been open. `None` if that is known already.
    pub fn ended(&mut self, number: u64, now: Instant, end: SpareEnd) -> Option<(SpareKey, Duration)> {
        let Spare { host, terms, ready, .. } = self.spares.remove(&number)?;
        let age = ready.map_or(Duration::ZERO, |at| now - at);
        // What was kept to learn how long it lasts has done so.
        let probed = terms.learning && end != SpareEnd::Taken;
        if !matches!(end, SpareEnd::Dropped | SpareEnd::Barred) && !probed {
            self.account(now, &host, end != SpareEnd::Taken);
        }
        match end {
            SpareEnd::Barred => self.of_host(now, &host).rests_until = Some(now + REST),
            SpareEnd::Closed if of_use(age).is_zero() => {
                let account = self.of_host(now, &host);
                account.closed_early += 1;
                if account.closed_early >= IMPATIENT {
                    (account.closed_early, account.rests_until) = (0, Some(now + REST));
                }
            }
            SpareEnd::Closed | SpareEnd::Expired | SpareEnd::Taken if !of_use(age).is_zero() => {
                self.of_host(now, &host).closed_early = 0;
            }
            _ => {}
        }
        Some((host, age))
    }

    fn account(&mut self, now: Instant, host: &SpareKey, wasted: bool) {
        self.waste = (self.waste.0 + 1, self.waste.1 + usize::from(wasted));
        if self.waste.0 >= RECENT {
            let share = self.waste.1 as f64 / self.waste.0 as f64;
            self.budget = if share > WASTE { (self.budget / 2).max(1) } else { (self.budget * 2).min(self.limit) };
            self.waste = (0, 0);
        }
        let account = self.of_host(now, host);
        account.wasted.push_back(wasted);
        if account.wasted.len() > HOST_RECENT.0 {
            account.wasted.pop_front();
        }
        let share = account.wasted.iter().filter(|w| **w).count() as f64 / account.wasted.len() as f64;
        if account.wasted.len() >= HOST_RECENT.1 && share > HOST_WASTE {
            *account = Account { rests_until: Some(now + REST), used: now, ..Account::default() };
        }
    }

    fn of_host(&mut self, now: Instant, host: &SpareKey) -> &mut Account {
        if self.hosts.len() >= MAX_HOSTS
            && !self.hosts.contains_key(host)
            && let Some(oldest) = self.hosts.iter().min_by_key(|(_, a)| a.used).map(|(h, _)| h.clone())
        {
            self.hosts.remove(&oldest);
        }
        let account = self.hosts.entry(host.clone()).or_default();
        account.used = now;
        account
    }
}

impl Spare {
    /// Whether a program may still be given it.
    fn is_of_use(&self, now: Instant) -> bool {
        self.ready.is_none() || now - self.began < self.terms.of_use()
    }
}

/// What last became of the spare connections to each host, by account.
#[derive(Debug, Default)]
pub(super) struct Fates(BTreeMap<(u32, SpareKey), PoolMiss>);

impl Fates {
    /// Of what was to be there for `account`, this became.
    pub fn note(&mut self, account: u32, host: &SpareKey, fate: PoolMiss) {
        if self.0.len() >= MAX_FATES {
            self.0.pop_first();
        }
        self.0.insert((account, host.clone()), fate);
    }

    /// Why there is nothing, if that is known; returned once.
    pub fn take(&mut self, account: u32, host: &SpareKey) -> Option<PoolMiss> {
        self.0.remove(&(account, host.clone()))
    }

    /// The account is closed.
    pub fn close(&mut self, account: u32) {
        self.0.retain(|(of, _), _| *of != account);
    }
}

/// How old a connection may be when it is handed over, if its server keeps idle connections for so long.
fn of_use(borne: Duration) -> Duration {
    (borne / 2).min(borne.saturating_sub(LEFT)).min(MAX_AGE)
}

/// Whether too few launches have been there.
pub(super) fn is_unknown(known: &Port) -> bool {
    known.launches < MIN_LAUNCHES
}

/// How long a spare connection to this port is of use.
pub(super) fn terms(port: u16, known: &Port) -> Terms {
    if !CLIENT_FIRST.contains(&port) && known.idle < TRIAL {
        return Terms { fresh: None, keep: PROBE, learning: true };
    }
    let fresh = of_use(known.closes.unwrap_or(known.idle));
    let proven = known.closes.is_none() && known.idle >= PROBE;
    Terms { fresh: Some(fresh), keep: if proven { fresh } else { PROBE }, learning: fresh.is_zero() }
}

/// Whether a connection that has waited for a program's connect for so long is still as good as a new one, however it
/// came to be there: not where the server is known by now to lose patience soon.
pub(super) fn may_wait(known: Option<&Port>, age: Duration) -> bool {
    let closes = known.and_then(|known| known.closes);
    closes.is_none_or(|closes| age <= of_use(closes).max(closes / 10))
}

/// What `known` is while connections that are open have `borne` that much.
pub(super) fn borne(known: &Port, borne: Duration) -> Port {
    let mut known = known.clone();
    learn(&mut known, SpareEnd::Expired, borne);
    known
}

/// How long after a launch that is opened which is expected so long `after` it, give or take `spread`, and may be
/// handed over while it is `fresh`; and how likely it is to be of use then, if the program comes at all.
pub(super) fn when(after: Duration, spread: Duration, fresh: Duration) -> (Duration, f32) {
    let before = BEFORE.0 + BEFORE.1 * spread;
    if fresh.is_zero() {
        // To learn, any time will do.
        return (after.saturating_sub(before), 1.0);
    }
    // A uniform spread is twice its mean to either side.
    let within = fresh.as_secs_f32() / (4.0 * spread.as_secs_f32()).max(f32::MIN_POSITIVE);
    (after.saturating_sub(before.min(fresh / 2)), within.min(1.0))
}

/// What the end of a spare connection says of the server.
pub(super) fn learn(known: &mut Port, end: SpareEnd, age: Duration) {
    match end {
        SpareEnd::Spoke => known.speaks_first = true,
        // Sooner than ever: at once. Later than before: half way, for the next may be soon again.
        SpareEnd::Closed => {
            known.closes = Some(known.closes.map_or(age, |old| if age < old { age } else { (old + age) / 2 }));
        }
        // It bears more than it was thought to: what closed the other was an accident. How much more is to be seen again.
        SpareEnd::Taken | SpareEnd::Expired if known.closes.is_some_and(|closes| age > closes) => {
            (known.closes, known.idle) = (None, age);
        }
        SpareEnd::Taken | SpareEnd::Expired => known.idle = known.idle.max(age),
        SpareEnd::Dropped | SpareEnd::Barred => {}
    }
}

/// Whether the client speaks first on this port, so that a connection can be left alone until it does.
pub(super) fn is_client_first(port: u16) -> bool {
    CLIENT_FIRST.contains(&port)
}

/// Whether a connection to `addr` may be opened and left alone: not to this host, nor to a neighbour that may be serving one
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
mod model;
#[cfg(test)]
mod tests;
