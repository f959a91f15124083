//! Where connections are opened ahead, for how long they are good, and what waste and closing cost.

use super::*;

fn host(n: usize) -> SpareKey {
    SpareKey { app: "mail".into(), name: format!("{n}.example").into(), port: 443 }
}
fn at(s: u64) -> Instant {
    Instant::from_millis(s * 1000)
}
fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}
fn habit() -> Port {
    Port { launches: 2, share: 1.0, parallel: 1.0, idle: PROBE, ..Port::default() }
}
/// Opens one to each of `hosts` and lets it end at once.
fn play(pool: &mut Pool, hosts: std::ops::Range<usize>, end: SpareEnd) {
    for n in hosts {
        pool.opened(at(0), 0, host(n), terms(443, &habit()));
        pool.ready(0, at(0));
        pool.ended(0, at(1), end).unwrap();
    }
}

#[test]
fn a_place_that_was_visited_twice_and_is_likely_gets_one_and_two_where_two_are_used() {
    let pool = Pool::new(MAX_SPARES);
    let wanted = |port: &Port, chance| pool.wanted(at(0), &host(0), port, chance);
    assert_eq!(wanted(&habit(), 0.9), Ok(1));
    assert_eq!(wanted(&Port { parallel: 6.0, ..habit() }, 0.9), Ok(2));
    assert_eq!(wanted(&habit(), 0.5), Ok(1), "as likely as not");
    assert_eq!(wanted(&habit(), 0.4), Err(PoolMiss::Unlikely));
    assert_eq!(wanted(&Port { launches: 1, ..habit() }, 1.0), Err(PoolMiss::Unknown));
    assert_eq!(wanted(&Port { speaks_first: true, ..habit() }, 1.0), Err(PoolMiss::Barred));
    let ssh = SpareKey { port: 22, ..host(0) };
    assert_eq!(pool.wanted(at(0), &ssh, &habit(), 1.0), Err(PoolMiss::Barred));
    let untried = Port { idle: Duration::ZERO, parallel: 6.0, ..habit() };
    assert_eq!(wanted(&untried, 1.0), Ok(1), "one is enough to learn from");
}

#[test]
fn no_more_than_the_budget_are_fresh_at_once_and_a_host_has_one() {
    let mut pool = Pool::new(3);
    let fresh = terms(443, &habit());
    for n in 0..3 {
        assert!(pool.has_room(at(0), &host(n), 1, fresh));
        pool.opened(at(0), n as u64, host(n), fresh);
        assert!(!pool.has_room(at(0), &host(n), 1, fresh), "one a host");
    }
    assert!(!pool.has_room(at(0), &host(9), 1, fresh));
    pool.ended(1, at(1), SpareEnd::Taken).unwrap();
    assert!(pool.has_room(at(1), &host(9), 1, fresh));
    assert!(pool.ended(1, at(1), SpareEnd::Expired).is_none(), "it ends once");
}

#[test]
fn what_is_kept_to_learn_is_one_a_host_and_in_nobodys_way() {
    let mut pool = Pool::new(3);
    let learning = terms(443, &Port { idle: Duration::ZERO, ..habit() });
    for n in 0..5 {
        pool.opened(at(0), n as u64, host(n), learning);
        pool.ready(n as u64, at(0));
    }
    assert!(!pool.has_room(at(1), &host(0), 1, learning), "one is under way");
    assert!(pool.has_room(at(1), &host(0), 1, terms(443, &habit())));
    pool.opened(at(1), 5, host(5), learning);
    assert!(!pool.has_room(at(1), &host(9), 1, learning), "twice as many as there may be are enough in all");
    assert_eq!((pool.borne(at(7), &host(0)), pool.borne(at(7), &host(9))), (secs(7), Duration::ZERO));
}

#[test]
fn waste_of_many_halves_the_budget_and_use_brings_it_back() {
    let mut pool = Pool::new(32);
    play(&mut pool, 0..44, SpareEnd::Taken);
    play(&mut pool, 44..63, SpareEnd::Expired);
    assert_eq!(pool.budget, 32, "it is not judged before there are enough");
    play(&mut pool, 63..64, SpareEnd::Expired);
    assert_eq!(pool.budget, 16, "twenty of sixty-four are more than 30 %");
    play(&mut pool, 64..128, SpareEnd::Taken);
    assert_eq!(pool.budget, 32);
    (0..10).for_each(|_| play(&mut pool, 0..64, SpareEnd::Expired));
    assert_eq!(pool.budget, 1, "never none: nothing could be learned any more");
}

#[test]
fn a_host_that_wastes_more_than_half_rests_for_an_hour() {
    let mut pool = Pool::new(16);
    (0..7).for_each(|_| play(&mut pool, 0..1, SpareEnd::Expired));
    assert_eq!(pool.wanted(at(3), &host(0), &habit(), 1.0), Ok(1));
    play(&mut pool, 0..1, SpareEnd::Expired);
    assert_eq!(pool.wanted(at(3600), &host(0), &habit(), 1.0), Err(PoolMiss::Resting));
    assert_eq!(pool.wanted(at(3602), &host(0), &habit(), 1.0), Ok(1));
    assert_eq!(pool.wanted(at(3), &host(1), &habit(), 1.0), Ok(1));
}

