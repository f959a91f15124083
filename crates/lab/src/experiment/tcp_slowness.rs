//! `tcp-slowness`: does the lab see which family a site is faster over, and which connects fail (claim P1.9)?
//!
//! Figure 3 of paper 1 is a measurement of the Internet of its day; no lab can repeat it. What a lab can show is that its
//! instrument would see such a thing: distributions of slow and failing connects are planted in worlds, a program without
//! headstart connects to every site over each family by itself, and what it saw is compared with what was planted, as
//! shares and site by site. The verdict on the claim is never more than "instrument only".

use super::{Context, Entry, Outcome, Row, Series, Speeds, Steps, Verdict};
use crate::condition;
use crate::netns::{Network, Visitor};
use crate::sim::{Arm, Session, Settings};
use crate::stats::Statistic;
use crate::world::{Fate, World};
use anyhow::Context as _;
use headstart_core::connect::Want;
use headstart_core::connect::cache::Lifetime;
use headstart_core::path::Family;
use headstart_core::time::Duration;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "tcp-slowness",
    shows: "The lab measures the shares of sites that are faster over IPv4 and of failing IPv6 connections as configured",
    claims: &[CLAIM],
    conditions: &[PAPER, "mostly-ipv6", "mostly-ipv4"],
    speeds: Speeds::Both,
    run,
};

const CLAIM: &str = "P1.9";
/// The distribution that the lab's network of paper 1 was calibrated to have.
const PAPER: &str = "paper1-lte";
const MEASURED: &str = "measured";
const PLANTED: &str = "planted";
const FASTER: &str = "sites faster over IPv4";
const FAIL: &str = "IPv6 connects that fail";
const DIFFERENCE: &str = "IPv6 connect time less that of IPv4";

/// Connects to a site over a family, of which the median counts: the link's jitter is drawn for each packet.
const REPEATS: usize = 5;
/// Between two connects.
const PAUSE: Duration = Duration::from_millis(100);
/// In namespaces a connect that takes longer has failed. No planted round trip is a tenth of it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Other distributions than the paper's, so that an instrument that always says the same is found out: the name, the
/// share of sites faster over IPv4 and the share whose IPv6 fails, in percent.
const OTHERS: [(&str, u32, u32); 2] = [("mostly-ipv6", 15, 0), ("mostly-ipv4", 80, 20)];

/// One site: IPv6 less IPv4 in milliseconds, or nothing if IPv6 fails.
type Difference = Option<f64>;

/// Whether a condition is played in namespaces: a quick run has no time for those that virtual time shows as well, unless it
/// is told to.
fn soon(cx: &Context, condition: &str) -> bool {
    !cx.quick || condition == PAPER || cx.conditions.is_some()
}

fn worlds(name: &str, sites: usize, seed: u64) -> anyhow::Result<World> {
    let mut world = (condition::find(PAPER)?.world)(seed, sites);
    let Some((_, faster, failing)) = OTHERS.iter().find(|(n, ..)| *n == name) else { return Ok(world) };
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x510);
    let mut place: Vec<usize> = (0..sites).collect();
    rng.shuffle(&mut place);
    let share = |percent: &u32| sites * *percent as usize / 100;
    for (site, place) in world.sites.iter_mut().zip(place) {
        // Uniform between 2 and 80 ms apart: some are hard to tell, none can be told by luck alone.
        let (near, apart) = (2.0 + 40.0 * rng.f64(), 2.0 + 78.0 * rng.f64());
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let (v4, v6) = if place < share(faster) { (near, near + apart) } else { (near + apart, near) };
        (site.v4[0].extra_rtt, site.v6[0].extra_rtt) = (ms(v4), ms(v6));
        let fails = place >= sites - share(failing);
        site.v6[0].fate = if !fails {
            Fate::Answers
        } else if place % 2 == 0 {
            Fate::Refuses
        } else {
            Fate::BlackHole
        };
    }
    Ok(world)
}

fn planted(world: &World) -> Vec<Difference> {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let of = |site: &crate::world::Site| {
        (site.v6[0].fate == Fate::Answers).then(|| ms(site.v6[0].extra_rtt) - ms(site.v4[0].extra_rtt))
    };
    world.sites.iter().map(of).collect()
}

