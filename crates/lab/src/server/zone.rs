//! What the DNS server answers: the world's records and their faults, as messages (RFC 1035, 2308, 6891).
//!
//! Pure: bytes in, bytes and a delay out. Authoritative for everything, recursive for nothing.

use crate::world::{Host, Record as Behaviour, Reply, Site};
use headstart_core::time::Duration;
use headstart_core::wire::record::Service;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::svcb::{Alpn, EchConfigList, IpHint, Mandatory, SVCB, SvcParamKey, SvcParamValue};
use hickory_proto::rr::rdata::{A, AAAA, HTTPS, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::HashMap;
use std::net::IpAddr;

/// 1232 bytes: the largest UDP answer, and what the server says it takes (DNS flag day 2020).
const UDP_PAYLOAD: u16 = 1232;
/// 60 s: lifetime of "no such name", for which the world holds no figure.
const NO_NAME_TTL: u32 = 60;

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Udp,
    Tcp,
}

/// What to do about a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Name asked for, lower case, without the trailing dot.
    pub name: String,
    /// Type asked for.
    pub rtype: String,
    /// Time to wait before answering.
    pub delay: Duration,
    /// The message; `None` for silence.
    pub bytes: Option<Vec<u8>>,
}

/// The names that resolve.
#[derive(Debug, Default)]
pub(super) struct Zone {
    sites: HashMap<String, Site>,
}

impl Zone {
    /// The zone of these sites.
    pub fn new(sites: &[Site]) -> Self {
        Self { sites: sites.iter().map(|site| (canonical(&site.name), site.clone())).collect() }
    }

    /// The answer to the message `query`; `None` if it is not a query at all.
    pub fn answer(&self, query: &[u8], over: Over) -> Option<Answer> {
        let query = Message::from_vec(query).ok()?;
        let question = query.queries.first()?;
        if query.metadata.message_type != MessageType::Query {
            return None;
        }
        let (name, rtype) = (canonical(&question.name().to_ascii()), question.query_type());
        let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
        reply.metadata.recursion_desired = query.metadata.recursion_desired;
        reply.metadata.recursion_available = true;
        reply.metadata.authoritative = true;
        reply.add_query(question.clone());
        if query.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD).set_version(0);
            reply.set_edns(edns);
        }
        let room =
            if over == Over::Tcp { usize::from(u16::MAX) } else { usize::from(query.max_payload().min(UDP_PAYLOAD)) };
        let say = |delay, bytes| Some(Answer { name: name.clone(), rtype: rtype.to_string(), delay, bytes });
        if query.metadata.op_code != OpCode::Query {
            reply.metadata.response_code = ResponseCode::NotImp;
            return say(Duration::ZERO, encode(&reply, room));
        }
        let Some(site) = self.sites.get(&name) else {
            reply.metadata.response_code = ResponseCode::NXDomain;
            reply.add_authority(start_of_authority(question.name(), NO_NAME_TTL));
            return say(Duration::ZERO, encode(&reply, room));
        };
        // Types that the world does not speak of exist nowhere, and are denied as quickly as A is answered.
        let (behaviour, hosts) = match rtype {
            RecordType::A => (site.a, site.v4.as_slice()),
            RecordType::AAAA => (site.aaaa, site.v6.as_slice()),
            RecordType::HTTPS => (site.https_record(), &[][..]),
            _ => (Behaviour { reply: Reply::Records, ..site.a }, &[][..]),
        };
        let services = match &site.https {
            Some(https) if rtype == RecordType::HTTPS => https.services.as_slice(),
            _ => &[],
        };
        match behaviour.reply {
            Reply::Lost => return say(behaviour.delay, None),
            Reply::Malformed => return say(behaviour.delay, Some(malformed(query.metadata.id))),
            Reply::Truncated if over == Over::Udp => reply.metadata.truncation = true,
            Reply::Records | Reply::Truncated => {
                records(&mut reply, question.name(), behaviour.ttl, hosts, services);
            }
            Reply::ServFail => reply.metadata.response_code = ResponseCode::ServFail,
            Reply::NxDomain => {
                reply.metadata.response_code = ResponseCode::NXDomain;
                reply.add_authority(start_of_authority(question.name(), behaviour.ttl));
            }
        }
        say(behaviour.delay, encode(&reply, room))
    }
}

