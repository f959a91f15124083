//! Page specs: sizes, timing and structure of real page loads, one page a line of JSON.
//!
//! The format is that of the lab's page data (version 1): hosts by number, objects in order of start, and for each object
//! what was measured of it and what it may have waited for. What no loader needs is passed over, so that fields may be
//! added. A line that is broken is an error with its file, line and column; the other lines are still read. What never
//! happens here: a line of any content panics, or a page comes out that contradicts itself.

use super::{Host, Kind, Object, Page, PageError, Protocol, Start};
use headstart_core::time::Duration;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The version of the format that is read.
const VERSION: u32 = 1;
/// Longest line that is looked at, in bytes: the largest page of the lab's data has 120 kB.
pub const MAX_LINE: usize = 4 << 20;
/// Most objects of a page: the largest page of the lab's data has 443.
pub const MAX_OBJECTS: usize = 10_000;
/// No gap and no server takes longer: a load event has come by then, or never does. In milliseconds.
const MAX_WAIT_MS: f64 = 60_000.0;
/// No response is larger, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Why a spec could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file could not be read at all.
    #[error("cannot read page specs from {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line is no spec.
    #[error("{}, byte {offset} (line {line}, column {column}): {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Byte of the file at which the line was given up.
        offset: u64,
        /// Number of the line, from 1.
        line: usize,
        /// Byte of the line, from 1.
        column: usize,
        /// Why.
        reason: String,
    },
}

/// Every page of `path`, and every line that is none. The error is for a file that could not be read.
pub fn read(path: &Path) -> Result<(Vec<Page>, Vec<SpecError>), SpecError> {
    let bytes =
        super::read_at_most(path, super::MAX_FILE).map_err(|source| SpecError::File { path: path.into(), source })?;
    Ok(parse(&bytes, path))
}

/// Every page in `bytes`, and every line that is none; `path` is only named.
pub fn parse(bytes: &[u8], path: &Path) -> (Vec<Page>, Vec<SpecError>) {
    let (mut pages, mut broken) = (Vec::new(), Vec::new());
    let mut offset = 0;
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if !line.trim_ascii().is_empty() {
            match parse_line(line) {
                Ok(page) => pages.push(page),
                Err((column, reason)) => {
                    let at = offset + column.saturating_sub(1) as u64;
                    broken.push(SpecError::Line { path: path.into(), offset: at, line: i + 1, column, reason });
                }
            }
        }
        offset += line.len() as u64 + 1;
    }
    (pages, broken)
}

/// The page of one line, or the byte at which it was given up, from 1, and why.
fn parse_line(line: &[u8]) -> Result<Page, (usize, String)> {
    if line.len() > MAX_LINE {
        return Err((MAX_LINE + 1, format!("a line of {} bytes; a page has at most {MAX_LINE}", line.len())));
    }
    let spec: Spec = serde_json::from_slice(line).map_err(|e| (e.column().max(1), e.to_string()))?;
    if spec.v != VERSION {
        return Err((1, format!("version {} of the format; this program reads version {VERSION}", spec.v)));
    }
    if spec.objs.len() > MAX_OBJECTS {
        return Err((1, format!("{} objects; a page has at most {MAX_OBJECTS}", spec.objs.len())));
    }
    let page = spec.page();
    page.check().map_err(|e: PageError| (1, e.to_string()))?;
    Ok(page)
}

#[derive(Deserialize)]
struct Spec {
    v: u32,
    id: String,
    name: Option<String>,
    site: String,
    main: usize,
    hosts: Vec<SpecHost>,
    objs: Vec<SpecObject>,
}

#[derive(Deserialize)]
struct SpecHost {
    #[serde(default)]
    leg: Option<f64>,
    #[serde(default)]
    own: u8,
}

/// Names are those of the format.
#[derive(Deserialize)]
struct SpecObject {
    o: usize,
    p: Protocol,
    t: Kind,
    s: u16,
    rq: u64,
    #[serde(default)]
    qb: u64,
    rh: u64,
    rb: u64,
    w: u64,
    par: i64,
    gap: f64,
    at: Option<f64>,
    g: Option<i64>,
    gg: Option<f64>,
    th: Option<f64>,
    sv: Option<f64>,
    pr: Option<String>,
}

impl Spec {
    fn page(self) -> Page {
        let host = |(i, h): (usize, &SpecHost)| Host {
            // Names of hosts are not in a spec: the page's own are numbered.
            name: format!("h{i}"),
            leg: wait(h.leg.unwrap_or(0.0)),
            own: h.own == 1,
        };
        Page {
            name: self.name.unwrap_or(self.id),
            site: self.site,
            main: self.main,
            hosts: self.hosts.iter().enumerate().map(host).collect(),
            objects: self.objs.iter().map(SpecObject::object).collect(),
        }
    }
}

impl SpecObject {
    fn object(&self) -> Object {
        let structure = start(self.par, self.gap, self.at);
        let gate = match self.g {
            Some(g) => start(g, self.gg.unwrap_or(0.0), None),
            None => structure,
        };
        Object {
            host: self.o,
            protocol: self.p,
            kind: self.t,
            status: self.s,
            request_bytes: self.rq.min(MAX_BYTES) + self.qb.min(MAX_BYTES),
            // What the browser reported; where it reported nothing, what the header says.
            response_bytes: if self.w > 0 { self.w } else { self.rh.saturating_add(self.rb) }.min(MAX_BYTES),
            // What the server says of itself, or an upper bound: what is not handshake in the wait for the first byte.
            think: wait(self.sv.or(self.th).unwrap_or(0.0)),
            urgency: urgency(self.pr.as_deref()).unwrap_or_else(|| self.t.urgency()),
            structure,
            gate,
        }
    }
}

