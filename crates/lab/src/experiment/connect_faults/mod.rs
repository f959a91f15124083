//! `connect-faults`: every third-party program of the registry that is on this machine fetches a page over every fault of
//! [`crate::condition::fault`], bare and under `headstart run`, in namespaces (issue of interposition: a program is never
//! worse for it, and spared most of a fault).
//!
//! A condition is a fault and a program. Nothing here knows how a program is reached, and no program is ever told that it
//! is measured. What a fault means to a host without headstart is known beforehand from virtual time, and is why bare
//! programs that hang do so all at once.

mod case;
mod measure;
mod names;
mod rows;
mod waiting;

use super::{Context, Entry, Outcome, Speeds};
use crate::condition::fault;
use crate::netns::Network;
use crate::program::{self, Folder, Program, Scheme};
use anyhow::Context as _;
use case::{Case, FaultyNetwork};
use measure::{Measured, Size};
use std::path::Path;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "connect-faults",
    shows: "On broken networks, unmodified programs fetch a page as fast as on a healthy one, and never later than without headstart",
    claims: &[],
    conditions: names::ALL,
    speeds: Speeds::Namespaces,
    run,
};

/// Programs that need a second of the processor to start. A quick run of all conditions has them only where there is a
/// target for the fault itself, and where nothing is broken.
const SLOW_STARTERS: [&str; 2] = ["java", "chromium"];

/// Whether a run has a condition.
fn has(cx: &Context, fault: &str, program: &str) -> bool {
    let short = cx.quick && cx.conditions.is_none() && SLOW_STARTERS.contains(&program);
    let kept = fault == "healthy" || rows::LIMITS.iter().any(|(name, _)| *name == fault);
    cx.wants(&names::of(fault, program)) && (kept || !short)
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let headstart = cx.measured_program()?;
    let folder = Folder::new().context("making a folder for the programs' files")?;
    let programs = programs(cx, &headstart, &folder, &mut outcome);
    let faulty = fault::ALL.iter().map(|f| FaultyNetwork::of(f, cx.seed)).collect::<anyhow::Result<Vec<_>>>()?;
    let cases: Vec<Case<'_>> = faulty
        .iter()
        .flat_map(|faulty| programs.iter().map(|program| Case::new(faulty, program, &headstart)))
        .filter(|case| has(cx, case.faulty.fault.name, case.program.entry.name))
        .collect();
    if cx.quick && cx.conditions.is_none() {
        let (slow, kept) = (SLOW_STARTERS.join(" and "), rows::LIMITS.map(|(fault, _)| fault).join(", "));
        outcome.notes.push(format!("A quick run has {slow} over healthy, {kept} alone; the whole run has all."));
    }
    let size = if cx.quick { Size::QUICK } else { Size::FULL };
    let start_up = cx.wants(names::START_UP).then(|| measure::start_up(&headstart, size)).transpose()?;
    let measured = measure_all(cx, &cases, size, &mut outcome)?;
    for case in cases.iter().take(measured.len()) {
        outcome.condition(case.name.clone(), case.about());
    }
    if start_up.is_some() {
        let about = "A program that does nothing (`true`), from its start until its end has been noticed: the cost of starting \
                     and ending headstart, which is part of all times in other conditions.";
        outcome.condition(names::START_UP, about);
    }
    let cases: Vec<(&Case<'_>, Measured)> = cases.iter().zip(measured).collect();
    rows::report(&mut outcome, &cases, start_up.as_ref())?;
    outcome.method.extend(method(size));
    Ok(outcome)
}

/// Those that the wanted conditions need; says which are missing.
fn programs(cx: &Context, headstart: &Path, folder: &Folder, outcome: &mut Outcome) -> Vec<Program> {
    let mut ready = Vec::new();
    for entry in program::ALL.iter().filter(|p| p.covers(Scheme::Http)) {
        if !fault::ALL.iter().any(|f| has(cx, f.name, entry.name)) {
            continue;
        }
        // A program that cannot be had costs its own conditions and no others.
        match program::prepare(entry.name, headstart, folder) {
            Ok(Some(program)) => ready.push(program),
            Ok(None) => outcome.notes.push(format!("{} is left out: {}.", entry.name, entry.origin.missing())),
            Err(e) => {
                outcome.notes.push(format!("{} is left out: preparing it failed: {e:#}", entry.name));
            }
        }
    }
    ready
}

/// The cases in their order; fewer if the run was stopped.
fn measure_all(cx: &Context, cases: &[Case<'_>], size: &Size, outcome: &mut Outcome) -> anyhow::Result<Vec<Measured>> {
    let networks = waiting::networks(cases)?;
    std::thread::scope(|scope| {
        let mut waiting = waiting::launch(scope, cases, &networks, cx)?;
        let mut all: Vec<Measured> = Vec::new();
        let mut rest = cases;
        while let Some(first) = rest.first() {
            let of_place = rest.iter().take_while(|case| std::ptr::eq(case.faulty, first.faulty)).count();
            let (here, others) = rest.split_at(of_place);
            rest = others;
            let network = Network::build(&first.faulty.world).context("building the network")?;
            for case in here {
                if !cx.goes_on(outcome) {
                    rest = &[];
                    break;
                }
                cx.progress.step(all.len() as u64, cases.len() as u64, &case.name);
                all.push(measure::case(case, &network, &waiting[all.len()], size)?);
            }
            outcome.doubts_of(first.faulty.fault.name, network.certificate().doubt());
        }
        // Those that were not repeated in turns are what there is of the bare program.
        for (measured, waiting) in all.iter_mut().zip(waiting.drain(..)) {
            let ended = waiting.join()?;
            if measured.bare.is_empty() {
                measured.bare.extend(ended);
            }
        }
        Ok(all)
    })
}

fn method(size: &Size) -> [String; 3] {
    [
        format!(
            "Each program fetches a page of a few bytes, from its start to its end, alone and under `headstart run --quiet`, in \
             turns that start with either: as often as fits into {} s per condition, {} to {} times (once if a run takes {} s). \
             Link: lte (18 ms round trip), hosts 30 ms away, records after 20 ms unless said otherwise. Every run under headstart \
             has its own supervisor, without history, and where noted another run uses one that is already running, as the user's \
             is after the first program: it knows the network from earlier rounds, but not the name, and `headstart-run` starts \
             the program. In a session: a shell that runs under headstart starts the program, first visit; the time includes the \
             shell's fork, but no `headstart run`, and is compared with a program started by a shell alone. A run succeeds if the \
             page arrived, whatever the program reports (second visits: if the program exits successfully).",
            size.budget.as_secs_f64(),
            size.rounds.start(),
            size.rounds.end(),
            measure::LONG.as_secs(),
        ),
        format!(
            "Where a host without headstart is known to hang (virtual time), the bare programs first run all at once; those that \
             do not hang are then measured in turns. Runs are stopped after {} s and reported with that time. If no host can be \
             reached, the time until the program gives up counts.",
            case::CUT.as_secs()
        ),
        "Second visit: a shell runs the program twice under one `headstart run`; the second run, from the end of the first. It is \
         compared with the bare program, which keeps no history. Virtual time is shown beside the client, which only connects; it \
         does not include starting a program."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_no_condition_in_namespaces_is_refused_before_anything_starts() {
        let cx = Context { conditions: Some(vec!["sunny-curl".into()]), ..Context::new(1) };
        assert!(ENTRY.start(&cx).unwrap_err().to_string().contains("sunny-curl"));
        assert!(ENTRY.start(&Context::new(1)).unwrap_err().to_string().contains("give netns"));
    }
}
