//! Lookups of one socket: questions that wait for their answers. Nothing is changed; what is no question or no answer is passed over.

use super::record::DnsExchange;
use crate::time::Instant;
use crate::wire::dns;
use crate::wire::record::RecordType;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Lookups of a socket that may wait for their answers.
const MOST: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    waiting: VecDeque<Lookup>,
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Lookup {
    server: SocketAddr,
    asked: Instant,
    question: Question,
}

#[derive(Debug, PartialEq, Eq)]
struct Question {
    id: u16,
    name: String,
    /// Which type of record, if it is one that leads to a connection.
    record: Option<RecordType>,
}

impl Lookups {
    /// The socket has sent this to a server.
    pub fn asked(&mut self, now: Instant, server: SocketAddr, query: &[u8]) {
        let Some(question) = question(query) else { return };
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
        }
        if !self.waiting.iter().any(|known| (known.server, known.question.id) == (server, question.id)) {
            self.waiting.push_back(Lookup { server, asked: now, question });
        }
    }

    /// A server has sent it this: the exchange, if it was asked.
    pub fn answered(
        &mut self,
        now: Instant,
        app: SocketAddr,
        server: SocketAddr,
        reply: &[u8],
        cached: bool,
    ) -> Option<DnsExchange> {
        let id = u16::from_be_bytes(*reply.first_chunk()?);
        let place = self.waiting.iter().position(|known| (known.server, known.question.id) == (server, id))?;
        let Lookup { asked, question: Question { name, record, .. }, .. } = self.waiting.remove(place)?;
        // Only what answers this very question is an answer.
        let answer = record.and_then(|record| Some((record, dns::decode_answer(reply, id, &name, record).ok()?)));
        let took = now.since(asked);
        Some(DnsExchange { app, server, name, asked, took, answer, reply: reply.to_vec(), cached })
    }
}

/// Number, name and type of a query (RFC 1035): labels that are not compressed, which queries' never are. What is not printable is
/// shown as a dot.
fn question(query: &[u8]) -> Option<Question> {
    /// Types of records: RFC 1035, 3596 and 9460.
    const TYPES: [(u16, RecordType); 3] = [(1, RecordType::A), (28, RecordType::Aaaa), (65, RecordType::Https)];
    let id = u16::from_be_bytes(*query.first_chunk()?);
    let is_query = query.get(2)? & 0x80 == 0;
    let mut rest = query.get(12..)?;
    let mut name = String::new();
    while let [len, tail @ ..] = rest
        && (1..64).contains(len)
        && name.len() < 256
    {
        let label = tail.get(..usize::from(*len))?;
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }));
        rest = &tail[usize::from(*len)..];
    }
    let kind = rest.get(1..3).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
    let record = TYPES.into_iter().find(|(number, _)| Some(*number) == kind).map(|(_, record)| record);
    is_query.then_some(Question { id, name, record })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_its_number_and_name_and_nonsense_says_nothing() {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
        let asked = |record| Some(Question { id: 0x1234, name: "www.example".into(), record });
        assert_eq!(question(&query), asked(Some(RecordType::A)));
        let of_text = [&query[..query.len() - 3], &[16, 0, 1]].concat();
        assert_eq!(question(&of_text), asked(None), "a type that leads nowhere");
        assert_eq!(question(&query[..15]), None);
        assert_eq!(question(&[]), None);
        query[2] = 0x81;
        assert_eq!(question(&query), None, "an answer");
    }
}
