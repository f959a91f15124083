//! The comparisons, and whether the targets are met.

use super::case::{CUT, Case};
use super::measure::{LAUNCHER, Measured};
use super::names::START_UP;
use crate::experiment::target::Target;
use crate::experiment::{Outcome, Row, Series};
use crate::program::Origin;
use crate::stats::{Pairing, Statistic, StatsError};
use headstart_core::time::Duration;
use std::collections::BTreeMap;

const OURS: &str = "headstart";
const BARE: &str = "bare";
const UNIT: &str = "ms";

/// At most this much slower than bare, or [`SHARE`] of it if that is more.
const SLOWER: f64 = 2.0;
const SHARE: f64 = 0.02;

/// The longest that a fault may take, by its name, in milliseconds.
pub const LIMITS: [(&str, f64); 3] = [("aaaa-lost", 300.0), ("a-lost", 300.0), ("ipv6-black-hole", 600.0)];

/// Adds rows, samples and notes of everything that was measured.
pub fn report(
    outcome: &mut Outcome,
    cases: &[(&Case<'_>, Measured)],
    start_up: Option<&Measured>,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for (case, measured) in cases {
        let metric = if case.faulty.hopeless { "time until it gives up" } else { "time to fetch a page" };
        let medians = compare(outcome, &case.name, metric, measured)?;
        if case.program.entry.origin == Origin::Own {
            outcome.rows.extend(agreement(&case.name, metric, medians, case.faulty.simulated));
        }
        let (fault, program) = (case.faulty.fault.name, case.program.entry.name);
        all.push(Found { case: &case.name, fault, program, medians });
    }
    let start_up = start_up.map(|m| compare(outcome, START_UP, "time to start and end", m)).transpose()?;
    if let Some(Medians { own: Some(ours), usual: Some(usual), bare: Some(bare), launched, .. }) = start_up {
        let least = launched.map_or_else(String::new, |launched| {
            format!(" {LAUNCHER}(1), which only starts a program and waits for it, takes {:.1}.", launched - bare)
        });
        outcome.notes.push(format!(
            "Starting and ending `headstart run --private` takes {:.1} ms (median), `headstart-run` with a running supervisor \
             {:.1}; the times of programs started by them include it.{least}",
            ours - bare,
            usual - bare
        ));
    }
    outcome.notes.extend(notes(&all));
    Ok(())
}

/// Medians of a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Medians {
    /// Under headstart, by a supervisor of its own.
    own: Option<f64>,
    /// Under headstart, by the user's supervisor.
    usual: Option<f64>,
    /// Started by a shell that is under headstart.
    session: Option<f64>,
    bare: Option<f64>,
    /// Alone and started by a shell, where that was measured; else as `bare`.
    shell: Option<f64>,
    /// Alone and started by [`LAUNCHER`].
    launched: Option<f64>,
}

/// The program that only connects, beside the same in virtual time, which has no program to start. Where real packets are
/// not waited for as long as virtual ones there is nothing to agree on.
fn agreement(name: &str, metric: &str, medians: Medians, simulated: [Duration; 2]) -> Vec<Row> {
    let arms = [(BARE, medians.bare), (OURS, medians.own)].into_iter().zip(simulated);
    let row = |((arm, measured), simulated): ((&str, Option<f64>), Duration)| {
        let (measured, simulated) = (measured?, simulated.as_secs_f64() * 1e3);
        (simulated < CUT.as_secs_f64() * 1e3).then(|| {
            let metric = format!("{metric}, {}", Statistic::Median);
            Row::measured(name, &metric, UNIT, arm, measured).beside("virtual-time", simulated)
        })
    };
    arms.filter_map(row).collect()
}

/// Rows and samples of a condition.
fn compare(outcome: &mut Outcome, name: &str, metric: &str, measured: &Measured) -> Result<Medians, StatsError> {
    let series = |metric: &str, arm, values: &Vec<Option<f64>>| {
        Series::with_failures(name, metric, UNIT, arm, values.iter().copied())
    };
    let (ours, bare) = (series(metric, OURS, &measured.ours), series(metric, BARE, &measured.bare));
    let usual = series(&format!("{metric}, supervisor running"), OURS, &measured.usual);
    let session = series(&format!("{metric}, in a session"), OURS, &measured.session);
    let second = series(&format!("{metric}, second visit"), OURS, &measured.second);
    // A shell's fork and exec are not the lab's: what one starts is compared with what another starts.
    let shell = series(&format!("{metric}, by a shell"), BARE, &measured.shell);
    let launched = series(&format!("{metric}, by {LAUNCHER}(1)"), BARE, &measured.launched);
    let by_shell = if shell.present().is_empty() { &bare } else { &shell };
    let median =
        |s: &Series| if s.present().is_empty() { Ok(None) } else { Statistic::Median.of(&s.present()).map(Some) };
    let medians = Medians {
        own: median(&ours)?,
        usual: median(&usual)?,
        session: median(&session)?,
        bare: median(&bare)?,
        shell: median(by_shell)?,
        launched: median(&launched)?,
    };
    for (visit, alone) in [(&ours, &bare), (&usual, &bare), (&session, by_shell), (&second, by_shell)] {
        match (median(visit)?, median(alone)?) {
            (Some(_), Some(_)) => {
                let alone = Series { metric: visit.metric.clone(), ..alone.clone() };
                outcome.rows.push(Row::compare(visit, &alone, Statistic::Median, Pairing::Unpaired, outcome.seed)?);
            }
            (Some(value), None) => {
                let metric = format!("{}, {}", visit.metric, Statistic::Median);
                outcome.rows.push(Row::measured(name, &metric, UNIT, OURS, value));
            }
            (None, _) => {}
        }
    }
    for (metric, arm, of, alone) in [
        (metric, OURS, medians.own, medians.bare),
        (usual.metric.as_str(), OURS, medians.usual, medians.bare),
        (&session.metric, OURS, medians.session, medians.shell),
        (&launched.metric, BARE, medians.launched, medians.bare),
    ] {
        if let (Some(a), Some(b)) = (of, alone) {
            let metric = format!("longer than bare: {metric}, {}", Statistic::Median);
            outcome.rows.push(Row::measured(name, &metric, UNIT, arm, a - b));
        }
    }
    outcome.failures(&ours, &bare);
    outcome
        .samples
        .extend([bare, ours, usual, session, shell, second, launched].into_iter().filter(|s| !s.values.is_empty()));
    Ok(medians)
}

#[derive(Debug)]
struct Found<'a> {
    case: &'a str,
    fault: &'a str,
    program: &'a str,
    medians: Medians,
}

