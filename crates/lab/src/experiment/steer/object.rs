//! `steer-object`: one document of 110 KB, phase by phase (claim P5.3).

use super::network::BASE;
use super::play::{Cell, load, rounded};
use super::{FAST, FAT, METHOD, STATE};
use super::{real, rows};
use crate::experiment::{Claims, Context, Entry, Outcome, Series, Speeds, Steps};
use crate::page::{Host, Kind, Object, Page, Protocol, Start};
use headstart_core::steer::policy;
use headstart_core::time::Duration;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-object",
    shows: "The load time of one document by phase, over each channel and over both",
    claims: &["P5.3"],
    conditions: &["ideal-document", "tunnel-document"],
    speeds: Speeds::Both,
    run,
};

/// Table 2.
const DOCUMENT: u64 = 110_000;

/// A page of nothing but the document, at the end of the channels.
fn page() -> Page {
    let document = Object {
        host: 0,
        protocol: Protocol::Http1,
        kind: Kind::Doc,
        status: 200,
        request_bytes: 500,
        response_bytes: DOCUMENT,
        think: Duration::ZERO,
        urgency: 0,
        structure: Start::AtOnce,
        gate: Start::AtOnce,
    };
    let host = Host { name: "document".into(), leg: Duration::ZERO, own: true };
    Page { name: "document".into(), site: "document".into(), main: 0, hosts: vec![host], objects: vec![document] }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    outcome.how(
        "`until the request` is names, TCP and TLS; TLS is 1.3 here and takes a round trip less than in the paper's Table 2.",
    );
    if cx.speeds.in_virtual_time() {
        in_virtual_time(cx, &claims, &mut outcome)?;
    }
    if cx.speeds.in_namespaces() && outcome.valid {
        real::document::run(cx, page(), &mut outcome)?;
    }
    Ok(outcome)
}

fn in_virtual_time(cx: &Context, claims: &Claims, outcome: &mut Outcome) -> anyhow::Result<()> {
    let trials = if cx.quick { 2 } else { 10 };
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let mut steps = Steps::new(cx, wanted.len() * policy::ALL.len());
    for condition in wanted {
        let way = condition.split('-').next().unwrap_or_default();
        let cell = Cell { name: condition.to_owned(), ..Cell::new(way, BASE) };
        let mut all: Vec<[Series; 3]> = Vec::new();
        for entry in policy::ALL {
            if !steps.next(outcome, &format!("{condition}, {}", entry.name)) {
                return Ok(());
            }
            let mut values = [Vec::new(), Vec::new(), Vec::new()];
            for trial in 0..trials {
                let loaded = load(&page(), &cell, entry, cx.seed.wrapping_mul(7919).wrapping_add(trial))?;
                let timing = loaded.load.objects[0];
                for (to, time) in values.iter_mut().zip([timing.sent, timing.end - timing.sent, timing.end]) {
                    to.push((!loaded.failed()).then(|| rounded(time)));
                }
            }
            let names = ["until the request", "transfer", "document load time"];
            let mut values = values.into_iter();
            all.push(names.map(|metric| {
                Series::with_failures(condition, metric, "ms", entry.name, values.next().unwrap_or_default())
            }));
        }
        for baseline in [FAT, FAST] {
            let Some(base) = all.iter().find(|series| series[2].arm == baseline) else { continue };
            for arm in all.iter().filter(|series| series[2].arm != baseline) {
                for (ours, theirs) in arm.iter().zip(base) {
                    rows::compare(outcome, ours, theirs, |row| {
                        let total = row.metric.starts_with("document");
                        let judged = condition == "ideal-document" && row.arm == STATE && total;
                        Ok(if judged { row.serving(claims, "P5.3", "")? } else { row })
                    })?;
                }
            }
        }
        outcome.samples.extend(all.into_iter().flatten());
        let about =
            format!("{}; one document of 110 KB over HTTP/1.1 and TLS 1.3, its host at the channels' end.", BASE.about);
        outcome.condition(condition, about);
    }
    Ok(())
}
