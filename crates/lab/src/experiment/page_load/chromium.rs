//! Real page loads: Chromium in namespaces, bare and under `headstart run`, in turns, over the same replayed page.
//!
//! Each arm has a Chromium of its own; each load has a fresh context, so that nothing but headstart remembers anything. The
//! first load of each is left out: it also starts the browser's parts. The loader loads the same page over the same
//! network, in virtual time and over real sockets; how far each is from Chromium is said, not corrected.

use super::put::{Put, generated, recorded};
use super::{PLACES, Place, rows};
use crate::browser::{BrowserError, BrowserLoad, Chromium};
use crate::experiment::{Condition as About, Context, Outcome, Row, Series, in_ms};
use crate::page::{Dependency, Page, Protocol};
use crate::program::{Folder, undisturbed};
use crate::server::recorder;
use crate::server::stage::Stage;
use crate::sim::{Browser, BrowserArm};
use crate::socket_loader;
use crate::stats::{Pairing, Statistic};
use anyhow::Context as _;
use headstart_core::time::Duration;
use std::path::Path;
use std::process::Command;

/// What is measured.
const METRIC: &str = "page load time (onLoad)";

/// The arm of a bare Chromium whose hosts are next door.
const NEAR: &str = "near";
/// What the loader takes and what such a Chromium takes, one after the other.
const WITH_WORK: &str = "loader-and-near";

