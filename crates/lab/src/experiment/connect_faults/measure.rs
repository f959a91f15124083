//! What programs take in a place, bare and under headstart, in turns.

use super::case::{CUT, Case, usual, value};
use super::waiting::Waiting;
use crate::experiment::stopwatch::{Ended, How, SESSION, SHELL, Supervisor, time, time_output, time_second};
use crate::netns::Network;
use crate::program::Folder;
use anyhow::Context as _;
use headstart_core::time::Duration;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

/// What takes this long is not repeated.
pub const LONG: Duration = Duration::from_secs(5);
/// A program that only starts another and waits for its end, the least that any launcher takes: timeout(1), GNU's or another.
pub const LAUNCHER: &str = "timeout";
/// Between two runs in a network that they change: what the last has sent is received, or lost, by then.
const SETTLE: Duration = Duration::from_millis(100);

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Size {
    /// For the rounds of a condition.
    pub budget: Duration,
    /// Rounds, whatever the budget says.
    pub rounds: RangeInclusive<usize>,
    /// Second visits, as often as this.
    pub second: usize,
    /// Second visits and the user's supervisor for these programs only, by their names; for all if there is no list.
    pub second_of: Option<&'static [&'static str]>,
    /// Rounds of a program that does nothing.
    pub start_up: usize,
}

impl Size {
    /// Shows that it works.
    pub const QUICK: &Self = &Self {
        budget: Duration::from_millis(700),
        rounds: 1..=3,
        second: 1,
        second_of: Some(&["client", "curl", "wget", "python", "go"]),
        start_up: 10,
    };
    /// Enough for a median and its interval.
    pub const FULL: &Self =
        &Self { budget: Duration::from_secs(10), rounds: 5..=20, second: 5, second_of: None, start_up: 40 };
}

/// The runs of a condition, in milliseconds; none for a run that did not do what it was to do.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of the program alone.
    pub bare: Vec<Option<f64>>,
    /// Under headstart, first visits.
    pub ours: Vec<Option<f64>>,
    /// Under headstart, first visits to names, by a supervisor that runs and knows the network.
    pub usual: Vec<Option<f64>>,
    /// First visits of a program that is started by a shell under headstart: `headstart run` is not waited for again.
    pub session: Vec<Option<f64>>,
    /// Of the program alone, started by a shell.
    pub shell: Vec<Option<f64>>,
    /// Under headstart, second visits.
    pub second: Vec<Option<f64>>,
    /// Of the program alone, started by [`LAUNCHER`].
    pub launched: Vec<Option<f64>>,
}

/// Measures a condition. The bare program is left out where it hangs.
pub fn case(case: &Case<'_>, network: &Network, waiting: &Waiting<'_, '_>, size: &Size) -> anyhow::Result<Measured> {
    let again = || -> anyhow::Result<()> {
        if case.faulty.changes() {
            network.clock().sleep(SETTLE);
            network.rewind()?;
        }
        Ok(())
    };
    let mut measured = Measured::default();
    let mut spent = Duration::ZERO;
    let mut longest = Duration::ZERO;
    let in_turns = waiting.is_quick();
    // Where the network changes about the first name, or leads nowhere, there is no other name to be asked for.
    let of_interest = size.second_of.is_none_or(|names| names.contains(&case.program.entry.name));
    let several = of_interest && !case.faulty.hopeless && !case.faulty.changes();
    let home = several.then(Folder::new).transpose().context("making a home for a supervisor")?;
    let mut round = 0;
    loop {
        for ours in [round % 2 == 0, round % 2 == 1] {
            if !ours && !in_turns {
                continue;
            }
            again()?;
            let mut command = if ours { case.with_headstart(network, &[])? } else { case.bare(network)? };
            let ended = case.time(&mut command, Supervisor::Own)?;
            if ours { &mut measured.ours } else { &mut measured.bare }.push(value(case.faulty, ended));
            spent += ended.after;
            longest = longest.max(ended.after);
        }
        if let Some(home) = &home {
            // The first run starts the supervisor, and is not counted.
            for n in if round == 0 { 0..=1 } else { round + 1..=round + 1 } {
                let ended = case.time(&mut case.with_usual(network, n)?, Supervisor::Usual(home.path()))?;
                measured.usual.extend((n > 0).then(|| value(case.faulty, ended)));
                spent += ended.after;
            }
            for ours in [round % 2 == 0, round % 2 == 1] {
                if !ours && !in_turns {
                    continue;
                }
                let ended = in_session(case, network, ours)?;
                let all = if ours { &mut measured.session } else { &mut measured.shell };
                all.push(ended.and_then(|ended| value(case.faulty, ended)));
                spent += ended.map_or(CUT, |ended| ended.after);
            }
        }
        round += 1;
        let next = spent / round * (round + 1);
        let enough = next > size.budget && round as usize >= *size.rounds.start();
        if enough || longest >= LONG || round as usize >= *size.rounds.end() {
            break;
        }
    }
    // Where everything is in vain, and where the network has changed for good, there is nothing to remember.
    if several && longest < LONG {
        measured.second = (0..size.second).map(|_| second(case, network)).collect::<anyhow::Result<_>>()?;
    }
    Ok(measured)
}

/// A first visit of a program that a shell starts, under headstart or alone; none if it did not end in time.
fn in_session(case: &Case<'_>, network: &Network, ours: bool) -> anyhow::Result<Option<Ended>> {
    let mut shell = if ours { case.with_headstart(network, &SESSION)? } else { case.bare_behind(network, &SESSION)? };
    time_second(&mut shell, CUT)
}

/// A second visit under headstart.
fn second(case: &Case<'_>, network: &Network) -> anyhow::Result<Option<f64>> {
    let mut shell = case.with_headstart(network, &SHELL)?;
    Ok(time_second(&mut shell, CUT)?.and_then(|ended| value(case.faulty, ended)))
}

/// A program that does nothing, alone and under headstart, and started by [`LAUNCHER`] where there is one.
pub fn start_up(headstart: &Path, size: &Size) -> anyhow::Result<Measured> {
    let find = |name| headstart_io::program::find(OsStr::new(name), std::env::var_os("PATH").as_deref());
    let launcher = find(LAUNCHER);
    let program =
        find("true").context("the program `true` is not in PATH: add the folder of your system's programs")?;
    let mut measured = Measured::default();
    let home = Folder::new().context("making a home for a supervisor")?;
    for round in 0..size.start_up {
        // The first run starts the supervisor, and is not counted.
        for counts in if round == 0 { &[false, true][..] } else { &[true] } {
            let ended = time_output(usual(headstart).arg(&program), CUT, Supervisor::Usual(home.path()), |_| true)?;
            measured.usual.extend(counts.then(|| (ended.how == How::Well).then(|| ended.millis())));
        }
        for ours in [round % 2 == 0, round % 2 == 1] {
            let mut command = Command::new(if ours { headstart } else { &program });
            if ours {
                command.args(["run", "--private", "--quiet", "--"]).arg(&program);
            }
            let ended = time(&mut command, CUT)?;
            let all = if ours { &mut measured.ours } else { &mut measured.bare };
            all.push((ended.how == How::Well).then(|| ended.millis()));
        }
        if let Some(launcher) = &launcher {
            let ended = time(Command::new(launcher).arg(CUT.as_secs().to_string()).arg(&program), CUT)?;
            measured.launched.push((ended.how == How::Well).then(|| ended.millis()));
        }
    }
    Ok(measured)
}
