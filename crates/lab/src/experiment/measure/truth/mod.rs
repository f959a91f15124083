//! `measure-truth`: whether what is said of programs' connections is so. An instrument: whose they are, beside what the programs
//! themselves say; how long round trips take and how fast data goes, beside an
//! independent capture.

mod capture;
mod handshakes;
mod owners;
mod rate;
mod rtt;

use super::arm::{self, EBPF, OURS, Stage};
use crate::experiment::{Context, Entry, Outcome, Speeds};
use crate::program::Folder;
use anyhow::Context as _;
pub use owners::{WORKLOAD as OWNERS, probe as owners_probe};
pub use rate::{WORKLOAD as RATE, probe as rate_probe};
pub use rtt::{WORKLOAD as RTT, probe as rtt_probe};
use serde_json::Value;
use std::path::Path;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "measure-truth",
    shows: "Connections, even short ones, are attributed to the right program; round trips and rates match an independent capture",
    claims: &[],
    conditions: &[
        "one-after-the-other",
        "threads",
        "short-lived",
        "short-lived-together",
        "round-trips",
        handshakes::CONDITION,
        "rates",
    ],
    speeds: Speeds::Namespaces,
    run,
};

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let folder = Folder::new().context("making a folder for the reports")?;
    let arms = arm::and_kernel(vec![OURS], &mut outcome);
    for arm in arms {
        owners::run(cx, &mut outcome, arm, &folder.path().join("flows"))?;
        let wants = |condition| cx.wants(condition) && !cx.progress.stop();
        if wants(rtt::CONDITION) {
            rtt::run(cx, &mut outcome, arm, folder.path())?;
        }
        if arm == EBPF && wants(handshakes::CONDITION) {
            handshakes::run(cx, &mut outcome, arm, folder.path())?;
        }
        if wants(rate::CONDITION) {
            rate::run(cx, &mut outcome, arm, folder.path())?;
        }
    }
    // Each arm has the same conditions, and is looked at in the same way.
    let mut known = std::collections::BTreeSet::new();
    outcome.conditions.retain(|condition| known.insert(condition.name.clone()));
    let mut known = std::collections::BTreeSet::new();
    outcome.method.retain(|method| known.insert(method.clone()));
    cx.goes_on(&mut outcome);
    Ok(outcome)
}

/// What a workload says under an arm of ours, and what that says of its connections, in the order in which they were asked for.
fn measured(stage: &Stage<'_>, arm: &str, file: &Path, words: &[String]) -> anyhow::Result<(Value, Vec<Value>)> {
    let said = stage.say_with(arm, &["--flows".as_ref(), file.as_os_str()], words)?;
    let text = std::fs::read_to_string(file).context("reading what was measured")?;
    let mut lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    lines.retain(|line| line["event"] == "connection");
    lines.sort_by(|one, other| at(one).total_cmp(&at(other)));
    Ok((said, lines))
}

fn at(line: &Value) -> f64 {
    line["at_ms"].as_f64().unwrap_or_default()
}
