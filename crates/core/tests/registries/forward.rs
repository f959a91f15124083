//! Meters and profiles of the forwarder: no number is made up, none is no number, and no profile sleeps for ever.

use crate::{MOMENTS, TIMES, are_named};
use headstart_core::forward::pace::{Pace, Sleeper};
use headstart_core::forward::{Facts, Flow, FlowEnd, FlowId, Trips, meter, profile};
use headstart_core::time::{Duration, Instant};

#[test]
fn every_meter_and_every_profile_is_named_and_found() {
    let meters: Vec<_> = meter::ALL.iter().map(|entry| (entry.name, entry.what)).collect();
    let of_name = |name: &str| meter::ALL.iter().find(|entry| entry.name == name);
    // As in JSON.
    are_named(&meters, '_', |name| of_name(name).map(|entry| entry.name.to_owned()));
    let profiles: Vec<_> = profile::ALL.iter().map(|entry| (entry.name, entry.what)).collect();
    are_named(&profiles, '-', |name| profile::find(name).ok().map(|entry| entry.name.to_owned()));
    assert!(profile::ALL.iter().any(|entry| std::ptr::eq(*entry, profile::DEFAULT)) && !profile::DEFAULT.lab_only);
}

fn flow(asked: Instant) -> Flow {
    let end = "[::]:0".parse().unwrap();
    Flow {
        id: FlowId(u64::MAX),
        app: end,
        peer: end,
        asked,
        connected: None,
        up: Default::default(),
        down: Default::default(),
        hello: (None, None),
        handshake: None,
        accepted: false,
        delivered: Default::default(),
        facts: None,
        requests: Trips::default(),
        accelerated: None,
        ahead: false,
        local_retransmissions: 0,
        kernel_stats: None,
        end: FlowEnd::Open,
        ended: None,
    }
}

/// Clocks that stand still, turn back or reach their end; nothing counted, and all that can be.
#[test]
fn every_meter_says_a_number_or_nothing_of_every_flow() {
    let moments = || MOMENTS.into_iter().map(Some).chain([None]);
    for asked in MOMENTS {
        for (first, second) in moments().flat_map(|first| moments().map(move |second| (first, second))) {
            for count in [0, 1, u64::MAX] {
                for time in TIMES {
                    let mut flow = flow(asked);
                    (flow.connected, flow.hello, flow.ended) = (first, (first, second), second);
                    for way in [&mut flow.up, &mut flow.down] {
                        (way.bytes, way.packets, way.first, way.last) = (count, count, first, second);
                        (way.gaps.count, way.gaps.total, way.gaps.longest) = (count, time, time);
                    }
                    flow.facts = Some(Facts { rtt: time, min_rtt: Some(time), retransmissions: count as u32 });
                    flow.requests = Trips { count, total: time, longest: time };
                    flow.local_retransmissions = count as u32;
                    for entry in meter::ALL {
                        let read = (entry.read)(&flow);
                        assert!(read.is_none_or(|n| n.is_finite() && n >= 0.0), "{}: {read:?} of {flow:?}", entry.name);
                        assert_eq!(read, (entry.read)(&flow));
                    }
                }
            }
        }
    }
}

#[test]
fn no_profile_sleeps_for_longer_than_it_says_or_over_what_was_found() {
    let longest = |pace| match pace {
        Pace::AtOnce => Duration::ZERO,
        Pace::Fixed(sleep) | Pace::Growing(_, sleep) => sleep,
    };
    for entry in profile::ALL {
        for pace in [entry.programs, entry.peers] {
            for now in MOMENTS {
                let mut sleeper = Sleeper::new(pace);
                for _ in 0..100 {
                    sleeper.read(now, false);
                    let until = sleeper.until().unwrap_or(now);
                    assert!(until >= now && until <= now + longest(pace), "{}: {until:?}", entry.name);
                }
                let before = sleeper.until();
                sleeper.read(now, true);
                assert_eq!(sleeper.until(), before, "{} sleeps after it has found something", entry.name);
            }
            assert!(longest(pace) <= Duration::from_secs(1), "{} is asleep for good", entry.name);
        }
    }
}