/// Connects to every site over each family; `connect` says how long it took, in ms.
fn measured(
    world: &World,
    mut connect: impl FnMut(usize, Family) -> anyhow::Result<Option<f64>>,
) -> anyhow::Result<Vec<Difference>> {
    let mut median = |site, family| -> anyhow::Result<Option<f64>> {
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            match connect(site, family)? {
                Some(ms) => times.push(ms),
                // What fails once is not asked again: a black hole takes its time.
                None => return Ok(None),
            }
        }
        Ok(Some(Statistic::Median.of(&times)?))
    };
    let mut all = Vec::new();
    for site in 0..world.sites.len() {
        let (v4, v6) = (median(site, Family::V4)?, median(site, Family::V6)?);
        all.push(v6.zip(v4).map(|(v6, v4)| v6 - v4));
    }
    Ok(all)
}

fn in_virtual_time(world: &World) -> anyhow::Result<Vec<Difference>> {
    let settings = Settings { arm: Arm::Bare, lifetime: Lifetime::Off, seed: world.seed };
    let mut session = Session::new(world, settings)?;
    measured(world, |site, family| {
        let visit = session.visit(site, Want::Only(family));
        session.idle(PAUSE);
        Ok(visit.reached.map(|_| visit.connect.as_secs_f64() * 1e3))
    })
}

/// And why the times may not be believed.
fn in_namespaces(world: &World) -> anyhow::Result<(Vec<Difference>, Option<String>)> {
    let network = Network::build(world).context("building the network")?;
    let mut program = Visitor::bare(&network)?;
    let seen = measured(world, |site, family| {
        let visited = program.visit(&world.sites[site].name, Some(family), PATIENCE)?;
        Ok(visited.connect.map(|took| took.as_secs_f64() * 1e3))
    })?;
    let certificate = network.certificate();
    let doubt = (!certificate.valid).then(|| {
        let (late, allowed) = (certificate.lateness.p99_us, certificate.allowed_us);
        format!("the emulator was late: 1 % of packets by more than {late:.0} us, where {allowed:.0} are allowed")
    });
    Ok((seen, doubt))
}

fn rows(name: &str, planted: &[Difference], measured: &[Difference]) -> anyhow::Result<(Vec<Row>, Vec<Series>)> {
    let percent = |n: usize| 100.0 * n as f64 / planted.len().max(1) as f64;
    let faster = |of: &[Difference]| percent(of.iter().flatten().filter(|d| **d > 0.0).count());
    let fail = |of: &[Difference]| percent(of.iter().filter(|d| d.is_none()).count());
    let row = |metric: &str, of: &dyn Fn(&[Difference]) -> f64| {
        // Calibrated on the paper's network, so that it says something of the instrument and nothing of the Internet.
        let of_claim = name.starts_with(PAPER) && metric == FASTER;
        Row {
            claim: of_claim.then(|| CLAIM.to_owned()),
            verdict: of_claim.then_some(Verdict::InstrumentOnly),
            ..Row::measured(name, metric, "%", MEASURED, of(measured)).beside(PLANTED, of(planted))
        }
    };
    let mut rows = vec![row(FASTER, &faster), row(FAIL, &fail)];
    let same = |(a, b): &(&Difference, &Difference)| match (a, b) {
        (Some(a), Some(b)) => (*a > 0.0) == (*b > 0.0),
        (a, b) => a.is_none() == b.is_none(),
    };
    let right = planted.iter().zip(measured).filter(same).count();
    rows.push(Row::measured(name, "sites measured as configured", "%", MEASURED, percent(right)));
    let errors: Vec<f64> =
        planted.iter().zip(measured).filter_map(|(p, m)| Some((p.as_ref()? - m.as_ref()?).abs())).collect();
    for statistic in [Statistic::Median, Statistic::Quantile(0.95)] {
        if !errors.is_empty() {
            let metric = format!("error of a site's difference, {statistic}");
            rows.push(Row::measured(name, &metric, "ms", MEASURED, statistic.of(&errors)?));
        }
    }
    let series = |arm: &str, of: &[Difference]| Series::with_failures(name, DIFFERENCE, "ms", arm, of.iter().copied());
    Ok((rows, vec![series(MEASURED, measured), series(PLANTED, planted)]))
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let speeds = [(false, cx.speeds.in_virtual_time()), (true, cx.speeds.in_namespaces())];
    let speeds = speeds.iter().filter(|s| s.1).map(|s| s.0);
    let plan: Vec<_> = speeds.flat_map(|speed| wanted.iter().map(move |name| (speed, *name))).collect();
    let plan: Vec<_> = plan.into_iter().filter(|(namespaces, name)| !namespaces || soon(cx, name)).collect();
    let mut steps = Steps::new(cx, plan.len());
    for (namespaces, condition) in plan {
        let name = if namespaces { format!("{condition}-netns") } else { condition.to_owned() };
        if !steps.next(&mut outcome, &name) {
            return Ok(outcome);
        }
        let sites = match (namespaces, cx.quick) {
            (false, false) => 1000,
            (false, true) => 200,
            (true, false) => 200,
            (true, true) => 40,
        };
        let world = worlds(condition, sites, cx.seed)?;
        let (seen, doubt) = if namespaces { in_namespaces(&world)? } else { (in_virtual_time(&world)?, None) };
        let (rows, samples) = rows(&name, &planted(&world), &seen)?;
        outcome.rows.extend(rows);
        outcome.samples.extend(samples);
        outcome.doubts_of(&name, doubt);
        let about = match OTHERS.iter().find(|(n, ..)| *n == condition) {
            Some((_, faster, failing)) => format!(
                "{sites} sites behind link `lte`, {faster} % of them faster over IPv4, IPv6 failing at {failing} %; the \
                 families are 2 to 80 ms apart."
            ),
            None => format!("{sites} sites; {}", crate::condition::find(condition)?.what),
        };
        outcome.condition(name, about);
    }
    Ok(outcome)
}

