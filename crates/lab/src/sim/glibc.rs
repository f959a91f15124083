//! getaddrinfo as glibc does it, for the arm without headstart. Measured with glibc 2.36 against a DNS server that drops
//! one record type: AAAA dropped takes 15 s and then yields the A records, A dropped takes 15 s and yields an error.
//!
//! Both questions go out at once and both answers are waited for, 5 s. If one is missing, glibc takes the server for one
//! that cannot bear two questions at once (`single-request`) and asks again, one after the other, twice (the second time
//! from a fresh socket). Any reply that parses settles a question. What was not measured is modelled in the plainest
//! way: a name asked for in one family only is asked twice, 5 s each; replies that do not parse count as missing.

use super::stack::{Event, Stack};
use headstart_core::connect::{LookupResult, Want};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::net::IpAddr;

/// `RES_TIMEOUT`: resolv.conf(5), option `timeout`.
const TIMEOUT: Duration = Duration::from_secs(5);

/// glibc asks for A first.
const ORDER: [Family; 2] = [Family::V4, Family::V6];

/// The addresses of `name`, IPv6 first (RFC 6724 on a dual-stack host); nothing if the call fails.
pub(super) fn getaddrinfo(stack: &mut Stack, next_query: &mut u64, name: &str, want: Want) -> Option<Vec<IpAddr>> {
    let wanted: Vec<Family> = ORDER.into_iter().filter(|f| want.includes(*f)).collect();
    let mut call = Call { stack, next_query, name };
    let first = call.ask(&wanted);
    let mut answers = first;
    if wanted.len() > 1 {
        for _ in 0..2 {
            if answers.len() == wanted.len() {
                break;
            }
            // One after the other; without the first there is no second.
            answers = call.ask(&wanted[..1]);
            if !answers.is_empty() {
                answers.extend(call.ask(&wanted[1..]));
            }
        }
    } else if answers.is_empty() {
        answers = call.ask(&wanted);
    }
    if !answers.iter().any(|(family, _)| *family == wanted[0]) {
        return None;
    }
    let addresses = |family: Family| {
        let of = answers.iter().find(|(f, _)| *f == family);
        match of {
            Some((_, LookupResult::Addresses(list, _))) => list.clone(),
            _ => Vec::new(),
        }
    };
    let list: Vec<IpAddr> = Family::BOTH.into_iter().flat_map(addresses).collect();
    (!list.is_empty()).then_some(list)
}

struct Call<'a> {
    stack: &'a mut Stack,
    next_query: &'a mut u64,
    name: &'a str,
}

impl Call<'_> {
    /// Asks for all of `families` at once; what has come after [`TIMEOUT`] or as soon as nothing is missing.
    fn ask(&mut self, families: &[Family]) -> Vec<(Family, LookupResult)> {
        let until = self.stack.now() + TIMEOUT;
        let mut open: Vec<(u64, Family)> = Vec::new();
        for family in families {
            *self.next_query += 1;
            self.stack.ask(*self.next_query, self.name, *family);
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
        answers
    }
}
