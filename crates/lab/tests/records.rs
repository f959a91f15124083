//! What the emulator writes down: a line a packet, and a capture that other programs can open.
#![forbid(unsafe_code)]

use headstart_lab::netns::{Certificate, Network, PortKind, Settings, default_world, inside};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// Fast enough for super-packets, which are recorded as the segments that they stand for.
const LINK: &str = "rate=800mbit,delay=2ms,loss=2%,queue=100p";
const BODY: usize = 400_000;

/// Downloads something over a link that is recorded; the emulator's account.
fn recorded(settings: &Settings) -> Certificate {
    let world = default_world(LINK);
    let network = Network::build_with(&world, settings).unwrap_or_else(|e| panic!("{e}"));
    let ip = world.sites[0].v6[0].addr;
    let mut stream = network.on_client(|| TcpStream::connect((ip, 80)).unwrap()).unwrap();
    write!(stream, "GET /bytes/{BODY} HTTP/1.1\r\nHost: www.lab.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = Vec::new();
    stream.read_to_end(&mut page).unwrap();
    assert!(page.len() > BODY);
    network.certificate()
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn each_packet_has_a_line_that_says_what_became_of_it() {
    inside("each_packet_has_a_line_that_says_what_became_of_it", || {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events.jsonl");
        let certificate = recorded(&Settings { events: Some(events.clone()), ..Settings::default() });
        assert_eq!((certificate.unrecorded, certificate.ports), (0, PortKind::SuperPackets));
        let text = std::fs::read_to_string(events).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let head = lines.next().unwrap();
        assert_eq!((&head["version"], &head["links"]), (&1.into(), &serde_json::json!(["access"])));
        let mut fates: BTreeMap<String, u64> = BTreeMap::new();
        for line in lines {
            let fate = line["fate"].as_str().unwrap().to_owned();
            let ns = |key: &str| line[key].as_u64();
            let bytes = line["bytes"].as_u64().unwrap();
            assert!((40..=1500).contains(&bytes), "no packet of a wire: {line}");
            if fate == "released" {
                let [arrived, dequeued, decided, left] =
                    ["arrived_ns", "dequeued_ns", "decided_ns", "left_ns"].map(|key| ns(key).unwrap());
                assert!(arrived <= dequeued && dequeued + 2_000_000 <= decided && decided <= left, "{line}");
            } else {
                assert_eq!(ns("left_ns"), None, "{line}");
            }
            if line["protocol"] == "tcp" {
                let port = if line["way"] == "up" { "to" } else { "from" };
                assert!(line[port].as_str().unwrap().ends_with("]:80"), "{line}");
            }
            *fates.entry(fate).or_default() += 1;
        }
        // The account was taken a little before the end.
        assert!(fates["released"] >= certificate.packets && certificate.packets > 300, "{fates:?}, {certificate:?}");
        assert!(fates.get("lost").copied().unwrap_or(0) >= certificate.drops.lost, "{fates:?}, {certificate:?}");
    });
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn the_capture_is_what_the_client_would_have_captured() {
    inside("the_capture_is_what_the_client_would_have_captured", || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("link.pcapng");
        let certificate = recorded(&Settings { pcapng: Some(file.clone()), ..Settings::default() });
        assert_eq!(certificate.unrecorded, 0);
        let mut reader = PcapNgReader::new(std::fs::File::open(&file).unwrap()).unwrap();
        let mut last = std::time::Duration::ZERO;
        let mut counts = [0_u64; 2];
        // By sequence number: what the client got of the answer.
        let mut got = BTreeMap::new();
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
            assert!(packet.timestamp >= last, "out of order: {:?} after {last:?}", packet.timestamp);
            last = packet.timestamp;
            counts[packet.interface_id as usize] += 1;
            let (ethernet, ip) = packet.data.split_at(14);
            assert!(packet.data.len() <= 1514 && ethernet[12..] == [0x86, 0xdd], "{:?}", packet.data);
            let tcp = &ip[40..];
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), tcp.len());
            assert_eq!(checksum(ip), 0xffff, "a wrong checksum in {:?}", packet.data);
            if packet.interface_id == 1 {
                let payload = &tcp[4 * usize::from(tcp[12] >> 4)..];
                let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
                got.insert(seq, payload.len());
            }
        }
        let names: Vec<_> = reader.interfaces().iter().flat_map(|interface| &interface.options).collect();
        for name in ["access-up", "access-down"] {
            assert!(names.contains(&&InterfaceDescriptionOption::IfName(name.into())), "{names:?}");
        }
        assert!(names.contains(&&InterfaceDescriptionOption::IfTsResol(9)), "nanoseconds: {names:?}");
        assert!(
            // What was lost on its way up has been captured too; how many of the lost that were, nobody counts.
            counts[0] + counts[1] >= certificate.packets,
            "{counts:?}, {certificate:?}"
        );
        assert!(got.values().sum::<usize>() >= BODY, "the whole answer is in it");
        opened_by_tshark(&file, counts[0] + counts[1]);
    });
}

/// The ones' complement sum over a TCP segment and its pseudo header, of IPv6: all ones if its checksum is right.
fn checksum(ip: &[u8]) -> u16 {
    let length = (ip.len() - 40) as u64;
    let words = ip[8..].chunks(2).map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low)));
    let mut sum = words.sum::<u64>() + length + 6;
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

fn opened_by_tshark(file: &Path, packets: u64) {
    let mut tshark = Command::new("tshark");
    tshark.args(["-o", "tcp.check_checksum:TRUE", "-T", "fields", "-e", "tcp.checksum.status", "-r"]).arg(file);
    let Ok(output) = tshark.output() else { return eprintln!("skipped: tshark is not installed") };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    // 1: good.
    assert_eq!(text.lines().filter(|line| *line == "1").count() as u64, packets, "{text}");
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn a_file_that_cannot_be_written_is_named() {
    inside("a_file_that_cannot_be_written_is_named", || {
        let nowhere = Path::new("/nowhere/events.jsonl").to_path_buf();
        let settings = Settings { events: Some(nowhere), ..Settings::default() };
        let error = Network::build_with(&default_world(LINK), &settings).err().expect("no such folder").to_string();
        assert!(error.contains("/nowhere/events.jsonl"), "{error}");
    });
}
