//! HAR 1.2: what browsers' developer tools and WebPageTest write of a page load, read as a page.
//!
//! An object waits for what its `_initiator` names (Chromium writes one), else for its `Referer`, else for the document, in
//! each case only if that began before it. How long after: what the times of the archive say. The time of a server is the
//! wait for the first byte, an upper bound, since the way there and back is in it. What is missing is zero, what is not a
//! number is no number; a file that is no archive is an error with its line and column. Nothing in it makes this panic.

use super::{Host, Kind, Object, Page, PageError, Protocol, Start};
use headstart_core::time::Duration;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Most entries that are read.
pub const MAX_ENTRIES: usize = 10_000;
/// No wait and no gap is longer, in ms: as in page specs.
const MAX_WAIT_MS: f64 = 60_000.0;

/// Why an archive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    /// The system refused.
    #[error("reading {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is no archive.
    #[error("{}, line {line}, column {column}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// It is one, and no page can be made of it.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The page that the archive `path` is of: its first page, if it has several.
pub fn read(path: &Path) -> Result<Page, HarError> {
    let io = |source| HarError::Io { path: path.into(), source };
    parse(&super::read_at_most(path, super::MAX_FILE).map_err(io)?, path)
}

/// The same of an archive in memory; `path` is only named.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Page, HarError> {
    let har: Har = serde_json::from_slice(bytes).map_err(|e| HarError::Json {
        path: path.into(),
        line: e.line(),
        column: e.column(),
        reason: e.to_string(),
    })?;
    let content = |reason: String| HarError::Content { path: path.into(), reason };
    let first = har.log.entries.iter().find_map(|e| e.pageref.clone());
    let mut entries: Vec<(f64, HarEntry)> = Vec::new();
    for entry in har.log.entries {
        let of_page = first.is_none() || entry.pageref == first;
        if of_page && entry.request.url.starts_with("http") && entry.response.status > 0 {
            let at = moment(&entry.started)
                .ok_or_else(|| content(format!("'{}' is not a time", entry.started.escape_debug())))?;
            entries.push((at, entry));
        }
    }
    if entries.len() > MAX_ENTRIES {
        return Err(content(format!("{} entries; a page has at most {MAX_ENTRIES}", entries.len())));
    }
    entries.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = path.file_stem().map_or_else(|| "har".into(), |n| n.to_string_lossy().into_owned());
    let page = page(&name, &entries);
    page.check().map_err(|e: PageError| content(e.to_string()))?;
    Ok(page)
}

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
struct HarEntry {
    pageref: Option<String>,
    #[serde(rename = "startedDateTime")]
    started: String,
    request: Request,
    response: Response,
    #[serde(default)]
    timings: Timings,
    #[serde(default)]
    time: Option<f64>,
    #[serde(rename = "_initiator")]
    initiator: Option<Initiator>,
}

#[derive(Deserialize)]
struct Request {
    url: String,
    #[serde(rename = "httpVersion", default)]
    version: String,
    #[serde(default)]
    headers: Vec<Field>,
    #[serde(rename = "headersSize", default)]
    header: Option<f64>,
    #[serde(rename = "bodySize", default)]
    body: Option<f64>,
}

#[derive(Deserialize)]
struct Response {
    status: u16,
    #[serde(rename = "httpVersion", default)]
    version: String,
    #[serde(rename = "headersSize", default)]
    header: Option<f64>,
    #[serde(rename = "bodySize", default)]
    body: Option<f64>,
    #[serde(rename = "_transferSize", default)]
    transferred: Option<f64>,
    #[serde(default)]
    content: Content,
    #[serde(rename = "redirectURL", default)]
    redirect: String,
}

#[derive(Default, Deserialize)]
struct Content {
    #[serde(rename = "mimeType", default)]
    kind: String,
    #[serde(default)]
    size: Option<f64>,
}

#[derive(Default, Deserialize)]
struct Timings {
    #[serde(default)]
    wait: Option<f64>,
    #[serde(default)]
    receive: Option<f64>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Initiator {
    #[serde(default)]
    url: Option<String>,
}

impl HarEntry {
    fn sizes(&self) -> (u64, u64) {
        // -1: not known.
        let known = |v: Option<f64>| v.filter(|v| v.is_finite() && *v > 0.0);
        let request = known(self.request.header).unwrap_or(500.0) + known(self.request.body).unwrap_or(0.0);
        let (header, body) = (known(self.response.header), known(self.response.body));
        let body = body.or(known(self.response.content.size)).unwrap_or(0.0);
        let response = known(self.response.transferred).unwrap_or(header.unwrap_or(500.0) + body);
        (request.min(1e9) as u64, response.min(1e9) as u64)
    }

    fn protocol(&self) -> Protocol {
        let version = if self.response.version.is_empty() { &self.request.version } else { &self.response.version };
        match version.to_ascii_lowercase() {
            v if v.contains("3") || v.starts_with("quic") => Protocol::Http3,
            v if v.contains("2") => Protocol::Http2,
            _ => Protocol::Http1,
        }
    }

