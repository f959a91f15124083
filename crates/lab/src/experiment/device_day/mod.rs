//! `device-day`: a day of a phone in virtual time, bare and with every column: at home, on a walk, in an office whose
//! IPv6 is broken, on a train with outages, and home again.
//!
//! One host lives through the whole day: what it has learned goes with it from network to network. Paper 1 claims that
//! power draw does not change; what stands for power here are the times that the radio is woken, the times that the
//! connector wakes by itself, and bytes.

mod day;

use super::target::Target;
use super::together::arm::{self, Arm};
use super::{Context, Entry, Outcome, Row, Series, Speeds, Steps, in_ms};
use crate::page::{Dependency, Page};
use crate::sim::{Browser, Traffic, Wanted};
use crate::stats::{Pairing, Statistic};
use day::{CALL, DAY, PAUSE, PLACES, Place, TALK};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "device-day",
    shows: "Over a phone's day, pages load sooner and calls and messages arrive sooner; the cost in wake-ups and bytes",
    claims: &[],
    conditions: &["home", "walk", "office", "train"],
    speeds: Speeds::Virtual,
    run,
};

const METHOD: [&str; 4] = [
    "A host goes through a day: home, walk, office, train, home. At each place it loads each of its pages (the generator's) and \
     makes a call of 60 s and exchanges messages for 20 s, with six minutes between any two activities; the whole round twice at \
     each place. Hosts and families are those of `paper1-lte`, at the same distances everywhere.",
    "`bare` is a modern browser by itself and plain TCP; `all` has every column of experiment `together`, with two channels where \
     there are two. The connector, servers' histories and learned patterns move from place to place; links do not.",
    "A wake-up of the radio is a packet after 11 s without any (the inactivity timer of a commercial LTE network, Huang et al., \
     MobiSys 2012), probes of channels at rest included. Wake-ups of the connector are its own deadlines; calls of programs and \
     answers are none.",
    "All places are simulated whichever conditions are selected, because a day has all of them; only rows are left out.",
];

/// What is measured, each a value a thing done.
const METRICS: [(&str, &str); 3] = [
    ("page load time", "ms"),
    ("delay of a call's packets over the access, p95", "ms"),
    ("delay of messages over the access, p95", "ms"),
];

/// What one arm did at one place.
#[derive(Default)]
struct Here {
    values: [Vec<f64>; METRICS.len()],
    failed: u64,
}

/// What one arm did and spent.
struct Lived {
    arm: &'static Arm,
    /// By place.
    here: [Here; PLACES.len()],
    spent: Spent,
}

#[derive(Clone, Copy, Default)]
struct Spent {
    traffic: Traffic,
    wakeups: u64,
    unused: u64,
    fast: u64,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let (days, count) = if cx.quick { (1, 3) } else { (40, 6) };
    let arms = [arm::BARE, arm::ALL_COLUMNS];
    let arms: Vec<&'static Arm> =
        arms.iter().filter_map(|name| arm::ALL.iter().find(|arm| arm.name == *name)).collect();
    let mut lived: Vec<Lived> =
        arms.iter().map(|arm| Lived { arm, here: Default::default(), spent: Spent::default() }).collect();
    let mut steps = Steps::new(cx, days as usize * lived.len());
    for n in 0..days {
        let seed = cx.seed.wrapping_mul(7919).wrapping_add(n);
        let pages = day::pages(seed, count);
        for lived in &mut lived {
            if !steps.next(&mut outcome, &format!("day {}, {}", n + 1, lived.arm.name)) {
                return Ok(outcome);
            }
            lived.day(&pages, seed)?;
        }
    }
    for place in PLACES.iter().filter(|place| cx.wants(place.name)) {
        outcome.condition(place.name, format!("{}.", place.about));
    }
    add(&mut outcome, &lived, days, |place| cx.wants(place))?;
    Ok(outcome)
}

impl Lived {
    fn day(&mut self, pages: &[Page], seed: u64) -> anyhow::Result<()> {
        let first = DAY[0].world(pages, seed);
        let mut browser = self.arm.browser_at(&first, seed)?;
        for place in DAY {
            let steering = if self.arm.steer { place.steering()? } else { None };
            browser.move_to(place.number, &place.world(pages, seed), steering.as_ref())?;
            let Some(here) = PLACES.iter().position(|known| known.number == place.number) else { continue };
            for _ in 0..2 {
                self.round(&mut browser, &place, here, pages)?;
            }
        }
        self.spent.traffic = self.spent.traffic + browser.traffic();
        self.spent.wakeups += browser.wakeups();
        self.spent.unused += browser.unused();
        self.spent.fast += browser.channel_bytes()[1];
        Ok(())
    }

