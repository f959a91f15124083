//! `steer-pages` with real packets: Chromium and the loader over the same pages, by each way in turns.
//!
//! Each arm has channels, servers and a Chromium of its own; each load has a fresh context, so that nothing is remembered. The
//! first load of each is left out: it also starts the browser's parts.

use super::super::network::BASE;
use super::super::play::over;
use super::super::{FAT, OURS};
use super::stage::{Carrier, Content, Stage};
use super::{ARMS, Arm, METHOD, MULTIPATH, Taken, multipath};
use crate::browser::{BrowserError, Chromium};
use crate::experiment::losers;
use crate::experiment::page_load::put::{self, Put};
use crate::experiment::quiet::Quiet;
use crate::experiment::{Claims, Context, Outcome, Row};
use crate::page::Protocol;
use crate::program::{Folder, undisturbed};
use crate::stats;
use anyhow::Context as _;

/// How often a page is loaded by an arm: in a quick run; at most; and all pages together, so that many are loaded less often each.
const QUICK: usize = 3;
const ROUNDS: usize = 12;
const LOADS: usize = 84;

/// The times of one set of pages.
struct Block<'a> {
    chromium: Taken<'a>,
    /// When something can first be seen in Chromium. It notes that in any case and is asked after the load event: it costs a load nothing.
    paints: Taken<'a>,
    loader: Taken<'a>,
    answered: u64,
    asked: u64,
    /// Connections of Multipath TCP, and second subflows.
    subflows: [u64; 2],
}

/// Recorded pages where `--pages` has some, else pages of the generator.
pub fn run(cx: &Context, claims: &Claims, outcome: &mut Outcome) -> anyhow::Result<()> {
    let wanted = [cx.wants("ideal-paper"), cx.wants("tunnel-paper")];
    let mut arms: Vec<Arm> = ARMS.into_iter().filter(|arm| wanted[usize::from(arm.tunnel)]).collect();
    if let Some(why) = multipath::missing().or_else(multipath::missing_for_browsers) {
        outcome.notes.push(format!("The arm `{MULTIPATH}` is left out: {why}."));
        arms.retain(|arm| arm.way != Carrier::Multipath);
    }
    if arms.is_empty() {
        outcome.notes.push("With real packets there are ideal-paper and tunnel-paper; neither was asked for.".into());
        return Ok(());
    }
    outcome.method.push(METHOD.to_owned());
    let (own, others) = if cx.quick { (1, 1) } else { (6, usize::MAX) };
    let recorded = put::recorded(cx, others, outcome)?;
    // Other pages stand in place of the project's own; a quick run shows that both work.
    let own = if recorded.is_empty() || cx.quick { own } else { 0 };
    let mut sets = [
        ("", put::generated(cx.seed, own), "pages of the generator with contents made up for them"),
        ("-recorded", recorded, "recorded pages"),
    ];
    for (suffix, puts, what) in sets.iter_mut().filter(|(_, puts, _)| !puts.is_empty()) {
        let rounds = if cx.quick { QUICK } else { (LOADS / puts.len()).clamp(stats::MIN_FOR_INTERVAL, ROUNDS) };
        for put in puts.iter_mut() {
            put.page = over(&put.page, Protocol::Http1);
        }
        let Some(block) = set(cx, outcome, (&arms, rounds), puts)? else { return Ok(()) };
        let how = format!("paper{suffix}");
        let judged = suffix.is_empty() && outcome.valid;
        tell(outcome, &block, (&how, rounds), &|row| if judged { serve(claims, row) } else { Ok(row) })?;
        for kind in ["ideal", "tunnel"].into_iter().zip(wanted).filter_map(|(kind, wanted)| wanted.then_some(kind)) {
            for (by, who) in [("chromium", "Chromium"), ("loader", "the loader over sockets")] {
                let name = format!("{kind}-{how}-{by}");
                let about = format!(
                    "{}; {} {what}, replayed over TLS and HTTP/1.1 by servers at the channels' end, each loaded {rounds} times an arm by {who}",
                    BASE.about,
                    puts.len()
                );
                outcome.condition(name, about);
            }
        }
    }
    Ok(())
}

