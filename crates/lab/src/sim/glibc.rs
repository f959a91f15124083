//! getaddrinfo as glibc does it, for the arm without headstart: `__res_context_send` and `send_dg` of its resolver.
//! Measured with glibc 2.36 against a DNS server that drops one record type: AAAA dropped takes 15 s and then yields the
//! A records, A dropped takes 15 s and yields an error.
//!
//! Both questions go to the first server at once and both answers are waited for, 5 s. If one of them is missing, glibc
//! takes the server for one that cannot bear two questions at once and asks it again, one after the other
//! (`single-request`), and if still one is missing, again from a fresh socket; then it makes do with what it has. A
//! server that says nothing at all, or sends it away, is left for the next; the whole list is gone through twice
//! (`attempts`). Any reply that parses settles a question; replies that do not parse count as missing.

use super::stack::{Event, Stack};
use headstart_core::connect::{LookupResult, Want};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::net::IpAddr;

/// `RES_TIMEOUT`: resolv.conf(5), option `timeout`. With two servers the second has as long (`timeout` doubled, over two).
const TIMEOUT: Duration = Duration::from_secs(5);
/// `RES_DFLRETRY`: resolv.conf(5), option `attempts`.
const ATTEMPTS: u32 = 2;

/// glibc asks for A first.
const ORDER: [Family; 2] = [Family::V4, Family::V6];

/// The addresses of `name`: IPv6 first (RFC 6724 on a dual-stack host), but a family without a route last; nothing if the
/// call fails.
pub(super) fn getaddrinfo(stack: &mut Stack, next_query: &mut u64, name: &str, want: Want) -> Option<Vec<IpAddr>> {
    let wanted: Vec<Family> = ORDER.into_iter().filter(|f| want.includes(*f)).collect();
    let servers = stack.servers();
    let mut call = Call { stack, next_query, name, manner: Manner::AtOnce };
    let mut tries = (0..ATTEMPTS).flat_map(|_| 0..servers);
    let answers = tries.find_map(|server| call.send(&wanted, server))?;
    // Without the first there is no list, whatever the second says.
    if !answers.iter().any(|(family, _)| *family == wanted[0]) {
        return None;
    }
    let addresses = |family: Family| match answers.iter().find(|(f, _)| *f == family) {
        Some((_, LookupResult::Addresses(list, _))) => list.clone(),
        _ => Vec::new(),
    };
    let mut families = Family::BOTH;
    families.sort_by_key(|f| !stack.has_route(*f));
    let list: Vec<IpAddr> = families.into_iter().flat_map(addresses).collect();
    (!list.is_empty()).then_some(list)
}

/// How questions go out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    AtOnce,
    OneByOne,
    OneByOneFromAFreshSocket,
}

struct Call<'a> {
    stack: &'a mut Stack,
    next_query: &'a mut u64,
    name: &'a str,
    /// Never goes back within a process; here, within a call.
    manner: Manner,
}

/// The response to questions that were sent.
enum Response {
    /// These answers, perhaps not all; perhaps none.
    Answers(Vec<(Family, LookupResult)>),
    /// There is no server, or it would not tell.
    SentAway,
}

impl Call<'_> {
    /// Asks one server; nothing if the next is to be asked.
    fn send(&mut self, families: &[Family], server: usize) -> Option<Vec<(Family, LookupResult)>> {
        loop {
            let response = match self.manner {
                Manner::AtOnce => self.ask(families, server),
                Manner::OneByOne | Manner::OneByOneFromAFreshSocket => self.ask_one_by_one(families, server),
            };
            let Response::Answers(answers) = response else { return None };
            if answers.len() == families.len() {
                return Some(answers);
            }
            if answers.is_empty() {
                return None;
            }
            self.manner = match self.manner {
                Manner::AtOnce => Manner::OneByOne,
                Manner::OneByOne => Manner::OneByOneFromAFreshSocket,
                Manner::OneByOneFromAFreshSocket => return Some(answers),
            };
        }
    }

    /// Asks for one family after the other; without an answer to the first there is no second question.
    fn ask_one_by_one(&mut self, families: &[Family], server: usize) -> Response {
        let mut answers = Vec::new();
        for family in families {
            match self.ask(&[*family], server) {
                Response::Answers(more) if !more.is_empty() => answers.extend(more),
                Response::Answers(_) => break,
                Response::SentAway => return Response::SentAway,
            }
        }
        Response::Answers(answers)
    }

    /// Asks for all of `families` at once; what has come after [`TIMEOUT`] or as soon as nothing is missing.
    fn ask(&mut self, families: &[Family], server: usize) -> Response {
        let until = self.stack.now() + TIMEOUT;
        let mut open: Vec<(u64, Family)> = Vec::new();
        for family in families {
            *self.next_query += 1;
            self.stack.ask(*self.next_query, self.name, *family, server);
            open.push((*self.next_query, *family));
        }
        let mut answers = Vec::new();
        while !open.is_empty() {
            match self.stack.step(until) {
                Some(Event::Answer { query, result }) => {
                    if let Some(i) = open.iter().position(|(q, _)| *q == query) {
                        answers.push((open.remove(i).1, result));
                    }
                }
                Some(_) => {}
                None => break,
            }
        }
        open.iter().for_each(|(query, _)| self.stack.forget(*query));
        // A server that cannot tell of one family and tells of the other is believed.
        let sent_away = !answers.is_empty() && answers.iter().all(|(_, result)| *result == LookupResult::Refused);
        if sent_away { Response::SentAway } else { Response::Answers(answers) }
    }
}
