//! One name that a program is after: its lookups, its attempts, and which request waits for what.

use super::pool::{OPENS_WITHIN, Terms};
use super::race::reliance::RESOLUTION_DELAY;
use super::race::{self, Attempt, Lookup, State, View};
use super::service::{self, StandIn};
use super::{AppId, AttemptId, Claim, Looks, RequestId, Want};
use crate::path::{Family, Network, SOON};
use crate::time::{Duration, Instant};
use crate::wire::nat64::Prefix;
use crate::wire::record::{RecordType, Service};
use std::net::IpAddr;
use std::sync::Arc;

/// How long a connection that was opened for a lookup waits for the program to ask for it.
pub(super) const UNCLAIMED_AFTER: Duration = Duration::from_secs(2);
/// How long a program is left waiting for a family that is silent while another address of its list has answered, which
/// its socket cannot be exchanged for. Two SYNs (the kernel repeats the first after 1 s, RFC 6298) and half a second.
pub(super) const MOVE_ON_AFTER: Duration = Duration::from_millis(1500);
/// How long the addresses returned to a program must be silent before its socket is replaced by one of another family, which
/// getpeername(2) shows: when the kernel repeats its SYN for the third time (RFC 6298, after 1, 3 and 7 s). A path that is only
/// slow, or has lost
/// two of them, has answered by then.
pub(super) const CROSS_AFTER: Duration = Duration::from_secs(7);
/// How long an exploring attempt may take; longer is an answer too.
pub(super) const EXPLORING_FOR: Duration = Duration::from_secs(1);

/// How long a program that does not wait for its connection is left to itself. Those that race on their own begin their
/// next attempt after 200 ms (curl), 250 (Node, RFC 8305) or 300 (Go, Chromium); all have done so by then.
pub(super) const RESCUE_AFTER: Duration = Duration::from_millis(400);
/// The same of one that may not look what has become of its attempt. The kernel repeats a SYN after 1 s, since its answer takes no
/// longer (RFC 6298, section 2); what answers the second is there after 2 s.
pub(super) const RESCUE_UNSEEN_AFTER: Duration = Duration::from_secs(2);
/// How long its attempt is watched, and others tried in its favour.
pub(super) const RESCUE_WITHIN: Duration = Duration::from_secs(5);

/// How IPv4 addresses are made reachable on a network without a route to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Translation {
    /// Not at all: there is a route, or no translator, or the program wants IPv4 addresses as they are.
    None,
    /// Whether there is a translator is being asked; until then no IPv4 address is of use.
    Awaited,
    /// Through the translator with this prefix.
    By(Prefix),
}

/// Why a family has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    NoData,
    NxDomain,
    Unanswered,
}

/// A connect call that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub request: RequestId,
    pub claim: Claim,
    pub since: Instant,
}

/// An attempt under way that the program holds and does not wait for in a call.
#[derive(Debug)]
pub(super) struct Own {
    pub request: RequestId,
    pub claim: Claim,
    pub attempt: AttemptId,
}

