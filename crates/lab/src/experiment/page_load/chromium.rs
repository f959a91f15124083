//! Real page loads: Chromium in namespaces, bare and under `headstart run`, in turns, over the same replayed page.
//!
//! Each arm has a Chromium of its own; each load has a fresh context, so that nothing but headstart remembers anything. The
//! first load of each is left out: it also starts the browser's parts. The loader loads the same page over the same
//! network, in virtual time and over real sockets; how far each is from Chromium is said, not corrected.

use super::put::{Put, generated, recorded};
use super::{AccessNetwork, NETWORKS, measure};
use crate::browser::{BrowserError, BrowserLoad, Chromium};
use crate::experiment::quiet::Quiet;
use crate::experiment::{Context, Outcome, Row, Series, in_ms, losers};
use crate::page::{Dependency, Protocol};
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
/// When something can first be seen. Chromium notes it in any case and is asked after the load event: it costs a load nothing.
const PAINT: &str = "first contentful paint";

/// The arm of a bare Chromium whose hosts are next door.
const NEAR: &str = "near";
/// What the loader takes and what such a Chromium takes, one after the other.
const WITH_WORK: &str = "loader-and-near";

/// A way of loading pages in a real browser: its name, whether headstart is below it, whether it speaks HTTP/3.
type Arm = (&'static str, bool, bool);
const OVER_TCP: [Arm; 2] = [("bare", false, false), (measure::OURS, true, false)];
/// Where a page has hosts that speak HTTP/3, these too.
const OVER_QUIC: [Arm; 2] = [(measure::BARE_H3, false, true), (measure::OURS_H3, true, true)];

/// Times in ms by arm and page: the same number by each arm.
struct Taken {
    pages: usize,
    by_arm: Vec<(String, Vec<Vec<Option<f64>>>)>,
}

impl Taken {
    fn of_pages(pages: usize) -> Self {
        Self { pages, by_arm: Vec::new() }
    }

    fn add(&mut self, page: usize, arm: &str, times: impl IntoIterator<Item = Option<f64>>) {
        let known = self.by_arm.iter().position(|(name, _)| name == arm).unwrap_or_else(|| {
            self.by_arm.push((arm.to_owned(), vec![Vec::new(); self.pages]));
            self.by_arm.len() - 1
        });
        self.by_arm[known].1[page].extend(times);
    }

    /// Page after page.
    fn series(&self, condition: &str, metric: &str) -> Vec<Series> {
        let of = |(arm, pages): &(String, Vec<Vec<Option<f64>>>)| {
            Series::with_failures(condition, metric, "ms", arm, pages.iter().flatten().copied())
        };
        self.by_arm.iter().map(of).collect()
    }

    /// How often each page was loaded by each arm.
    fn loads(&self) -> Vec<usize> {
        self.by_arm.first().map(|(_, pages)| pages.iter().map(Vec::len).collect()).unwrap_or_default()
    }

    /// Whether the intervals of headstart beside the bare browser are narrow enough to stop; never without an interval.
    fn is_narrow(&self, seed: u64) -> bool {
        let all = self.series("", METRIC);
        let of = |arm: &str| all.iter().find(|s| s.arm == arm && !s.present().is_empty());
        let pairs = [OVER_TCP, OVER_QUIC].into_iter().filter_map(|[bare, ours]| of(ours.0).zip(of(bare.0)));
        let half = |(ours, bare)| {
            let row = Row::compare(ours, bare, Statistic::Mean, Pairing::Paired, seed).ok()?;
            row.interval.map(|interval| (interval.hi - interval.lo) / 2.0)
        };
        let halves: Vec<Option<f64>> = pairs.map(half).collect();
        !halves.is_empty() && halves.iter().all(|half| half.is_some_and(|half| half <= NARROW))
    }
}

/// How often a page is loaded by each arm before the next page has its turn; in a quick run, that is all.
const A_PASS: usize = 4;
const QUICK: usize = 3;
/// Passes over all pages end when the intervals are this narrow to each side, of a ratio.
const NARROW: f64 = 0.02;
/// Or after so many loads of a page by an arm, or of all pages: many pages are loaded less often each, and say as much together.
const ROUNDS: usize = 20;
const LOADS: usize = 240;

/// The most passes over so many pages.
fn passes(pages: usize) -> usize {
    (ROUNDS.min(LOADS / pages.max(1)) / A_PASS).max(1)
}

/// A set of pages in a network.
struct Set<'a> {
    cx: &'a Context,
    access: &'a AccessNetwork,
    condition: String,
    puts: &'a [Put],
    arms: Vec<Arm>,
    headstart: &'a Path,
    taken: Taken,
    painted: Taken,
    quiet: Quiet,
    answered: u64,
    asked: u64,
}