    fn kind(&self, is_document: bool) -> Kind {
        let of = self.response.content.kind.to_ascii_lowercase();
        if is_document {
            Kind::Doc
        } else if of.contains("css") {
            Kind::Css
        } else if of.contains("javascript") || of.contains("ecmascript") {
            Kind::Js
        } else if of.starts_with("image/") {
            Kind::Img
        } else if of.contains("font") {
            Kind::Font
        } else if of.starts_with("video/") || of.starts_with("audio/") {
            Kind::Media
        } else if of.contains("html") {
            Kind::Frame
        } else if of.contains("json") || of.contains("xml") || of.contains("plain") {
            Kind::Xhr
        } else {
            Kind::Other
        }
    }

    fn host(&self) -> &str {
        let rest = self.request.url.split_once("://").map_or("", |(_, rest)| rest);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host)
    }

    fn referer(&self) -> Option<&str> {
        self.request.headers.iter().find(|f| f.name.eq_ignore_ascii_case("referer")).map(|f| f.value.as_str())
    }
}

fn page(name: &str, entries: &[(f64, HarEntry)]) -> Page {
    let fragmentless = |url: &str| url.split_once('#').map_or(url, |(url, _)| url).to_owned();
    let urls: Vec<String> = entries.iter().map(|(_, e)| fragmentless(&e.request.url)).collect();
    // The document is what the redirects of the first entry end in.
    let mut main = 0;
    while let Some((_, entry)) = entries.get(main)
        && !entry.response.redirect.is_empty()
        && let Some(next) = (main + 1..entries.len()).find(|i| urls[*i] == fragmentless(&entry.response.redirect))
    {
        main = next;
    }
    let mut hosts: Vec<String> = Vec::new();
    let mut objects = Vec::with_capacity(entries.len());
    for (i, (at, entry)) in entries.iter().enumerate() {
        let host = hosts.iter().position(|h| h == entry.host()).unwrap_or_else(|| {
            hosts.push(entry.host().to_owned());
            hosts.len() - 1
        });
        let before = |url: &str| (0..i).rev().find(|j| urls[*j] == fragmentless(url));
        let redirected = (0..i).rev().find(|j| {
            let to = &entries[*j].1.response.redirect;
            !to.is_empty() && fragmentless(to) == urls[i]
        });
        let named = entry.initiator.as_ref().and_then(|n| n.url.as_deref()).and_then(before);
        let parent = redirected.or(named).or_else(|| entry.referer().and_then(before));
        let start = match parent.or((i > 0).then_some(main.min(i.saturating_sub(1)))) {
            None => Start::AtOnce,
            Some(parent) => start(parent, &entries[parent], *at),
        };
        let (request_bytes, response_bytes) = entry.sizes();
        let kind = entry.kind(i <= main && (i == 0 || redirected.is_some()));
        objects.push(Object {
            host,
            protocol: entry.protocol(),
            kind,
            status: entry.response.status,
            request_bytes,
            response_bytes,
            think: wait(entry.timings.wait.unwrap_or(0.0)),
            urgency: kind.urgency(),
            structure: start,
            gate: start,
        });
    }
    let own = hosts.first().cloned().unwrap_or_default();
    let host = |name: String| Host { own: name == own, name, leg: Duration::ZERO };
    Page { name: name.into(), site: name.into(), main, hosts: hosts.into_iter().map(host).collect(), objects }
}

fn start(parent: usize, (began, of): &(f64, HarEntry), at: f64) -> Start {
    let number = |v: Option<f64>| v.filter(|v| v.is_finite() && *v > 0.0).unwrap_or(0.0);
    let end = began + number(of.time);
    let receive = number(of.timings.receive);
    if at < end && receive > 0.0 {
        return Start::During { parent, share: ((at - (end - receive)) / receive).clamp(0.0, 1.0) };
    }
    Start::After { parent, gap: wait(at - end) }
}

fn wait(ms: f64) -> Duration {
    Duration::from_secs_f64(if ms.is_finite() { ms.clamp(0.0, MAX_WAIT_MS) } else { 0.0 } / 1e3)
}

