//! The log of requests (`--log`): a line an answer, when it ends, in Common Log Format, that with referrer and client program
//! ("combined"), or JSON. A file that was moved away or removed is made again within a second, as log rotation expects.

use super::board::Counts;
use crate::exit::Usage;
use crate::written::{Inlet, Written};
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::{Clock, wall};
use headstart_io::device::iso8601;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Uri, Version};
use rustix::fs::OFlags;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::SystemTime;

/// Bytes of a field that are written: what waits for a slow disk is kept in memory.
const LONGEST: usize = 1024;
/// How often is looked whether the file is still where it was.
const LOOK: Duration = Duration::from_secs(1);

/// How a line is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Format {
    /// Common Log Format, as Apache and nginx write it.
    Common,
    /// The same, with referrer and client program.
    Combined,
    /// A JSON object.
    Json,
}

/// Where the requests of a client are noted; by default they are only counted.
#[derive(Clone, Debug)]
pub struct Access {
    inlet: Option<Inlet<Exchange>>,
    client: IpAddr,
    counts: Arc<Counts>,
}

impl Default for Access {
    fn default() -> Self {
        Self { inlet: None, client: Ipv4Addr::UNSPECIFIED.into(), counts: Arc::default() }
    }
}

impl Access {
    /// Into this log.
    pub fn to(log: &Written<Exchange>) -> Self {
        Self { inlet: Some(log.inlet()), ..Self::default() }
    }

    /// The same for the requests of one client.
    pub fn of(&self, client: IpAddr) -> Self {
        Self { inlet: self.inlet.clone(), client: client.to_canonical(), counts: self.counts.clone() }
    }

    /// Answers to all clients so far.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// A request that has just come; noted when dropped.
    pub fn visit(&self, method: &Method, uri: &Uri, version: Version, headers: &HeaderMap) -> Visit {
        let log = self.inlet.as_ref().map(|inlet| (inlet.clone(), self.entry(method, uri, version, headers)));
        let (status, bytes) = (AtomicU16::new(0), AtomicU64::new(0));
        Visit { log: log.map(Box::new), counts: self.counts.clone(), clock: Clock::new(), version, status, bytes }
    }

    fn entry(&self, method: &Method, uri: &Uri, version: Version, headers: &HeaderMap) -> Exchange {
        let said = |name: HeaderName| headers.get(name).map(|value| short(value.as_bytes()));
        let target = uri.path_and_query().map_or(uri.path(), |target| target.as_str());
        Exchange {
            at: wall(),
            client: self.client,
            method: short(method.as_str().as_bytes()),
            target: short(target.as_bytes()),
            version,
            referrer: said(header::REFERER),
            agent: said(header::USER_AGENT),
            status: 0,
            bytes: 0,
            took: Duration::ZERO,
        }
    }
}

/// The first bytes of a field.
fn short(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned()
}

/// A request under way.
#[derive(Debug)]
pub struct Visit {
    /// Where it is logged, if it is, and what is known so far.
    log: Option<Box<(Inlet<Exchange>, Exchange)>>,
    counts: Arc<Counts>,
    clock: Clock,
    version: Version,
    status: AtomicU16,
    bytes: AtomicU64,
}

