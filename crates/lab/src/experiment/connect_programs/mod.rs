//! `connect-programs`: unmodified third-party programs fetch a page over an emulated dual-stack LTE link, bare and under
//! `headstart run`, where all is well and where IPv6 or its records are broken. What `headstart demo` shows first.
//!
//! A program that is not on the machine is left out; headstart's own client always runs. A run of the arm `headstart` is a
//! first visit: its supervisor knows nothing of the network. On the healthy network there is the arm `headstart-again` too: later
//! visits, by the user's usual supervisor, which was there before.

pub mod reading;

use super::stopwatch::{Ended, How, Supervisor, time, time_output};
use super::{Context, Entry, Outcome, Row, Series, Speeds};
use crate::netns::{Network, default_world};
use crate::program::{self, Folder, Program, Scheme, Url};
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "connect-programs",
    shows: "Where IPv6 or its DNS records are broken, unmodified programs fetch a page as fast as on a healthy network",
    claims: &[],
    conditions: &[
        "healthy-client",
        "healthy-curl",
        "healthy-wget",
        "healthy-python",
        "aaaa-lost-client",
        "aaaa-lost-curl",
        "aaaa-lost-wget",
        "aaaa-lost-python",
        "ipv6-black-hole-client",
        "ipv6-black-hole-curl",
        "ipv6-black-hole-wget",
        "ipv6-black-hole-python",
    ],
    speeds: Speeds::Namespaces,
    run,
};

/// The programs of the tour; `connect-faults` has all.
const PROGRAMS: [&str; 4] = ["client", "curl", "wget", "python"];

const METRIC: &str = "time to fetch a page";
/// A bare program that needs longer is cut; the cut is what is reported.
pub const CUT: Duration = Duration::from_secs(20);
/// Between two visits by one supervisor, at least: it has opened what it opens ahead, or closed what was not taken.
const PAUSE: Duration = Duration::from_millis(200);
/// The arm without headstart.
pub const BARE: &str = "bare";
const OURS: &str = "headstart";
const AGAIN: &str = "headstart-again";
/// How the note begins that has what `headstart explain` says of a connection.
pub const EXPLAINED: &str = "`headstart explain`";
/// The connection that is explained: of the first of these that was asked for and is there.
const STORIES: [&str; 2] = ["aaaa-lost-curl", "aaaa-lost-client"];

/// A network of the experiment.
#[derive(Debug)]
struct TestNetwork {
    network: &'static str,
    /// What a reader calls it.
    title: &'static str,
    host: &'static str,
    about: &'static str,
    /// Whether a bare program may take seconds, so that it is run once, beside the others that do.
    hard: bool,
}

/// The networks, those with most to gain first.
const NETWORKS: [TestNetwork; 3] = [
    TestNetwork {
        network: "aaaa-lost",
        title: "IPv6 answers lost",
        host: "aaaa-lost.lab.example",
        about: "AAAA queries are swallowed; glibc repeats them for 15 s.",
        hard: true,
    },
    TestNetwork {
        network: "ipv6-black-hole",
        title: "IPv6 black hole",
        host: "black-hole-v6.lab.example",
        about: "Packets to the IPv6 address vanish; the kernel repeats the SYN for 131 s.",
        hard: true,
    },
    TestNetwork {
        network: "healthy",
        title: "healthy network",
        host: "www.lab.example",
        about: "Both families answer, lookups too.",
        hard: false,
    },
];

/// A program in a place: one condition.
struct Case<'a> {
    tested: &'a TestNetwork,
    program: &'a Program,
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{}-{}", self.tested.network, self.program.entry.name)
    }

    fn about(&self) -> String {
        format!("{} The program: {}.", self.tested.about, self.program.entry.what)
    }

    fn url(&self) -> Url {
        Url::new(Scheme::Http, self.tested.host)
    }

    /// The program alone.
    fn bare(&self, at: &Site<'_>) -> anyhow::Result<Option<f64>> {
        let mut command = self.program.command(&self.url());
        at.network.adopt(&mut command)?;
        self.watched(at, BARE, || time(&mut command, CUT))
    }

    /// A first visit under headstart.
    fn first(&self, at: &Site<'_>) -> anyhow::Result<Option<f64>> {
        let mut run = Command::new(&at.headstart);
        run.args(["run", "--private", "--quiet", "--"]);
        let mut command = self.program.command_behind(run, &self.url());
        at.network.adopt(&mut command)?;
        self.watched(at, OURS, || time(&mut command, CUT))
    }

    /// A visit under headstart by the supervisor at home in `home`.
    fn visit(&self, at: &Site<'_>, home: &Path) -> anyhow::Result<Ended> {
        let mut run = Command::new(&at.headstart);
        run.args(["run", "--quiet", "--"]);
        let mut command = self.program.command_behind(run, &self.url());
        at.network.adopt(&mut command)?;
        time_output(&mut command, CUT, Supervisor::Usual(home), |_| true)
    }

    /// A run, in milliseconds; none if it failed.
    fn watched(
        &self,
        at: &Site<'_>,
        arm: &str,
        run: impl FnOnce() -> anyhow::Result<Ended>,
    ) -> anyhow::Result<Option<f64>> {
        at.cx.progress.run_begins(&self.name(), arm);
        let ended = run()?;
        let ms = (ended.how != How::Failed).then(|| ended.millis());
        at.cx.progress.run_ended(&self.name(), arm, ms);
        Ok(ms)
    }
}

/// Where the programs run.
struct Site<'a> {
    cx: &'a Context,
    network: Network,
    headstart: PathBuf,
}