#[derive(Debug)]
pub(super) struct Job {
    pub app: AppId,
    /// Its number; no two have the same.
    pub number: u64,
    /// Whose tally its lookups and attempts are counted in.
    pub account: u32,
    pub name: Arc<str>,
    pub want: Want,
    pub port: Option<u16>,
    pub since: Instant,
    pub v4: Lookup,
    pub v6: Lookup,
    /// HTTPS: with those of its addresses that stand in for the families' own (see `service`).
    pub https: Lookup,
    services: Vec<Service>,
    /// Set before anything is settled.
    pub translation: Translation,
    /// The program wants IPv6 addresses alone: IPv4 ones only as a translator makes them reachable.
    pub ipv6_alone: bool,
    /// What A has come to, while the translation is awaited.
    withheld: Option<(Lookup, Option<Lack>)>,
    pub lacks: [Option<Lack>; 2],
    /// When the first addresses were known, whatever has become of them.
    positive: Option<Instant>,
    pub answered: Option<Instant>,
    pub resolver: Option<(RequestId, Instant)>,
    /// The addresses that were returned to the program, which it will try in turn.
    pub returned: Vec<IpAddr>,
    pub claim: Option<Waiting>,
    pub attempts: Vec<Attempt>,
    /// Addresses that have failed in a race of this program before, and until when they are not tried again.
    pub just_failed: Vec<(IpAddr, Instant)>,
    /// Where the next attempt goes as soon as it is known what sockets the program has.
    pub held: Option<IpAddr>,
    /// Addresses that the name had last time, of answers that hold no more.
    pub stale: Vec<IpAddr>,
    /// Attempts to such addresses, which no answer has confirmed yet: no race sees them.
    pub unconfirmed: Vec<Attempt>,
    /// Ports that are guessed, as the program has not said where it will go: the one that is tried, and those still to be.
    pub guesses: Option<Vec<u16>>,
    /// Attempts to ports guessed before that, which were refused.
    pub refused: Vec<(u16, Attempt)>,
    /// It is for no program yet: a spare connection.
    pub spare: Option<Terms>,
    /// Enough connections are open for programs that have asked for the same and not come yet: none is opened before it comes.
    pub comes_first: bool,
    /// The program does not wait for connections: racing is its own business, ours is to hand over what there is.
    pub races_itself: bool,
    /// The attempts that the program holds, oldest first; those of them that we may take the place of.
    pub own: Vec<Own>,
    /// When the last of them was begun.
    pub own_since: Instant,
    /// Too many others are under way where they go: until then none is made in their favour.
    pub put_off_until: Instant,
    /// The program has had its chance: attempts are made in favour of those that it holds.
    pub rescuing: bool,
    /// A query could not be sent or an attempt not begun, for want of a descriptor or of memory. What comes of it is not the
    /// program's: it may have what we lack.
    pub in_want: bool,
    pub done: bool,
    pub explore: bool,
    /// The program has been to this name in an earlier launch.
    pub comes_again: bool,
    /// The budget allows an attempt beside the chosen one.
    pub may_spend: bool,
    pub remembered: Vec<IpAddr>,
    pub wake: Option<(Instant, &'static str)>,
}

impl Job {
    pub fn new(now: Instant, app: AppId, name: Arc<str>, want: Want, port: Option<u16>) -> Self {
        Self {
            app,
            number: 0,
            account: 0,
            name,
            want,
            port,
            since: now,
            v4: Lookup::Unasked,
            v6: Lookup::Unasked,
            // Asked for only where a race wants it and it may be used.
            https: Lookup::Without(now),
            services: Vec::new(),
            translation: Translation::None,
            ipv6_alone: false,
            withheld: None,
            lacks: [None, None],
            positive: None,
            answered: None,
            resolver: None,
            returned: Vec::new(),
            claim: None,
            attempts: Vec::new(),
            just_failed: Vec::new(),
            held: None,
            stale: Vec::new(),
            unconfirmed: Vec::new(),
            guesses: None,
            refused: Vec::new(),
            spare: None,
            comes_first: false,
            races_itself: false,
            own: Vec::new(),
            own_since: now,
            put_off_until: now,
            rescuing: false,
            in_want: false,
            done: false,
            explore: false,
            comes_again: false,
            may_spend: false,
            remembered: Vec::new(),
            wake: None,
        }
    }

    pub fn lookup(&self, record: impl Into<RecordType>) -> &Lookup {
        match record.into() {
            RecordType::A => &self.v4,
            RecordType::Aaaa => &self.v6,
            RecordType::Https => &self.https,
        }
    }

    /// The lookup of `record` is under way.
    pub fn ask(&mut self, now: Instant, record: RecordType) {
        match record {
            RecordType::A => self.v4 = Lookup::Asked(now),
            RecordType::Aaaa => self.v6 = Lookup::Asked(now),
            RecordType::Https => self.https = Lookup::Asked(now),
        }
    }

    /// What the lookup of `record` has come to.
    pub fn complete(&mut self, now: Instant, record: impl Into<RecordType>, lookup: Lookup, lack: Option<Lack>) {
        match record.into() {
            RecordType::A => match (self.translation, lookup) {
                (Translation::Awaited, Lookup::Addresses(at, list)) => {
                    if self.v4 == Lookup::Unasked {
                        self.v4 = Lookup::Asked(at);
                    }
                    self.withheld = Some((Lookup::Addresses(at, list), lack));
                }
                (_, Lookup::Addresses(at, list)) => {
                    (self.v4, self.lacks[0]) = found(at, self.reachable(list), lack);
                }
                (_, lookup) => (self.v4, self.lacks[0]) = (lookup, lack),
            },
            RecordType::Aaaa => (self.v6, self.lacks[1]) = (lookup, lack),
            RecordType::Https => self.https = lookup,
        }
        self.stand_in(now);
    }

    /// The addresses are known without a question.
    pub fn complete_locally(&mut self, now: Instant, addresses: &[IpAddr]) {
        for family in Family::BOTH {
            let list: Vec<_> = addresses.iter().filter(|a| Family::of(**a) == family).copied().collect();
            let (lookup, lack) = found(now, list, None);
            self.complete(now, family, lookup, lack);
        }
    }

    /// HTTPS has been answered with these records.
    pub fn complete_services(&mut self, now: Instant, services: Vec<Service>) {
        self.services = services;
        self.https = Lookup::Without(now);
        self.stand_in(now);
    }

    /// How IPv4 addresses are reached is known now.
    pub fn translate(&mut self, now: Instant, translation: Translation) {
        self.translation = translation;
        if let Some((lookup, lack)) = self.withheld.take() {
            let lookup = match lookup {
                Lookup::Addresses(_, list) => Lookup::Addresses(now, list),
                other => other,
            };
            self.complete(now, RecordType::A, lookup, lack);
        }
    }