impl Visit {
    /// It is answered with this status.
    pub fn is_answered(&self, status: hyper::StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// So many bytes more of the body are on their way.
    pub fn has_sent(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let (status, bytes) = (self.status.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let took = self.clock.now().since(Instant::ZERO);
        self.counts.answered(self.version, status, bytes, took);
        if let Some((inlet, entry)) = self.log.take().map(|log| *log) {
            inlet.put(Exchange { status, bytes, took, ..entry });
        }
    }
}

/// A request and how it was answered.
#[derive(Debug)]
pub struct Exchange {
    /// When it came.
    at: SystemTime,
    client: IpAddr,
    method: String,
    target: String,
    version: Version,
    referrer: Option<String>,
    agent: Option<String>,
    /// 0 if it was not answered.
    status: u16,
    /// Bytes of the body that were handed to the connection.
    bytes: u64,
    /// From its head to the end of its answer.
    took: Duration,
}

impl Exchange {
    fn line(&self, format: Format) -> String {
        let Self { client, method, target, status, bytes, .. } = self;
        let version = match self.version {
            Version::HTTP_3 => "HTTP/3",
            Version::HTTP_2 => "HTTP/2",
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        };
        if matches!(format, Format::Json) {
            let took = (self.took.as_secs_f64() * 1e6).round() / 1e3;
            return json!({
                "time": iso8601(self.at), "client": client, "method": method, "target": target, "protocol": version,
                "status": status, "bytes": bytes, "duration_ms": took, "referrer": self.referrer, "user_agent": self.agent,
            })
            .to_string();
        }
        let (method, target) = (quoted(method), quoted(target));
        let mut line = format!("{client} - - [{}] \"{method} {target} {version}\" {status} {bytes}", date(self.at));
        if matches!(format, Format::Combined) {
            let said = |field: &Option<String>| field.as_deref().map_or("-".to_owned(), quoted);
            _ = write!(line, " \"{}\" \"{}\"", said(&self.referrer), said(&self.agent));
        }
        line
    }
}

/// As Common Log Format has it: 27/Nov/2026:20:06:21 +0000.
fn date(at: SystemTime) -> String {
    // "Fri, 27 Nov 2026 20:06:21 GMT" (RFC 9110, section 5.6.7).
    let http = httpdate::fmt_http_date(at);
    let words: Vec<&str> = http.split(' ').collect();
    match words[..] {
        [_, day, month, year, time, _] => format!("{day}/{month}/{year}:{time} +0000"),
        _ => http,
    }
}

/// Between quotes, so that no client writes lines or fields of its own: as Apache escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| _ = write!(quoted, "\\x{b:02x}")),
            c => quoted.push(c),
        }
    }
    quoted
}

/// Writes requests into the file at `path` (`-`: standard output), behind what is in it.
pub fn begin(path: &Path, format: Format) -> anyhow::Result<Written<Exchange>> {
    let mut sink = if path == Path::new("-") {
        let own = std::io::stdout().as_fd().try_clone_to_owned().context("copying standard output")?;
        Sink { path: None, file: Some(own.into()) }
    } else {
        let file = open(path).map_err(|why| Usage::unwritable(path, why))?;
        Sink { path: Some(path.to_owned()), file: Some(file) }
    };
    Written::begin("log", format!("the log {}", path.display()), move |entries| sink.write_all(entries, format))
}

/// Never waits for a reader: a pipe without a reader is an error.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().create(true).append(true).mode(0o640).custom_flags(flags).open(path)
}

