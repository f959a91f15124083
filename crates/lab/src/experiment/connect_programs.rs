//! `connect-programs`: unmodified third-party programs fetch a page over an emulated dual-stack LTE link, bare and under
//! `headstart run`, where all is well and where IPv6 or its records are broken. What `headstart demo` shows first.
//!
//! A program that is not on the machine is left out; headstart's own client always runs. Every run under headstart is a
//! first visit: its supervisor knows nothing of the network.

use super::{Condition, Context, Entry, Outcome, Row, Series};
use crate::netns::{Network, default_world};
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::program;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

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
    needs_namespaces: true,
    run,
};

const METRIC: &str = "time to fetch a page";
/// A bare program that needs longer is cut; the cut is what is reported.
const CUT: Duration = Duration::from_secs(20);
/// Between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(1);

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

/// A program that fetches a page.
struct Program {
    name: &'static str,
    path: PathBuf,
    args: Arguments,
}

/// The arguments with which a program fetches the page of a host.
type Arguments = fn(&str) -> Vec<OsString>;

const FETCH: &str = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()";

fn programs(own: &Path) -> Vec<Program> {
    let mut programs =
        vec![Program { name: "client", path: own.to_owned(), args: |host| vec!["client".into(), host.into()] }];
    let others: [(&str, &str, Arguments); 3] = [
        ("curl", "curl", |host| vec!["-sS".into(), "-o".into(), "/dev/null".into(), format!("http://{host}/").into()]),
        ("wget", "wget", |host| vec!["-q".into(), "-O".into(), "/dev/null".into(), format!("http://{host}/").into()]),
        ("python3", "python", |host| vec!["-c".into(), FETCH.into(), format!("http://{host}/").into()]),
    ];
    for (file, name, args) in others {
        if let Some(path) = program::find(OsStr::new(file), std::env::var_os("PATH").as_deref()) {
            programs.push(Program { name, path, args });
        }
    }
    programs
}

/// A program in a place: one condition.
struct Case<'a> {
    place: &'a Place,
    program: &'a Program,
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{}-{}", self.place.network, self.program.name)
    }

    fn about(&self) -> String {
        let program = if self.program.name == "client" { "headstart's own client" } else { self.program.name };
        format!("{} The program: {program}.", self.place.about)
    }

    fn bare(&self, network: &Network) -> anyhow::Result<Option<f64>> {
        timed(network.command(&self.program.path)?.args((self.program.args)(self.place.host)))
    }

    fn with_headstart(&self, network: &Network, headstart: &Path) -> anyhow::Result<Option<f64>> {
        let mut command = network.command(headstart)?;
        let command = command.args(["run", "--private", "--quiet", "--"]).arg(&self.program.path);
        timed(command.args((self.program.args)(self.place.host)))
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    let network = Network::build(&default_world("lte"))?;
    let headstart = cx.program.clone().map_or_else(std::env::current_exe, Ok).context("finding this program")?;
    let programs = programs(&headstart);
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
    let certificate = network.certificate();
    if !certificate.valid {
        outcome.invalidate(format!("the emulator was late: p99 {:.0} us", certificate.lateness.p99_us));
    }
    Ok(outcome)
}

/// Runs `command` to its end, but not longer than [`CUT`]: the time in milliseconds, none if it failed.
fn timed(command: &mut std::process::Command) -> anyhow::Result<Option<f64>> {
    let clock = Clock::new();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("starting a program")?;
    loop {
        let took = clock.now().as_millis_f64();
        match child.try_wait().context("waiting for a program")? {
            Some(status) => return Ok(status.success().then_some(took)),
            None if took > CUT.as_secs_f64() * 1e3 => {
                // It may have ended meanwhile, which is what was wanted.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Some(took));
            }
            None => clock.sleep(LOOK),
        }
    }
}
