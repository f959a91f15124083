//! The experiment `emulator`, run as the command runs it: inside, quickly, with real packets.
//!
//! Bounds hold on any machine: a machine that is too slow makes packets late, never early, and the run invalid.
#![forbid(unsafe_code)]

use headstart_lab::experiment::{Context, Outcome, Row, Speeds, emulator};
use headstart_lab::netns::{self, Entered, InnerCommand, Network, default_world};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Duration;

/// Runs these conditions inside; none where this process is only the one outside.
fn inside(test: &str, conditions: &[&str]) -> Option<Outcome> {
    let alone = [test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"];
    match InnerCommand::with_arguments(alone).enter() {
        Ok(Entered::Inside) => {}
        Ok(Entered::Ended(status)) => {
            assert_eq!(status, 0, "failed inside its namespaces; see above");
            return None;
        }
        Err(e) => panic!("{e}"),
    }
    let conditions = Some(conditions.iter().map(|name| (*name).to_owned()).collect());
    let cx = Context { quick: true, speeds: Speeds::Both, conditions, ..Context::new(5) };
    let outcome = emulator::ENTRY.start(&cx).unwrap();
    outcome.notes.iter().for_each(|note| println!("{note}"));
    Some(outcome)
}

fn row<'a>(outcome: &'a Outcome, condition: &str, metric: &str) -> &'a Row {
    let found = outcome.rows.iter().find(|r| r.condition == condition && r.metric == metric);
    found.unwrap_or_else(|| panic!("{condition}: {metric}"))
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn every_packet_meets_the_fate_that_the_models_say() {
    let test = "every_packet_meets_the_fate_that_the_models_say";
    let Some(outcome) = inside(test, &["models-replayed", "links-in-series"]) else { return };
    let wrong = row(&outcome, "models-replayed", "packets whose fate or release is not that of the model");
    assert_eq!(wrong.ours, 0.0, "however late the machine is");
    // 5 % of 6000 packets: 300, with a standard deviation of 17.
    let lost = row(&outcome, "models-replayed", "packets lost by the loss model");
    assert!((2.5..7.5).contains(&lost.ours), "{lost:?}");
    let bytes = row(&outcome, "models-replayed", "bytes through a backlogged trace");
    assert!(bytes.ratio.is_some_and(|ratio| ratio <= 1.01), "more than the trace lets through: {bytes:?}");
    for links in [1, 2, 4] {
        let ping = row(&outcome, "links-in-series", &format!("round trip of a ping over {links} links, median"));
        assert!(ping.ours >= f64::from(links * 10), "early: {ping:?}");
    }
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn throughput_and_lateness_are_reported_for_each_kind_of_port_and_priority() {
    let test = "throughput_and_lateness_are_reported_for_each_kind_of_port_and_priority";
    let Some(outcome) = inside(test, &["rate-1500mbit", "delay-idle"]) else { return };
    let rate = row(&outcome, "rate-1500mbit", "rate of one flow at the IP layer, mean after 2 s");
    // What a queue of one product of rate and RTT holds may come within the time measured.
    assert!(rate.arm == "super-packets" && rate.ours > 0.0 && rate.ours < 1530.0, "{rate:?}");
    assert!(row(&outcome, "rate-1500mbit", "processor time of the emulator for a gigabyte").ours > 0.0);
    for arm in ["real-time", "ordinary"] {
        let rows = || outcome.rows.iter().filter(|r| r.condition == "delay-idle" && r.arm == arm);
        assert!(rows().count() >= 5, "{:?}", outcome.rows);
        assert!(rows().all(|r| r.ours >= 0.0), "nothing comes early: {:?}", outcome.rows);
    }
    assert_eq!(outcome.valid, outcome.why_invalid.is_empty());
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn what_it_reports_is_possible_over_the_link_that_it_was_told() {
    let test = "what_it_reports_is_possible_over_the_link_that_it_was_told";
    let Some(outcome) = inside(test, &["yardstick"]) else { return };
    let value = |metric: &str| row(&outcome, "yardstick", metric);
    for family in ["IPv4", "IPv6"] {
        let rtt = value(&format!("RTT of a handshake over {family}, median"));
        // The kernel rounds to microseconds.
        assert!(rtt.ours >= 29.99, "{} ms is less than twice 15 ms", rtt.ours);
        let connect = value(&format!("time in connect over {family}, median"));
        assert!(connect.baseline.is_some_and(|b| (30.0..30.1).contains(&b)), "virtual time: {connect:?}");
        assert!(connect.ours >= rtt.ours, "connect took less than the handshake");
    }
    let rate = value("rate of a download at the IP layer, mean after 2 s");
    // Bytes that came in order late may be counted after the first two seconds: one queue of 1000 packets.
    assert!(rate.ours > 0.0 && rate.ours < 105.0, "{} Mbit/s through 100", rate.ours);
    assert!(value("lateness of packets, p99").ours >= value("lateness of packets, p50").ours);
    assert_eq!(outcome.valid, outcome.why_invalid.is_empty());
    assert!(outcome.notes.iter().any(|n| n.contains(" 0 early")), "nothing may leave early: {:?}", outcome.notes);
}

/// 300 datagrams, each of which says its number 25 times.
#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn real_packets_overtake_come_twice_and_are_refused_for_a_wrong_bit() {
    netns::inside("real_packets_overtake_come_twice_and_are_refused_for_a_wrong_bit", || {
        let link = "delay=20ms,reorder=30%,duplicate=20%,corrupt=20%;delay=1ms";
        let world = default_world(link);
        let network = Network::build(&world).unwrap();
        let to = (world.sites[0].v4[0].addr, 4000);
        let server = network.on_servers(|| UdpSocket::bind(to)).unwrap().unwrap();
        let client = network.on_client(|| UdpSocket::bind(("0.0.0.0", 0))).unwrap().unwrap();
        for number in 0u32..300 {
            client.send_to(&number.to_be_bytes().repeat(25), to).unwrap();
        }
        // Far longer than anything is under way.
        server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let (mut bytes, mut numbers) = ([0; 200], Vec::new());
        while let Ok(len) = server.recv(&mut bytes) {
            let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
            assert_eq!(&bytes[..len], number.to_be_bytes().repeat(25), "a wrong bit came through");
            numbers.push(number);
        }
        let different: BTreeSet<u32> = numbers.iter().copied().collect();
        // A fifth is refused, with a standard deviation of 7.
        assert!((200..280).contains(&different.len()), "{} of 300", different.len());
        assert!(numbers.len() > different.len() + 20, "{} of {}", numbers.len(), different.len());
        let (mut late, mut latest) = (0, 0);
        for number in &numbers {
            late += u32::from(*number < latest);
            latest = latest.max(*number);
        }
        assert!(late > 20, "{numbers:?}");
    });
}
