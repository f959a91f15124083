//! The channel against what is known of it: the standard's arithmetic, Bianchi's model, and what paper 4 saw.

use super::*;
use crate::medium::Way;
use crate::{Counters, Duplex, DuplexSpec, Outcome};
use headstart_core::time::Instant;

fn spec(parameters: &str) -> DuplexSpec {
    crate::parse_duplex(&format!("medium=wlan:{parameters},queue=infinite")).unwrap()
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Keeps the given directions filled with packets of `bytes` for `seconds`; what each carried.
fn saturate(spec: &DuplexSpec, ways: &[Way], bytes: usize, seconds: u64) -> [Counters; 2] {
    let mut duplex = Duplex::new(spec, 11);
    for millis in 0..seconds * 1000 {
        while duplex.poll_outcome(ms(millis)).is_some() {}
        for &way in ways {
            while duplex.backlog(way).packets < 300 {
                duplex.push(ms(millis), way, vec![0u8; bytes]).unwrap();
            }
        }
    }
    while duplex.poll_outcome(ms(seconds * 1000)).is_some() {}
    Way::BOTH.map(|way| duplex.counters(way))
}

fn mbit(counters: Counters, seconds: u64) -> f64 {
    counters.bytes_out as f64 * 8.0 / seconds as f64 / 1e6
}

#[test]
fn one_saturated_direction_gets_what_the_standards_arithmetic_leaves_it() {
    let [up, _] = saturate(&spec("65mbit"), &[Way::Up], 1500, 10);
    // Sixteen packets each 3112 us on the air, SIFS, block acknowledgement, DIFS and 7.5 slots on average.
    let expected = 16.0 * 12_000.0 / (3112.0 + 16.0 + 32.0 + 34.0 + 7.5 * 9.0);
    assert!((mbit(up, 10) / expected - 1.0).abs() < 0.005, "{} of {expected} Mbit/s", mbit(up, 10));
    assert_eq!(up.packets_lost, 0);
}

#[test]
fn both_directions_share_one_channel_evenly_and_get_less_together_than_one_alone() {
    let spec = spec("65mbit");
    let [alone, _] = saturate(&spec, &[Way::Up], 1500, 10);
    let both = saturate(&spec, &Way::BOTH, 1500, 10).map(|counters| mbit(counters, 10));
    assert!((both[0] / both[1] - 1.0).abs() < 0.1, "{both:?}");
    let share = (both[0] + both[1]) / mbit(alone, 10);
    assert!((0.85..1.0).contains(&share), "{share}");
}

/// The chance of a collision for a transmission among `n` saturated stations: Bianchi's fixed point with a first range of
/// 16 slots, doubled up to six times.
fn bianchi(n: i32) -> f64 {
    let (w, m) = (16.0f64, 6);
    let attempt = |p: f64| 2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)));
    let (mut low, mut high) = (0.0, 0.49);
    for _ in 0..60 {
        let p = f64::midpoint(low, high);
        if 1.0 - (1.0 - attempt(p)).powi(n - 1) > p { low = p } else { high = p }
    }
    low
}

#[test]
fn saturated_stations_collide_as_often_as_bianchi_says() {
    for others in [1, 4, 9] {
        let wlan = Wlan { contenders: others, off: Duration::ZERO, ..Wlan::STRONG };
        let mut channel = Channel::new(wlan);
        let mut rng = fastrand::Rng::with_seed(9);
        let (mut turns, mut collisions) = (0u32, 0u32);
        let ready = [Some(Instant::ZERO), None];
        while turns < 20_000 {
            let turn = crate::medium::Shared::contend(&mut channel, ready, Instant::FAR_FUTURE, &mut rng).unwrap();
            let mut received = [false];
            crate::medium::Shared::carry(&mut channel, turn, [&[1500], &[]], [&mut received, &mut []], &mut rng);
            turns += 1;
            collisions += u32::from(!received[0]);
        }
        let (found, expected) = (f64::from(collisions) / f64::from(turns), bianchi(others as i32 + 1));
        assert!((found / expected - 1.0).abs() < 0.12, "{others} others: {found} against {expected}");
    }
}