/// Every wanted network, if Chromium is there.
pub fn run(cx: &Context, outcome: &mut Outcome) -> anyhow::Result<()> {
    let headstart = cx.measured_program()?;
    let recorded = recorded(cx, if cx.quick { 1 } else { usize::MAX }, outcome)?;
    // Other pages stand in place of the project's own.
    let own = if recorded.is_empty() { generated(cx.seed, if cx.quick { 1 } else { 8 }) } else { Vec::new() };
    // A quick run shows that it works: in one network.
    let networks = NETWORKS.iter().filter(|p| cx.wants(p.name)).take(if cx.quick { 1 } else { NETWORKS.len() });
    for access in networks {
        for (suffix, puts, what) in [
            ("-chromium", &own, "pages of the generator with contents made up for them"),
            ("-recorded-chromium", &recorded, "recorded pages, hosts at distances of the generator's"),
        ] {
            let condition = format!("{}{suffix}", access.name);
            let go_on = puts.is_empty() || Set::of(cx, access, condition, puts, &headstart).run(outcome, what)?;
            if !go_on {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl<'a> Set<'a> {
    fn of(cx: &'a Context, access: &'a AccessNetwork, condition: String, puts: &'a [Put], headstart: &'a Path) -> Self {
        let over_quic = puts.iter().any(|p| p.page.objects.iter().any(|o| o.protocol == Protocol::Http3));
        let arms = OVER_TCP.into_iter().chain(OVER_QUIC.into_iter().filter(|_| over_quic)).collect();
        let [taken, painted] = [(); 2].map(|()| Taken::of_pages(puts.len()));
        // As many again as the longest run has.
        let quiet = Quiet::new((puts.len() * ROUNDS) as u64);
        Self { cx, access, condition, puts, arms, headstart, taken, painted, quiet, answered: 0, asked: 0 }
    }

    /// Loads all pages until it is known how they compare, and tells; whether to go on.
    fn run(mut self, outcome: &mut Outcome, what: &str) -> anyhow::Result<bool> {
        let passes = if self.cx.quick { 1 } else { passes(self.puts.len()) };
        let mut passed = 0;
        while passed < passes && !self.taken.is_narrow(self.cx.seed) {
            match self.pass((passed, passes)) {
                Ok(true) => passed += 1,
                Ok(false) => {
                    outcome.invalidate("it was stopped early");
                    return Ok(false);
                }
                Err(e) if e.downcast_ref::<BrowserError>().is_some_and(|e| matches!(e, BrowserError::Missing)) => {
                    outcome.notes.push(format!("No page was loaded by a real browser: {e}"));
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        let loads = self.taken.loads().first().copied().unwrap_or_default();
        let about = format!(
            "{}: {}. {} {what}, replayed over TLS, HTTP/1.1 or HTTP/2 as their hosts speak it (in the arms `-h3` HTTP/3 too), each loaded {loads} \
             times an arm by Chromium",
            self.access.name,
            self.access.about,
            self.puts.len()
        );
        outcome.doubts_of(&self.condition, self.quiet.doubt());
        outcome.notes.push(self.quiet.note(&self.condition));
        tell(self.cx, outcome, &self.condition, &self.taken)?;
        tell_paints(outcome, self.painted.series(&self.condition, PAINT), self.cx.seed)?;
        let share = 100.0 * self.answered as f64 / self.asked.max(1) as f64;
        outcome.rows.push(Row::measured(&self.condition, "requests answered", "%", "replay", share));
        outcome.condition(self.condition, about);
        Ok(true)
    }

    /// Each page once more so often; false if it was stopped.
    fn pass(&mut self, (pass, passes): (usize, usize)) -> anyhow::Result<bool> {
        let rounds = if self.cx.quick { QUICK } else { A_PASS };
        let over_quic = self.arms.len() > OVER_TCP.len();
        for (n, put) in self.puts.iter().enumerate() {
            if self.cx.progress.stop() {
                return Ok(false);
            }
            let (at, all) = ((pass * self.puts.len() + n) as u64, (passes * self.puts.len()) as u64);
            self.cx.progress.step(at, all, &format!("{}, {}", self.condition, put.page.name));
            let folder = Folder::new().context("making a folder for the browsers' files")?;
            let seed = self.cx.seed.wrapping_add(n as u64);
            let stage = put.on_stage((self.access.link, self.access.families, seed), folder.path())?;
            let arms = self.arms.clone();
            self.page_loads((n, &stage), (&arms, rounds), &folder)?;
            load_without_browser((n, put), &stage, (self.access, seed, rounds), over_quic, &mut self.taken)?;
            let served = stage.served();
            self.answered += served.answered;
            self.asked += served.wanted();
            drop(stage);
            let stage = put.next_door(seed, &folder.of("next-door")?)?;
            self.page_loads((n, &stage), (&[(NEAR, false, false)], rounds), &folder)?;
        }
        Ok(true)
    }

    /// Loads a page `rounds` times by each of `arms`.
    fn page_loads(
        &mut self,
        (page, stage): (usize, &Stage),
        (arms, rounds): (&[Arm], usize),
        folder: &Folder,
    ) -> anyhow::Result<()> {
        let mut browsers = Vec::new();
        for arm in arms {
            let mut browser = self.browser(stage, arm, &folder.of(arm.0)?)?;
            let name = &self.puts[page].page.name;
            browser.load(stage.url()).with_context(|| format!("a first look at {name} by {}", arm.0))?;
            browsers.push(browser);
        }
        let exact = |ms: f64| (ms * 1e3).round() / 1e3;
        let times = |browser: &mut Chromium| {
            let load: Option<BrowserLoad> = browser.load(stage.url()).ok();
            load.map_or([None; 2], |l| [Some(exact(l.load)), l.first_paint.map(exact)])
        };
        let mut round = 0;
        while round < rounds {
            self.quiet.wait();
            stage.network().take_certificate();
            let mut taken = vec![[None; 2]; arms.len()];
            // In turns, the first one changing, so that a disturbance meets all.
            for n in (0..arms.len()).map(|n| (n + round) % arms.len()) {
                taken[n] = times(&mut browsers[n]);
            }
            if self.quiet.keeps(stage.network().certificate().doubt()) {
                for (arm, [time, paint]) in arms.iter().zip(taken) {
                    self.taken.add(page, arm.0, [time]);
                    self.painted.add(page, arm.0, [paint]);
                }
                round += 1;
            }
        }
        Ok(())
    }

    fn browser(&self, stage: &Stage, &(_, with_headstart, http3): &Arm, profile: &Path) -> anyhow::Result<Chromium> {
        let mut command = if with_headstart {
            let mut run = Command::new(self.headstart);
            run.args(["run", "--private", "--quiet", "--", "/bin/sh"]);
            stage.network().adopt(&mut run)?;
            run
        } else {
            stage.network().command("/bin/sh")?
        };
        undisturbed(&mut command);
        let over_quic = if http3 { stage.over_quic() } else { &[] };
        Ok(Chromium::start(command, &stage.trust().key_hash, profile, over_quic)?)
    }
}

/// Loads a page without a browser: once in virtual time, which is the same in each round, and over real sockets.
fn load_without_browser(
    (n, put): (usize, &Put),
    stage: &Stage,
    (access, seed, rounds): (&AccessNetwork, u64, usize),
    over_quic: bool,
    taken: &mut Taken,
) -> anyhow::Result<()> {
    let world = crate::condition::page::world(&put.page, access.link, access.families, seed);
    let names = put.hosts(|n| world.sites[n].name.clone());
    let ms = |time: Duration| Some(in_ms(time));
    for http3 in [false, true].into_iter().filter(|http3| !http3 || over_quic) {
        let page = if http3 { put.page.clone() } else { put.page.over_tcp() };
        let end = if http3 { "-h3" } else { "" };
        let mut browser = Browser::new(&world, BrowserArm::BARE, seed)?;
        let simulated = ms(browser.load(&page, Dependency::Structure).time);
        taken.add(n, &format!("loader{end}"), std::iter::repeat_n(simulated, rounds));
        for _ in 0..rounds {
            let roots = recorder::roots_of(&stage.trust().certificate)?;
            let requests = put.requests(&names);
            let load = || socket_loader::load(&page, Dependency::Structure, requests, roots);
            let loaded = socket_loader::unless_given_up(stage.network().on_client(load)?)
                .with_context(|| format!("loading {} over sockets", page.name))?;
            taken.add(n, &format!("loader-sockets{end}"), [loaded.and_then(|loaded| ms(loaded.time))]);
        }
    }
    Ok(())
}

fn tell(cx: &Context, outcome: &mut Outcome, condition: &str, taken: &Taken) -> anyhow::Result<()> {
    let mut all = taken.series(condition, METRIC);
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
        page_by_page(outcome, (ours, bare), &taken.loads(), cx.seed)?;
    }
    if let Some((over_quic, over_tcp)) = of(measure::BARE_H3).zip(of("bare")) {
        outcome.rows.push(Row::compare(over_quic, over_tcp, Statistic::Mean, Pairing::Paired, cx.seed)?);
    }
    outcome.samples.extend(all);
    Ok(())
}

/// When something can first be seen, under headstart beside bare, in loads that showed something under both; and how many did not.
fn tell_paints(outcome: &mut Outcome, all: Vec<Series>, seed: u64) -> anyhow::Result<()> {
    for [bare, ours] in [OVER_TCP, OVER_QUIC] {
        let of = |arm: &Arm| all.iter().find(|s| s.arm == arm.0);
        let Some((ours, bare)) = of(&ours).zip(of(&bare)) else { continue };
        outcome.failures(ours, bare);
        if ours.meets(bare) {
            for statistic in [Statistic::Mean, Statistic::Median] {
                outcome.rows.push(Row::compare(ours, bare, statistic, Pairing::Paired, seed)?);
            }
        }
    }
    outcome.samples.extend(all);
    Ok(())
}

/// Page by page, so that large pages do not hide small ones: how far loads of one page differ, and the pages that are slower.
fn page_by_page(
    outcome: &mut Outcome,
    (ours, bare): (&Series, &Series),
    loads: &[usize],
    seed: u64,
) -> anyhow::Result<()> {
    let mut at = 0;
    for (n, loads) in loads.iter().enumerate() {
        let values: Vec<f64> = bare.values[at..at + loads].iter().flatten().copied().collect();
        at += loads;
        if values.len() > 2 {
            let cv = 100.0 * Statistic::StandardDeviation.of(&values)? / Statistic::Mean.of(&values)?;
            let metric = format!("coefficient of variation of {METRIC}, page {}", n + 1);
            outcome.rows.push(Row::measured(&bare.condition, &metric, "%", &bare.arm, cv));
        }
    }
    losers::surely_slower(outcome, (ours, bare), loads, seed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bare: &[Option<f64>], ours: &[Option<f64>]) -> Vec<(String, f64, Option<f64>)> {
        let mut painted = Taken::of_pages(1);
        painted.add(0, "bare", bare.iter().copied());
        painted.add(0, measure::OURS, ours.iter().copied());
        let mut outcome = Outcome::new("x", 1);
        tell_paints(&mut outcome, painted.series("lte", PAINT), 1).unwrap();
        assert_eq!(outcome.samples.len(), 2);
        outcome.check().unwrap();
        outcome.rows.into_iter().map(|row| (row.metric, row.ours, row.baseline)).collect()
    }

    #[test]
    fn a_load_that_shows_nothing_has_no_paint_and_is_no_pair() {
        let told = rows(&[Some(100.0), None, Some(300.0), Some(200.0)], &[Some(80.0), Some(1.0), Some(240.0), None]);
        let row = |metric: &str, ours, bare| (format!("{PAINT}, {metric}"), ours, Some(bare));
        assert_eq!(told, [row("failed", 25.0, 25.0), row("mean", 160.0, 200.0), row("median", 160.0, 200.0)]);
        assert_eq!(rows(&[None, Some(5.0)], &[Some(7.0), None]), [row("failed", 50.0, 50.0)]);
        let pages_that_paint = rows(&[Some(100.0)], &[Some(90.0)]);
        assert_eq!(pages_that_paint, [row("mean", 90.0, 100.0), row("median", 90.0, 100.0)]);
    }
}
