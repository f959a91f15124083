//! `interposition`: unmodified third-party programs, bare and under each front end of `headstart run`: whether
//! headstart had a part in what they did, and whether what they fetched and sent is the same, byte for byte. An
//! instrument.
//!
//! Over HTTPS and SSH, on both families, from the lab's own servers. A program that is not on the machine is left out,
//! and a note says so; nothing is installed.

mod comparison;
mod cost;
mod trial;

pub use comparison::{Compared, Scene};

use super::{Condition, Context, Entry, Outcome, Price, Row, Speeds};
use crate::netns::{Network, default_world};
use crate::program::{self, Folder};
use crate::server::suite::Suite;
use anyhow::Context as _;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "interposition",
    shows: "Every kind of unmodified program is covered by at least one front end and fetches the same bytes under each",
    claims: &[],
    conditions: &[
        "curl",
        "wget",
        "python",
        "requests",
        "aiohttp",
        "asyncio",
        "node",
        "node-resolve",
        "java",
        "go",
        "git",
        "git-ssh",
        "nginx",
        "nginx-resolver",
        "chromium",
        cost::CONDITION,
    ],
    speeds: Speeds::Namespaces,
    run,
};

/// The front ends that programs are run under, as `headstart run --via` takes them.
pub const FRONT_ENDS: &[&str] = &["preload", "seccomp", "auto"];

/// Fast enough that 3 MiB take no time worth waiting for, and with a round trip that is long enough for an attempt to be
/// under way for a while.
pub const LINK: &str = "rate=100mbit,delay=5ms";

const COVERED: &str = "covered";
const IDENTICAL: &str = "content byte-identical";
const BY_ANY: &str = "covered by at least one";
/// The counters that are shown as prices.
const SHOWN: [&str; 8] = [
    "resolved",
    "cache_hits",
    "cache_misses",
    "queries",
    "attempts",
    "handed_over",
    "handed_over_in_progress",
    "unused",
];
/// The arm of [`BY_ANY`].
const ANY: &str = "any";

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let network = Network::build(&default_world(LINK))?;
    let headstart = cx.measured_program()?;
    let folder = Folder::new().context("making a folder for the programs' files")?;
    let names: Vec<_> = ENTRY.conditions.iter().filter(|name| **name != cost::CONDITION && cx.wants(name)).collect();
    let suite = Suite::start(&network, &folder)?;
    let scene = Scene { network: &network, suite: &suite, headstart: &headstart, folder: &folder };
    for (n, name) in names.iter().enumerate() {
        cx.progress.step(n as u64, names.len() as u64, name);
        if cx.progress.stop() {
            outcome.invalidate("it was stopped early");
            break;
        }
        let entry = program::find_entry(name)?;
        let program = match program::prepare(name, &headstart, &folder) {
            Ok(Some(program)) => program,
            Ok(None) => {
                outcome.notes.push(format!("{name} is left out: {}.", entry.origin.missing()));
                continue;
            }
            Err(e) => {
                outcome.notes.push(format!("{name} is left out: preparing it failed: {e:#}"));
                continue;
            }
        };
        match scene.compare(&program, FRONT_ENDS)? {
            Ok(compared) => {
                outcome.conditions.push(Condition { name: (*name).to_string(), about: format!("{}.", entry.what) });
                report(&mut outcome, name, compared);
            }
            Err(why) => outcome.notes.push(format!("{name} is left out: {why}")),
        }
    }
    if cx.wants(cost::CONDITION) {
        let about = "A blocking connect of a TCP socket on loopback, which headstart lets pass.".into();
        outcome.conditions.push(Condition { name: cost::CONDITION.into(), about });
        cost::measure(cx, &network, &headstart, &mut outcome)?;
    }
    outcome.method.push(
        "Each program fetches a small page from a dual-stack name, 3 MiB from a name with IPv4 only, and sends 3 MiB to a name \
         with IPv6 only and gets them back (programs that send nothing fetch the small page there): over HTTPS, git also over \
         SSH; bare, then under each front end. Covered: in each of these, headstart answered a lookup or handed over a \
         connection. Byte-identical: the output equals that of the bare program and the server's content."
            .into(),
    );
    Ok(outcome)
}

fn report(outcome: &mut Outcome, name: &str, compared: Vec<(&'static str, Compared)>) {
    let row = |metric, arm, is: bool| Row::measured(name, metric, "", arm, if is { 1.0 } else { 0.0 });
    let covered = compared.iter().any(|(_, c)| c.covered);
    for (arm, compared) in compared {
        outcome.rows.push(row(COVERED, arm, compared.covered));
        outcome.rows.push(row(IDENTICAL, arm, compared.differences.is_empty()));
        let notes = compared.differences.iter().chain(&compared.remarks);
        outcome.notes.extend(notes.map(|what| format!("{name} under {arm}, {what}")));
        for what in SHOWN {
            let Some(n) = compared.counts.get(what) else { continue };
            outcome.prices.push(Price {
                condition: name.into(),
                arm: arm.into(),
                what: what.replace('_', " "),
                unit: String::new(),
                amount: *n as f64,
            });
        }
    }
    outcome.rows.push(row(BY_ANY, ANY, covered));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{ALL, Scheme};

    #[test]
    fn every_program_of_the_registry_that_speaks_securely_has_its_condition() {
        let secure = |schemes: &[Scheme]| schemes.iter().any(|s| *s != Scheme::Http);
        let names: Vec<_> = ALL.iter().filter(|entry| secure(entry.schemes)).map(|entry| entry.name).collect();
        let conditions: Vec<_> = ENTRY.conditions.iter().copied().filter(|c| *c != cost::CONDITION).collect();
        assert_eq!(names, conditions);
    }

    #[test]
    fn a_program_is_covered_if_one_front_end_covers_it_and_a_difference_is_told() {
        let mut outcome = Outcome::new(ENTRY.name, 1);
        let with = Compared { covered: true, differences: vec!["a page: other".into()], ..Compared::default() };
        let without = Compared { remarks: vec!["not covered".into()], ..Compared::default() };
        report(&mut outcome, "curl", vec![("one", without), ("two", with)]);
        outcome.check().unwrap();
        let ours: Vec<_> = outcome.rows.iter().map(|r| (r.arm.as_str(), r.metric.as_str(), r.ours)).collect();
        assert_eq!(
            ours,
            [
                ("one", COVERED, 0.0),
                ("one", IDENTICAL, 1.0),
                ("two", COVERED, 1.0),
                ("two", IDENTICAL, 0.0),
                ("any", BY_ANY, 1.0)
            ]
        );
        assert_eq!(outcome.notes, ["curl under one, not covered", "curl under two, a page: other"]);
    }
}
