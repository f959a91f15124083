//! Page loads as stories.

use super::*;
use crate::condition::page::{Families, world};
use crate::page::{Host, Kind, synthetic};
use crate::page::{Object, Protocol, Start};
use headstart_core::time::Duration;

const LINK: &str = "delay=10ms";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn object(host: usize, protocol: Protocol, start: Start) -> Object {
    Object {
        host,
        protocol,
        kind: Kind::Img,
        status: 200,
        request_bytes: 500,
        response_bytes: 1000,
        think: Duration::ZERO,
        urgency: 3,
        structure: start,
        gate: start,
    }
}

fn page(hosts: usize, objects: Vec<Object>) -> Page {
    let hosts = (0..hosts).map(|i| Host { name: format!("h{i}"), leg: Duration::ZERO, own: true }).collect();
    Page { name: "p".into(), site: "s".into(), main: 0, hosts, objects }
}

/// A world in which every host is next to the gateway and every record is there at once.
fn near(page: &Page, link: &str) -> World {
    let mut w = world(page, link, Families::Alike, 1);
    for site in &mut w.sites {
        (site.a.delay, site.aaaa.delay) = (Duration::ZERO, Duration::ZERO);
    }
    w
}

fn load(page: &Page, link: &str) -> Load {
    let mut browser = Browser::new(&near(page, link), Arm::BARE, 1).unwrap();
    browser.load(page, Dependency::Structure)
}

#[test]
fn one_object_takes_a_round_trip_each_for_dns_tcp_tls_and_http() {
    let p = page(1, vec![object(0, Protocol::Http2, Start::AtOnce)]);
    let l = load(&p, LINK);
    assert_eq!((l.time, l.connections), (ms(80), 1));
    assert_eq!(l.objects[0].sent, ms(60));
    let slow = Object { think: ms(100), ..p.objects[0].clone() };
    assert_eq!(load(&page(1, vec![slow]), LINK).time, ms(180));
}

#[test]
fn over_quic_it_takes_a_round_trip_less_and_what_is_over_tcp_does_not_change() {
    let p = page(1, vec![object(0, Protocol::Http3, Start::AtOnce)]);
    let l = load(&p, LINK);
    assert_eq!((l.time, l.connections), (ms(60), 1));
    assert_eq!(load(&p.over_tcp(), LINK).time, ms(80));
    let parts = l.parts(&p, Dependency::Structure);
    assert_eq!((parts.dns, parts.connect, parts.tls, parts.wait), (ms(20), ms(0), ms(20), ms(20)));
}

#[test]
fn where_everything_is_ready_only_tls_and_http_take_time() {
    let p = page(1, vec![object(0, Protocol::Http2, Start::AtOnce)]);
    let mut browser = Browser::new(&near(&p, LINK), Arm::READY, 1).unwrap();
    assert_eq!(browser.load(&p, Dependency::Structure).time, ms(40));
}

#[test]
fn the_parts_of_a_load_are_all_of_its_time() {
    for seed in 0..20 {
        let p = synthetic::page(seed);
        for by in Dependency::BOTH {
            let l = Browser::new(&world(&p, "3g", Families::Alike, seed), Arm::BARE, seed).unwrap().load(&p, by);
            let parts = l.parts(&p, by);
            assert_eq!(parts.named().iter().map(|p| p.1).sum::<Duration>(), l.time, "{seed} {by}: {parts:?}");
            assert!(parts.dns > Duration::ZERO && parts.tls > Duration::ZERO, "{parts:?}");
        }
    }
}

#[test]
fn a_second_object_of_a_host_needs_no_second_handshake() {
    let after = Start::After { parent: 0, gap: ms(7) };
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let p = page(1, vec![object(0, protocol, Start::AtOnce), object(0, protocol, after)]);
        let l = load(&p, LINK);
        assert_eq!((l.time, l.connections), (ms(107), 1), "{protocol}");
    }
}

#[test]
fn http_1_opens_six_connections_and_http_2_one() {
    for (protocol, connections) in [(Protocol::Http1, 6), (Protocol::Http2, 1)] {
        let p = page(1, (0..20).map(|_| object(0, protocol, Start::AtOnce)).collect());
        assert_eq!(load(&p, LINK).connections, connections, "{protocol}");
    }
}

#[test]
fn a_child_may_start_while_its_parent_arrives() {
    let document = Object { response_bytes: 400_000, ..object(0, Protocol::Http2, Start::AtOnce) };
    let early = object(1, Protocol::Http2, Start::During { parent: 0, share: 0.05 });
    let l = load(&page(2, vec![document, early]), "rate=10mbit,delay=10ms");
    assert!(l.objects[1].wanted < l.objects[0].end / 2, "{l:?}");
}

#[test]
fn what_is_urgent_overtakes_what_is_not() {
    let mut objects = vec![object(0, Protocol::Http2, Start::AtOnce)];
    let large = |urgency| Object {
        response_bytes: 500_000,
        urgency,
        ..object(0, Protocol::Http2, Start::After { parent: 0, gap: ms(0) })
    };
    objects.extend([large(3), large(0)]);
    let l = load(&page(1, objects), "rate=10mbit,delay=10ms");
    assert!(l.objects[2].end < l.objects[1].end, "{l:?}");
}