/// Packets of 50 bytes each 30 ms one way: the delays, sorted, in microseconds.
fn small_messages(spec: &DuplexSpec, bulk: Option<Way>, seconds: u64) -> Vec<u64> {
    let mut duplex = Duplex::<Vec<u8>>::new(spec, 5);
    let mut delays = Vec::new();
    for millis in 0..seconds * 1000 {
        let now = ms(millis);
        while let Some((_, outcome)) = duplex.poll_outcome(now) {
            if let Outcome::Released(at, packet) = outcome
                && packet.len() == 102
            {
                let sent = u64::from_be_bytes(packet[..8].try_into().unwrap());
                delays.push((at.as_nanos() - sent) / 1000);
            }
        }
        if millis % 30 == 0 {
            let mut packet = now.as_nanos().to_be_bytes().to_vec();
            packet.resize(102, 0);
            duplex.push(now, Way::Up, packet).unwrap();
        }
        if let Some(way) = bulk {
            while duplex.backlog(way).packets < 20 {
                duplex.push(now, way, vec![0; 1500]).unwrap();
            }
        }
    }
    delays.sort_unstable();
    delays
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[test]
fn on_a_quiet_channel_a_message_takes_its_air_time_and_nothing_else() {
    let delays = small_messages(&spec("65mbit"), None, 30);
    // 102 + 54 bytes and the delimiter: 160 bytes, 1302 bits, 6 symbols of 260 bits and 36 us.
    assert!(delays.iter().all(|&us| us == 60), "{delays:?}");
    assert_eq!(delays.len(), 1000);
}

#[test]
fn a_flow_the_other_way_delays_small_messages_by_its_aggregates() {
    let quiet = percentile(&small_messages(&spec("65mbit"), None, 30), 95);
    let busy = small_messages(&spec("65mbit"), Some(Way::Down), 30);
    // Half an aggregate of 3.1 ms at the median, one or two at the tail.
    assert!((1000..3500).contains(&percentile(&busy, 50)), "{}", percentile(&busy, 50));
    assert!(percentile(&busy, 95) > 3000 && quiet == 60, "{} and {quiet}", percentile(&busy, 95));
}

#[test]
fn more_neighbours_mean_longer_delays_and_a_weak_signal_means_delays_that_move() {
    let tail = |parameters: &str| percentile(&small_messages(&spec(parameters), None, 120), 95);
    let (none, some, many) = (tail("strong:0"), tail("strong:2"), tail("strong:10"));
    assert!(none < some && some < many, "{none}, {some}, {many}");
    let spread = |parameters: &str| {
        let delays = small_messages(&spec(parameters), None, 120);
        percentile(&delays, 99) - percentile(&delays, 50)
    };
    let (strong, weak) = (spread("strong"), spread("weak"));
    assert!(weak > strong, "{weak} against {strong} us");
}

#[test]
fn neighbours_that_are_half_the_time_on_take_less_than_those_that_always_are() {
    let rate = |parameters: &str| mbit(saturate(&spec(parameters), &[Way::Down], 1500, 20)[1], 20);
    let (never, half, always) = (rate("65mbit:2:0:1s"), rate("65mbit:2:400ms:400ms"), rate("65mbit:2:1s:0"));
    assert!(never > half * 1.2 && half > always * 1.2, "{never}, {half}, {always} Mbit/s");
}

#[test]
fn a_frame_is_lost_only_after_seven_retries_and_the_share_is_that_of_eight_failures() {
    // Without fades: 0.5 to the eighth is 1 of 256.
    let [up, _] = saturate(&spec("65mbit:0:0:0:50%"), &[Way::Up], 1500, 20);
    let share = up.packets_lost as f64 / (up.packets_lost + up.packets_out) as f64;
    assert!((share * 256.0 - 1.0).abs() < 0.15, "{share}");
    let [up, _] = saturate(&spec("65mbit:0:0:0:100%"), &[Way::Up], 1500, 5);
    assert_eq!(up.packets_out, 0);
    assert!(up.packets_lost > 0);
}

#[test]
fn what_comes_after_a_missing_frame_waits_for_it() {
    let mut duplex = Duplex::new(&spec("65mbit:0:0:0:30%"), 2);
    for k in 0..2000u32 {
        duplex.push(ms(0), Way::Up, k.to_be_bytes().to_vec()).unwrap();
    }
    let mut released = Vec::new();
    while let Some(deadline) = duplex.poll_timeout() {
        while let Some((at, _, packet)) = duplex.poll(deadline.at) {
            released.push((at, u32::from_be_bytes(packet.try_into().unwrap())));
        }
    }
    assert!(released.is_sorted());
    // Several at one moment that do not make up an aggregate of their own: those that waited.
    let longest = released.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap();
    assert!(longest > 16, "{longest}");
}

#[test]
fn parameters_read_with_their_defaults_and_nonsense_is_refused() {
    let read = |text: &str| parse(text, &mut |_| Err(String::new()));
    assert_eq!(read("strong"), Ok(wlan(Wlan::STRONG)));
    assert_eq!(read("weak:3"), Ok(wlan(Wlan { contenders: 3, ..Wlan::WEAK })));
    assert_eq!(read("65mbit"), Ok(wlan(Wlan { contenders: 0, ..Wlan::STRONG })));
    assert_eq!(read("strong").unwrap().to_string(), "wlan:65mbit:1:400ms:400ms:0:0ms:0ms:0");
    for text in ["", "1mbit", "700mbit", "strong:x", "strong:101", "strong:1:5ms", "strong:1:1s:1s:0:1s", "medium"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_message_after_a_long_silence_meets_the_neighbours_in_the_midst_of_their_transmissions() {
    let mut duplex = Duplex::new(&spec("65mbit:2:1s:0"), 3);
    let mut delays = Vec::new();
    for second in 1..500 {
        duplex.push(ms(second * 1000), Way::Up, vec![0u8; 100]).unwrap();
        let (at, ..) = duplex.poll(ms(second * 1000 + 900)).unwrap();
        delays.push(at.since(ms(second * 1000)).as_micros() as u64);
    }
    delays.sort_unstable();
    // The rest of a transmission of up to 3.2 ms, and for some another, or a collision.
    assert!((500..4000).contains(&percentile(&delays, 50)), "{} us", percentile(&delays, 50));
    // What happens while nothing is sent is not played.
    let centuries = 10_000_000_000_000;
    duplex.push(ms(centuries), Way::Up, vec![0u8; 100]).unwrap();
    assert!(duplex.poll(ms(centuries + 900)).is_some());
}
