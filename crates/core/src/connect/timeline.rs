//! What happened, for people who want to know why: the last race for each name, the latest ones before those, and the calls
//! that were left alone, by host. Written down as it happens, read by `explain` and by pages; nothing is decided by it.
//!
//! Memory is bounded: a number of names, of earlier races, of events a race and of addresses an event. What was written
//! down longest ago makes room.

use super::{Output, RequestId};
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use crate::wire::shim::Pass;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Names whose last race is remembered, and hosts whose calls are counted.
pub const MAX_HOSTS: usize = 1024;
/// Races that are remembered besides the last one of each name.
pub const MAX_EARLIER: usize = 1000;
/// Events of a race that are remembered; a race of two addresses has about fifteen.
pub const MAX_EVENTS: usize = 64;
/// Addresses of an event that are remembered.
pub const MAX_ADDRESSES: usize = 16;
/// Calls that wait for their answer, each of which is about an address.
const MAX_CALLS: usize = 4096;

/// Something that happened in a race.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "event", rename_all = "kebab-case"))]
pub enum Event {
    /// The program asked for the addresses of the name.
    Asked {
        /// The TCP port that it is going to connect to, as far as it said so.
        port: Option<u16>,
    },
    /// No program has asked yet: a connection is opened for one that is expected to.
    Ahead {
        /// The TCP port.
        port: u16,
    },
    /// What is known of the name was there already.
    FromCache {
        /// The type of the record: A, AAAA, HTTPS.
        record: Cow<'static, str>,
        /// Its addresses; empty if it has none.
        addresses: Vec<IpAddr>,
    },
    /// A query was sent.
    Query {
        /// The type of the record.
        record: Cow<'static, str>,
        /// How many servers, or the same one how often, had been asked before.
        before: u32,
    },
    /// Another race had sent the query already.
    QueryUnderWay {
        /// The type of the record.
        record: Cow<'static, str>,
    },
    /// A query was answered, or given up.
    Answer {
        /// The type of the record.
        record: Cow<'static, str>,
        /// What it said: `addresses`, `services`, `none`, `no such name`, `refused`, `not asked`, `no answer`.
        says: Cow<'static, str>,
        /// The addresses; of services, those that stand in for the name's own.
        addresses: Vec<IpAddr>,
    },
    /// The addresses were returned to the program, best first; or that none exist.
    #[cfg_attr(feature = "serde", serde(rename = "told"))]
    Returned {
        /// The addresses that it got.
        addresses: Vec<IpAddr>,
    },
    /// A connection attempt was begun.
    Attempt {
        /// Where to.
        to: IpAddr,
        /// Only to learn: no program waits for it.
        exploring: bool,
    },
    /// An attempt succeeded.
    Connected {
        /// Where to.
        to: IpAddr,
        /// Round-trip time of the handshake.
        rtt_ms: f64,
    },
    /// An attempt failed.
    Failed {
        /// Where to.
        to: IpAddr,
        /// Why.
        errno: i32,
    },
    /// The program asked for a connection.
    Wanted {
        /// Where to.
        to: IpAddr,
        /// It would not wait.
        nonblocking: bool,
    },
    /// A connection was given to the program: it has won.
    HandedOver {
        /// Where to.
        to: IpAddr,
        /// The handshake was complete; else it went on in the program's hands.
        connected: bool,
    },
    /// The program's connect failed: no connection could be opened.
    GivenUp {
        /// Why.
        errno: i32,
    },
    /// The program's call was left to itself.
    LeftAlone {
        /// Why.
        reason: Cow<'static, str>,
    },
    /// An attempt or a connection that no program needed was closed.
    Closed {
        /// Where to.
        to: IpAddr,
        /// The handshake was complete.
        connected: bool,
    },
}

/// The name of a record type, or of that of a family.
pub(super) fn record(of: impl Into<RecordType>) -> Cow<'static, str> {
    Cow::Borrowed(of.into().name())
}

/// As many of `addresses` as are written down.
pub(super) fn some(addresses: &[IpAddr]) -> Vec<IpAddr> {
    addresses.iter().take(MAX_ADDRESSES).copied().collect()
}

/// A duration in milliseconds, to the microsecond.
pub(super) fn ms(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e6).round() / 1e3
}

