//! DNS questions and answers for address records (RFC 1035, RFC 3596), by the codec of hickory-proto.
//!
//! An answer is believed only if it is an answer, to this question, under this id; of its records only those count
//! that the chain of CNAMEs from the asked name leads to. What a server adds besides is ignored.

use crate::path::Family;
use crate::time::Duration;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use std::fmt;
use std::net::IpAddr;

/// UDP payload that we announce (EDNS0): the size that DNS Flag Day 2020 found to pass without fragments.
pub const MAX_UDP_PAYLOAD: u16 = 1232;
/// CNAMEs followed in one answer; more is a loop or a jest.
const MAX_CHAIN: usize = 12;
/// Longest time that any answer is kept, whatever its TTL says: RFC 8767, section 4, suggests a cap of days.
const MAX_TTL: u32 = 86_400;
/// Longest time that a negative answer is kept: RFC 2308, section 5.
const MAX_NEGATIVE_TTL: u32 = 3 * 3600;

/// What a server said about one name and one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// At least one address, in the server's order, and how long it may be kept.
    Addresses(Vec<IpAddr>, Duration),
    /// The name exists and has no address of this family (NODATA, RFC 2308).
    NoData(Duration),
    /// The name does not exist (RCODE 3).
    NxDomain(Duration),
    /// The server could not or would not answer (any other RCODE).
    Refused,
    /// The answer did not fit; ask again over TCP.
    Truncated,
}

/// Why bytes were not taken as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAnAnswer {
    /// They do not parse as a DNS message.
    Malformed,
    /// A query, or an answer under another id or to another question.
    Unrelated,
}

impl fmt::Display for NotAnAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the bytes are not a DNS message",
            Self::Unrelated => "the DNS message does not answer the question that was asked",
        })
    }
}

impl std::error::Error for NotAnAnswer {}

/// A name that cannot be asked of DNS (empty, a label over 63 octets, over 255 in all, odd characters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(pub String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a domain name that can be looked up", self.0)
    }
}

impl std::error::Error for BadName {}

fn record_type(family: Family) -> RecordType {
    match family {
        Family::V4 => RecordType::A,
        Family::V6 => RecordType::AAAA,
    }
}

fn absolute(name: &str) -> Result<Name, BadName> {
    let mut parsed = Name::from_ascii(name).map_err(|_| BadName(name.to_owned()))?;
    parsed.set_fqdn(true);
    if parsed.is_root() { Err(BadName(name.to_owned())) } else { Ok(parsed) }
}

/// The query for the addresses of `name` in `family`, recursion desired, EDNS0 with [`MAX_UDP_PAYLOAD`].
pub fn encode_query(id: u16, name: &str, family: Family) -> Result<Vec<u8>, BadName> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(absolute(name)?, record_type(family)));
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_UDP_PAYLOAD);
    // Whether the server has validated its answer is for programs that ask for it (RFC 6840, section 5.7; see `relay`).
    message.metadata.authentic_data = true;
    message.set_edns(edns);
    message.to_vec().map_err(|_| BadName(name.to_owned()))
}

/// Reads `bytes` as the answer to the query `id` for `name` in `family`.
pub fn decode_answer(bytes: &[u8], id: u16, name: &str, family: Family) -> Result<Answer, NotAnAnswer> {
    let message = Message::from_vec(bytes).map_err(|_| NotAnAnswer::Malformed)?;
    let asked = absolute(name).map_err(|_| NotAnAnswer::Unrelated)?;
    let to_us = message.metadata.id == id
        && message.metadata.message_type == MessageType::Response
        && message.metadata.op_code == OpCode::Query
        && matches!(&message.queries[..], [q] if q.name.eq_ignore_root(&asked)
            && q.query_type == record_type(family) && q.query_class == DNSClass::IN);
    if !to_us {
        return Err(NotAnAnswer::Unrelated);
    }
    if message.metadata.truncation {
        return Ok(Answer::Truncated);
    }
    Ok(match message.metadata.response_code {
        ResponseCode::NXDomain => Answer::NxDomain(negative_ttl(&message)),
        ResponseCode::NoError => {
            let (addresses, ttl) = follow(&message, asked, family);
            if addresses.is_empty() {
                Answer::NoData(negative_ttl(&message))
            } else {
                Answer::Addresses(addresses, Duration::from_secs(u64::from(ttl.min(MAX_TTL))))
            }
        }
        _ => Answer::Refused,
    })
}