/// Says the records of `name`, or that there are none.
fn records(reply: &mut Message, name: &Name, ttl: u32, hosts: &[Host], services: &[Service]) {
    for host in hosts {
        reply.add_answer(Record::from_rdata(name.clone(), ttl, address(host.addr)));
    }
    for service in services {
        let (target, data) = https(service);
        reply.add_answer(Record::from_rdata(name.clone(), ttl, data));
        for addr in &service.addresses {
            reply.add_additional(Record::from_rdata(target.clone(), ttl, address(*addr)));
        }
    }
    if hosts.is_empty() && services.is_empty() {
        reply.add_authority(start_of_authority(name, ttl));
    }
}

fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn address(addr: IpAddr) -> RData {
    match addr {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    }
}

/// An HTTPS record that says what `service` does, its parameters in the order of their keys (RFC 9460, section 2.2), and
/// the name of its target.
fn https(service: &Service) -> (Name, RData) {
    let target = service.target.as_deref().and_then(|t| Name::from_ascii(format!("{t}.")).ok());
    let target = target.unwrap_or_else(Name::root);
    let mut params = Vec::new();
    if !service.mandatory.is_empty() {
        let keys = service.mandatory.iter().map(|k| SvcParamKey::from(*k)).collect();
        params.push((SvcParamKey::Mandatory, SvcParamValue::Mandatory(Mandatory(keys))));
    }
    if !service.alpn.is_empty() {
        params.push((SvcParamKey::Alpn, SvcParamValue::Alpn(Alpn(service.alpn.clone()))));
    }
    if service.no_default_alpn {
        params.push((SvcParamKey::NoDefaultAlpn, SvcParamValue::NoDefaultAlpn));
    }
    if let Some(port) = service.port {
        params.push((SvcParamKey::Port, SvcParamValue::Port(port)));
    }
    if !service.ipv4hint.is_empty() {
        let hints = service.ipv4hint.iter().map(|ip| A(*ip)).collect();
        params.push((SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(hints))));
    }
    if service.ech {
        // No client in the lab reads what is in it.
        params.push((SvcParamKey::EchConfigList, SvcParamValue::EchConfigList(EchConfigList(vec![0, 0]))));
    }
    if !service.ipv6hint.is_empty() {
        let hints = service.ipv6hint.iter().map(|ip| AAAA(*ip)).collect();
        params.push((SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(hints))));
    }
    let data = RData::HTTPS(HTTPS(SVCB::new(service.priority, target.clone(), params)));
    (target, data)
}

/// RCODEs of RFC 1035, section 4.1.1.
pub(super) const FORMERR: ResponseCode = ResponseCode::FormErr;
pub(super) const SERVFAIL: ResponseCode = ResponseCode::ServFail;

/// Whether a question carries an OPT record.
pub(super) fn has_edns(query: &[u8]) -> bool {
    Message::from_vec(query).is_ok_and(|query| query.edns.is_some())
}

/// The answer `code` to a question, without an OPT record.
pub(super) fn refusal(query: &[u8], code: ResponseCode) -> Option<Vec<u8>> {
    let query = Message::from_vec(query).ok()?;
    let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.response_code = code;
    query.queries.into_iter().for_each(|question| _ = reply.add_query(question));
    reply.to_vec().ok()
}

/// What does not parse and bears a question's identifier.
pub(super) fn garbage(query: &[u8]) -> Option<Vec<u8>> {
    Some(malformed(u16::from_be_bytes(*query.first_chunk::<2>()?)))
}

