//! What is guessed of an object before it comes: its size, by those that came before, and how urgent it is, by its request.

use headstart_core::steer::object::{Sizes, URGENCY, urgency};
use headstart_core::steer::policy::Object;
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

/// The urgency of documents and style sheets where a request says none: Chromium gives them its highest priority.
const FIRST: u8 = 0;

/// See the module.
pub struct Guess {
    /// Keyed anew each run: nobody chooses the places of addresses in a table.
    keys: RandomState,
    sizes: Mutex<Sizes>,
}

impl Guess {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self { keys: RandomState::new(), sizes: Mutex::default() }
    }

    /// The key of an object, by its URL, or by the host and port of what cannot be looked into.
    pub fn key(&self, what: &str) -> u64 {
        self.keys.hash_one(what)
    }

    /// An object came with so many bytes.
    pub fn learn(&self, key: u64, bytes: u64) {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).learn(key, bytes);
    }

    /// What is expected of the object that `headers` ask for.
    pub fn object(&self, key: u64, headers: &HeaderMap) -> Object {
        let bytes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner).expect(key);
        Object { bytes, urgency: urgent(headers) }
    }
}

/// By its own words (RFC 9218), else by what kind of thing is asked for.
fn urgent(headers: &HeaderMap) -> u8 {
    let says = headers.get("priority").and_then(|value| urgency(value.as_bytes()));
    let destination = headers.get("sec-fetch-dest").map(|value| value.as_bytes());
    let accepts = |kind: &[u8]| headers.get(ACCEPT).is_some_and(|value| value.as_bytes().starts_with(kind));
    says.unwrap_or_else(|| match destination {
        Some(b"document" | b"style") => FIRST,
        Some(_) => URGENCY,
        None if accepts(b"text/html") || accepts(b"text/css") => FIRST,
        None => URGENCY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn a_request_says_how_urgent_it_is_or_what_kind_of_thing_it_wants() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let pairs = headers
                .iter()
                .map(|(name, value)| (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value)));
            urgent(&pairs.collect())
        };
        assert_eq!(of(&[("priority", "u=2, i"), ("accept", "text/html")]), 2);
        assert_eq!(of(&[("priority", "i"), ("sec-fetch-dest", "document")]), 0);
        assert_eq!(of(&[("sec-fetch-dest", "image"), ("accept", "text/html")]), URGENCY);
        assert_eq!((of(&[("accept", "text/css,*/*;q=0.1")]), of(&[("accept", "*/*")]), of(&[])), (0, URGENCY, URGENCY));
    }

    #[test]
    fn what_came_is_expected_again() {
        let guess = Guess::new();
        let key = guess.key("http://a.example/x");
        assert_eq!(guess.object(key, &HeaderMap::new()).bytes, None);
        guess.learn(key, 700);
        assert_eq!(guess.object(key, &HeaderMap::new()).bytes, Some(700));
        assert_eq!(guess.object(guess.key("http://a.example/y"), &HeaderMap::new()).bytes, None);
    }
}
