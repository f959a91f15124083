//! One supervisor's launches: the network, the client that waits and then talks, and what happens while it waits.

use crate::condition;
use crate::netns::Network;
use crate::program::{Folder, undisturbed};
use crate::server::idle::{Activity, IdleServer, Restart};
use crate::world::{Event, World};
use anyhow::{Context as _, bail};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

/// Where the client goes: a port on which clients speak first.
const PORT: u16 = 443;
/// After how long the servers close what is silent, one after the other; the last never.
pub const PATIENCE: [Option<u64>; 4] = [Some(1), Some(5), Some(15), None];
const HOSTS: usize = 12;
/// One launch of so many is disturbed. After that servers are learned anew, which takes seconds: more often, and
/// nothing would be handed over that has waited.
const RARITY: u32 = 20;
/// Quick, so that thousands of launches are over soon; and far enough that a connection is not there at once.
const LINK: &str = "rate=100mbit,delay=2ms";
/// What is disturbed is disturbed so long before the client connects, in milliseconds: many round trips.
const BEFORE: u64 = 150;

/// What happens while connections lie open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing but what servers do of their own.
    None,
    /// Servers restart.
    Restarts,
    /// The client loses its IPv6 address, and has it back for the next launch.
    Network,
}

impl Disturbance {
    /// Each, in the order of the conditions.
    pub const ALL: [Self; 3] = [Self::None, Self::Restarts, Self::Network];

    /// Its condition.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "idle-close",
            Self::Restarts => "restarts",
            Self::Network => "network-changes",
        }
    }

    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            Self::None => {
                "Twelve hosts on a link of 2 ms each way; servers close connections that are idle for 1, 5 or 15 s, or never."
            }
            Self::Restarts => {
                "The same; in one of twenty launches all servers end all connections while the client waits, half of \
                 these times by resetting them."
            }
            Self::Network => {
                "The same; in one of twenty launches the client loses its IPv6 address while it waits, and has it back for \
                 the next."
            }
        }
    }
}

/// What launches came to.
#[derive(Clone, Debug, Default)]
pub struct Launched {
    pub launches: u64,
    /// Connections of the client.
    pub connections: u64,
    /// Of these, opened ahead.
    pub handed_over: u64,
    /// Connections that were opened ahead.
    pub opened: u64,
    /// Connections on which no answer came.
    pub failed: u64,
    /// What the client said of these.
    pub complaints: Vec<String>,
    /// What clients did, by the patience of the server.
    pub activity: BTreeMap<Option<Duration>, Activity>,
}

impl Launched {
    pub fn add(&mut self, other: &Self) {
        self.launches += other.launches;
        self.connections += other.connections;
        self.handed_over += other.handed_over;
        self.opened += other.opened;
        self.failed += other.failed;
        self.complaints.extend(other.complaints.iter().take(20).cloned());
        for (patience, activity) in &other.activity {
            self.activity.entry(*patience).or_default().add(activity);
        }
    }
}

/// What happens while a client waits.
type Happens<'a> = &'a dyn Fn() -> anyhow::Result<()>;

fn world(seed: u64) -> anyhow::Result<World> {
    let mut world = (condition::find("healthy")?.world)(seed, HOSTS);
    for site in &mut world.sites {
        (site.a.delay, site.aaaa.delay) = (Duration::ZERO, Duration::ZERO);
        site.v4.iter_mut().chain(&mut site.v6).for_each(|host| host.extra_rtt = Duration::ZERO);
    }
    Ok(World { link: LINK.into(), ..world })
}

/// How long a client waits, in milliseconds: most of them not long, since a pool that is of no use opens less and less;
/// some longer than the most impatient servers, and a few longer than any connection may be kept.
fn wait(rng: &mut fastrand::Rng) -> u64 {
    match rng.u32(..100) {
        0..85 => rng.u64(200..450),
        85..97 => rng.u64(450..2500),
        _ => rng.u64(2500..11_000),
    }
}

