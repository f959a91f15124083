//! Stories of whole visits, with every number derivable by hand: a wire of 5 ms each way, nothing random.

use super::*;
use crate::world::{Change, Event, Fate, Host, Https, Record, Reply, Resolver, Site, When, World};
use headstart_core::connect::Want;
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::Service;
use std::net::IpAddr;

pub(super) fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// A dual-stack site whose hosts are as far as the wire and whose records come at once.
#[derive(Clone)]
pub(super) struct Draft(Site);

pub(super) fn site(n: u8) -> Draft {
    let host = |addr| Host { addr, extra_rtt: Duration::from_millis(10), fate: Fate::Answers };
    let record = Record { delay: Duration::ZERO, reply: Reply::Records, ttl: 300 };
    Draft(Site {
        name: format!("n{n}.lab.example"),
        v4: vec![host(IpAddr::from([198, 19, 0, n]))],
        v6: vec![host(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()]))],
        a: record,
        aaaa: record,
        https: None,
    })
}

impl Draft {
    /// Round trips beyond the wire, in ms.
    pub fn rtts(mut self, v4: u64, v6: u64) -> Self {
        self.0.v4[0].extra_rtt = Duration::from_millis(v4);
        self.0.v6[0].extra_rtt = Duration::from_millis(v6);
        self
    }

    pub fn fates(mut self, v4: Fate, v6: Fate) -> Self {
        (self.0.v4[0].fate, self.0.v6[0].fate) = (v4, v6);
        self
    }

    /// Delays of the records beyond the wire, in ms.
    pub fn dns(mut self, a: u64, aaaa: u64) -> Self {
        self.0.a.delay = Duration::from_millis(a);
        self.0.aaaa.delay = Duration::from_millis(aaaa);
        self
    }

    pub fn replies(mut self, a: Reply, aaaa: Reply) -> Self {
        (self.0.a.reply, self.0.aaaa.reply) = (a, aaaa);
        self
    }
}

/// 5 ms each way, no limit to the rate.
pub(super) fn world(drafts: Vec<Draft>) -> World {
    World::new("delay=5ms", 1, drafts.into_iter().map(|d| d.0).collect())
}

fn session(arm: &str, lifetime: Lifetime, world: &World) -> Session {
    Session::new(world, Settings { arm: Arm::find(arm).unwrap(), lifetime, seed: 1 }).unwrap()
}

/// Lookup, connect, getaddrinfo and total in ms, and the family that was reached.
fn figures(visit: &Visit) -> ([u64; 4], Option<Family>) {
    let times = [visit.lookup, visit.connect, visit.getaddrinfo, visit.total];
    (times.map(|d| u64::try_from(d.as_millis()).unwrap()), visit.reached.map(Family::of))
}

fn cold(arm: &str, draft: Draft) -> ([u64; 4], Option<Family>) {
    figures(&session(arm, Lifetime::Off, &world(vec![draft])).visit(0, Want::Both))
}

#[test]
fn each_arm_takes_the_time_that_its_rules_say() {
    // A after 30 ms, AAAA after 50; IPv4 is 60 ms away, IPv6 100.
    let draft = || site(1).dns(20, 40).rtts(50, 90);
    assert_eq!(cold("sequential", draft()), ([80, 100, 80, 180], Some(Family::V6)), "50 + 30, then IPv6");
    // Goes when AAAA is there and tells the program then, since both are known.
    assert_eq!(cold("happy-eyeballs-v2", draft()), ([50, 100, 50, 150], Some(Family::V6)));
    // IPv4 is connected at 30 + 60, both answers are there at 50.
    assert_eq!(cold("simultaneous", draft()), ([30, 60, 50, 90], Some(Family::V4)));
    assert_eq!(cold("oracle", draft()), ([30, 60, 30, 90], Some(Family::V4)));
    assert_eq!(cold("bare", draft()), ([50, 100, 50, 150], Some(Family::V6)));
}