    /// Lets the addresses of HTTPS records stand in where the families' own are not known.
    fn stand_in(&mut self, now: Instant) {
        if let Some(at) = self.https.completed_at().filter(|_| !self.services.is_empty()) {
            let list = self.stand_ins();
            self.https = if list.is_empty() { Lookup::Without(at) } else { Lookup::Addresses(at, list) };
        }
        if !self.addresses().is_empty() {
            self.positive.get_or_insert(now);
        }
    }

    fn stand_ins(&self) -> Vec<IpAddr> {
        let fills = |s: &StandIn| {
            let family = Family::of(s.addr);
            let (lookup, lack) = match family {
                Family::V4 => (&self.v4, self.lacks[0]),
                Family::V6 => (&self.v6, self.lacks[1]),
            };
            let known = !lookup.addresses().is_empty();
            let denied = lookup.is_complete() && lack != Some(Lack::Unanswered);
            // Which includes that A is withheld.
            let reachable = family == Family::V6 || self.translation != Translation::Awaited;
            self.want.includes(family) && reachable && !known && !(s.is_hint && denied)
        };
        self.reachable(service::stand_ins(&self.services).filter(fills).map(|s| s.addr).collect())
    }

    /// `addresses` as they are reached here, without those that the program does not want.
    fn reachable(&self, addresses: Vec<IpAddr>) -> Vec<IpAddr> {
        let through = |addr| match self.translation {
            Translation::By(prefix) => translated(addr, prefix),
            _ => addr,
        };
        addresses.into_iter().map(through).filter(|a| a.is_ipv6() || !self.ipv6_alone).collect()
    }

    /// Every address known so far, IPv6 first.
    pub fn addresses(&self) -> Vec<IpAddr> {
        race::known([&self.v6, &self.v4], &self.https, self.want)
    }

    /// Whether a lookup may still bring an address that the program could use.
    pub fn may_learn_more(&self, usable: impl Fn(Family) -> bool) -> bool {
        let of_use = |f: &Family| usable(*f) && self.want.includes(*f);
        Family::BOTH.iter().filter(|f| of_use(f)).any(|f| {
            let lookup = self.lookup(*f);
            !lookup.is_complete() || (lookup.addresses().is_empty() && !self.https.is_complete())
        })
    }

    /// Shows the race how things stand.
    pub fn with_view<T>(
        &self,
        now: Instant,
        path: &Network,
        faster: Option<Family>,
        ask: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        let rescues = |addr: IpAddr| self.own.is_empty() || self.own_domain_for(addr).is_some();
        let usable = |addr: IpAddr| match &self.claim {
            Some(waiting) => self.is_worth_trying(addr, &waiting.claim),
            None => rescues(addr),
        };
        let fits = |addr: IpAddr| match &self.claim {
            Some(waiting) => domain_for(addr, &waiting.claim).is_some(),
            None => rescues(addr),
        };
        let serves = |a: &Attempt| match &self.claim {
            Some(waiting) => !self.is_unfit(a, &waiting.claim),
            None => a.given || self.own_domain_for(a.addr).is_none_or(|domain| may_become(a, domain)),
        };
        ask(&View {
            now,
            want: self.want,
            v4: &self.v4,
            v6: &self.v6,
            https: &self.https,
            positive: self.positive,
            answered: self.answered.is_some(),
            may_connect: self.may_connect(),
            done: self.done,
            attempts: &self.attempts,
            usable: &usable,
            fits: &fits,
            serves: &serves,
            path,
            just_failed: &self.just_failed,
            remembered: &self.remembered,
            explore: self.explore,
            comes_again: self.comes_again,
            waits: self.claim.as_ref().is_some_and(|waiting| !waiting.claim.nonblocking),
            may_spend: self.may_spend,
            faster,
        })
    }

    /// Whether attempts may be made at all.
    pub fn may_connect(&self) -> bool {
        let has_come = self.claim.is_some() || !self.comes_first;
        self.port.is_some() && (self.rescuing || has_come && !self.races_itself)
    }

    /// Whether connections are opened for it that no program has come for yet, of those that have asked.
    pub fn is_unclaimed(&self) -> bool {
        let asked = self.spare.is_none() && self.port.is_some() && !self.comes_first;
        asked && self.claim.is_none() && self.own.is_empty() && !self.done
    }

    /// Whether an attempt to `addr` may help the program that waits with `claim`: its socket can be exchanged for it, or,
    /// once such an attempt has been begun, `addr` was returned to the program, which will come to it.
    fn is_worth_trying(&self, addr: IpAddr, claim: &Claim) -> bool {
        domain_for(addr, claim).is_some()
            || self.crosses(claim)
            || (self.returned.contains(&addr) && self.attempts.iter().any(|a| self.can_serve(a, claim)))
    }

