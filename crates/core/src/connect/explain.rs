//! What is known of a host and what was done about it, for people: the connector's own account of itself. Read only.

use super::cache::Kept;
use super::timeline::{Event, Timeline, ms, record, some};
use super::{AppId, Connector};
use crate::path::{Family, Outcome};
use crate::time::{Duration, Instant};
use crate::timing::{Timings, What};
use crate::wire::record::RecordType;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The most programs whose answers are reported.
const MAX_PROGRAMS: usize = 16;

/// What is known of a host.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Explanation {
    /// The name or address that was asked about, as it is written down.
    pub host: String,
    /// The last race for it.
    pub race: Option<RaceReport>,
    /// The answers that programs got for it, and how long they still hold.
    pub cached: Vec<Cached>,
    /// The address families, as this network has them.
    pub families: Vec<FamilyReport>,
    /// Its addresses, as far as there have been attempts to connect to them.
    pub addresses: Vec<AddressReport>,
    /// Calls about it that were left alone, by reason.
    pub left_alone: BTreeMap<Cow<'static, str>, u64>,
    /// All calls that were left alone, by reason.
    pub left_alone_in_all: BTreeMap<Cow<'static, str>, u64>,
}

/// A race.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RaceReport {
    /// Its number: no other race of the same connector has it, and later ones have higher ones.
    pub number: u64,
    /// The name that it was for.
    pub name: String,
    /// The program that it was for.
    pub app: String,
    /// The registry's name of the race.
    pub race: String,
    /// How long ago it began.
    pub began_ago_ms: f64,
    /// What happened.
    pub events: Vec<EventReport>,
    /// Events beyond those.
    pub omitted: u32,
}

/// Something that happened in a race.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EventReport {
    /// How long after the race began.
    pub at_ms: f64,
    /// What.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub event: Event,
}

/// What is kept of a name.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cached {
    /// For which program.
    pub app: String,
    /// The name.
    pub name: String,
    /// The type of the record.
    pub record: Cow<'static, str>,
    /// The addresses; empty if there are none.
    pub addresses: Vec<IpAddr>,
    /// The name is known not to exist.
    pub no_such_name: bool,
    /// How long it holds; 0 if it holds no more and is only remembered.
    pub left_ms: f64,
}

/// What is known of an address family.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FamilyReport {
    /// IPv4 or IPv6.
    pub family: Cow<'static, str>,
    /// Whether there is a route.
    pub has_route: bool,
    /// For how long it is suspended after failures; 0 if it is not.
    pub suspended_ms: f64,
    /// Smoothed round-trip time of handshakes.
    pub rtt_ms: Option<f64>,
    /// Smoothed time from query to answer of its record type.
    pub lookup_ms: Option<f64>,
    /// Queries of its record type are being swallowed here: no program waits for an answer.
    pub unanswered: bool,
}

/// What is known of an address.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AddressReport {
    /// The address.
    pub address: IpAddr,
    /// Smoothed round-trip time of handshakes; a lower bound where none has been completed.
    pub rtt_ms: Option<f64>,
    /// A handshake has been completed.
    pub has_answered: bool,
    /// The last attempt failed, a short while ago.
    pub failing: bool,
    /// When it was last tried.
    pub tried_ago_ms: f64,
}

