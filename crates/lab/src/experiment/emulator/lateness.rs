//! How late single packets come: on an idle machine, and beside two busy loops, with real-time priority and without.
//!
//! Datagrams one way, with pauses between them that no timer here divides. Two figures: the emulator's own, from the moment
//! a packet was due to the end of the call that sent it; and the receiving program's, which holds the waking of that
//! program too.

use super::judge;
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row, Series};
use crate::netns::{Network, Settings, default_world};
use crate::stats::Statistic;
use crate::world::World;
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

/// The condition in which nothing else runs here.
pub const IDLE: &str = "delay-idle";
/// The condition with two busy loops.
pub const BUSY: &str = "delay-busy";

const LINK: &str = "delay=15ms";
const DELAY: Duration = Duration::from_millis(15);
/// Between datagrams: sparse, and no divisor of a millisecond.
const GAP: Duration = Duration::from_micros(1530);
const PORT: u16 = 4000;
/// Far longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(5);

const P50_IDLE: Target = Target::AtMost(20.0);
const P99_IDLE: Target = Target::AtMost(150.0);
const P99_BUSY: Target = Target::AtMost(100.0);

/// With real-time priority, and with the ordinary one.
const ARMS: [(&str, bool); 2] = [("real-time", true), ("ordinary", false)];

/// Runs the conditions that `cx` wants.
pub fn run(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let count = if cx.quick { 400 } else { 4000 };
    for (condition, loops) in [(IDLE, 0), (BUSY, 2)] {
        if !cx.wants(condition) {
            continue;
        }
        let beside = if loops == 0 { "nothing else" } else { "two busy loops of this experiment" };
        let about = format!("{LINK}; {count} datagrams of 100 bytes one way, {GAP:?} apart, beside {beside}");
        outcome.condition(condition, about);
        for (arm, real_time) in ARMS {
            cx.progress.step(0, 1, &format!("datagrams beside {beside}, {arm}"));
            if !cx.goes_on(outcome) {
                return Ok(());
            }
            let world = World { seed: cx.seed, ..default_world(LINK) };
            let network = Network::build_with(&world, &Settings { real_time, ..Settings::default() })?;
            let stop = AtomicBool::new(false);
            let errors = std::thread::scope(|scope| {
                for _ in 0..loops {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                let errors = datagrams(&network, &world, count);
                stop.store(true, Ordering::Relaxed);
                errors
            })?;
            report(outcome, condition, (arm, real_time), &network, &errors)?;
        }
    }
    Ok(())
}

/// Sends and receives; by how much each came later than its delay, in us, as the receiver saw it.
fn datagrams(network: &Network, world: &World, count: usize) -> anyhow::Result<Vec<f64>> {
    let clock = network.clock();
    let site = world.sites.first().context("the lab's default world has no sites")?;
    let to = site.v6.first().context("the first site of the lab's default world is not dual-stack")?.addr;
    let server = network.on_servers(|| UdpSocket::bind((to, PORT)))?.context("a socket at the server")?;
    let client = network.on_client(|| UdpSocket::bind(("::", 0)))?.context("a socket at the client")?;
    server.set_read_timeout(Some(PATIENCE))?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut late = Vec::new();
            let mut bytes = [0; 200];
            while late.len() < count && server.recv(&mut bytes).is_ok() {
                let sent = Instant::from_nanos(bytes[..8].try_into().map_or(0, u64::from_be_bytes));
                let due = sent + DELAY;
                late.push((clock.now() - due).as_nanos() as f64 / 1e3);
            }
            late
        });
        let mut at = clock.now();
        for _ in 0..count {
            at += GAP;
            clock.sleep_until(at);
            let mut bytes = [0; 100];
            bytes[..8].copy_from_slice(&clock.now().as_nanos().to_be_bytes());
            client.send_to(&bytes, (to, PORT)).context("sending over an emulated link")?;
        }
        receiver.join().map_err(|_| anyhow::anyhow!("the receiver died"))
    })
}

fn report(
    outcome: &mut Outcome,
    condition: &str,
    (arm, real_time): (&str, bool),
    network: &Network,
    errors: &[f64],
) -> anyhow::Result<()> {
    let certificate = network.certificate();
    if real_time && !certificate.real_time_priority {
        outcome
            .notes
            .push(format!("{condition}: real-time priority is not permitted here, so that arm equals the other."));
    }
    let lateness = certificate.lateness;
    for (metric, value) in [
        ("lateness of packets, p50", lateness.p50_us),
        ("lateness of packets, p99", lateness.p99_us),
        ("lateness of packets, max", lateness.max_us),
    ] {
        outcome.rows.push(Row::measured(condition, metric, "us", arm, value));
    }
    let metric = "error of the delay, as the receiving program sees it";
    for statistic in [Statistic::Median, Statistic::Quantile(0.99)] {
        let value = statistic.of(errors)?;
        outcome.rows.push(Row::measured(condition, &format!("{metric}, {statistic}"), "us", arm, value));
    }
    outcome.samples.push(Series::new(condition, metric, "us", arm, errors.iter().copied()));
    let what = |what: &str| format!("{what}, {condition}, {arm}");
    let granted = real_time && certificate.real_time_priority;
    if condition == IDLE {
        if granted || !real_time {
            outcome.notes.push(P50_IDLE.note(&what("lateness of packets, p50"), lateness.p50_us, "us"));
            outcome.notes.push(P99_IDLE.note(&what("lateness of packets, p99"), lateness.p99_us, "us"));
        }
    } else if granted {
        outcome.notes.push(P99_BUSY.note(&what("lateness of packets, p99"), lateness.p99_us, "us"));
    } else {
        outcome.notes.push(format!(
            "{}: the emulator marked its own run as {}.",
            what("certificate"),
            if certificate.valid { "valid" } else { "not valid, as it should" }
        ));
    }
    // Whether the machine was idle is what the certificate is about. Nothing excuses a packet that left early.
    let counts = if condition == IDLE { real_time } else { granted };
    if counts || certificate.early > 0 {
        judge(outcome, &certificate, condition);
    }
    Ok(())
}
