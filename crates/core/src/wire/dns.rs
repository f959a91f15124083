//! DNS questions and answers for address records (RFC 1035, RFC 3596) and HTTPS records (RFC 9460), by the codec of
//! hickory-proto.
//!
//! A message is accepted only if it is an answer, to this question, under this id; of its records only those count
//! that the chain of CNAMEs from the asked name leads to. What a server adds besides is ignored, but for the addresses
//! of an HTTPS record's target, which RFC 9460, section 4.2, lets it add.

use super::record::{RecordType, Service};
use crate::time::Duration;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::svcb::{SVCB, SvcParamValue};
use hickory_proto::rr::{self, DNSClass, Name, RData};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// UDP payload that we announce (EDNS0): the size that DNS Flag Day 2020 found to pass without fragments.
pub const MAX_UDP_PAYLOAD: u16 = 1232;
/// CNAMEs followed in one answer; more is a loop or a jest.
const MAX_CHAIN: usize = 12;
/// Longest time that any answer is kept, whatever its TTL says: RFC 8767, section 4, suggests a cap of days.
const MAX_TTL: u32 = 86_400;
/// Longest time that a negative answer is kept: RFC 2308, section 5.
const MAX_NEGATIVE_TTL: u32 = 3 * 3600;

/// HTTPS records read of one answer, and addresses read of one such record; a server that sends more means no good.
const MAX_SERVICES: usize = 16;

/// What a server said about one name and one record type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// At least one address, in the server's order, and how long it may be kept.
    Addresses(Vec<IpAddr>, Duration),
    /// At least one HTTPS record, the best first, and how long they may be kept.
    Services(Vec<Service>, Duration),
    /// The name exists and has no record of this type (NODATA, RFC 2308).
    NoData(Duration),
    /// The name does not exist (RCODE 3).
    NxDomain(Duration),
    /// The server could not or would not answer (any other RCODE).
    Refused,
    /// The server does not understand the query (FORMERR, NOTIMP), as it is with those that know no EDNS (RFC 6891, section 6.2.2).
    NotUnderstood,
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

fn wire_type(record: RecordType) -> rr::RecordType {
    match record {
        RecordType::A => rr::RecordType::A,
        RecordType::Aaaa => rr::RecordType::AAAA,
        RecordType::Https => rr::RecordType::HTTPS,
    }
}

fn absolute(name: &str) -> Result<Name, BadName> {
    let mut parsed = Name::from_ascii(name).map_err(|_| BadName(name.to_owned()))?;
    parsed.set_fqdn(true);
    if parsed.is_root() { Err(BadName(name.to_owned())) } else { Ok(parsed) }
}

/// The query for the records of `name` of this type (or of this family's type), recursion desired, without EDNS, as the C library asks:
/// every server understands it. More than 512 bytes of answer do not fit (RFC 1035, section 4.2.1).
pub fn encode_query(id: u16, name: &str, record: impl Into<RecordType>) -> Result<Vec<u8>, BadName> {
    question(id, name, record.into())?.to_vec().map_err(|_| BadName(name.to_owned()))
}

/// The same query with EDNS0 and [`MAX_UDP_PAYLOAD`]: some servers do not understand it, some firewalls drop it.
pub fn encode_query_with_edns(id: u16, name: &str, record: impl Into<RecordType>) -> Result<Vec<u8>, BadName> {
    let mut message = question(id, name, record.into())?;
    let mut edns = Edns::new();
    edns.set_max_payload(MAX_UDP_PAYLOAD);
    message.set_edns(edns);
    message.to_vec().map_err(|_| BadName(name.to_owned()))
}

fn question(id: u16, name: &str, record: RecordType) -> Result<Message, BadName> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    // Whether the server has validated its answer is for programs that ask for it (RFC 6840, section 5.7; see `relay`).
    message.metadata.authentic_data = true;
    message.add_query(Query::query(absolute(name)?, wire_type(record)));
    Ok(message)
}

/// Hops of a compressed name that leads from pointer to pointer. A server that compresses points at labels: one hop.
const MOST_HOPS: u8 = 16;