const METHOD: [&str; 2] = [
    "A program without headstart looks every site up and connects to it over each family by itself, five times; the median \
     counts, and the first failure. Arm `planted` is the configured world, arm `measured` what the program saw. The row of a \
     claim is `instrument only`, because the paper's shares are of its own part of the Internet.",
    "Virtual time has the link's jitter and nothing else. In namespaces the lab's client runs over the kernel's TCP; a \
     connect that takes longer than 2 s has failed.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(condition: &str) -> Outcome {
        ENTRY.start(&Context { quick: true, conditions: Some(vec![condition.into()]), ..Context::new(5) }).unwrap()
    }

    fn value(outcome: &Outcome, metric: &str) -> (f64, Option<f64>) {
        let row = outcome.rows.iter().find(|row| row.metric == metric).unwrap();
        (row.ours, row.baseline)
    }

    #[test]
    fn a_quick_run_has_real_packets_for_the_papers_condition_and_for_those_that_it_is_told() {
        let cx = |quick, conditions| Context { quick, conditions, ..Context::new(1) };
        assert!(soon(&cx(true, None), PAPER) && !soon(&cx(true, None), "mostly-ipv6"));
        assert!(soon(&cx(true, Some(vec!["mostly-ipv6".into()])), "mostly-ipv6"));
        assert!(soon(&cx(false, None), "mostly-ipv6"));
    }

    #[test]
    fn every_planted_distribution_is_recovered() {
        for (condition, faster, failing) in
            [(PAPER, None, 7.0), ("mostly-ipv6", Some(15.0), 0.0), ("mostly-ipv4", None, 20.0)]
        {
            let outcome = quick(condition);
            let (seen, truth) = value(&outcome, FASTER);
            assert!((seen - truth.unwrap()).abs() <= 3.0, "{condition}: {seen} of {truth:?}");
            assert!(faster.is_none_or(|share| truth == Some(share)), "{condition}: {truth:?}");
            assert_eq!(value(&outcome, FAIL), (failing, Some(failing)), "{condition}");
            assert!(value(&outcome, "sites measured as configured").0 >= 95.0, "{condition}");
        }
    }

    #[test]
    fn the_claim_is_judged_as_an_instrument_alone_and_only_by_the_papers_network() {
        let judged =
            |o: &Outcome| o.rows.iter().filter_map(|r| Some((r.claim.clone()?, r.verdict?))).collect::<Vec<_>>();
        assert_eq!(judged(&quick(PAPER)), [(CLAIM.to_owned(), Verdict::InstrumentOnly)]);
        assert_eq!(judged(&quick("mostly-ipv4")), []);
    }

    #[test]
    fn a_run_repeats_to_the_last_digit() {
        assert_eq!(quick(PAPER).last_line(), quick(PAPER).last_line());
    }
}
