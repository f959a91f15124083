//! Real page loads: Chromium in namespaces, bare and under `headstart run`, in turns, over the same replayed page.
//!
//! Each arm has a Chromium of its own; each load has a fresh context, so that nothing but headstart remembers anything. The
//! first load of each is left out: it also starts the browser's parts. The loader in virtual time loads the same page over
//! the same network; how far it is from Chromium is said, not corrected.

use super::PLACES;
use crate::browser::{BrowserError, BrowserLoad, Chromium};
use crate::experiment::{Condition as About, Context, Outcome, Row, Series};
use crate::page::{Dependency, Page, Protocol, synthetic};
use crate::program::{Folder, undisturbed};
use crate::server::stage::Stage;
use crate::sim::{Browser, BrowserArm};
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::time::Duration;
use std::path::Path;
use std::process::Command;

/// What is measured.
const METRIC: &str = "page load time (onLoad)";
/// The reading of the network in rows.
const SUFFIX: &str = "-chromium";

/// Pages that a busy little machine can load often enough: not large.
fn pages(seed: u64, count: usize) -> Vec<Page> {
    let fits = |p: &Page| (15..80).contains(&p.objects.len()) && p.bytes() < 2_000_000 && p.hosts.len() > 3;
    synthetic::pages(seed, 1000).filter(fits).take(count).map(as_replayed).collect()
}

/// The replay server speaks HTTP/1.1, and does not think.
fn as_replayed(mut page: Page) -> Page {
    for object in &mut page.objects {
        (object.protocol, object.think) = (Protocol::Http1, Duration::ZERO);
    }
    page
}

/// The loads of a page, in ms.
struct Loads {
    bare: Vec<Option<f64>>,
    ours: Vec<Option<f64>>,
    /// The loader's, bare.
    loader: f64,
    answered: u64,
    asked: u64,
    doubt: Option<String>,
}

/// Every wanted network, if Chromium is there.
pub fn run(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let headstart = cx.program.clone().map_or_else(std::env::current_exe, Ok).context("finding this program")?;
    let (count, rounds) = if cx.quick { (2, 3) } else { (8, 20) };
    // A quick run shows that it works: in one network.
    let places = PLACES.iter().filter(|p| cx.wants(p.name)).take(if cx.quick { 1 } else { PLACES.len() });
    for place in places {
        let (mut bare, mut ours, mut loader) = (Vec::new(), Vec::new(), Vec::new());
        let (mut answered, mut asked) = (0, 0);
        for (n, page) in pages(cx.seed, count).iter().enumerate() {
            if cx.progress.stop() {
                outcome.invalidate("it was stopped before the end");
                return Ok(());
            }
            cx.progress.step(n as u64, count as u64, &format!("{}{SUFFIX}, {}", place.name, page.name));
            let folder = Folder::new().context("making a folder for the browsers' files")?;
            let seed = cx.seed.wrapping_add(n as u64);
            let stage = Stage::of_contents(page, place.link, place.families, seed, folder.path())?;
            let loads = match page_loads(&stage, page, rounds, &headstart, &folder) {
                Err(e) if e.downcast_ref::<BrowserError>().is_some_and(|e| matches!(e, BrowserError::Missing)) => {
                    outcome.notes.push(format!("No page was loaded by a real browser: {e}"));
                    return Ok(());
                }
                other => other?,
            };
            let mut browser = Browser::new(
                &crate::condition::page::world(page, place.link, place.families, seed),
                BrowserArm::BARE,
                seed,
            )?;
            let simulated = browser.load(page, Dependency::Structure).time.as_secs_f64() * 1e3;
            let loads = Loads { loader: (simulated * 1e3).round() / 1e3, ..loads };
            bare.extend(loads.bare);
            ours.extend(loads.ours);
            loader.push((loads.loader, bare.len()));
            answered += loads.answered;
            asked += loads.asked;
            if let Some(doubt) = loads.doubt {
                outcome.invalidate(format!("{}{SUFFIX}, {}: {doubt}", place.name, page.name));
            }
        }
        rows(cx, outcome, &format!("{}{SUFFIX}", place.name), (bare, ours, loader, rounds))?;
        let share = 100.0 * answered as f64 / asked.max(1) as f64;
        let condition = format!("{}{SUFFIX}", place.name);
        outcome.rows.push(Row::measured(&condition, "requests answered", "%", "replay", share));
        let about = format!(
            "{}: {}. {count} pages of the generator with contents made up for them, replayed over HTTP/1.1 and TLS, each loaded \
             {rounds} times an arm by Chromium",
            place.name, place.about
        );
        outcome.conditions.push(About { name: condition, about });
    }
    Ok(())
}

