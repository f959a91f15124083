//! `headstart demo`: a quick tour. Real programs through an emulated dual-stack network, bare and under headstart, where
//! all is well and where IPv6 is broken; then every race beside its baselines, and whole pages, in virtual time. Needs no
//! Debian package: whichever of curl, wget and Python is there takes part, headstart's own client always does.

use crate::{exit, lab};
use headstart_lab::experiment::{self, Claims, Context, Outcome, Row, Speeds};
use headstart_lab::netns::{Entered, Entry};
use headstart_lab::report;
use std::path::PathBuf;

/// What is shown, in this order, and at which speed.
const TOUR: [(&str, Speeds); 3] =
    [("connect-programs", Speeds::Namespaces), ("connect-overhead", Speeds::Virtual), ("page-load", Speeds::Virtual)];

/// Arguments of `headstart demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the report.
    #[arg(long, value_name = "DIR", default_value = "headstart-results/demo")]
    out: PathBuf,
    /// Random seed.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
}

/// Takes the tour.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    // Before half a minute of work that could not be stored.
    report::prepare(&args.out)?;
    if let Entered::Ended(status) = Entry::this_command().pass_signals().enter()? {
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    crate::say!(
        "headstart demo: the same programs without and with headstart, on an emulated LTE network (about 35 s)\n"
    );
    let mut outcomes = Vec::new();
    for (name, speeds) in TOUR {
        let outcome =
            lab::run::observed(experiment::find(name)?, Context { quick: true, speeds, ..Context::new(args.seed) })?;
        outcomes.push(outcome);
    }
    let claims = Claims::built_in()?;
    for outcome in &outcomes {
        report::write(&args.out.join(&outcome.experiment), outcome, &claims)?;
    }
    let page = report::write_readable(&args.out, &outcomes, &claims)?;
    let page = page.canonicalize().unwrap_or(page);
    for line in summary(&outcomes) {
        crate::say!("{line}");
    }
    crate::say!("\nReport: {}", page.display());
    crate::say!("Next:   headstart run -- curl https://example.org/   (any program, on your own network)");
    if let Some(noise) = noise(&outcomes) {
        crate::say!("Note:   {noise}");
    }
    Ok(if outcomes.iter().all(|o: &Outcome| o.valid) { exit::OK } else { exit::INVALID })
}

/// What the demo calls the networks of `connect-programs`.
const NETWORKS: [(&str, &str); 3] =
    [("aaaa-lost-", "IPv6 answers lost"), ("ipv6-black-hole-", "IPv6 black hole"), ("healthy-", "healthy network")];
/// Where `connect-programs` cuts a program, in milliseconds.
const CUT: f64 = 20_000.0;
/// Comparisons that are shown of each experiment in virtual time.
const MOST: usize = 4;

/// The comparisons, largest gains first: a line for each program, then a few of whole connections and pages.
fn summary(outcomes: &[Outcome]) -> Vec<String> {
    let mut programs: Vec<(&Row, f64)> = Vec::new();
    let mut others: Vec<(&Row, f64)> = Vec::new();
    for outcome in outcomes {
        let compared = outcome.rows.iter().filter_map(|row| Some((row, row.ratio.filter(|ratio| *ratio > 0.0)?)));
        if outcome.experiment == TOUR[0].0 {
            programs.extend(compared);
        } else {
            let ours =
                compared.filter(|(row, _)| ["adaptive", "headstart"].contains(&row.arm.as_str()) && row.unit == "ms");
            others.extend(ours.take(MOST));
        }
    }
    programs.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut lines: Vec<_> = programs.into_iter().map(|(row, _)| program_line(row)).collect();
    lines.push("\nIn virtual time, medians or means as the report names them:".to_owned());
    others.sort_by(|a, b| a.1.total_cmp(&b.1));
    lines.extend(others.into_iter().map(|(row, _)| {
        let what = format!("{}, {}", row.condition, row.metric);
        format!("  {what}\n    {} -> {}  {}", time(row.baseline), time(Some(row.ours)), speed_up(row))
    }));
    lines
}