#[test]
fn a_small_image_does_not_wait_for_a_large_one_and_scripts_come_one_by_one() {
    let sized = |kind, response_bytes| Object {
        kind,
        response_bytes,
        ..object(0, Protocol::Http2, Start::After { parent: 0, gap: ms(0) })
    };
    for (kind, in_turns) in [(Kind::Img, true), (Kind::Js, false)] {
        let objects = vec![object(0, Protocol::Http2, Start::AtOnce), sized(kind, 500_000), sized(kind, 20_000)];
        let l = load(&page(1, objects), "rate=10mbit,delay=10ms");
        assert_eq!(l.objects[2].end < l.objects[1].end, in_turns, "{kind:?} {l:?}");
    }
}

#[test]
fn a_large_object_takes_as_long_as_its_link_needs() {
    let p = page(1, vec![Object { response_bytes: 5_000_000, ..object(0, Protocol::Http2, Start::AtOnce) }]);
    let l = load(&p, "rate=20mbit,delay=10ms");
    // 5 MB in full packets of IPv6 at 20 Mbit/s are 2.10 s; the handshakes and slow start come on top.
    assert!(l.time > ms(2100) && l.time < ms(2600), "{:?}", l.time);
}

#[test]
fn loss_slows_a_load_and_never_stops_it() {
    let p = page(1, vec![Object { response_bytes: 2_000_000, ..object(0, Protocol::Http2, Start::AtOnce) }]);
    let clean = load(&p, "rate=20mbit,delay=20ms").time;
    let lossy = load(&p, "rate=20mbit,delay=20ms,loss=3%").time;
    assert!(lossy > clean, "{lossy:?} {clean:?}");
}

#[test]
fn whoever_cannot_be_reached_is_given_up_and_the_rest_goes_on() {
    let mut p = page(2, vec![object(1, Protocol::Http1, Start::AtOnce)]);
    p.objects.push(object(0, Protocol::Http1, Start::After { parent: 0, gap: ms(5) }));
    let mut w = near(&p, LINK);
    let site = &mut w.sites[1];
    site.v4.iter_mut().chain(&mut site.v6).for_each(|h| h.fate = crate::world::Fate::Refuses);
    let l = Browser::new(&w, Arm::BARE, 1).unwrap().load(&p, Dependency::Structure);
    assert!(l.objects[0].failed && !l.objects[1].failed, "{l:?}");
    assert_eq!(l.connections, 1);
}

#[test]
fn a_later_visit_is_shorter_by_what_is_kept() {
    let p = synthetic::page(5);
    let adaptive = Arm {
        name: "headstart",
        race: race::find("adaptive").unwrap(),
        lifetime: Lifetime::Fixed(Duration::from_secs(3600)),
        ..Arm::BARE
    };
    let mut b = Browser::new(&world(&p, "lte", Families::Alike, 3), adaptive, 1).unwrap();
    let first = b.load(&p, Dependency::Structure);
    b.idle(Duration::from_secs(600));
    let later = b.load(&p, Dependency::Structure);
    assert!(later.time < first.time, "{:?} {:?}", later.time, first.time);
}

#[test]
fn the_same_seed_gives_the_same_nanoseconds_and_every_page_ends() {
    for seed in 0..30 {
        let p = synthetic::page(seed);
        let once = || {
            let w = world(&p, "lte", Families::Paper1, seed);
            Browser::new(&w, Arm::BARE, seed).unwrap().load(&p, Dependency::Gate)
        };
        let l = once();
        assert_eq!(l, once());
        assert!(
            l.objects.iter().all(|o| !o.failed && o.wanted <= o.sent && o.sent < o.first_byte && o.first_byte <= o.end)
        );
        assert!(l.time <= l.whole);
    }
}

#[test]
fn channels_that_have_rested_are_as_quick_as_before_and_carry_no_more() {
    use crate::sim::Steering;
    let page = synthetic::page(3);
    let world = near(&page, "delay=15ms");
    let policy = headstart_core::steer::policy::find("value").unwrap();
    let (fat, fast) = ("rate=100mbit,delay=15ms".into(), "rate=2mbit,delay=2500us".into());
    let steering = Steering { fat, fast, policy, tunnel: true, bound: Default::default() };
    let mut browser = Browser::steered(&world, Arm::BARE, 1, &steering).unwrap();
    let visit = |browser: &mut Browser| {
        let before = browser.channel_bytes();
        let load = browser.load(&page, Dependency::Structure);
        browser.idle(Duration::from_secs(1800));
        let after = browser.channel_bytes();
        (load.time, [0, 1].map(|c| after[c] - before[c]))
    };
    let (first, [fat, fast]) = visit(&mut browser);
    let (later, [fat_later, fast_later]) = visit(&mut browser);
    assert!(later.abs_diff(first) < first / 20, "{first:?}, then {later:?}");
    assert!(fat_later < fat + fat / 20 && fast_later < fast + fast / 4, "{fast} bytes, then {fast_later}");
}
