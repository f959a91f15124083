//! The answer cache of one program: its queries, the answers, and how long they are valid.
//!
//! Paper 1, section III-C, keeps each answer for 3600 s whatever its TTL says; ours honours TTLs unless a lifetime is
//! set. An entry is remembered beyond its lifetime: it says which addresses belong to one name, so that a race can be run
//! for an address, and what was there last time, so that a race knows which address it may be waiting for.

use super::service;
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::record::{RecordType, Service};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Names remembered for one program; the one used longest ago is dropped for a new one.
pub const MAX_NAMES: usize = 1024;

/// How long it is kept at most that a name does not exist. Programs that wait for a name to appear ask for it again and again, and
/// without us each time would be the first (RFC 2308 would allow hours). Ours.
const NO_SUCH_NAME: Duration = Duration::from_secs(1);

/// How long answers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as their TTL says (RFC 1035; RFC 2308 for negative ones).
    #[default]
    Ttl,
    /// This long, whatever the TTL: 3600 s in paper 1, section III-C.
    Fixed(Duration),
    /// Not at all: every lookup goes to a server.
    Off,
}

impl Lifetime {
    /// Reads the setting `connect.cache-lifetime`; what it must be, where it is something else.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "ttl" => Ok(Self::Ttl),
            "off" => Ok(Self::Off),
            _ => {
                let seconds = text.strip_suffix('s').unwrap_or(text).parse();
                let fixed = seconds.map(|seconds| Self::Fixed(Duration::from_secs(seconds)));
                fixed.map_err(|_| "must be `ttl`, `off`, or seconds such as `3600s`")
            }
        }
    }
}

/// What is kept of one name and record type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Its addresses.
    Addresses(Vec<IpAddr>),
    /// Its HTTPS records, best first.
    Services(Vec<Service>),
    /// It has none.
    NoData,
    /// It does not exist.
    NxDomain,
}

impl Kept {
    /// The addresses in it: those of the name, or those that stand in for them.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Addresses(list) => list.clone(),
            Self::Services(services) => service::stand_ins(services).map(|s| s.addr).collect(),
            Self::NoData | Self::NxDomain => Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
struct Cached {
    kept: Kept,
    /// How long it holds in all.
    holds: Duration,
    expires: Instant,
    source: Option<Source>,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The number of the server.
    pub server: u32,
    /// It answered when it was first asked.
    pub at_once: bool,
}

#[derive(Clone, Debug, Default)]
struct Name {
    /// By record type.
    entries: [Option<Cached>; RecordType::ALL.len()],
    used: Instant,
}

impl Name {
    fn kept(&self, record: impl Into<RecordType>) -> Option<&Kept> {
        self.entries[record.into() as usize].as_ref().map(|e| &e.kept)
    }

    /// Every address of `family` that a program may have got: its own; without any, those of its HTTPS records.
    fn addresses(&self, family: Family) -> Vec<IpAddr> {
        if let Some(Kept::Addresses(list)) = self.kept(family) {
            return list.clone();
        }
        let mut stand_ins = self.kept(RecordType::Https).map_or_else(Vec::new, Kept::addresses);
        stand_ins.retain(|a| Family::of(*a) == family);
        stand_ins
    }
}

/// The answers of one program.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    names: HashMap<Arc<str>, Name>,
}

impl Cache {
    /// What is kept of `name` and this record type (or this family's) and still holds.
    pub fn get(&mut self, now: Instant, name: &str, record: impl Into<RecordType>) -> Option<Kept> {
        let known = self.names.get_mut(name)?;
        known.used = now;
        known.entries[record.into() as usize].as_ref().filter(|e| now < e.expires).map(|e| e.kept.clone())
    }

    /// What is kept of `name` and this record type, and how long it still holds (not at all: zero). Being looked at is no
    /// use.
    pub fn peek(&self, now: Instant, name: &str, record: RecordType) -> Option<(&Kept, Duration)> {
        self.names.get(name)?.entries[record as usize].as_ref().map(|e| (&e.kept, e.expires - now))
    }

