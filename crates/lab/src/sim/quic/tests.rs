//! Real QUIC in virtual time: it repeats, it starts as it is told, and only one of ten jumps.

use super::*;
use headstart_core::cwnd::start::{self, Phase};
use headstart_quic::{Clock, Options, StartEvent, Store};
use std::sync::{Arc, Mutex};

const MB: u64 = 1_000_000;
const LIMIT: Duration = Duration::from_secs(60);

fn path() -> Path {
    Path::lossless(100 * MB, Duration::from_millis(38))
}

struct Observed {
    stage: Stage,
    events: Arc<Mutex<Vec<StartEvent>>>,
}

fn stage(rule: &str, path: &Path, seed: u64) -> Observed {
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let options = Options {
        rule: start::find(rule).unwrap(),
        listener: Some(Arc::new(move |change: &StartEvent| heard.lock().unwrap().push(*change))),
        ..Options::default()
    };
    let origin = headstart_io::clock::Clock::new().origin();
    let memory = CarefulResume::with_options(Store::new(Clock::new(origin, Duration::ZERO), [1; 16]), options);
    let stage = Stage::new(path, &memory, Times::new(origin), Instant::from_millis(1000), 0, seed).unwrap();
    Observed { stage, events }
}

#[test]
fn a_transfer_takes_as_long_each_time_although_its_keys_differ() {
    let lossy = Path { data_loss: 0.01, ..path() };
    let took = || stage("default", &lossy, 5).stage.fetch(300_000, LIMIT).unwrap().took.unwrap();
    assert_eq!(took(), took());
}

#[test]
fn no_transfer_is_faster_than_its_path() {
    let took = stage("default", &path(), 1).stage.fetch(MB, LIMIT).unwrap().took.unwrap();
    // Handshake, question, and a megabyte at 100 Mbit/s.
    assert!(took > Duration::from_millis(2 * 38 + 80), "{took:?}");
}

#[test]
fn the_first_contact_is_the_default_packet_for_packet() {
    let sent = |rule| {
        let mut stage = stage(rule, &path(), 1).stage;
        stage.record();
        stage.fetch(300_000, LIMIT).unwrap();
        stage.recorded()
    };
    let default = sent("default");
    assert!(default.len() > 200);
    for rule in start::ALL {
        assert!(sent(rule.name) == default, "{}", rule.name);
    }
}

#[test]
fn of_ten_connections_at_once_one_jumps() {
    let mut all = stage("careful-resume", &path(), 1);
    for _ in 0..2 {
        all.stage.fetch(MB, LIMIT).unwrap();
    }
    all.events.lock().unwrap().clear();
    let fetched = all.stage.fetch_many(MB, LIMIT, 10, false).unwrap();
    assert!(fetched.iter().all(|one| one.took.is_some()));
    let events = all.events.lock().unwrap();
    assert_eq!(events.iter().filter(|change| change.event.new == Phase::Unvalidated).count(), 1);
}

#[test]
fn a_jump_is_paced_by_the_round_trip_that_is_and_leaves_in_bursts_of_ten_packets() {
    let mut all = stage("careful-resume", &path(), 1);
    all.stage.fetch(10 * MB, LIMIT).unwrap();
    all.events.lock().unwrap().clear();
    all.stage.record();
    all.stage.fetch(10 * MB, LIMIT).unwrap();
    let sent = all.stage.recorded();
    let events = all.events.lock().unwrap();
    let jump = events.iter().position(|change| change.event.new == Phase::Unvalidated).expect("it jumped");
    let (began, window) = (events[jump].event.at, events[jump].event.window);
    let until = events[jump + 1].event.at.max(began + Duration::from_millis(20));
    let mut bursts = std::collections::BTreeMap::<Instant, usize>::new();
    sent.iter()
        .filter(|(at, _)| (began..until).contains(at))
        .for_each(|(at, bytes)| *bursts.entry(*at).or_default() += bytes);
    // Datagrams of at most 1452 bytes and their headers: RFC 9002's initial window for them is ten.
    let largest = bursts.values().max().copied().unwrap_or_default();
    assert!(largest <= 10 * (1452 + HEADERS), "{largest} bytes at one instant of {window}");
    // quinn's pacer is a quarter faster than a window in a round trip.
    let (total, took) = (bursts.values().sum::<usize>(), until.since(began).as_secs_f64());
    let most = 1.25 * window as f64 * took / 0.038 + (10 * (1452 + HEADERS)) as f64;
    assert!(bursts.len() > 5 && total as f64 <= 1.05 * most, "{total} bytes in {took} s, at most {most}");
}