/// Launches the client so many times under one supervisor, or until `goes_on` says that it has been enough; it is told of
/// each launch.
pub fn play(
    disturbance: Disturbance,
    launches: u64,
    seed: u64,
    program: &Path,
    goes_on: &dyn Fn(&Launched) -> bool,
) -> anyhow::Result<Launched> {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let world = world(seed)?;
    let network = Network::build(&world).context("building the network")?;
    let patience = |n: usize| PATIENCE[n % PATIENCE.len()].map(Duration::from_secs);
    let addresses: Vec<(SocketAddr, Option<Duration>)> = (0..)
        .zip(&world.sites)
        .flat_map(|(n, site)| site.v4.iter().chain(&site.v6).map(move |h| (SocketAddr::new(h.addr, PORT), patience(n))))
        .collect();
    let server = network.on_servers(|| IdleServer::start(&addresses))?.context("starting the servers")?;
    let home = Folder::new().context("making a home for a supervisor")?;
    let names: Vec<&str> = world.sites.iter().map(|site| site.name.as_str()).collect();
    let mut sum = Launched::default();
    for n in 0..launches {
        // The first two launches teach where the client goes.
        let waits = if n < 2 { 0 } else { wait(rng) };
        let disturbed = n >= 2 && rng.u32(..RARITY) == 0;
        let when = rng.u64(..=waits.saturating_sub(BEFORE));
        let happens = || -> anyhow::Result<()> {
            match disturbance {
                Disturbance::None => Ok(()),
                Disturbance::Restarts => {
                    let how = if n % 2 == 0 { Restart::Closing } else { Restart::Resetting };
                    server.restart(how).context("restarting the servers")
                }
                Disturbance::Network => Ok(network.change(Event::Leaves(Family::V6))?),
            }
        };
        let happens = disturbed.then_some((when, &happens as Happens<'_>));
        let launched = launch(&network, program, home.path(), &names, waits, happens)?;
        sum.add(&launched);
        if disturbed && disturbance == Disturbance::Network {
            network.change(Event::Comes(Family::V6))?;
        }
        if !goes_on(&launched) {
            break;
        }
    }
    sum.activity = server.activity();
    Ok(sum)
}

/// One launch: the client waits `waits` ms, and after the first of `happens` that happens.
fn launch(
    network: &Network,
    program: &Path,
    home: &Path,
    names: &[&str],
    waits: u64,
    happens: Option<(u64, Happens<'_>)>,
) -> anyhow::Result<Launched> {
    let file = home.join("summary");
    let _ = std::fs::remove_file(&file);
    let mut command = network.command(program)?;
    // What is learned here is of no use to other runs.
    command.env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home).env("HOME", home);
    undisturbed(&mut command);
    command.env("HEADSTART_LINGER", "2");
    command.args(["run", "--quiet", "--summary"]).arg(&file).arg("--").arg(program).arg("client");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting the client")?;
    let (mut requests, answers) =
        (child.stdin.take().context("its input")?, child.stdout.take().context("its output")?);
    let clock = network.clock();
    let pause = |ms: u64| clock.sleep(Duration::from_millis(ms));
    match happens {
        Some((when, happens)) => {
            pause(when);
            happens()?;
            pause(waits.saturating_sub(when));
        }
        None => pause(waits),
    }
    for name in names {
        writeln!(requests, "ask {name} {PORT}").context("writing to the client")?;
    }
    let mut said = Launched { launches: 1, ..Launched::default() };
    for line in BufReader::new(answers).lines().take(names.len()) {
        let line = line.context("reading from the client")?;
        let answer: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("the client says {line:?}"))?;
        said.connections += 1;
        if let Some(why) = answer["error"].as_str() {
            said.failed += 1;
            said.complaints.push(format!("{why} (after {waits} ms)"));
        }
    }
    drop(requests);
    let status = child.wait().context("waiting for the client")?;
    if !status.success() || said.connections != names.len() as u64 {
        bail!("the client answered {} of {} times and ended with {status}", said.connections, names.len());
    }
    let text = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let summary: serde_json::Value = serde_json::from_slice(&text).context("reading the summary")?;
    let count = |name: &str| summary[name].as_u64().with_context(|| format!("the summary has no {name}"));
    (said.handed_over, said.opened) = (count("spares_taken")?, count("spares")?);
    Ok(said)
}
