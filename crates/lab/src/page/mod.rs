//! Pages: what a page load is made of, without its content.
//!
//! A [`Page`] says which objects a page has, which host each comes from, how large it is, how long its server takes, and
//! what it has to wait for. It comes from one of three places: a page spec ([`spec`]: a real load, measured), a recording,
//! or the generator ([`synthetic`]: the project's own pages). Nothing here loads anything.
//!
//! What a browser waits for before it asks for an object is never known with certainty. A page therefore carries two
//! readings ([`Dependency`]), a loose and a serial bound; a gain is one only if both show it.

pub mod content;
pub mod har;
pub mod recording;
pub mod spec;
pub mod synthetic;

use headstart_core::time::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// What files of specs and archives hold at most, in bytes: archives hold bodies, if asked to.
const MAX_FILE: u64 = 512 << 20;

/// All that is in a file of at most `most` bytes; a device has no length and may have no end.
fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {most} bytes, which is the most that is read")));
    }
    Ok(bytes)
}

/// A page: one document and everything that its load event waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// What it is called in tables.
    pub name: String,
    /// The site that it belongs to; pages of one site can be near copies, so that averages weight by it.
    pub site: String,
    /// Index of the main document, after its redirects.
    pub main: usize,
    /// Where objects come from.
    pub hosts: Vec<Host>,
    /// The objects, each behind those that it waits for; the first is asked for at the start.
    pub objects: Vec<Object>,
}

/// A host that objects come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// A name that is unique in the page.
    pub name: String,
    /// Round-trip time beyond the access link.
    pub leg: Duration,
    /// It belongs to the page's own site.
    pub own: bool,
}

/// What an object is, as far as browsers treat it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The main document, or a redirect to it.
    Doc,
    /// A document in a frame.
    Frame,
    /// A style sheet.
    Css,
    /// A script.
    Js,
    /// An image.
    Img,
    /// A font.
    Font,
    /// What scripts ask for: fetch, XMLHttpRequest, beacons.
    Xhr,
    /// Audio and video.
    Media,
    /// Anything else.
    Other,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] =
        [Self::Doc, Self::Frame, Self::Css, Self::Js, Self::Img, Self::Font, Self::Xhr, Self::Media, Self::Other];

    /// Whether the load event waits for it: what scripts ask for by themselves, and media, do not hold it up (HTML, "delay
    /// the load event").
    pub fn blocks_load(self) -> bool {
        !matches!(self, Self::Xhr | Self::Media | Self::Other)
    }

    /// Whether it is of use before it is whole, so that a server may send it in turns with others (RFC 9218,
    /// "incremental"): as Chromium says it (Blink, `ShouldLoadIncremental`), all but style sheets, scripts and fonts.
    pub fn is_incremental(self) -> bool {
        !matches!(self, Self::Css | Self::Js | Self::Font)
    }

    /// The urgency of RFC 9218 that Chromium gives it where no priority is recorded; 0 is the most urgent.
    pub fn urgency(self) -> u8 {
        match self {
            Self::Doc | Self::Frame | Self::Css | Self::Font => 0,
            Self::Js | Self::Xhr => 1,
            Self::Img | Self::Media | Self::Other => 3,
        }
    }
}

/// The version of HTTP that an object came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1: several connections an origin, one request at a time on each.
    #[serde(rename = "h1")]
    Http1,
    /// HTTP/2: one connection an origin.
    #[serde(rename = "h2")]
    Http2,
    /// HTTP/3: one connection an origin, over QUIC.
    #[serde(rename = "h3")]
    Http3,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        })
    }
}

/// One object of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Index of its host.
    pub host: usize,
    /// The version of HTTP that it came over.
    pub protocol: Protocol,
    /// What it is.
    pub kind: Kind,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of the request: header and body.
    pub request_bytes: u64,
    /// Bytes of the response on the wire: header and body.
    pub response_bytes: u64,
    /// Time between the request's arrival at the server and the first byte of its answer.
    pub think: Duration,
    /// RFC 9218, 0 (first) to 7.
    pub urgency: u8,
    /// What it waits for by the structure of the page: the loose reading.
    pub structure: Start,
    /// What it waits for if whatever ended last before it is what it waited for: the serial reading.
    pub gate: Start,
}

/// When an object is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// When the load begins.
    AtOnce,
    /// So long after the object with this index has arrived: parsing, computing, timers.
    After {
        /// Index of the object, lower than its own.
        parent: usize,
        /// How long after its end.
        gap: Duration,
    },
    /// While the object with this index arrives.
    During {
        /// Index of the object, lower than its own.
        parent: usize,
        /// The share of its bytes that must be there, 0 to 1.
        share: f64,
    },
}

impl Start {
    /// The object that is waited for.
    pub fn parent(self) -> Option<usize> {
        match self {
            Self::AtOnce => None,
            Self::After { parent, .. } | Self::During { parent, .. } => Some(parent),
        }
    }
}

/// A reading of what objects wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// By structure: everything that a page computes takes as long on any network, and may run while something else loads.
    Structure,
    /// By gates: whatever ended last was waited for.
    Gate,
}

