//! `headstart lab plan`: the tasks of a campaign, a line each.

use crate::exit;
use headstart_lab::campaign::{Campaign, Extent, Look, Plan, Results, Task};
use headstart_lab::experiment::Outcome;
use std::path::{Path, PathBuf};

/// Arguments of `headstart lab plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign: a TOML file with a `[[set]]` per experiment (docs/guide/campaigns.md).
    campaign: PathBuf,
    /// Estimate times from earlier results: folders of `lab work` (or s3://BUCKET/PREFIX), `lab run` or `lab reproduce`; may be repeated.
    #[arg(long, value_name = "DIR")]
    earlier: Vec<PathBuf>,
}

/// Prints the plan.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let file = &args.campaign;
    let text = crate::input::text(file, crate::input::MOST).map_err(|why| exit::Usage::unreadable(file, why))?;
    let wrong = |why: String| exit::Usage(format!("{}: {}", file.display(), why.trim_end()));
    let campaign = Campaign::parse(&text).map_err(|why| wrong(why.to_string()))?;
    let base = std::path::absolute(file)?.parent().map(Path::to_owned).unwrap_or_default();
    let tasks = campaign.tasks(&base, &super::builds()?).map_err(|why| wrong(exit::one_line(&why)))?;
    let mut plan = Plan { tasks };
    let earlier = earlier(&args.earlier)?;
    plan.estimate(|task| earlier.iter().filter(|(like, _)| like(task)).map(|(_, seconds)| *seconds).collect());
    let (seconds, unknown) = plan.seconds();
    let time = match unknown {
        0 => format!(", {} one after the other", super::long(seconds)),
        n if n < plan.tasks.len() => {
            format!(", {} one after the other without {n} of unknown length", super::long(seconds))
        }
        _ => String::new(),
    };
    crate::complain!("{}{time}", crate::output::plural(plan.tasks.len() as u64, "task"));
    crate::say!("{}", plan.text().trim_end());
    Ok(exit::OK)
}

/// Whether a task is like one that was done.
type Like = Box<dyn Fn(&Task) -> bool>;

/// How long what is in `folders` took: tasks of a campaign, and results of experiments with all their conditions.
fn earlier(folders: &[PathBuf]) -> anyhow::Result<Vec<(Like, f64)>> {
    let mut seen: Vec<(Like, f64)> = Vec::new();
    for folder in folders {
        let results = Results::open(folder, Extent::Whole, |_| true)?;
        for id in results.ids().unwrap_or_default() {
            if let Look::Done(done) = results.look(&id)
                && let (record, Some(extent)) = (done.0, done.1.extent)
            {
                seen.push((Box::new(move |task| record.task.is_like(task)), extent.seconds));
            }
        }
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let runs = [folder.clone()].into_iter().chain(below).filter(|path| !path.join("task.json").exists());
        seen.extend(runs.filter_map(|path| of_a_run(super::super::report::read(&path).ok()?)));
    }
    Ok(seen)
}

/// The share of each condition in what a run of an experiment took.
fn of_a_run(outcome: Outcome) -> Option<(Like, f64)> {
    let extent = outcome.extent?;
    let entry = headstart_lab::experiment::find(&outcome.experiment).ok()?;
    let conditions = extent.conditions.as_ref().map_or(entry.conditions.len(), Vec::len).max(1);
    let like = move |task: &Task| {
        let asked = extent.conditions.as_ref().is_none_or(|all| all.contains(&task.condition));
        task.experiment == outcome.experiment && task.quick == extent.quick && task.speed == extent.speeds && asked
    };
    Some((Box::new(like), extent.seconds / conditions as f64))
}