impl Connector {
    /// What is known of `host`, a name or an address; `None` if nothing is.
    pub fn explain(&mut self, now: Instant, host: &str) -> Option<Explanation> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let literal: Option<IpAddr> = host.parse().ok();
        // An address stands for the names that have it.
        let named = |cache: &super::cache::Cache| literal.and_then(|addr| cache.name_of(addr));
        let mut names: BTreeSet<String> = self.caches.values().filter_map(named).map(|n| n.to_string()).collect();
        names.insert(host.clone());
        let cached = self.cached(now, &names);
        let race = names.iter().filter_map(|name| Some((name, self.timelines.race(name)?)));
        let race = race.max_by_key(|(_, race)| race.began).map(|(name, race)| self.race_report(now, name, race));
        let mut addresses: BTreeSet<IpAddr> = cached.iter().flat_map(|c| c.addresses.iter().copied()).collect();
        addresses.extend(literal);
        let mut left_alone = BTreeMap::new();
        for host in addresses.iter().map(IpAddr::to_string).chain(literal.is_none().then(|| host.clone())) {
            for (reason, n) in self.timelines.reasons(&host) {
                *left_alone.entry(Cow::Borrowed(reason.describe())).or_default() += n;
            }
        }
        let addresses: Vec<_> = addresses.into_iter().filter_map(|addr| self.address(now, addr)).collect();
        if race.is_none() && cached.is_empty() && addresses.is_empty() && left_alone.is_empty() {
            return None;
        }
        let in_all = self.tally().passed.into_iter().map(|(reason, n)| (Cow::Borrowed(reason.describe()), n)).collect();
        let families = self.families(now);
        Some(Explanation { host, race, cached, families, addresses, left_alone, left_alone_in_all: in_all })
    }

    /// The latest races, the last first, at most so many; of these only the ones that have changed `after` so many
    /// [changes](Self::changes_of_races).
    pub fn races(&self, now: Instant, most: usize, after: u64) -> Vec<RaceReport> {
        self.timelines.latest(most, after).into_iter().map(|(name, race)| self.race_report(now, name, race)).collect()
    }

    /// How often a race has begun, or something has happened in one.
    pub fn changes_of_races(&self) -> u64 {
        self.timelines.changes()
    }

    /// The address families, as this network has them.
    pub fn families(&mut self, now: Instant) -> Vec<FamilyReport> {
        Family::BOTH.map(|family| self.family(now, family)).into()
    }

    /// How long programs waited, and how long handshakes took.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Counts how long the handshake of an attempt took; one that was never begun has no `outcome`.
    pub(super) fn time_handshake(&mut self, job: u64, to: IpAddr, took: Duration, outcome: Option<Outcome>) {
        let (took, word) = match outcome {
            Some(Outcome::Connected(rtt)) => (rtt, "ok"),
            Some(_) => (took, "failed"),
            None => return,
        };
        if let Some(job) = self.jobs.get(&job) {
            self.timings.note(What::Handshake, &job.app, Some(Family::of(to)), word, took);
        }
    }

    fn race_report(&self, now: Instant, name: &str, race: &Timeline) -> RaceReport {
        let events = race.events.iter().map(|(at, e)| EventReport { at_ms: ms(*at - race.began), event: e.clone() });
        RaceReport {
            number: race.job,
            name: name.to_owned(),
            app: race.app.to_string(),
            race: self.settings.race.name.to_owned(),
            began_ago_ms: ms(now - race.began),
            events: events.collect(),
            omitted: race.omitted,
        }
    }

    fn cached(&self, now: Instant, names: &BTreeSet<String>) -> Vec<Cached> {
        let mut apps: Vec<&AppId> = self.caches.keys().collect();
        apps.sort();
        let mut all = Vec::new();
        for (app, name) in apps.into_iter().flat_map(|app| names.iter().map(move |name| (app, name))) {
            for of in RecordType::ALL {
                let Some((kept, left)) = self.caches[app].peek(now, name, of) else { continue };
                all.push(Cached {
                    app: app.to_string(),
                    name: name.clone(),
                    record: record(of),
                    addresses: some(&kept.addresses()),
                    no_such_name: *kept == Kept::NxDomain,
                    left_ms: ms(left),
                });
            }
        }
        all.truncate(2 * MAX_PROGRAMS);
        all
    }

    fn family(&mut self, now: Instant, family: Family) -> FamilyReport {
        let history = self.path.current().family(family);
        FamilyReport {
            family: Cow::Borrowed(match family {
                Family::V4 => "IPv4",
                Family::V6 => "IPv6",
            }),
            has_route: history.has_route,
            suspended_ms: ms(history.suspended_for(now)),
            rtt_ms: history.rtt.map(|rtt| ms(rtt.smoothed)),
            lookup_ms: history.lookup.map(|took| ms(took.smoothed)),
            unanswered: history.is_unanswered(),
        }
    }

    fn address(&mut self, now: Instant, address: IpAddr) -> Option<AddressReport> {
        self.path.current().peer(address).map(|peer| AddressReport {
            address,
            rtt_ms: peer.rtt.map(|rtt| ms(rtt.smoothed)),
            has_answered: peer.has_answered,
            failing: peer.is_failing(now),
            tried_ago_ms: ms(now - peer.last_used),
        })
    }
}
