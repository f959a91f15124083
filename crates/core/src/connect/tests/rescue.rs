//! Programs that do not wait for their connections, and what becomes of attempts of theirs that stall.

use super::*;
use Family::{V4, V6};

const SITE: &str = "www.example";

/// A program that will not wait is told the addresses, and connects to the first.
fn begin(s: &mut Story, app: &str, port: Option<u16>) -> Output {
    s.rescuable = true;
    let Resolved::Addresses(list) = s.resolve(app, SITE, Want::Both, port) else { panic!("it resolves") };
    assert_eq!(list[0], v6(1));
    s.connect(app, list[0], true)
}

/// When a program was given another connection, and where it leads.
fn rescues(s: &Story) -> Vec<(u64, IpAddr)> {
    let to = |o: &Output| match o {
        Output::Rescue { by, .. } => Some(s.reached(*by)),
        _ => None,
    };
    s.outputs.iter().filter_map(|(at, o)| Some((*at, to(o)?))).collect()
}

fn hole() -> Story {
    Story::of("adaptive").site(SITE, 1, (20, 20), (40, 0)).host(v6(1), Host::Silent)
}

#[test]
fn a_program_that_hangs_in_a_black_hole_is_given_the_address_that_answers() {
    // Its port is known when it asks for addresses, or not before it connects.
    for port in [None, Some(443)] {
        let mut s = hole();
        begin(&mut s, "aiohttp", port);
        s.pass(10_000);
        assert_eq!(rescues(&s), [(20 + 400 + 40, v4(1))], "{port:?}");
        assert_eq!(s.connector.open_jobs(), 0);
    }
}

#[test]
fn a_program_that_may_not_look_keeps_an_attempt_whose_second_syn_may_be_answered() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (1040, 40));
    s.looks = Looks::Perhaps;
    begin(&mut s, "poller", None);
    s.pass(10_000);
    assert_eq!((s.begun(), rescues(&s)), (vec![], vec![]));
    let mut s = hole();
    s.looks = Looks::Perhaps;
    begin(&mut s, "poller", None);
    s.pass(10_000);
    assert_eq!(rescues(&s), [(20 + 2000 + 40, v4(1))]);
}

#[test]
fn nothing_is_tried_beside_an_attempt_that_succeeds() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (40, 350));
    assert!(matches!(begin(&mut s, "aiohttp", None), Output::Begin { .. }));
    s.pass(10_000);
    assert_eq!(s.begun(), []);
    assert_eq!(s.connector.open_jobs(), 0);
}

#[test]
fn what_is_slow_and_not_dead_is_kept_if_it_comes_first() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (200, 500));
    begin(&mut s, "aiohttp", None);
    s.pass(10_000);
    assert_eq!(s.begun(), [(420, v4(1))]);
    assert_eq!(rescues(&s), [], "500 ms are over before 400 and 200 are");
}

#[test]
fn a_program_that_races_itself_is_left_to_itself() {
    let mut s = hole();
    begin(&mut s, "curl", None);
    s.pass(200);
    assert!(matches!(s.connect("curl", v4(1), true), Output::Begin { .. }));
    s.pass(10_000);
    assert_eq!((s.begun(), rescues(&s)), (vec![], vec![]));
}

#[test]
fn a_program_whose_own_race_is_stuck_is_rescued_too() {
    let mut s =
        hole().dns(SITE, V4, says(20, &[v4(1), v4(2)])).host(v4(1), Host::Silent).host(v4(2), Host::Answers(40));
    begin(&mut s, "curl", None);
    s.pass(200);
    s.connect("curl", v4(1), true);
    s.pass(10_000);
    // As soon as the program has had its chance.
    assert_eq!(rescues(&s), [(20 + 200 + 400 + 40, v4(2))]);
}

#[test]
fn every_connection_of_a_program_is_rescued() {
    let mut s = hole();
    for _ in 0..3 {
        begin(&mut s, "aiohttp", None);
    }
    s.pass(10_000);
    assert_eq!(rescues(&s), [(460, v4(1)); 3]);
}

