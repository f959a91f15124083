//! `window-*`: what a transport gains by starting from what its path carried, and what that costs others (paper 2, RFC 9959).
//!
//! Real QUIC (quinn-proto) in virtual time over the link models: `sim::quic`. Each arm is a start rule of
//! `core::cwnd::start`; the connections before the one that is measured go over the same path by the same rule, so that each
//! arm lives with the memory that it makes.

pub mod dumbbell;
mod rows;
pub mod satellite;
pub mod simple;
pub mod stale;
mod trial;

use super::{Context, Outcome};
use trial::{Cell, Seen};

/// The baseline of every row.
const DEFAULT: &str = "default";
/// The paper's.
const AVERAGE: &str = "history-average";
const CAREFUL: &str = "careful-resume";
const WIRELESS: &str = "careful-wireless";

/// The start rules, the baseline first.
const ARMS: &[&str] = &[DEFAULT, AVERAGE, CAREFUL, WIRELESS];

/// What one arm came to in one cell, a trial each.
struct Arm {
    name: &'static str,
    trials: Vec<Seen>,
}

/// Plays a cell under every arm. Trials of all arms meet the same losses and the same background.
fn play(cell: &Cell, trials: u64, seed: u64) -> anyhow::Result<Vec<Arm>> {
    let arm = |name: &'static str| {
        let trials = (0..trials).map(|trial| {
            let seed = fastrand::Rng::with_seed(seed ^ (trial + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
            trial::play(cell, name, seed)
        });
        Ok(Arm { name, trials: trials.collect::<anyhow::Result<_>>()? })
    };
    ARMS.iter().map(|name| arm(name)).collect()
}

/// Plays all cells whose condition is wanted, and lets `tell` make rows of each.
fn play_all(
    cx: &Context,
    outcome: &mut Outcome,
    cells: &[Cell],
    trials: impl Fn(&Cell) -> u64,
    mut tell: impl FnMut(&mut Outcome, &Cell, &[Arm]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        cx.speeds.in_virtual_time(),
        "the window experiments have no reading in namespaces yet: leave --speed out, or give sim"
    );
    let wanted: Vec<&Cell> = cells.iter().filter(|cell| cx.wants(cell.condition)).collect();
    for (done, cell) in wanted.iter().enumerate() {
        if cx.progress.stop() {
            outcome.invalidate("it was stopped before the end");
            return Ok(());
        }
        cx.progress.step(done as u64, wanted.len() as u64, &format!("{}, {}", cell.condition, cell.what()));
        let arms = play(cell, trials(cell), cx.seed)?;
        tell(outcome, cell, &arms)?;
    }
    for cell in &wanted {
        if outcome.conditions.iter().all(|known| known.name != cell.condition) {
            let (name, about) = (cell.condition.to_owned(), cell.about());
            outcome.conditions.push(super::Condition { name, about });
        }
    }
    Ok(())
}

const METHOD: [&str; 3] = [
    "A client asks over a new connection (1-RTT handshake) and the server answers with 1 MB or 10 MB: quinn-proto 0.11 in \
     virtual time, a drop-tail queue of one bandwidth-delay product unless said otherwise, flow control in nobody's way. Time \
     runs from the client's first packet to the last byte.",
    "Before the transfer that counts, four others (two beside background flows; of the size that the condition names) go over the same path under the same \
     rule; what the server remembers of them is the history. All arms use the same controller (CUBIC, RFC 9438, with HyStart++, \
     RFC 9406), meet the same losses and the same background flows, and differ by the start rule alone.",
    "`history-average` is the paper's Algorithm 1 without a bound, as the paper ran it; outside of the lab it is bounded by 200 \
     packets. Drops are those of the bottleneck's queue, of everybody's packets.",
];

#[cfg(test)]
mod tests;