/// A way of loading pages in a real browser: its name, whether headstart is below it, whether it speaks HTTP/3.
type Arm = (&'static str, bool, bool);
const OVER_TCP: [Arm; 2] = [("bare", false, false), (rows::OURS, true, false)];
/// Where a page has hosts that speak HTTP/3, these too.
const OVER_QUIC: [Arm; 2] = [(rows::BARE_H3, false, true), (rows::OURS_H3, true, true)];

/// Load times in ms by arm, page after page, the same number of each.
#[derive(Default)]
struct Taken(Vec<(String, Vec<Option<f64>>)>);

impl Taken {
    fn add(&mut self, arm: &str, times: impl IntoIterator<Item = Option<f64>>) {
        let known = self.0.iter().position(|(name, _)| name == arm).unwrap_or_else(|| {
            self.0.push((arm.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        self.0[known].1.extend(times);
    }
}

/// How often a page is loaded by an arm, in full.
const ROUNDS: usize = 20;
/// Loads by an arm in a network, in full: many pages are loaded less often each, and say as much together.
const LOADS: usize = 120;

/// What the replay of a page was asked for.
struct Asked {
    answered: u64,
    asked: u64,
    doubt: Option<String>,
}

/// Every wanted network, if Chromium is there.
pub fn run(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let headstart = cx.measured_program()?;
    let recorded = recorded(cx, if cx.quick { 1 } else { usize::MAX }, outcome)?;
    // Other pages stand in place of the project's own.
    let own = if recorded.is_empty() { generated(cx.seed, if cx.quick { 1 } else { 8 }) } else { Vec::new() };
    // A quick run shows that it works: in one network.
    let places = PLACES.iter().filter(|p| cx.wants(p.name)).take(if cx.quick { 1 } else { PLACES.len() });
    for place in places {
        for (suffix, puts, what) in [
            ("-chromium", &own, "pages of the generator with contents made up for them"),
            ("-recorded-chromium", &recorded, "recorded pages, hosts at distances of the generator's"),
        ] {
            let rounds = if cx.quick { 3 } else { ROUNDS.min(LOADS / puts.len().max(1)).max(1) };
            let go_on = puts.is_empty() || set(cx, outcome, (place, suffix, what), puts, rounds, &headstart)?;
            if !go_on {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// One set of pages in one network; whether to go on.
fn set(
    cx: &Context,
    outcome: &mut Outcome,
    (place, suffix, what): (&Place, &str, &str),
    puts: &[Put],
    rounds: usize,
    headstart: &Path,
) -> anyhow::Result<bool> {
    let condition = format!("{}{suffix}", place.name);
    let mut taken = Taken::default();
    let over_quic = puts.iter().any(|p| p.page.objects.iter().any(|o| o.protocol == Protocol::Http3));
    let arms: Vec<Arm> = OVER_TCP.into_iter().chain(OVER_QUIC.into_iter().filter(|_| over_quic)).collect();
    let (mut answered, mut asked) = (0, 0);
    for (n, put) in puts.iter().enumerate() {
        let page = &put.page;
        if cx.progress.stop() {
            outcome.invalidate("it was stopped early");
            return Ok(false);
        }
        cx.progress.step(n as u64, puts.len() as u64, &format!("{condition}, {}", page.name));
        let folder = Folder::new().context("making a folder for the browsers' files")?;
        let seed = cx.seed.wrapping_add(n as u64);
        let stage = put.on_stage((place.link, place.families, seed), folder.path())?;
        let loads = match page_loads(&stage, page, (&arms, rounds), headstart, &folder, &mut taken) {
            Err(e) if e.downcast_ref::<BrowserError>().is_some_and(|e| matches!(e, BrowserError::Missing)) => {
                outcome.notes.push(format!("No page was loaded by a real browser: {e}"));
                return Ok(false);
            }
            other => other?,
        };
        load_without_browser(put, &stage, (place, seed, rounds), over_quic, &mut taken)?;
        drop(stage);
        let stage = put.next_door(seed, &folder.of("next-door")?)?;
        page_loads(&stage, page, (&[(NEAR, false, false)], rounds), headstart, &folder, &mut taken)?;
        answered += loads.answered;
        asked += loads.asked;
        if let Some(doubt) = loads.doubt {
            outcome.invalidate(format!("{condition}, {}: {doubt}", page.name));
        }
    }
    tell(cx, outcome, &condition, taken, rounds)?;
    let share = 100.0 * answered as f64 / asked.max(1) as f64;
    outcome.rows.push(Row::measured(&condition, "requests answered", "%", "replay", share));
    let about = format!(
        "{}: {}. {} {what}, replayed over TLS, HTTP/1.1 or HTTP/2 as their hosts speak it (in the arms `-h3` HTTP/3 too), each loaded {rounds} times an arm by \
         Chromium",
        place.name,
        place.about,
        puts.len()
    );
    outcome.conditions.push(About { name: condition, about });
    Ok(true)
}

/// Loads a page without a browser: once in virtual time, which is the same in each round, and over real sockets.
fn load_without_browser(
    put: &Put,
    stage: &Stage,
    (place, seed, rounds): (&Place, u64, usize),
    over_quic: bool,
    taken: &mut Taken,
) -> anyhow::Result<()> {
    let world = crate::condition::page::world(&put.page, place.link, place.families, seed);
    let names = put.hosts(|n| world.sites[n].name.clone());
    let ms = |time: Duration| Some(in_ms(time));
    for http3 in [false, true].into_iter().filter(|http3| !http3 || over_quic) {
        let page = if http3 { put.page.clone() } else { put.page.over_tcp() };
        let end = if http3 { "-h3" } else { "" };
        let mut browser = Browser::new(&world, BrowserArm::BARE, seed)?;
        let simulated = ms(browser.load(&page, Dependency::Structure).time);
        taken.add(&format!("loader{end}"), std::iter::repeat_n(simulated, rounds));
        for _ in 0..rounds {
            let roots = recorder::roots_of(&stage.trust().certificate)?;
            let requests = put.requests(&names);
            let loaded = stage
                .network()
                .on_client(|| socket_loader::load(&page, Dependency::Structure, requests, roots))?
                .with_context(|| format!("loading {} over sockets", page.name))?;
            taken.add(&format!("loader-sockets{end}"), [ms(loaded.time)]);
        }
    }
    Ok(())
}

fn tell(cx: &Context, outcome: &mut Outcome, condition: &str, taken: Taken, rounds: usize) -> anyhow::Result<()> {
    let mut all: Vec<Series> =
        taken.0.into_iter().map(|(arm, v)| Series::with_failures(condition, METRIC, "ms", &arm, v)).collect();
    // The loader does no work: with that of Chromium behind it, it takes at most so long.
    let of = |arm: &str| all.iter().find(|s| s.arm == arm);
    if let Some((loader, near)) = of("loader").zip(of(NEAR)) {
        let both: Vec<_> = loader.values.iter().zip(&near.values).map(|(a, b)| a.zip(*b).map(|(a, b)| a + b)).collect();
        all.push(Series::with_failures(condition, METRIC, "ms", WITH_WORK, both));
    }
    let of = |arm: &str| all.iter().find(|s| s.arm == arm && !s.present().is_empty());
    for ((bare, ..), (ours, ..)) in [OVER_TCP, OVER_QUIC].map(|[bare, ours]| (bare, ours)) {
        let failures = all.iter().find(|s| s.arm == ours).zip(all.iter().find(|s| s.arm == bare));
        outcome.rows.extend(failures.filter(|(a, b)| a.failed() + b.failed() > 0).map(|(a, b)| Row::failures(a, b)));
        let Some((ours, bare)) = of(ours).zip(of(bare)) else { continue };
        for statistic in [Statistic::Mean, Statistic::Median] {
            outcome.rows.push(Row::compare(ours, bare, statistic, Pairing::Paired, cx.seed)?);
        }
        // How far the loaders are from Chromium, and from each other.
        let end = bare.arm.trim_start_matches("bare");
        let (simulated, sockets) = (of(&format!("loader{end}")), of(&format!("loader-sockets{end}")));
        let [near, with_work] = [NEAR, WITH_WORK].map(|arm| of(arm).filter(|_| end.is_empty()));
        let pairs = [
            (simulated, Some(bare)),
            (sockets, Some(bare)),
            (simulated, sockets),
            (near, Some(bare)),
            (with_work, Some(bare)),
        ];
        for (one, other) in pairs {
            let Some((one, other)) = one.zip(other) else { continue };
            outcome.rows.push(Row::compare(one, other, Statistic::Mean, Pairing::Paired, cx.seed)?);
        }
        // Page by page, so that large pages do not hide small ones.
        for (n, chunk) in bare.values.chunks(rounds).enumerate() {
            let values: Vec<f64> = chunk.iter().flatten().copied().collect();
            if values.len() > 2 {
                let cv = 100.0 * Statistic::StandardDeviation.of(&values)? / Statistic::Mean.of(&values)?;
                let metric = format!("coefficient of variation of {METRIC}, page {}", n + 1);
                outcome.rows.push(Row::measured(condition, &metric, "%", &bare.arm, cv));
            }
        }
    }
    if let Some((over_quic, over_tcp)) = of(rows::BARE_H3).zip(of("bare")) {
        outcome.rows.push(Row::compare(over_quic, over_tcp, Statistic::Mean, Pairing::Paired, cx.seed)?);
    }
    outcome.samples.extend(all);
    Ok(())
}

/// Loads a page `rounds` times by each of `arms`.
fn page_loads(
    stage: &Stage,
    page: &Page,
    (arms, rounds): (&[Arm], usize),
    headstart: &Path,
    folder: &Folder,
    taken: &mut Taken,
) -> anyhow::Result<Asked> {
    let mut browsers = Vec::new();
    for (arm, with_headstart, http3) in arms {
        let mut command = if *with_headstart {
            let mut run = Command::new(headstart);
            run.args(["run", "--private", "--quiet", "--", "/bin/sh"]);
            stage.network().adopt(&mut run)?;
            run
        } else {
            stage.network().command("/bin/sh")?
        };
        undisturbed(&mut command);
        let over_quic = if *http3 { stage.over_quic() } else { &[] };
        let mut browser = Chromium::start(command, &stage.trust().key_hash, &folder.of(arm)?, over_quic)?;
        browser.load(stage.url()).with_context(|| format!("a first look at {} by {arm}", page.name))?;
        browsers.push(browser);
    }
    let time =
        |browser: &mut Chromium| browser.load(stage.url()).ok().map(|l: BrowserLoad| (l.load * 1e3).round() / 1e3);
    for round in 0..rounds {
        // In turns, the first one changing, so that a disturbance meets all.
        for n in (0..arms.len()).map(|n| (n + round) % arms.len()) {
            taken.add(arms[n].0, [time(&mut browsers[n])]);
        }
    }
    let served = stage.served();
    // Browsers ask for an icon that no page here has.
    let icons = served.unanswered.iter().filter(|u| u.ends_with("/favicon.ico")).count() as u64;
    let asked = served.answered + served.missing - icons.min(served.missing);
    let doubt = stage.network().certificate().doubt();
    Ok(Asked { answered: served.answered, asked, doubt })
}