type Taken = (Vec<Option<f64>>, Vec<Option<f64>>, Vec<(f64, usize)>, usize);

fn rows(
    cx: &Context,
    outcome: &mut Outcome,
    condition: &str,
    (bare, ours, loader, rounds): Taken,
) -> anyhow::Result<()> {
    let series = |arm: &str, values: Vec<Option<f64>>| Series::with_failures(condition, METRIC, "ms", arm, values);
    let (bare, ours) = (series("bare", bare), series("headstart", ours));
    if bare.failed() + ours.failed() > 0 {
        outcome.rows.push(Row::failures(&ours, &bare));
    }
    if !bare.present().is_empty() && !ours.present().is_empty() {
        for statistic in [Statistic::Mean, Statistic::Median] {
            outcome.rows.push(Row::compare(&ours, &bare, statistic, Pairing::Paired, cx.seed)?);
        }
        // Page by page, so that large pages do not hide small ones.
        let virtual_time = loader.iter().flat_map(|(ms, _)| std::iter::repeat_n(Some(*ms), rounds)).collect();
        let simulated = series("loader", virtual_time);
        outcome.rows.push(Row::compare(&simulated, &bare, Statistic::Mean, Pairing::Paired, cx.seed)?);
        for (n, chunk) in bare.values.chunks(rounds).enumerate() {
            let values: Vec<f64> = chunk.iter().flatten().copied().collect();
            if values.len() > 2 {
                let cv = 100.0 * Statistic::StandardDeviation.of(&values)? / Statistic::Mean.of(&values)?;
                let metric = format!("coefficient of variation of {METRIC}, page {}", n + 1);
                outcome.rows.push(Row::measured(condition, &metric, "%", "bare", cv));
            }
        }
        outcome.samples.push(simulated);
    }
    outcome.samples.extend([bare, ours]);
    Ok(())
}

fn page_loads(stage: &Stage, page: &Page, rounds: usize, headstart: &Path, folder: &Folder) -> anyhow::Result<Loads> {
    let start = |arm: &str, mut command: Command| -> anyhow::Result<Chromium> {
        undisturbed(&mut command);
        Ok(Chromium::start(command, &stage.trust().key_hash, &folder.of(arm)?)?)
    };
    let mut bare = start("bare", stage.network().command("/bin/sh")?)?;
    let mut run = Command::new(headstart);
    run.args(["run", "--private", "--quiet", "--", "/bin/sh"]);
    stage.network().adopt(&mut run)?;
    let mut ours = start("headstart", run)?;
    for browser in [&mut bare, &mut ours] {
        browser.load(stage.url()).with_context(|| format!("a first look at {}", page.name))?;
    }
    let time =
        |browser: &mut Chromium| browser.load(stage.url()).ok().map(|l: BrowserLoad| (l.load * 1e3).round() / 1e3);
    let (mut of_bare, mut of_ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // In turns, the first one changing, so that a disturbance meets both.
        for is_ours in [round % 2 == 0, round % 2 == 1] {
            if is_ours { of_ours.push(time(&mut ours)) } else { of_bare.push(time(&mut bare)) }
        }
    }
    let served = stage.served();
    // Browsers ask for an icon that no page here has.
    let icons = served.unanswered.iter().filter(|u| u.ends_with("/favicon.ico")).count() as u64;
    let asked = served.answered + served.missing - icons.min(served.missing);
    let doubt = stage.network().certificate().doubt();
    Ok(Loads { bare: of_bare, ours: of_ours, loader: 0.0, answered: served.answered, asked, doubt })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_for_a_real_browser_are_small_plain_and_the_same_for_a_seed() {
        let some = pages(1, 3);
        assert_eq!(some, pages(1, 3));
        assert_eq!(some.len(), 3);
        assert!(some.iter().flat_map(|p| &p.objects).all(|o| o.protocol == Protocol::Http1 && o.think.is_zero()));
    }
}
