//! `newcomer-host`: what a host that has just joined gains by what its fleet has learned (`history import`), and what it loses
//! where that is wrong. Ours; no paper has a number.
//!
//! A veteran learns in one world; the newcomer gets what it exports and meets the same world, or another. Both halves run the
//! shipped machines: first visits by the connector, first transfers by quinn and careful resume. Hosts use the second alone: a wrong
//! prior costs first visits more than a right one gains.

mod transfers;
mod visits;

use super::target::Target;
use super::{Context, Entry, Outcome, Row, Series, Speeds, Steps};
use crate::stats::{Pairing, Statistic};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "newcomer-host",
    shows: "What imported history gains a new host on first visits and on the first 1 MB, and what it costs where it is wrong",
    claims: &[],
    conditions: NAMES,
    speeds: Speeds::Virtual,
    run,
};

const NAMES: &[&str] = &[
    "healthy",
    "ipv6-slower",
    "ipv6-black-hole",
    "wrong-all-well",
    "wrong-ipv6-dead",
    "transfer",
    "wrong-slower-5",
    "wrong-slower-20",
    "wrong-rtt",
];

/// The baseline: nothing but its own experience, which is none.
const ALONE: &str = "alone";
/// What is asked about.
const PRIOR: &str = "fleet-prior";
/// As if the veteran's experience were its own: what the halving costs.
const OWN: &str = "own-history";

/// Values of one metric in one condition: the baseline, then the others; a trial each.
struct Measured {
    metric: &'static str,
    unit: &'static str,
    statistics: &'static [Statistic],
    arms: Vec<(&'static str, Vec<Option<f64>>)>,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &NOTES);
    let wanted: Vec<&str> = NAMES.iter().copied().filter(|name| cx.wants(name)).collect();
    let mut steps = Steps::new(cx, wanted.len());
    for name in wanted {
        if !steps.next(&mut outcome, name) {
            return Ok(outcome);
        }
        let (about, measured) = match visits::find(name) {
            Some(case) => (case.about()?, visits::play(case, cx)?),
            None => {
                let case = transfers::find(name)?;
                (case.about(), transfers::play(&case, cx)?)
            }
        };
        for measured in measured {
            tell(&mut outcome, name, &measured)?;
        }
        outcome.condition(name, about);
    }
    Ok(outcome)
}

/// Rows and samples of one metric.
fn tell(outcome: &mut Outcome, condition: &str, measured: &Measured) -> anyhow::Result<()> {
    let series = |(arm, values): &(&'static str, Vec<Option<f64>>)| {
        Series::with_failures(condition, measured.metric, measured.unit, arm, values.iter().copied())
    };
    let all: Vec<Series> = measured.arms.iter().map(series).collect();
    let Some((baseline, others)) = all.split_first() else { return Ok(()) };
    for ours in others {
        for statistic in measured.statistics {
            let row = Row::compare(ours, baseline, *statistic, Pairing::Paired, outcome.seed)?;
            let is_harm = condition.starts_with("wrong-") && *statistic == Statistic::Mean && ours.arm == PRIOR;
            if let Some(ratio) = row.ratio.filter(|_| is_harm && measured.unit == "ms") {
                let what = format!("{condition}, {}, ratio to {ALONE}", row.metric);
                outcome.notes.push(Target::AtMost(1.1).note(&what, ratio, "x"));
            }
            outcome.rows.push(row);
        }
        outcome.failures(ours, baseline);
    }
    outcome.samples.extend(all);
    Ok(())
}

const METHOD: [&str; 3] = [
    "Visits: a veteran visits each site twice by `adaptive`; a minute later a newcomer imports its history and visits each site \
     once. Another newcomer visits them without history (`alone`). Links are `lte`; the jitter is drawn anew for each host. \
     Nothing is cached.",
    "Transfers: a veteran server sends 1 MB four times to a client by `careful-resume`; a newcomer server imports its history and \
     sends its first 1 MB to the same client. Each trial has a path of its own, 20 to 200 Mbit/s and 20 to 120 ms, a queue of one \
     bandwidth-delay product, nothing lost at random. `own-history`: the veteran's records as if they were the newcomer's own.",
    "Wrong: the newcomer's world differs from the veteran's. The harm is what it loses by trusting the veteran; the target is at \
     most a tenth of the mean time.",
];

const NOTES: [&str; 2] = [
    "Imported history only fills gaps: the first own experience with an address, a family or a path replaces it, and a window \
     counts half (docs/decisions/0100).",
    "Hosts export paths, not networks: `history import` changes first transfers, not first visits.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(condition: &str) -> Outcome {
        let conditions = Some(vec![condition.to_owned()]);
        ENTRY.start(&Context { quick: true, conditions, ..Context::new(7) }).unwrap()
    }

    /// The ratio of the mean time under `arm` to that of a host that is alone.
    fn ratio(outcome: &Outcome, arm: &str, of: &str) -> f64 {
        let row = outcome.rows.iter().find(|row| row.arm == arm && row.unit == "ms" && row.metric.ends_with(of));
        row.and_then(|row| row.ratio).unwrap_or_else(|| panic!("{}", outcome.last_line()))
    }

    #[test]
    fn a_family_that_the_fleet_knows_to_be_dead_costs_a_newcomer_no_more_and_twice_the_same() {
        let outcome = quick("ipv6-black-hole");
        // On a first visit both families are tried at once, with a prior or without: the mean of a few hosts is a lost SYN's.
        assert!(ratio(&outcome, PRIOR, ", median") < 1.0, "{}", outcome.last_line());
        assert_eq!(outcome.last_line(), quick("ipv6-black-hole").last_line());
    }

    #[test]
    fn the_first_megabyte_is_sooner_with_the_fleets_window_and_sooner_still_with_an_own_one() {
        let outcome = quick("transfer");
        let (prior, own) = (ratio(&outcome, PRIOR, ", mean"), ratio(&outcome, OWN, ", mean"));
        assert!(own < prior && prior < 0.98, "{}", outcome.last_line());
        assert_eq!(outcome.last_line(), quick("transfer").last_line());
    }

    #[test]
    fn a_wrong_prior_is_measured_and_every_host_connects() {
        for condition in ["wrong-all-well", "wrong-ipv6-dead"] {
            let outcome = quick(condition);
            assert!(outcome.notes.iter().any(|note| note.starts_with(condition)), "{:?}", outcome.notes);
            assert!(outcome.samples.iter().all(|series| series.failed() == 0), "{}", outcome.last_line());
        }
    }
}