/// Where lines go.
struct Sink {
    /// `None`: standard output.
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Sink {
    /// Writes until the end. A disk may be full for a while: then lines are lost, and counted.
    fn write_all(&mut self, entries: &Receiver<Option<Exchange>>, format: Format) -> Option<String> {
        let (clock, mut looked) = (Clock::new(), Instant::ZERO);
        let (mut lost, mut why) = (0u64, None);
        while let Ok(Some(entry)) = entries.recv() {
            if self.file.is_none() || clock.now().since(looked) >= LOOK {
                looked = clock.now();
                self.look();
            }
            let written = match &mut self.file {
                Some(file) => file.write_all((entry.line(format) + "\n").as_bytes()),
                None => Err(io::Error::from(io::ErrorKind::NotFound)),
            };
            if let Err(failed) = written {
                if lost == 0 {
                    crate::complain!("headstart: requests are not logged for now: {failed}");
                }
                (lost, why) = (lost + 1, Some(failed));
            }
        }
        Some(format!("{}: {}", crate::output::plural(lost, "request"), why?))
    }

    /// Opens the file again if another or none is there now.
    fn look(&mut self) {
        let Some(path) = &self.path else { return };
        let number = |about: fs::Metadata| (about.dev(), about.ino());
        let ours = self.file.as_ref().and_then(|file| file.metadata().ok()).map(number);
        if ours.is_none() || fs::metadata(path).ok().map(number) != ours {
            self.file = open(path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(access: &Access, target: &str, agent: &str) -> Visit {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, agent.parse().unwrap());
        access.visit(&Method::GET, &target.parse().unwrap(), Version::HTTP_2, &headers)
    }

    fn entry(target: &str, agent: Option<&str>) -> Exchange {
        Exchange {
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_810_000),
            client: [192, 0, 2, 1].into(),
            method: "GET".into(),
            target: target.into(),
            version: Version::HTTP_3,
            referrer: None,
            agent: agent.map(str::to_owned),
            status: 200,
            bytes: 17,
            took: Duration::from_micros(1500),
        }
    }

    #[test]
    fn lines_are_as_other_tools_read_them_and_no_client_forges_one() {
        let plain = entry("/a?b=c", None);
        let common = r#"192.0.2.1 - - [27/Nov/2026:20:06:40 +0000] "GET /a?b=c HTTP/3" 200 17"#;
        assert_eq!(plain.line(Format::Common), common);
        assert_eq!(plain.line(Format::Combined), format!("{common} \"-\" \"-\""));
        let forged = entry("/", Some("a\" \\\n1.2.3.4 \u{1b}[31m")).line(Format::Combined);
        assert!(forged.ends_with(r#""-" "a\" \\\x0a1.2.3.4 \x1b[31m""#) && forged.lines().count() == 1, "{forged}");
        let object: serde_json::Value = serde_json::from_str(&plain.line(Format::Json)).unwrap();
        assert_eq!(object["time"], "2026-11-27T20:06:40Z");
        assert_eq!((&object["duration_ms"], &object["protocol"]), (&json!(1.5), &json!("HTTP/3")));
    }

    #[test]
    fn an_answer_is_noted_when_it_ends_with_what_was_sent_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        fs::write(&path, "before\n").unwrap();
        let log = begin(&path, Format::Json).unwrap();
        let access = Access::to(&log).of("::ffff:192.0.2.7".parse().unwrap());
        let cut = visit(&access, "/big", &"x".repeat(3 * LONGEST));
        cut.is_answered(hyper::StatusCode::OK);
        cut.has_sent(10);
        cut.has_sent(5);
        drop(cut);
        drop(visit(&Access::default(), "/unlogged", "x"));
        assert!(log.end());
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "before"));
        let object: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(
            [&object["client"], &object["bytes"], &object["status"]],
            [&json!("192.0.2.7"), &json!(15), &json!(200)]
        );
        assert_eq!(object["user_agent"].as_str().unwrap().len(), LONGEST);
    }

    #[test]
    fn a_log_that_was_moved_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut sink = Sink { path: Some(path.clone()), file: Some(open(&path).unwrap()) };
        let old = folder.path().join("access.log.1");
        fs::rename(&path, &old).unwrap();
        sink.look();
        sink.file.as_mut().unwrap().write_all(b"new\n").unwrap();
        let was = sink.file.as_ref().unwrap().metadata().unwrap().ino();
        sink.look();
        assert_eq!(sink.file.unwrap().metadata().unwrap().ino(), was);
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), fs::read_to_string(&old).unwrap().as_str()),
            ("new\n", "")
        );
    }

    #[test]
    fn a_full_disk_is_told_and_no_success_and_a_pipe_without_reader_is_refused() {
        let log = begin(Path::new("/dev/full"), Format::Common).unwrap();
        drop(visit(&Access::to(&log), "/", "x"));
        assert!(!log.end());
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(begin(&pipe, Format::Common).is_err());
    }
}
