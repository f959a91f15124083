//! What a quick run must show whatever its seed.

use super::*;
use crate::experiment::{Entry, Row};

fn quick(entry: &Entry, conditions: &[&str]) -> Outcome {
    let conditions = Some(conditions.iter().map(|c| (*c).to_owned()).collect());
    entry.start(&Context { quick: true, conditions, ..Context::new(3) }).unwrap()
}

fn row<'a>(outcome: &'a Outcome, condition: &str, metric: &str, arm: &str) -> &'a Row {
    let is = |r: &&Row| r.condition == condition && r.metric.starts_with(metric) && r.arm == arm;
    outcome.rows.iter().find(is).unwrap_or_else(|| panic!("no row {condition}, {metric}, {arm}"))
}

#[test]
fn without_loss_every_rule_gains_and_the_average_most_and_a_run_repeats_to_the_last_digit() {
    let outcome = quick(&simple::ENTRY, &["good-no-loss"]);
    let latency = |arm| row(&outcome, "good-no-loss", "latency of 1 MB", arm);
    let ratio = |arm| latency(arm).ratio.unwrap();
    assert!(ratio(PAPER) < 0.7 && ratio(CAREFUL) < 0.85 && ratio(AVERAGE) < ratio(CAREFUL), "{:?}", outcome.notes);
    assert_eq!(ratio(WIRELESS), ratio(CAREFUL), "nothing was lost");
    // 240 kB of 475 at once: the rest takes another round trip's part.
    assert!(latency(AVERAGE).ours > latency(PAPER).ours + 5.0, "{:?} {:?}", latency(AVERAGE), latency(PAPER));
    let claims = |arm| latency(arm).claim.clone();
    assert_eq!(
        (claims(PAPER).as_deref(), claims(AVERAGE)),
        (Some("P2.1"), None),
        "the product serves no claim of the paper"
    );
    assert_eq!(quick(&simple::ENTRY, &["good-no-loss"]).last_line(), outcome.last_line());
}

#[test]
fn early_data_is_answered_at_once_by_a_server_that_remembers() {
    let outcome = quick(&simple::ENTRY, &["early-data"]);
    let ms = |arm| row(&outcome, "early-data", "latency of 300 kB by 0-RTT", arm).ours;
    // Virtual time: a round trip of 38 ms and 300 kB at 100 Mbit/s, whatever the machine.
    assert!((62.0..70.0).contains(&ms(PAPER)), "{}", ms(PAPER));
    // 240 kB of them at once, and the rest a round trip after the first.
    assert!((80.0..86.0).contains(&ms(AVERAGE)), "{}", ms(AVERAGE));
    // Two round trips come before the first packet of a jump, and it is no more than half of what is known.
    assert!((2.0 * 38.0 + 24.0..160.0).contains(&ms(CAREFUL)), "{}", ms(CAREFUL));
}

#[test]
fn early_data_of_a_client_that_remembers_arrives_a_round_trip_sooner() {
    let outcome = quick(&simple::ENTRY, &["early-data"]);
    let ms = |arm| row(&outcome, "early-data", "latency of 300 kB sent by 0-RTT", arm);
    // Half a round trip, and 300 kB at 100 Mbit/s: no faster than the path.
    assert!((19.0 + 24.0..50.0).contains(&ms(PAPER).ours), "{}", ms(PAPER).ours);
    // 240 kB of them at once, and the rest when the first are acknowledged.
    assert!((38.0 + 19.0..66.0).contains(&ms(AVERAGE).ours), "{}", ms(AVERAGE).ours);
    // A jump comes behind the first round trip.
    assert!((38.0 + 19.0 + 23.0..140.0).contains(&ms(CAREFUL).ours), "{}", ms(CAREFUL).ours);
    assert!(ms(CAREFUL).ratio.unwrap() < 0.75, "{:?}", ms(CAREFUL));
}

