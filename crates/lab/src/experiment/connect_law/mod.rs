//! `connect-law`: never less able, with real programs. Each program of the registry and of its table of lines goes to a host of
//! each network of [`crate::condition::law`], bare and under `headstart run` by each front end, and what leaves it is seen on the
//! wire; the law of docs/decisions/0055 says what must hold. An instrument: the only number is zero.
//!
//! Runs share the machine, since they wait most of the time. What breaks the law is played again with less beside it, and
//! counts only if every one of these runs breaks it in the same way.

mod judge;
mod round;

use super::{Context, Entry, Outcome, Row, Speeds, crew};
use crate::condition::law;
use crate::experiment::target::Target;
use crate::program::line::LINES;
use crate::program::{self, Folder, Origin, Scheme};
use anyhow::Context as _;
use headstart_core::time::Duration;
use judge::{Breach, judge, quickest};
use round::{Arm, Ready, Seen, play};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "connect-law",
    shows: "Every program that connects without headstart also connects with it, no later and with no more SYNs",
    claims: &[],
    conditions: &NAMES,
    speeds: Speeds::Namespaces,
    run,
};

const NAMES: [&str; law::ALL.len()] = {
    let (mut names, mut n) = ([""; law::ALL.len()], 0);
    while n < names.len() {
        names[n] = law::ALL[n].name;
        n += 1;
    }
    names
};

/// Programs of a quick run: a caller of each kind.
const HANDFUL: [&str; 6] = ["curl", "wget", "python", "go", "node", "socat"];
/// Networks at once.
const AT_ONCE: usize = 6;
/// The same where the first runs are doubted.
const AGAIN_AT_ONCE: usize = 3;
/// SYNs of a breach that the report lists.
const SYNS: usize = 8;
/// Times that a breach is played again.
const AGAIN: usize = 3;

/// A program in a network, and what was seen of it by each arm.
struct Case<'a> {
    place: &'static law::Network,
    ready: &'a Ready,
    seen: Vec<Seen>,
}

impl Case<'_> {
    fn addresses(&self) -> usize {
        let world = self.place.world(0);
        world.sites.iter().map(|site| site.v4.len() + site.v6.len()).sum()
    }

    /// The breaches of each front end.
    fn breaches(&self) -> Vec<(usize, Vec<Breach>)> {
        let Some((bare, ours)) = self.seen.split_first() else { return Vec::new() };
        let judged = ours.iter().enumerate().map(|(n, seen)| (n + 1, self.judge(bare, seen)));
        judged.filter(|(_, breaches)| !breaches.is_empty()).collect()
    }

    fn judge(&self, bare: &Seen, ours: &Seen) -> Vec<Breach> {
        let mut breaches = judge(bare, ours, self.addresses());
        // What is opened ahead of a program that cannot be given it is one SYN an address.
        breaches.retain(|breach| !self.ready.is_uncovered() || *breach != Breach::OneSynASecond);
        breaches
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let headstart = cx.measured_program()?;
    let folder = Folder::new().context("making a folder for the programs' files")?;
    let programs = programs(cx, &headstart, &folder, &mut outcome)?;
    let places = law::ALL.iter().filter(|place| cx.wants(place.name));
    let mut cases: Vec<Case<'_>> =
        places.flat_map(|place| programs.iter().map(move |ready| Case { place, ready, seen: Vec::new() })).collect();
    play_all(cx, &mut cases, &headstart)?;
    cases.retain(|case| case.seen.len() == Arm::ALL.len());
    let breaches = confirmed(cx, &mut cases, &headstart)?;
    if cx.progress.stop() {
        outcome.invalidate("it was stopped early: not all cases were run, or repeated");
    }
    report(&mut outcome, &cases, &breaches);
    Ok(outcome)
}

/// All that are wanted and are on this machine; says which are missing.
fn programs(cx: &Context, headstart: &Path, folder: &Folder, outcome: &mut Outcome) -> anyhow::Result<Vec<Ready>> {
    let wanted = |name: &&str| !cx.quick || HANDFUL.contains(name);
    let mut ready = Vec::new();
    let mut missing = Vec::new();
    // Headstart's own client says nothing to the server that it has reached, and so cannot be heard.
    let others = program::ALL.iter().filter(|p| p.covers(Scheme::Http) && p.origin != Origin::Own);
    for entry in others.filter(|p| wanted(&p.name)) {
        match program::prepare(entry.name, headstart, folder) {
            Ok(Some(program)) => ready.push(Ready::Page(program)),
            Ok(None) => missing.push(format!("{} ({})", entry.name, entry.origin.missing())),
            Err(e) => missing.push(format!("{} (preparing it failed: {e:#})", entry.name)),
        }
    }
    for line in LINES.iter().filter(|line| wanted(&line.name)) {
        let workdir = folder.of(line.name).with_context(|| format!("making a folder for {}", line.name))?;
        match line.prepare(&workdir) {
            Ok(Some(prepared)) => ready.push(Ready::Line(prepared)),
            Ok(None) => missing.push(format!("{} (Debian package: {})", line.name, line.package)),
            Err(e) => missing.push(format!("{} (preparing it failed: {e:#})", line.name)),
        }
    }
    if !missing.is_empty() {
        outcome.notes.push(format!("Not installed on this machine, so not run: {}.", missing.join(", ")));
    }
    Ok(ready)
}

