//! DNS messages of other people, passed on: which questions may be answered in a server's stead, and how a server's words
//! are made an answer to another copy of the question (RFC 1035, RFC 6891).
//!
//! What a server said is passed on as it stands, aliases, additional records and bits included: only the id, the spelling
//! of the question and the ages change. Whatever asks for more than addresses and services is no question for us: other types and
//! classes, options (cookies, client subnets), DNSSEC's bits. Bytes of both sides are foreign; they never panic here.

use super::dns::MAX_UDP_PAYLOAD;
use super::record::RecordType;
use crate::time::Duration;

const HEADER: usize = 12;
/// Largest UDP answer to a question without EDNS: RFC 1035, section 4.2.1.
const MAX_WITHOUT_EDNS: usize = 512;
const QR: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const TC: u16 = 0x0200;
const RD: u16 = 0x0100;
const RA: u16 = 0x0080;
const AD: u16 = 0x0020;
const SERVER_FAILURE: u16 = 2;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
const TYPE_HTTPS: u16 = 65;
const CLASS_IN: u16 = 1;

/// A question for records of a name that we ask for too, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name, as it was spelled, without the final dot.
    pub name: String,
    /// The type.
    pub record: RecordType,
    /// The header and the question, as they came.
    head: Vec<u8>,
    /// The asker wants to know whether the server has validated its answer: RFC 6840, section 5.7.
    authentic: bool,
    /// The largest answer that is taken, if the asker speaks EDNS.
    payload: Option<usize>,
}

impl Question {
    /// Reads a query; `None` if it is anything but such a question.
    pub fn read(query: &[u8]) -> Option<Self> {
        let head = query.get(..HEADER)?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let additional = word(10);
        // A plain query, recursion desired, no other bit but AD: CD and what is to come are the server's business.
        if word(2) & !AD != RD || (word(4), word(6), word(8)) != (1, 0, 0) || additional > 1 {
            return None;
        }
        let (name, end) = read_name(query)?;
        let [t0, t1, c0, c1] = *query.get(end..end + 4)?.first_chunk()?;
        let record = match u16::from_be_bytes([t0, t1]) {
            TYPE_A => RecordType::A,
            TYPE_AAAA => RecordType::Aaaa,
            TYPE_HTTPS => RecordType::Https,
            _ => return None,
        };
        let end = end + 4;
        let payload = match (additional, query.get(end..)?) {
            (0, []) => None,
            // Root, OPT, payload, no extended code, version 0, no flags (DO), no options.
            (1, [0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]) => {
                Some(usize::from(u16::from_be_bytes([*high, *low])).max(MAX_WITHOUT_EDNS))
            }
            _ => return None,
        };
        let in_class = u16::from_be_bytes([c0, c1]) == CLASS_IN;
        in_class.then(|| Self { name, record, head: query[..end].to_vec(), authentic: word(2) & AD != 0, payload })
    }

