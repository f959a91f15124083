//! Recordings: whole exchanges with their bodies, as Mahimahi's recorder stores them, one file each in a folder.
//!
//! A folder is read as it is; a file that is broken is told by name, byte and reason, and the rest goes on. What is read is
//! used in place: nothing of a recording is ever copied elsewhere by the lab, but by its own recorder.

mod answers;
pub mod cache;
mod graph;
pub mod wire;

pub use answers::{Answers, RequestKey};
pub use graph::{page, page_in_order};

use headstart_core::time::Duration;
use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Largest file that is read: a recorded answer is kept in memory. The largest of the lab's data has 1.3 MB.
pub const MAX_FILE: u64 = 256 << 20;

/// How a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain.
    Http,
    /// Over TLS.
    Https,
}

/// A request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Request line or status line, without its end.
    pub first_line: Vec<u8>,
    /// Header fields: name and value, in order, names as they were written.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body as it was on the wire: still compressed, still in chunks.
    pub body: Vec<u8>,
}

impl Message {
    /// The value of the first field called `name`, in any case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v.trim_ascii())
    }

    /// Word `n` of the first line, from 0.
    pub fn word(&self, n: usize) -> &[u8] {
        self.first_line.split(|b| *b == b' ').nth(n).unwrap_or_default()
    }

    /// The status of a response; none if it has none.
    pub fn status(&self) -> Option<u16> {
        std::str::from_utf8(self.word(1)).ok()?.parse().ok()
    }

    /// Bytes of the head as HTTP/1.1 writes it.
    pub fn head_bytes(&self) -> u64 {
        let fields: usize = self.fields.iter().map(|(n, v)| n.len() + v.len() + 4).sum();
        (self.first_line.len() + fields + 4) as u64
    }
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The server's address.
    pub ip: IpAddr,
    /// The server's port.
    pub port: u16,
    /// How the request was made.
    pub scheme: Scheme,
    /// The request.
    pub request: Message,
    /// The answer.
    pub response: Message,
}

impl Exchange {
    /// The host that was asked, lower case, without its port; empty if the request names none.
    pub fn host(&self) -> String {
        let host = String::from_utf8_lossy(self.request.field("host").unwrap_or_default()).to_ascii_lowercase();
        match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name.to_owned(),
            _ => host,
        }
    }

    /// How much later than a cache's own answer this one began, by what caches have said of it; nothing if they have not.
    pub fn behind(&self) -> Duration {
        cache::source(&self.response).map_or(Duration::ZERO, cache::CacheLevel::behind)
    }

    /// The target of the request: a path with its query.
    pub fn target(&self) -> &[u8] {
        self.request.word(1)
    }
}

/// Why a recording, or a file of it, could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The system refused.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is no exchange.
    #[error("{}, byte {offset}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Byte of the file.
        offset: usize,
        /// What is wrong there.
        reason: String,
    },
    /// There is nothing in the folder.
    #[error("{} holds no recording (files of Mahimahi's recorder are called save.*)", .0.display())]
    Empty(PathBuf),
}

/// Every exchange of the folder, in the order of the files' names, and every file that is none.
pub fn read(folder: &Path) -> Result<(Vec<Exchange>, Vec<RecordingError>), RecordingError> {
    let io = |what| move |source| RecordingError::Io { what, path: folder.into(), source };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|e| Ok(e?.path())).collect::<io::Result<_>>())
        .map_err(io("reading the recording in"))?;
    files.retain(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with("save.")));
    files.sort();
    if files.is_empty() {
        return Err(RecordingError::Empty(folder.into()));
    }
    let (mut exchanges, mut broken) = (Vec::new(), Vec::new());
    for path in files {
        match read_file(&path) {
            Ok(exchange) => exchanges.push(exchange),
            Err(e) => broken.push(e),
        }
    }
    Ok((exchanges, broken))
}

