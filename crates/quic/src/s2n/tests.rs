//! The calls as s2n-quic makes them, without its packets.

use super::*;
use crate::Options;
use crate::tests::{memory, remote, teach};
use headstart_core::cwnd::start::Phase;
use s2n_quic_core::time::{Clock as _, NoopClock};

const MS: Duration = Duration::from_millis(1);
const PACKET: usize = 1200;

fn path(memory: &CarefulResume) -> Path {
    let now = TokioRuntime.now();
    Path::new(memory.plan(now, remote(1), false), now, 1200)
}

/// The initial window goes out and comes back after 40 ms; when it has.
fn first_flight(path: &mut Path, at: Timestamp) -> Timestamp {
    for packet in 0..10 {
        assert!(!path.is_congestion_limited());
        path.has_left(at + packet * MS / 10, PACKET, Some(false), 40 * MS);
    }
    assert_eq!(path.bytes_in_flight(), 12_000);
    assert!(path.is_congestion_limited());
    for packet in 0..10 {
        let sent = at + packet * MS / 10;
        path.is_acknowledged(sent + 40 * MS, sent, PACKET);
    }
    assert_eq!(path.bytes_in_flight(), 0);
    at + 41 * MS
}

#[test]
fn a_known_path_jumps_after_its_first_round_trip_and_an_unknown_one_does_not() {
    let memory = memory("careful-resume", Options::default());
    let at = NoopClock.get_time() + 1000 * MS;
    let mut unknown = path(&memory);
    first_flight(&mut unknown, at);
    assert_eq!(unknown.congestion_window(), 24_000);
    drop(unknown);
    teach(&memory, 480_000);
    let mut known = path(&memory);
    assert_eq!(known.congestion_window(), 12_000, "not before the peer has shown where it is");
    first_flight(&mut known, at);
    assert_eq!(known.congestion_window(), 240_000);
}

#[test]
fn one_path_of_several_jumps_and_its_end_gives_the_memory_back() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let at = NoopClock.get_time() + 1000 * MS;
    let mut paths = [path(&memory), path(&memory)];
    paths.iter_mut().for_each(|path| _ = first_flight(path, at));
    assert_eq!(paths.each_ref().map(Path::congestion_window), [240_000, 24_000]);
    drop(paths);
    let mut next = path(&memory);
    first_flight(&mut next, at);
    assert_eq!(next.congestion_window(), 240_000);
}

#[test]
fn what_a_path_has_carried_is_remembered_when_it_ends() {
    let memory = memory("careful-resume", Options::default());
    let at = NoopClock.get_time() + 1000 * MS;
    // As s2n-quic does.
    let mut first = path(&memory).clone();
    let mut now = first_flight(&mut first, at);
    for _ in 0..5 {
        let window = first.congestion_window() as usize / PACKET;
        (0..window).for_each(|_| first.has_left(now, PACKET, Some(false), 40 * MS));
        (0..window).for_each(|_| first.is_acknowledged(now + 40 * MS, now, PACKET));
        now += 41 * MS;
    }
    let reached = first.congestion_window();
    assert!(reached > 240_000, "{reached}");
    drop(first);
    // Its clock is ahead of the host's.
    let known = memory.plan(TokioRuntime.now() + 1000 * MS, remote(1), true).remembered().expect("it is remembered");
    // Its clock counts microseconds.
    assert!(known.window > 120_000 && known.rtt >= 39 * MS, "{known:?}");
}

#[test]
fn a_loss_lets_one_packet_through_and_ends_the_jump() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let at = NoopClock.get_time() + 1000 * MS;
    let mut path = path(&memory);
    let now = first_flight(&mut path, at);
    (0..100).for_each(|_| path.has_left(now, PACKET, Some(false), 40 * MS));
    assert!(!path.requires_fast_retransmission());
    path.is_lost(now + 41 * MS, now, PACKET as u32, false);
    assert!(path.congestion_window() < 240_000);
    assert!(path.requires_fast_retransmission());
    path.has_left(now + 41 * MS, 0, Some(false), 40 * MS);
    assert!(path.requires_fast_retransmission(), "an acknowledgement alone is not it");
    path.has_left(now + 41 * MS, PACKET, Some(false), 40 * MS);
    assert!(!path.requires_fast_retransmission());
    path.is_lost(now + 42 * MS, now, PACKET as u32, false);
    assert!(!path.requires_fast_retransmission(), "one for all that is lost of a flight");
    path.has_left(now + 42 * MS, PACKET, Some(false), 40 * MS);
    assert_eq!(path.bytes_in_flight() as usize, 100 * PACKET);
}