#[test]
fn how_many_threads_play_changes_no_digit() {
    let path = crate::sim::quic::Path::lossless(100_000_000, Duration::from_millis(38));
    let path = crate::sim::quic::Path { data_loss: 0.01, ..path };
    let cell = Cell { before: 1, ..Cell::new("good-no-loss", path, 300_000) };
    let arms = play(&cell, 3, 5).unwrap();
    assert_eq!(arms.iter().map(|arm| arm.name).collect::<Vec<_>>(), ARMS);
    for arm in arms {
        let alone: Vec<Seen> = (0..3).map(|trial| trial::play(&cell, arm.name, seed_of(trial, 5)).unwrap()).collect();
        assert_eq!(arm.trials, alone, "{}", arm.name);
    }
}

#[test]
fn a_memory_that_is_wrong_is_not_used_on_another_path() {
    let outcome = quick(&stale::ENTRY, &["slower-10", "rtt-changed", "other-network"]);
    for condition in ["rtt-changed", "other-network"] {
        // The default had no earlier connections, and so drew other packet numbers to leave out.
        let ratio = row(&outcome, condition, "latency", CAREFUL).ratio.unwrap();
        assert!((ratio - 1.0).abs() < 0.02, "{condition}: {ratio}");
    }
    let drops = |arm| row(&outcome, "slower-10", "drops", arm).ours;
    assert!(drops(CAREFUL) < drops(AVERAGE), "{} {}", drops(CAREFUL), drops(AVERAGE));
}

#[test]
fn over_a_satellite_careful_resume_saves_seconds() {
    let outcome = quick(&satellite::ENTRY, &["satellite-known"]);
    let row = row(&outcome, "satellite-known", "latency of 1 MB", CAREFUL);
    assert!(row.baseline.unwrap() - row.ours > 1000.0, "{row:?}");
}

#[test]
fn what_small_transfers_have_shown_of_a_satellite_saves_a_quarter_at_least_and_no_half() {
    let outcome = quick(&satellite::ENTRY, &["satellite-small"]);
    let row = row(&outcome, "satellite-small", "latency of 5 MB", CAREFUL);
    let ratio = row.ratio.unwrap();
    assert!((0.61..0.75).contains(&ratio), "{row:?}");
}

#[test]
fn beside_other_flows_the_harm_stands_beside_the_gain() {
    let outcome = quick(&dumbbell::ENTRY, &["good-1"]);
    let background = row(&outcome, "good-1", "goodput of others", CAREFUL);
    assert!(background.ours > 10.0 && background.baseline.unwrap() > 10.0, "{background:?}");
    assert!(row(&outcome, "good-1", "drops", AVERAGE).baseline.is_some());
    assert_eq!(row(&outcome, "good-1", "latency of 1 MB", PAPER).claim.as_deref(), Some("P2.4"));
}

#[test]
fn a_large_transfer_beside_others_in_a_long_queue_takes_no_longer_for_what_it_knows() {
    let is = |cell: &Cell| cell.condition == "good-1" && cell.bytes == 10_000_000;
    let cell = dumbbell::cells().into_iter().find(is).unwrap();
    let mean = |rule| {
        let times = (0..4).map(|trial| trial::play(&cell, rule, seed_of(trial, 1)).unwrap().ms.unwrap());
        times.sum::<f64>() / 4.0
    };
    let (careful, default) = (mean(CAREFUL), mean(DEFAULT));
    assert!(careful < 1.15 * default, "{careful} {default}");
}

#[test]
fn over_the_fitted_path_the_default_takes_as_long_as_the_paper_prints() {
    let cell = simple::fitted();
    let times: Vec<f64> =
        (0..50).filter_map(|trial| trial::play(&cell, DEFAULT, seed_of(trial, 1)).unwrap().ms).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let claims = crate::experiment::Claims::built_in().unwrap();
    let printed = claims.get("P2.2").unwrap().figure(DEFAULT, "good").unwrap().theirs.unwrap();
    assert_eq!(times.len(), 50);
    assert!((mean / printed - 1.0).abs() < 0.06, "{mean:.0} ms, {printed} in the paper");
}