    /// Whether what is kept of `name` and this record type holds, but not for more than `1 / part` of its lifetime.
    pub fn ends_soon(&self, now: Instant, name: &str, record: RecordType, part: u32) -> bool {
        let entry = self.names.get(name).and_then(|known| known.entries[record as usize].as_ref());
        entry.is_some_and(|e| now < e.expires && (e.expires - now) * part <= e.holds)
    }

    /// The addresses that `name` had in `record` until no more than `age` ago. What was never to be kept is not among them.
    pub fn stale(&self, now: Instant, name: &str, record: RecordType, age: Duration) -> Vec<IpAddr> {
        let entry = self.names.get(name).and_then(|known| known.entries[record as usize].as_ref());
        let stale = entry.filter(|e| !e.holds.is_zero() && now >= e.expires && now - e.expires <= age);
        match stale.map(|e| &e.kept) {
            Some(Kept::Addresses(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    /// Keeps an answer whose TTL is `ttl`, as long as `lifetime` says.
    pub fn put(
        &mut self,
        now: Instant,
        name: &Arc<str>,
        record: impl Into<RecordType>,
        kept: Kept,
        ttl: Duration,
        lifetime: Lifetime,
    ) {
        if !self.names.contains_key(name) && self.names.len() >= MAX_NAMES {
            let oldest = self.names.iter().min_by_key(|(n, k)| (k.used, Arc::clone(n))).map(|(n, _)| Arc::clone(n));
            if let Some(oldest) = oldest {
                self.names.remove(&oldest);
            }
        }
        let holds = match lifetime {
            Lifetime::Ttl => ttl,
            Lifetime::Fixed(d) => d,
            Lifetime::Off => Duration::ZERO,
        };
        let holds = if kept == Kept::NxDomain { holds.min(NO_SUCH_NAME) } else { holds };
        let expires = now + holds;
        let known = self.names.entry(Arc::clone(name)).or_default();
        known.used = now;
        known.entries[record.into() as usize] = Some(Cached { kept, holds, expires, source: None });
    }

    /// What is kept of `name` and this record type came from there.
    pub fn came_from(&mut self, name: &str, record: RecordType, source: Source) {
        if let Some(entry) = self.names.get_mut(name).and_then(|known| known.entries[record as usize].as_mut()) {
            entry.source = Some(source);
        }
    }

    /// Where that came from, if it is known.
    pub fn source(&self, name: &str, record: RecordType) -> Option<Source> {
        self.names.get(name)?.entries[record as usize].as_ref()?.source
    }

    /// Keeps nothing of `name` and this record type any more.
    pub fn drop(&mut self, name: &str, record: RecordType) {
        if let Some(known) = self.names.get_mut(name) {
            known.entries[record as usize] = None;
        }
    }

    /// When an answer was last asked for or kept.
    pub fn used(&self) -> Instant {
        self.names.values().map(|known| known.used).max().unwrap_or_default()
    }

    /// Every address that `name` last had, expired or not, IPv6 first.
    pub fn remembered(&self, name: &str) -> Vec<IpAddr> {
        let Some(known) = self.names.get(name) else { return Vec::new() };
        Family::BOTH.into_iter().flat_map(|f| known.addresses(f)).collect()
    }

    /// The name through which this program last came by `addr`.
    pub fn name_of(&self, addr: IpAddr) -> Option<Arc<str>> {
        self.names
            .iter()
            .filter(|(_, k)| k.addresses(Family::of(addr)).contains(&addr))
            .max_by_key(|(n, k)| (k.used, Arc::clone(n)))
            .map(|(n, _)| Arc::clone(n))
    }

    /// Lets every answer expire now; what is remembered for races stays.
    pub(super) fn expire(&mut self) {
        for known in self.names.values_mut() {
            known.entries.iter_mut().flatten().for_each(|e| e.expires = Instant::ZERO);
        }
    }

    /// Forgets `name`; the addresses that it had.
    pub fn forget(&mut self, name: &str) -> Vec<IpAddr> {
        let addresses = self.remembered(name);
        self.names.remove(name);
        addresses
    }

    /// Forgets every answer, as on a change of network.
    pub fn clear(&mut self) {
        self.names.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    fn v4(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }
    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }
    fn filled(lifetime: Lifetime) -> Cache {
        let mut c = Cache::default();
        c.put(at(0), &"a.example".into(), Family::V4, Kept::Addresses(vec![v4(1)]), 60 * SECOND, lifetime);
        c
    }

    #[test]
    fn lifetimes_are_read_or_explained() {
        assert_eq!(Lifetime::parse("3600s"), Ok(Lifetime::Fixed(Duration::from_secs(3600))));
        assert_eq!((Lifetime::parse("ttl"), Lifetime::parse("off")), (Ok(Lifetime::Ttl), Ok(Lifetime::Off)));
        assert!(Lifetime::parse("soon").unwrap_err().contains("3600s"));
    }

    #[test]
    fn an_answer_holds_for_its_ttl_and_not_a_moment_longer() {
        let mut c = filled(Lifetime::Ttl);
        assert!(c.get(at(59), "a.example", Family::V4).is_some());
        assert!(c.get(at(60), "a.example", Family::V4).is_none());
        assert!(c.get(at(1), "a.example", Family::V6).is_none(), "one family says nothing of the other");
    }

    #[test]
    fn the_papers_lifetime_overrules_the_ttl() {
        let mut c = filled(Lifetime::Fixed(3600 * SECOND));
        assert!(c.get(at(3599), "a.example", Family::V4).is_some());
        assert!(c.get(at(3600), "a.example", Family::V4).is_none());
    }

    #[test]
    fn a_name_that_does_not_exist_is_asked_for_again_soon() {
        for lifetime in [Lifetime::Ttl, Lifetime::Fixed(3600 * SECOND)] {
            let mut c = Cache::default();
            c.put(at(0), &"soon.example".into(), Family::V4, Kept::NxDomain, 300 * SECOND, lifetime);
            assert_eq!(c.get(at(0), "soon.example", Family::V4), Some(Kept::NxDomain));
            assert_eq!(c.get(at(1), "soon.example", Family::V4), None);
        }
    }

    #[test]
    fn an_expired_answer_is_still_remembered_for_races() {
        let mut c = filled(Lifetime::Off);
        assert!(c.get(at(0), "a.example", Family::V4).is_none());
        assert_eq!(c.remembered("a.example"), [v4(1)]);
        assert_eq!(c.name_of(v4(1)).as_deref(), Some("a.example"));
        assert_eq!(c.name_of(v4(2)), None);
    }

    #[test]
    fn an_answer_ends_soon_in_its_last_tenth_and_is_stale_for_as_long_as_is_asked() {
        let c = filled(Lifetime::Ttl);
        let soon = |s| c.ends_soon(at(s), "a.example", RecordType::A, 10);
        assert!(!soon(53) && soon(54) && soon(59) && !soon(60));
        let stale = |s| c.stale(at(s), "a.example", RecordType::A, 100 * SECOND);
        assert_eq!((stale(59), stale(60), stale(160), stale(161)), (vec![], vec![v4(1)], vec![v4(1)], vec![]));
        let never_kept = filled(Lifetime::Off);
        assert!(never_kept.stale(at(0), "a.example", RecordType::A, SECOND).is_empty());
    }

    #[test]
    fn the_name_unused_for_longest_makes_room() {
        let mut c = Cache::default();
        for n in 0..=MAX_NAMES as u64 {
            c.put(at(n), &format!("{n}.example").into(), Family::V4, Kept::NoData, SECOND, Lifetime::Ttl);
        }
        assert_eq!(c.names.len(), MAX_NAMES);
        assert!(!c.names.contains_key("0.example") && c.names.contains_key("1.example"));
    }
}