    /// The domain of the socket for an attempt to `addr`: what the waiting program can use, or will most likely ask for.
    pub fn domain_for(&self, addr: IpAddr, head: Option<Family>) -> Family {
        if let Some(waiting) = &self.claim {
            return domain_for(addr, &waiting.claim).unwrap_or(Family::of(addr));
        }
        if let Some(domain) = self.own_domain_for(addr) {
            return domain;
        }
        // A program connects to the head of its list; if that is IPv6, a v4-mapped peer can stand in for it.
        match (Family::of(addr), head) {
            (Family::V4, Some(Family::V6)) => Family::V6,
            (family, _) => family,
        }
    }

    /// The domain of a socket to `addr` that one of the program's own attempts could be exchanged for.
    fn own_domain_for(&self, addr: IpAddr) -> Option<Family> {
        self.own.iter().find_map(|own| domain_for(addr, &own.claim))
    }

    /// Whether another address than the one of `claim` could be put in the place of it.
    pub fn has_alternative(&self, claim: &Claim) -> bool {
        is_alternative(claim, &self.addresses()) || is_alternative(claim, &self.returned)
    }

    /// The program holds `attempt` from now on and goes on by itself.
    pub fn holds(&mut self, now: Instant, request: RequestId, claim: Claim, attempt: AttemptId) {
        self.own.push(Own { request, claim, attempt });
        (self.own_since, self.rescuing) = (now, false);
    }

    /// Whose attempt this is, if it is the program's.
    pub fn own_by(&self, attempt: AttemptId) -> Option<&Own> {
        self.own.iter().find(|own| own.attempt == attempt)
    }

    /// When attempts will be made in favour of those that the program holds.
    pub fn rescue_at(&self) -> Option<Instant> {
        (!self.own.is_empty() && !self.rescuing && !self.done).then(|| {
            let looks = self.own.iter().all(|own| own.claim.rescuable == Some(Looks::Always));
            (self.own_since + if looks { RESCUE_AFTER } else { RESCUE_UNSEEN_AFTER }).max(self.put_off_until)
        })
    }

    /// Puts an address first for which the program will bring a socket that the attempt under way can stand in for.
    ///
    /// Programs connect to the head of their list. If that is of another family than the attempt that was begun before
    /// they got it, the attempt is lost and its time with it, which no better address makes up for. But what nothing is
    /// known of may never answer, and then the order without us is the better one; as it is where the head's answer is expected
    /// before that of the attempt. `expected`: the round-trip time.
    pub fn lead_with_what_is_under_way(
        &self,
        now: Instant,
        list: &mut Vec<IpAddr>,
        expected: impl Fn(IpAddr) -> Option<Duration>,
    ) {
        let racing = || self.attempts.iter().filter(|a| !a.exploring && !a.given);
        let ready = racing().find(|a| matches!(a.state, State::Ready { .. }));
        let head = list.first().and_then(|head| expected(*head)).map(|rtt| now + rtt);
        let sooner = |a: &&Attempt| {
            let rtt = expected(a.addr).filter(|rtt| a.state == State::InFlight && *rtt <= SOON);
            // What should have answered by now is late, and nothing is known of when it will.
            rtt.map(|rtt| a.started + rtt).is_some_and(|at| at >= now && head.is_none_or(|head| at <= head))
        };
        let Some(leading) = ready.or_else(|| racing().find(sooner)) else { return };
        if let Some(head) = list.iter().position(|a| Family::of(*a) == leading.domain) {
            let head = list.remove(head);
            list.insert(0, head);
        }
    }

    /// When the connect of a program to a silent family fails, because the next address of its list has answered.
    pub fn moves_on_at(&self) -> Option<Instant> {
        let waiting = self.claim.as_ref()?;
        let next = |a: &Attempt| {
            // A program that asks over DNS knows what its answers have said.
            let is_returned =
                self.returned.contains(&a.addr) || self.returned.is_empty() && self.addresses().contains(&a.addr);
            let of_use = is_returned || self.crosses(&waiting.claim);
            matches!(a.state, State::Ready { .. }) && !self.can_serve(a, &waiting.claim) && of_use
        };
        let wanted = waiting.claim.to.ip();
        let has_failed = self.attempts.iter().any(|a| a.addr == wanted && matches!(a.state, State::Failed(_)));
        let after = match self.crosses(&waiting.claim) {
            true => CROSS_AFTER,
            // Its next address is at hand.
            false if has_failed => Duration::ZERO,
            false => MOVE_ON_AFTER,
        };
        self.attempts.iter().any(next).then(|| waiting.since + after)
    }

    /// Whether this attempt's socket can take the place of that of the waiting program although it is of another family. The
    /// program got no other address of that family, and everything that fits has failed or been silent for long: it fails
    /// without it.
    pub fn can_cross(&self, now: Instant, attempt: &Attempt) -> bool {
        let Some(waiting) = self.claim.as_ref().filter(|w| self.crosses(&w.claim)) else { return false };
        let alive = |a: &Attempt| matches!(a.state, State::InFlight | State::Ready { .. });
        let fits = |a: &Attempt| alive(a) && self.can_serve(a, &waiting.claim);
        let ready = matches!(attempt.state, State::Ready { .. }) && !attempt.given;
        ready && (!self.attempts.iter().any(fits) || now >= waiting.since + CROSS_AFTER)
    }