/// Bytes of a message, cut to a truncated one if it is longer than `room`.
fn encode(message: &Message, room: usize) -> Option<Vec<u8>> {
    let bytes = message.to_vec().ok()?;
    if bytes.len() <= room { Some(bytes) } else { message.truncate().to_vec().ok() }
}

/// A header that announces a question and an answer, and then a label that runs past the end.
fn malformed(id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0, 63, 0xff]);
    bytes
}

/// The SOA record that negative answers carry; `ttl` is how long they hold (RFC 2308).
fn start_of_authority(name: &Name, ttl: u32) -> Record {
    let zone = name.base_name();
    let within = |label: &str| zone.prepend_label(label).unwrap_or_else(|_| zone.clone());
    let soa = SOA::new(within("ns"), within("hostmaster"), 1, 3600, 600, 86400, ttl);
    Record::from_rdata(zone, ttl, RData::SOA(soa))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::default_world;
    use headstart_core::wire::{dns, record};
    use hickory_proto::op::Query;

    const DELAY: Duration = Duration::from_millis(7);

    fn ask(zone: &Zone, name: &str, rtype: RecordType, over: Over) -> (Answer, Message) {
        let answer = zone.answer(&question(name, rtype), over).unwrap();
        let message = Message::from_vec(answer.bytes.as_deref().unwrap()).unwrap();
        (answer, message)
    }

    fn question(name: &str, rtype: RecordType) -> Vec<u8> {
        let mut query = Message::query();
        query.add_query(Query::query(Name::from_ascii(name).unwrap(), rtype));
        query.to_vec().unwrap()
    }

    /// The default world with one behaviour for A queries of `www.lab.example`.
    fn zone(reply: Reply) -> Zone {
        let mut world = default_world("lan");
        world.sites[0].a = Behaviour { delay: DELAY, reply, ttl: 42 };
        Zone::new(&world.sites)
    }

    #[test]
    fn records_come_with_their_lifetime_whatever_the_case_of_the_name() {
        let (answer, message) = ask(&zone(Reply::Records), "WWW.Lab.Example.", RecordType::A, Over::Udp);
        assert_eq!((answer.name.as_str(), answer.rtype.as_str(), answer.delay), ("www.lab.example", "A", DELAY));
        assert_eq!(message.answers.len(), 1);
        assert_eq!(message.answers[0].ttl, 42);
        assert_eq!(message.answers[0].data, RData::A(A([198, 19, 0, 1].into())));
    }

    #[test]
    fn a_type_that_a_name_lacks_is_no_data_with_a_soa() {
        for (name, rtype) in [("v4.lab.example", RecordType::AAAA), ("www.lab.example", RecordType::HTTPS)] {
            let (_, message) = ask(&zone(Reply::Records), name, rtype, Over::Udp);
            assert_eq!(message.metadata.response_code, ResponseCode::NoError);
            assert!(message.answers.is_empty() && message.authorities[0].record_type() == RecordType::SOA);
        }
    }

    #[test]
    fn https_records_say_what_the_world_says_to_whoever_reads_them_as_headstart_does() {
        let mut world = default_world("lan");
        let plain = Service {
            priority: 1,
            port: Some(443),
            alpn: vec!["h2".into()],
            ipv4hint: vec![[198, 19, 0, 1].into()],
            ipv6hint: vec![[0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()],
            ech: true,
            mandatory: vec![3],
            ..Service::default()
        };
        let other = Service { priority: 2, target: Some("b.example".into()), no_default_alpn: true, ..plain.clone() };
        let pool = IpAddr::from([198, 19, 0, 9]);
        let alias = Service { target: Some("pool.example".into()), addresses: vec![pool], ..Service::default() };
        for services in [vec![plain, other], vec![alias]] {
            let record = Behaviour { delay: DELAY, reply: Reply::Records, ttl: 42 };
            world.sites[0].https = Some(crate::world::Https { record, services: services.clone() });
            let query = dns::encode_query(7, "www.lab.example", record::RecordType::Https).unwrap();
            let answer = Zone::new(&world.sites).answer(&query, Over::Udp).unwrap();
            assert_eq!((answer.rtype.as_str(), answer.delay), ("HTTPS", DELAY));
            let bytes = answer.bytes.unwrap();
            let read = dns::decode_answer(&bytes, 7, "www.lab.example", record::RecordType::Https);
            assert_eq!(read, Ok(dns::Answer::Services(services, Duration::from_secs(42))));
        }
    }

    #[test]
    fn an_unknown_name_does_not_exist() {
        let (answer, message) = ask(&zone(Reply::Records), "nowhere.example", RecordType::A, Over::Udp);
        assert_eq!((message.metadata.response_code, answer.delay), (ResponseCode::NXDomain, Duration::ZERO));
        assert_eq!(message.authorities[0].record_type(), RecordType::SOA);
    }

    #[test]
    fn faults_are_what_they_are_called() {
        let code = |reply| ask(&zone(reply), "www.lab.example", RecordType::A, Over::Udp).1.metadata.response_code;
        assert_eq!(code(Reply::ServFail), ResponseCode::ServFail);
        assert_eq!(code(Reply::NxDomain), ResponseCode::NXDomain);
        let bytes = |reply| {
            let query = question("www.lab.example", RecordType::A);
            let answer = zone(reply).answer(&query, Over::Udp).unwrap();
            (query, answer.bytes)
        };
        assert_eq!(bytes(Reply::Lost).1, None);
        let (query, Some(malformed)) = bytes(Reply::Malformed) else { panic!("silence") };
        assert_eq!(query[..2], malformed[..2], "the identifier is right");
        assert!(Message::from_vec(&malformed).is_err());
    }

    #[test]
    fn a_truncated_answer_is_whole_over_tcp() {
        let zone = zone(Reply::Truncated);
        let (_, udp) = ask(&zone, "www.lab.example", RecordType::A, Over::Udp);
        assert!(udp.metadata.truncation && udp.answers.is_empty());
        let (_, tcp) = ask(&zone, "www.lab.example", RecordType::A, Over::Tcp);
        assert!(!tcp.metadata.truncation && tcp.answers.len() == 1);
    }

    #[test]
    fn more_addresses_than_fit_are_truncated_over_udp_alone() {
        let mut world = default_world("lan");
        let host = world.sites[0].v4[0].clone();
        let many = |n: u8| crate::world::Host { addr: [198, 19, 1, n].into(), ..host.clone() };
        world.sites[0].v4 = (0..100).map(many).collect();
        let zone = Zone::new(&world.sites);
        assert!(ask(&zone, "www.lab.example", RecordType::A, Over::Udp).1.metadata.truncation);
        assert_eq!(ask(&zone, "www.lab.example", RecordType::A, Over::Tcp).1.answers.len(), 100);
    }

    #[test]
    fn a_refusal_repeats_the_question_and_speaks_no_edns() {
        let mut query = Message::from_vec(&question("www.lab.example", RecordType::AAAA)).unwrap();
        assert!(!has_edns(&query.to_vec().unwrap()));
        query.set_edns(Edns::new());
        let bytes = query.to_vec().unwrap();
        assert!(has_edns(&bytes));
        let refusal = refusal(&bytes, FORMERR).unwrap();
        assert!(!has_edns(&refusal));
        let refusal = Message::from_vec(&refusal).unwrap();
        assert_eq!((refusal.metadata.response_code, refusal.metadata.id), (FORMERR, query.metadata.id));
        assert_eq!(refusal.queries, query.queries);
        assert!(Message::from_vec(&garbage(&bytes).unwrap()).is_err());
    }

    #[test]
    fn noise_is_not_answered() {
        assert_eq!(zone(Reply::Records).answer(b"not a message", Over::Udp), None);
        let response = ask(&zone(Reply::Records), "www.lab.example", RecordType::A, Over::Udp).0.bytes.unwrap();
        assert_eq!(zone(Reply::Records).answer(&response, Over::Udp), None, "a response is not a question");
    }
}
