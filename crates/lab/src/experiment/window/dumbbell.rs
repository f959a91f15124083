//! `window-dumbbell`: one bottleneck shared with 0 to 8 bulk TCP flows (claim P2.4), and the harm done to them.

use super::rows::{self, Metric};
use super::trial::Cell;
use super::{CAREFUL, METHOD, PAPER, WIRELESS, play_all};
use crate::experiment::target::Target;
use crate::experiment::{Claims, Context, Entry, Outcome, Speeds};
use crate::sim::quic::Path;
use headstart_core::time::Duration;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "window-dumbbell",
    shows: "The gain from a larger initial window beside bulk TCP flows, and what it costs them",
    claims: &["P2.4"],
    conditions: &NAMES,
    speeds: Speeds::Both,
    run,
};

/// Conditions: the round trip in ms, the queue in products of rate and round trip, and the background flows.
const CONDITIONS: [(&str, u64, f64, usize); 16] = [
    ("good-1", 38, 1.0, 1),
    ("average-1", 50, 1.0, 1),
    ("good-0", 38, 1.0, 0),
    ("good-2", 38, 1.0, 2),
    ("good-4", 38, 1.0, 4),
    ("good-8", 38, 1.0, 8),
    ("shallow-1", 38, 0.25, 1),
    ("shallow-4", 38, 0.25, 4),
    ("deep-1", 38, 2.0, 1),
    ("deep-4", 38, 2.0, 4),
    ("bbr-shallow-1", 38, 0.25, 1),
    ("bbr-shallow-4", 38, 0.25, 4),
    ("bbr-good-1", 38, 1.0, 1),
    ("bbr-good-4", 38, 1.0, 4),
    ("bbr-deep-1", 38, 2.0, 1),
    ("bbr-deep-4", 38, 2.0, 4),
];
const NAMES: [&str; CONDITIONS.len()] = {
    let (mut names, mut n) = ([""; CONDITIONS.len()], 0);
    while n < names.len() {
        names[n] = CONDITIONS[n].0;
        n += 1;
    }
    names
};
/// The conditions of a quick run.
const SOON: &[&str] = &["good-1", "average-1", "shallow-4"];
const MB: u64 = 1_000_000;

pub(super) fn cells() -> Vec<Cell> {
    let cell = |condition: &'static str, rtt_ms, queue, flows, bytes| {
        let path = Path { queue, ..Path::lossless(100 * MB, Duration::from_millis(rtt_ms)) };
        let horizon = Duration::from_secs(if bytes > MB { 8 } else { 2 });
        Cell { before: 2, flows, bbr: condition.starts_with("bbr"), horizon, ..Cell::new(condition, path, bytes) }
    };
    CONDITIONS
        .into_iter()
        .flat_map(|(c, rtt, queue, flows)| [MB, 10 * MB].map(|b| cell(c, rtt, queue, flows, b)))
        .collect()
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    outcome.how(
        "Harm is counted over 2 s (1 MB) or 8 s (10 MB) from the start of the transfer, equally long for each arm: all drops at \
         the bottleneck, goodput of the background flows. The flows are `sim::tcp` (CUBIC, or BBR version 1 where the condition \
         says so; SACK, RACK), started 1 to 2 s before. Longer transfers are counted only that far.",
    );
    // In a hurry the large transfers, which take most of the time, are left out, and so are conditions not asked for by name.
    let soon = |cell: &Cell| cell.bytes == MB && (cx.conditions.is_some() || SOON.contains(&cell.condition));
    let all: Vec<Cell> = cells().into_iter().filter(|cell| !cx.quick || soon(cell)).collect();
    let trials = |_: &Cell| if cx.quick { 1 } else { 50 };
    play_all(cx, &mut outcome, &all, trials, |outcome, cell, arms| {
        let size = if cell.bytes == MB { "1-mb" } else { "10-mb" };
        let case = cell.condition.strip_suffix("-1").map(|network| format!("{size}-{network}"));
        rows::add(outcome, cell, arms, &[Metric::Time, Metric::Drops, Metric::Background], |row, metric| {
            Ok(match (metric, &case) {
                (Metric::Time, Some(case)) if row.arm == PAPER && !cell.condition.starts_with(['s', 'd', 'b']) => {
                    row.serving(&claims, "P2.4", case)?
                }
                _ => row,
            })
        })?;
        if matches!(cell.flows, 1 | 4) {
            for arm in [CAREFUL, WIRELESS] {
                rows::target(outcome, cell, arms, arm, Metric::Drops, Target::AtMost(1.5));
                rows::target(outcome, cell, arms, arm, Metric::Background, Target::AtLeast(0.95));
            }
        }
        Ok(())
    })?;
    Ok(outcome)
}