    /// Whether addresses of a family are of use that the socket of `claim` is not made for. A socket of AF_INET6 does all that one
    /// of AF_INET does but to say that it is one.
    pub fn crosses(&self, claim: &Claim) -> bool {
        let fits = |a: &IpAddr| domain_for(*a, claim).is_some();
        let was_given_one = !self.returned.is_empty() && self.returned.iter().all(fits);
        was_given_one && self.want == Want::Both && claim.domain == Family::V4 && !claim.nonblocking
    }

    /// Whether this attempt goes where `claim` could go, by a socket that cannot take the place of the program's.
    pub fn is_unfit(&self, attempt: &Attempt, claim: &Claim) -> bool {
        let under_way = matches!(attempt.state, State::InFlight | State::Ready { .. }) && !attempt.given;
        under_way && domain_for(attempt.addr, claim).is_some() && !self.can_serve(attempt, claim)
    }

    /// Whether this attempt's socket can be exchanged for that of `claim`; or will be, once it is connected, if that waits.
    pub fn can_serve(&self, attempt: &Attempt, claim: &Claim) -> bool {
        let is_it = |domain| domain == attempt.domain;
        let becomes = |domain| may_become(attempt, domain) && (!claim.nonblocking || attempt.ready_at().is_some());
        !attempt.given && domain_for(attempt.addr, claim).is_some_and(|domain| is_it(domain) || becomes(domain))
    }

    /// Whether an attempt to `addr` has failed within the second.
    pub fn has_just_failed(&self, now: Instant, addr: IpAddr) -> bool {
        self.attempts.iter().any(|a| a.addr == addr && a.has_just_failed(now))
    }

    /// When a port is guessed: one family has addresses, and the other has not been answered within the Resolution Delay.
    pub fn guesses_at(&self) -> Option<Instant> {
        let pending = |f: &Family| self.want.includes(*f) && !self.lookup(*f).is_complete();
        let one = Family::BOTH.iter().filter(|f| pending(f)).count() == 1 && !self.addresses().is_empty();
        let at = self.positive.filter(|_| one && self.guesses.is_none() && self.port.is_none() && self.spare.is_none());
        at.filter(|_| self.answered.is_none() && !self.done && self.claim.is_none()).map(|at| at + RESOLUTION_DELAY)
    }

    /// Whether no program waits and nothing is to come that could be used or learned from.
    pub fn is_over(&self, now: Instant) -> bool {
        if self.resolver.is_some() || self.claim.is_some() {
            return false;
        }
        if !self.done {
            return self.unclaimed_at().is_some_and(|at| now >= at);
        }
        let complete = Family::BOTH.iter().all(|f| !self.want.includes(*f) || self.lookup(*f).is_complete());
        let may_explore = self.explore && !complete;
        !may_explore && !self.attempts.iter().any(Attempt::is_exploring)
    }

    /// When a job that no program claims is over.
    pub fn unclaimed_at(&self) -> Option<Instant> {
        let idle = self.resolver.is_none() && self.claim.is_none() && !self.done;
        if !self.own.is_empty() {
            return idle.then(|| self.own_since + RESCUE_WITHIN);
        }
        let over = || match (self.spare, self.open_since()) {
            (Some(terms), Some(at)) => at + terms.keep,
            (Some(_), None) => self.since + OPENS_WITHIN,
            (None, _) => {
                let last_ready = self.attempts.iter().filter_map(Attempt::ready_at);
                last_ready.chain(self.answered).max().unwrap_or(self.since) + UNCLAIMED_AFTER
            }
        };
        idle.then(over)
    }

    /// Since when there has been a connection that no program has.
    pub fn open_since(&self) -> Option<Instant> {
        self.attempts.iter().filter_map(Attempt::ready_at).min()
    }

    /// Whether its connections may be handed over: spare ones only while they are fresh, or still under way. They are
    /// as old as their attempts: when a busy host notices that one is complete, its server has been waiting for a
    /// while.
    pub fn is_fresh(&self, now: Instant) -> bool {
        let open = self.attempts.iter().filter(|a| a.ready_at().is_some());
        let begun = open.map(|a| a.started).min();
        match self.spare {
            None => true,
            Some(terms) => terms.fresh.is_some_and(|fresh| begun.is_none_or(|begun| now - begun < fresh)),
        }
    }

    /// Whether no program has asked for it yet.
    pub fn is_for_nobody(&self) -> bool {
        self.spare.is_some() && self.resolver.is_none() && self.claim.is_none() && self.returned.is_empty()
    }

