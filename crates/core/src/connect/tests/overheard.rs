//! Answers that programs had from servers that they asked themselves, and connections over what is known by them.

use super::*;

fn overhear(s: &mut Story, name: &str, record: RecordType, addresses: &[IpAddr]) {
    let result = LookupResult::Addresses(addresses.to_vec(), Duration::from_secs(60));
    s.input(Input::Overheard { app: app(), name: name.into(), record, result });
}

#[test]
fn the_addresses_that_were_overheard_are_raced_without_a_question() {
    let mut s = Story::of("adaptive").host(v6(1), Host::Silent).host(v4(1), Host::Answers(20));
    overhear(&mut s, "WWW.example.", RecordType::Aaaa, &[v6(1)]);
    assert!(!s.connector.knows_another(&app(), v6(1)), "one address is no race");
    overhear(&mut s, "www.example", RecordType::A, &[v4(1)]);
    assert!(s.connector.knows_another(&app(), v6(1)) && s.connector.knows_another(&app(), v4(1)));
    let Output::HandOver { attempt, connected: true, .. } = s.connect("curl", v6(1), false) else {
        panic!("{:?}", s.outputs)
    };
    assert_eq!(s.reached(attempt), v4(1));
    assert_eq!(s.begun(), [(0, v6(1)), (250, v4(1))]);
    assert!(!s.outputs.iter().any(|(_, o)| matches!(o, Output::Query { .. })), "no server is asked");
}

#[test]
fn what_another_program_was_told_is_not_known() {
    let mut s = Story::of("adaptive").host(v4(1), Host::Answers(20));
    overhear(&mut s, "www.example", RecordType::A, &[v4(1), v4(2)]);
    assert!(!s.connector.knows_another(&"wget".into(), v4(1)));
    assert_eq!(passed(&s.connect("wget", v4(1), false)), Some(Pass::UnknownAddress));
}

#[test]
fn an_answer_that_says_nothing_takes_nothing_away_and_one_that_denies_does() {
    let mut s = Story::of("adaptive");
    overhear(&mut s, "www.example", RecordType::A, &[v4(1), v4(2)]);
    let mut say = |result| {
        let (name, record) = ("www.example".into(), RecordType::A);
        s.input(Input::Overheard { app: app(), name, record, result });
        s.connector.knows_another(&app(), v4(1))
    };
    assert!(say(LookupResult::Refused));
    assert!(!say(LookupResult::NxDomain(Duration::from_secs(60))));
}
