//! `phone-day`: papers 1 and 3 on a phone, in virtual time: 20 apps through a day over Wi-Fi and LTE, by exactly the settings of
//! `headstart engine`, beside Android's own sequence, the paper's way and a supervisor's; and requests, calls and messages through its
//! forwarder beside those with flaws.
//!
//! `engine` races connections, by the answers that it overhears, and keeps, looks up and opens nothing ahead (docs/decisions/0027): rows of
//! P1.1 and P1.4 to P1.6 show that. `engine-ahead` does (docs/decisions/0131), and `headstart` is what a supervisor does. Left to their own
//! experiments: P3.3 (`measure-throughput`: a rate is what a processor does) and P3.7 (`measure-device`: it is about hardware).

mod forwarded;
mod rows;

use super::app_session::{apps, measured};
use super::{Context, Entry, Outcome, Speeds, Steps};
use crate::condition::{self, join};
use crate::page::synthetic;
use crate::sim::{AppHost, Launch, Traffic, Wish};
use crate::world::World;
use anyhow::Context as _;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, Settings, race};
use headstart_core::time::Duration;
use headstart_io::engine::{message, racing};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "phone-day",
    shows: "On a phone, what the engine's races save of connecting and what they cost, and that its forwarder adds no time",
    claims: &[],
    conditions: &["lte", "lte-no-cache", "wifi", "wifi-no-cache", forwarded::LATENCY, forwarded::GAPS],
    speeds: Speeds::Virtual,
    run,
};

/// Where hosts and names are: paper 1's measurements, whatever the access.
const NETWORK: &str = "paper1-lte";
/// A place of the day: its number, by which it is known again, its kind, and its link.
const DAY: [(u8, &str, &str); 5] = [
    (1, "wifi", "wlan-strong"),
    (2, "lte", "lte"),
    (3, "wifi", "wlan-weak"),
    (2, "lte", "lte"),
    (1, "wifi", "wlan-strong"),
];
/// Every app is launched so often at a place; at the first one, apps are learned.
const ROUNDS: usize = 2;
/// Between two launches, when the radio may sleep: ours.
const PAUSE: Duration = Duration::from_secs(30);

/// One way of being connected.
struct Arm {
    name: &'static str,
    race: &'static str,
    lifetime: Lifetime,
    ahead: Ahead,
    engine: Engine,
}

