//! Quick days and quick measurements through the forwarder: what they show, and that they repeat.

use super::*;
use crate::experiment::app_session::{AT_ONCE, HITS};

fn quick() -> Outcome {
    ENTRY.start(&Context { quick: true, ..Context::new(3) }).unwrap()
}

#[test]
fn a_day_behind_the_engine_connects_sooner_asks_the_same_and_is_the_same_every_time() {
    let outcome = quick();
    let row = |condition: &str, metric: &str, arm: &str| {
        let found = outcome.rows.iter().find(|r| r.condition == condition && r.metric == metric && r.arm == arm);
        found.unwrap_or_else(|| panic!("no {metric} of {arm} in {condition}"))
    };
    for place in ["lte-no-cache", "wifi-no-cache"] {
        let connect = row(place, "TCP connect time, p75", ENGINE);
        assert!(connect.ratio.unwrap() < 1.0, "{connect:?}");
        // Apps ask as they do without the engine: it keeps nothing for them.
        let lookup = row(place, "DNS lookup time, p75", ENGINE).ratio.unwrap();
        assert!((0.95..1.05).contains(&lookup), "{lookup}");
        assert_eq!(row(place, "failed", ENGINE).ours, 0.0);
    }
    for place in ["lte", "wifi"] {
        assert!(row(place, "effective TCP connect time, mean", ENGINE).ratio.unwrap() < 1.0);
        assert_eq!(row(place, AT_ONCE, ENGINE).ours, 0.0, "it has no pool");
        for ahead in [AHEAD, "engine-ahead-3600s"] {
            assert!(row(place, HITS, ahead).ours > row(place, HITS, ENGINE).ours, "{ahead}");
            assert!(row(place, AT_ONCE, ahead).ours > 5.0, "{ahead}");
            assert_eq!(row(place, "failed", ahead).ours, 0.0, "{ahead}");
            let sooner = |arm: &str| row(place, "effective TCP connect time, mean", arm).ratio.unwrap();
            assert!(sooner(ahead) < sooner(ENGINE), "{ahead}: {} of {}", sooner(ahead), sooner(ENGINE));
        }
        assert!(row(place, HITS, "headstart").ours > row(place, HITS, ENGINE).ours);
        assert!(row(place, AT_ONCE, "headstart").ours > 5.0);
    }
    let price = |arm: &str, what: &str| {
        let found = outcome.prices.iter().find(|p| p.condition == "lte" && p.arm == arm && p.what.starts_with(what));
        found.unwrap().amount
    };
    assert!(price(ENGINE, "wake-ups of the radio") <= 1.05 * price(BASELINE, "wake-ups of the radio"));
    assert!(price(ENGINE, "connection attempts") > price(BASELINE, "connection attempts"), "it races");
    assert_eq!(outcome.last_line(), quick().last_line());
}

#[test]
fn the_forwarder_adds_nothing_and_the_flaws_of_others_show() {
    let conditions = Some(vec![forwarded::LATENCY.to_owned(), forwarded::GAPS.to_owned()]);
    let outcome = ENTRY.start(&Context { quick: true, conditions, ..Context::new(3) }).unwrap();
    let of = |metric: &str, arm: &str| {
        let found = outcome.rows.iter().find(|r| r.metric == metric && r.arm == arm);
        found.unwrap_or_else(|| panic!("no {metric} of {arm}"))
    };
    for metric in ["connect time, median", "request-response latency, median", "gap of a call's packets, p95"] {
        assert_eq!(of(metric, "ours").ratio, Some(1.0), "{metric}");
    }
    assert!(of("connect time, median", "early-synack").ratio.unwrap() < 0.1);
    assert!(of("request-response latency, median", "sleepy-64k").ratio.unwrap() > 2.0);
    assert!(of("gap of a call's packets, p95", "sleepy-64k").ours > 90.0);
    assert!(of("packets late, out", "ours").ours == 0.0 && of("packets late, out", "early-synack").ours > 5.0);
    assert!(of("largest TCP packet", "sleepy-64k").ours > 65_000.0 && of("largest TCP packet", "ours").ours <= 1500.0);
}