fn read_file(path: &Path) -> Result<Exchange, RecordingError> {
    let io = |source| RecordingError::Io { what: "reading", path: path.into(), source };
    let about = fs::metadata(path).map_err(io)?;
    let size = about.len();
    let file = |offset, reason| RecordingError::File { path: path.into(), offset, reason };
    if size > MAX_FILE {
        return Err(file(0, format!("{size} bytes; at most {MAX_FILE} are read")));
    }
    // A device has no length and may have no end.
    if !about.is_file() {
        return Err(file(0, "not a regular file".into()));
    }
    let bytes = fs::read(path).map_err(io)?;
    wire::decode(&bytes).map_err(|bad| file(bad.offset, bad.reason))
}

/// Writes exchange number `number` of a recording into `folder`, under a name that Mahimahi's replay reads too.
pub fn write(folder: &Path, number: usize, exchange: &Exchange) -> Result<PathBuf, RecordingError> {
    let path = folder.join(format!("save.{number:06}"));
    // Cookies and passwords are in it, and the folder may be one that others look into.
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(&wire::encode(exchange)));
    written.map_err(|source| RecordingError::Io { what: "writing", path: path.clone(), source })?;
    Ok(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An exchange of `host` about `target`; more fields of the request and of the response, and its body.
    pub fn exchange(host: &str, target: &str, asked: &[(&str, &str)], said: &[(&str, &str)], body: &[u8]) -> Exchange {
        let fields =
            |list: &[(&str, &str)]| list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
        let mut asked: Vec<(&str, &str)> = asked.to_vec();
        asked.insert(0, ("Host", host));
        Exchange {
            ip: "198.19.0.1".parse().unwrap(),
            port: 80,
            scheme: Scheme::Http,
            request: Message {
                first_line: format!("GET {target} HTTP/1.1").into_bytes(),
                fields: fields(&asked),
                body: Vec::new(),
            },
            response: Message { first_line: b"HTTP/1.1 200 OK".to_vec(), fields: fields(said), body: body.to_vec() },
        }
    }

    #[test]
    fn a_folder_reads_back_and_a_broken_file_is_named_and_does_not_stop_it() {
        let dir = tempfile::tempdir().unwrap();
        let all = [exchange("a", "/", &[], &[], b"1"), exchange("b:8080", "/x?y", &[], &[], b"2")];
        for (i, e) in all.iter().enumerate() {
            write(dir.path(), i, e).unwrap();
        }
        fs::write(dir.path().join("save.broken"), [4 << 3 | 2, 99]).unwrap();
        fs::write(dir.path().join("notes.txt"), "x").unwrap();
        let (read, broken) = read(dir.path()).unwrap();
        assert_eq!(read, all);
        assert_eq!((read[1].host(), read[1].target()), ("b".into(), &b"/x?y"[..]));
        let said = broken[0].to_string();
        assert!(said.contains("save.broken, byte 2: a field of 99 bytes, of which 0 are there"), "{said}");
    }

    #[test]
    fn a_folder_without_a_recording_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap_err().to_string().contains("save.*"));
        assert!(read(&dir.path().join("nowhere")).unwrap_err().to_string().contains("nowhere"));
    }

    /// The lab's page data, if the machine has them: the folder that `HEADSTART_PAGES` names.
    pub fn sites() -> Vec<PathBuf> {
        let Some(data) = std::env::var_os("HEADSTART_PAGES") else {
            println!("skipped: HEADSTART_PAGES names no folder with page data");
            return Vec::new();
        };
        let mut sites: Vec<PathBuf> =
            fs::read_dir(Path::new(&data).join("recorded")).unwrap().map(|e| e.unwrap().path()).collect();
        sites.retain(|s| s.is_dir());
        sites.sort();
        sites
    }

    #[test]
    fn every_file_of_the_labs_data_reads_and_is_written_byte_for_byte() {
        for site in sites() {
            let (exchanges, broken) = read(&site).unwrap();
            assert!(broken.is_empty() && !exchanges.is_empty(), "{broken:?}");
            for file in fs::read_dir(&site).unwrap().map(|e| e.unwrap().path()) {
                let bytes = fs::read(&file).unwrap();
                assert!(wire::encode(&wire::decode(&bytes).unwrap()) == bytes, "{}", file.display());
            }
        }
    }
}
