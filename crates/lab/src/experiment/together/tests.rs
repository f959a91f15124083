//! What a quick run must show.

use super::*;
use crate::experiment::Row;

fn quick(condition: &str) -> Outcome {
    ENTRY.start(&Context { quick: true, conditions: Some(vec![condition.into()]), ..Context::new(1) }).unwrap()
}

fn ratio(o: &Outcome, condition: &str, arm: &str) -> f64 {
    let is = |r: &&Row| r.condition == condition && r.metric == "page load time, mean" && r.arm == arm;
    o.rows.iter().find(is).and_then(|r| r.ratio).unwrap_or_else(|| panic!("no row {condition} {arm}"))
}

#[test]
fn all_columns_are_better_than_connect_or_steer_alone_and_than_without_either_and_it_repeats() {
    let o = quick("pages");
    let all = ratio(&o, "pages-launched", arm::ALL_COLUMNS);
    for other in ["connect", "steer", "cwnd", "all-but-connect", "all-but-steer"] {
        assert!(all < ratio(&o, "pages-launched", other), "{other}");
    }
    // Five sixths of these pages' time is what they compute and what servers think: no arm gets below that.
    let floor = ratio(&o, "pages-launched", arm::NO_NETWORK);
    assert!(floor < all && all < 0.96, "{all}, and {floor} without a network");
    assert_eq!(o.last_line(), quick("pages").last_line());
}

#[test]
fn calls_and_messages_go_on_beside_a_page() {
    let o = quick("busy");
    for metric in play::METRICS {
        let values = o.samples.iter().filter(|s| s.metric == metric).flat_map(|s| s.present());
        assert!(values.clone().count() > 0 && values.into_iter().all(|v| v > 0.0), "{metric}");
    }
    // Half of the link's round trip is the least that a packet takes.
    let call = o.samples.iter().find(|s| s.metric == play::CALL && s.arm == arm::BARE).unwrap();
    assert!(call.present().iter().all(|v| *v >= 8.0), "{call:?}");
}
