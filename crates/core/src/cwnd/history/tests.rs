//! What a memory must hold to, whatever it is told.

use super::*;
use proptest::prelude::*;

const HOME: NetworkId = NetworkId(1);
const MS: Duration = Duration::from_millis(1);

fn history(settings: Settings) -> History {
    History::new(settings, [7; 16])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(1000 * seconds)
}

fn sample(window: u64) -> Sample {
    Sample {
        window,
        carried: window,
        rtt: 38 * MS,
        rate: 12_500_000,
        loss: 0.0,
        limited: false,
        shared: false,
        outcome: Outcome::Clean,
        medium: Medium::Wired,
    }
}

#[test]
fn an_address_is_remembered_and_its_neighbours_at_lower_trust() {
    let mut history = history(Settings::default());
    history.learn(at(1), HOME, ip("192.0.2.1"), &sample(400_000));
    let exact = history.recall(at(2), HOME, ip("192.0.2.1")).unwrap();
    assert_eq!((exact.window, exact.trust, exact.age), (400_000, Trust::Exact, 1000 * MS));
    let near = history.recall(at(2), HOME, ip("192.0.2.99")).unwrap();
    assert_eq!((near.window, near.average, near.trust), (400_000, 200_000, Trust::Prefix));
    assert_eq!(history.recall(at(2), HOME, ip("192.0.3.1")), None);
    assert!(!history.is_empty() && history.bytes() > size_of::<History>());
    let few = Settings { lease: 9 * MS, ..Settings::default() };
    assert_eq!(super::History::new(few, [7; 16]).settings().lease, 9 * MS);
    assert_eq!(history.recall(at(2), NetworkId(2), ip("192.0.2.1")), None, "another network");
}

#[test]
fn records_end_with_their_lifetime_and_wireless_ones_sooner() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    let wireless = Sample { medium: Medium::Wireless, ..sample(400_000) };
    history.learn(at(0), HOME, ip("198.51.100.1"), &wireless);
    let known = |history: &History, s| {
        ["192.0.2.1", "198.51.100.1"].map(|remote| history.recall(at(s), HOME, ip(remote)).is_some())
    };
    assert_eq!(known(&history, 600), [true, true]);
    assert_eq!(known(&history, 601), [true, false]);
    assert_eq!(known(&history, 3601), [false, false]);
    assert_eq!((history.sweep(at(601)), history.len()), (2, 2), "the address and its prefix");
    history.flush();
    assert!(history.is_empty());
}

#[test]
fn what_has_expired_is_deleted_by_whatever_comes_next() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    assert!(history.lease(at(3601), HOME, ip("192.0.2.1")).is_none());
    assert!(history.is_empty(), "who asks for it deletes it");
    for n in 0..100 {
        history.learn(at(10_000 + n), HOME, IpAddr::from([10, 0, n as u8, 1]), &sample(400_000));
    }
    history.learn(at(14_000), HOME, ip("192.0.2.1"), &sample(400_000));
    assert_eq!(history.len(), 2, "what nobody asks for any more is deleted by what is learned");
    // The clock is set back: what is learned then is deleted in its own time.
    history.learn(at(20), HOME, ip("192.0.2.2"), &sample(400_000));
    history.learn(at(3700), HOME, ip("198.51.100.1"), &sample(400_000));
    assert!(history.record(history.keys(HOME, ip("192.0.2.2")).exact).is_none());
}

#[test]
fn of_ten_connections_at_once_one_may_use_the_memory() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    let mut leases: Vec<_> = (0..10).filter_map(|_| history.lease(at(1), HOME, ip("192.0.2.1"))).collect();
    assert_eq!(leases.len(), 1);
    history.release(leases.remove(0).0);
    assert!(history.lease(at(1), HOME, ip("192.0.2.1")).is_some());
}

#[test]
fn a_lease_that_nobody_gives_back_runs_out_and_given_back_late_takes_nothing_from_the_next() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    let (first, _) = history.lease(at(1), HOME, ip("192.0.2.1")).unwrap();
    assert!(history.lease(at(600), HOME, ip("192.0.2.1")).is_none());
    assert!(history.lease(at(601), HOME, ip("192.0.2.1")).is_some());
    history.release(first);
    assert!(history.lease(at(602), HOME, ip("192.0.2.1")).is_none());
}

