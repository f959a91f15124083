//! `connect-programs`: unmodified third-party programs fetch a page over an emulated dual-stack LTE link, bare and under
//! `headstart run`, where all is well and where IPv6 or its records are broken. What `headstart demo` shows first.
//!
//! A program that is not on the machine is left out; headstart's own client always runs. Every run under headstart is a
//! first visit: its supervisor knows nothing of the network.

use super::stopwatch::{How, time};
use super::{Condition, Context, Entry, Outcome, Row, Series, Speeds};
use crate::netns::{Network, default_world};
use crate::program::{self, Folder, Program, Scheme, Url};
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::time::Duration;
use std::path::Path;
use std::process::Command;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "connect-programs",
    shows: "Unmodified programs fetch a page as soon as on a good network where IPv6 or its DNS records are broken",
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

/// Whom the tour shows; `connect-faults` has them all.
const PROGRAMS: [&str; 4] = ["client", "curl", "wget", "python"];

const METRIC: &str = "time to fetch a page";
/// A bare program that needs longer is cut; the cut is what is reported.
const CUT: Duration = Duration::from_secs(20);

struct Place {
    network: &'static str,
    host: &'static str,
    about: &'static str,
    /// Whether a bare program may take seconds, so that it is run once, beside the others that do.
    hard: bool,
}

const PLACES: [Place; 3] = [
    Place { network: "healthy", host: "www.lab.example", about: "Both families answer, lookups too.", hard: false },
    Place {
        network: "aaaa-lost",
        host: "aaaa-lost.lab.example",
        about: "AAAA queries are swallowed; glibc repeats them for 15 s.",
        hard: true,
    },
    Place {
        network: "ipv6-black-hole",
        host: "black-hole-v6.lab.example",
        about: "Packets to the IPv6 address vanish; the kernel repeats the SYN for 131 s.",
        hard: true,
    },
];

/// A program in a place: one condition.
struct Case<'a> {
    place: &'a Place,
    program: &'a Program,
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{}-{}", self.place.network, self.program.entry.name)
    }

    fn about(&self) -> String {
        format!("{} The program: {}.", self.place.about, self.program.entry.what)
    }

    fn url(&self) -> Url {
        Url::new(Scheme::Http, self.place.host)
    }

    fn bare(&self, network: &Network) -> anyhow::Result<Option<f64>> {
        let mut command = self.program.command(&self.url());
        network.adopt(&mut command)?;
        timed(&mut command)
    }

    fn with_headstart(&self, network: &Network, headstart: &Path) -> anyhow::Result<Option<f64>> {
        let mut run = Command::new(headstart);
        run.args(["run", "--private", "--quiet", "--"]);
        let mut command = self.program.command_behind(run, &self.url());
        network.adopt(&mut command)?;
        timed(&mut command)
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let network = Network::build(&default_world("lte"))?;
    let headstart = cx.program.clone().map_or_else(std::env::current_exe, Ok).context("finding this program")?;
    let folder = Folder::new().context("making a folder for the programs' files")?;
    let programs = PROGRAMS.iter().filter_map(|name| program::prepare(name, &headstart, &folder).transpose());
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let cases = PLACES.iter().flat_map(|place| programs.iter().map(move |program| Case { place, program }));
    let cases: Vec<Case<'_>> = cases.filter(|c| cx.wants(&c.name())).collect();
    let rounds = if cx.quick { 6 } else { 20 };
    let taken = std::thread::scope(|scope| -> anyhow::Result<Vec<_>> {
        // Bare programs that wait for many seconds need no processor meanwhile: they all wait at once, beside the rest.
        let network = &network;
        let waiting: Vec<_> = cases.iter().map(|c| c.place.hard.then(|| scope.spawn(|| c.bare(network)))).collect();
        let mut taken = Vec::new();
        for (n, (case, waiting)) in cases.iter().zip(waiting).enumerate() {
            cx.progress.step(n as u64, cases.len() as u64, &case.name());
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                // In turns, the first one changing, so that a disturbance meets both.
                if round % 2 == 1 && !case.place.hard {
                    bare.push(case.bare(network)?);
                }
                ours.push(case.with_headstart(network, &headstart)?);
                if round % 2 == 0 && !case.place.hard {
                    bare.push(case.bare(network)?);
                }
            }
            taken.push((case, ours, bare, waiting));
        }
        let joined = taken.into_iter().map(|(case, ours, mut bare, waiting)| {
            if let Some(thread) = waiting {
                bare.push(thread.join().map_err(|_| anyhow::anyhow!("a thread that runs a program panicked"))??);
            }
            Ok((case, ours, bare))
        });
        joined.collect()
    })?;
    for (case, ours, bare) in taken {
        let name = case.name();
        let series = |arm, values| Series::with_failures(&name, METRIC, "ms", arm, values);
        let (ours, bare) = (series("headstart", ours), series("bare", bare));
        outcome.conditions.push(Condition { name: name.clone(), about: case.about() });
        if ours.failed() + bare.failed() > 0 {
            outcome.rows.push(Row::failures(&ours, &bare));
        }
        if !ours.present().is_empty() && !bare.present().is_empty() {
            outcome.rows.push(Row::compare(&ours, &bare, Statistic::Median, Pairing::Unpaired, cx.seed)?);
        }
        outcome.samples.extend([bare, ours]);
    }
    outcome.method.push(format!(
        "Each program runs {rounds} times, from its start to its end, alone and under `headstart run`, taking turns; where \
         it alone may need many seconds, once, and cut after {} s. The page is a few bytes, so connecting is nearly all \
         there is, but for the start of the program itself (and of headstart). Link: lte (18 ms round trip).",
        CUT.as_secs()
    ));
    if let Some(doubt) = network.certificate().doubt() {
        outcome.invalidate(doubt);
    }
    Ok(outcome)
}

/// Runs `command` to its end, but not longer than [`CUT`]: the time in milliseconds, none if it failed.
fn timed(command: &mut Command) -> anyhow::Result<Option<f64>> {
    let ended = time(command, CUT)?;
    Ok((ended.how != How::Failed).then(|| ended.millis()))
}