/// Milliseconds of `2026-11-21T22:55:00.123Z` (or with `+01:00`), from some origin of all.
fn moment(text: &str) -> Option<f64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u32>().ok().map(f64::from);
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute) = (number(11..13)?, number(14..16)?);
    let rest = text.get(17..)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let seconds: f64 = rest[..end].parse().ok()?;
    let zone = &rest[end..];
    let offset = match zone.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => {
            let of = |range: std::ops::Range<usize>| zone.get(range)?.parse::<u32>().ok().map(f64::from);
            let minutes = of(1..3)? * 60.0 + of(4..6).or_else(|| of(3..5)).unwrap_or(0.0);
            if *sign == b'+' { minutes } else { -minutes }
        }
        None | Some(b'Z' | b'z') => 0.0,
        Some(_) => return None,
    };
    // Days since a March 1st (Howard Hinnant's days_from_civil); a page load is not longer than its own day anyway.
    let (y, m) = if month <= 2.0 { (year - 1.0, month + 9.0) } else { (year, month - 3.0) };
    let days =
        (365.25 * y).floor() - (y / 100.0).floor() + (y / 400.0).floor() + ((153.0 * m + 2.0) / 5.0).floor() + day;
    Some((((days * 24.0 + hour) * 60.0 + minute - offset) * 60.0 + seconds) * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(at: &str, url: &str, more: &str, response: &str) -> String {
        format!(
            r#"{{"pageref":"p","startedDateTime":"2026-11-21T22:55:0{at}Z","time":100,"request":{{"method":"GET","url":"{url}","httpVersion":"h2","headers":[{more}],"headersSize":-1,"bodySize":0}},"response":{{"status":200,"httpVersion":"h2","headersSize":-1,"bodySize":5000,"_transferSize":5400,{response}}},"timings":{{"wait":20,"receive":50}}}}"#
        )
    }

    fn archive() -> String {
        let html = r#""content":{"mimeType":"text/html","size":9},"redirectURL":"""#;
        let entries = [
            entry("0.000", "https://a.example/", "", r#""content":{},"redirectURL":"https://www.a.example/""#),
            entry("0.100", "https://www.a.example/", "", html),
            entry(
                "0.175",
                "https://cdn.example/s.css",
                r#"{"name":"Referer","value":"https://www.a.example/"}"#,
                r#""content":{"mimeType":"text/css"}"#,
            ),
            entry(
                "0.300",
                "https://cdn.example/i.png",
                r#"{"name":"referer","value":"https://cdn.example/s.css"}"#,
                r#""content":{"mimeType":"image/png"}"#,
            ),
        ];
        format!(r#"{{"log":{{"version":"1.2","entries":[{}]}}}}"#, entries.join(","))
    }

    #[test]
    fn an_archive_becomes_a_page() {
        let p = parse(archive().as_bytes(), Path::new("x/shop.har")).unwrap();
        assert_eq!((p.name.as_str(), p.main, p.hosts.len(), p.objects.len()), ("shop", 1, 3, 4));
        let kinds: Vec<Kind> = p.objects.iter().map(|o| o.kind).collect();
        assert_eq!(kinds, [Kind::Doc, Kind::Doc, Kind::Css, Kind::Img]);
        assert_eq!(p.objects[1].structure, Start::After { parent: 0, gap: Duration::ZERO });
        let Start::During { parent: 1, share } = p.objects[2].structure else { panic!("{:?}", p.objects[2]) };
        assert!((share - 0.5).abs() < 1e-6, "{share}");
        let Start::After { parent: 2, gap } = p.objects[3].structure else { panic!("{:?}", p.objects[3]) };
        assert_eq!(gap.as_millis(), 25);
        assert_eq!((p.objects[0].response_bytes, p.objects[0].protocol), (5400, Protocol::Http2));
    }

    #[test]
    fn times_are_read_with_their_zone() {
        let at = |t| moment(t).unwrap();
        assert_eq!(at("2026-11-21T22:55:00.250Z") - at("2026-11-21T22:54:59Z"), 1250.0);
        assert_eq!(at("2026-11-22T00:55:00+02:00"), at("2026-11-21T22:55:00Z"));
        assert_eq!(at("2026-03-01T00:00:00Z") - at("2026-02-28T23:59:59Z"), 1000.0);
        assert_eq!((moment("yesterday"), moment("2026-11-21T22:55:0é")), (None, None));
    }

    #[test]
    fn what_is_no_archive_is_named_with_its_place() {
        let said = |bytes: &str| parse(bytes.as_bytes(), Path::new("a.har")).unwrap_err().to_string();
        assert!(said(&archive()[..50]).starts_with("a.har, line 1, column 50"));
        assert!(said("{}").contains("missing field `log`"));
        assert!(said(r#"{"log":{"entries":[]}}"#).contains("no objects"));
        assert!(said(&archive().replace("2026-11-21T22:55:00.300Z", "never")).contains("'never' is not a time"));
        assert!(read(Path::new("nowhere.har")).unwrap_err().to_string().contains("nowhere.har"));
    }

    proptest! {
        #[test]
        fn no_bytes_and_no_change_of_an_archive_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..3000, with in any::<u8>()) {
            let _ = parse(&bytes, Path::new("x"));
            let mut changed = archive().into_bytes();
            let at = at % changed.len();
            changed[at] = with;
            if let Ok(page) = parse(&changed, Path::new("x")) {
                prop_assert!(page.check().is_ok());
            }
        }
    }
}
