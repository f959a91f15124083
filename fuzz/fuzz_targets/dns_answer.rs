//! Any bytes are an answer to our question or an error, and an answer is one of the record type that was asked for.
//!
//! Bytes come from whoever can reach the resolver's port. Runs that have records put a right header and question in front, and
//! frame records, so that what is behind them is read too.
#![no_main]

use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_core::wire::dns::{Answer, decode_answer, encode_query};
use headstart_core::wire::record::RecordType;
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;

const NAME: &str = "www.example.org";
const ID: u16 = 0x4853;
/// Longest time that anything of an answer may be kept.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A record of an answer: what it is, its TTL, its data.
type Record<'a> = (u8, u32, &'a [u8]);

fuzz_target!(|input: (u8, [u8; 2], Vec<Record<'_>>, &[u8])| {
    let (asked, flags, records, raw) = input;
    let asked = RecordType::ALL[usize::from(asked) % RecordType::ALL.len()];
    let bytes = if records.is_empty() { raw.to_vec() } else { answer(asked, flags, &records, raw) };
    match decode_answer(&bytes, ID, NAME, asked) {
        Ok(Answer::Addresses(addresses, keep)) => {
            assert!(!addresses.is_empty(), "addresses without an address");
            let fits = |addr: &IpAddr| Some(Family::of(*addr)) == asked.family();
            assert!(addresses.iter().all(fits), "asked for {asked}, got {addresses:?}");
            assert!(keep <= LONGEST, "kept for {keep:?}");
        }
        Ok(Answer::Services(services, keep)) => {
            assert!(asked == RecordType::Https && !services.is_empty(), "asked for {asked}, got {services:?}");
            assert!(services.is_sorted_by_key(|s| s.priority), "the best first: {services:?}");
            let aliases = services.iter().filter(|s| s.is_alias()).count();
            assert!(aliases == 0 || aliases == services.len(), "aliases void the rest: {services:?}");
            assert!(keep <= LONGEST, "kept for {keep:?}");
        }
        Ok(Answer::NoData(keep) | Answer::NxDomain(keep)) => assert!(keep <= LONGEST, "kept for {keep:?}"),
        Ok(Answer::Refused | Answer::NotUnderstood | Answer::Truncated) => {}
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});

/// A response to our query with `flags` and `records` (RFC 1035, section 4.1), and `raw` behind them.
fn answer(asked: RecordType, flags: [u8; 2], records: &[Record<'_>], raw: &[u8]) -> Vec<u8> {
    let query = encode_query(ID, NAME, asked).expect("the name is one");
    // The header, the name as labels with their lengths and the root, type and class.
    let question_end = 12 + NAME.len() + 2 + 4;
    let mut bytes = query[..question_end].to_vec();
    bytes[2..4].copy_from_slice(&[flags[0] | 0x80, flags[1]]);
    // No additional records: the query's own option was cut off. The count of answers may lie by the kind 3 below.
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    bytes[10..12].copy_from_slice(&[0, 0]);
    for (kind, ttl, data) in records {
        let (record_type, len): (u16, usize) = match kind % 7 {
            0 => (1, 4),
            1 => (28, 16),
            2 => (5, data.len()),
            3 => {
                bytes.extend_from_slice(data);
                continue;
            }
            4 => (6, data.len()),
            5 => (65, data.len()),
            _ => (u16::from(*kind), data.len()),
        };
        let data: Vec<u8> = data.iter().copied().chain(std::iter::repeat(0)).take(len).collect();
        // The owner is a pointer to the name of the question, at offset 12.
        bytes.extend_from_slice(&[0xc0, 12]);
        bytes.extend_from_slice(&record_type.to_be_bytes());
        bytes.extend_from_slice(&1u16.to_be_bytes());
        bytes.extend_from_slice(&ttl.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&data);
    }
    bytes.extend_from_slice(raw);
    bytes
}