#[test]
fn ten_packets_leave_at_once_and_the_rest_at_the_pace_of_the_window() {
    let memory = memory("careful-resume", Options::default());
    let at = NoopClock.get_time() + 1000 * MS;
    let mut paced = path(&memory);
    assert_eq!(paced.earliest_departure_time(), None);
    // Two windows of ten packets in 40 ms: one each 2 ms.
    for _ in 0..10 {
        paced.has_left(at, PACKET, Some(false), 40 * MS);
        assert!(paced.earliest_departure_time().unwrap() <= at);
    }
    paced.has_left(at, PACKET, Some(false), 40 * MS);
    let wait = paced.earliest_departure_time().unwrap().saturating_duration_since(at);
    assert!((2 * MS - MS / 10..2 * MS + MS / 10).contains(&wait), "{wait:?}");
    // A window that came down is spread over the round trip with a quarter to spare: one each 40 / 1.25 / 7 ms.
    paced.is_lost(at + MS, at, PACKET as u32, false);
    assert_eq!(paced.congestion_window(), 8400);
    let before = paced.spread.unwrap();
    paced.has_left(at + MS, PACKET, Some(false), 40 * MS);
    let step = paced.spread.unwrap().saturating_duration_since(before);
    assert!((MS * 457 / 100..MS * 458 / 100).contains(&step), "{step:?}");
    let mut just_far_enough = path(&memory);
    (0..11).for_each(|_| just_far_enough.has_left(at, PACKET, Some(false), 2 * MS));
    assert!(just_far_enough.earliest_departure_time().is_some());
    let mut near = path(&memory);
    (0..50).for_each(|_| near.has_left(at, PACKET, Some(false), MS));
    assert_eq!(near.earliest_departure_time(), None, "a timer would take longer than the path");
}

#[test]
fn a_window_doubles_only_while_nothing_is_tried_or_was_lost() {
    let memory = memory("careful-resume", Options::default());
    teach(&memory, 480_000);
    let at = NoopClock.get_time() + 1000 * MS;
    let doubles = |path: &Path| path.controller().is_in_slow_start();
    let mut known = path(&memory);
    assert!(doubles(&known));
    let now = first_flight(&mut known, at);
    assert!(!doubles(&known), "what is remembered is being tried");
    let mut unknown = path(&memory);
    first_flight(&mut unknown, at);
    assert!(doubles(&unknown));
    unknown.is_lost(now, at, PACKET as u32, false);
    assert!(!doubles(&unknown));
    unknown.is_lost(now + MS, now, PACKET as u32, true);
    assert!(doubles(&unknown) && unknown.congestion_window() == 2400, "it begins again below where it was");
}

#[test]
fn the_packets_of_a_jump_are_numbered_as_they_leave() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener: crate::Listener = {
        let told = Arc::clone(&told);
        Arc::new(move |change: &crate::StartEvent| {
            told.lock().unwrap().push((change.event.new, change.first, change.last));
        })
    };
    let memory = memory("careful-resume", Options { listener: Some(listener), ..Options::default() });
    teach(&memory, 480_000);
    let at = NoopClock.get_time() + 1000 * MS;
    let mut path = path(&memory);
    // An acknowledgement alone has a number, too.
    path.has_left(at, 0, None, Duration::ZERO);
    let now = first_flight(&mut path, at);
    (0..200).for_each(|_| path.has_left(now, PACKET, Some(false), 40 * MS));
    assert_eq!(*told.lock().unwrap(), [(Phase::Unvalidated, Some(11), None), (Phase::Validating, Some(11), Some(210))]);
}
