//! `headstart lab compare`: two results or campaigns side by side.

use crate::{exit, output};
use headstart_lab::campaign::{Comparison, Difference, Judged, compare};
use headstart_lab::experiment::Outcome;
use headstart_lab::report::{self, ColumnStyle, Table};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Rows without a counterpart that are printed.
const MOST_ALONE: usize = 10;

/// Arguments of `headstart lab compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Earlier result: a results folder, a result.json, or a campaign of `lab collect`.
    before: PathBuf,
    /// Later result of the same kind.
    after: PathBuf,
    /// Changes below PERCENT are the same.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    tolerance: f64,
    /// Also list what is the same or has no interval.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: output::Format,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("must be from 0 to 1000 percent".into()),
    }
}

/// Prints what changed; fails where something got worse.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let comparison = compare(&read(&args.before)?, &read(&args.after)?, args.tolerance / 100.0);
    let Comparison { changes, only_before, only_after } = &comparison;
    if changes.is_empty() {
        let [before, after] = [&args.before, &args.after].map(|path| path.display());
        return Err(exit::Usage(format!(
            "{before} and {after} have no experiment of the same extent and pages in common"
        ))
        .into());
    }
    let worse = changes.iter().any(|change| change.judged == Judged::Worse);
    if args.format.json {
        output::document(1, serde_json::to_value(&comparison)?);
    } else {
        let shown = |c: &&Difference| args.all || !matches!(c.judged, Judged::Same | Judged::Unknown);
        let colour = std::io::stdout().is_terminal() && output::colour();
        let mut left: Vec<&Difference> = changes.iter().filter(shown).collect();
        // The experiment with the worst change first.
        while let Some(first) = left.first() {
            let of_first = |change: &&Difference| change.experiment == first.experiment;
            let (mine, others): (Vec<&Difference>, Vec<&Difference>) = left.iter().copied().partition(of_first);
            crate::say!("{}", table(&mine).to_text(output::width(), colour));
            left = others;
        }
        let count = |judged| changes.iter().filter(|change| change.judged == judged).count();
        crate::say!(
            "{}: {} worse, {} better, {} changed, {} the same, {} without an interval",
            output::plural(changes.len() as u64, "row"),
            count(Judged::Worse),
            count(Judged::Better),
            count(Judged::Changed),
            count(Judged::Same),
            count(Judged::Unknown)
        );
        for (only, which) in [(only_before, &args.before), (only_after, &args.after)] {
            alone(only, which);
        }
    }
    Ok(if worse { exit::FAILURE } else { exit::OK })
}

/// Names rows that one of the results has alone: an experiment that has failed since, say.
fn alone(rows: &[String], of: &Path) {
    if rows.is_empty() {
        return;
    }
    crate::say!("only in {}: {}", of.display(), output::plural(rows.len() as u64, "row"));
    rows.iter().take(MOST_ALONE).for_each(|row| crate::say!("  {row}"));
    if rows.len() > MOST_ALONE {
        crate::say!("  and {} more, see --json", rows.len() - MOST_ALONE);
    }
}

/// The results at `path`: one, or those of each experiment of a campaign.
fn read(path: &Path) -> anyhow::Result<Vec<Outcome>> {
    let pooled = path.join(super::campaign::collect::POOLED);
    if !pooled.is_dir() {
        return Ok(vec![super::report::read(path)?]);
    }
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&pooled)?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().map(|folder| super::report::read(folder)).collect()
}

/// Changes of one experiment.
fn table(changes: &[&Difference]) -> Table {
    let experiment = changes.first().map_or("", |change| &change.experiment);
    let mut table = Table::new(
        &format!("Changes in {experiment}"),
        &[
            ("Condition", ColumnStyle::Text),
            ("Metric", ColumnStyle::Text),
            ("Arm", ColumnStyle::Text),
            ("Before", ColumnStyle::Number),
            ("After", ColumnStyle::Number),
            ("Ratio", ColumnStyle::Number),
            ("95 % interval", ColumnStyle::Number),
            ("", ColumnStyle::Text),
        ],
    );
    let none = || "–".to_owned();
    for c in changes {
        table.push([
            c.condition.clone(),
            c.metric.clone(),
            c.arm.clone(),
            report::with_unit(c.before, &c.unit),
            report::with_unit(c.after, &c.unit),
            c.ratio.map_or_else(none, report::ratio),
            c.interval.map_or_else(none, |i| format!("{} to {}", report::ratio(i.lo), report::ratio(i.hi))),
            c.judged.to_string(),
        ]);
    }
    table
}