/// Of a parent that was still arriving the share counts; where its arrival took no time there is none, and its end counts.
fn start(parent: i64, gap: f64, at: Option<f64>) -> Start {
    // A negative index is that of nothing; one that is too high is refused when the page is looked at.
    let Ok(parent) = usize::try_from(parent) else { return Start::AtOnce };
    match at.filter(|share| share.is_finite()) {
        Some(share) if gap < 0.0 => Start::During { parent, share: share.clamp(0.0, 1.0) },
        _ => Start::After { parent, gap: wait(gap) },
    }
}

fn wait(ms: f64) -> Duration {
    // A number that is none is no wait.
    Duration::from_secs_f64(if ms.is_finite() { ms.clamp(0.0, MAX_WAIT_MS) } else { 0.0 } / 1e3)
}

/// `0i`: urgency 0, incremental.
fn urgency(priority: Option<&str>) -> Option<u8> {
    let first = priority?.bytes().next()?;
    first.is_ascii_digit().then(|| (first - b'0').min(7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = r#"{"v":1,"id":"00","site":"5","main":0,"hosts":[{"h":"x","ip":[0],"leg":11.3,"own":1},{"h":"y","leg":null}],"objs":[{"i":0,"o":0,"p":"h2","t":"doc","s":200,"rq":630,"rh":989,"rb":44961,"w":45281,"par":-1,"gap":0,"th":6.8,"pr":"0i"},{"i":1,"o":1,"p":"h1","t":"js","s":200,"rq":500,"qb":20,"rh":400,"rb":600,"w":0,"par":0,"gap":-265.5,"at":0.026,"sv":2,"th":15.3},{"i":2,"o":0,"p":"h3","t":"img","s":200,"rq":500,"rh":400,"rb":600,"w":950,"par":0,"gap":20,"g":1,"gg":1.5,"new":true}]}"#;

    fn one(line: &str) -> Result<Page, String> {
        let (mut pages, broken) = parse(line.as_bytes(), Path::new("specs.jsonl"));
        broken.first().map_or_else(|| Ok(pages.remove(0)), |e| Err(e.to_string()))
    }

    #[test]
    fn a_line_becomes_a_page_with_both_readings() {
        let page = one(LINE).unwrap();
        assert_eq!(
            (page.name.as_str(), page.hosts.len(), page.hosts[0].own, page.hosts[1].own),
            ("00", 2, true, false)
        );
        assert_eq!(page.hosts[0].leg, Duration::from_micros(11_300));
        let [doc, js, img] = &page.objects[..] else { panic!("{page:?}") };
        assert_eq!((doc.structure, doc.response_bytes, doc.urgency), (Start::AtOnce, 45_281, 0));
        assert_eq!((js.request_bytes, js.response_bytes, js.think), (520, 1000, Duration::from_millis(2)));
        assert_eq!((js.structure, js.urgency), (Start::During { parent: 0, share: 0.026 }, 1));
        assert_eq!(js.gate, js.structure);
        assert_eq!(img.structure, Start::After { parent: 0, gap: Duration::from_millis(20) });
        assert_eq!(img.gate, Start::After { parent: 1, gap: Duration::from_micros(1500) });
    }

    #[test]
    fn a_broken_line_is_named_by_file_byte_and_reason_and_the_others_are_read() {
        let text = format!("{LINE}\n\n{}\n{LINE}\n", &LINE[..100]);
        let (pages, broken) = parse(text.as_bytes(), Path::new("pages/specs.jsonl"));
        assert_eq!((pages.len(), broken.len()), (2, 1));
        let said = broken[0].to_string();
        let at = LINE.len() + 2 + 99;
        assert!(said.starts_with(&format!("pages/specs.jsonl, byte {at} (line 3, column 100)")), "{said}");
        assert!(said.contains("EOF"), "{said}");
    }

    #[test]
    fn other_versions_and_pages_that_contradict_themselves_are_refused() {
        assert!(one(&LINE.replace("\"v\":1", "\"v\":2")).unwrap_err().contains("version 2"));
        assert!(one(&LINE.replace("\"par\":0", "\"par\":7")).unwrap_err().contains("parent 7"));
        assert!(one(&LINE.replace("\"o\":1", "\"o\":9")).unwrap_err().contains("host 9"));
        assert!(one(&LINE.replace("\"main\":0", "\"main\":3")).unwrap_err().contains("main document 3"));
        let long = format!("{{\"v\":1,\"id\":\"{}\"}}", "x".repeat(MAX_LINE));
        assert!(one(&long).unwrap_err().contains("at most"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let said = read(Path::new("nowhere/specs.jsonl")).unwrap_err().to_string();
        assert!(said.contains("nowhere/specs.jsonl"), "{said}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes, Path::new("x"));
        }

        #[test]
        fn no_change_of_a_spec_panics_or_yields_a_page_that_contradicts_itself(
            at in 0..LINE.len(), with in any::<u8>(), cut in 0..LINE.len(),
        ) {
            let mut bytes = LINE.as_bytes().to_vec();
            bytes[at] = with;
            for bytes in [&bytes[..], &bytes[..cut]] {
                for page in parse(bytes, Path::new("x")).0 {
                    prop_assert!(page.check().is_ok());
                }
            }
        }

        #[test]
        fn no_number_is_too_large_or_too_small(number in any::<f64>(), index in any::<i64>()) {
            for (from, to) in [("11.3", number.to_string()), ("-265.5", number.to_string()), ("\"par\":0", format!("\"par\":{index}"))] {
                let _ = one(&LINE.replace(from, &to));
            }
        }
    }
}