    /// Everything once.
    fn round(&mut self, browser: &mut Browser, place: &Place, here: usize, pages: &[Page]) -> anyhow::Result<()> {
        let Here { values, failed } = &mut self.here[here];
        for page in pages {
            let load = browser.load(page, Dependency::Structure);
            *failed += load.objects.iter().filter(|o| o.failed).count() as u64;
            values[0].push(in_ms(load.time));
            browser.rest(PAUSE);
        }
        let call = Wanted { call: true, messages: None };
        values[1].push(super::together::p95(&browser.converse(CALL, &call)?.call));
        browser.rest(PAUSE);
        let talk = Wanted { call: false, messages: Some((self.arm.technique(), place.rtt)) };
        values[2].push(super::together::p95(&browser.converse(TALK, &talk)?.messages));
        browser.rest(PAUSE);
        Ok(())
    }

    fn series(&self, place: usize, metric: usize) -> Series {
        let values = self.here[place].values[metric].iter().copied();
        Series::new(PLACES[place].name, METRICS[metric].0, METRICS[metric].1, self.arm.name, values)
    }
}

fn add(outcome: &mut Outcome, lived: &[Lived], days: u64, wants: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let [bare, all] = lived else { anyhow::bail!("the arms of a day are not in the registry of arms") };
    for place in (0..PLACES.len()).filter(|place| wants(PLACES[*place].name)) {
        for metric in 0..METRICS.len() {
            let (ours, baseline) = (all.series(place, metric), bare.series(place, metric));
            for statistic in [Statistic::Mean, Statistic::Median] {
                outcome.rows.push(Row::compare(&ours, &baseline, statistic, Pairing::Paired, outcome.seed)?);
            }
            outcome.samples.extend([baseline, ours]);
        }
        for lived in lived {
            let failed = lived.here[place].failed as f64 / days as f64;
            if failed > 0.0 {
                let (place, arm) = (PLACES[place].name, lived.arm.name);
                outcome.rows.push(Row::measured(place, "objects not loaded, a day", "objects", arm, failed));
            }
        }
    }
    for lived in lived {
        let Spent { traffic, wakeups, unused, fast } = lived.spent;
        let mut price = |what: &str, unit: &str, amount: f64| {
            outcome.price("day", lived.arm.name, &format!("{what}, a day"), unit, amount / days as f64);
        };
        price("wake-ups of the radio", "", traffic.radio_wakeups as f64);
        price("the radio awake", "s", traffic.radio_awake.as_secs_f64());
        price("wake-ups of the connector by itself", "", wakeups as f64);
        price("bytes up", "kB", traffic.bytes_up as f64 / 1e3);
        price("bytes down", "kB", traffic.bytes_down as f64 / 1e3);
        price("bytes over the fast channel", "kB", fast as f64 / 1e3);
        price("connection attempts", "", traffic.syns as f64);
        price("connections opened and not used", "", unused as f64);
        price("DNS queries", "", traffic.queries as f64);
    }
    let ratio = |of: fn(&Spent) -> u64| of(&all.spent) as f64 / of(&bare.spent).max(1) as f64;
    // Paper 1, section V: no significant change. The bounds are ours.
    let radio = ratio(|s| s.traffic.radio_wakeups);
    outcome.notes.push(Target::AtMost(1.05).note("day, all beside bare, wake-ups of the radio", radio, "x"));
    let awake = all.spent.traffic.radio_awake.as_secs_f64() / bare.spent.traffic.radio_awake.as_secs_f64();
    outcome.notes.push(Target::AtMost(1.05).note("day, all beside bare, time that the radio is awake", awake, "x"));
    let bytes = ratio(|s| s.traffic.bytes_up + s.traffic.bytes_down);
    outcome.notes.push(Target::AtMost(1.05).note("day, all beside bare, bytes", bytes, "x"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_repeats_and_broken_ipv6_hurts_only_who_does_not_learn() {
        let quick = || ENTRY.start(&Context { quick: true, ..Context::new(1) }).unwrap();
        let o = quick();
        let row =
            |place: &str| o.rows.iter().find(|r| r.condition == place && r.metric == "page load time, mean").unwrap();
        assert!(row("office").ratio.unwrap() < 1.0, "{:?}", row("office"));
        assert!(row("walk").ratio.unwrap() < 1.0, "{:?}", row("walk"));
        let woken = |arm: &str| {
            o.prices.iter().find(|p| p.arm == arm && p.what.starts_with("wake-ups of the radio")).unwrap().amount
        };
        // Ten rounds of five things, and home again.
        assert!(woken("bare") >= 50.0, "{}", woken("bare"));
        assert_eq!(o.last_line(), quick().last_line());
    }
}
