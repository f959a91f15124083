//! `app-session`: an app that is launched again and again, and what is there before it asks (claims P1.4 to P1.7).
//!
//! Names and times are drawn around the patterns of pages (`apps`); every arm has the same apps, launches and networks.
//! In virtual time, since it is decisions that are measured: what is looked up and opened ahead, and what of it is used.

pub(super) mod apps;
mod rows;

use super::{Claims, Context, Entry, Outcome, Speeds, Steps};
use crate::condition;
use crate::page::{Page, spec, synthetic};
use crate::sim::{AppHost, Launch};
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, Settings, race};
use headstart_core::time::Duration;
use std::path::Path;

pub(super) use rows::{AT_ONCE, HITS, METRICS, share};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "app-session",
    shows: "When an app is launched again, its names are resolved and its connections are open",
    claims: &["P1.4", "P1.5", "P1.6", "P1.7"],
    conditions: &[SYNTHETIC, SPECS],
    speeds: Speeds::Virtual,
    run,
};

/// Apps after the project's own pages.
const SYNTHETIC: &str = "synthetic";
/// Apps after pages that were measured.
const SPECS: &str = "page-specs";
/// The network: that of paper 1's measurements.
const NETWORK: &str = "paper1-lte";
/// Launches of an app.
const LAUNCHES: usize = 10;
/// The launches before this one are those by which an app is learned: two for its connections, one for its servers.
const LEARNED: usize = 3;

/// One way of being connected.
struct Arm {
    name: &'static str,
    race: &'static str,
    lifetime: Lifetime,
    ahead: Ahead,
}

/// 3600 s: paper 1, section III-C.
const PAPERS: Lifetime = Lifetime::Fixed(Duration::from_secs(3600));
/// The arm of the paper's settings with our race, by which its claims are judged.
const JUDGED: &str = "headstart-3600s";
/// Our default.
const DEFAULT: &str = "headstart";
/// The stack that the paper compares with, and its cache as it was: answers for as long as they hold.
const BASELINE: &str = "sequential";

const ARMS: &[Arm] = &[
    Arm { name: JUDGED, race: race::DEFAULT, lifetime: PAPERS, ahead: Ahead::ON },
    Arm { name: DEFAULT, race: race::DEFAULT, lifetime: Lifetime::Ttl, ahead: Ahead::ON },
    Arm { name: "simultaneous-3600s", race: "simultaneous", lifetime: PAPERS, ahead: Ahead::ON },
    Arm { name: "nothing-ahead", race: race::DEFAULT, lifetime: Lifetime::Ttl, ahead: Ahead::OFF },
    Arm { name: "happy-eyeballs-v2", race: "happy-eyeballs-v2", lifetime: Lifetime::Ttl, ahead: Ahead::OFF },
    Arm { name: "no-cache", race: BASELINE, lifetime: Lifetime::Off, ahead: Ahead::OFF },
    Arm { name: BASELINE, race: BASELINE, lifetime: Lifetime::Ttl, ahead: Ahead::OFF },
];

/// What an arm came to: the launches of every app, in order.
struct Played {
    arm: &'static str,
    launches: Vec<(usize, Launch)>,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let network = condition::find(NETWORK)?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let mut steps = Steps::new(cx, wanted.len() * ARMS.len());
    for name in wanted {
        let count = if cx.quick { 12 } else { 60 };
        let pages = match name {
            SYNTHETIC => synthetic::pages(cx.seed, count).collect(),
            _ => match cx.pages.as_deref().map(|path| measured(path, count, cx.seed)).transpose()? {
                Some(pages) => pages,
                None => {
                    outcome.notes.push(format!("{SPECS}: left out; name page specs with --pages."));
                    continue;
                }
            },
        };
        let mut seeds = fastrand::Rng::with_seed(cx.seed);
        let all: Vec<apps::App> = pages.iter().map(|p| apps::app(p, network, LAUNCHES, seeds.u64(..))).collect();
        let mut played = Vec::new();
        for arm in ARMS {
            if !steps.next(&mut outcome, &format!("{name}, {}", arm.name)) {
                return Ok(outcome);
            }
            played.push(play(arm, &all)?);
        }
        rows::add(&mut outcome, name, &played, &claims, cx.seed)?;
        let about = format!(
            "{} apps after {}, each launched {LAUNCHES} times and used for three minutes. {}",
            all.len(),
            if name == SYNTHETIC { "the lab's own pages" } else { "pages that were measured" },
            network.why,
        );
        outcome.condition(name, about);
    }
    Ok(outcome)
}