#[test]
fn a_socket_that_no_other_family_fits_keeps_its_attempt() {
    let mut s = Story::of("adaptive").site(SITE, 1, (20, 20), (0, 40)).host(v4(1), Host::Silent);
    s.rescuable = true;
    s.resolve("aiohttp", SITE, Want::Both, None);
    assert!(matches!(s.connect("aiohttp", v4(1), true), Output::Pass(_, Pass::NothingReady)));
    let mut s = Story::of("adaptive").dns(SITE, V6, says(20, &[v6(1)])).host(v6(1), Host::Silent);
    begin(&mut s, "aiohttp", None);
    s.pass(10_000);
    assert_eq!(rescues(&s), []);
}

#[test]
fn stalled_attempts_teach_what_blocking_ones_do() {
    let mut s = hole();
    for _ in 0..3 {
        s.rescuable = true;
        let Resolved::Addresses(list) = s.resolve("aiohttp", SITE, Want::Both, None) else { panic!("it resolves") };
        s.connect("aiohttp", list[0], true);
        s.pass(3000);
    }
    let list = s.resolve("aiohttp", SITE, Want::Both, None);
    assert_eq!(list, Resolved::Addresses(vec![v4(1), v6(1)]), "IPv4 leads the list now");
}

/// So many connections of one program, all at once, after the first of which the host is as `then`; the extra attempts that are
/// made, and the rescues.
fn crowd(mut s: Story, many: usize, then: Host) -> (usize, usize) {
    s.rescuable = true;
    s.resolve("aiohttp", SITE, Want::Both, None);
    for n in 0..many {
        if n == 1 {
            s = s.host(v6(1), then);
        }
        assert!(matches!(s.connect("aiohttp", v6(1), true), Output::Begin { .. }));
    }
    s.pass(10_000);
    assert_eq!(s.connector.open_jobs(), 0);
    (s.begun().len(), rescues(&s).len())
}

#[test]
fn a_server_under_a_crowd_has_few_more_to_accept() {
    // Its backlog is full: the second SYN is answered, after a second.
    let (extra, _) = crowd(Story::of("adaptive").site(SITE, 1, (20, 20), (40, 40)), 600, Host::Answers(1040));
    assert!((1..=600 / 16 + 1).contains(&extra), "{extra}");
}

#[test]
fn a_crowd_in_a_black_hole_is_rescued_whole() {
    assert_eq!(crowd(hole(), 600, Host::Silent), (600, 600));
}

#[test]
fn a_crowd_is_rescued_as_soon_as_it_is_seen_from_one_that_it_is_in_a_black_hole() {
    let mut s = hole();
    s.rescuable = true;
    s.resolve("aiohttp", SITE, Want::Both, None);
    for _ in 0..20 {
        assert!(matches!(s.connect("aiohttp", v6(1), true), Output::Begin { .. }));
    }
    s.pass(10_000);
    let at = |ms| rescues(&s).into_iter().filter(|rescued| *rescued == (ms, v4(1))).count();
    assert_eq!((at(20 + 400 + 40), at(20 + 400 + 40 + 40)), (8, 12), "{:?}", rescues(&s));
    assert_eq!(s.connector.tally().handed_over, 20);
}

#[test]
fn neither_what_a_program_is_given_nor_what_it_lets_go_of_for_that_is_closed() {
    let mut s = hole();
    begin(&mut s, "aiohttp", None);
    s.pass(10_000);
    assert_eq!(rescues(&s).len(), 1);
    assert!(!s.outputs.iter().any(|(_, o)| matches!(o, Output::Close(_))), "{:?}", s.outputs);
    let now = s.now;
    assert!(
        s.connector.path().current().is_failing(v6(1), now) && !s.connector.path().current().is_failing(v4(1), now)
    );
}
