//! A recording as a page to be loaded: its objects, sizes and kinds, and which object asked for which.
//!
//! A recording has no order and no timing. What an object waits for is what its `Referer` names: the page, a style sheet, a
//! script or a frame; an answer that redirects is waited for by what it names; the rest waits for the document. Style
//! sheets and scripts of the document may start while it arrives, as a browser's preload scanner has it; what a server
//! takes is not in a recording, and is nothing here but what is behind a cache that did not have the answer
//! ([`super::cache`]). Both readings are one.

use super::super::{Host, Kind, Object, Page, Protocol, Start};
use super::{Exchange, Scheme};
use headstart_core::time::Duration;
use std::collections::HashMap;

/// Share of a document after which what it names in its head is asked for: its beginning.
const HEAD: f64 = 0.1;

/// The page of a recording whose document is at `root` (`http://www.example.org/`); over HTTP/2 if `protocol` says so.
/// `None` if nothing was recorded there.
pub fn page(name: &str, exchanges: &[Exchange], root: &str, protocol: Protocol) -> Option<Page> {
    page_in_order(name, exchanges, root, protocol).map(|(page, _)| page)
}

/// As [`page`], and which exchange each object of it is.
pub fn page_in_order(name: &str, exchanges: &[Exchange], root: &str, protocol: Protocol) -> Option<(Page, Vec<usize>)> {
    let urls: Vec<String> = exchanges.iter().map(url).collect();
    let place: HashMap<&str, usize> = urls.iter().enumerate().rev().map(|(i, u)| (plain(u), i)).collect();
    let first = *place.get(plain(root))?;
    let redirect: HashMap<usize, usize> = (0..exchanges.len())
        .filter_map(|i| {
            let to = exchanges[i].response.field("location")?;
            let to = absolute(&urls[i], &String::from_utf8_lossy(to));
            Some((*place.get(plain(&to))?, i))
        })
        .collect();
    let document = behind_redirects(first, &redirect, exchanges.len());
    let parent = |i: usize| -> Option<usize> {
        if i == first {
            return None;
        }
        let referer = exchanges[i].request.field("referer").map(String::from_utf8_lossy);
        let named = referer.and_then(|r| place.get(plain(&r)).copied());
        redirect.get(&i).copied().or(named).filter(|p| *p != i).or(Some(if i == document { first } else { document }))
    };
    let order = behind_parents(exchanges.len(), first, document, parent);
    let place_of: HashMap<usize, usize> = order.iter().enumerate().map(|(n, i)| (*i, n)).collect();
    let mut hosts: Vec<String> = Vec::new();
    let objects = order.iter().map(|i| {
        let exchange = &exchanges[*i];
        let name = exchange.host();
        let host = hosts.iter().position(|h| *h == name).unwrap_or_else(|| {
            hosts.push(name);
            hosts.len() - 1
        });
        let kind = if *i == first || *i == document { Kind::Doc } else { kind(exchange) };
        // A cycle of referers was broken where it closed: the later object waits for the document.
        let before = parent(*i).and_then(|p| place_of.get(&p)).filter(|p| **p < place_of[i]);
        let start = match before {
            None if *i == first => Start::AtOnce,
            None => Start::After { parent: place_of[&first], gap: Duration::ZERO },
            Some(p) if order[*p] == document && matches!(kind, Kind::Css | Kind::Js) => {
                Start::During { parent: *p, share: HEAD }
            }
            Some(p) => Start::After { parent: *p, gap: Duration::ZERO },
        };
        Object {
            host,
            protocol,
            kind,
            status: exchange.response.status().unwrap_or(200),
            request_bytes: exchange.request.head_bytes() + exchange.request.body.len() as u64,
            response_bytes: exchange.response.head_bytes() + exchange.response.body.len() as u64,
            think: exchange.behind(),
            urgency: kind.urgency(),
            structure: start,
            gate: start,
        }
    });
    let objects: Vec<Object> = objects.collect();
    let own = hosts.first().cloned().unwrap_or_default();
    let host = |name: String| Host { own: name == own, name, leg: Duration::ZERO };
    let hosts = hosts.into_iter().map(host).collect();
    Some((Page { name: name.into(), site: name.into(), main: place_of[&document], hosts, objects }, order))
}

/// The document behind the redirects of `first`, which each exchange that is led to names; at most `most` of them, so not round and round.
fn behind_redirects(first: usize, redirect: &HashMap<usize, usize>, most: usize) -> usize {
    let mut document = first;
    for _ in 0..most {
        match redirect.iter().find(|(to, from)| **from == document && **to != first) {
            Some((to, _)) => document = *to,
            None => break,
        }
    }
    document
}

/// Indices in an order in which parents come first, as far as there is one.
fn behind_parents(count: usize, first: usize, document: usize, parent: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut order = vec![first];
    let mut placed = vec![false; count];
    placed[first] = true;
    for start in [document].into_iter().chain(0..count) {
        let (mut chain, mut at) = (Vec::new(), start);
        while !placed[at] && !chain.contains(&at) {
            chain.push(at);
            match parent(at) {
                Some(p) => at = p,
                None => break,
            }
        }
        for i in chain.into_iter().rev() {
            placed[i] = true;
            order.push(i);
        }
    }
    order
}

