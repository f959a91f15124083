//! `window-satellite`: 50 Mbit/s and 600 ms, where slow start takes seconds: the case that RFC 9959 was written for.
//!
//! A transfer of 1 MB cannot show what such a path carries (3.75 MB a round trip): a server that has only seen those remembers
//! less than half a megabyte of it. So there are three conditions: `satellite`, whose history is of transfers like the
//! one that counts, `satellite-known`, whose history is of 10 MB, and `satellite-small`, where 5 MB follow transfers of 1 MB
//! (docs/decisions/0118).

use super::rows::{self, Metric};
use super::trial::Cell;
use super::{CAREFUL, METHOD, WIRELESS, play_all};
use crate::experiment::target::Target;
use crate::experiment::{Context, Entry, Outcome, Speeds};
use crate::sim::quic::Path;
use headstart_core::time::Duration;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "window-satellite",
    shows: "Over a geostationary satellite, careful resume sends 1 MB in less than half the time",
    claims: &[],
    conditions: &["satellite", "satellite-small", "satellite-known"],
    speeds: Speeds::Both,
    run,
};

const MB: u64 = 1_000_000;

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let path = Path::lossless(50 * MB, Duration::from_millis(600));
    let cell = |condition, bytes, history| Cell { history, ..Cell::new(condition, path, bytes) };
    outcome.notes.push(BOUND.to_owned());
    let trials = |_: &Cell| if cx.quick { 1 } else { 50 };
    let cells = [
        cell("satellite", MB, MB),
        cell("satellite-small", 5 * MB, MB),
        cell("satellite", 10 * MB, 10 * MB),
        cell("satellite-known", MB, 10 * MB),
    ];
    play_all(cx, &mut outcome, &cells, trials, |outcome, cell, arms| {
        rows::add(outcome, cell, arms, &[Metric::Time, Metric::Drops], |row, _| Ok(row))?;
        if cell.bytes == MB {
            for arm in [CAREFUL, WIRELESS] {
                rows::target(outcome, cell, arms, arm, Metric::Time, Target::AtMost(0.48));
            }
        }
        Ok(())
    })?;
    Ok(outcome)
}

const BOUND: &str = "`satellite` cannot reach the target: RFC 9959 lets a connection jump to half of what an earlier one carried \
                     in a round trip. Transfers of 1 MB carry at most half of it in one (12 kB, then J, 2 J and the rest, for any \
                     J), so the next one's J is a quarter megabyte and it takes five round trips plus the transmission time, 0.63 \
                     of the default's time. `satellite-known` shows what the same rule does once a larger transfer has shown the \
                     path; that is the RFC's own example (-62 %).";
