//! What a connect costs that is not handed over, under each front end: a TCP socket, blocking, to a listener on loopback,
//! timed inside the process that calls.

use super::FRONT_ENDS;
use crate::experiment::shim_cost::client::{Arm, Client};
use crate::experiment::target::Target;
use crate::experiment::{Context, Outcome, Row, Series};
use crate::netns::Network;
use crate::stats::{Pairing, Statistic, estimate};
use headstart_io::sys::call_cost::{Call, Request};
use std::path::Path;

/// The condition.
pub(super) const CONDITION: &str = "connect-cost";
/// 60 us at the median: what a connect may take that headstart only lets pass.
const TARGET: Target = Target::AtMost(60.0);

const METRIC: &str = "connect without a hand-over";
const UNIT: &str = "us";
/// Turns of each arm, in a full and in a quick run.
const TURNS: (usize, usize) = (24, 8);
/// Calls of a turn.
const CALLS: usize = 200;
/// Calls before the first turn, which warm caches and are not counted.
const WARM_UP: usize = 20;

/// Measures all arms in turns, and reports.
pub(super) fn measure(cx: &Context, network: &Network, headstart: &Path, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut arms = vec![("bare", Client::start(network, headstart, Arm::Bare, &[])?, Vec::new())];
    for front_end in FRONT_ENDS {
        let client = Client::start(network, headstart, Arm::Headstart, &["--via", front_end])?;
        arms.push((front_end, client, Vec::new()));
    }
    let turns = if cx.quick { TURNS.1 } else { TURNS.0 };
    for turn in 0..=turns {
        cx.progress.step(turn as u64, turns as u64 + 1, CONDITION);
        let times = if turn == 0 { WARM_UP } else { CALLS };
        let request = Request { times, call: Call::ConnectTcp };
        // No arm is always the first.
        let first = turn % arms.len();
        let (late, early) = arms.split_at_mut(first);
        for (_, client, medians) in early.iter_mut().chain(late) {
            let taken = client.measure(&request)?;
            if turn > 0 {
                medians.push(Statistic::Median.of(&taken.call)?);
            }
        }
    }
    let mut all = Vec::new();
    for (arm, client, medians) in arms {
        client.finish()?;
        all.push(Series::new(CONDITION, METRIC, UNIT, arm, medians));
    }
    let (bare, ours) = all.split_first().expect("the bare arm is always there");
    for series in ours {
        outcome.rows.push(Row::compare(series, bare, Statistic::Median, Pairing::Paired, cx.seed)?);
        let whole = estimate(&series.present(), Statistic::Median, cx.seed)?;
        outcome.notes.push(TARGET.note(&format!("{METRIC}, {}, median", series.arm), whole.value, UNIT));
    }
    outcome.samples.extend(all);
    outcome.method.push(format!(
        "{CONDITION}: clients that call libc's functions, one bare and one under each front end, take turns: {turns} turns each \
         of {CALLS} blocking connects to a listener on loopback, an address that headstart did not look up, timed inside the \
         client. A value is the median of a turn."
    ));
    Ok(())
}