    /// The server's `reply` to a question for the same records, `age` old, as an answer to this one. `None` if it is about
    /// something else or is not as a reply should be.
    pub fn answer_from(&self, reply: &[u8], age: Duration) -> Option<Vec<u8>> {
        let question = self.head.get(HEADER..)?;
        let theirs = reply.get(HEADER..self.head.len())?;
        let flags = word(reply, 2)?;
        if flags & (QR | OPCODE) != QR || word(reply, 4)? != 1 || !question.eq_ignore_ascii_case(theirs) {
            return None;
        }
        let mut answer = reply.to_vec();
        answer[..2].copy_from_slice(&self.head[..2]);
        // Our own queries always ask for AD.
        let untold = if self.authentic { 0 } else { AD };
        answer[2..4].copy_from_slice(&((flags | RD) & !untold).to_be_bytes());
        // As it was spelled: some askers check (draft-vixie-dnsext-dns0x20).
        answer[HEADER..self.head.len()].copy_from_slice(question);
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        let records = u32::from(word(reply, 6)?) + u32::from(word(reply, 8)?) + u32::from(word(reply, 10)?);
        let mut at = self.head.len();
        for left in (0..records).rev() {
            let begin = at;
            at = skip_name(reply, at)?;
            let [t0, t1, _, _, l0, l1, l2, l3, r0, r1] = *reply.get(at..)?.first_chunk()?;
            let ttl = at + 4;
            at += 10 + usize::from(u16::from_be_bytes([r0, r1]));
            reply.get(..at)?;
            if u16::from_be_bytes([t0, t1]) != TYPE_OPT {
                let whole = u32::from_be_bytes([l0, l1, l2, l3]);
                // RFC 2181, section 8: a TTL with its highest bit set is none.
                let whole = if whole > i32::MAX as u32 { 0 } else { whole };
                answer[ttl..ttl + 4].copy_from_slice(&whole.saturating_sub(age).to_be_bytes());
            } else if self.payload.is_none() {
                // An asker without EDNS gets none (RFC 6891, section 7). Cut off at the end it leaves no hole.
                if left != 0 {
                    return None;
                }
                answer.truncate(begin);
                let others = word(reply, 10)?.checked_sub(1)?;
                answer[10..12].copy_from_slice(&others.to_be_bytes());
                return Some(self.fit(answer));
            }
        }
        answer.truncate(at);
        Some(self.fit(answer))
    }

    /// That there are no such records, for now: it is not cached, for it comes without an SOA (RFC 2308, section 5).
    pub fn empty(&self) -> Vec<u8> {
        self.bare(QR | RD | RA)
    }

    /// That the server failed.
    pub fn failed(&self) -> Vec<u8> {
        self.bare(QR | RD | RA | SERVER_FAILURE)
    }

    /// An answer that is too large becomes one that says so: the asker comes again over TCP.
    fn fit(&self, answer: Vec<u8>) -> Vec<u8> {
        if answer.len() <= self.payload.unwrap_or(MAX_WITHOUT_EDNS) {
            return answer;
        }
        self.bare(word(&answer, 2).unwrap_or(QR | RD | RA) | TC)
    }

    fn bare(&self, flags: u16) -> Vec<u8> {
        let mut answer = self.head.clone();
        answer[2..4].copy_from_slice(&flags.to_be_bytes());
        answer[6..HEADER].fill(0);
        if self.payload.is_some() {
            answer[11] = 1;
            let [high, low] = MAX_UDP_PAYLOAD.to_be_bytes();
            answer.extend([0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]);
        }
        answer
    }
}

/// Whether `reply` is a server's reply to `query`, whatever that is: the same id and kind, and the same question, if both
/// have one. A reply without its question is one only if it says that something is wrong.
pub fn is_reply(reply: &[u8], query: &[u8]) -> bool {
    let header = |m: &[u8]| Some((word(m, 0)?, word(m, 2)?, word(m, 4)?)).filter(|_| m.len() >= HEADER);
    let (Some((id, flags, questions)), Some((asked_id, asked, asked_questions))) = (header(reply), header(query))
    else {
        return false;
    };
    if id != asked_id || flags & QR == 0 || flags & OPCODE != asked & OPCODE {
        return false;
    }
    if questions == 0 {
        return asked_questions == 0 || flags & 0xf != 0;
    }
    let question = skip_name(query, HEADER).and_then(|end| query.get(HEADER..end + 4));
    questions == asked_questions
        && question.is_none_or(|q| reply.get(HEADER..HEADER + q.len()).is_some_and(|r| r.eq_ignore_ascii_case(q)))
}

fn word(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?))
}

/// The name of the question, if it is one that hosts have, and where it ends.
fn read_name(query: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        if length == 0 {
            return (!name.is_empty() && at + 1 - HEADER <= 255).then_some((name, at + 1));
        }
        let label = query.get(at + 1..at + 1 + length).filter(|_| length <= 63)?;
        if !label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|b| char::from(*b)));
        at += 1 + length;
    }
}