impl Site<'_> {
    /// How often a program runs under headstart. A gain of seconds needs few runs to be seen, one of milliseconds more.
    fn rounds(&self, hard: bool) -> usize {
        match (self.cx.quick, hard) {
            (true, true) => 3,
            (true, false) => 6,
            (false, _) => 20,
        }
    }
}

/// What the programs of a case took.
#[derive(Default)]
struct Taken {
    bare: Vec<Option<f64>>,
    ours: Vec<Option<f64>>,
    again: Vec<Option<f64>>,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let headstart = cx.measured_program()?;
    let site = Site { cx, network: Network::build(&default_world("lte"))?, headstart };
    let folder = Folder::new().context("making a folder for the programs' files")?;
    let programs = PROGRAMS.iter().filter_map(|name| program::prepare(name, &site.headstart, &folder).transpose());
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let cases = NETWORKS.iter().flat_map(|tested| programs.iter().map(move |program| Case { tested, program }));
    let cases: Vec<Case<'_>> = cases.filter(|c| cx.wants(&c.name())).collect();
    let taken = std::thread::scope(|scope| -> anyhow::Result<Vec<Taken>> {
        // Bare programs that wait for many seconds need no processor meanwhile: they all wait at once, beside the rest.
        let site = &site;
        let waiting: Vec<_> = cases.iter().map(|c| c.tested.hard.then(|| scope.spawn(|| c.bare(site)))).collect();
        let mut taken = Vec::new();
        for (n, case) in cases.iter().enumerate() {
            cx.progress.step(n as u64, cases.len() as u64, &case.name());
            taken.push(in_turns(case, site)?);
        }
        cx.progress.step(cases.len() as u64, cases.len() as u64, "programs without headstart that still wait");
        let story = STORIES.iter().find_map(|name| cases.iter().find(|case| case.name() == *name));
        outcome.notes.extend(story.map(|case| explained(case, site)).transpose()?.flatten());
        for (taken, waiting) in taken.iter_mut().zip(waiting) {
            if let Some(thread) = waiting {
                taken.bare.push(thread.join().map_err(|_| anyhow::anyhow!("a thread that runs a program panicked"))??);
            }
        }
        Ok(taken)
    })?;
    for (case, taken) in cases.iter().zip(taken) {
        compare(case, taken, &mut outcome)?;
    }
    outcome.method.push(format!(
        "Each program runs {} times, from its start to its end, alone and under `headstart run`, taking turns; if it alone may \
         need many seconds, {} times under `headstart run` and once alone, cut after {} s. The page is a few bytes, so nearly all \
         of the time is connecting, apart from the start of the program itself (and of headstart). {AGAIN}: later visits, at \
         least {} ms apart, by one supervisor. Link: lte (18 ms round trip).",
        site.rounds(false),
        site.rounds(true),
        CUT.as_secs(),
        PAUSE.as_millis()
    ));
    outcome.doubts(site.network.certificate().doubt());
    Ok(outcome)
}

/// Runs of a case in turns, the first one changing, so that a disturbance meets all arms.
fn in_turns(case: &Case<'_>, site: &Site<'_>) -> anyhow::Result<Taken> {
    let mut taken = Taken::default();
    // A program that waits for seconds by itself runs beside this one; on later visits its name is known to be broken, which is
    // nothing to show.
    let home = (!case.tested.hard).then(Folder::new).transpose().context("making a home for a supervisor")?;
    if let Some(home) = &home {
        // The first visit teaches the supervisor, and does not count.
        case.visit(site, home.path())?;
    }
    let clock = site.network.clock();
    let mut visited = clock.now();
    for round in 0..site.rounds(case.tested.hard) {
        if round % 2 == 1 && !case.tested.hard {
            taken.bare.push(case.bare(site)?);
        }
        taken.ours.push(case.first(site)?);
        if let Some(home) = &home {
            // The other runs are part of the pause.
            clock.sleep_until(visited + PAUSE);
            taken.again.push(case.watched(site, AGAIN, || case.visit(site, home.path()))?);
            visited = clock.now();
        }
        if round % 2 == 0 && !case.tested.hard {
            taken.bare.push(case.bare(site)?);
        }
    }
    Ok(taken)
}

/// A note with what `headstart explain` says of a first visit; none if it cannot.
fn explained(case: &Case<'_>, site: &Site<'_>) -> anyhow::Result<Option<String>> {
    let (home, host) = (Folder::new().context("making a home for a supervisor")?, case.tested.host);
    case.visit(site, home.path())?;
    let mut command = Command::new(&site.headstart);
    command.args(["explain", host]).env("XDG_RUNTIME_DIR", home.path()).env("XDG_STATE_HOME", home.path());
    site.network.adopt(&mut command)?;
    let said = command.output().context("starting headstart explain")?;
    let note = || {
        format!(
            "{EXPLAINED} {host} after a visit of {}:\n{}",
            case.name(),
            String::from_utf8_lossy(&said.stdout).trim_end()
        )
    };
    Ok(said.status.success().then(note))
}

/// The rows and samples of a case.
fn compare(case: &Case<'_>, taken: Taken, outcome: &mut Outcome) -> anyhow::Result<()> {
    let name = case.name();
    let series = |arm, values| Series::with_failures(&name, METRIC, "ms", arm, values);
    let (bare, ours, again) = (series(BARE, taken.bare), series(OURS, taken.ours), series(AGAIN, taken.again));
    outcome.condition(name.clone(), case.about());
    outcome.failures(&ours, &bare);
    for arm in [&ours, &again] {
        if !arm.present().is_empty() && !bare.present().is_empty() {
            outcome.rows.push(Row::compare(arm, &bare, Statistic::Median, Pairing::Unpaired, outcome.seed)?);
        }
    }
    outcome.samples.extend([bare, ours, again].into_iter().filter(|s| !s.values.is_empty()));
    Ok(())
}
