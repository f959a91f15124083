//! First transfers: 1 MB from a server that has just joined to a client that the fleet knows.

use super::{ALONE, Context, Measured, OWN, PRIOR};
use crate::experiment::in_ms;
use crate::sim::quic::{Path, Stage, Times, transport};
use crate::stats::Statistic;
use anyhow::Context as _;
use headstart_core::cwnd::history::{Key, Prior, Record};
use headstart_core::cwnd::start;
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use headstart_quic::{CarefulResume, Clock, Options, Store};
use std::sync::Arc;

const RULE: &str = "careful-resume";
const BYTES: u64 = 1_000_000;
/// Transfers of the veteran.
const BEFORE: u32 = 4;
/// A transfer that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(300);
/// How long after the veteran's last transfer the newcomer begins.
const LATER: Duration = Duration::from_secs(60);
/// Secrets of the veteran's and the newcomer's names.
const SECRETS: [[u8; 16]; 2] = [[1; 16], [2; 16]];

/// A condition: what has become of the path when the newcomer comes.
pub struct Case {
    name: &'static str,
    what: &'static str,
    then: fn(Path) -> Path,
}

const ALL: [Case; 4] = [
    Case { name: "transfer", what: "the path has not changed", then: |path| path },
    Case {
        name: "wrong-slower-5",
        what: "the path has become slower: a fifth of its rate",
        then: |path| Path { rate: path.rate / 5, ..path },
    },
    Case {
        name: "wrong-slower-20",
        what: "the path has become slower: a twentieth of its rate",
        then: |path| Path { rate: path.rate / 20, ..path },
    },
    Case {
        name: "wrong-rtt",
        what: "the path has changed: a third of its round trip",
        then: |path| Path { rtt: path.rtt / 3, ..path },
    },
];

/// The case of `name`.
pub fn find(name: &str) -> anyhow::Result<Case> {
    ALL.into_iter().find(|case| case.name == name).with_context(|| format!("no case of {name}"))
}

impl Case {
    /// What it is, in words.
    pub fn about(&self) -> String {
        format!("1 MB over QUIC from a server that has not seen the client; {}.", self.what)
    }
}

/// Plays `case`: time and drops of each first transfer.
pub fn play(case: &Case, cx: &Context) -> anyhow::Result<Vec<Measured>> {
    let trials = if cx.quick { 3 } else { 50 };
    let names = [ALONE, PRIOR, OWN];
    let mut times = names.map(|name| (name, Vec::new()));
    let mut drops = names.map(|name| (name, Vec::new()));
    for trial in 0..trials {
        let seed = cx.seed ^ (trial + 1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = fastrand::Rng::with_seed(seed);
        let rate = 1_000_000 * rng.u64(20..=200);
        let rtt = Duration::from_millis(rng.u64(20..=120));
        let path = Path::lossless(rate, rtt);
        for (n, seen) in trio(&path, &(case.then)(path), seed)?.into_iter().enumerate() {
            times[n].1.push(seen.0);
            drops[n].1.push(Some(seen.1));
        }
    }
    Ok(vec![
        Measured {
            metric: "first 1 MB",
            unit: "ms",
            statistics: &[Statistic::Median, Statistic::Mean],
            arms: times.to_vec(),
        },
        Measured { metric: "drops", unit: "packets", statistics: &[Statistic::Mean], arms: drops.to_vec() },
    ])
}

/// Time and drops of the first transfer alone, with the prior, and with the same as own history.
fn trio(path: &Path, then: &Path, seed: u64) -> anyhow::Result<[(Option<f64>, f64); 3]> {
    let origin = headstart_io::clock::Clock::new().origin();
    let times = Times::new(origin);
    let veteran = memory(origin, SECRETS[0])?;
    let mut stage = Stage::new(path, &veteran, times, Instant::from_millis(1000), 0, seed)?;
    for _ in 0..BEFORE {
        stage.fetch(BYTES, LIMIT)?;
        stage.run_until(stage.now() + Duration::from_millis(500));
    }
    let records: Vec<(Key, Option<Key>, Record)> =
        veteran.with(|history| history.records().map(|(key, of, record)| (key, of, *record)).collect());
    let began = stage.now() + LATER;
    let first = |memory: &CarefulResume| -> anyhow::Result<(Option<f64>, f64)> {
        let mut stage = Stage::new(then, memory, times, began, 0, seed ^ 0x5eed)?;
        let took = stage.fetch(BYTES, LIMIT)?.took.map(in_ms);
        Ok((took, stage.bottleneck().packets_dropped as f64))
    };
    let alone = memory(origin, SECRETS[1])?;
    let newcomer = memory(origin, SECRETS[1])?;
    let prior = Prior::new(SECRETS[0], records.iter().map(|(key, _, record)| (*key, *record)));
    newcomer.with(|history| history.set_priors(vec![prior]));
    let own = memory(origin, SECRETS[0])?;
    own.with(|history| records.into_iter().for_each(|(key, of, record)| history.import(key, of, record)));
    Ok([first(&alone)?, first(&newcomer)?, first(&own)?])
}

fn memory(origin: std::time::Instant, secret: [u8; 16]) -> anyhow::Result<CarefulResume> {
    let rule = start::find(RULE).with_context(|| format!("the start rule {RULE}"))?;
    let options = Options { rule, network: NetworkId(1), transport: Arc::new(transport), ..Options::default() };
    Ok(CarefulResume::with_options(Store::new(Clock::new(origin, Duration::ZERO), secret), options))
}
