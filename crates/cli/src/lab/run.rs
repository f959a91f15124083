//! `headstart lab run NAME`: one experiment, its results folder, and the object that other programs read.

use super::asked::{self, CommonArgs};
use super::progress::ProgressLine;
use crate::{exit, output};
use anyhow::Context as _;
use headstart_core::choice::unknown;
use headstart_io::clock::{Clock, wall};
use headstart_lab::campaign::digest_of_pages;
use headstart_lab::device::{DeviceState, Snapshot};
use headstart_lab::experiment::{self, Claims, Context, Extent, LOADS_PAGES, Outcome};
use headstart_lab::netns::{Entered, InnerCommand};
use headstart_lab::report;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the machine is looked at before a run: long enough for a share of 10 ms ticks.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of `headstart lab run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiment to run (`headstart lab list`).
    name: String,
    #[command(flatten)]
    asked: CommonArgs,
    /// Run only this condition; may be repeated.
    #[arg(long = "condition", value_name = "NAME")]
    conditions: Vec<String>,
    /// Pages to load instead of the built-in ones: a page specification file, or a folder with `specs.jsonl` (page-load,
    /// steer-pages, together, app-session, phone-day).
    #[arg(long, value_name = "DIR|FILE")]
    pages: Option<PathBuf>,
    /// Folder for the results [default: headstart-results/NAME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the experiment.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let usage = |e: experiment::ExperimentError| exit::Usage(e.to_string());
    let entry = asked::experiment(&args.name)?;
    let speeds = entry.speeds(args.asked.speeds()?).map_err(usage)?;
    if let Some(bad) = args.conditions.iter().find(|c| !entry.conditions.contains(&c.as_str())) {
        let why = format!("{}: {}", entry.name, unknown("condition", bad, entry.conditions));
        return Err(exit::Usage(why).into());
    }
    if args.pages.is_some() && !LOADS_PAGES.contains(&entry.name) {
        let why = format!("--pages: {} does not use it; only {} do", entry.name, LOADS_PAGES.join(", "));
        return Err(exit::Usage(why).into());
    }
    if let Some(pages) = &args.pages {
        std::fs::metadata(pages).map_err(|why| exit::Usage::unreadable(pages, why))?;
    }
    let out = args.out.clone().unwrap_or_else(|| Path::new("headstart-results").join(entry.name));
    not_of_another(&out, entry.name)?;
    if speeds.in_namespaces()
        && let Entered::Ended(status) = InnerCommand::this_command().pass_signals().enter()?
    {
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    let conditions = (!args.conditions.is_empty()).then(|| args.conditions.clone());
    let CommonArgs { quick, json, seed, .. } = args.asked;
    let plan = Context { quick, speeds, conditions, pages: args.pages.clone(), ..Context::new(seed) };
    super::prepare(&out)?;
    let outcome = observed(entry, plan)?;
    let page = report::write(&out, &outcome, &Claims::built_in()?)?;
    if json {
        crate::complain!("report: {}", page.display());
        crate::say!("{}", outcome.last_line());
    } else {
        crate::say!(
            "{}",
            report::terminal(&outcome, output::width(), std::io::stdout().is_terminal() && output::colour())
        );
        crate::say!("report: {}", page.display());
    }
    Ok(if outcome.valid { exit::OK } else { exit::INVALID })
}

/// A result may have taken an hour: one of another experiment is not written over.
fn not_of_another(out: &Path, name: &str) -> Result<(), exit::Usage> {
    match super::report::read(out) {
        Ok(there) if there.experiment != name => Err(exit::Usage(format!(
            "{} already holds results of {}: use another folder, such as --out {}",
            out.display(),
            there.experiment,
            out.join(name).display()
        ))),
        _ => Ok(()),
    }
}

/// Runs `entry` with a line that says how far it is, and notes the state of the machine meanwhile.
pub fn observed(entry: &experiment::Entry, plan: Context) -> anyhow::Result<Outcome> {
    let progress = Arc::new(ProgressLine::begin());
    let outcome = watched(entry, Context { progress: Box::new(Arc::clone(&progress)), ..plan });
    progress.end();
    outcome
}

/// Runs `entry` and notes the state of the machine meanwhile.
pub fn watched(entry: &experiment::Entry, cx: Context) -> anyhow::Result<Outcome> {
    let root = Path::new("/");
    let pages = cx.pages.as_deref().map(digest_of_pages).transpose().context("--pages")?;
    let earlier = Snapshot::take(root);
    if cx.speeds.in_namespaces() {
        // Virtual time does not depend on what else is at work.
        Clock::new().sleep(LOOK);
    }
    let (began, before): (SystemTime, Snapshot) = (wall(), Snapshot::take(root));
    let clock = Clock::new();
    let started = clock.now();
    let outcome = entry.start(&cx);
    let took = clock.now() - started;
    let mut outcome = outcome?;
    outcome.extent = Some(Extent::of(&cx, pages, took));
    let device = crate::help::with_commit(DeviceState::over(root, began, earlier, before, Snapshot::take(root)));
    if cx.speeds.in_namespaces() {
        for doubt in device.doubts() {
            outcome.invalidate(doubt);
        }
    }
    outcome.device = Some(device);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_another_experiment_is_not_written_over() {
        let out = std::env::temp_dir().join(format!("headstart-lab-run-{}", std::process::id()));
        assert!(not_of_another(&out, "one").is_ok(), "there is nothing yet");
        report::write(&out, &Outcome::new("one", 1), &Claims::built_in().unwrap()).unwrap();
        assert!(not_of_another(&out, "one").is_ok());
        let why = not_of_another(&out, "two").unwrap_err().to_string();
        std::fs::remove_dir_all(&out).unwrap();
        assert!(why.contains("holds results of one") && why.ends_with("/two"), "{why}");
    }
}
