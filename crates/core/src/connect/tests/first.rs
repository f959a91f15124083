//! First visits: both families of an unknown host at once, within a budget.

use super::*;

const SITE: &str = "www.example";

/// As a program has it that may explore, with none drawn.
fn newcomer() -> Story {
    Story::with(Settings { explore: f64::MIN_POSITIVE, ..Settings::of(race::find("adaptive").unwrap()) })
}

#[test]
fn on_a_first_visit_both_families_are_tried_at_once_and_the_first_to_answer_wins() {
    // Whichever is nearer, and whichever is told of first.
    for (lookups, rtts, took) in [
        ((20, 20), (30, 80), (v4(1), 20 + 30)),
        ((20, 20), (80, 30), (v6(1), 20 + 30)),
        ((40, 20), (30, 80), (v4(1), 40 + 30)),
        ((20, 40), (80, 30), (v6(1), 40 + 30)),
    ] {
        let mut s = newcomer().site(SITE, 1, lookups, rtts);
        assert_eq!(s.visit("curl", SITE), took);
        assert_eq!(s.begun().len(), 2, "{:?}", s.begun());
        s.pass(2_000);
        let mut known = |a| s.connector.path().current().peer(a).is_some_and(|p| p.rtt.is_some());
        assert!(known(v4(1)) && known(v6(1)), "both are known from now on");
        assert_eq!((s.connector.tally().explorations, s.connector.open_jobs()), (1, 0));
        // And from the second visit on one attempt is enough.
        let before = s.begun().len();
        assert_eq!(s.visit("curl", SITE).0, took.0);
        assert_eq!(s.begun().len(), before + 1);
    }
}

#[test]
fn a_family_that_is_dead_costs_a_first_visit_nothing() {
    for (n, answers) in [(0, v6(1)), (1, v4(1))] {
        let dead = if n == 0 { v4(1) } else { v6(1) };
        let mut s = newcomer().site(SITE, 1, (20, 20), (30, 30)).host(dead, Host::Silent);
        assert_eq!(s.visit("curl", SITE), (answers, 50));
        // Nor the next one, which may come before the silence has lasted for long.
        assert_eq!(s.visit("curl", SITE), (answers, 30));
    }
}

#[test]
fn hosts_pay_for_second_attempts_within_a_budget() {
    let mut s = newcomer();
    for n in 1..=60 {
        s = s.site(&format!("{n}.example"), n, (10, 10), (30, 20));
    }
    for n in 1..=60 {
        s.visit("curl", &format!("{n}.example"));
        s.pass(2_000);
    }
    let twice = s.connector.tally().explorations;
    assert_eq!(twice, 2 + 60 / 24);
}

#[test]
fn a_lookup_of_which_no_connection_is_expected_pays_for_no_second_attempt() {
    let mut s = newcomer();
    for n in 1..=3 {
        s = s.site(&format!("{n}.example"), n, (10, 10), (30, 20));
    }
    for n in 1..=3 {
        s.visit("curl", &format!("{n}.example"));
        s.pass(2_000);
        (0..20).for_each(|_| _ = s.resolve("wget", "1.example", Want::Both, None));
    }
    assert_eq!(s.connector.tally().explorations, 2);
}