/// Plays every case by every arm.
fn play_all(cx: &Context, cases: &mut [Case<'_>], headstart: &Path) -> anyhow::Result<()> {
    let (total, done) = (cases.len() as u64, AtomicU64::new(0));
    crew::each(AT_ONCE, cases.iter_mut(), |case| {
        if cx.progress.stop() {
            return Ok(());
        }
        let name = format!("{}, {}", case.place.name, case.ready.name());
        cx.progress.step(done.fetch_add(1, Ordering::Relaxed), total, &name);
        for arm in Arm::ALL {
            case.seen.push(play(case.place, case.ready, arm, headstart, cx.seed).with_context(|| name.clone())?);
        }
        Ok(())
    })
    .map(drop)
}

/// A breach that came every time: where, by which arm, which; and the quickest runs, of the program alone and by the arm.
struct Confirmed {
    case: usize,
    arm: usize,
    breach: Breach,
    runs: [Seen; 2],
}

/// Plays again what broke the law; what breaks it every time, and later than alone is what is so in the quickest runs of both.
fn confirmed(cx: &Context, cases: &mut [Case<'_>], headstart: &Path) -> anyhow::Result<Vec<Confirmed>> {
    let suspects: Vec<_> = cases
        .iter_mut()
        .enumerate()
        .map(|(n, case)| (n, case.breaches(), case))
        .filter(|(_, b, _)| !b.is_empty())
        .collect();
    let (total, done) = (suspects.len() as u64, AtomicU64::new(0));
    let all = crew::each(AGAIN_AT_ONCE, suspects.into_iter(), |(n, suspected, case)| {
        let mut confirmed = Vec::new();
        let name = format!("{}, {} again", case.place.name, case.ready.name());
        cx.progress.step(done.fetch_add(1, Ordering::Relaxed), total, &name);
        for (arm, mut breaches) in suspected {
            let mut runs = [0, arm].map(|which| vec![case.seen[which].clone()]);
            for _ in 0..AGAIN {
                if cx.progress.stop() {
                    return Ok(confirmed);
                }
                for (which, runs) in [0, arm].into_iter().zip(&mut runs) {
                    runs.push(play(case.place, case.ready, Arm::ALL[which], headstart, cx.seed)?);
                }
                let [bare, ours] = &runs;
                let last = case.judge(&bare[bare.len() - 1], &ours[ours.len() - 1]);
                let best =
                    quickest(bare).zip(quickest(ours)).map(|(bare, ours)| case.judge(bare, ours)).unwrap_or_default();
                let stays = |breach: &Breach| if *breach == Breach::InTime { &best } else { &last }.contains(breach);
                breaches.retain(stays);
                if breaches.is_empty() {
                    break;
                }
            }
            let runs = runs.map(|runs| quickest(&runs).cloned().unwrap_or_default());
            (case.seen[0], case.seen[arm]) = (runs[0].clone(), runs[1].clone());
            let found = breaches.into_iter().map(|breach| Confirmed { case: n, arm, breach, runs: runs.clone() });
            confirmed.extend(found);
        }
        Ok(confirmed)
    })?;
    Ok(all.into_iter().flatten().collect())
}

/// Rows of all that was seen, and what it comes to.
fn report(outcome: &mut Outcome, cases: &[Case<'_>], breaches: &[Confirmed]) {
    let mut places: BTreeMap<&str, &law::Network> = BTreeMap::new();
    for case in cases {
        places.insert(case.place.name, case.place);
        let (bare, ours) = case.seen.split_first().expect("every case was run");
        for (arm, seen) in Arm::ALL[1..].iter().zip(ours) {
            let row = |metric: &str, unit: &str, ours: Option<f64>, bare: Option<f64>| {
                let metric = format!("{}: {metric}", case.ready.name());
                let ratio = ours.zip(bare).filter(|(_, bare)| *bare > 0.0).map(|(ours, bare)| ours / bare);
                let baseline_arm = bare.map(|_| Arm::Bare.name().to_owned());
                let measured = Row::measured(case.place.name, &metric, unit, arm.name(), ours?);
                Some(Row { baseline_arm, baseline: bare, ratio, ..measured })
            };
            let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
            let syns = |seen: &Seen| Some(seen.syns.len() as f64);
            let given_up = |seen: &Seen| ms(seen.ended.filter(|_| seen.sent.is_none()));
            let rows = [
                row("until it sends something", "ms", ms(seen.sent), ms(bare.sent)),
                row("until it gives up", "ms", given_up(seen), given_up(bare)),
                row("SYNs", "SYNs", syns(seen), syns(bare)),
            ];
            outcome.rows.extend(rows.into_iter().flatten());
        }
    }
    for place in law::ALL.iter().filter(|place| places.contains_key(place.name)) {
        let found = breaches.iter().filter(|b| cases[b.case].place.name == place.name).count();
        outcome.rows.push(Row::measured(place.name, "breaches", "runs", "headstart", found as f64));
        outcome.condition(place.name, format!("As `healthy`, but {}.", place.what));
    }
    let total = Target::AtMost(0.0).note("Breaches of the law", breaches.len() as f64, "runs");
    let runs = cases.len() * (Arm::ALL.len() - 1);
    outcome.notes.push(format!("{total}, of {runs} runs under headstart of {} programs.", count(cases)));
    for Confirmed { case, arm, breach, runs: [bare, ours] } in breaches {
        let case = &cases[*case];
        outcome.notes.push(format!(
            "{}, {} by {}: {breach} ({}; bare {}).",
            case.place.name,
            case.ready.name(),
            Arm::ALL[*arm].name(),
            describe(ours),
            describe(bare)
        ));
    }
    let uncovered: Vec<_> = LINES.iter().filter(|line| line.uncovered).map(|line| line.name).collect();
    outcome.notes.push(format!("Not covered by headstart, but judged too: {}.", uncovered.join(", ")));
}

/// What was seen of a run, with its first SYNs.
fn describe(seen: &Seen) -> String {
    let in_ms = |time: &Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    let ms = |time: Option<Duration>| time.map_or_else(|| "never".to_owned(), |time| in_ms(&time));
    let syns: Vec<_> = seen.syns.iter().take(SYNS).map(|(to, at)| format!("{to} at {}", in_ms(at))).collect();
    let (count, of) = (seen.syns.len(), if seen.syns.len() > SYNS { "the first of " } else { "" });
    format!("sent something: {}, ended: {}, {of}{count} SYNs: {}", ms(seen.sent), ms(seen.ended), syns.join(", "))
}

fn count(cases: &[Case<'_>]) -> usize {
    cases.iter().map(|case| case.ready.name()).collect::<std::collections::BTreeSet<_>>().len()
}

const METHOD: [&str; 2] = [
    "Each program goes to a host of each network, alone and under `headstart run --private --via` auto, preload and seccomp, each \
     time in a network of its own. It has reached the host when data of its own leaves the client on a connection to it; it is \
     stopped 20 s after its start, or 2 s after that data. Every SYN to a host is counted where it leaves the client.",
    "The law: a program that connects alone also connects under headstart, no later than alone by more than 50 ms or 10 %, \
     whichever is more, even where it can only give up after trying every address; no second SYN within a second to an address \
     that does not answer, if it sends fewer there alone; where nothing can be reached, at most its own SYNs and one an address; \
     it ends well where it does alone. A violation is repeated three times with fewer other runs, and counts if all of these \
     violate the law too; a delay counts if it remains between the fastest runs of both.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_programs_that_exist() {
        let all = || program::ALL.iter().map(|p| p.name).chain(LINES.iter().map(|l| l.name));
        assert!(HANDFUL.iter().all(|name| all().any(|other| other == *name)));
    }

    #[test]
    fn a_breach_is_reported_beside_the_program_alone() {
        let folder = tempfile::tempdir().unwrap();
        let ready = Ready::Page(
            program::find_entry("client").unwrap().prepare(Path::new("/x"), folder.path()).unwrap().unwrap(),
        );
        let ms = headstart_core::time::Duration::from_millis;
        let seen = |said: Option<u64>| Seen { sent: said.map(ms), ..Seen::default() };
        let seen = vec![seen(Some(100)), seen(Some(90)), seen(Some(400)), seen(None)];
        let cases = [Case { place: &law::ALL[0], ready: &ready, seen }];
        assert_eq!(cases[0].breaches(), [(2, vec![Breach::InTime]), (3, vec![Breach::Reaches])]);
        let runs = [0, 2].map(|arm| cases[0].seen[arm].clone());
        let breaches = [Confirmed { case: 0, arm: 2, breach: Breach::InTime, runs }];
        let mut outcome = Outcome::new(ENTRY.name, 1);
        report(&mut outcome, &cases, &breaches);
        outcome.check().unwrap();
        assert!(
            outcome.notes[0].contains("1.00 runs, target at most 0 runs: MISSED, of 3 runs"),
            "{:?}",
            outcome.notes
        );
        assert!(
            outcome.notes[1].starts_with("healthy, client by preload: is later (sent something: 400 ms"),
            "{:?}",
            outcome.notes
        );
        let row =
            outcome.rows.iter().find(|r| r.arm == "auto" && r.metric == "client: until it sends something").unwrap();
        assert_eq!((row.ours, row.baseline), (90.0, Some(100.0)));
    }
}