#[test]
fn a_jump_is_half_of_what_a_transfer_has_in_one_round_trip() {
    // Over a satellite a megabyte takes rounds of 12 kB, J, 2 J and the rest, whatever the path could carry (3.75 MB).
    let satellite = Path { rate: 50 * MB, rtt: Duration::from_millis(600), ..path() };
    let mut all = stage("careful-resume", &satellite, 1);
    for _ in 0..6 {
        all.stage.fetch(MB, LIMIT).unwrap();
        all.stage.run_until(all.stage.now() + Duration::from_secs(2));
    }
    let events = all.events.lock().unwrap();
    let jumps: Vec<u64> = events
        .iter()
        .filter(|change| change.event.new == Phase::Unvalidated)
        .map(|change| change.event.window)
        .collect();
    assert!(jumps.len() == 5 && jumps.iter().all(|jump| (150_000..=MB / 3).contains(jump)), "{jumps:?}");
}

#[test]
fn background_flows_fill_what_is_left() {
    let origin = headstart_io::clock::Clock::new().origin();
    let memory = CarefulResume::new(Store::new(Clock::new(origin, Duration::ZERO), [1; 16]));
    let mut stage = Stage::new(&path(), &memory, Times::new(origin), Instant::from_millis(1000), 2, 1).unwrap();
    stage.run_until(Instant::from_millis(5000));
    let megabits = stage.background() as f64 * 8e-6 / 4.0;
    assert!((60.0..100.0).contains(&megabits), "{megabits}");
}

#[test]
fn the_second_connection_of_a_server_takes_at_most_seven_tenths_of_the_first() {
    // As the examples of crates/quic: its README has the two numbers.
    let path = Path { rtt: Duration::from_millis(50), ..path() };
    let mut stage = stage("careful-resume", &path, 1).stage;
    let [first, second] = [(); 2].map(|()| {
        let took = stage.fetch(MB, LIMIT).unwrap().took.unwrap();
        stage.run_until(stage.now() + Duration::from_millis(500));
        took
    });
    assert!(second <= first.mul_f64(0.7), "{first:?}, {second:?}");
}

#[test]
fn a_bbr_flow_fills_the_link_and_after_its_beginning_drops_nothing_where_two_products_have_room() {
    let deep = Path { queue: 2.0, ..path() };
    let memory = CarefulResume::new(Store::memory());
    let origin = headstart_io::clock::Clock::new().origin();
    let mut stage = Stage::new(&deep, &memory, Times::new(origin), Instant::from_millis(1000), 1, 4).unwrap();
    stage.flows_by(tcp::BBR, deep.rtt);
    stage.run_until(Instant::from_millis(4000));
    let (dropped, received) = stage.counted();
    // The mark is what counts, not how far time went on.
    stage.count_until(Instant::from_millis(14_000));
    stage.run_until(Instant::from_millis(20_000));
    let counted = stage.counted();
    let mbit = (counted.1 - received) as f64 * 8e-6 / 10.0;
    assert!((85.0..97.0).contains(&mbit), "{mbit} Mbit/s in ten seconds");
    assert_eq!(counted.0, dropped);
    assert!(stage.background() > counted.1 + 60_000_000, "and it goes on");
}