/// Opens one to the first host, to learn, and lets it end after so many seconds.
fn probe(pool: &mut Pool, seconds: u64, end: SpareEnd) {
    pool.opened(at(0), 0, host(0), terms(443, &Port { idle: Duration::ZERO, ..habit() }));
    pool.ready(0, at(0));
    pool.ended(0, at(seconds), end).unwrap();
}

fn rests(pool: &Pool, now: u64, n: usize) -> bool {
    pool.wanted(at(now), &host(n), &habit(), 1.0) == Err(PoolMiss::Resting)
}

#[test]
fn a_host_may_waste_half_of_the_last_sixteen() {
    let mut pool = Pool::new(16);
    for _ in 0..8 {
        play(&mut pool, 0..1, SpareEnd::Taken);
        play(&mut pool, 0..1, SpareEnd::Expired);
    }
    assert!(!rests(&pool, 3, 0));
    // Now one that was taken is not among the last any more.
    play(&mut pool, 0..1, SpareEnd::Expired);
    assert!(rests(&pool, 3, 0));
}

#[test]
fn less_than_three_of_ten_may_be_wasted_over_all() {
    let mut pool = Pool::new(32);
    play(&mut pool, 0..45, SpareEnd::Taken);
    play(&mut pool, 45..64, SpareEnd::Expired);
    assert_eq!(pool.budget, 32);
}

#[test]
fn what_was_opened_to_learn_or_dropped_is_not_wasted() {
    let mut pool = Pool::new(16);
    (0..16).for_each(|_| probe(&mut pool, 1, SpareEnd::Expired));
    play(&mut pool, 0..1, SpareEnd::Taken);
    (0..16).for_each(|_| play(&mut pool, 0..1, SpareEnd::Dropped));
    assert!(!rests(&pool, 3, 0));
}

#[test]
fn a_server_that_closes_three_in_a_row_too_soon_rests() {
    let soon = (1, SpareEnd::Closed);
    for (ends, expected) in [
        (vec![soon; 3], true),
        (vec![soon, soon, (10, SpareEnd::Closed), soon, soon], false),
        (vec![soon, soon, (10, SpareEnd::Expired), soon, soon], false),
        // That it was not closed in one second says nothing.
        (vec![soon, soon, (1, SpareEnd::Expired), soon], true),
    ] {
        let mut pool = Pool::new(16);
        ends.iter().for_each(|(seconds, end)| probe(&mut pool, *seconds, *end));
        assert_eq!(rests(&pool, 20, 0), expected, "{ends:?}");
    }
}

#[test]
fn two_that_are_too_old_are_kept_beside_one_that_is_not() {
    let mut pool = Pool::new(16);
    let short = Terms { fresh: Some(secs(1)), keep: PROBE, learning: false };
    for n in 0..3 {
        assert!(pool.has_room(at(5), &host(0), 1, short), "{n} are kept");
        pool.opened(at(0), n, host(0), short);
        pool.ready(n, at(0));
    }
    assert!(!pool.has_room(at(5), &host(0), 1, short));
}

#[test]
fn the_host_that_was_used_longest_ago_is_forgotten_for_a_new_one() {
    let mut pool = Pool::new(16);
    let bar = |pool: &mut Pool, n: usize, now: u64| {
        pool.opened(at(now), 0, host(n), terms(443, &habit()));
        pool.ended(0, at(now), SpareEnd::Barred).unwrap();
    };
    (0..MAX_HOSTS).for_each(|n| bar(&mut pool, n, (n as u64).min(1)));
    bar(&mut pool, 1, 2);
    assert!(rests(&pool, 3, 0) && rests(&pool, 3, 1), "that one was known");
    bar(&mut pool, MAX_HOSTS, 3);
    assert!(!rests(&pool, 3, 0) && rests(&pool, 3, 1) && rests(&pool, 3, MAX_HOSTS));
}

#[test]
fn a_host_to_which_nothing_may_be_opened_is_left_alone() {
    let mut pool = Pool::new(16);
    play(&mut pool, 0..1, SpareEnd::Barred);
    assert_eq!(pool.wanted(at(3), &host(0), &habit(), 1.0), Err(PoolMiss::Resting));
}

