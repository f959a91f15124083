//! The forwarder of the engine, and those with the flaws of paper 3's tools: P3.1, P3.2 and P3.4 to P3.6 in virtual time.

use super::rows::beside;
use crate::experiment::measure::gaps::{INTERVAL, LATE_MS, LINK, MESSAGE, VOICE};
use crate::experiment::measure::latency::{REQUEST, SPEEDCHECK, SPEEDTEST};
use crate::experiment::{Context, Outcome, Row, Series, in_ms};
use crate::sim::Tunnel;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::forward::profile::{self, Entry};
use headstart_core::time::Duration;

/// The conditions.
pub const LATENCY: &str = "forwarder-latency";
pub const GAPS: &str = "forwarder-gaps";
/// The arm without a forwarder, by the name that claims have for it.
const BARE: &str = "no-tun";
/// A program rests for up to this before it connects: longer than any forwarder sleeps.
const REST: Duration = Duration::from_millis(200);

/// No forwarder, and that of each profile.
fn arms() -> impl Iterator<Item = (&'static str, Option<&'static Entry>)> {
    [(BARE, None)].into_iter().chain(profile::ALL.iter().map(|entry| (entry.name, Some(*entry))))
}

/// Adds rows, samples and conditions.
pub fn add(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let times = if cx.quick { 40 } else { 400 };
    if cx.wants(LATENCY) {
        let about = "Connecting over 45 ms, and requests of 64 bytes over a connection of 17 ms: the links of `measure-latency`.";
        outcome.condition(LATENCY, about);
        let connect = each(cx, |profile, seed| connects(profile, seed, times))?;
        compare(outcome, (LATENCY, "connect time", Statistic::Median), &connect, Some("P3.2"))?;
        let asked = each(cx, |profile, seed| requests(profile, seed, times))?;
        compare(outcome, (LATENCY, "request-response latency", Statistic::Median), &asked, Some("P3.1"))?;
    }
    if cx.wants(GAPS) {
        let about = "A message each 20 ms: a call out over UDP, and 1300 bytes over TCP with TCP_NODELAY, out and in: the link of `measure-gaps`.";
        outcome.condition(GAPS, about);
        let call = each(cx, |profile, seed| out(profile, seed, times, true))?;
        compare(outcome, (GAPS, "gap of a call's packets", Statistic::Quantile(0.95)), &call, Some("P3.4"))?;
        for (what, all) in [
            ("out", each(cx, |profile, seed| out(profile, seed, times, false))?),
            ("in", each(cx, |profile, seed| incoming(profile, seed, times))?),
        ] {
            let late = |values: &[f64]| {
                100.0 * values.iter().filter(|gap| **gap > LATE_MS).count() as f64 / values.len().max(1) as f64
            };
            for (arm, values) in &all {
                outcome.rows.push(Row::measured(GAPS, &format!("packets late, {what}"), "%", arm, late(values)));
            }
        }
        for (arm, profile) in arms() {
            let mut tunnel = Tunnel::new(LINK, profile, cx.seed)?;
            tunnel.connect(REST).context("no connection")?;
            outcome.rows.push(Row::measured(GAPS, "largest TCP packet", "bytes", arm, tunnel.longest_packet() as f64));
        }
    }
    Ok(())
}

type Of = (&'static str, Vec<f64>);

fn each(cx: &Context, of: impl Fn(Option<&'static Entry>, u64) -> anyhow::Result<Vec<f64>>) -> anyhow::Result<Vec<Of>> {
    arms().map(|(arm, profile)| Ok((arm, of(profile, cx.seed)?))).collect()
}

fn compare(
    outcome: &mut Outcome,
    (condition, metric, statistic): (&str, &str, Statistic),
    all: &[Of],
    claim: Option<&str>,
) -> anyhow::Result<()> {
    let series: Vec<Series> =
        all.iter().map(|(arm, values)| Series::new(condition, metric, "ms", arm, values.iter().copied())).collect();
    for ours in &series[1..] {
        let row = Row::compare(ours, &series[0], statistic, Pairing::Unpaired, outcome.seed)?;
        match claim {
            Some(claim) => beside(outcome, row, (claim, &ours.arm))?,
            None => outcome.rows.push(row),
        }
    }
    outcome.samples.extend(series);
    Ok(())
}

fn connects(profile: Option<&'static Entry>, seed: u64, times: u32) -> anyhow::Result<Vec<f64>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let one = |_| {
        let took = Tunnel::new(SPEEDCHECK, profile, seed)?.connect(REST.mul_f64(rng.f64()));
        Ok(in_ms(took.context("no connection")?))
    };
    (0..times).map(one).collect()
}

fn requests(profile: Option<&'static Entry>, seed: u64, times: u32) -> anyhow::Result<Vec<f64>> {
    let mut tunnel = Tunnel::new(SPEEDTEST, profile, seed)?;
    tunnel.connect(REST).context("no connection")?;
    (0..times).map(|_| Ok(in_ms(tunnel.ask(REQUEST).context("no answer")?))).collect()
}

fn out(profile: Option<&'static Entry>, seed: u64, times: u32, over_udp: bool) -> anyhow::Result<Vec<f64>> {
    let mut tunnel = Tunnel::new(LINK, profile, seed)?;
    tunnel.connect(REST).context("no connection")?;
    let len = if over_udp { VOICE } else { MESSAGE };
    Ok(tunnel.stream(times, len, INTERVAL, over_udp).into_iter().map(in_ms).collect())
}

fn incoming(profile: Option<&'static Entry>, seed: u64, times: u32) -> anyhow::Result<Vec<f64>> {
    let mut tunnel = Tunnel::new(LINK, profile, seed)?;
    tunnel.connect(REST).context("no connection")?;
    Ok(tunnel.listen(times, MESSAGE, INTERVAL).into_iter().map(in_ms).collect())
}