fn program_line(row: &Row) -> String {
    let named = NETWORKS.iter().find_map(|(prefix, name)| Some((*name, row.condition.strip_prefix(prefix)?)));
    let (network, program) = named.unwrap_or(("", &row.condition));
    let program = if program == "client" { "own client" } else { program };
    let (without, with) = (time(row.baseline), time(Some(row.ours)));
    format!("  {network:<18} {program:<11} {without:>9} -> {with:<9} {}", speed_up(row))
}

/// A time that people read; one that was cut is at least that long.
fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms >= CUT => format!("> {:.0} s", CUT / 1e3),
        Some(ms) if ms >= 1e3 => format!("{:.1} s", ms / 1e3),
        Some(ms) => format!("{ms:.0} ms"),
    }
}

/// The ratio of a row in words; one whose interval contains 1 is no difference.
fn speed_up(row: &Row) -> String {
    let Some(ratio) = row.ratio else { return String::new() };
    let unclear = row.interval.is_some_and(|interval| (interval.lo..=interval.hi).contains(&1.0));
    let at_least = if row.baseline.is_some_and(|ms| ms >= CUT) { "at least " } else { "" };
    match ratio {
        _ if unclear => "no difference".to_owned(),
        r if r < 0.1 => format!("{at_least}{:.0} times faster", 1.0 / r),
        r if r < 1.0 => format!("{at_least}{:.2} times faster", 1.0 / r),
        r => format!("{r:.2} times slower"),
    }
}

/// One line about measurements that other load on the machine may have changed.
fn noise(outcomes: &[Outcome]) -> Option<String> {
    let disturbed: Vec<_> = outcomes.iter().filter(|o| !o.valid).map(|o| o.experiment.as_str()).collect();
    (!disturbed.is_empty()).then(|| {
        format!(
            "the machine was busy during {}: take small differences there as noise (reasons: report)",
            disturbed.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_lab::stats::Interval;

    fn row(condition: &str, baseline: f64, ours: f64, arm: &str) -> Row {
        let ratio = ours / baseline;
        Row {
            baseline_arm: Some("bare".into()),
            baseline: Some(baseline),
            ratio: Some(ratio),
            interval: Some(Interval { lo: 0.9 * ratio, hi: 1.1 * ratio }),
            ..Row::measured(condition, "time to fetch a page, median", "ms", arm, ours)
        }
    }

    fn outcome(name: &str, rows: Vec<Row>) -> Outcome {
        Outcome { rows, ..Outcome::new(name, 1) }
    }

    #[test]
    fn the_largest_gain_comes_first_and_all_of_it_fits_in_forty_lines() {
        let networks = ["healthy", "aaaa-lost", "ipv6-black-hole"];
        let programs = ["client", "curl", "wget", "python"];
        let mut rows: Vec<_> = networks
            .iter()
            .flat_map(|network| {
                programs.iter().map(move |program| row(&format!("{network}-{program}"), 64.0, 65.0, "headstart"))
            })
            .collect();
        rows[5] = row("aaaa-lost-curl", 15_080.0, 120.0, "headstart");
        rows[10] = row("ipv6-black-hole-wget", 20_000.0, 313.0, "headstart");
        let many = || (0..9).map(|_| row("lte", 117.0, 63.7, "adaptive")).collect();
        let mut all = vec![outcome(TOUR[0].0, rows), outcome(TOUR[1].0, many()), outcome(TOUR[2].0, many())];
        let lines = summary(&all);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[0]), "IPv6 answers lost curl 15.1 s -> 120 ms 126 times faster");
        assert_eq!(words(&lines[1]), "IPv6 black hole wget > 20 s -> 313 ms at least 64 times faster");
        assert!(words(&lines[11]).ends_with("64 ms -> 65 ms no difference"), "{lines:?}");
        let text = lines.join("\n");
        assert!(text.contains("1.84 times faster") && text.lines().count() + 6 <= 40, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(noise(&all), None);
        all[0].invalidate("17 % of the processor was taken");
        assert!(noise(&all).unwrap().contains("busy during connect-programs:"));
    }
}
