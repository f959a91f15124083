//! `headstart lab status`: how far a campaign is.

use crate::{exit, output};
use headstart_lab::campaign::{Extent, Glance, Task};
use std::path::PathBuf;

/// Failures that are printed.
const MOST_LINES: usize = 10;

/// Arguments of `headstart lab status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `headstart lab plan`.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Folders of results, or s3://BUCKET/PREFIX.
    #[arg(required = true, value_name = "DIR")]
    results: Vec<PathBuf>,
    #[command(flatten)]
    format: output::Format,
}

/// Prints how far it is; partly successful while something is missing.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = super::read(&args.plan)?;
    let folders = super::folders(&args.results, Extent::Records, &plan.tasks)?;
    let (mut done, mut invalid, mut begun, mut damaged) = (0, 0, 0, 0);
    let (mut failed, mut untouched): (Vec<(&Task, String)>, usize) = (Vec::new(), 0);
    for task in &plan.tasks {
        let seen: Vec<Glance> = folders.iter().map(|results| results.glance(&task.id)).collect();
        let valid =
            seen.iter().find_map(|glance| if let Glance::Done { valid } = glance { Some(*valid) } else { None });
        if let Some(valid) = valid {
            done += 1;
            invalid += usize::from(!valid);
        } else if seen.iter().any(|glance| matches!(glance, Glance::Damaged(_))) {
            damaged += 1;
        } else if let Some(why) = folders.iter().find_map(|results| results.failure(&task.id)) {
            failed.push((task, why));
        } else if folders.iter().any(|results| results.is_begun(&task.id)) {
            begun += 1;
        } else {
            untouched += 1;
        }
    }
    if args.format.json {
        let failed: Vec<_> = failed
            .iter()
            .map(|(task, why)| serde_json::json!({ "id": task.id, "task": task.name(), "why": why }))
            .collect();
        output::document(
            1,
            serde_json::json!({ "planned": plan.tasks.len(), "done": done, "invalid": invalid, "begun": begun,
                                "damaged": damaged, "failed": failed, "untouched": untouched }),
        );
    } else {
        crate::say!(
            "{}: {done} done ({invalid} invalid), {begun} running, {} failed, {damaged} damaged, {untouched} not started",
            output::plural(plan.tasks.len() as u64, "task"),
            failed.len()
        );
        for (task, why) in failed.iter().take(MOST_LINES) {
            crate::say!("failed: {}: {why}", task.name());
        }
        if done < plan.tasks.len() {
            crate::say!("submit again (`headstart lab submit`) or run `headstart lab work`: finished tasks are kept");
        }
    }
    Ok(if done == plan.tasks.len() { exit::OK } else { exit::DEGRADED })
}