/// One set of pages; none if there is no browser, or the run was stopped.
fn set<'a>(
    cx: &Context,
    outcome: &mut Outcome,
    (arms, rounds): (&'a [Arm], usize),
    puts: &[Put],
) -> anyhow::Result<Option<Block<'a>>> {
    let [chromium, paints, loader] = [(); 3].map(|()| Taken::new(arms));
    let mut block = Block { chromium, paints, loader, answered: 0, asked: 0, subflows: [0; 2] };
    let total = (puts.len() * rounds) as u64;
    // As many again as there are to be.
    let mut quiet = Quiet::new(total);
    for (n, put) in puts.iter().enumerate() {
        let folder = Folder::new().context("making a folder for the browsers' files")?;
        let seed = cx.seed.wrapping_add(n as u64);
        let content = Content::of(put, &BASE, seed, folder.path())?;
        let stages = arms.iter().map(|arm| Stage::build(&BASE, arm.way, &content, seed));
        let stages = stages.collect::<anyhow::Result<Vec<_>>>()?;
        let mut browsers = match browsers(arms, &stages, &content, &folder)? {
            Ok(browsers) => browsers,
            Err(missing) => {
                outcome.notes.push(format!("No page was loaded by a real browser: {missing}"));
                return Ok(None);
            }
        };
        let mut round = 0;
        while round < rounds {
            cx.progress.step((n * rounds + round) as u64, total, &format!("{}, round {round}", put.page.name));
            if !cx.goes_on(outcome) {
                return Ok(None);
            }
            quiet.wait();
            stages.iter().for_each(|stage| drop(stage.take_doubt()));
            let taken = turns(round, &stages, &mut browsers, (put, &content))?;
            if quiet.keeps(stages.iter().find_map(Stage::doubt)) {
                for (arm, Loads { browser, paint, loader }) in taken.into_iter().enumerate() {
                    block.chromium.add(arm, browser.0, browser.1);
                    block.paints.add(arm, paint, browser.1);
                    block.loader.add(arm, loader.0, loader.1);
                }
                round += 1;
            }
        }
        drop(browsers);
        for (arm, stage) in arms.iter().zip(&stages) {
            let served = stage.served();
            block.answered += served.answered;
            block.asked += served.wanted();
            if arm.way == Carrier::Multipath {
                let counted = stage.subflows()?;
                block.subflows = [0, 1].map(|n| block.subflows[n] + counted[n]);
            }
        }
    }
    quiet.doubt().into_iter().for_each(|doubt| outcome.invalidate(doubt));
    let recorded = puts.iter().any(Put::is_recorded);
    outcome.notes.push(quiet.note(if recorded { "recorded pages" } else { "pages of the generator" }));
    Ok(Some(block))
}

/// What a load takes, in ms, and the bytes over the fat channel and the fast one.
type Load = (Option<f64>, [u64; 2]);

/// A page loaded by an arm: by its browser, with the first paint in ms if there was one, and by the loader.
#[derive(Clone, Copy, Default)]
struct Loads {
    browser: Load,
    paint: Option<f64>,
    loader: Load,
}

