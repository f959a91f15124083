//! What no host can know and the lab does: which family of each name is faster, by the world's own numbers.

use crate::world::{Change, Event, Fate, Host, Record, Reply, Site, When, World};
use headstart_core::connect::cache::Lifetime;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_link::{ParseError, parse_duplex};
use std::collections::HashMap;

/// The family of each name by which a program is connected sooner, lookup included unless answers are cached.
///
/// Expected times: the least delays of the access link, the delay of the record, the distance of the nearest host that
/// answers. A family that cannot be reached at all is never the faster one; where neither can, IPv6 is named.
pub fn faster(world: &World, lifetime: Lifetime) -> Result<HashMap<String, Family>, ParseError> {
    let link = parse_duplex(&world.link)?;
    let round_trip = link.up.least_delay() + link.down.least_delay();
    let lookups = if lifetime == Lifetime::Off { 1 } else { 0 };
    let absent = |family| world.timeline.contains(&Change { when: When::AtFirst, event: Event::Leaves(family) });
    let time = |family, record: &Record, hosts: &[Host]| -> Option<Duration> {
        if absent(family) {
            return None;
        }
        let lookup = match record.reply {
            Reply::Records => round_trip + record.delay,
            Reply::Truncated => (round_trip + record.delay) * 2 + round_trip,
            _ => return None,
        };
        let nearest = hosts.iter().filter(|h| h.fate == Fate::Answers).map(|h| h.extra_rtt).min()?;
        Some(lookup * lookups + round_trip + nearest)
    };
    let favourite = |site: &Site| match (time(Family::V4, &site.a, &site.v4), time(Family::V6, &site.aaaa, &site.v6)) {
        (Some(v4), Some(v6)) if v4 < v6 => Family::V4,
        (Some(_), None) => Family::V4,
        _ => Family::V6,
    };
    Ok(world.sites.iter().map(|s| (s.name.to_ascii_lowercase(), favourite(s))).collect())
}