/// What is between the apps and the network.
#[derive(Clone, Copy)]
enum Engine {
    None,
    /// The engine with its default settings.
    Races,
    /// The engine with its setting `ahead`, and this one as `cache`.
    Ahead(&'static str),
}

impl Engine {
    fn settings(self) -> Option<message::Settings> {
        match self {
            Self::None => None,
            Self::Races => Some(message::Settings::default()),
            Self::Ahead(cache) => {
                Some(message::Settings { ahead: true, cache: cache.into(), ..message::Settings::default() })
            }
        }
    }
}

const ENGINE: &str = "engine";
/// The same with a cache for each app, prefetch and pool, as its setting `ahead` has it.
const AHEAD: &str = "engine-ahead";
const PAPERS: &str = "simultaneous";
/// The stack that the paper compares with: what apps do without anything, and behind the engine.
const BASELINE: &str = "sequential";
/// What other systems do today (RFC 8305).
const OTHERS: &str = "happy-eyeballs-v2";

/// Without caches, and nothing ahead.
const fn plain(name: &'static str, race: &'static str, engine: Engine) -> Arm {
    Arm { name, race, lifetime: Lifetime::Off, ahead: Ahead::OFF, engine }
}

const NO_CACHE: &[Arm] = &[
    plain(ENGINE, BASELINE, Engine::Races),
    plain(PAPERS, PAPERS, Engine::None),
    plain(OTHERS, OTHERS, Engine::None),
    plain(BASELINE, BASELINE, Engine::None),
];

/// 3600 s: paper 1, section III-C. The others honour TTLs, as Android's resolver does.
const CACHED: &[Arm] = &[
    Arm { lifetime: Lifetime::Ttl, ..plain(ENGINE, BASELINE, Engine::Races) },
    Arm { lifetime: Lifetime::Ttl, ..plain(AHEAD, BASELINE, Engine::Ahead("ttl")) },
    Arm { lifetime: Lifetime::Ttl, ..plain("engine-ahead-3600s", BASELINE, Engine::Ahead("3600s")) },
    Arm { lifetime: Lifetime::Ttl, ahead: Ahead::ON, ..plain("headstart", race::DEFAULT, Engine::None) },
    Arm {
        lifetime: Lifetime::Fixed(Duration::from_secs(3600)),
        ahead: Ahead::ON,
        ..plain(PAPERS, PAPERS, Engine::None)
    },
    Arm { lifetime: Lifetime::Ttl, ..plain(OTHERS, OTHERS, Engine::None) },
    Arm { lifetime: Lifetime::Ttl, ..plain(BASELINE, BASELINE, Engine::None) },
];

/// The phone's apps: one world for all of them, and what each wants, launch after launch.
struct Phone {
    world: World,
    launches: Vec<Vec<Vec<Wish>>>,
}

/// A day of one arm: its launches after the first place, by kind of access; and what it spent.
struct Lived {
    arm: &'static Arm,
    launches: Vec<(&'static str, Launch)>,
    traffic: Traffic,
    wakeups: u64,
    unused: u64,
}

const METHOD: [&str; 4] = [
    "A phone with 20 apps (5 with --quick) goes through a day: home (Wi-Fi), a walk (LTE), an office (weak Wi-Fi), a walk, home. At \
     each place each app is launched twice and used for three minutes, as in `app-session`. Hosts and names are at the distances of \
     `paper1-lte` everywhere; all hosts answer. Rows are of the launches after the first place, where apps are learned.",
    "`engine`: apps look names up and connect one address after the other, as `sequential` does, and `headstart engine` with its \
     default settings is below them: it overhears answers and races connections. `engine-ahead` has its setting `ahead` on: a cache \
     for each app by TTL (`-3600s`: with paper 1's lifetime), prefetch and pool. `headstart` is a supervisor with all three, `simultaneous` the paper's way with its cache of 3600 s. Without caches nothing is done ahead.",
    "Notes compare rows with the papers. The verdict on a claim is that of its own experiment.",
    "The forwarder is `core`'s, with each profile: only sleeps between reads take time. Not judged in virtual time: P3.3 \
     (`measure-throughput`) and P3.7 (`measure-device`).",
];

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let phone = phone(cx)?;
    for (arms, suffix) in [(NO_CACHE, "-no-cache"), (CACHED, "")] {
        let names = ["lte", "wifi"].map(|kind| format!("{kind}{suffix}"));
        if !names.iter().any(|name| cx.wants(name)) {
            continue;
        }
        let (mut lived, mut steps) = (Vec::new(), Steps::new(cx, arms.len()));
        for arm in arms {
            if !steps.next(&mut outcome, &format!("a day{suffix}, {}", arm.name)) {
                return Ok(outcome);
            }
            lived.push(phone.live(arm)?);
        }
        for (kind, name) in ["lte", "wifi"].into_iter().zip(&names).filter(|(_, name)| cx.wants(name)) {
            rows::add(&mut outcome, (kind, name), &lived, suffix.is_empty())?;
            let about = format!(
                "{} apps over {kind}, {}.",
                phone.launches.len(),
                if suffix.is_empty() { "with caches" } else { "without caches" }
            );
            outcome.condition(name.clone(), about);
        }
        rows::prices(&mut outcome, &names[0], &lived);
    }
    forwarded::add(cx, &mut outcome)?;
    Ok(outcome)
}

/// The apps, drawn around pages: those given, or the lab's own.
fn phone(cx: &Context) -> anyhow::Result<Phone> {
    let count = if cx.quick { 5 } else { 20 };
    let pages = match &cx.pages {
        Some(path) => measured(path, count, cx.seed)?,
        None => synthetic::pages(cx.seed, count).collect(),
    };
    let network = condition::find(NETWORK)?;
    let mut seeds = fastrand::Rng::with_seed(cx.seed);
    let (mut worlds, mut launches, mut sites) = (Vec::new(), Vec::new(), 0);
    for page in &pages {
        let app = apps::app(page, network, DAY.len() * ROUNDS, seeds.u64(..));
        let here = |wish: &Wish| Wish { site: wish.site + sites, ..*wish };
        launches.push(app.launches.iter().map(|(_, wishes)| wishes.iter().map(here).collect()).collect());
        sites += app.world.sites.len();
        worlds.push(app.world);
    }
    Ok(Phone { world: join(cx.seed, worlds), launches })
}

impl Phone {
    fn live(&self, arm: &'static Arm) -> anyhow::Result<Lived> {
        let settings = Settings {
            lifetime: arm.lifetime,
            ahead: arm.ahead,
            seed: self.world.seed,
            ..Settings::of(race::find(arm.race)?)
        };
        let mut host = AppHost::new(&self.world, settings)?;
        if let Some(settings) = arm.engine.settings() {
            host = host.behind(racing(&settings).map_err(anyhow::Error::msg).context("the engine")?);
        }
        let mut launches = Vec::new();
        for (n, (number, kind, link)) in DAY.into_iter().enumerate() {
            host.move_to(number, &World { link: link.into(), ..self.world.clone() })?;
            for round in n * ROUNDS..(n + 1) * ROUNDS {
                for (app, wishes) in self.launches.iter().enumerate() {
                    host.idle(PAUSE);
                    let launch = host.launch(&format!("app {app}"), &wishes[round], apps::STAYS);
                    launches.extend((n > 0).then_some((kind, launch)));
                }
            }
        }
        let (traffic, wakeups, unused) = (host.traffic(), host.wakeups(), host.unused());
        Ok(Lived { arm, launches, traffic, wakeups, unused })
    }
}

#[cfg(test)]
mod tests;