/// Whether a compression pointer (RFC 1035, section 4.1.4) leads to another, and so on, for more than [`MOST_HOPS`]. The parser follows them for
/// each name anew and has no limit of its own: an answer of 64 kB could cost it tens of millions of steps. In one pass, since a pointer leads back.
fn has_pointer_chain(bytes: &[u8]) -> bool {
    let mut hops = vec![0u8; bytes.len()];
    bytes.windows(2).enumerate().any(|(at, pair)| {
        let to = usize::from(pair[0] & 0x3f) << 8 | usize::from(pair[1]);
        // Data of records looks like pointers too, but seldom for so many hops.
        if pair[0] < 0xc0 || to >= at {
            return false;
        }
        hops[at] = hops[to].saturating_add(1);
        hops[at] > MOST_HOPS
    })
}

/// Reads `bytes` as the answer to the query `id` for the records of `name` of this type (or of this family's type).
///
/// One malformed HTTPS record makes the whole answer malformed (RFC 9460, section 2.2).
pub fn decode_answer(bytes: &[u8], id: u16, name: &str, record: impl Into<RecordType>) -> Result<Answer, NotAnAnswer> {
    let record = record.into();
    if has_pointer_chain(bytes) {
        return Err(NotAnAnswer::Malformed);
    }
    let message = Message::from_vec(bytes).map_err(|_| NotAnAnswer::Malformed)?;
    let asked = absolute(name).map_err(|_| NotAnAnswer::Unrelated)?;
    let not_understood = matches!(message.metadata.response_code, ResponseCode::FormErr | ResponseCode::NotImp);
    let about_it = match &message.queries[..] {
        [q] => q.name.eq_ignore_root(&asked) && q.query_type == wire_type(record) && q.query_class == DNSClass::IN,
        // A server that could not read the question cannot repeat it.
        [] => not_understood,
        _ => false,
    };
    let to_us = message.metadata.id == id
        && message.metadata.message_type == MessageType::Response
        && message.metadata.op_code == OpCode::Query
        && about_it;
    if !to_us {
        return Err(NotAnAnswer::Unrelated);
    }
    if message.metadata.truncation {
        return Ok(Answer::Truncated);
    }
    Ok(match message.metadata.response_code {
        ResponseCode::NXDomain => Answer::NxDomain(negative_ttl(&message)),
        ResponseCode::NoError => {
            let Found { addresses, services, ttl } = follow(&message, asked, record);
            let ttl = Duration::from_secs(u64::from(ttl.min(MAX_TTL)));
            match (addresses.is_empty(), services.is_empty()) {
                (false, _) => Answer::Addresses(addresses, ttl),
                (true, false) => Answer::Services(services, ttl),
                (true, true) => Answer::NoData(negative_ttl(&message)),
            }
        }
        _ if not_understood => Answer::NotUnderstood,
        _ => Answer::Refused,
    })
}

/// What is at the end of a chain of CNAMEs, and the smallest TTL on the way.
struct Found {
    addresses: Vec<IpAddr>,
    services: Vec<Service>,
    ttl: u32,
}

/// The records at the end of the CNAME chain from `asked`.
fn follow(message: &Message, asked: Name, record: RecordType) -> Found {
    let mut found = Found { addresses: Vec::new(), services: Vec::new(), ttl: u32::MAX };
    let mut owner = asked.clone();
    for _ in 0..MAX_CHAIN {
        let (mut alias, mut bindings) = (None, Vec::new());
        for record_found in
            message.answers.iter().filter(|r| r.dns_class == DNSClass::IN && r.name.eq_ignore_root(&owner))
        {
            match &record_found.data {
                RData::CNAME(to) => alias = Some(to.0.clone()),
                RData::HTTPS(https) if record == RecordType::Https => bindings.push(&https.0),
                data => match address(data, record) {
                    Some(address) if !found.addresses.contains(&address) => found.addresses.push(address),
                    Some(_) => {}
                    None => continue,
                },
            }
            found.ttl = found.ttl.min(record_found.ttl);
        }
        found.services = services(message, &asked, &owner, &bindings, &mut found.ttl);
        match alias {
            Some(next) if found.addresses.is_empty() && bindings.is_empty() => owner = next,
            _ => break,
        }
    }
    found
}