#[test]
fn happy_eyeballs_v3_asks_for_https_records_and_begins_on_their_hints() {
    let draft = || site(1).dns(20, 200).rtts(50, 90);
    // A after 30 ms, HTTPS (that there is none) as well; the Resolution Delay from then on.
    assert_eq!(cold("happy-eyeballs-v3", draft()), ([80, 60, 140, 140], Some(Family::V4)));
    // HTTPS with a hint after 15 ms: 50 ms later AAAA is not there, but its address is.
    let mut w = world(vec![draft()]);
    let v6 = w.sites[0].v6[0].addr;
    let IpAddr::V6(hint) = v6 else { panic!("an IPv6 address") };
    let service = Service { priority: 1, ipv6hint: vec![hint], ..Service::default() };
    let record = Record { delay: Duration::from_millis(5), ..w.sites[0].a };
    w.sites[0].https = Some(Https { record, services: vec![service] });
    let mut s = session("happy-eyeballs-v3", Lifetime::Off, &w);
    let visit = s.visit(0, Want::Both);
    assert_eq!((figures(&visit), visit.reached), (([65, 100, 165, 165], Some(Family::V6)), Some(v6)));
    assert_eq!((s.spent().traffic.queries, s.spent().traffic.syns), (3, 1));
}

#[test]
fn glibc_waits_15_seconds_for_a_lost_aaaa_and_fails_after_15_for_a_lost_a() {
    let (times, family) = cold("bare", site(1).replies(Reply::Records, Reply::Lost));
    assert_eq!((times, family), ([15_020, 20, 15_020, 15_040], Some(Family::V4)));
    let (times, family) = cold("bare", site(1).replies(Reply::Lost, Reply::Records));
    assert_eq!((times, family), ([15_000, 0, 15_000, 15_000], None));
}

#[test]
fn without_headstart_an_ipv6_black_hole_costs_131_seconds_and_a_refusal_one_round_trip() {
    let (times, family) = cold("bare", site(1).fates(Fate::Answers, Fate::BlackHole));
    assert_eq!((times, family), ([10, 131_020, 10, 131_030], Some(Family::V4)));
    let (times, family) = cold("bare", site(1).fates(Fate::Answers, Fate::Refuses));
    assert_eq!((times, family), ([10, 40, 10, 50], Some(Family::V4)));
}

#[test]
fn the_races_get_past_a_lost_aaaa_within_their_resolution_delay() {
    for arm in ["happy-eyeballs-v2", "adaptive"] {
        let (times, family) = cold(arm, site(1).replies(Reply::Records, Reply::Lost));
        assert_eq!(family, Some(Family::V4), "{arm}");
        assert!(times[3] <= 10 + 50 + 20, "{arm}: {times:?}");
    }
}

#[test]
fn a_name_without_any_address_fails_in_every_arm() {
    for arm in Arm::all() {
        let draft = site(1).replies(Reply::NxDomain, Reply::NxDomain);
        let visit = session(arm.name(), Lifetime::Off, &world(vec![draft])).visit(0, Want::Both);
        assert!(!visit.lookup_ok && visit.reached.is_none(), "{arm}");
    }
}

#[test]
fn the_program_goes_on_to_the_next_address_when_headstart_reports_a_failure() {
    for arm in Arm::all() {
        let mut w = world(vec![site(1).fates(Fate::Refuses, Fate::Refuses)]);
        let mut second = w.sites[0].v4[0].clone();
        second.addr = IpAddr::from([198, 19, 0, 200]);
        second.fate = Fate::Answers;
        w.sites[0].v4.push(second.clone());
        let visit = session(arm.name(), Lifetime::Off, &w).visit(0, Want::Both);
        assert_eq!(visit.reached, Some(second.addr), "{arm}");
    }
}

#[test]
fn cached_answers_cost_no_query_and_no_time() {
    let w = world(vec![site(1).dns(20, 40).rtts(50, 90)]);
    for arm in ["sequential", "happy-eyeballs-v2", "simultaneous", "adaptive", "oracle"] {
        let mut s = session(arm, Lifetime::Fixed(Duration::from_secs(3600)), &w);
        s.visit(0, Want::Only(Family::V4));
        s.visit(0, Want::Only(Family::V6));
        s.idle(Duration::from_secs(10));
        let before = s.spent();
        let visit = s.visit(0, Want::Both);
        assert_eq!((visit.lookup, s.spent().traffic.queries), (Duration::ZERO, before.traffic.queries), "{arm}");
        assert_eq!(s.spent().connections, 3, "{arm}");
    }
}