/// A race: one connection, or one lookup whose program opened none.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    pub app: Arc<str>,
    pub began: Instant,
    pub events: Vec<(Instant, Event)>,
    /// Events beyond [`MAX_EVENTS`].
    pub omitted: u32,
    /// The job that it is about.
    pub job: u64,
    /// How many changes of all races there had been with its last one.
    changed: u64,
}

#[derive(Clone, Debug, Default)]
struct Left {
    last: Instant,
    reasons: BTreeMap<Pass, u64>,
}

/// Races, and the calls that were left alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Timelines {
    /// The last race for each name.
    races: HashMap<Arc<str>, Timeline>,
    /// Races before those, by job: several connections to one name may be opened at the same time.
    earlier: BTreeMap<u64, (Arc<str>, Timeline)>,
    /// How often a race has begun or something has happened in one.
    changes: u64,
    left: HashMap<Arc<str>, Left>,
    /// The addresses that the calls under way are about.
    calls: HashMap<RequestId, IpAddr>,
}

impl Timelines {
    /// A race for `name` begins.
    pub fn begin(&mut self, now: Instant, job: u64, app: &Arc<str>, name: &Arc<str>) {
        make_room(&mut self.races, name, |race| race.began);
        self.changes += 1;
        let changed = self.changes;
        let race = Timeline { app: Arc::clone(app), began: now, events: Vec::new(), omitted: 0, job, changed };
        if let Some(before) = self.races.insert(Arc::clone(name), race) {
            self.earlier.insert(before.job, (Arc::clone(name), before));
            if self.earlier.len() > MAX_EARLIER {
                self.earlier.pop_first();
            }
        }
    }

    /// Writes down what happened to `job`, a race for `name`.
    pub fn note(&mut self, now: Instant, job: u64, name: &str, event: Event) {
        let last = self.races.get_mut(name).filter(|race| race.job == job);
        let Some(race) = last.or_else(|| self.earlier.get_mut(&job).map(|(_, race)| race)) else { return };
        self.changes += 1;
        race.changed = self.changes;
        if race.events.len() < MAX_EVENTS {
            race.events.push((now, event));
        } else {
            race.omitted = race.omitted.saturating_add(1);
        }
    }

    /// A call about `addr` begins.
    pub fn called(&mut self, request: RequestId, addr: IpAddr) {
        if self.calls.len() < MAX_CALLS {
            self.calls.insert(request, addr);
        }
    }

    /// A call was answered, or its caller has gone.
    pub fn forget(&mut self, request: RequestId) -> Option<IpAddr> {
        self.calls.remove(&request)
    }

    /// A call about `host` was left alone.
    pub fn left(&mut self, now: Instant, host: &str, reason: Pass) {
        let host: Arc<str> = host.into();
        make_room(&mut self.left, &host, |left| left.last);
        let left = self.left.entry(host).or_default();
        left.last = now;
        *left.reasons.entry(reason).or_default() += 1;
    }

    /// Takes in an output: a request that has an answer waits no more.
    pub fn note_output(&mut self, now: Instant, output: &Output) {
        match output {
            Output::HandOver { request, .. } | Output::Begin { request, .. } | Output::Fail(request, _) => {
                self.forget(*request);
            }
            Output::Pass(request, reason) => {
                if let Some(addr) = self.forget(*request) {
                    self.left(now, &addr.to_string(), *reason);
                }
            }
            _ => {}
        }
    }

    /// The last race for `name`.
    pub fn race(&self, name: &str) -> Option<&Timeline> {
        self.races.get(name)
    }

    /// How often a race has begun or something has happened in one.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The latest races, the last first, at most so many, and of these the ones that have changed `after` so many changes.
    pub fn latest(&self, most: usize, after: u64) -> Vec<(&str, &Timeline)> {
        let earlier = self.earlier.values().map(|(name, race)| (&**name, race));
        let mut all: Vec<_> = self.races.iter().map(|(name, race)| (&**name, race)).chain(earlier).collect();
        all.sort_unstable_by_key(|(_, race)| std::cmp::Reverse(race.job));
        all.truncate(most);
        all.retain(|(_, race)| race.changed > after);
        all
    }

    /// How often calls about `host` were left alone, and why.
    pub fn reasons(&self, host: &str) -> impl Iterator<Item = (Pass, u64)> {
        self.left.get(host).into_iter().flat_map(|left| left.reasons.iter().map(|(reason, n)| (*reason, *n)))
    }
}

