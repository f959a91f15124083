//! What a quick run must show whatever its seed.

use super::*;
use crate::experiment::{Context, Entry, Outcome, Row};
use crate::page::synthetic;
use headstart_core::steer::policy;

fn quick(entry: &Entry, conditions: &[&str]) -> Outcome {
    let conditions = Some(conditions.iter().map(|c| (*c).to_owned()).collect());
    entry.start(&Context { quick: true, conditions, ..Context::new(3) }).unwrap()
}

fn row<'a>(outcome: &'a Outcome, condition: &str, metric: &str, arm: &str) -> &'a Row {
    let is = |r: &&Row| r.condition == condition && r.metric.starts_with(metric) && r.arm == arm;
    outcome.rows.iter().find(is).unwrap_or_else(|| panic!("no row {condition}, {metric}, {arm}"))
}

#[test]
fn pages_load_sooner_over_both_channels_and_a_run_repeats_to_the_last_digit() {
    let outcome = quick(&pages::ENTRY, &["ideal-paper"]);
    assert!(outcome.rows.iter().all(|row| row.claim.is_none()), "claims are judged on the fitted pages");
    // The paper's rule gains less on pages of today than on the paper's; that it gains here is for the full run to say.
    assert!(row(&outcome, "ideal-paper", METRIC, OURS).ratio.unwrap() < 0.97, "{:?}", outcome.notes);
    let share = |arm| row(&outcome, "ideal-paper", "share of bytes", arm).ours;
    assert!(share("pkt-control") < share(STATE) && share(FAST) > 99.9 && share("obj-size-3k") < share("obj-size-6k"));
    assert_eq!(quick(&pages::ENTRY, &["ideal-paper"]).last_line(), outcome.last_line());
}

#[test]
fn a_tunnel_costs_the_rules_of_the_paper_more_than_ours() {
    let outcome = quick(&sweep::ENTRY, &["ideal-fast-500kbit", "tunnel-fast-500kbit"]);
    let saved = |condition, arm| row(&outcome, condition, "saved, mean", arm).ours;
    assert!(saved("tunnel-fast-500kbit", OURS) > saved("tunnel-fast-500kbit", STATE) + 5.0, "{:?}", outcome.notes);
}

/// Page 17 of the sweep over a fast channel that loses one packet in a hundred: in its second world the one acknowledgement that was left of a
/// window's was lost there, and the window sent again after 200 ms.
#[test]
fn a_window_is_not_sent_again_because_its_only_acknowledgement_was_lost_on_the_fast_channel() {
    let lossy = network::SWEEP.into_iter().find(|network| network.name == "fast-loss").unwrap();
    let (n, cell) = (17, play::Cell::new("tunnel", lossy));
    let page = play::as_in_the_paper(&synthetic::pages(1, n + 1).last().unwrap(), n as u64);
    for world in 0..2 {
        let [ours, fat] =
            [OURS, FAT].map(|arm| play::load(&page, &cell, policy::find(arm).unwrap(), 7919 + world).unwrap().time());
        assert!(ours.unwrap() <= 1.01 * fat.unwrap(), "{ours:?} {fat:?}");
    }
}

#[test]
fn a_document_of_110_kb_takes_longest_over_the_fast_channel_and_least_over_both() {
    let outcome = quick(&object::ENTRY, &["ideal-document"]);
    let ratio = |arm| row(&outcome, "ideal-document", "document load time", arm).ratio.unwrap();
    assert!(ratio(FAST) > 1.2 && ratio(STATE) < 0.6, "{} {}", ratio(FAST), ratio(STATE));
    assert_eq!(row(&outcome, "ideal-document", "document load time", STATE).claim.as_deref(), Some("P5.3"));
}

#[test]
fn requests_of_internal_pages_are_as_large_as_the_paper_says() {
    let outcome = quick(&clicks::ENTRY, &["ideal-clicks"]);
    for what in ["page load time, landing page", "page load time, internal pages"] {
        assert!(row(&outcome, "ideal-clicks", what, STATE).ratio.unwrap() < 1.0, "{what}");
    }
}

#[test]
fn a_call_beside_a_download_comes_in_time_by_ours_and_its_run_repeats() {
    let conditions = ["ideal-fat-60mbit", "tunnel-fat-60mbit"];
    let outcome = quick(&calls::ENTRY, &conditions);
    for condition in conditions {
        let ratio = |metric, arm| row(&outcome, condition, metric, arm).ratio.unwrap();
        // A queue of up to 200 ms, against none.
        for metric in ["call, one-way delay p95", "game, one-way delay p95"] {
            assert!(ratio(metric, OURS) < 0.5, "{condition}, {metric}: {}", ratio(metric, OURS));
        }
        // Over the fast channel alone there is no download to speak of.
        assert!(ratio("download, goodput", FAST) < 0.2);
    }
    assert_eq!(quick(&calls::ENTRY, &conditions[..1]).last_line(), quick(&calls::ENTRY, &conditions[..1]).last_line());
}