#[test]
fn age_is_bounded_by_what_the_server_bears_and_two_seconds_are_left() {
    let mut known = Port::default();
    let to_learn = Terms { fresh: Some(Duration::ZERO), keep: PROBE, learning: true };
    assert_eq!(terms(443, &known), to_learn);
    learn(&mut known, SpareEnd::Expired, secs(3));
    assert_eq!(terms(443, &known), Terms { fresh: Some(secs(1)), keep: PROBE, learning: false });
    learn(&mut known, SpareEnd::Expired, secs(6));
    assert_eq!(terms(443, &known), Terms { fresh: Some(secs(3)), keep: PROBE, learning: false });
    learn(&mut known, SpareEnd::Expired, PROBE);
    assert_eq!(terms(443, &known), Terms { fresh: Some(MAX_AGE), keep: MAX_AGE, learning: false });
    learn(&mut known, SpareEnd::Closed, secs(5));
    assert_eq!(terms(443, &known), Terms { fresh: Some(secs(5) / 2), keep: PROBE, learning: false });
    for soon in [2, 1] {
        learn(&mut known, SpareEnd::Closed, secs(soon));
        assert_eq!(terms(443, &known), to_learn, "sooner: at once");
    }
    learn(&mut known, SpareEnd::Closed, secs(15));
    assert_eq!(terms(443, &known).fresh, Some(secs(4)), "later: half way");
    learn(&mut known, SpareEnd::Expired, PROBE);
    assert_eq!(terms(443, &known).fresh, Some(MAX_AGE), "it has borne it all");
    learn(&mut known, SpareEnd::Closed, secs(1) / 10);
    assert_eq!(terms(443, &known), to_learn);
    assert_eq!(
        terms(443, &borne(&known, secs(4))).fresh,
        Some(secs(2)),
        "what is open now shows that it was an accident"
    );
    learn(&mut known, SpareEnd::Taken, secs(1) / 5);
    assert_eq!(terms(443, &known), to_learn, "an accident, and nothing is known of it any more");
}

#[test]
fn every_age_at_which_one_may_be_handed_over_leaves_two_seconds() {
    for tenths in 0..400 {
        let closes = secs(tenths) / 10;
        let fresh = terms(443, &Port { closes: Some(closes), ..habit() }).of_use();
        assert!(fresh.is_zero() || fresh + LEFT <= closes && fresh * 2 <= closes, "{fresh:?} of {closes:?}");
    }
}

#[test]
fn what_waits_for_the_connect_of_the_program_that_asked_waits_less_where_the_server_does() {
    let impatient = Port { closes: Some(secs(1)), ..habit() };
    assert!(may_wait(None, secs(2)) && may_wait(Some(&habit()), secs(2)));
    assert!(may_wait(Some(&impatient), secs(1) / 20) && !may_wait(Some(&impatient), secs(1) / 5));
}

#[test]
fn what_is_expected_is_opened_before_that_and_less_early_where_it_is_fresh_for_less() {
    let spread = Duration::from_millis(200);
    assert_eq!(when(secs(8), spread, MAX_AGE), (Duration::from_millis(6900), 1.0));
    assert_eq!(when(secs(8), spread, secs(1)), (Duration::from_millis(7500), 1.0));
    assert_eq!(when(secs(1), spread, MAX_AGE).0, Duration::ZERO);
    assert_eq!(when(secs(60), secs(20), secs(8)).1, 0.1, "it would hardly be met");
    assert_eq!(when(secs(60), Duration::ZERO, secs(8)).1, 1.0);
}

#[test]
fn an_unknown_port_is_tried_in_silence_before_a_connection_is_handed_over() {
    let mut known = habit();
    known.idle = secs(0);
    assert_eq!(terms(2222, &known).fresh, None, "not even under way");
    learn(&mut known, SpareEnd::Spoke, secs(1));
    let unknown = SpareKey { port: 2222, ..host(0) };
    assert_eq!(Pool::new(16).wanted(at(0), &unknown, &known, 1.0), Err(PoolMiss::Barred));
    let mut silent = habit();
    silent.idle = secs(4);
    assert_eq!(terms(2222, &silent).fresh, Some(secs(2)));
}

#[test]
fn nothing_is_opened_ahead_to_this_host_or_its_neighbours_development_servers() {
    for (addr, port, may) in [
        ("127.0.0.1", 443, false),
        ("::1", 443, false),
        ("::ffff:127.0.0.1", 443, false),
        ("169.254.1.1", 443, false),
        ("fe80::1", 443, false),
        ("10.0.0.1", 80, false),
        ("10.0.0.1", 443, true),
        ("fd00::1", 8080, false),
        ("198.18.0.1", 80, true),
        ("2001:db8::1", 80, true),
    ] {
        assert_eq!(may_lead_to(addr.parse().unwrap(), port), may, "{addr} {port}");
    }
}

#[test]
fn what_became_of_each_host_is_kept_until_its_account_is_closed() {
    let mut fates = Fates::default();
    for (account, n) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        fates.note(account, &host(n), PoolMiss::NoRoom);
    }
    assert_eq!([fates.take(1, &host(0)), fates.take(1, &host(0))], [Some(PoolMiss::NoRoom), None], "once");
    fates.close(1);
    assert_eq!([0, 1].map(|n| fates.take(1, &host(n))), [None; 2]);
    assert_eq!([0, 1].map(|n| fates.take(2, &host(n))), [Some(PoolMiss::NoRoom); 2]);
}