#[test]
fn a_memory_that_misled_is_gone_and_with_it_the_prefix() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    let (lease, _) = history.lease(at(1), HOME, ip("192.0.2.1")).unwrap();
    history.refute(&lease, HOME, ip("192.0.2.1"));
    assert!(history.is_empty());
    history.release(lease);
}

#[test]
fn the_average_is_that_of_paper_2_and_the_window_that_of_the_last_connection() {
    let mut history = history(Settings::default());
    for (s, window) in [(0, 100_000), (1, 200_000), (2, 600_000)] {
        history.learn(at(s), HOME, ip("192.0.2.1"), &sample(window));
    }
    let record = *history.record(history.keys(HOME, ip("192.0.2.1")).exact).unwrap();
    assert_eq!((record.window, record.mean, record.samples), (600_000, 300_000, 3));
    assert_eq!(record.moving, 173_437, "an eighth of the way, twice");
}

#[test]
fn the_least_round_trip_of_a_path_stays_while_others_make_packets_wait_and_follows_a_path_that_became_longer() {
    let mut history = history(Settings::default());
    let mut learn = |s, ms| {
        history.learn(at(s), HOME, ip("192.0.2.1"), &Sample { rtt: ms * MS, ..sample(400_000) });
        let known = history.recall(at(s), HOME, ip("192.0.2.1")).unwrap();
        (known.rtt, known.least)
    };
    assert_eq!(learn(0, 40), (40 * MS, 40 * MS));
    assert_eq!(learn(1, 56), (56 * MS, 42 * MS), "an eighth of the way");
    assert_eq!(learn(2, 38), (38 * MS, 38 * MS));
    let last = (3..30).map(|s| learn(s, 80)).last().unwrap();
    assert!(last.1 > 78 * MS && last.1 < 80 * MS, "{last:?}");
}

#[test]
fn a_connection_that_had_little_to_send_neither_lowers_the_window_nor_keeps_it_young() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    let small = Sample { limited: true, ..sample(60_000) };
    history.learn(at(3000), HOME, ip("192.0.2.1"), &small);
    let known = history.recall(at(3600), HOME, ip("192.0.2.1")).unwrap();
    assert!(known.window == 400_000 && known.found);
    assert_eq!(history.recall(at(3601), HOME, ip("192.0.2.1")), None);
    history.learn(at(3700), HOME, ip("192.0.2.1"), &small);
    assert!(!history.recall(at(3701), HOME, ip("192.0.2.1")).unwrap().found, "the path may carry more");
    assert_eq!(history.recall(at(3701), HOME, ip("192.0.2.1")).unwrap().window, 60_000, "a new beginning");
}

#[test]
fn a_share_beside_others_lowers_the_window_and_says_nothing_of_the_end_of_the_path() {
    let mut history = history(Settings::default());
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    history.learn(at(1), HOME, ip("192.0.2.1"), &Sample { shared: true, ..sample(200_000) });
    let known = history.recall(at(2), HOME, ip("192.0.2.1")).unwrap();
    assert!(known.window == 200_000 && !known.found, "{known:?}");
    history.learn(at(3), HOME, ip("192.0.2.1"), &sample(300_000));
    assert!(history.recall(at(4), HOME, ip("192.0.2.1")).unwrap().found);
}

#[test]
fn a_million_forged_addresses_stay_within_the_quotas_and_push_out_no_neighbour() {
    let mut history = history(Settings { quota: 1000, of_prefix: 8, ..Settings::default() });
    for n in 0..1_000_000u32 {
        history.learn(at(1), HOME, IpAddr::from(n.wrapping_mul(2_654_435_761).to_be_bytes()), &sample(400_000));
        assert!(history.len() <= 1000);
    }
    history.flush();
    history.learn(at(0), HOME, ip("192.0.2.1"), &sample(400_000));
    for n in 0..100_000u128 {
        let forged = IpAddr::from((0x2001_0db8_u128 << 96 | n).to_be_bytes());
        history.learn(at(1), HOME, forged, &sample(400_000));
    }
    assert_eq!(history.len(), 2 + 1 + 8, "one prefix has eight addresses");
    assert_eq!(history.recall(at(2), HOME, ip("192.0.2.1")).unwrap().trust, Trust::Exact);
}

