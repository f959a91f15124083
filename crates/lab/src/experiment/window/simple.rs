//! `window-simple`: one bottleneck without other traffic (claims P2.1, P2.2, P2.3, P2.5), with and without loss.
//!
//! The paper's loss ratios are given without a direction. Lost acknowledgements cost QUIC nothing; random loss of data
//! makes every loss-based controller crawl, whatever it starts with. So each way to read the loss is a condition and is
//! judged by itself; in `…-fitted` data are lost in runs, of the length under which the default takes as long as printed.

use super::rows::{self, Metric};
use super::trial::{self, Cell};
use super::{ARMS, AVERAGE, CAREFUL, DEFAULT, METHOD, PAPER, WIRELESS, play_all};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Speeds};
use crate::sim::quic::{Path, Stage, Times};
use headstart_core::time::{Duration, Instant};
use headstart_quic::CarefulResume;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "window-simple",
    shows: "A QUIC server that starts with the path's earlier window sends 1 MB in half the time, if no data is lost at random",
    claims: &["P2.1", "P2.2", "P2.3", "P2.5"],
    conditions: NAMES,
    speeds: Speeds::Both,
    run,
};

const NAMES: &[&str] = &[
    "good-no-loss",
    "average-no-loss",
    "bad-no-loss",
    "good-ack-loss",
    "average-ack-loss",
    "bad-ack-loss",
    "good-data-loss",
    "average-data-loss",
    "bad-data-loss",
    "good-fitted",
    "average-fitted",
    "bad-fitted",
    "wireless-0.1",
    "wireless-0.3",
    "wireless-1",
    EARLY,
];

/// 0-RTT with a validated token.
const EARLY: &str = "early-data";
const MB: u64 = 1_000_000;

/// The paper's networks (table 1): the case of the claim, the round trip in ms, the loss.
const NETWORKS: &[(&str, u64, f64)] = &[("good", 38, 0.01), ("average", 50, 0.02), ("bad", 188, 0.08)];

/// Packets that are lost in a row on average in `…-fitted`: so many that 10 MB over good take the default as long as the paper
/// prints (docs/decisions/0075).
const BURST: f64 = 8.0;

fn cells() -> Vec<Cell> {
    let in_runs = |condition: &'static str, rtt_ms, data_loss, burst, ack_loss, bytes| {
        let path = Path::lossless(100 * MB, Duration::from_millis(rtt_ms));
        Cell::new(condition, Path { data_loss, burst, ack_loss, ..path }, bytes)
    };
    let cell =
        |condition, rtt_ms, data_loss, ack_loss, bytes| in_runs(condition, rtt_ms, data_loss, 1.0, ack_loss, bytes);
    let mut all = Vec::new();
    for (kind, offset) in [("no-loss", 0), ("ack-loss", 3), ("data-loss", 6)] {
        for (k, (_, rtt, loss)) in NETWORKS.iter().enumerate() {
            let (data, ack) = match kind {
                "data-loss" => (*loss, 0.0),
                "ack-loss" => (0.0, *loss),
                _ => (0.0, 0.0),
            };
            all.extend([MB, 10 * MB].map(|bytes| cell(NAMES[offset + k], *rtt, data, ack, bytes)));
        }
    }
    for (k, (_, rtt, loss)) in NETWORKS.iter().enumerate() {
        all.extend([MB, 10 * MB].map(|bytes| in_runs(NAMES[9 + k], *rtt, *loss, BURST, 0.0, bytes)));
    }
    for (k, loss) in [0.001, 0.003, 0.01].into_iter().enumerate() {
        all.extend([MB, 10 * MB].map(|bytes| cell(NAMES[12 + k], 38, loss, 0.0, bytes)));
    }
    all
}