fn address(data: &RData, record: RecordType) -> Option<IpAddr> {
    match data {
        RData::A(a) if record == RecordType::A => Some(IpAddr::V4(a.0)),
        RData::AAAA(a) if record == RecordType::Aaaa => Some(IpAddr::V6(a.0)),
        _ => None,
    }
}

/// What the HTTPS records `bindings` of `owner` say, best first. An alias among them makes the others void (RFC 9460,
/// section 2.4.1); an alias to nowhere says that there is no such service (2.5.1), which is as good as no record.
fn services(message: &Message, asked: &Name, owner: &Name, bindings: &[&SVCB], ttl: &mut u32) -> Vec<Service> {
    let aliased = bindings.iter().any(|b| b.svc_priority == 0);
    let valid = |b: &&&SVCB| !aliased || (b.svc_priority == 0 && !b.target_name.is_root());
    let mut services = Vec::new();
    for binding in bindings.iter().filter(valid).take(MAX_SERVICES) {
        let target = &binding.target_name;
        let elsewhere = !(target.is_root() || target.eq_ignore_root(owner) || target.eq_ignore_root(asked));
        let mut service = service(binding);
        if elsewhere {
            service.target = Some(Arc::from(target.to_ascii().trim_end_matches('.').to_ascii_lowercase()));
            for r in message.additionals.iter().filter(|r| r.dns_class == DNSClass::IN && r.name.eq_ignore_root(target))
            {
                let address = [RecordType::A, RecordType::Aaaa].into_iter().find_map(|t| address(&r.data, t));
                if let Some(address) = address
                    && service.addresses.len() < MAX_SERVICES
                {
                    *ttl = r.ttl.min(*ttl);
                    service.addresses.push(address);
                }
            }
        }
        services.push(service);
    }
    services.sort_by_key(|s| s.priority);
    services
}