#[test]
fn a_million_records_take_at_most_200_mb() {
    let mut history = history(Settings { quota: 1_000_000, ..Settings::default() });
    for n in 0..500_000u32 {
        history.learn(at(1), HOME, IpAddr::from((n << 8).to_be_bytes()), &sample(400_000));
    }
    assert_eq!(history.len(), 1_000_000);
    assert!(history.bytes() <= 200_000_000, "{}", history.bytes());
}

#[test]
fn the_one_that_was_used_longest_ago_goes_first() {
    let mut history = history(Settings { quota: 6, ..Settings::default() });
    let remotes = ["192.0.2.1", "198.51.100.1", "203.0.113.1"];
    for remote in remotes {
        history.learn(at(1), HOME, ip(remote), &sample(400_000));
    }
    let (lease, _) = history.lease(at(2), HOME, ip(remotes[0])).unwrap();
    history.release(lease);
    history.learn(at(3), HOME, ip("192.0.3.1"), &sample(400_000));
    let known = |remote: &str| history.recall(at(3), HOME, ip(remote)).map(|r| r.trust);
    assert_eq!(known(remotes[0]), Some(Trust::Exact));
    assert_eq!(known(remotes[1]), None);
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_young_and_panics_nowhere() {
    let mut history = history(Settings::default());
    history.learn(at(10_000), HOME, ip("192.0.2.1"), &sample(400_000));
    assert_eq!(history.recall(at(1), HOME, ip("192.0.2.1")), None);
    let record = *history.record(history.keys(HOME, ip("192.0.2.1")).exact).unwrap();
    assert_eq!(Record::decode(&record.encode(), at(9_000)), Err(Damaged::Future(1000)));
}

#[test]
fn a_record_comes_back_from_a_store_as_it_went() {
    let mut first = history(Settings::default());
    let wireless = Sample { medium: Medium::Wireless, outcome: Outcome::Congested, loss: 0.25, ..sample(400_000) };
    first.learn(at(5), HOME, ip("192.0.2.1"), &wireless);
    first.learn(at(6), HOME, ip("192.0.2.1"), &Sample { rtt: 46 * MS, ..sample(300_000) });
    let mut second = history(Settings::default());
    for (key, of, record) in first.records() {
        second.import(key, of, Record::decode(&record.encode(), at(7)).unwrap());
    }
    let recalled = |history: &History| history.recall(at(7), HOME, ip("192.0.2.1"));
    assert!(recalled(&first).is_some() && recalled(&first) == recalled(&second));
    let order = |history: &History| history.records().map(|(key, of, _)| (key, of)).collect::<Vec<_>>();
    assert_eq!(order(&first), order(&second), "and is as recently used");
    second.learn(at(8), HOME, ip("192.0.2.1"), &sample(900_000));
    let known = recalled(&second);
    for (key, of, record) in first.records() {
        second.import(key, of, *record);
    }
    assert_eq!(recalled(&second), known, "the newer stays");
}

#[test]
fn what_is_no_record_is_refused_with_a_reason() {
    let good = Record::first(at(1), &sample(400_000)).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        bytes
    };
    let now = at(2);
    assert!(Record::decode(&good, now).is_ok());
    assert_eq!(Record::decode(&[], now), Err(Damaged::Length { found: 0 }));
    assert_eq!(Record::decode(&good[..20], now), Err(Damaged::Length { found: 20 }));
    assert_eq!(Record::decode(&with(0, 2), now), Err(Damaged::Version(2)));
    assert_eq!(Record::decode(&with(1, 9), now), Err(Damaged::Number("flag")));
    assert_eq!(Record::decode(&with(15, 1), now), Err(Damaged::Number("window")));
    assert_eq!(Record::decode(&with(39, 255), now), Err(Damaged::Number("round-trip time")));
    assert_eq!(Record::decode(&with(3, 255), now), Err(Damaged::Number("round-trip time")));
    assert_eq!(Record::decode(&with(51, 255), now), Err(Damaged::Number("loss")));
}

