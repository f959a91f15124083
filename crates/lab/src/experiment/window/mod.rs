//! `window-*`: what a transport gains by starting from what its path carried, and what that costs others (paper 2, RFC
//! 9959).
//!
//! Real QUIC (quinn-proto) in virtual time over the link models: `sim::quic`. Each arm is a start rule of
//! `core::cwnd::start`; the connections before the one that is measured go over the same path by the same rule, so that
//! each arm lives with the memory that it makes.

pub mod dumbbell;
mod kernel;
mod rows;
pub mod satellite;
pub mod simple;
pub mod stale;
pub mod tcp;
mod trial;

use super::{Context, Outcome, Steps, crew};
use headstart_core::time::Duration;
use trial::{Cell, Seen};

/// The baseline of every row.
const DEFAULT: &str = "default";
/// The paper's Algorithm 1 as printed: no bound.
const PAPER: &str = "history-unbounded";
/// The same as the product has it: at most 200 packets.
const AVERAGE: &str = "history-average";
const CAREFUL: &str = "careful-resume";
const WIRELESS: &str = "careful-wireless";

/// The start rules, the baseline first.
const ARMS: &[&str] = &[DEFAULT, PAPER, AVERAGE, CAREFUL, WIRELESS];

/// What one arm came to in one cell, a trial each.
struct Arm {
    name: &'static str,
    trials: Vec<Seen>,
}

/// The seed of a trial: arms of one trial meet the same losses and the same background.
fn seed_of(trial: u64, seed: u64) -> u64 {
    fastrand::Rng::with_seed(seed ^ (trial + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..)
}

/// Plays a cell under every arm in virtual time, on all processors: trials know nothing of each other.
fn play(cell: &Cell, trials: u64, seed: u64) -> anyhow::Result<Vec<Arm>> {
    let jobs = ARMS.iter().flat_map(|arm| (0..trials).map(move |trial| (*arm, trial)));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seen = crew::each(threads, jobs, |(arm, trial)| trial::play(cell, arm, seed_of(trial, seed)))?;
    let mut seen = seen.into_iter();
    Ok(ARMS.iter().map(|name| Arm { name, trials: seen.by_ref().take(trials as usize).collect() }).collect())
}

/// Plays a cell under every arm over the kernel, arms of a trial one right after the other. Call it inside (see
/// `netns::InnerCommand::enter`).
fn play_really(cx: &Context, cell: &Cell, trials: u64, outcome: &mut Outcome) -> anyhow::Result<Vec<Arm>> {
    let mut arms: Vec<Arm> = ARMS.iter().map(|name| Arm { name, trials: Vec::new() }).collect();
    for trial in 0..trials {
        for arm in &mut arms {
            if !cx.goes_on(outcome) {
                return Ok(arms);
            }
            let played = kernel::play(cell, arm.name, seed_of(trial, cx.seed))?;
            for doubt in played.doubts {
                outcome.invalidate(format!("{}, {}: {doubt}", cell.name(), arm.name));
            }
            arm.trials.push(played.seen);
        }
    }
    Ok(arms)
}

/// Whether a cell is played over the kernel in this run. What would take hours there is not: a transfer of 10 MB that loses
/// data at random. A quick run takes the first condition alone, and none by a satellite, unless it is told to.
fn wants_really(cx: &Context, cell: &Cell, first: &Cell) -> bool {
    let crawls = cell.path.data_loss > 0.02 || (cell.path.data_loss > 0.0 && cell.bytes > 1_000_000);
    let asked = cx.conditions.is_some() || !cx.speeds.in_virtual_time();
    let soon = cell.bytes == first.bytes && cell.condition == first.condition && cell.path.rtt < LONG;
    cx.speeds.in_namespaces()
        && cx.wants(cell.condition)
        && !crawls
        && !cell.bbr
        && (!cx.quick || soon || (asked && cell.bytes == first.bytes))
}

/// Plays all cells whose condition is wanted, and lets `tell` make rows of each.
fn play_all(
    cx: &Context,
    outcome: &mut Outcome,
    cells: &[Cell],
    trials: impl Fn(&Cell) -> u64,
    mut tell: impl FnMut(&mut Outcome, &Cell, &[Arm]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut wanted: Vec<Cell> = Vec::new();
    if cx.speeds.in_virtual_time() {
        wanted.extend(cells.iter().filter(|cell| cx.wants(cell.condition)));
    }
    if let Some(first) = cells.first() {
        let really = cells.iter().filter(|cell| wants_really(cx, cell, first));
        wanted.extend(really.map(|cell| Cell { real: true, ..*cell }));
    }
    if cx.speeds.in_namespaces() {
        outcome.method.push(KERNEL_METHOD.to_owned());
    }
    let mut steps = Steps::new(cx, wanted.len());
    for cell in &wanted {
        if !steps.next(outcome, &format!("{}, {}", cell.name(), cell.what())) {
            return Ok(());
        }
        let arms = if cell.real {
            let trials = if cx.quick { 1 } else { REAL_TRIALS };
            play_really(cx, cell, trials, outcome)?
        } else {
            play(cell, trials(cell), cx.seed)?
        };
        tell(outcome, cell, &arms)?;
    }
    for cell in &wanted {
        if outcome.conditions.iter().all(|known| known.name != cell.name()) {
            let (name, about) = (cell.name(), cell.about());
            outcome.condition(name, about);
        }
    }
    Ok(())
}

/// Round trips of which a quick run has no time for a history.
const LONG: Duration = Duration::from_millis(300);

/// Trials of a cell over the kernel, of which each takes seconds whatever the machine.
const REAL_TRIALS: u64 = 10;

const KERNEL_METHOD: &str = "Conditions that end in `-netns` run over the kernel: quinn's endpoints over real sockets in \
                             namespaces, the same link in the emulator, background flows of the kernel's TCP, each asked for \
                             CUBIC. 10 trials a cell (quick: 1), the arms of a trial one after the other, each in a network of \
                             its own. Targets are of virtual time.";

const METHOD: [&str; 3] = [
    "A client asks over a new connection (1-RTT handshake) and the server answers with 1 MB or 10 MB: quinn-proto 0.11 in \
     virtual time, a drop-tail queue of one bandwidth-delay product unless said otherwise, flow control never limits. Time \
     runs from the client's first packet to the last byte.",
    "Before the transfer that counts, four others (two beside background flows; of the size that the condition names) go over the \
     same path under the same rule; what the server learns from them is the history. All arms use the same controller (CUBIC, RFC \
     9438, with HyStart++, RFC 9406), meet the same losses and the same background flows, and differ by the start rule alone.",
    "`history-unbounded` is the paper's Algorithm 1 without a bound, as the paper ran it, and serves its claims. `history-average` \
     is the same rule within the bound of 200 packets that it has by default. Every arm is a rule as `headstart serve` has it. Drops are those of the bottleneck's queue, of all flows together.",
];

#[cfg(test)]
mod tests;