/// Where the name at `at` ends; a pointer ends it.
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            192.. => return message.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Family;
    use crate::wire::dns::{Answer, decode_answer, encode_query_with_edns};
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// A query without EDNS, of this type and class.
    fn query(id: u16, name: &str, qtype: u16, class: u16) -> Vec<u8> {
        let mut m = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        for label in name.split('.') {
            m.push(label.len() as u8);
            m.extend(label.as_bytes());
        }
        m.push(0);
        m.extend([qtype.to_be_bytes(), class.to_be_bytes()].concat());
        m
    }

    fn with_edns(mut query: Vec<u8>, payload: u16) -> Vec<u8> {
        query[11] = 1;
        let [high, low] = payload.to_be_bytes();
        query.extend([0, 0, 41, high, low, 0, 0, 0, 0, 0, 0]);
        query
    }

    /// The reply to `query`, validated: an alias, `addresses` A records and an OPT at the end, each TTL 300.
    fn reply(query: &[u8], addresses: u8) -> Vec<u8> {
        let end = skip_name(query, HEADER).unwrap() + 4;
        let mut m = query[..end].to_vec();
        m[2..4].copy_from_slice(&[0x81, 0xa0]);
        m[6..HEADER].copy_from_slice(&[0, addresses + 1, 0, 0, 0, 1]);
        m.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 1, 44, 0, 4, 1, b'b', 0xc0, 16]);
        let alias = (m.len() - 4) as u8;
        for n in 0..addresses {
            m.extend([0xc0, alias, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, n]);
        }
        m.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        m
    }

    fn ask(query: &[u8]) -> Question {
        Question::read(query).expect("a question for us")
    }

    #[test]
    fn questions_for_addresses_are_read_with_and_without_edns() {
        let plain = ask(&query(7, "WWW.example.org", TYPE_AAAA, 1));
        assert_eq!((plain.name.as_str(), plain.record, plain.payload), ("WWW.example.org", RecordType::Aaaa, None));
        let edns = ask(&with_edns(query(7, "www.example.org", TYPE_A, 1), 4096));
        assert_eq!((edns.record, edns.payload), (RecordType::A, Some(4096)));
        assert_eq!(ask(&query(7, "www.example.org", TYPE_HTTPS, 1)).record, RecordType::Https);
        assert_eq!(
            ask(&encode_query_with_edns(7, "a.example", Family::V4).unwrap()).payload,
            Some(1232),
            "our own kind"
        );
    }

    #[test]
    fn whatever_asks_for_more_than_addresses_is_left_to_the_server() {
        let good = query(7, "www.example.org", TYPE_A, 1);
        for (at, with, what) in [
            (2, 0x00, "no recursion"),
            (2, 0x29, "another opcode"),
            (2, 0x81, "a reply"),
            (3, 0x10, "CD"),
            (5, 2, "two questions"),
            (7, 1, "an answer"),
            (11, 1, "something additional that is not there"),
            (13, b'*', "an odd name"),
            (good.len() - 3, 255, "another type"),
            (good.len() - 1, 3, "another class"),
        ] {
            let mut bad = good.clone();
            bad[at] = with;
            assert_eq!(Question::read(&bad), None, "{what}");
        }
        let edns = with_edns(good.clone(), 1232);
        let dnssec = [&edns[..edns.len() - 4], &[0x80, 0, 0, 0]].concat();
        assert_eq!(Question::read(&dnssec), None, "DO");
        let cookie = [&edns[..edns.len() - 1], &[4, 0, 10, 0, 0]].concat();
        assert_eq!(Question::read(&cookie), None, "a cookie");
        assert_eq!(Question::read(&query(7, "", TYPE_A, 1)), None, "the root");
        assert_eq!(Question::read(&[&good[..], &[0]].concat()), None, "something behind it");
    }

    #[test]
    fn a_reply_is_passed_on_as_it_stands_but_for_id_spelling_and_age() {
        let said = reply(&query(9, "www.example.org", TYPE_A, 1), 2);
        let asked = with_edns(query(7, "wWw.eXample.org", TYPE_A, 1), 1232);
        let answer = ask(&asked).answer_from(&said, Duration::from_secs(100)).unwrap();
        let end = skip_name(&asked, HEADER).unwrap() + 4;
        let mut expected = said.clone();
        expected[..2].copy_from_slice(&asked[..2]);
        expected[3] &= !0x20;
        expected[HEADER..end].copy_from_slice(&asked[HEADER..end]);
        for record in 0..3 {
            expected[end + 16 * record + 9] = 200;
            expected[end + 16 * record + 8] = 0;
        }
        assert_eq!(answer, expected);
        let addresses = [0, 1].map(|n| IpAddr::from([192, 0, 2, n])).to_vec();
        let read = decode_answer(&answer, 7, "www.example.org", Family::V4);
        assert_eq!(read, Ok(Answer::Addresses(addresses, Duration::from_secs(200))));
        let later = ask(&asked).answer_from(&said, Duration::from_secs(301)).unwrap();
        assert_eq!(&later[end + 6..end + 10], [0; 4], "less than nothing is nothing");
    }

    #[test]
    fn whether_an_answer_was_validated_is_told_to_those_who_ask() {
        let asked = query(7, "www.example.org", TYPE_A, 1);
        let said = reply(&asked, 1);
        assert_eq!(said[3] & 0x20, 0x20, "the server says so");
        assert_eq!(ask(&asked).answer_from(&said, Duration::ZERO).unwrap()[3], 0x80);
        let mut wanting = asked;
        wanting[3] = 0x20;
        assert_eq!(ask(&wanting).answer_from(&said, Duration::ZERO).unwrap()[3], 0xa0);
        assert_eq!(ask(&wanting).empty()[3], 0x80, "nobody has validated that");
    }

    #[test]
    fn an_asker_without_edns_gets_none_and_no_more_than_it_can_take() {
        let asked = query(7, "www.example.org", TYPE_A, 1);
        let small = ask(&asked).answer_from(&reply(&asked, 3), Duration::ZERO).unwrap();
        assert_eq!((small[11], small.len()), (0, reply(&asked, 3).len() - 11));
        let large = reply(&asked, 60);
        let truncated = ask(&asked).answer_from(&large, Duration::ZERO).unwrap();
        assert_eq!(decode_answer(&truncated, 7, "www.example.org", Family::V4), Ok(Answer::Truncated));
        assert_eq!(truncated.len(), asked.len());
        let whole = ask(&with_edns(asked.clone(), 4096)).answer_from(&large, Duration::ZERO).unwrap();
        assert_eq!(whole.len(), large.len());
        let truncated = ask(&with_edns(asked, 600)).answer_from(&large, Duration::ZERO).unwrap();
        assert_eq!((truncated[2] & 2, truncated[11]), (2, 1), "truncated, and with EDNS");
    }

    #[test]
    fn an_empty_answer_is_no_data_that_nobody_keeps() {
        let asked = with_edns(query(7, "www.example.org", TYPE_AAAA, 1), 1232);
        let read = |m: &[u8]| decode_answer(m, 7, "www.example.org", Family::V6);
        assert_eq!(read(&ask(&asked).empty()), Ok(Answer::NoData(Duration::ZERO)));
        assert_eq!(read(&ask(&asked).failed()), Ok(Answer::Refused));
    }

    #[test]
    fn words_about_something_else_are_not_passed_on() {
        let asked = query(7, "www.example.org", TYPE_A, 1);
        let from = |m: &[u8]| ask(&asked).answer_from(m, Duration::ZERO);
        assert_eq!(from(&reply(&query(7, "bank.example.org", TYPE_A, 1), 1)), None);
        assert_eq!(from(&reply(&query(7, "www.example.org", TYPE_AAAA, 1), 1)), None);
        assert_eq!(from(&asked), None, "a query");
        let good = reply(&asked, 1);
        assert!((0..good.len()).all(|cut| from(&good[..cut]).is_none()), "any part of it");
    }

    #[test]
    fn a_reply_is_told_from_what_only_looks_like_one() {
        let asked = query(7, "www.example.org", 65, 1);
        let good = reply(&asked, 1);
        assert!(is_reply(&good, &asked));
        let spelled = reply(&query(7, "WWW.example.org", 65, 1), 1);
        assert!(is_reply(&spelled, &asked));
        assert!(!is_reply(&asked, &asked), "the question itself");
        assert!(!is_reply(&reply(&query(8, "www.example.org", 65, 1), 1), &asked), "another id");
        assert!(!is_reply(&reply(&query(7, "www.example.net", 65, 1), 1), &asked), "another name");
        assert!(!is_reply(&good[..11], &asked));
        let mut refused = good[..HEADER].to_vec();
        refused[2..].copy_from_slice(&[0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(is_reply(&refused, &asked), "FORMERR has no question");
        refused[3] = 0x80;
        assert!(!is_reply(&refused, &asked));
    }

    #[test]
    fn records_of_every_section_grow_old_and_a_time_that_is_none_has_passed() {
        let asked = query(7, "www.example.org", TYPE_A, 1);
        let aged = |ttl: u32, age| {
            let mut said = asked.clone();
            said[2..4].copy_from_slice(&[0x81, 0x80]);
            // One record in each section.
            said[6..HEADER].copy_from_slice(&[0, 1, 0, 1, 0, 1]);
            for _ in 0..3 {
                said.extend([&[0xc0, 12, 0, 1, 0, 1][..], &ttl.to_be_bytes(), &[0, 4, 192, 0, 2, 1]].concat());
            }
            let answer = ask(&asked).answer_from(&said, Duration::from_secs(age)).unwrap();
            assert_eq!(answer.len(), said.len());
            [0, 1, 2].map(|n| u32::from_be_bytes(*answer[asked.len() + 16 * n + 6..].first_chunk().unwrap()))
        };
        assert_eq!(aged(300, 100), [200; 3]);
        assert_eq!(aged(0x7fff_ffff, 1), [0x7fff_fffe; 3]);
        assert_eq!((aged(0x8000_0000, 0), aged(0x8000_0001, 0)), ([0; 3], [0; 3]), "RFC 2181, section 8");
    }

    #[test]
    fn what_a_server_has_cut_and_is_still_too_large_is_said_to_be_cut() {
        let asked = query(7, "www.example.org", TYPE_A, 1);
        let mut cut = reply(&asked, 60);
        cut[2] |= 2;
        let answer = ask(&asked).answer_from(&cut, Duration::ZERO).unwrap();
        assert_eq!((answer[2], answer.len()), (0x83, asked.len()));
    }

    #[test]
    fn the_longest_name_that_there_is_can_be_asked_for_and_no_longer_one() {
        let name = |last: usize| [63, 63, 63, last].map(|len| "a".repeat(len)).join(".");
        assert_eq!(ask(&query(7, &name(61), TYPE_A, 1)).name, name(61), "255 octets (RFC 1035, section 2.3.4)");
        assert_eq!(Question::read(&query(7, &name(62), TYPE_A, 1)), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(query in proptest::collection::vec(any::<u8>(), 0..300), reply in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = is_reply(&reply, &query);
            if let Some(question) = Question::read(&query) {
                let _ = question.answer_from(&reply, Duration::from_secs(5));
            }
        }

        #[test]
        fn no_damage_makes_it_panic_and_answers_fit(at in 0usize..120, with: u8, edns: bool, addresses in 0u8..80) {
            let asked = query(7, "www.example.org", TYPE_A, 1);
            let mut said = reply(&asked, addresses);
            let asked = if edns { with_edns(asked, 1232) } else { asked };
            let len = said.len();
            said[at % len] = with;
            if let Some(answer) = ask(&asked).answer_from(&said, Duration::from_secs(5)) {
                let most = if edns { 1232 } else { 512 };
                prop_assert!(answer.len() <= most);
                prop_assert!(is_reply(&answer, &asked));
            }
        }
    }
}
