//! `connect-model`: Equations 1 to 8 of paper 1, section IV, computed from the parts of connecting (each measured by
//! itself), beside what the three ways to connect took (claim P1.10).
//!
//! The parts are what a host without headstart measures over one family alone; the wholes are the races. Names and worlds
//! are the same for all. In virtual time the model is compared with the machines alone, in namespaces with the shipped
//! program over the kernel's TCP.

mod equations;
mod measure;
mod rows;

use super::{Claims, Context, Entry, Outcome, Speeds, Steps};
use crate::condition::{self, Condition, fault};
use anyhow::Context as _;
use measure::Size;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "connect-model",
    shows: "The closed forms of paper 1 predict how long each of three ways to connect takes, and which is fastest",
    claims: &[rows::CLAIM],
    conditions: &["paper1-lte", "healthy", "ipv6-slower", "ipv6-refused", "aaaa-slow"],
    speeds: Speeds::Both,
    run,
};

/// The condition whose names are unlike each other; by it the claim is judged.
const VARIED: &str = "paper1-lte";

fn find(name: &str) -> anyhow::Result<&'static Condition> {
    let fault = fault::ALL.iter().find(|c| c.name == name);
    fault.map_or_else(|| condition::find(name), Ok).with_context(|| format!("the network of {name}"))
}

/// In virtual time.
fn size(condition: &Condition, quick: bool) -> Size {
    match (condition.name == VARIED, quick) {
        (true, false) => (8, 300),
        (true, true) => (2, 300),
        (false, false) => (4, 24),
        (false, true) => (1, 24),
    }
}

/// In namespaces, where a name takes about a second; quick runs leave out what virtual time shows as well.
fn size_in_namespaces(condition: &Condition, quick: bool) -> Size {
    match (condition.name, quick) {
        (VARIED, false) => (1, 100),
        (VARIED, true) => (1, 15),
        ("healthy", true) => (1, 8),
        (_, false) => (1, 16),
        (_, true) => (0, 0),
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &NOTES);
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let speeds: Vec<bool> = [(false, cx.speeds.in_virtual_time()), (true, cx.speeds.in_namespaces())]
        .iter()
        .filter(|s| s.1)
        .map(|s| s.0)
        .collect();
    let mut steps = Steps::new(cx, wanted.len() * speeds.len());
    for namespaces in speeds {
        for name in &wanted {
            let condition = find(name)?;
            let name = if namespaces { format!("{name}-netns") } else { (*name).to_owned() };
            if !steps.next(&mut outcome, &name) {
                return Ok(outcome);
            }
            let (size, (names, doubts)) = if namespaces {
                let size = size_in_namespaces(condition, cx.quick);
                (size, measure::in_namespaces(condition, size, cx.seed)?)
            } else {
                let size = size(condition, cx.quick);
                (size, (measure::in_virtual_time(condition, size, cx.seed)?, Vec::new()))
            };
            if names.is_empty() {
                continue;
            }
            let judged = (condition.name == VARIED).then_some(&claims);
            let (rows, samples) = rows::of(&name, &names, judged, cx.seed)?;
            outcome.rows.extend(rows);
            outcome.samples.extend(samples);
            outcome.doubts_of(&name, doubts);
            let about = format!("{}. {} {} worlds of {} names.", condition.what, condition.why, size.0, size.1);
            outcome.condition(name, about);
        }
    }
    Ok(outcome)
}

const METHOD: [&str; 2] = [
    "R_A, R_AAAA, t_v4 and t_v6 of a name are measured by a program without headstart that looks it up and connects over a single \
     family. From these, equations 1 to 6 predict the time of each of three ways; rows compare this, name by name, with the time \
     of the race of that way over the same names of the same worlds (the arm `equations` is the prediction). Equations 7 and 8 \
     are compared by the medians over the names. Nothing is cached.",
    "Virtual time has no other noise than the link's jitter, which is drawn anew for each packet. In namespaces the shipped \
     program runs over the kernel's TCP; an attempt that takes longer than 3 s is cut, for the parts and for the whole.",
];

const NOTES: [&str; 3] = [
    "Equation 2 has `simultaneous` wait for both answers before it connects; as the method is described (section III), each \
     family connects as soon as its own answer is there, and only the program waits. The measured race does the latter: \
     the arm `each-family-by-itself` is the closed form of that.",
    "Equation 3 adds the resolution delay to every A answer, also where AAAA came first and RFC 8305 continues at once. It is an \
     upper bound of the standard as written; if A and AAAA arrive within 50 ms of each other, it puts happy-eyeballs-v2 near or \
     above sequential in the prediction, but not in the measurement (equation 9).",
    "Equation 6 charges a refused IPv6 attempt the whole connection attempt delay; RFC 8305 continues as soon as it has failed.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Row, Verdict};

    fn quick(condition: &str) -> Outcome {
        ENTRY.start(&Context { quick: true, conditions: Some(vec![condition.into()]), ..Context::new(3) }).unwrap()
    }

    fn row<'a>(o: &'a Outcome, metric: &str, baseline: &str) -> &'a Row {
        let is = |r: &&Row| r.metric == metric && r.baseline_arm.as_deref() == Some(baseline);
        o.rows.iter().find(is).unwrap_or_else(|| panic!("no row {metric} in {:?}", o.rows))
    }

    #[test]
    fn in_the_papers_network_the_measured_medians_are_in_the_order_of_equation_9() {
        let o = quick(VARIED);
        let order = row(&o, "pairs in the order of equation 9, by the medians", "equations");
        assert_eq!((order.ours, order.claim.as_deref()), (3.0, Some("P1.10")));
        let sequential = row(&o, "connectivity overhead of sequential, median", "equations");
        assert_eq!(sequential.verdict, Some(Verdict::Reproduced), "{sequential:?}");
    }

    #[test]
    fn sequential_takes_what_its_equations_say_and_the_papers_method_less_than_its_own() {
        for condition in ["healthy", "ipv6-slower", "ipv6-refused"] {
            let o = quick(condition);
            let ratio = |way: &str, baseline| {
                row(&o, &format!("connectivity overhead of {way}, median"), baseline).ratio.unwrap()
            };
            assert!((ratio("sequential", "equations") - 1.0).abs() < 0.05, "{condition}");
            assert!(ratio("simultaneous", "equations") < 1.05, "{condition}");
            assert!((ratio("simultaneous", "each-family-by-itself") - 1.0).abs() < 0.05, "{condition}");
        }
    }

    #[test]
    fn a_run_repeats_to_the_last_digit() {
        assert_eq!(quick(VARIED).last_line(), quick(VARIED).last_line());
    }
}
