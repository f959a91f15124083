//! What is guessed of an object before it comes: its size, by those that came before (in earlier runs too), and how urgent it
//! is, by its request.

use headstart_core::steer::object::{Sizes, URGENCY, urgency};
use headstart_core::steer::policy::Object;
use headstart_io::store::objects::{Keys, Objects};
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The urgency of documents and style sheets where a request says none: Chromium gives them its highest priority.
const FIRST: u8 = 0;

/// See the module.
pub struct Guess {
    keys: Keys,
    sizes: Mutex<Sizes>,
    /// Where sizes are kept; none if nothing is to be.
    store: Option<Mutex<Objects>>,
    /// Something came since sizes were kept last.
    news: AtomicBool,
}

impl Guess {
    /// What is kept in `folder` is known; without one nothing is, and nothing will be kept. With it what went wrong, in words.
    pub fn new(folder: Option<PathBuf>) -> io::Result<(Self, Vec<String>)> {
        let mut store = folder.map(Objects::in_folder);
        let mut sizes = Sizes::default();
        // Without its key a store keeps nothing that could be found again.
        let kept = store.as_mut().and_then(Objects::keys);
        if let (Some(store), Some(_)) = (&mut store, &kept) {
            store.load(&mut sizes);
        }
        let notes = store.as_mut().map(Objects::notes).unwrap_or_default();
        let store = store.filter(|_| kept.is_some()).map(Mutex::new);
        let keys = kept.map_or_else(Keys::fresh, Ok)?;
        Ok((Self { keys, sizes: Mutex::new(sizes), store, news: AtomicBool::new(false) }, notes))
    }

    /// The key of an object, by its URL, or by the host and port of what cannot be looked into.
    pub fn key(&self, what: &str) -> u64 {
        self.keys.of(what)
    }

    /// An object came with so many bytes.
    pub fn learn(&self, key: u64, bytes: u64) {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).learn(key, bytes);
        self.news.store(true, Ordering::Relaxed);
    }

    /// Keeps what is new, which takes as long as a disk does; what went wrong.
    pub fn keep(&self) -> Vec<String> {
        let Some(store) = &self.store else { return Vec::new() };
        if !self.news.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
        if !store.save(&sizes) {
            self.news.store(true, Ordering::Relaxed);
        }
        store.notes()
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
    fn what_came_is_expected_again_by_the_next_run_too() {
        let folder = std::env::temp_dir().join(format!("headstart-guess-{}", std::process::id()));
        let begin = || Guess::new(Some(folder.clone())).unwrap().0;
        let guess = begin();
        guess.learn(guess.key("http://a.example/x"), 700);
        assert_eq!(guess.keep(), [""; 0]);
        let next = begin();
        assert_eq!(next.object(next.key("http://a.example/x"), &HeaderMap::new()).bytes, Some(700));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_came_is_expected_again() {
        let (guess, _) = Guess::new(None).unwrap();
        let key = guess.key("http://a.example/x");
        assert_eq!(guess.object(key, &HeaderMap::new()).bytes, None);
        guess.learn(key, 700);
        assert_eq!(guess.object(key, &HeaderMap::new()).bytes, Some(700));
        assert_eq!(guess.object(guess.key("http://a.example/y"), &HeaderMap::new()).bytes, None);
    }
}
