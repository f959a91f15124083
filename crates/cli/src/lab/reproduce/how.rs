//! In words: what a reproduction is about to do and for how long, and how its results came about.
//!
//! What is said of a result is what the result says of itself, wherever it was run and when.

use super::Args;
use headstart_lab::device::DeviceState;
use headstart_lab::experiment::{Entry, Extent, Outcome, Speeds};
use std::collections::BTreeSet;

/// Minutes of a quick run of every claim at both speeds, on two processors with nothing else to do: 795 s, the sum of what its
/// experiments took on 2026-11-22 and 23.
const QUICK_MINUTES: u32 = 13;

/// What is about to be run, and how long it takes if that is known: from `earlier` results of the same extent, or because it is the
/// quick run of all.
pub fn plan(args: &Args, speeds: Speeds, all: usize, missing: &[(&'static Entry, Option<Outcome>)]) -> String {
    let before = |(entry, earlier): &(&Entry, Option<Outcome>)| {
        let extent = earlier.as_ref()?.extent.as_ref()?;
        let same = extent.quick == args.asked.quick
            && entry.speeds(speeds) == Ok(extent.speeds)
            && extent.conditions.is_none();
        same.then_some(extent.seconds)
    };
    let seconds: Option<f64> = missing.iter().map(before).sum();
    let time = match seconds {
        _ if missing.is_empty() => String::new(),
        Some(seconds) => format!(", about {:.0} min, as last time", (seconds / 60.0).max(1.0)),
        None if args.asked.quick && speeds == Speeds::Both && args.only.is_empty() && missing.len() == all => {
            format!(", about {QUICK_MINUTES} min on two idle processors")
        }
        None => String::new(),
    };
    format!("experiments: {all}, to run: {}{time}", missing.len())
}

/// One paragraph: when, with what, on what, how much of each, and what to doubt.
pub fn how(args: &Args, outcomes: &[Outcome], earlier: &[Outcome]) -> String {
    let device = outcomes.iter().filter_map(|o| o.device.as_ref()).max_by_key(|d| d.date.clone());
    let or = |text: Option<&String>| text.map_or_else(|| "unknown".to_owned(), Clone::clone);
    let commit = |d: &DeviceState| or(d.short_commit().as_ref());
    let mut command = format!("headstart lab reproduce{}", if args.asked.quick { " --quick" } else { "" });
    if args.asked.speed != "both" {
        command += &format!(" --speed {}", args.asked.speed);
    }
    let Some(d) = device else { return format!("`{command}`: nothing was measured.") };
    let all = || outcomes.iter().chain(earlier);
    let mut text = format!(
        "`{command}`, seed {}, {}, commit {}, kernel {}, {} processors.",
        args.asked.seed,
        d.date,
        commit(d),
        or(d.kernel.as_ref()),
        d.cpus.map_or_else(|| "unknown".to_owned(), |n| n.to_string()),
    );
    let extents: BTreeSet<_> = all().map(extent).collect();
    for one in &extents {
        text += &format!(" {one}: {}.", names(all().filter(|o| extent(o) == *one)));
    }
    let latest = commit(d);
    // Results that were there already may be of an earlier program.
    let commits: BTreeSet<_> = all().filter_map(|o| o.device.as_ref()).map(commit).collect();
    for other in commits.iter().filter(|c| **c != latest) {
        let of = |o: &&Outcome| o.device.as_ref().is_some_and(|d| commit(d) == *other);
        text += &format!(" Of commit {other}: {}.", names(all().filter(of)));
    }
    if !earlier.is_empty() {
        text += &format!(" Separate runs: {}.", names(earlier.iter()));
    }
    if all().any(|o| !o.valid) {
        let invalid = names(all().filter(|o| !o.valid));
        text += &format!(" Invalid, without a verdict: {invalid} (reasons are in their reports).");
    }
    text
}

/// "Quick, in virtual time".
fn extent(outcome: &Outcome) -> String {
    let words = outcome.extent.as_ref().map_or_else(|| "unknown extent".to_owned(), Extent::to_string);
    words[..1].to_uppercase() + &words[1..]
}

fn names<'a>(of: impl Iterator<Item = &'a Outcome>) -> String {
    of.map(|o| format!("`{}`", o.experiment)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::CommonArgs;
    use super::*;
    use headstart_lab::experiment::ALL;

    fn args(quick: bool) -> Args {
        let asked = CommonArgs { quick, json: false, seed: 1, speed: "both".to_owned() };
        Args { asked, only: Vec::new(), again: false, judge: false, out: "results".into(), docs: None }
    }

    fn outcome(name: &str, quick: bool, speeds: Speeds, seconds: f64) -> Outcome {
        let extent = Some(Extent { quick, speeds, conditions: None, pages: None, seconds });
        let device = Some(DeviceState { date: "2000-01-01T00:00:00Z".into(), cpus: Some(2), ..DeviceState::default() });
        Outcome { extent, device, ..Outcome::new(name, 1) }
    }

    #[test]
    fn a_reader_sees_which_results_are_quick_and_which_are_in_full() {
        let here = [outcome("page-load", true, Speeds::Both, 1.0), outcome("app-session", true, Speeds::Virtual, 1.0)];
        let mut earlier =
            [outcome("steer-pages", false, Speeds::Virtual, 1.0), outcome("measure-lte", true, Speeds::Both, 1.0)];
        earlier[1].extent = None;
        let text = how(&args(true), &here, &earlier);
        for part in [
            "`headstart lab reproduce --quick`, seed 1, 2000-01-01T00:00:00Z, commit unknown, kernel unknown, 2 processors.",
            " In full, in virtual time: `steer-pages`. Quick, in virtual time: `app-session`.",
            " Quick, in virtual time and with real packets: `page-load`. Unknown extent: `measure-lte`.",
            " Separate runs: `steer-pages`, `measure-lte`.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn the_time_is_that_of_earlier_runs_of_the_same_extent_or_of_the_quick_run_of_all() {
        let [a, b] = [&ALL[0], &ALL[1]];
        let of = |quick, missing: &[(&'static Entry, Option<Outcome>)]| plan(&args(quick), Speeds::Both, 2, missing);
        let known = |entry: &Entry, quick| Some(outcome(entry.name, quick, entry.speeds, 100.0));
        assert_eq!(of(true, &[]), "experiments: 2, to run: 0");
        assert_eq!(
            of(true, &[(a, known(a, true)), (b, known(b, true))]),
            "experiments: 2, to run: 2, about 3 min, as last time"
        );
        assert_eq!(of(false, &[(a, known(a, true)), (b, None)]), "experiments: 2, to run: 2");
        assert!(of(true, &[(a, None), (b, None)]).ends_with("about 13 min on two idle processors"));
        assert_eq!(of(true, &[(a, None)]), "experiments: 2, to run: 1");
    }
}
