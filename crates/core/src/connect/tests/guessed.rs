//! Ports that are guessed: what is opened there is for the program that goes there, and says nothing of any other port.

use super::*;
use Family::{V4, V6};

const SITE: &str = "www.example";

/// IPv4 is told of after 20 ms, IPv6 after `aaaa`.
fn story(aaaa: Dns, host: Host) -> Story {
    Story::of("adaptive").dns(SITE, V4, says(20, &[v4(1)])).dns(SITE, V6, aaaa).host(v4(1), host)
}

fn resolve(s: &mut Story, app: &str, name: &str, port: Option<u16>) {
    let request = s.request();
    s.input(Input::Resolve(request, Resolve { app: app.into(), name: name.into(), want: Want::Both, port }));
}

fn ask_both(s: &mut Story, app: &str) {
    for family in Family::BOTH {
        let request = s.request();
        let ask = Ask { app: app.into(), name: SITE.into(), record: family.into(), server: 0 };
        s.input(Input::Ask(request, ask));
    }
}

/// What `app` is told that goes to this port.
fn go(s: &mut Story, account: u32, app: &str, port: u16, nonblocking: bool) -> Option<Output> {
    let request = RequestId(u64::from(account) << 32 | s.request().0);
    let (app, to) = (app.into(), (v4(1), port).into());
    let claim = Claim { app, to, domain: V4, nonblocking, accepts_mapped: false, rescuable: None };
    let seen = s.outputs.len();
    s.input(Input::Claim(request, claim));
    s.pass(100);
    let told = |o: &Output| match o {
        Output::HandOver { request: r, .. } | Output::Fail(r, _) | Output::Pass(r, _) => *r == request,
        _ => false,
    };
    s.outputs[seen..].iter().map(|(_, o)| o).find(|o| told(o)).cloned()
}

/// The ports that attempts have gone to.
fn ports(s: &Story) -> Vec<u16> {
    let port = |(_, o): &(u64, Output)| if let Output::Connect { to, .. } = o { Some(to.port()) } else { None };
    s.outputs.iter().filter_map(port).collect()
}

fn is_closed(s: &Story) -> bool {
    s.outputs.iter().any(|(_, o)| matches!(o, Output::Close(_)))
}

#[test]
fn once_a_program_has_said_where_it_goes_no_other_port_is_tried_for_it() {
    let mut s = story(Dns::Silent, Host::Refuses(30));
    ask_both(&mut s, "go");
    s.pass(75);
    assert_eq!(ports(&s), [443]);
    let told = go(&mut s, 0, "go", 443, false);
    assert!(matches!(told, Some(Output::Fail(_, 111))), "{told:?}");
    s.pass(1000);
    assert_eq!(ports(&s), [443]);
}

#[test]
fn once_both_answers_are_there_no_other_port_is_guessed() {
    let mut s = story(says(200, &[v6(1)]), Host::Refuses(300)).host(v6(1), Host::Refuses(30));
    resolve(&mut s, "wget", SITE, None);
    s.pass(1500);
    assert!(!s.begun().is_empty() && ports(&s).iter().all(|port| *port == 443), "{:?}", ports(&s));
}

#[test]
fn what_was_opened_to_another_port_is_closed_when_its_program_goes_elsewhere() {
    let mut s = story(Dns::Silent, Host::Answers(30));
    resolve(&mut s, "wget", SITE, None);
    s.pass(150);
    assert_eq!(ports(&s), [443]);
    let told = go(&mut s, 0, "wget", 8080, false);
    assert!(matches!(told, Some(Output::HandOver { connected: true, .. })), "{told:?}");
    assert_eq!(ports(&s), [443, 8080]);
    assert!(is_closed(&s));
}

#[test]
fn and_not_when_others_do() {
    let mut s = story(Dns::Silent, Host::Answers(30));
    resolve(&mut s, "news", SITE, None);
    resolve(&mut s, "wget", SITE, None);
    s.pass(150);
    assert_eq!(ports(&s), [443, 443]);
    go(&mut s, 7, "wget", 8080, true);
    assert!(!is_closed(&s), "another run");
    let told = go(&mut s, 0, "news", 443, false);
    assert!(matches!(told, Some(Output::HandOver { connected: true, .. })), "{told:?}");
    go(&mut s, 0, "news", 8080, true);
    assert!(!is_closed(&s), "another program");
    let told = go(&mut s, 0, "wget", 443, false);
    assert!(matches!(told, Some(Output::HandOver { connected: true, .. })), "{told:?}");
    assert_eq!(ports(&s), [443, 443]);
}

#[test]
fn a_port_that_has_just_refused_is_not_asked_again_and_says_nothing_of_another() {
    for (port, is_known) in [(443, true), (8080, false)] {
        // HTTPS is refused; HTTP, which is guessed then, is not.
        let mut s = story(Dns::Silent, Host::Refuses(30));
        resolve(&mut s, "node", SITE, None);
        s.pass(80);
        s = s.host(v4(1), Host::Answers(40));
        s.pass(100);
        assert_eq!(ports(&s), [443, 80]);
        let told = go(&mut s, 0, "node", port, true);
        assert_eq!(matches!(told, Some(Output::Fail(_, 111))), is_known, "{port}: {told:?}");
        assert!(is_closed(&s), "HTTP is not where it goes");
        assert_eq!(ports(&s), [443, 80]);
    }
}

#[test]
fn where_every_guess_was_refused_the_program_hears_of_it_at_once() {
    let mut s = story(Dns::Silent, Host::Refuses(30));
    ask_both(&mut s, "go");
    s.pass(200);
    assert_eq!(ports(&s), [443, 80]);
    let told = go(&mut s, 0, "go", 443, true);
    assert!(matches!(told, Some(Output::Fail(_, 111))), "{told:?}");
}

#[test]
fn what_others_do_or_what_is_done_for_another_name_keeps_nobody_from_a_guess() {
    let mut s = story(Dns::Silent, Host::Silent).site("other.example", 2, (20, 20), (40, 40));
    resolve(&mut s, "go", "other.example", Some(443));
    resolve(&mut s, "news", SITE, Some(443));
    ask_both(&mut s, "go");
    s.pass(200);
    assert_eq!(s.begun().iter().filter(|(_, to)| *to == v4(1)).count(), 2, "{:?}", s.begun());
}

#[test]
fn a_program_that_asks_in_both_ways_has_one_connection_opened() {
    let mut s = story(Dns::Silent, Host::Silent);
    resolve(&mut s, "go", SITE, None);
    ask_both(&mut s, "go");
    s.pass(200);
    assert_eq!(s.begun(), [(70, v4(1))]);
}