#[test]
fn with_a_warm_history_adaptive_goes_straight_to_the_faster_family() {
    let w = world(vec![site(1).dns(20, 40).rtts(50, 90)]);
    let mut s = session("adaptive", Lifetime::Off, &w);
    s.visit(0, Want::Only(Family::V4));
    s.visit(0, Want::Only(Family::V6));
    s.idle(Duration::from_secs(10));
    assert_eq!(figures(&s.visit(0, Want::Both)).0[3], 90);
}

#[test]
fn a_program_without_patience_goes_away_and_the_next_visit_is_not_disturbed() {
    let w = world(vec![site(1).fates(Fate::Answers, Fate::BlackHole), site(2)]);
    for arm in Arm::all() {
        let mut s = session(arm.name(), Lifetime::Off, &w);
        let visit = s.visit_within(0, Want::Only(Family::V6), Some(Duration::from_secs(5)));
        assert_eq!((visit.reached, visit.total), (None, Duration::from_millis(5010)), "{arm}");
        s.idle(Duration::from_secs(1));
        assert!(s.visit(1, Want::Both).reached.is_some(), "{arm}");
    }
}

#[test]
fn a_session_is_the_same_to_the_nanosecond_each_time() {
    let mut w = world((1..40).map(|n| site(n).dns(n.into(), 40).rtts(50, 2 * u64::from(n))).collect());
    w.link = "lte".into();
    for arm in Arm::all() {
        let run = || {
            let mut s = session(arm.name(), Lifetime::Off, &w);
            let visits: Vec<Visit> = (0..39).map(|i| s.visit(i, Want::Both)).collect();
            (visits, s.spent())
        };
        assert_eq!(run(), run(), "{arm}");
    }
}

#[test]
fn an_unknown_arm_is_named_and_the_existing_ones_are_listed() {
    let text = Arm::find("telegraph").unwrap_err().to_string();
    assert!(text.contains("`telegraph`") && Arm::all().all(|a| text.contains(a.name())), "{text}");
}

fn changing(draft: Draft, timeline: Vec<Change>) -> World {
    World { timeline, ..world(vec![draft]) }
}

fn resolved_by(fates: &[Fate]) -> World {
    let resolvers = fates.iter().map(|fate| Resolver { fate: *fate, ..Resolver::ORDINARY }).collect();
    World { resolvers, ..world(vec![site(1)]) }
}

/// Total time in ms and the family that was reached, after a first visit.
fn first(arm: &str, world: &World) -> (u64, Option<Family>) {
    let (times, family) = figures(&session(arm, Lifetime::Off, world).visit(0, Want::Both));
    (times[3], family)
}

#[test]
fn a_silent_first_server_costs_glibc_5_seconds_and_headstart_one() {
    let w = resolved_by(&[Fate::BlackHole, Fate::Answers]);
    assert_eq!(first("bare", &w), (5_030, Some(Family::V6)));
    for arm in ["adaptive", "happy-eyeballs-v2", "simultaneous"] {
        let (total, family) = first(arm, &w);
        assert!(family.is_some() && total < 1_100, "{arm}: {total}");
    }
}

#[test]
fn a_server_that_is_not_there_is_left_for_the_next_after_a_round_trip() {
    let w = resolved_by(&[Fate::Refuses, Fate::Answers]);
    for arm in Arm::all().filter(|a| a.name() != "sequential") {
        let (total, family) = first(arm.name(), &w);
        assert!(family.is_some() && (30..=40).contains(&total), "{arm}: {total}");
    }
}

#[test]
fn with_no_server_at_all_glibc_gives_up_after_10_seconds_and_nobody_is_reached() {
    let w = resolved_by(&[Fate::BlackHole]);
    assert_eq!(first("bare", &w), (10_000, None));
    for arm in Arm::all() {
        assert_eq!(first(arm.name(), &w).1, None, "{arm}");
    }
    assert_eq!(first("bare", &resolved_by(&[Fate::Refuses])), (20, None), "two attempts of a round trip each");
}