impl Dependency {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Structure, Self::Gate];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Gate => "gates",
        }
    }

    /// What `object` waits for.
    pub fn start(self, object: &Object) -> Start {
        match self {
            Self::Structure => object.structure,
            Self::Gate => object.gate,
        }
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A page that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// There is nothing to load.
    #[error("page '{0}' has no objects: a page has at least its document")]
    Empty(String),
    /// An object names something that is not there, or that comes after it.
    #[error("page '{page}', object {object}: {what} {index} is not among the {known} {reason}")]
    Index {
        /// The page.
        page: String,
        /// Index of the object.
        object: usize,
        /// What the index is of.
        what: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        known: usize,
        /// Of what.
        reason: &'static str,
    },
}

impl Page {
    /// A page of nothing but hosts: an object of each, all at once, over `protocol`.
    pub fn of_hosts(names: impl Iterator<Item = String>, protocol: Protocol) -> Self {
        let host = |name| Host { name, leg: Duration::ZERO, own: false };
        let hosts: Vec<Host> = names.map(host).collect();
        let object = |host| Object {
            host,
            protocol,
            kind: Kind::Other,
            status: 200,
            request_bytes: 0,
            response_bytes: 0,
            think: Duration::ZERO,
            urgency: Kind::Other.urgency(),
            structure: Start::AtOnce,
            gate: Start::AtOnce,
        };
        let objects = (0..hosts.len()).map(object).collect();
        Self { name: String::new(), site: String::new(), main: 0, hosts, objects }
    }

    /// The page as browsers get it that do not speak HTTP/3, or have not been told of it: what came over it comes over HTTP/2.
    pub fn over_tcp(&self) -> Self {
        let mut page = self.clone();
        let over_quic = page.objects.iter_mut().filter(|o| o.protocol == Protocol::Http3);
        over_quic.for_each(|o| o.protocol = Protocol::Http2);
        page
    }

    /// Bytes of all responses.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|o| o.response_bytes).sum()
    }

    /// How many objects must be waited for, one after the other, at most.
    pub fn depth(&self, by: Dependency) -> usize {
        let mut depth: Vec<usize> = Vec::with_capacity(self.objects.len());
        for object in &self.objects {
            let parent = by.start(object).parent();
            depth.push(parent.and_then(|p| depth.get(p)).map_or(0, |d| d + 1));
        }
        depth.into_iter().max().unwrap_or(0)
    }

    /// Refuses pages that no loader could load: every index is of something that is there, and nothing waits for what comes
    /// after it.
    pub fn check(&self) -> Result<(), PageError> {
        let wrong = |object, what, index, known, reason| {
            Err(PageError::Index { page: self.name.clone(), object, what, index, known, reason })
        };
        if self.objects.is_empty() {
            return Err(PageError::Empty(self.name.clone()));
        }
        if self.main >= self.objects.len() {
            return wrong(0, "main document", self.main, self.objects.len(), "objects");
        }
        for (i, object) in self.objects.iter().enumerate() {
            if object.host >= self.hosts.len() {
                return wrong(i, "host", object.host, self.hosts.len(), "hosts");
            }
            for by in Dependency::BOTH {
                if let Some(parent) = by.start(object).parent().filter(|p| *p >= i) {
                    return wrong(i, "parent", parent, i, "objects before it");
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn object(start: Start) -> Object {
        Object {
            host: 0,
            protocol: Protocol::Http2,
            kind: Kind::Js,
            status: 200,
            request_bytes: 500,
            response_bytes: 10_000,
            think: Duration::ZERO,
            urgency: 1,
            structure: start,
            gate: start,
        }
    }

    fn page(objects: Vec<Object>) -> Page {
        let host = Host { name: "a".into(), leg: Duration::ZERO, own: true };
        Page { name: "p".into(), site: "s".into(), main: 0, hosts: vec![host], objects }
    }

    #[test]
    fn depth_is_the_longest_chain_and_bytes_are_those_of_all_responses() {
        let after = |parent| Start::After { parent, gap: Duration::ZERO };
        let p = page(vec![
            object(Start::AtOnce),
            object(after(0)),
            object(Start::During { parent: 1, share: 0.5 }),
            object(after(0)),
        ]);
        assert_eq!((p.depth(Dependency::Structure), p.bytes(), p.check()), (2, 40_000, Ok(())));
    }

    #[test]
    fn what_waits_for_itself_or_for_nobody_is_refused_by_name() {
        assert_eq!(
            page(vec![]).check().unwrap_err().to_string(),
            "page 'p' has no objects: a page has at least its document"
        );
        let itself = page(vec![object(Start::After { parent: 0, gap: Duration::ZERO })]).check().unwrap_err();
        assert_eq!(itself.to_string(), "page 'p', object 0: parent 0 is not among the 0 objects before it");
        let stray = page(vec![Object { host: 3, ..object(Start::AtOnce) }]).check().unwrap_err();
        assert!(stray.to_string().contains("host 3 is not among the 1 hosts"), "{stray}");
    }

    #[test]
    fn scripts_requests_of_their_own_do_not_hold_up_the_load_event() {
        let free: Vec<_> = Kind::ALL.into_iter().filter(|k| !k.blocks_load()).collect();
        assert_eq!(free, [Kind::Xhr, Kind::Media, Kind::Other]);
    }

    #[test]
    fn a_file_without_end_is_not_read() {
        let why = read_at_most(Path::new("/dev/zero"), 4096).unwrap_err();
        assert!(why.to_string().contains("larger than 4096 bytes"), "{why}");
        assert!(read_at_most(Path::new("/dev/null"), 4096).unwrap().is_empty());
    }
}