/// The index, the list and the members agree.
fn check(history: &History) {
    let all: Vec<_> = history.records().map(|(key, of, _)| (key, of)).collect();
    assert_eq!(all.len(), history.len());
    assert!(all.iter().all(|(key, _)| history.record(*key).is_some()));
    for prefix in all.iter().filter_map(|(_, of)| *of) {
        let members = all.iter().filter(|(_, of)| *of == Some(prefix)).count();
        assert_eq!(usize::from(history.slots.members(prefix)), members);
        assert!(members <= usize::from(history.settings.of_prefix));
    }
}

proptest! {
    #[test]
    fn whatever_is_done_to_a_memory_it_holds_together(
        quota in 0usize..20,
        of_prefix in 0u16..4,
        steps in proptest::collection::vec((0u8..7, any::<u8>(), any::<u16>(), any::<u32>()), 0..300),
    ) {
        let mut history = history(Settings { quota, of_prefix, ..Settings::default() });
        let mut leases = Vec::new();
        for (what, remote, time, window) in steps {
            let now = at(time.into());
            let remote = IpAddr::from([10, 0, remote % 4, remote / 4]);
            match what {
                0..3 => history.learn(now, HOME, remote, &sample(window.into())),
                3 => leases.extend(history.lease(now, HOME, remote).map(|(lease, _)| (lease, remote))),
                4 => leases.pop().into_iter().for_each(|(lease, _)| history.release(lease)),
                5 => leases.pop().into_iter().for_each(|(lease, to)| history.refute(&lease, HOME, to)),
                _ => _ = history.sweep(now),
            }
            prop_assert!(history.len() <= quota);
            check(&history);
        }
    }

    #[test]
    fn foreign_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80), now in any::<u64>()) {
        let now = Instant::from_nanos(now);
        if let Ok(record) = Record::decode(&bytes, now) {
            prop_assert_eq!(Record::decode(&record.encode(), now), Ok(record));
        }
    }
}

/// What a host that learned 400 kB of 192.0.2.1 at second 1 hands to others.
fn prior() -> Prior {
    let mut other = History::new(Settings::default(), [9; 16]);
    other.learn(at(1), HOME, ip("192.0.2.1"), &sample(400_000));
    Prior::new([9; 16], other.records().map(|(key, _, record)| (key, *record)))
}

#[test]
fn another_hosts_window_counts_half_until_this_host_has_learned() {
    let mut history = history(Settings::default());
    history.set_priors(vec![prior()]);
    let known = |history: &History, remote| {
        history.recall(at(2), HOME, ip(remote)).map(|known| (known.trust, known.window, known.trust.of(known.window)))
    };
    assert_eq!(known(&history, "192.0.2.1"), Some((Trust::Fleet, 400_000, 200_000)));
    assert_eq!(known(&history, "192.0.2.9"), Some((Trust::FleetPrefix, 400_000, 100_000)));
    assert_eq!(known(&history, "192.0.3.1"), None);
    assert_eq!(history.recall(at(2), NetworkId(2), ip("192.0.2.1")), None, "another network");
    assert_eq!(history.recall(at(3602), HOME, ip("192.0.2.1")), None, "too old");
    history.learn(at(2), HOME, ip("192.0.2.1"), &sample(40_000));
    assert_eq!(known(&history, "192.0.2.1"), Some((Trust::Exact, 40_000, 40_000)));
    assert_eq!(known(&history, "192.0.2.9"), Some((Trust::Prefix, 40_000, 20_000)), "own neighbours count more");
}

#[test]
fn another_hosts_record_is_lent_once_and_gone_when_it_has_misled() {
    let mut history = history(Settings::default());
    history.set_priors(vec![prior()]);
    let (lease, known) = history.lease(at(2), HOME, ip("192.0.2.1")).unwrap();
    assert_eq!(known.trust, Trust::Fleet);
    assert_eq!(history.lease(at(2), HOME, ip("192.0.2.1")), None, "in use");
    history.release(lease);
    let (lease, known) = history.lease(at(3), HOME, ip("192.0.2.1")).unwrap();
    assert_eq!(known.trust, Trust::Fleet);
    history.refute(&lease, HOME, ip("192.0.2.1"));
    for remote in ["192.0.2.1", "192.0.2.9"] {
        assert_eq!(history.recall(at(4), HOME, ip(remote)), None);
    }
}

