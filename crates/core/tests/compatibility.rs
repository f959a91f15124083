//! What 0.1 wrote and said is read and said the same today: the bytes in `compatibility/0.1.txt` were written by 0.1.0
//! (docs/reference/compatibility.md). A line that does not match is a form that has changed: it wants a new version byte and both
//! readers, or, where both ends are always of one build, a new recording with its reason in the commit.
#![forbid(unsafe_code)]

use headstart_core::cwnd::history::{Medium, Outcome, Record};
use headstart_core::path::Family;
use headstart_core::realtime::frame::{Counts, Frame, Hello, Proof, SessionId};
use headstart_core::realtime::{Kind, LaneId};
use headstart_core::steer::Channel;
use headstart_core::steer::frame::{Content, Header};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::shim::{Pass, Reply, Request};
use std::collections::BTreeMap;

const RECORDED: &str = include_str!("compatibility/0.1.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// The recording of a form.
fn recorded(name: &str) -> Vec<u8> {
    let line = RECORDED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    bytes(line.unwrap_or_else(|| panic!("nothing is recorded of {name}")))
}

fn requests() -> [(&'static str, Request); 2] {
    let resolve = Request::Resolve {
        app: "curl".into(),
        name: "www.example.org".into(),
        family: Some(Family::V6),
        port: Some(443),
        configured_only: true,
    };
    let connect = Request::Connect {
        app: "wget".into(),
        to: "[2001:db8::1]:80".parse().unwrap(),
        domain: Family::V6,
        nonblocking: true,
        accepts_mapped: false,
    };
    [("shim-resolve", resolve), ("shim-connect", connect)]
}

fn replies() -> [(&'static str, Reply); 4] {
    let addresses = Reply::Addresses(vec!["192.0.2.7".parse().unwrap(), "2001:db8::1".parse().unwrap()]);
    [
        ("shim-addresses", addresses),
        ("shim-hand-over", Reply::HandOver { connected: true }),
        ("shim-failed", Reply::Failed(113)),
        ("shim-pass", Reply::Pass(Pass::HostsFile)),
    ]
}

fn frames() -> Vec<(&'static str, Frame<'static>)> {
    let session = SessionId(*b"0123456789abcdef");
    let mut counts = Counts::default();
    assert!(counts.push(1, 300) && counts.push(2, 5));
    let hello = Hello { session, connection: 3, interval_micros: 30_000, technique: "auto", goes_on: true };
    let message = |kind, key| Frame::Message { lane: LaneId(2), kind, seq: 700, key, payload: b"x=10 y=20" };
    vec![
        ("realtime-hello", Frame::Hello(hello)),
        ("realtime-welcome", Frame::Welcome(Proof::welcome(session, 3))),
        ("realtime-gone", Frame::Gone(Proof::gone(session, 3))),
        ("realtime-ack", Frame::Ack(counts)),
        ("realtime-bye", Frame::Bye { untaken: 9 }),
        ("realtime-latest", message(Kind::Latest, 77)),
        ("realtime-ordered", message(Kind::Ordered, 0)),
    ]
}

fn record() -> Record {
    Record {
        window: 240_000,
        found: true,
        mean: 200_000,
        moving: 210_000,
        rtt: Duration::from_micros(50_250),
        least: Duration::from_micros(50_250),
        rate: 12_000_000,
        loss: 0.015_625,
        samples: 17,
        outcome: Outcome::Congested,
        medium: Medium::Wireless,
        at: Instant::from_millis(1_700_000_000_000),
        prior: false,
    }
}

fn tunnel() -> (Header, &'static [u8]) {
    let header = Header { content: Content::Whole, channel: Channel::Fast, epoch: 21, number: 40_000, after: Some(12) };
    (header, b"E packet of twenty bytes")
}

#[test]
fn messages_of_the_library_are_those_of_0_1() {
    for (name, request) in requests() {
        assert_eq!(Request::decode(&recorded(name)), Some(request.clone()), "{name}");
        assert_eq!(hex(request.encode().as_ref()), hex(&recorded(name)), "{name}");
    }
    for (name, reply) in replies() {
        assert_eq!(Reply::decode(&recorded(name)), Some(reply.clone()), "{name}");
        assert_eq!(hex(reply.encode().as_ref()), hex(&recorded(name)), "{name}");
    }
}

#[test]
fn frames_of_sessions_are_those_of_0_1() {
    for (name, frame) in frames() {
        let (recorded, mut written) = (recorded(name), Vec::new());
        assert_eq!(Frame::decode(&recorded), Ok(Some((frame.clone(), recorded.len()))), "{name}");
        frame.encode(&mut written);
        assert_eq!(hex(&written), hex(&recorded), "{name}");
    }
}

#[test]
fn records_of_paths_are_those_of_0_1() {
    let recorded = recorded("path-record");
    assert_eq!(Record::decode(&recorded, Instant::from_millis(1_700_000_100_000)), Ok(record()));
    assert_eq!(hex(&record().encode()), hex(&recorded));
}

#[test]
fn a_record_of_a_newer_program_is_left_to_it() {
    let mut newer = recorded("path-record");
    newer[0] += 1;
    let why = Record::decode(&newer, Instant::from_millis(1_700_000_100_000)).unwrap_err().to_string();
    assert!(why.contains("version 2") && why.contains("use a newer program"), "{why}");
}

#[test]
fn frames_of_the_tunnel_are_those_of_0_1() {
    let (recorded, (header, body)) = (recorded("tunnel-frame"), tunnel());
    assert_eq!(Header::read(&recorded, Channel::Fast), Ok((header, body)));
    let mut written = Vec::new();
    assert!(header.write(body, &mut written));
    assert_eq!(hex(&written), hex(&recorded));
}

/// Writes the recording: `cargo test -p headstart-core --test compatibility -- --ignored --nocapture record_what_this_program_writes`.
#[test]
#[ignore = "prints what this program writes, for the next version's recording"]
fn record_what_this_program_writes() {
    let mut all: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    all.extend(requests().map(|(name, request)| (name, request.encode().as_ref().to_vec())));
    all.extend(replies().map(|(name, reply)| (name, reply.encode().as_ref().to_vec())));
    for (name, frame) in frames() {
        frame.encode(all.entry(name).or_default());
    }
    all.insert("path-record", record().encode().to_vec());
    let (header, body) = tunnel();
    assert!(header.write(body, all.entry("tunnel-frame").or_default()));
    for (name, written) in all {
        println!("{name} {}", hex(&written));
    }
}
