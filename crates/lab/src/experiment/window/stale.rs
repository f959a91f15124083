//! `window-stale`: the memory is wrong. The path has become slower, its round trip another, or it is another network.

use super::rows::{self, Metric};
use super::trial::Cell;
use super::{CAREFUL, METHOD, WIRELESS, play_all};
use crate::experiment::target::Target;
use crate::experiment::{Context, Entry, Outcome, Speeds};
use crate::sim::quic::Path;
use headstart_core::time::Duration;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "window-stale",
    shows: "The cost of a wrong history: a slower path, another round-trip time, another network",
    claims: &[],
    conditions: NAMES,
    speeds: Speeds::Both,
    run,
};

const NAMES: &[&str] = &["slower-20", "slower-10", "slower-5", "rtt-changed", "other-network"];
const MB: u64 = 1_000_000;

fn cells() -> Vec<Cell> {
    let path = |mbit: u64, rtt_ms| Path::lossless(mbit * MB, Duration::from_millis(rtt_ms));
    let cell = |condition, then, moved| Cell { then: Some(then), moved, ..Cell::new(condition, path(100, 38), MB) };
    vec![
        cell("slower-20", path(20, 38), false),
        cell("slower-10", path(10, 38), false),
        cell("slower-5", path(5, 38), false),
        cell("rtt-changed", path(100, 15), false),
        cell("other-network", path(10, 38), true),
    ]
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let trials = |_: &Cell| if cx.quick { 2 } else { 50 };
    play_all(cx, &mut outcome, &cells(), trials, |outcome, cell, arms| {
        rows::add(outcome, cell, arms, &[Metric::Time, Metric::Drops], |row, _| Ok(row))?;
        for arm in [CAREFUL, WIRELESS] {
            rows::target(outcome, cell, arms, arm, Metric::Time, Target::AtMost(1.03));
            rows::absolute(outcome, cell, arms, arm, Metric::Drops, Target::AtMost(250.0));
        }
        Ok(())
    })?;
    Ok(outcome)
}