#[test]
fn another_hosts_record_is_never_passed_on_and_no_start_of_an_own_one() {
    let mut history = history(Settings::default());
    history.set_priors(vec![prior()]);
    let (lease, _) = history.lease(at(2), HOME, ip("192.0.2.1")).unwrap();
    let exact = history.keys(HOME, ip("192.0.2.1")).exact;
    assert_eq!((history.records().count(), history.record(exact)), (0, None));
    // Too little to find the path's limit: what another host said is no lower bound for it.
    history.learn(at(3), HOME, ip("192.0.2.1"), &Sample { limited: true, ..sample(30_000) });
    history.release(lease);
    let own = history.record(exact).unwrap();
    assert_eq!((own.window, own.mean, own.samples), (30_000, 30_000, 1));
    assert_eq!(history.records().count(), 2);
}

#[test]
fn of_several_hosts_the_one_that_knows_the_address_counts() {
    let mut neighbour = History::new(Settings::default(), [8; 16]);
    neighbour.learn(at(1), HOME, ip("192.0.2.7"), &sample(900_000));
    let neighbour = Prior::new([8; 16], neighbour.records().map(|(key, _, record)| (key, *record)));
    let mut history = history(Settings::default());
    history.set_priors(vec![neighbour, prior()]);
    let known = history.recall(at(2), HOME, ip("192.0.2.1")).unwrap();
    assert_eq!((known.trust, known.window), (Trust::Fleet, 400_000));
    let known = history.recall(at(2), HOME, ip("192.0.2.7")).unwrap();
    assert_eq!((known.trust, known.window), (Trust::Fleet, 900_000));
    // Of two that know it, the first one, which is trusted most.
    let mut other = History::new(Settings::default(), [6; 16]);
    other.learn(at(1), HOME, ip("192.0.2.1"), &sample(700_000));
    let other = Prior::new([6; 16], other.records().map(|(key, _, record)| (key, *record)));
    history.set_priors(vec![prior(), other]);
    assert_eq!(history.recall(at(2), HOME, ip("192.0.2.1")).map(|known| known.window), Some(400_000));
}

#[test]
fn a_record_out_of_a_store_takes_the_place_of_an_older_one_only() {
    let mut history = history(Settings::default());
    history.learn(at(5), HOME, ip("192.0.2.1"), &sample(400_000));
    let keys = history.keys(HOME, ip("192.0.2.1"));
    let record = *history.record(keys.exact).unwrap();
    let windows = [(4, 100_000), (6, 200_000)].map(|(second, window)| {
        history.import(keys.exact, Some(keys.prefix), Record { at: at(second), window, ..record });
        history.record(keys.exact).unwrap().window
    });
    assert_eq!(windows, [400_000, 200_000]);
}

#[test]
fn a_store_gives_back_what_it_was_given_and_bounds_are_of_use() {
    let of =
        |outcome, medium, loss| Record::first(at(9), &Sample { outcome, medium, loss, rtt: 50 * MS, ..sample(9_000) });
    let clean = Record { found: false, ..of(Outcome::Clean, Medium::Wired, 0.25) };
    // A round trip of a minute, of which an eighth of a second was waiting.
    let minute = Duration::from_secs(60);
    let rough = of(Outcome::Congested, Medium::Wireless, f32::NAN);
    let rough = Record { found: true, rtt: minute, least: minute - 125 * MS, ..rough };
    for record in [clean, rough] {
        assert_eq!(Record::decode(&record.encode(), at(9)), Ok(record), "as late as it was written");
    }
    assert_eq!((clean.loss, rough.loss), (0.25, 0.0));
    let mut bytes = clean.encode();
    bytes[1] = 8;
    assert_eq!(Record::decode(&bytes, at(9)), Err(Damaged::Number("flag")));
}

#[test]
fn a_record_teaches_until_its_lifetime_is_over() {
    let first = Record::first(at(0), &sample(400_000));
    let samples = |second| first.learned(at(second), &sample(400_000), Duration::from_secs(3600)).samples;
    assert_eq!([3600, 3601, 9000].map(samples), [2, 1, 1]);
    let none = Prior::new([9; 16], []);
    assert!((none.is_empty(), none.len()) == (true, 0) && (prior().is_empty(), prior().len()) == (false, 2));
}