/// Makes room for `key` in `map` by dropping what is oldest.
fn make_room<V>(map: &mut HashMap<Arc<str>, V>, key: &Arc<str>, age: impl Fn(&V) -> Instant) {
    if map.contains_key(key) || map.len() < MAX_HOSTS {
        return;
    }
    let older = |(a, x): &(&Arc<str>, &V), (b, y): &(&Arc<str>, &V)| age(x).cmp(&age(y)).then_with(|| a.cmp(b));
    let oldest = map.iter().min_by(older).map(|(name, _)| Arc::clone(name));
    if let Some(oldest) = oldest {
        map.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn names_events_and_hosts_are_bounded_and_the_oldest_go_first() {
        let mut all = Timelines::default();
        let name = |n: usize| -> Arc<str> { format!("{n}.example").into() };
        for n in 0..=MAX_HOSTS {
            all.begin(at(n as u64), n as u64, &"curl".into(), &name(n));
            all.left(at(n as u64), &name(n), Pass::LocalName);
        }
        assert!(all.race("0.example").is_none() && all.race("1.example").is_some());
        assert_eq!((all.reasons("0.example").count(), all.reasons("1.example").count()), (0, 1));
        for _ in 0..MAX_EVENTS + 3 {
            all.note(at(9999), 1, "1.example", Event::GivenUp { errno: 111 });
        }
        let race = all.race("1.example").unwrap();
        assert_eq!((race.events.len(), race.omitted), (MAX_EVENTS, 3));
    }

    #[test]
    fn what_an_earlier_race_still_does_is_not_written_into_the_last() {
        let mut all = Timelines::default();
        let name: Arc<str> = "www.example".into();
        all.begin(at(0), 1, &"curl".into(), &name);
        all.begin(at(5), 2, &"wget".into(), &name);
        all.note(at(6), 1, &name, Event::GivenUp { errno: 110 });
        all.note(at(7), 2, &name, Event::Asked { port: None });
        let race = all.race(&name).unwrap();
        assert_eq!((&*race.app, race.events.len()), ("wget", 1));
        let told: Vec<_> = all.latest(9, 0).iter().map(|(name, race)| (*name, race.job, race.events.len())).collect();
        assert_eq!(told, [("www.example", 2, 1), ("www.example", 1, 1)], "each is a race of its own");
    }

    #[test]
    fn a_thousand_races_of_one_name_are_told_and_later_only_what_has_changed() {
        let mut all = Timelines::default();
        let name: Arc<str> = "www.example".into();
        all.begin(at(0), 0, &"curl".into(), &"other.example".into());
        for job in 1..=MAX_EARLIER as u64 + 9 {
            all.begin(at(job), job, &"curl".into(), &name);
        }
        assert_eq!(all.latest(usize::MAX, 0).len(), MAX_EARLIER + 2, "the last of each name, and those before");
        assert!(all.race("other.example").is_some(), "a busy name takes no room from others");
        let (most, seen) = (all.latest(1000, 0), all.changes());
        assert_eq!((most.len(), most[0].1.job, most[999].1.job), (1000, 1009, 10));
        assert!(all.latest(1000, seen).is_empty());
        all.note(at(2000), 500, &name, Event::GivenUp { errno: 111 });
        all.note(at(2000), 8, &name, Event::GivenUp { errno: 111 });
        let changed: Vec<u64> = all.latest(1000, seen).iter().map(|(_, race)| race.job).collect();
        assert_eq!(changed, [500], "the other is none of the latest thousand");
    }

    #[test]
    fn a_call_is_counted_with_its_address_only_when_it_is_left_alone() {
        let mut all = Timelines::default();
        let addr = IpAddr::from([192, 0, 2, 1]);
        for n in 0..3 {
            all.called(RequestId(n), addr);
        }
        all.note_output(at(1), &Output::Fail(RequestId(0), 111));
        all.note_output(at(1), &Output::Pass(RequestId(1), Pass::UnknownAddress));
        all.forget(RequestId(2));
        assert_eq!(all.reasons("192.0.2.1").collect::<Vec<_>>(), [(Pass::UnknownAddress, 1)]);
        assert!(all.calls.is_empty());
    }
}