fn play(arm: &Arm, apps: &[apps::App]) -> anyhow::Result<Played> {
    let mut launches = Vec::new();
    for app in apps {
        let settings = Settings {
            lifetime: arm.lifetime,
            ahead: arm.ahead,
            seed: app.world.seed,
            ..Settings::of(race::find(arm.race)?)
        };
        let mut host = AppHost::new(&app.world, settings)?;
        for (n, (pause, wishes)) in app.launches.iter().enumerate() {
            host.idle(*pause);
            launches.push((n, host.launch("app", wishes, apps::STAYS)));
        }
    }
    Ok(Played { arm: arm.name, launches })
}

/// So many pages of different sites, of a file of page specs or of a folder with `specs.jsonl`.
pub(super) fn measured(path: &Path, count: usize, seed: u64) -> anyhow::Result<Vec<Page>> {
    let file = if path.is_dir() { path.join("specs.jsonl") } else { path.to_owned() };
    let (mut pages, broken) = spec::read(&file)?;
    let broken = broken.len();
    anyhow::ensure!(!pages.is_empty(), "{} has no page that can be read; {broken} lines cannot", file.display());
    fastrand::Rng::with_seed(seed).shuffle(&mut pages);
    let mut sites = std::collections::BTreeSet::new();
    pages.retain(|page| sites.insert(page.site.clone()));
    pages.truncate(count);
    Ok(pages)
}

const METHOD: [&str; 3] = [
    "Each arm plays the same apps on the same networks, in virtual time. An app looks up a name and connects when its pattern \
     says so, even while it waits for others; it does not ask again for connections that it has kept open. Look-up time ends with \
     the first connection attempt, or with the answer if that comes first; effective connect time is the rest.",
    "During launches 1 to 3 the app is learned; rows without a remark are of launches 4 to 10, the same for each arm. A trial is \
     a launch. `sequential` is Android's stack with a cache that honours lifetimes, `no-cache` the same without one; \
     `headstart-3600s` has the cache lifetime of the paper, `headstart` our default, which honours TTLs.",
    "DNS traffic is what the app causes in the three minutes after its launch, including prefetched lookups. A spare connection \
     is one that was started before the app asked; unused ones include those kept only to learn a server's idle timeout.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn quick() -> Outcome {
        let conditions = Some(vec![SYNTHETIC.to_owned()]);
        ENTRY.start(&Context { quick: true, conditions, ..Context::new(11) }).unwrap()
    }

    #[test]
    fn what_is_done_ahead_is_of_use_and_the_same_every_time() {
        let outcome = quick();
        let of = |metric: &str, arm: &str| {
            let row = outcome.rows.iter().find(|r| r.metric == metric && r.arm == arm);
            row.unwrap_or_else(|| panic!("no {metric} of {arm}")).ours
        };
        for arm in [JUDGED, DEFAULT] {
            assert!(of(rows::HITS, arm) > of(rows::HITS, "nothing-ahead"), "{arm}");
            assert!(of(rows::AT_ONCE, arm) > 55.0, "{arm}: {}", of(rows::AT_ONCE, arm));
            assert!(of(rows::UNUSED, arm) < 35.0, "{arm}: {}", of(rows::UNUSED, arm));
        }
        assert_eq!(outcome.last_line(), quick().last_line());
    }
}
