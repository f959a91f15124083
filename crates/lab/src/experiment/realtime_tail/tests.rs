//! What a quick run must show whatever its seed.

use super::*;
use crate::experiment::Row;

fn quick(condition: &str) -> Outcome {
    ENTRY.start(&Context { quick: true, conditions: Some(vec![condition.into()]), ..Context::new(3) }).unwrap()
}

fn row<'a>(o: &'a Outcome, condition: &str, metric: &str, arm: &str) -> &'a Row {
    let is = |r: &&Row| r.condition == condition && r.metric == metric && r.arm == arm;
    o.rows.iter().find(is).unwrap_or_else(|| panic!("no row {condition}, {metric}, {arm}"))
}

/// The 95th percentile of message delay, in ms, and packets a message.
fn measured(condition: &str, arm: &'static str) -> (f64, f64) {
    let condition = condition::ALL.iter().find(|c| c.name == condition).unwrap();
    let arm = one(condition, tcp::MODERN, arm, 60, 3).unwrap();
    let delays: Vec<f64> = arm.streams.iter().flat_map(|s| s.delays.clone()).collect();
    let packets: u64 = arm.streams.iter().map(|s| s.packets).sum();
    (crate::stats::quantile(&delays, 0.95).unwrap(), packets as f64 / 3600.0)
}

#[test]
fn ours_helps_at_three_percent_loss() {
    let ((plain, _), (auto, auto_packets), (bundle, bundle_packets)) =
        (measured("iid3-r40", PLAIN), measured("iid3-r40", "auto"), measured("iid3-r40", BUNDLE));
    assert!(auto < 0.6 * plain && bundle < 0.6 * plain, "{plain} {auto} {bundle}");
    assert!(auto_packets < 2.0 && bundle_packets < 1.1, "{auto_packets} {bundle_packets}");
}

/// Bytes of all packets towards the receiver.
fn bytes(condition: &str, arm: &'static str) -> f64 {
    let condition = condition::ALL.iter().find(|c| c.name == condition).unwrap();
    let arm = one(condition, tcp::MODERN, arm, 60, 3).unwrap();
    arm.streams.iter().map(|s| s.bytes as f64).sum()
}

#[test]
fn copies_are_paid_for_where_something_is_lost_and_within_bounds() {
    for (condition, most) in [
        ("clean", 1.1),
        ("clean-r60", 1.1),
        ("iid3-r10", 1.6),
        ("iid3-r40", 1.6),
        ("iid3-r100", 1.6),
        ("gilbert-r40", 1.6),
    ] {
        let (plain, auto) = (bytes(condition, PLAIN), bytes(condition, "auto"));
        assert!(auto <= most * plain, "{condition}: {:.2} times the bytes of plain", auto / plain);
    }
}

#[test]
fn ours_helps_where_losses_come_in_rows() {
    let ((plain, _), (auto, _)) = (measured("gilbert-r40", PLAIN), measured("gilbert-r40", "auto"));
    assert!(auto < 0.8 * plain, "{plain} {auto}");
}

/// There is nothing to compute for a model of a network.
#[test]
fn a_busy_machine_is_a_condition_of_real_time_alone() {
    let o = quick("busy");
    assert!(o.rows.is_empty() && o.conditions.is_empty());
}

#[test]
fn on_a_clean_path_nothing_costs_time() {
    for arm in [PLAIN, "auto", BUNDLE, "hedge"] {
        let (delay, packets) = measured("clean", arm);
        assert!(delay == 10.0 && packets < 1.1, "{arm}: {delay} {packets}");
    }
}

#[test]
fn a_run_has_a_row_for_every_arm_and_repeats_to_the_last_digit() {
    let o = quick("clean");
    for arm in ARMS.iter().filter(|arm| **arm != PLAIN) {
        assert!(row(&o, "clean-legacy", "message delay, p95", arm).interval.is_some());
    }
    assert_eq!(quick("clean").last_line(), o.last_line());
}

/// The paper's metric under plain TCP of the oldest age, as a full run plays it.
fn plain_of_the_paper(condition: &str) -> f64 {
    let condition = condition::ALL.iter().find(|c| c.name == condition).unwrap();
    let arm = one(condition, tcp::LEGACY, PLAIN, streams(condition, false), 1).unwrap();
    let means: Vec<f64> = arm.streams.iter().map(|s| s.delays.iter().sum::<f64>() / s.delays.len() as f64).collect();
    crate::stats::quantile(&means, 0.95).unwrap()
}

#[test]
fn in_the_fitted_networks_plain_tcp_takes_as_long_as_the_paper_prints() {
    for (condition, printed) in [("fitted-no-bulk", 42.0), ("fitted-strong", 336.0), ("fitted-weak", 242.0)] {
        let found = plain_of_the_paper(condition);
        assert!((found / printed - 1.0).abs() < 0.08, "{condition}: {found:.1} ms, {printed} in the paper");
    }
}

#[test]
fn the_papers_claims_are_judged_in_the_fitted_networks_and_in_no_other() {
    let judged = |condition: &str| quick(condition).rows.iter().any(|row| row.claim.is_some());
    assert!(judged("fitted-strong") && judged("fitted-weak"));
    assert!(!judged("strong") && !judged("weak") && !judged("fitted-no-bulk"));
}
