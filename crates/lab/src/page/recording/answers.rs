//! Which recorded answer a request gets.
//!
//! As Mahimahi's replay does it, without its rule about user agents: the host must be the same, and the request line up to
//! the query; the longest common beginning of the line wins. Before that come an exact line, and the query that has most
//! parameters in common, in whatever order: what scripts put into queries (times, random numbers) is often in front. A
//! request that was recorded several times gets its answers in turn. What was recorded over the scheme that is asked over comes
//! first; the other one's answer will do, so that what was recorded plain can be replayed over TLS.
//!
//! Advertisements and counters write times, sizes of windows and random numbers into the path itself
//! (`/ad/size=300x75;rnd=17`, `/b/s69775061760974`). Where a path was not recorded, the one that is the same but for
//! such parts stands in for it, by the same rule. What never happens here: an answer of another host or method, or of a
//! path that differs in anything else.

use super::{Exchange, Scheme};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request, as far as its answer depends on it.
#[derive(Clone, Copy, Debug)]
pub struct RequestKey<'a> {
    /// The host, with or without its port.
    pub host: &'a str,
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// How it is asked.
    pub scheme: Scheme,
}

/// The answers of a recording.
#[derive(Debug)]
pub struct Answers {
    exchanges: Vec<Exchange>,
    /// By host and path.
    by_path: HashMap<(String, String), Vec<usize>>,
    /// By host and what of a path is the same at each visit, of those that have something else.
    by_stem: HashMap<(String, String), Vec<usize>>,
    /// How often an exact line was asked for that was recorded more than once.
    turns: HashMap<(String, String), AtomicUsize>,
}

impl Answers {
    /// The answers of these exchanges.
    pub fn new(exchanges: Vec<Exchange>) -> Self {
        let mut by_path: HashMap<_, Vec<usize>> = HashMap::new();
        let mut by_stem: HashMap<_, Vec<usize>> = HashMap::new();
        let mut turns = HashMap::new();
        for (i, exchange) in exchanges.iter().enumerate() {
            let target = String::from_utf8_lossy(exchange.target()).into_owned();
            turns.insert((exchange.host(), target.clone()), AtomicUsize::new(0));
            by_path.entry((exchange.host(), path(&target).to_owned())).or_default().push(i);
            if let Some(stem) = stem(path(&target)) {
                by_stem.entry((exchange.host(), stem)).or_default().push(i);
            }
        }
        Self { exchanges, by_path, by_stem, turns }
    }

    /// The exchanges, in the order in which they were given.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The exchange whose answer this request gets; none if nothing was recorded of this host and path.
    pub fn find(&self, asked: RequestKey<'_>) -> Option<&Exchange> {
        let host = asked.host.to_ascii_lowercase();
        let host =
            host.rsplit_once(':').filter(|(_, p)| p.bytes().all(|b| b.is_ascii_digit())).map_or(&*host, |(h, _)| h);
        // A HEAD is answered by what a GET was: the server leaves the body out.
        let method = if asked.method == "HEAD" { "GET" } else { asked.method };
        let of_path = self.by_path.get(&(host.to_owned(), path(asked.target).to_owned()));
        let of_path = match (of_path, stem(path(asked.target))) {
            (Some(of_path), _) => of_path,
            (None, stem) => self.by_stem.get(&(host.to_owned(), stem?))?,
        };
        let fits = |i: &&usize| self.exchanges[**i].request.word(0) == method.as_bytes();
        let mut candidates: Vec<usize> = of_path.iter().filter(fits).copied().collect();
        if candidates.is_empty() && method != asked.method {
            candidates = of_path.iter().filter(|i| self.exchanges[**i].request.word(0) == b"HEAD").copied().collect();
        }
        let prefer = |places: &mut Vec<usize>| {
            let of_scheme = |i: &usize| self.exchanges[*i].scheme == asked.scheme;
            if places.iter().any(of_scheme) {
                places.retain(of_scheme);
            }
        };
        let mut exact: Vec<usize> =
            candidates.iter().filter(|i| self.exchanges[**i].target() == asked.target.as_bytes()).copied().collect();
        prefer(&mut exact);
        if !exact.is_empty() {
            let turn = self.turns.get(&(host.to_owned(), asked.target.to_owned()));
            let turn = turn.map_or(0, |t| t.fetch_add(1, Ordering::Relaxed));
            return exact.get(turn % exact.len()).map(|i| &self.exchanges[*i]);
        }
        prefer(&mut candidates);
        let wanted: BTreeSet<&str> = parameters(asked.target).collect();
        let best = candidates.into_iter().max_by_key(|i| {
            let target = String::from_utf8_lossy(self.exchanges[*i].target());
            let shared = parameters(&target).filter(|p| wanted.contains(p)).count();
            let common = target.bytes().zip(asked.target.bytes()).take_while(|(a, b)| a == b).count();
            // Of equals, the first.
            (shared, common, std::cmp::Reverse(*i))
        });
        best.map(|i| &self.exchanges[i])
    }
}