/// 10 MB over good, as fitted.
#[cfg(test)]
pub fn fitted() -> Cell {
    *cells().iter().find(|cell| cell.condition == "good-fitted" && cell.bytes > MB).expect("it is in the list")
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let seed = cx.seed;
    let trials = |cell: &Cell| match (cx.quick, cell.bytes > MB, cell.path.data_loss > 0.0) {
        (false, ..) => 50,
        (true, false, false) => 2,
        (true, false, true) => 4,
        (true, true, _) => 1,
    };
    play_all(cx, &mut outcome, &cells(), trials, |outcome, cell, arms| {
        let case = cell.condition.split('-').next().unwrap_or_default();
        let small = cell.bytes == MB;
        rows::add(outcome, cell, arms, &[Metric::Time, Metric::Drops, Metric::Lost], |row, metric| {
            let ours = row.arm == PAPER && case != "wireless";
            Ok(match metric {
                Metric::Time if ours && small && case != "bad" => row.serving(&claims, "P2.1", case)?,
                Metric::Time if ours && !small => row.serving(&claims, "P2.2", case)?,
                Metric::Lost if ours && small && case != "bad" => row.serving(&claims, "P2.5", "")?,
                _ => row,
            })
        })?;
        if let Some(arm) = arms.iter().find(|arm| arm.name == PAPER && matches!(case, "good" | "average")) {
            outcome.rows.extend(rows::spread(cell, arms, arm, &claims)?);
        }
        let aims: &[(&'static str, f64)] = match (cell.condition, small) {
            ("good-no-loss", true) => &[(PAPER, 0.52), (CAREFUL, 0.72)],
            ("average-no-loss", true) => &[(PAPER, 0.48), (CAREFUL, 0.72)],
            ("good-no-loss", false) => &[(PAPER, 0.87)],
            ("average-no-loss", false) => &[(PAPER, 0.82)],
            (name, _) if name.starts_with("wireless") => &[(WIRELESS, 1.05)],
            _ => &[],
        };
        for (arm, most) in aims {
            rows::target(outcome, cell, arms, arm, Metric::Time, Target::AtMost(*most));
        }
        let gain = |name| rows::means(cell, arms, name, Metric::Time).map(|(_, ratio)| 1.0 - ratio);
        if let (true, Some(ours), Some(careful)) =
            (!cell.real && cell.condition.ends_with("no-loss"), gain(WIRELESS), gain(CAREFUL))
            && careful > 0.0
        {
            let what =
                format!("{}, careful-wireless, {}: its gain to that of careful resume", cell.condition, cell.what());
            outcome.notes.push(Target::AtLeast(0.9).note(&what, ours / careful, "x"));
        }
        Ok(())
    })?;
    if cx.wants(EARLY) && cx.speeds.in_virtual_time() {
        early(&mut outcome, seed)?;
    }
    Ok(outcome)
}

/// 300 kB in each direction over 0-RTT connections with a validated token, at 38 ms, until the last byte is there.
fn early(outcome: &mut Outcome, seed: u64) -> anyhow::Result<()> {
    const LIMIT: Duration = Duration::from_secs(60);
    early_rows(outcome, seed, "latency of 300 kB by 0-RTT", 75.0, |stage, _, bytes| {
        Ok(stage.fetch_early(bytes, LIMIT)?.took)
    })?;
    early_rows(outcome, seed, "latency of 300 kB sent by 0-RTT", 60.0, |stage, memory, bytes| {
        stage.send_early(memory, bytes, LIMIT)
    })?;
    let about = "100 Mbit/s, 38 ms, no loss; what the client sends first is early data, its address validated by a token. Time runs to \
                 the last byte at the receiver."
        .to_owned();
    outcome.condition(EARLY, about);
    Ok(())
}

/// Rows of what `transfer` takes with each rule, at most `most` ms with those that remember. The sender has the memory.
fn early_rows(
    outcome: &mut Outcome,
    seed: u64,
    metric: &str,
    most: f64,
    transfer: impl Fn(&mut Stage, &CarefulResume, u64) -> anyhow::Result<Option<Duration>>,
) -> anyhow::Result<()> {
    let path = Path::lossless(100 * MB, Duration::from_millis(38));
    let mut baseline = None;
    for name in ARMS {
        let origin = headstart_io::clock::Clock::new().origin();
        let memory = trial::memory(name, origin)?;
        let mut stage = Stage::new(&path, &memory, Times::new(origin), Instant::from_millis(1000), 0, seed)?;
        for _ in 0..3 {
            transfer(&mut stage, &memory, MB)?;
        }
        let Some(took) = transfer(&mut stage, &memory, 300_000)? else { continue };
        let ms = took.as_secs_f64() * 1e3;
        let row = Row::measured(EARLY, metric, "ms", name, ms);
        match baseline {
            None if *name == DEFAULT => baseline = Some(ms),
            Some(base) => outcome.rows.push(row.beside(DEFAULT, base)),
            None => {}
        }
        if matches!(*name, PAPER | AVERAGE | CAREFUL) {
            outcome.notes.push(Target::AtMost(most).note(&format!("early-data, {name}, {metric}"), ms, "ms"));
        }
    }
    Ok(())
}
