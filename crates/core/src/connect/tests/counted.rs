//! What is measured and counted, and what must not be.

use super::*;

fn lookups(s: &mut Story) -> Vec<Option<f64>> {
    let now = s.now;
    s.connector.families(now).into_iter().map(|family| family.lookup_ms).collect()
}

/// Karn's algorithm (RFC 6298, section 3): an answer after a retry may be to either query, so it measures neither.
#[test]
fn an_answer_after_a_retry_says_nothing_of_how_long_lookups_take() {
    let mut s = Story::of("adaptive").site("1.example", 1, (10, 10), (20, 20)).site("2.example", 2, (10, 10), (20, 20));
    (s.servers, s.dead) = (2, vec![0]);
    s.input(Input::Servers(2));
    assert!(matches!(s.resolve("wget", "1.example", Want::Both, None), Resolved::Addresses(_)));
    assert_eq!(lookups(&mut s), [None, None], "the second server was asked after the first");
    assert!(matches!(s.resolve("wget", "2.example", Want::Both, None), Resolved::Addresses(_)));
    assert_eq!(lookups(&mut s), [Some(10.0), Some(10.0)], "asked once, and answered");
}

#[test]
fn a_connection_that_was_there_is_counted_as_handed_over_at_once_and_one_that_was_waited_for_is_not() {
    let mut s = Story::of("adaptive").site("1.example", 1, (10, 10), (30, 30)).site("2.example", 2, (10, 10), (30, 30));
    let tally = |s: &Story| (s.connector.tally().handed_over, s.connector.tally().at_once);
    let Resolved::Addresses(list) = s.resolve("curl", "1.example", Want::Both, Some(443)) else { panic!("no address") };
    assert!(matches!(s.connect("curl", list[0], false), Output::HandOver { connected: true, .. }));
    assert_eq!(tally(&s), (1, 0), "the handshake was waited for");
    let Resolved::Addresses(list) = s.resolve("curl", "2.example", Want::Both, Some(443)) else { panic!("no address") };
    s.pass(100);
    assert!(matches!(s.connect("curl", list[0], false), Output::HandOver { connected: true, .. }));
    assert_eq!(tally(&s), (2, 1), "open before it was asked for");
}

#[test]
fn the_answers_of_so_many_programs_are_kept_and_those_of_the_quietest_go_first() {
    let mut s = Story::of("adaptive").site("1.example", 1, (20, 20), (40, 50));
    for n in 0..=64 {
        s.resolve(&format!("program-{n}"), "1.example", Want::Both, None);
    }
    let queries = s.connector.tally().queries;
    s.resolve("program-1", "1.example", Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries);
    s.resolve("program-0", "1.example", Want::Both, None);
    assert_eq!(s.connector.tally().queries, queries + 2);
}