#[test]
fn an_address_that_leaves_takes_the_attempt_under_way_with_it() {
    // The answer is back at the client 5 ms after the question arrives; the handshake would be over 105 ms after that.
    let later = Duration::from_millis(50);
    let leaves =
        Change { when: When::Asked { name: "n1.lab.example".into(), later }, event: Event::Leaves(Family::V6) };
    let w = changing(site(1).rtts(10, 90), vec![leaves]);
    assert_eq!(first("bare", &w), (131_030, Some(Family::V4)));
    let v2 = first("happy-eyeballs-v2", &w);
    assert_eq!(v2, (10 + 250 + 20, Some(Family::V4)), "after the attempt delay");
    assert_eq!(first("adaptive", &w), (10 + 20, Some(Family::V4)), "both families at once");
}

#[test]
fn a_family_without_a_route_fails_at_once_and_serves_again_when_it_has_come() {
    let at_first = Change { when: When::AtFirst, event: Event::Leaves(Family::V6) };
    let later = Duration::from_millis(1000);
    let comes = Change { when: When::Asked { name: "n1.lab.example".into(), later }, event: Event::Comes(Family::V6) };
    let w = changing(site(1).rtts(90, 10), vec![at_first, comes]);
    for arm in ["bare", "adaptive", "happy-eyeballs-v2"] {
        let mut s = session(arm, Lifetime::Off, &w);
        assert_eq!(figures(&s.visit(0, Want::Both)).1, Some(Family::V4), "{arm}");
        s.idle(Duration::from_secs(2));
        assert_eq!(figures(&s.visit(0, Want::Only(Family::V6))).1, Some(Family::V6), "{arm}");
    }
}

#[test]
fn a_change_happens_once_and_only_after_its_own_question() {
    let about = |name: &str| When::Asked { name: name.into(), later: Duration::ZERO };
    let leaves = Change { when: about("N2.lab.example"), event: Event::Leaves(Family::V6) };
    let w = World { timeline: vec![leaves], ..world(vec![site(1), site(2)]) };
    let mut s = session("bare", Lifetime::Off, &w);
    assert_eq!(s.visit(0, Want::Both).reached.map(Family::of), Some(Family::V6));
    assert_eq!(s.visit(1, Want::Both).reached.map(Family::of), Some(Family::V4));
    assert_eq!(s.visit(0, Want::Both).reached.map(Family::of), Some(Family::V4));
}

#[test]
fn without_ipv4_a_name_that_has_nothing_else_is_reached_through_the_translator() {
    // 198.19.0.1 behind 64:ff9b::/96, 40 ms beyond the wire; its DNS server makes no addresses itself.
    let mut only_v4 = site(1).dns(20, 20);
    only_v4.0.v6.clear();
    let mut discovery = site(2).dns(20, 20);
    discovery.0.name = "ipv4only.arpa".into();
    discovery.0.v6[0].addr = "64:ff9b::c000:aa".parse().unwrap();
    let mut translator = site(3).rtts(0, 40);
    translator.0.v6[0].addr = "64:ff9b::c613:1".parse().unwrap();
    let behind = translator.0.v6[0].addr;
    let at_first = Change { when: When::AtFirst, event: Event::Leaves(Family::V4) };
    let resolvers = vec![Resolver { family: Family::V6, ..Resolver::ORDINARY }];
    let w = World { timeline: vec![at_first], resolvers, ..world(vec![only_v4, discovery, translator]) };
    for arm in ["happy-eyeballs-v2", "happy-eyeballs-v3", "simultaneous", "adaptive"] {
        let mut s = session(arm, Lifetime::Ttl, &w);
        let visit = s.visit(0, Want::Both);
        assert_eq!((visit.reached, visit.total), (Some(behind), Duration::from_millis(30 + 50)), "{arm}");
        let asked = s.spent().traffic.queries;
        s.idle(Duration::from_secs(1));
        assert_eq!(s.visit(0, Want::Both).total, Duration::from_millis(50), "{arm}: all is known now");
        assert_eq!(s.spent().traffic.queries, asked, "{arm}");
    }
    assert_eq!(session("bare", Lifetime::Ttl, &w).visit(0, Want::Both).reached, None);
}
