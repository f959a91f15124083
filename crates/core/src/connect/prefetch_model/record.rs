//! PrefetchModel as plain records and back (see [`memory`]). What a store gives back is not to be trusted: counts, shares and
//! lists are held to their bounds. Ours.
//!
//! What never happens here: a moment is written down.

use super::{Count, Follower, MAX_ASKED, MAX_FOLLOWERS, MAX_PORTS, Name, Port, Records};
use crate::connect::memory;
use crate::time::Duration;
use crate::wire::record::RecordType;
use std::sync::Arc;

/// Milliseconds, as records have them.
fn ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

pub(super) fn written((name, known): (&Arc<str>, &Name)) -> memory::Name {
    let port = |(port, p): (&u16, &Port)| memory::Port {
        port: *port,
        launches: p.launches,
        share: p.share,
        parallel: p.parallel,
        speaks_first: p.speaks_first,
        idle_ms: ms(p.idle),
        closes_ms: p.closes.map_or(0, |closes| ms(closes).max(1)),
        again_ms: p.again.map_or(0, |again| ms(again).max(1)),
    };
    let follower = |(name, f): (&Arc<str>, &Follower)| memory::Follower {
        name: name.to_string(),
        times: f.0[0].times,
        chances: f.0[0].chances,
        times_again: f.0[1].times,
        chances_again: f.0[1].chances,
    };
    memory::Name {
        name: name.to_string(),
        a: known.records.has(RecordType::A),
        aaaa: known.records.has(RecordType::Aaaa),
        https: known.records.has(RecordType::Https),
        launches: known.launches,
        share: known.share,
        after_ms: ms(known.after),
        spread_ms: ms(known.spread),
        misses: known.misses,
        ttl_s: known.ttl.map_or(0, |ttl| u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX)),
        asked: known.asked[0],
        asked_again: known.asked[1],
        followers: known.followers.iter().map(follower).collect(),
        ports: known.ports.iter().map(port).collect(),
    }
}

/// A share as it may be: what a store gives back is not to be trusted.
fn share(of: f32) -> f32 {
    if of.is_finite() { of.clamp(0.0, 1.0) } else { 0.0 }
}

pub(super) fn read(n: &memory::Name) -> Name {
    let millis = |n: u32| Duration::from_millis(n.into());
    let known = |n: u32| (n > 0).then(|| millis(n));
    let port = |p: &memory::Port| Port {
        launches: p.launches,
        share: share(p.share),
        parallel: if p.parallel.is_finite() { p.parallel.clamp(0.0, 100.0) } else { 0.0 },
        speaks_first: p.speaks_first,
        idle: millis(p.idle_ms),
        closes: known(p.closes_ms),
        again: known(p.again_ms),
    };
    let asked = [n.asked.min(MAX_ASKED), n.asked_again.min(MAX_ASKED)];
    let count = |times: u32, chances: u32| {
        let chances = chances.min(MAX_ASKED);
        Count { times: times.min(chances), chances }
    };
    let follower = |f: &memory::Follower| {
        // Records of earlier versions say how often, and not of how many.
        let is_old = f.chances == 0 && f.chances_again == 0;
        let chances = if is_old { asked[0] } else { f.chances };
        let counts = [count(f.times, chances), count(f.times_again, f.chances_again)];
        (f.name.as_str().into(), Follower(counts))
    };
    let mut records = Records::default();
    let of = [(n.a, RecordType::A), (n.aaaa, RecordType::Aaaa), (n.https, RecordType::Https)];
    of.into_iter().filter(|(asked, _)| *asked).for_each(|(_, record)| records.add(record));
    Name {
        records,
        share: share(n.share),
        after: millis(n.after_ms),
        spread: millis(n.spread_ms),
        ttl: (n.ttl_s > 0).then(|| Duration::from_secs(n.ttl_s.into())),
        ports: n.ports.iter().take(MAX_PORTS).map(|p| (p.port, port(p))).collect(),
        launches: n.launches,
        misses: n.misses,
        asked,
        followers: n.followers.iter().take(MAX_FOLLOWERS).map(follower).collect(),
    }
}