/// The parameters of `binding`.
fn service(binding: &SVCB) -> Service {
    let mut service = Service { priority: binding.svc_priority, ..Service::default() };
    if service.is_alias() {
        // Parameters of an alias are ignored: RFC 9460, section 2.4.2.
        return service;
    }
    for (key, value) in &binding.svc_params {
        match value {
            SvcParamValue::Mandatory(keys) => service.mandatory = keys.0.iter().map(|k| u16::from(*k)).collect(),
            SvcParamValue::Alpn(names) => service.alpn.clone_from(&names.0),
            SvcParamValue::NoDefaultAlpn => service.no_default_alpn = true,
            SvcParamValue::Port(port) => service.port = Some(*port),
            SvcParamValue::Ipv4Hint(list) => service.ipv4hint = list.0.iter().take(MAX_SERVICES).map(|a| a.0).collect(),
            SvcParamValue::Ipv6Hint(list) => service.ipv6hint = list.0.iter().take(MAX_SERVICES).map(|a| a.0).collect(),
            SvcParamValue::EchConfigList(_) => service.ech = true,
            SvcParamValue::Unknown(_) => debug_assert!(u16::from(*key) > 6, "every key of RFC 9460 is read"),
        }
    }
    service
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
    use crate::path::Family;
    use hickory_proto::rr::rdata::svcb::{Alpn, EchConfigList, IpHint, Mandatory, SvcParamKey, Unknown};
    use hickory_proto::rr::rdata::{A, AAAA, CNAME, HTTPS, SOA};
    use hickory_proto::rr::{Record, RecordType as WireType};
    use proptest::prelude::*;

    fn name(s: &str) -> Name {
        absolute(s).unwrap()
    }
    fn reply(question: &str, record: impl Into<RecordType>, answers: Vec<Record>) -> Message {
        let mut m = Message::new(7, MessageType::Response, OpCode::Query);
        m.add_query(Query::query(name(question), wire_type(record.into())));
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
    fn names_that_lead_from_pointer_to_pointer_are_refused_before_they_are_followed() {
        // An answer whose names all begin at the last of `hops` pointers, each of which leads to the one before it.
        let chained = |hops: usize| {
            let mut bytes = reply("www.example.org", Family::V4, vec![]).to_vec().unwrap();
            let mut last = 12;
            for _ in 0..hops {
                let at = bytes.len();
                bytes.extend(((0xc000 | last) as u16).to_be_bytes());
                last = at;
            }
            bytes
        };
        assert!(!has_pointer_chain(&chained(usize::from(MOST_HOPS))));
        assert!(has_pointer_chain(&chained(usize::from(MOST_HOPS) + 1)));
        let refused = decode_answer(&chained(5000), 7, "www.example.org", Family::V4);
        assert_eq!(refused, Err(NotAnAnswer::Malformed));
        // Names that are compressed as servers do it are no chain, however many there are.
        let many: Vec<_> = (0..200).map(|n| cname(&format!("a{n}.www.example.org"), "b.www.example.org", 60)).collect();
        assert!(!has_pointer_chain(&reply("www.example.org", Family::V4, many).to_vec().unwrap()));
    }

    #[test]
    fn a_query_asks_for_what_it_should_and_announces_its_payload_where_it_may() {
        let plain = encode_query(9, "www.example.org", Family::V6).unwrap();
        let m = Message::from_vec(&plain).unwrap();
        assert_eq!((m.metadata.id, m.metadata.recursion_desired, m.metadata.authentic_data), (9, true, true));
        assert_eq!(
            (m.queries[0].name.to_string().as_str(), m.queries[0].query_type),
            ("www.example.org.", WireType::AAAA)
        );
        assert!(m.edns.is_none());
        let with_edns = encode_query_with_edns(9, "www.example.org", Family::V6).unwrap();
        assert_eq!(Message::from_vec(&with_edns).unwrap().max_payload(), MAX_UDP_PAYLOAD);
        assert_eq!((with_edns[11], &with_edns[12..plain.len()]), (1, &plain[12..]), "no more but the record");
    }

    #[test]
    fn a_server_that_does_not_understand_need_not_repeat_the_question() {
        for code in [ResponseCode::FormErr, ResponseCode::NotImp] {
            let mut m = reply("www.example.org", Family::V4, vec![]);
            m.metadata.response_code = code;
            assert_eq!(read(&m), Ok(Answer::NotUnderstood));
            m.queries.clear();
            assert_eq!(read(&m), Ok(Answer::NotUnderstood));
            assert_eq!(decode_answer(&m.to_vec().unwrap()[..12], 7, "www.example.org", Family::V4), read(&m));
            m.metadata.id = 8;
            assert_eq!(read(&m), Err(NotAnAnswer::Unrelated));
        }
        let mut m = reply("www.example.org", Family::V4, vec![]);
        m.queries.clear();
        assert_eq!(read(&m), Err(NotAnAnswer::Unrelated), "whoever understands repeats it");
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

    /// An HTTPS record of `owner`.
    fn https(owner: &str, priority: u16, target: &str, params: Vec<(SvcParamKey, SvcParamValue)>) -> Record {
        let target = if target == "." { Name::root() } else { name(target) };
        Record::from_rdata(name(owner), 300, RData::HTTPS(HTTPS(SVCB::new(priority, target, params))))
    }
    fn hints(last: u8) -> Vec<(SvcParamKey, SvcParamValue)> {
        let v6 = AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into());
        vec![
            (SvcParamKey::Alpn, SvcParamValue::Alpn(Alpn(vec!["h2".into(), "h3".into()]))),
            (SvcParamKey::Port, SvcParamValue::Port(8443)),
            (SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(vec![A::new(192, 0, 2, last)]))),
            (SvcParamKey::EchConfigList, SvcParamValue::EchConfigList(EchConfigList(vec![0, 1, 2]))),
            (SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(vec![v6]))),
        ]
    }
    fn services_of(m: &Message) -> Result<Answer, NotAnAnswer> {
        decode_answer(&m.to_vec().unwrap(), 7, "www.example.org", RecordType::Https)
    }

    //= RFC 9460#2.4.3
    #[test]
    fn an_https_record_is_read_with_all_that_the_standard_names() {
        let own = https("www.example.org", 2, ".", hints(2));
        let other = https("www.example.org", 1, "svc.example.net", hints(1));
        let Ok(Answer::Services(list, ttl)) =
            services_of(&reply("www.example.org", RecordType::Https, vec![own, other]))
        else {
            panic!("services");
        };
        let read = Service {
            priority: 1,
            target: Some("svc.example.net".into()),
            port: Some(8443),
            alpn: vec!["h2".into(), "h3".into()],
            ipv4hint: vec![[192, 0, 2, 1].into()],
            ipv6hint: vec![[0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()],
            ech: true,
            ..Service::default()
        };
        assert_eq!((&list[0], ttl), (&read, Duration::from_secs(300)), "the lower priority comes first");
        assert_eq!((list.len(), &list[1].target, list[1].priority), (2, &None, 2));
    }

    //= RFC 9460#2.4.2
    #[test]
    fn an_alias_makes_services_void_and_brings_the_addresses_that_were_sent_along() {
        let answers =
            vec![https("www.example.org", 1, ".", hints(1)), https("www.example.org", 0, "Pool.example.net", hints(2))];
        let mut m = reply("www.example.org", RecordType::Https, answers);
        m.add_additional(a("pool.example.net", 9, 20));
        m.add_additional(a("bank.example", 66, 20));
        let alias = Service { target: Some("pool.example.net".into()), addresses: vec![v4(9)], ..Service::default() };
        assert_eq!(services_of(&m), Ok(Answer::Services(vec![alias], Duration::from_secs(20))));
        let nowhere = reply("www.example.org", RecordType::Https, vec![https("www.example.org", 0, ".", vec![])]);
        assert_eq!(services_of(&nowhere), Ok(Answer::NoData(Duration::ZERO)));
    }

    #[test]
    fn a_service_behind_a_cname_is_the_names_own() {
        let chain = vec![cname("www.example.org", "cdn.example.net", 30), https("cdn.example.net", 1, ".", hints(1))];
        let Ok(Answer::Services(list, ttl)) = services_of(&reply("www.example.org", RecordType::Https, chain)) else {
            panic!("services");
        };
        assert_eq!((list.len(), &list[0].target, ttl), (1, &None, Duration::from_secs(30)));
        let other = reply("www.example.org", RecordType::Https, vec![https("bank.example", 1, ".", hints(6))]);
        assert_eq!(services_of(&other), Ok(Answer::NoData(Duration::ZERO)), "another name's");
    }

    #[test]
    fn keys_that_must_be_known_are_kept_whether_they_are_or_not() {
        let strange = SvcParamKey::from(4242);
        let params = vec![
            (SvcParamKey::Mandatory, SvcParamValue::Mandatory(Mandatory(vec![SvcParamKey::Port, strange]))),
            (SvcParamKey::NoDefaultAlpn, SvcParamValue::NoDefaultAlpn),
            (SvcParamKey::Port, SvcParamValue::Port(443)),
            (strange, SvcParamValue::Unknown(Unknown(vec![1]))),
        ];
        let m = reply("www.example.org", RecordType::Https, vec![https("www.example.org", 1, ".", params)]);
        let Ok(Answer::Services(list, _)) = services_of(&m) else { panic!("services") };
        assert_eq!(list[0].mandatory, [3, 4242]);
        assert!(list[0].no_default_alpn);
    }

    #[test]
    fn an_answer_to_one_record_type_is_none_to_another() {
        let m = reply("www.example.org", RecordType::Https, vec![https("www.example.org", 1, ".", vec![])]);
        assert_eq!(read(&m), Err(NotAnAnswer::Unrelated));
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
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), record in 0usize..3) {
            let _ = decode_answer(&bytes, 7, "www.example.org", RecordType::ALL[record]);
        }

        #[test]
        fn no_parameters_of_a_service_make_it_panic(
            priority: u16, params in proptest::collection::vec(any::<u8>(), 0..80), alias: bool,
        ) {
            let m = reply("www.example.org", RecordType::Https, vec![]);
            let mut bytes = m.to_vec().unwrap();
            bytes[7] = 1;
            bytes.extend([0xc0, 12, 0, 65, 0, 1, 0, 0, 0, 60]);
            let mut data = priority.to_be_bytes().to_vec();
            data.extend(if alias { vec![1, b'a', 0] } else { vec![0] });
            data.extend(params);
            bytes.extend((data.len() as u16).to_be_bytes());
            bytes.extend(data);
            if let Ok(Answer::Services(list, _)) = decode_answer(&bytes, 7, "www.example.org", RecordType::Https) {
                prop_assert!(list.len() == 1 && list[0].priority == priority);
                prop_assert!(list[0].ipv4hint.len() <= MAX_SERVICES && list[0].ipv6hint.len() <= MAX_SERVICES);
            }
        }

        #[test]
        fn no_damage_to_a_good_service_makes_it_panic(at in 0usize..200, with: u8, cut in 0usize..200) {
            let m = reply("www.example.org", RecordType::Https, vec![https("www.example.org", 1, "b.example", hints(1))]);
            let mut bytes = m.to_vec().unwrap();
            let len = bytes.len();
            bytes[at % len] = with;
            bytes.truncate(len - cut % len);
            let _ = decode_answer(&bytes, 7, "www.example.org", RecordType::Https);
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

    #[test]
    fn what_is_wrong_with_a_name_or_an_answer_is_said_in_words() {
        assert!(absolute("two..dots").unwrap_err().to_string().contains("two..dots"));
        let (malformed, unrelated) = (NotAnAnswer::Malformed.to_string(), NotAnAnswer::Unrelated.to_string());
        assert!(malformed.contains("DNS message") && unrelated.contains("question") && malformed != unrelated);
    }

    #[test]
    fn a_chain_of_pointers_is_found_in_a_long_answer_too() {
        let mut bytes = reply("www.example.org", Family::V4, vec![]).to_vec().unwrap();
        // Pointers to what is behind the first 255 bytes have the upper half of the place in their first byte.
        bytes.resize(700, 0);
        for last in (700..).step_by(2).take(usize::from(MOST_HOPS) + 1) {
            bytes.extend((0xc000 | (last - 2u16)).to_be_bytes());
        }
        assert!(has_pointer_chain(&bytes));
        // What is no pointer leads nowhere.
        let text: Vec<u8> = (0..400).flat_map(|n: u16| n.to_be_bytes()).collect();
        assert!(!has_pointer_chain(&text));
    }

    #[test]
    fn an_address_counts_once_and_an_alias_beside_it_leads_nowhere() {
        let answers = vec![
            cname("www.example.org", "other.example", 30),
            a("www.example.org", 1, 60),
            a("www.example.org", 1, 60),
            a("other.example", 2, 60),
        ];
        let read = read(&reply("www.example.org", Family::V4, answers));
        assert_eq!(read, Ok(Answer::Addresses(vec![v4(1)], Duration::from_secs(30))));
    }

    #[test]
    fn records_of_another_type_than_was_asked_for_say_nothing() {
        let own = "www.example.org";
        let v6 = Record::from_rdata(name(own), 60, RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)));
        let all = vec![a(own, 1, 60), v6, https(own, 1, ".", hints(2))];
        let said = |record, answers: &[Record]| {
            decode_answer(&reply(own, record, answers.to_vec()).to_vec().unwrap(), 7, own, record)
        };
        let minute = Duration::from_secs(60);
        assert_eq!(said(RecordType::A, &all), Ok(Answer::Addresses(vec![v4(1)], minute)));
        let v6 = "2001:db8::1".parse().unwrap();
        assert_eq!(said(RecordType::Aaaa, &all), Ok(Answer::Addresses(vec![v6], minute)));
        assert_eq!(said(RecordType::A, &all[1..]), Ok(Answer::NoData(Duration::ZERO)));
        assert_eq!(said(RecordType::Aaaa, &[all[0].clone(), all[2].clone()]), Ok(Answer::NoData(Duration::ZERO)));
        assert!(matches!(said(RecordType::Https, &all), Ok(Answer::Services(list, _)) if list.len() == 1));
    }

    #[test]
    fn of_addresses_that_are_sent_along_so_many_are_kept() {
        let answers = vec![https("www.example.org", 1, "svc.example.net", vec![])];
        let mut m = reply("www.example.org", RecordType::Https, answers);
        for n in 0..MAX_SERVICES + 3 {
            m.add_additional(a("svc.example.net", n as u8, 60));
        }
        let Ok(Answer::Services(list, _)) = services_of(&m) else { panic!("services") };
        assert_eq!(list[0].addresses.len(), MAX_SERVICES);
    }
}