fn url(exchange: &Exchange) -> String {
    let scheme = if exchange.scheme == Scheme::Http { "http" } else { "https" };
    format!("{scheme}://{}{}", exchange.host(), String::from_utf8_lossy(exchange.target()))
}

/// Without scheme and fragment: a page that was redirected from one to the other is the same page.
fn plain(url: &str) -> &str {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url)
}

fn absolute(base: &str, to: &str) -> String {
    let origin_end = base.find("://").map_or(0, |at| at + 3);
    let origin_end = base[origin_end..].find('/').map_or(base.len(), |at| origin_end + at);
    match to {
        _ if to.contains("://") => to.to_owned(),
        _ if to.starts_with("//") => format!("http:{to}"),
        _ => format!("{}/{}", &base[..origin_end], to.trim_start_matches('/')),
    }
}

/// By its type; where there is none, by its name.
fn kind(exchange: &Exchange) -> Kind {
    let of = exchange.response.field("content-type").unwrap_or_default().to_ascii_lowercase();
    let of = String::from_utf8_lossy(&of).into_owned();
    let target = String::from_utf8_lossy(exchange.target()).to_ascii_lowercase();
    let path = target.split('?').next().unwrap_or_default();
    let ends = |with: &[&str]| with.iter().any(|w| path.ends_with(w));
    if of.contains("css") || ends(&[".css"]) {
        Kind::Css
    } else if of.contains("javascript") || ends(&[".js"]) {
        Kind::Js
    } else if of.starts_with("image/") {
        Kind::Img
    } else if of.contains("font") || ends(&[".woff", ".woff2", ".ttf", ".eot"]) {
        Kind::Font
    } else if of.starts_with("video/") || of.starts_with("audio/") {
        Kind::Media
    } else if of.contains("html") {
        Kind::Frame
    } else if of.contains("json") || of.contains("xml") {
        Kind::Xhr
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Dependency;
    use super::super::tests::{exchange, sites};
    use super::*;

    fn redirect(host: &str, target: &str, to: &str) -> Exchange {
        let mut e = exchange(host, target, &[], &[("Location", to)], b"");
        e.response.first_line = b"HTTP/1.1 302 Found".to_vec();
        e
    }

    #[test]
    fn referers_and_redirects_say_who_waits_for_whom() {
        let page_url = [("Referer", "http://www.a.example/home")];
        let all = [
            exchange(
                "img.a.example",
                "/i.png",
                &[("Referer", "http://cdn.example/s.css")],
                &[("Content-Type", "image/png")],
                b"x",
            ),
            exchange("cdn.example", "/s.css", &page_url, &[("Content-Type", "text/css")], b"x"),
            exchange("www.a.example", "/home", &[], &[("Content-Type", "text/html")], b"x"),
            redirect("a.example", "/", "http://www.a.example/home"),
        ];
        let p = page("a", &all, "http://a.example/", Protocol::Http2).unwrap();
        assert_eq!(p.check(), Ok(()));
        let kinds: Vec<Kind> = p.objects.iter().map(|o| o.kind).collect();
        assert_eq!(kinds, [Kind::Doc, Kind::Doc, Kind::Css, Kind::Img].map(|k| k));
        assert_eq!((p.main, p.depth(Dependency::Structure)), (1, 3));
        assert_eq!(p.objects[2].structure, Start::During { parent: 1, share: HEAD });
        assert!(page("a", &all, "http://b.example/", Protocol::Http1).is_none());
    }

    #[test]
    fn circles_of_referers_and_of_redirects_end() {
        let circle = [
            exchange("a", "/", &[("Referer", "http://a/1")], &[], b""),
            exchange("a", "/1", &[("Referer", "http://a/2")], &[], b""),
            exchange("a", "/2", &[("Referer", "http://a/1")], &[], b""),
            redirect("a", "/3", "/4"),
            redirect("a", "/4", "/3"),
        ];
        for root in ["http://a/", "http://a/3", "http://a/1"] {
            let p = page("a", &circle, root, Protocol::Http1).unwrap();
            assert_eq!((p.check(), p.objects.len()), (Ok(()), 5), "{root}");
        }
    }

    #[test]
    fn every_recording_of_the_labs_data_is_a_page() {
        for site in sites() {
            let (exchanges, _) = super::super::read(&site).unwrap();
            let name = site.file_name().unwrap().to_string_lossy().into_owned();
            let manifest = std::fs::read(site.parent().unwrap().join("manifest.json")).unwrap();
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
            let root = manifest[&name]["root"].as_str().unwrap();
            let p = page(&name, &exchanges, root, Protocol::Http1).unwrap_or_else(|| panic!("{name}: no {root}"));
            assert_eq!((p.check(), p.objects.len()), (Ok(()), exchanges.len()), "{name}");
            assert!(p.depth(Dependency::Structure) > 0, "{name}");
        }
    }
}
