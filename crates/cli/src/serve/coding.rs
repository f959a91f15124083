//! Content codings (RFC 9110, section 8.4): a file is answered by what lies compressed beside it (`a.js.br`, `a.js.zst`, `a.js.gz`), if the
//! client takes that and it is no older. Text without such a file is compressed when it is asked for ([`super::compressed`]).

use super::file::Opened;
use super::site::{Found, Site};
use headstart_core::wire::target::Target;
use hyper::header::{self, HeaderMap};

/// A coding and the ending of its files; the smallest first.
const ALL: &[(&str, &str)] = &[("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// What lies beside `file`, found at `target`, in the coding that the client likes best, and that coding's name.
pub fn beside(site: &Site, target: &Target, file: &Opened, headers: &HeaderMap) -> Option<(Opened, &'static str)> {
    liked(headers).into_iter().find_map(|(coding, ending)| {
        let mut names = target.names.clone();
        if target.is_folder {
            names.push(b"index.html".to_vec());
        }
        names.last_mut()?.extend_from_slice(ending.as_bytes());
        match site.find(&Target { names, is_folder: false }) {
            Found::File(coded) if coded.modified >= file.modified => {
                Some((Opened { kind: file.kind.clone(), ..coded }, coding))
            }
            _ => None,
        }
    })
}

/// Whether the client takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    liked(headers).iter().any(|(coding, _)| *coding == "gzip")
}

/// The codings that Accept-Encoding takes, the best first (RFC 9110, section 12.5.3).
fn liked(headers: &HeaderMap) -> Vec<(&'static str, &'static str)> {
    let lists: Vec<&str> =
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok()).collect();
    let weight = |coding: &str| {
        let named = |name: &str| lists.iter().flat_map(|list| list.split(',')).find_map(|item| weighed(item, name));
        // gzip has an old name.
        let old = if coding == "gzip" { named("x-gzip") } else { None };
        named(coding).or(old).or_else(|| named("*")).unwrap_or(0.0)
    };
    let mut liked: Vec<_> =
        ALL.iter().map(|entry| (weight(entry.0), *entry)).filter(|(weight, _)| *weight > 0.0).collect();
    // Equals stay as they are.
    liked.sort_by(|a, b| b.0.total_cmp(&a.0));
    liked.into_iter().map(|(_, entry)| entry).collect()
}

/// How much `item` of a list likes the coding `name`; `None` if it is of another.
fn weighed(item: &str, name: &str) -> Option<f64> {
    let mut parts = item.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(name) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    // What is no number is not wanted.
    Some(weight.map_or(1.0, |weight| weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn names(lists: &[&str]) -> Vec<&'static str> {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(list).unwrap());
        }
        liked(&headers).into_iter().map(|(coding, _)| coding).collect()
    }

    #[test]
    fn the_client_s_weights_decide_and_among_equals_the_smallest() {
        assert_eq!(names(&["gzip, deflate, br, zstd"]), ["br", "zstd", "gzip"]);
        assert_eq!(names(&["gzip;q=1.0, br;q=0.5", "zstd; q=0"]), ["gzip", "br"]);
        assert_eq!(names(&["*"]), ["br", "zstd", "gzip"]);
        assert_eq!(names(&["*;q=0.1, x-gzip, BR;q=0"]), ["gzip", "zstd"]);
        assert_eq!((names(&[]), names(&[""]), names(&["identity"])), (vec![], vec![], vec![]));
        assert_eq!(names(&["br;q=nonsense, gzip;q=2, zstd;q=-1"]), [""; 0]);
    }
}
