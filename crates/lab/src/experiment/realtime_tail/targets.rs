//! What the project set itself for `realtime-tail`, beside what was measured; and what no way of sending could do better.

use super::{ORACLE, PLAIN};
use crate::experiment::target::Target;
use crate::experiment::{Outcome, Row};

const DELAY: &str = "message delay, p95";
const AGE: &str = "age of information, p95";
const PACKETS: &str = "packets a message";
const BYTES: &str = "bytes a message";
const ALL_THREE: &str = "reduction-50+trigger+echo";

/// Conditions with age of TCP, way of sending, metric, and its ratio to plain at most; of packets, how many at most.
const TARGETS: &[(&[&str], &str, &str, f64)] = &[
    (&["iid3-r10-delayed-ack"], ALL_THREE, DELAY, 0.2),
    (&["iid3-r10-legacy"], ALL_THREE, DELAY, 0.6),
    (&["iid3-r10-legacy"], "auto", DELAY, 0.1),
    (&["iid3-r10-modern", "iid3-r40-modern", "iid3-r100-modern"], "auto", DELAY, 0.4),
    (&["iid3-r10-modern", "iid3-r40-modern", "iid3-r100-modern"], "auto", PACKETS, 1.9),
    (&["iid3-r10-modern", "iid3-r40-modern", "iid3-r100-modern"], "auto", BYTES, 1.6),
    (&["iid3-r10-modern", "iid3-r40-modern", "iid3-r100-modern"], "bundle", DELAY, 0.37),
    (&["iid3-r10-modern", "iid3-r40-modern", "iid3-r100-modern"], "bundle", PACKETS, 1.05),
    (&["gilbert-r10-modern", "gilbert-r40-modern", "gilbert-r100-modern"], "auto", DELAY, 0.6),
    (&["gilbert-r10-modern", "gilbert-r40-modern", "gilbert-r100-modern"], "auto", BYTES, 1.6),
    (&["burst-modern", "burst-r60-modern", "burst-r100-modern"], "auto", DELAY, 0.6),
    (&["burst-modern", "burst-r60-modern", "burst-r100-modern"], "auto", PACKETS, 1.5),
    (&["outage-modern", "outage-r60-modern", "outage-r100-modern"], "auto", DELAY, 0.5),
    (&["clean-modern"], "auto", DELAY, 1.05),
    (&["clean-modern"], "auto", AGE, 1.05),
    (&["clean-modern"], "auto", PACKETS, 1.1),
    (&["clean-modern"], "auto", BYTES, 1.1),
    (&["clean-r60-modern"], "auto", DELAY, 1.05),
    (&["clean-r60-modern"], "auto", PACKETS, 1.1),
    (&["clean-r60-modern"], "auto", BYTES, 1.1),
    (&["contended-modern"], "auto", DELAY, 1.05),
    (&["contended-modern"], "auto", AGE, 1.05),
    (&["contended-modern"], "auto", PACKETS, 1.1),
];

/// The streams' 95th percentile in the paper's WLAN with a bulk flow, in ms: where plain is above the one, ours is to be below
/// the other.
const PAPER: (f64, f64) = (240.0, 100.0);
const OF_STREAMS: &str = "delay of a stream, p95";

/// Where a condition in namespaces has the name of the one in virtual time.
const NETNS: &str = "-netns";

/// A line for each target that this outcome can say something about.
pub fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    for (conditions, arm, metric, limit) in TARGETS {
        for at in conditions.iter().flat_map(|name| [(*name).to_owned(), format!("{name}{NETNS}")]) {
            let row = |arm: &str| find(outcome, &at, metric, arm);
            let Some(ours) = row(arm) else { continue };
            let what = format!("{at}: {metric} of {arm}");
            if *metric == PACKETS {
                notes.push(Target::AtMost(*limit).note(&what, ours.ours, ""));
                continue;
            }
            let Some(ratio) = ours.ratio else { continue };
            let mut note = Target::AtMost(*limit).note(&what, ratio, "times that of plain");
            let bound = row(ORACLE).and_then(|row| row.ratio).filter(|_| !Target::AtMost(*limit).is_met(ratio));
            if let Some(bound) = bound {
                note += &format!("; the bound ({ORACLE}) is at {bound:.2}");
            }
            notes.push(note);
        }
    }
    for row in outcome.rows.iter().filter(|row| row.arm == "auto" && row.metric == OF_STREAMS) {
        let Some(plain) = row.baseline else { continue };
        let what = format!("{}: {OF_STREAMS} of auto, where {PLAIN} has {plain:.0} ms", row.condition);
        if plain > PAPER.0 {
            notes.push(Target::AtMost(PAPER.1).note(&what, row.ours, "ms"));
        } else {
            notes.push(format!("{what}: {:.0} ms; no target below {} ms of plain", row.ours, PAPER.0));
        }
    }
    notes
}

fn find<'a>(outcome: &'a Outcome, condition: &str, metric: &str, arm: &str) -> Option<&'a Row> {
    outcome.rows.iter().find(|row| row.condition == condition && row.metric == metric && row.arm == arm)
}

#[cfg(test)]
mod tests {
    use super::super::{ARMS, condition, tcp};
    use super::*;

    #[test]
    fn every_target_is_of_a_condition_and_a_way_of_sending_that_there_are() {
        let all = condition::ALL.iter().flat_map(|c| tcp::ALL.iter().map(move |s| format!("{}-{}", c.name, s.name)));
        let names: Vec<String> = all.collect();
        for (at, arm, ..) in TARGETS {
            assert!(at.iter().all(|at| names.iter().any(|name| name == at)) && ARMS.contains(arm), "{at:?} {arm}");
        }
    }

    #[test]
    fn a_target_that_is_missed_is_said_with_the_bound() {
        let mut outcome = Outcome::new("realtime-tail", 1);
        for (arm, ratio) in [("auto", 1.0), (ORACLE, 0.9)] {
            outcome.rows.push(Row {
                ratio: Some(ratio),
                ..Row::measured("burst-modern-netns", DELAY, "ms", arm, 10.0 * ratio)
            });
        }
        outcome.rows.push(Row::measured("burst-modern", PACKETS, "", "auto", 1.5));
        let notes = notes(&outcome);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].ends_with("MISSED; the bound (udp-all) is at 0.90"), "{}", notes[0]);
        assert!(notes[1].ends_with("met"), "{}", notes[1]);
    }
}