/// The targets in words.
fn notes(all: &[Found<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    type Of = fn(&Medians) -> Option<f64>;
    let ways: [(&str, Of, Of); 3] = [
        ("in a session under headstart", |m| m.session, |m| m.shell),
        ("the user's supervisor running", |m| m.usual, |m| m.bare),
        ("with a supervisor of its own", |m| m.own, |m| m.bare),
    ];
    for (by, ours, alone) in ways {
        let compared = all.iter().filter_map(|f| Some((f, ours(&f.medians)?, alone(&f.medians)?)));
        let (met, missed): (Vec<_>, Vec<_>) =
            compared.partition(|(_, ours, bare)| ours - bare <= f64::max(SLOWER, SHARE * bare));
        if met.len() + missed.len() > 0 {
            let list = missed.iter().map(|(f, ours, bare)| format!("{} ({ours:.1} ms, bare {bare:.1} ms)", f.case));
            let target = format!("{by}, at most 2 ms or 2 % slower than bare at the median");
            notes.push(verdict(&target, met.len(), &list.collect::<Vec<_>>()));
        }
    }
    // How long a program takes by itself where nothing is broken.
    let healthy: BTreeMap<&str, f64> =
        all.iter().filter(|f| f.fault == "healthy").filter_map(|f| Some((f.program, f.medians.bare?))).collect();
    for (fault, limit) in LIMITS {
        let here: Vec<_> = all.iter().filter(|f| f.fault == fault).filter_map(|f| Some((f, f.medians.own?))).collect();
        if here.is_empty() {
            continue;
        }
        let target = Target::AtMost(limit);
        let (met, missed): (Vec<_>, Vec<_>) = here.into_iter().partition(|(_, ours)| target.is_met(*ours));
        let list = missed.iter().map(|(m, ours)| match healthy.get(m.program) {
            // Slow starters cannot be sooner than themselves.
            Some(alone) => format!("{} ({ours:.0} ms, of which the fault {:.0} ms)", m.case, ours - alone),
            None => format!("{} ({ours:.0} ms)", m.case),
        });
        notes.push(verdict(
            &format!("{fault}: {target} ms until the page is there"),
            met.len(),
            &list.collect::<Vec<_>>(),
        ));
    }
    notes
}

fn verdict(target: &str, met: usize, missed: &[String]) -> String {
    match missed {
        [] => format!("Target, {target}: met in all {met} conditions."),
        _ => {
            let all = met + missed.len();
            format!("Target, {target}: met in {met} of {all} conditions; MISSED in {}.", missed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(bare: &[Option<f64>], ours: &[Option<f64>]) -> Measured {
        let (bare, ours) = (bare.to_vec(), ours.to_vec());
        let (session, shell) = (vec![Some(100.5)], vec![Some(103.0)]);
        Measured { bare, ours, usual: vec![Some(101.0)], session, shell, second: vec![Some(50.0)], launched: vec![] }
    }

    fn rows_of(measured: &Measured) -> (Vec<(String, f64, Option<f64>)>, Medians) {
        let mut outcome = Outcome::new("connect-faults", 1);
        let medians = compare(&mut outcome, "healthy-curl", "time to fetch a page", measured).unwrap();
        outcome.check().unwrap();
        (outcome.rows.into_iter().map(|r| (r.metric, r.ours, r.baseline)).collect(), medians)
    }

    #[test]
    fn first_and_second_visits_are_compared_with_the_program_alone() {
        let (rows, medians) = rows_of(&measured(&[Some(100.0), Some(102.0), Some(104.0)], &[Some(90.0)]));
        let expected = [
            ("time to fetch a page, median", 90.0, Some(102.0)),
            ("time to fetch a page, supervisor running, median", 101.0, Some(102.0)),
            ("time to fetch a page, in a session, median", 100.5, Some(103.0)),
            ("time to fetch a page, second visit, median", 50.0, Some(103.0)),
            ("longer than bare: time to fetch a page, median", -12.0, None),
            ("longer than bare: time to fetch a page, supervisor running, median", -1.0, None),
            ("longer than bare: time to fetch a page, in a session, median", -2.5, None),
        ];
        assert_eq!(rows, expected.map(|(m, a, b)| (m.to_owned(), a, b)));
        let (bare, shell) = (Some(102.0), Some(103.0));
        assert_eq!(
            medians,
            Medians { own: Some(90.0), usual: Some(101.0), session: Some(100.5), bare, shell, launched: None }
        );
    }

    #[test]
    fn a_program_that_fails_alone_leaves_nothing_to_compare_with_and_is_counted() {
        let failing = Measured { shell: vec![None], ..measured(&[None], &[Some(120.0), Some(130.0)]) };
        let (rows, medians) = rows_of(&failing);
        let names: Vec<_> = rows.iter().map(|(m, a, b)| (m.as_str(), *a, *b)).collect();
        let failed = ("time to fetch a page, failed", 0.0, Some(100.0));
        assert_eq!(names[0], ("time to fetch a page, median", 125.0, None));
        assert_eq!((names.len(), *names.last().unwrap()), (5, failed));
        let (bare, shell) = (None, None);
        assert_eq!(
            medians,
            Medians { own: Some(125.0), usual: Some(101.0), session: Some(100.5), bare, shell, launched: None }
        );
    }

    #[test]
    fn virtual_time_stands_beside_what_was_not_cut() {
        let simulated = [Duration::from_secs(131), Duration::from_millis(50)];
        let bare = Some(20_000.0);
        let medians = Medians { own: Some(55.0), usual: None, session: None, bare, shell: bare, launched: None };
        let rows = agreement("x", "time", medians, simulated);
        let told: Vec<_> = rows.iter().map(|r| (r.arm.as_str(), r.ours, r.baseline, r.ratio)).collect();
        assert_eq!(told, [("headstart", 55.0, Some(50.0), Some(1.1))]);
    }

    #[test]
    fn targets_are_said_to_be_missed_where_they_are() {
        let one = |case, fault, program, ours: f64, bare| {
            let usual = (fault == "healthy").then_some(ours - 1.0);
            let medians = Medians { own: Some(ours), usual, session: None, bare, shell: bare, launched: None };
            Found { case, fault, program, medians }
        };
        let all = [
            one("healthy-curl", "healthy", "curl", 101.5, Some(100.0)),
            one("healthy-java", "healthy", "java", 1019.0, Some(1000.0)),
            one("healthy-wget", "healthy", "wget", 103.0, Some(100.0)),
            one("aaaa-lost-curl", "aaaa-lost", "curl", 200.0, Some(15_000.0)),
            one("aaaa-lost-java", "aaaa-lost", "java", 1100.0, Some(15_000.0)),
            one("a-lost-curl", "a-lost", "curl", 250.0, None),
        ];
        assert_eq!(
            notes(&all),
            [
                "Target, the user's supervisor running, at most 2 ms or 2 % slower than bare at the median: met in all 3 \
                 conditions.",
                "Target, with a supervisor of its own, at most 2 ms or 2 % slower than bare at the median: met in 4 of 5 \
                 conditions; MISSED in healthy-wget (103.0 ms, bare 100.0 ms).",
                "Target, aaaa-lost: at most 300 ms until the page is there: met in 1 of 2 conditions; MISSED in aaaa-lost-java \
                 (1100 ms, of which the fault 100 ms).",
                "Target, a-lost: at most 300 ms until the page is there: met in all 1 conditions.",
            ]
        );
    }
}