/// A load by each arm, by its browser and by the loader; in turns, the first one changing, so that a disturbance meets all.
fn turns(
    round: usize,
    stages: &[Stage],
    browsers: &mut [Chromium],
    (put, content): (&Put, &Content),
) -> anyhow::Result<Vec<Loads>> {
    let exact = |ms: f64| (ms * 1e3).round() / 1e3;
    let mut taken = vec![Loads::default(); stages.len()];
    for turn in (0..stages.len()).map(|turn| (turn + round) % stages.len()) {
        let before = stages[turn].bytes()?;
        let shown = browsers[turn].load(&content.url).ok();
        let between = stages[turn].bytes()?;
        let loaded = stages[turn].load(&put.page, content)?;
        let whole = loaded.filter(|loaded| !loaded.objects.iter().any(|object| object.failed));
        let ms = whole.map(|loaded| (loaded.time.as_secs_f64() * 1e6).round() / 1e3);
        let after = stages[turn].bytes()?;
        let bytes = |from: [u64; 2], to: [u64; 2]| [0, 1].map(|c| to[c] - from[c]);
        taken[turn] = Loads {
            browser: (shown.as_ref().map(|load| exact(load.load)), bytes(before, between)),
            paint: shown.and_then(|load| load.first_paint).map(exact),
            loader: (ms, bytes(between, after)),
        };
    }
    Ok(taken)
}

/// A browser on each stage that has looked at the page once; why not where there is none on this host.
fn browsers(
    arms: &[Arm],
    stages: &[Stage],
    content: &Content,
    folder: &Folder,
) -> anyhow::Result<Result<Vec<Chromium>, BrowserError>> {
    let mut browsers = Vec::new();
    for (arm, stage) in arms.iter().zip(stages) {
        let mut command = stage.shell()?;
        undisturbed(&mut command);
        let profile = folder.of(&format!("{}-{}", arm.name, arm.tunnel))?;
        let mut browser = match Chromium::start(command, &content.trust().key_hash, &profile, &[]) {
            Err(missing @ BrowserError::Missing) => return Ok(Err(missing)),
            other => other?,
        };
        browser.load(&content.url).with_context(|| format!("a first look at {} by {}", content.url, arm.name))?;
        browsers.push(browser);
    }
    Ok(Ok(browsers))
}

fn tell(
    outcome: &mut Outcome,
    block: &Block<'_>,
    (how, rounds): (&str, usize),
    serving: &dyn Fn(Row) -> anyhow::Result<Row>,
) -> anyhow::Result<()> {
    for (taken, by, metric) in
        [(&block.chromium, "chromium", "page load time (onLoad)"), (&block.loader, "loader", "page load time")]
    {
        let how = format!("{how}-{by}");
        // What the paper measured was a browser.
        let serve = |row: Row| if by == "chromium" { serving(row) } else { Ok(row) };
        taken.compare(outcome, (&how, metric), serve)?;
        taken.shares(outcome, &how, serve)?;
        let condition = format!("tunnel-{how}");
        let of = |name| taken.series(true, name, (&condition, metric, name));
        let Some((ours, fat)) = of(OURS).zip(of(FAT)) else { continue };
        let loads = vec![rounds; fat.values.len() / rounds];
        losers::surely_slower(outcome, (&ours, &fat), &loads, outcome.seed);
    }
    block.paints.compare(outcome, (&format!("{how}-chromium"), "first contentful paint"), Ok)?;
    let share = 100.0 * block.answered as f64 / block.asked.max(1) as f64;
    outcome.rows.push(Row::measured(how, "requests answered", "%", "replay", share));
    if block.chromium.arms.iter().any(|arm| arm.way == Carrier::Multipath) {
        let [asked, joined] = block.subflows;
        let share = 100.0 * joined as f64 / asked.max(1) as f64;
        let metric = "connections with a second subflow";
        outcome.rows.push(Row::measured(&format!("ideal-{how}"), metric, "%", MULTIPATH, share));
        if joined == 0 {
            outcome.invalidate(format!("no connection of the arm `{MULTIPATH}` had a second subflow"));
        }
    }
    Ok(())
}

/// What of the paper's claims virtual time cannot show.
fn serve(claims: &Claims, row: Row) -> anyhow::Result<Row> {
    let multipath = row.arm == MULTIPATH && row.condition.starts_with("ideal");
    Ok(match row.baseline_arm.as_deref() {
        Some(FAT) if multipath => row.serving(claims, "P5.1", MULTIPATH)?,
        None if multipath && row.metric.starts_with("share of bytes") => row.serving(claims, "P5.2", "")?,
        _ => row,
    })
}
