//! The congestion window with which a connection begins, rule by rule: at the first contact, once an earlier connection has shown what
//! the path carries, and when the round-trip time confirms that it is the same path.
//!
//! `cargo run -p headstart-core --example start`. Virtual time: the same numbers on every machine.
#![forbid(unsafe_code)]

use headstart_core::cwnd::history::{History, Medium, Outcome, Sample, Settings};
use headstart_core::cwnd::sender::Sender;
use headstart_core::cwnd::{controller, start};
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use std::net::{IpAddr, Ipv4Addr};

const PACKET: u64 = 1200;
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const NETWORK: NetworkId = NetworkId(1);
const RTT: Duration = Duration::from_millis(50);
/// 100 Mbit/s, in bytes a second.
const RATE: u64 = 12_500_000;

/// A connection at `now`: its window at the start, and after a round trip in which ten packets were acknowledged.
fn windows(rule: &start::Entry, history: &mut History, now: Instant) -> (u64, u64) {
    let remembered = history.recall(now, NETWORK, PEER);
    let most = (rule.most)(PACKET);
    let terms = start::Terms { initial: 10 * PACKET, packet: PACKET, remembered, most, pacing: 1.25 };
    let mut sender = Sender::new(rule, &controller::ALL[0], &terms);
    // RFC 9959: one connection at a time uses what is remembered.
    let lease = if sender.wants_lease() { history.lease(now, NETWORK, PEER) } else { None };
    let begins = sender.window();
    (0..10).for_each(|_| sender.sent(now, PACKET));
    let then = now + RTT;
    (0..10).for_each(|_| sender.acknowledged(then, now, PACKET, false));
    sender.end_of_acknowledgement(then, 0, false);
    if let Some((lease, remembered)) = lease.or_else(|| history.lease(then, NETWORK, PEER)) {
        if sender.wants_lease() {
            sender.leased(then, Some(remembered));
        }
        history.release(lease);
    }
    (begins / PACKET, sender.window() / PACKET)
}

/// The windows at the first contact, and once it is known that the path carries 100 Mbit/s.
fn before_and_after(rule: &start::Entry) -> ((u64, u64), (u64, u64)) {
    let mut history = History::new(Settings::default(), [7; 16]);
    let first = windows(rule, &mut history, Instant::ZERO);
    let carried = RATE / 20;
    let sample = Sample {
        window: carried,
        carried,
        rtt: RTT,
        rate: RATE,
        loss: 0.0,
        limited: false,
        shared: false,
        outcome: Outcome::Clean,
        medium: Medium::Wired,
    };
    let now = Instant::from_millis(60_000);
    history.learn(now, NETWORK, PEER, &sample);
    (first, windows(rule, &mut history, now))
}

fn main() {
    println!("{:<18} {:>22} {:>22}", "packets of 1200 bytes", "first contact", "known path");
    println!("{:<18} {:>14} {:>7} {:>14} {:>7}", "start rule", "at once", "1 RTT", "at once", "1 RTT");
    for rule in start::ALL {
        let (first, known) = before_and_after(rule);
        println!("{:<18} {:>14} {:>7} {:>14} {:>7}", rule.name, first.0, first.1, known.0, known.1);
    }
}

#[test]
fn a_known_path_is_begun_with_half_of_what_it_carried_and_an_unknown_one_with_ten_packets() {
    let (first, known) = before_and_after(start::find("careful-resume").unwrap());
    assert_eq!((first.0, known.0), (10, 10), "nothing is believed before the round-trip time is known");
    assert_eq!(known.1, RATE / 20 / PACKET / 2);
    assert!(first.1 < known.1 / 4, "{first:?}");
    let (first, known) = before_and_after(start::find("default").unwrap());
    assert_eq!(first, known);
}