/// The addresses at the end of the CNAME chain from `owner`, and the smallest TTL on the way.
fn follow(message: &Message, mut owner: Name, family: Family) -> (Vec<IpAddr>, u32) {
    let (mut addresses, mut ttl) = (Vec::new(), u32::MAX);
    for _ in 0..MAX_CHAIN {
        let mut alias = None;
        for record in message.answers.iter().filter(|r| r.dns_class == DNSClass::IN && r.name.eq_ignore_root(&owner)) {
            let address = match &record.data {
                RData::A(a) if family == Family::V4 => IpAddr::V4(a.0),
                RData::AAAA(a) if family == Family::V6 => IpAddr::V6(a.0),
                RData::CNAME(to) => {
                    ttl = ttl.min(record.ttl);
                    alias = Some(to.0.clone());
                    continue;
                }
                _ => continue,
            };
            ttl = ttl.min(record.ttl);
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match alias {
            Some(next) if addresses.is_empty() => owner = next,
            _ => break,
        }
    }
    (addresses, ttl)
}

/// The lesser of the SOA's TTL and its MINIMUM field (RFC 2308, section 5); zero without an SOA.
fn negative_ttl(message: &Message) -> Duration {
    let soa = message.authorities.iter().find_map(|r| match &r.data {
        RData::SOA(soa) => Some(r.ttl.min(soa.minimum)),
        _ => None,
    });
    Duration::from_secs(u64::from(soa.unwrap_or(0).min(MAX_NEGATIVE_TTL)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::Record;
    use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA};
    use proptest::prelude::*;

    fn name(s: &str) -> Name {
        absolute(s).unwrap()
    }
    fn reply(question: &str, family: Family, answers: Vec<Record>) -> Message {
        let mut m = Message::new(7, MessageType::Response, OpCode::Query);
        m.add_query(Query::query(name(question), record_type(family)));
        m.add_answers(answers);
        m
    }
    fn a(owner: &str, last: u8, ttl: u32) -> Record {
        Record::from_rdata(name(owner), ttl, RData::A(A::new(192, 0, 2, last)))
    }
    fn cname(owner: &str, to: &str, ttl: u32) -> Record {
        Record::from_rdata(name(owner), ttl, RData::CNAME(CNAME(name(to))))
    }
    fn v4(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }
    fn read(m: &Message) -> Result<Answer, NotAnAnswer> {
        decode_answer(&m.to_vec().unwrap(), 7, "www.example.org", Family::V4)
    }

    #[test]
    fn a_query_asks_for_what_it_should_and_announces_its_payload() {
        let m = Message::from_vec(&encode_query(9, "www.example.org", Family::V6).unwrap()).unwrap();
        assert_eq!((m.metadata.id, m.metadata.recursion_desired), (9, true));
        assert_eq!(
            (m.queries[0].name.to_string().as_str(), m.queries[0].query_type),
            ("www.example.org.", RecordType::AAAA)
        );
        assert_eq!(m.max_payload(), MAX_UDP_PAYLOAD);
    }

    #[test]
    fn names_that_dns_cannot_carry_are_refused() {
        for bad in ["", ".", &"a".repeat(64), &["abcdefgh"; 40].join("."), "two..dots"] {
            assert!(encode_query(1, bad, Family::V4).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses_at_the_end_of_a_cname_chain_count_and_the_smallest_ttl_rules() {
        let m = reply(
            "WWW.Example.org",
            Family::V4,
            vec![
                cname("www.example.org", "cdn.example.net", 30),
                a("CDN.example.net", 1, 300),
                a("cdn.example.net", 2, 300),
            ],
        );
        assert_eq!(read(&m), Ok(Answer::Addresses(vec![v4(1), v4(2)], Duration::from_secs(30))));
    }

    #[test]
    fn records_of_other_names_that_a_lying_server_adds_are_ignored() {
        let m = reply("www.example.org", Family::V4, vec![a("bank.example", 66, 300)]);
        assert_eq!(read(&m), Ok(Answer::NoData(Duration::ZERO)));
        let ours = AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        let wrong_family = reply(
            "www.example.org",
            Family::V4,
            vec![Record::from_rdata(name("www.example.org"), 9, RData::AAAA(ours))],
        );
        assert_eq!(read(&wrong_family), Ok(Answer::NoData(Duration::ZERO)));
    }

    #[test]
    fn a_loop_of_cnames_ends() {
        let m = reply(
            "www.example.org",
            Family::V4,
            vec![cname("www.example.org", "b.example", 5), cname("b.example", "www.example.org", 5)],
        );
        assert_eq!(read(&m), Ok(Answer::NoData(Duration::ZERO)));
    }

    #[test]
    fn answers_to_other_questions_ids_or_directions_are_unrelated() {
        let good = reply("www.example.org", Family::V4, vec![a("www.example.org", 1, 60)]);
        let bytes = good.to_vec().unwrap();
        let unrelated = Err(NotAnAnswer::Unrelated);
        assert_eq!(decode_answer(&bytes, 8, "www.example.org", Family::V4), unrelated);
        assert_eq!(decode_answer(&bytes, 7, "example.org", Family::V4), unrelated);
        assert_eq!(decode_answer(&bytes, 7, "www.example.org", Family::V6), unrelated);
        let query = encode_query(7, "www.example.org", Family::V4).unwrap();
        assert_eq!(decode_answer(&query, 7, "www.example.org", Family::V4), unrelated);
    }

    #[test]
    fn the_kinds_of_no_are_told_apart() {
        let mut m = reply("www.example.org", Family::V4, vec![]);
        let soa = SOA::new(name("ns.example.org"), name("root.example.org"), 1, 1, 1, 1, 40);
        m.add_authority(Record::from_rdata(name("example.org"), 600, RData::SOA(soa)));
        assert_eq!(read(&m), Ok(Answer::NoData(Duration::from_secs(40))));
        m.metadata.response_code = ResponseCode::NXDomain;
        assert_eq!(read(&m), Ok(Answer::NxDomain(Duration::from_secs(40))));
        m.metadata.response_code = ResponseCode::ServFail;
        assert_eq!(read(&m), Ok(Answer::Refused));
        m.metadata.truncation = true;
        assert_eq!(read(&m), Ok(Answer::Truncated));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode_answer(&bytes, 7, "www.example.org", Family::V4);
        }

        #[test]
        fn no_damage_to_a_good_answer_makes_it_panic(at in 0usize..60, with: u8, cut in 0usize..60) {
            let m = reply("www.example.org", Family::V4, vec![cname("www.example.org", "b.example", 5), a("b.example", 1, 60)]);
            let mut bytes = m.to_vec().unwrap();
            let len = bytes.len();
            bytes[at % len] = with;
            bytes.truncate(len - cut % len);
            let _ = decode_answer(&bytes, 7, "www.example.org", Family::V4);
        }

        #[test]
        fn no_name_makes_the_encoder_panic(name in "\\PC*") {
            let _ = encode_query(1, &name, Family::V6);
        }
    }
}