    /// When an exploring attempt has taken too long.
    pub fn exploring_until(&self) -> Option<Instant> {
        self.attempts.iter().filter(|a| a.is_exploring()).map(|a| a.started + EXPLORING_FOR).min()
    }
}

/// Whether one of `addresses` could be put in the place of the one that `claim` goes to.
pub(super) fn is_alternative(claim: &Claim, addresses: &[IpAddr]) -> bool {
    addresses.iter().any(|addr| *addr != claim.to.ip() && domain_for(*addr, claim).is_some())
}

/// `addr` as it is reached through the translator with `prefix`; as it is if it cannot be.
fn translated(addr: IpAddr, prefix: Prefix) -> IpAddr {
    match addr {
        IpAddr::V4(v4) => prefix.embed(v4).map_or(addr, IpAddr::V6),
        IpAddr::V6(_) => addr,
    }
}

/// Whether the socket of `attempt` is of `domain`, or can be made so once it is connected: one of AF_INET6 to an IPv4 address
/// becomes one of AF_INET in all respects (IPV6_ADDRFORM, ipv6(7)).
fn may_become(attempt: &Attempt, domain: Family) -> bool {
    attempt.domain == domain || attempt.addr.is_ipv4() && domain == Family::V4
}

/// The domain of a socket to `addr` that `claim` could use, if there is one.
fn domain_for(addr: IpAddr, claim: &Claim) -> Option<Family> {
    match (Family::of(addr), claim.domain) {
        (Family::V4, Family::V4) => Some(Family::V4),
        (Family::V6, Family::V6) => Some(Family::V6),
        (Family::V4, Family::V6) if claim.accepts_mapped => Some(Family::V6),
        _ => None,
    }
}

/// What a lookup that has led to `list` has come to.
fn found(at: Instant, list: Vec<IpAddr>, lack: Option<Lack>) -> (Lookup, Option<Lack>) {
    if list.is_empty() { (Lookup::Without(at), Some(Lack::NoData)) } else { (Lookup::Addresses(at, list), lack) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }
    fn v6(n: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])
    }
    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A program that goes to port 443 was returned these addresses.
    fn returned(addresses: &[IpAddr]) -> Job {
        let mut job = Job::new(at(0), "wget".into(), "a.example".into(), Want::Both, Some(443));
        job.complete_locally(at(0), addresses);
        job.returned = addresses.to_vec();
        job
    }

    /// By a socket of the address's own family.
    fn claim(to: IpAddr) -> Claim {
        let domain = Family::of(to);
        Claim {
            app: "wget".into(),
            to: (to, 443).into(),
            domain,
            nonblocking: false,
            accepts_mapped: false,
            rescuable: None,
        }
    }

    fn wait(job: &mut Job, claim: Claim) {
        job.claim = Some(Waiting { request: RequestId(1), claim, since: at(100) });
    }

    /// Begun at 100 ms.
    fn attempt(addr: IpAddr, state: State) -> Attempt {
        let (id, domain) = (AttemptId(0), Family::of(addr));
        Attempt { id, addr, domain, started: at(100), state, exploring: false, given: false }
    }

    const READY: State = State::Ready { rtt: Duration::from_millis(10), at: Instant::from_millis(110) };
    const REFUSED: State = State::Failed(111);
    const TERMS: Terms = Terms { fresh: Some(Duration::from_secs(1)), keep: Duration::from_secs(5), learning: false };

    #[test]
    fn an_alias_stands_in_only_for_a_family_of_which_nothing_is_known() {
        let alias = Service { target: Some("b.example".into()), addresses: vec![v6(9), v4(9)], ..Service::default() };
        let none = || (Lookup::Without(at(0)), Some(Lack::NoData));
        let of = |translation, v4s: Lookup, (v6s, lack)| {
            let mut job = Job::new(at(0), "wget".into(), "a.example".into(), Want::Both, Some(443));
            job.translation = translation;
            job.complete(at(0), RecordType::A, v4s, None);
            job.complete(at(0), RecordType::Aaaa, v6s, lack);
            job.complete_services(at(0), vec![alias.clone()]);
            job.addresses()
        };
        let own = || Lookup::Addresses(at(0), vec![v4(1)]);
        assert_eq!(of(Translation::None, own(), none()), [v6(9), v4(1)]);
        assert_eq!(of(Translation::None, own(), (Lookup::Addresses(at(0), vec![v6(1)]), None)), [v6(1), v4(1)]);
        assert_eq!(of(Translation::Awaited, own(), none()), [v6(9)], "of no use before it is known how it is reached");
    }

    #[test]
    fn nothing_is_to_be_learned_of_a_family_that_the_program_does_not_want() {
        let job = Job::new(at(0), "wget".into(), "a.example".into(), Want::Only(Family::V4), Some(443));
        assert!(job.may_learn_more(|_| true) && !job.may_learn_more(|f| f == Family::V6));
    }

    #[test]
    fn a_connection_is_unclaimed_that_was_begun_for_a_program_which_has_not_come() {
        let changed = |change: fn(&mut Job)| {
            let mut job = returned(&[v4(1)]);
            change(&mut job);
            job.is_unclaimed()
        };
        assert!(changed(|_| ()));
        assert!(!changed(|job| job.port = None));
        assert!(!changed(|job| job.comes_first = true));
        assert!(!changed(|job| job.done = true));
        assert!(!changed(|job| wait(job, claim(v4(1)))));
        assert!(!changed(|job| job.holds(at(1), RequestId(1), claim(v4(1)), AttemptId(0))));
        assert!(!changed(|job| job.spare = Some(TERMS)), "no program has asked");
    }

    #[test]
    fn a_spare_connection_is_for_nobody_until_a_program_asks_for_it() {
        let changed = |change: fn(&mut Job)| {
            let mut job = Job::new(at(0), "wget".into(), "a.example".into(), Want::Both, Some(443));
            job.spare = Some(TERMS);
            change(&mut job);
            job.is_for_nobody()
        };
        assert!(changed(|_| ()));
        assert!(!changed(|job| job.spare = None));
        assert!(!changed(|job| job.resolver = Some((RequestId(1), at(0)))));
        assert!(!changed(|job| wait(job, claim(v4(1)))));
        assert!(!changed(|job| job.returned = vec![v4(1)]));
    }

    #[test]
    fn a_spare_connection_is_fresh_as_long_as_its_terms_say_from_its_beginning() {
        let fresh = |spare, state, now| {
            let mut job = returned(&[v4(1)]);
            job.spare = spare;
            job.attempts.push(attempt(v4(1), state));
            job.is_fresh(at(now))
        };
        assert!(fresh(Some(TERMS), READY, 1099) && !fresh(Some(TERMS), READY, 1100));
        assert!(fresh(Some(TERMS), State::InFlight, 1100), "it is still under way");
        assert!(!fresh(Some(TERMS.for_nobody()), State::InFlight, 110));
        assert!(fresh(None, READY, 9000), "it was begun for a program that asks");
    }

    #[test]
    fn an_address_that_no_socket_fits_is_tried_where_the_program_will_come_to_it() {
        let mut job = returned(&[v6(1), v4(1)]);
        let claim = claim(v4(1));
        assert!(job.is_worth_trying(v4(2), &claim), "its socket can be exchanged");
        assert!(!job.is_worth_trying(v6(1), &claim), "where it wants to go was not tried yet");
        job.attempts.push(attempt(v4(1), State::InFlight));
        assert!(job.is_worth_trying(v6(1), &claim));
        assert!(!job.is_worth_trying(v6(2), &claim), "it was not returned");
    }

    /// What the program gets that knows an IPv6 address, and an IPv4 one that is being tried.
    fn leads(attempt: Attempt, now: u64, rtts: [Option<u64>; 2]) -> Vec<IpAddr> {
        let mut job = returned(&[v6(1), v4(1)]);
        job.attempts.push(attempt);
        let mut list = job.addresses();
        let rtt = |addr| rtts[usize::from(addr == v4(1))].map(Duration::from_millis);
        job.lead_with_what_is_under_way(at(now), &mut list, rtt);
        list
    }

    #[test]
    fn a_list_begins_with_what_is_open_or_will_be_soon_and_before_its_head() {
        let (turned, kept) = ([v4(1), v6(1)], [v6(1), v4(1)]);
        let tried = |state| attempt(v4(1), state);
        assert_eq!(leads(tried(READY), 120, [None, None]), turned);
        assert_eq!(leads(tried(State::InFlight), 120, [None, Some(50)]), turned);
        assert_eq!(leads(tried(State::InFlight), 120, [Some(100), Some(50)]), turned);
        assert_eq!(leads(tried(State::InFlight), 120, [Some(20), Some(50)]), kept, "the head will be there before");
        assert_eq!(leads(tried(State::InFlight), 160, [None, Some(50)]), kept, "it is late");
        assert_eq!(leads(tried(State::InFlight), 120, [None, Some(300)]), kept, "it is far");
        assert_eq!(leads(tried(REFUSED), 120, [None, Some(50)]), kept);
        for state in [READY, State::InFlight] {
            assert_eq!(leads(Attempt { exploring: true, ..tried(state) }, 120, [None, Some(50)]), kept);
            assert_eq!(leads(Attempt { given: true, ..tried(state) }, 120, [None, Some(50)]), kept);
        }
    }

    #[test]
    fn a_program_moves_on_to_what_it_was_returned_and_at_once_from_what_has_failed() {
        let moves_on = |wanted: State, open: IpAddr| {
            let mut job = returned(&[v6(1), v4(1)]);
            job.v6 = Lookup::Addresses(at(0), vec![v6(1), v6(2)]);
            wait(&mut job, claim(v4(1)));
            job.attempts = vec![attempt(v4(1), wanted), attempt(open, READY)];
            job.moves_on_at()
        };
        assert_eq!(moves_on(REFUSED, v6(1)), Some(at(100)));
        assert_eq!(moves_on(State::InFlight, v6(1)), Some(at(100) + MOVE_ON_AFTER));
        assert_eq!(moves_on(REFUSED, v6(2)), None, "it will not come to that");
    }

    #[test]
    fn a_socket_crosses_to_the_other_family_once_all_that_fits_has_failed_or_been_silent_for_long() {
        let crosses = |change: fn(&mut Job), own: State, other: Attempt, now: Instant| {
            let mut job = returned(&[v4(1)]);
            job.v6 = Lookup::Addresses(at(0), vec![v6(1)]);
            wait(&mut job, claim(v4(1)));
            change(&mut job);
            job.attempts = vec![attempt(v4(1), own), other];
            job.can_cross(now, &job.attempts[1])
        };
        let (same, open): (fn(&mut Job), _) = (|_| (), || attempt(v6(1), READY));
        let late = at(100) + CROSS_AFTER;
        assert!(crosses(same, REFUSED, open(), at(120)));
        assert!(crosses(same, State::InFlight, open(), late));
        assert!(!crosses(same, State::InFlight, open(), at(120)), "it may still be answered");
        for now in [at(120), late] {
            assert!(!crosses(same, REFUSED, attempt(v6(1), State::InFlight), now));
            assert!(!crosses(same, REFUSED, Attempt { given: true, ..open() }, now));
            assert!(!crosses(|job| job.want = Want::Only(Family::V4), REFUSED, open(), now));
            assert!(!crosses(|job| job.returned.push(v6(1)), REFUSED, open(), now), "it will come to that itself");
            assert!(!crosses(|job| job.returned.clear(), REFUSED, open(), now));
            let looks_later = |job: &mut Job| wait(job, Claim { nonblocking: true, ..claim(v4(1)) });
            assert!(!crosses(looks_later, REFUSED, open(), now));
        }
    }

    #[test]
    fn what_is_under_way_by_a_mapped_socket_is_unfit_for_a_program_that_does_not_wait() {
        let job = returned(&[v4(1)]);
        let mapped = |state| Attempt { domain: Family::V6, ..attempt(v4(1), state) };
        let hurried = Claim { nonblocking: true, ..claim(v4(1)) };
        assert!(job.is_unfit(&mapped(State::InFlight), &hurried));
        assert!(!job.is_unfit(&mapped(READY), &hurried), "once it is open it becomes what it has to be");
        assert!(!job.is_unfit(&mapped(State::InFlight), &claim(v4(1))));
        assert!(!job.is_unfit(&mapped(REFUSED), &hurried));
        assert!(!job.is_unfit(&Attempt { given: true, ..mapped(State::InFlight) }, &hurried));
        assert!(!job.is_unfit(&attempt(v6(1), State::InFlight), &hurried), "it could not go there");
        assert!(is_alternative(&Claim { accepts_mapped: true, ..claim(v6(1)) }, &[v4(1)]));
        assert!(!is_alternative(&claim(v6(1)), &[v4(1)]), "a socket for IPv6 alone");
    }

    #[test]
    fn an_open_connection_is_of_use_to_a_program_that_waits_only_if_its_socket_fits() {
        let has_ready = |wanted| {
            let mut job = returned(&[v6(1), v4(1)]);
            job.attempts.push(attempt(v6(1), READY));
            wait(&mut job, claim(wanted));
            job.with_view(at(120), &Network::default(), None, |view| view.has_ready())
        };
        assert!(has_ready(v6(1)) && !has_ready(v4(1)));
    }

    #[test]
    fn what_has_failed_within_the_second_is_known_by_its_address() {
        let mut job = returned(&[v4(1), v4(2)]);
        job.attempts = vec![attempt(v4(1), REFUSED), attempt(v4(2), State::InFlight)];
        let failed = |now, addr| job.has_just_failed(at(now), addr);
        assert!(failed(1099, v4(1)) && !failed(1099, v4(2)) && !failed(1101, v4(1)));
    }

    #[test]
    fn a_port_is_guessed_while_one_family_that_is_wanted_has_not_been_answered() {
        let guesses = |want, answered: &[Family]| {
            let mut job = Job::new(at(0), "wget".into(), "a.example".into(), want, None);
            for family in answered {
                let addr = if *family == Family::V4 { v4(1) } else { v6(1) };
                job.complete(at(20), *family, Lookup::Addresses(at(20), vec![addr]), None);
            }
            job.guesses_at()
        };
        assert_eq!(guesses(Want::Both, &[Family::V4]), Some(at(20) + RESOLUTION_DELAY));
        assert_eq!(guesses(Want::Both, &Family::BOTH), None);
        assert_eq!(guesses(Want::Both, &[]), None);
        assert_eq!(guesses(Want::Only(Family::V4), &[Family::V4]), None, "nothing else is to come");
    }

    #[test]
    fn what_is_begun_to_learn_has_a_second_for_it() {
        let mut job = returned(&[v4(1)]);
        job.attempts.push(attempt(v4(1), State::InFlight));
        assert_eq!(job.exploring_until(), None);
        job.attempts.push(Attempt { exploring: true, ..attempt(v6(1), State::InFlight) });
        assert_eq!(job.exploring_until(), Some(at(1100)));
    }
}