/// The target up to its query.
fn path(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// What of a path is the same at each visit: up to its first part with a parameter (`a=b`, or behind a semicolon), long
/// numbers apart. None if that is all of it.
fn stem(path: &str) -> Option<String> {
    let mut kept = String::new();
    for part in path.split_inclusive('/') {
        let name = part.split(';').next().unwrap_or_default();
        if !name.contains('=') {
            kept.push_str(name);
        }
        if part.contains(['=', ';']) {
            break;
        }
    }
    let mut stem = String::with_capacity(kept.len());
    let mut digits = String::new();
    for c in kept.chars().chain(['/']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        stem.push_str(if digits.len() >= LONG_NUMBER { "0" } else { &digits });
        digits.clear();
        stem.push(c);
    }
    stem.pop();
    (stem != path).then_some(stem)
}

/// Digits of a number that is another at each visit: seconds have ten; sizes, versions and most names fewer.
const LONG_NUMBER: usize = 8;

fn parameters(target: &str) -> impl Iterator<Item = &str> {
    // Those of a path, too, where it has any.
    target.split(['?', '&', ';', '/']).filter(|p| !p.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{exchange, sites};
    use super::*;

    fn recorded(targets: &[&str]) -> Answers {
        let number = |i: usize| [b'0' + i as u8];
        Answers::new(targets.iter().enumerate().map(|(i, t)| exchange("a.example", t, &[], &[], &number(i))).collect())
    }

    fn body(answers: &Answers, host: &str, method: &str, target: &str) -> Option<u8> {
        answers.find(RequestKey { host, method, target, scheme: Scheme::Http }).map(|e| e.response.body[0] - b'0')
    }

    #[test]
    fn an_exact_line_wins_then_shared_parameters_then_the_longest_beginning() {
        let answers = recorded(&["/x?a=1&b=2", "/x?t=99&b=2&c=3", "/x?a=1", "/y", "/x?zz=1234"]);
        let get = |target| body(&answers, "a.example", "GET", target);
        assert_eq!(get("/x?a=1"), Some(2));
        // Mahimahi would take the first, which begins alike, with every parameter but one wrong.
        assert_eq!(get("/x?t=1&c=3&b=2"), Some(1));
        assert_eq!(get("/x?zz=12"), Some(4));
        assert_eq!(get("/y?new"), Some(3));
        assert_eq!((get("/z"), get("/yy")), (None, None));
    }

    #[test]
    fn a_path_with_parameters_is_found_by_those_that_it_shares_and_by_nothing_else() {
        let answers = recorded(&[
            "/ad/3.0/size=300x75;alias=1;rnd=17",
            "/ad/3.0/size=61x21;alias=2;rnd=17",
            "/b/s69775061760974?t=1",
            "/",
            "/ad/3.0",
        ]);
        let get = |target| body(&answers, "a.example", "GET", target);
        assert_eq!(get("/ad/3.0/size=61x21;rnd=18;alias=2"), Some(1));
        assert_eq!(get("/ad/3.0/cfp=1;size=300x75;alias=1"), Some(0));
        assert_eq!(get("/b/s12345678901234?t=2"), Some(2));
        assert_eq!((get("/ad/4.0/size=61x21"), get("/c/s12345678901234"), get("/other=1")), (None, None, None));
    }

    #[test]
    fn the_part_of_a_path_that_stays_is_found() {
        assert_eq!(stem("/a/b.js"), None);
        assert_eq!(stem("/a/x=1;y=2").as_deref(), Some("/a/"));
        assert_eq!(stem("/a/b;y=2").as_deref(), Some("/a/b"));
        assert_eq!(stem("/x=1/y").as_deref(), Some("/"));
        assert_eq!(stem("/b/s69775061760974/z").as_deref(), Some("/b/s0/z"));
        assert_eq!(stem("/v1234567/z"), None);
    }

    #[test]
    fn hosts_are_compared_without_case_and_port_and_never_mixed_up() {
        let answers = recorded(&["/"]);
        assert_eq!(body(&answers, "A.Example:443", "GET", "/"), Some(0));
        assert_eq!(body(&answers, "b.example", "GET", "/"), None);
        assert_eq!(
            (body(&answers, "a.example", "HEAD", "/"), body(&answers, "a.example", "POST", "/")),
            (Some(0), None)
        );
    }

    #[test]
    fn a_request_that_was_recorded_twice_gets_its_answers_in_turn() {
        let answers = recorded(&["/poll", "/poll", "/other"]);
        let turns: Vec<_> = (0..3).map(|_| body(&answers, "a.example", "GET", "/poll")).collect();
        assert_eq!(turns, [Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn https_gets_what_was_recorded_over_https_where_both_were() {
        let mut all: Vec<Exchange> =
            ["/", "/", "/plain"].iter().map(|t| exchange("a.example", t, &[], &[], b"0")).collect();
        for (n, e) in all.iter_mut().enumerate() {
            e.response.body = vec![b'0' + n as u8];
        }
        all[1].scheme = Scheme::Https;
        let answers = Answers::new(all);
        let get = |target, scheme| {
            let asked = RequestKey { host: "a.example", method: "GET", target, scheme };
            answers.find(asked).map(|e| e.response.body[0] - b'0')
        };
        for _ in 0..2 {
            assert_eq!((get("/", Scheme::Http), get("/", Scheme::Https)), (Some(0), Some(1)));
            assert_eq!((get("/?new", Scheme::Http), get("/?new", Scheme::Https)), (Some(0), Some(1)));
        }
        assert_eq!(get("/plain", Scheme::Https), Some(2), "what was recorded plain alone is replayed over TLS");
    }

    #[test]
    fn every_request_of_the_labs_data_gets_its_own_answer() {
        for site in sites() {
            let answers = Answers::new(super::super::read(&site).unwrap().0);
            for e in answers.exchanges() {
                let (host, method) = (e.host(), String::from_utf8_lossy(e.request.word(0)).into_owned());
                let target = String::from_utf8_lossy(e.target()).into_owned();
                let found =
                    answers.find(RequestKey { host: &host, method: &method, target: &target, scheme: e.scheme });
                let found = found.unwrap_or_else(|| panic!("{}: {host}{target} has no answer", site.display()));
                assert_eq!(found.target(), e.target());
            }
        }
    }

    /// What a second visit changes: every number of more than nine digits, as in times and random numbers.
    #[test]
    fn nearly_every_request_of_the_labs_data_is_answered_when_its_long_numbers_change() {
        for site in sites() {
            let answers = Answers::new(super::super::read(&site).unwrap().0);
            let answered = answers.exchanges().iter().filter(|e| {
                let target = String::from_utf8_lossy(e.target()).into_owned();
                let (path, query) = target.split_once('?').map_or((&*target, None), |(p, q)| (p, Some(q)));
                let changed: String = query.map_or(String::new(), |q| {
                    let mut parts: Vec<String> = vec!["?".into()];
                    for part in q.split_inclusive(|c: char| !c.is_ascii_digit()) {
                        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
                        let long = digits > 9;
                        parts.push(if long { format!("1234567890{}", &part[digits..]) } else { part.to_owned() });
                    }
                    parts.concat()
                });
                let target = format!("{path}{changed}");
                let method = String::from_utf8_lossy(e.request.word(0)).into_owned();
                answers
                    .find(RequestKey { host: &e.host(), method: &method, target: &target, scheme: e.scheme })
                    .is_some()
            });
            let share = answered.count() as f64 / answers.exchanges().len() as f64;
            assert!(share >= 0.95, "{}: {share}", site.display());
        }
    }
}
