//! A store for tests, in memory, which misbehaves as it is asked to. A real one is in the tests of the command line.

use super::Bucket;
use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What a store does to a request in place of obeying it, or after that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// "Slow down".
    Busy,
    /// A page of a captive portal.
    Garbage,
    /// It obeys, and the answer is cut in the middle.
    Cut,
    /// It ends the connection, and does not obey.
    Gone,
    /// What it has it has lost.
    Lost,
    /// It never heard of this user.
    Denied,
}

/// What it has and does.
#[derive(Default)]
pub struct Inside {
    /// Its objects.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// What is to happen to the next requests of a kind.
    faults: Vec<(&'static str, Fault)>,
    /// Faults that happened.
    pub happened: usize,
}

/// A store in memory, of one bucket.
#[derive(Clone)]
pub struct Store {
    inside: Arc<Mutex<Inside>>,
    address: SocketAddr,
}

impl Store {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = Self { inside: Arc::default(), address: listener.local_addr().unwrap() };
        let serving = store.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = serving.clone();
                std::thread::spawn(move || while store.serve(&stream).is_some() {});
            }
        });
        store
    }

    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    pub fn will(&self, kind: &'static str, fault: Fault, times: usize) {
        self.inside().faults.extend(std::iter::repeat_n((kind, fault), times));
    }

    /// One request; nothing where the connection ends.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        }
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.clone().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).ok()?;
        let mut words = head.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let kind = if query.contains("list-type") { "LIST" } else { method };
        let fault = {
            let mut inside = self.inside();
            let at = inside.faults.iter().position(|(of, _)| *of == kind);
            inside.happened += usize::from(at.is_some());
            at.map(|at| inside.faults.remove(at).1)
        };
        let key = path.trim_start_matches("/bucket").trim_start_matches('/').replace("%3D", "=");
        let (status, body) = match fault {
            Some(Fault::Gone) => return None,
            Some(Fault::Busy) => ("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>".to_vec()),
            Some(Fault::Garbage) => ("200 OK", b"<html>Welcome to our hotel</html>".to_vec()),
            Some(Fault::Lost) => ("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
            Some(Fault::Denied) => ("403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>".to_vec()),
            Some(Fault::Cut) | None => self.obey(
                kind,
                key,
                query,
                (header("range"), header("if-none-match"), header("x-amz-copy-source")),
                body,
            ),
        };
        let length = body.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1\"\r\n"
        );
        if let Some(range) = header("range").filter(|_| status.starts_with("206")) {
            let size = self.inside().objects.get(path.trim_start_matches("/bucket/")).map_or(0, Vec::len);
            let from: usize = range.trim_start_matches("bytes=").split('-').next()?.parse().ok()?;
            answer += &format!("Content-Range: bytes {from}-{}/{size}\r\n", from + length - 1);
        }
        let mut bytes = [answer.as_bytes(), b"\r\n", &body].concat();
        if fault == Some(Fault::Cut) {
            bytes.truncate(bytes.len() - length / 2 - usize::from(length == 0));
        }
        let mut stream = stream;
        stream.write_all(&bytes).ok()?;
        (fault != Some(Fault::Cut)).then_some(())
    }

    fn obey(
        &self,
        kind: &str,
        key: String,
        query: &str,
        (range, unless, source): (Option<String>, Option<String>, Option<String>),
        body: Vec<u8>,
    ) -> (&'static str, Vec<u8>) {
        let objects = &mut self.inside().objects;
        let missing = ("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>".to_vec());
        match kind {
            "LIST" => ("200 OK", list(objects, query)),
            "PUT" if unless.is_some() && objects.contains_key(&key) => {
                ("412 Precondition Failed", b"<Error><Code>PreconditionFailed</Code></Error>".to_vec())
            }
            "PUT" => {
                let Some(source) = source else {
                    objects.insert(key, body);
                    return ("200 OK", Vec::new());
                };
                let Some(copied) = objects.get(source.trim_start_matches("/").trim_start_matches("bucket/")).cloned()
                else {
                    return missing;
                };
                objects.insert(key, copied);
                let answer = "<CopyObjectResult><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>1</ETag></CopyObjectResult>";
                ("200 OK", answer.into())
            }
            "DELETE" => {
                objects.remove(&key);
                ("204 No Content", Vec::new())
            }
            _ => match (objects.get(&key), range) {
                (None, _) => missing,
                (Some(object), None) => ("200 OK", object.clone()),
                (Some(object), Some(range)) => {
                    let to: usize = range.rsplit('-').next().unwrap().parse().unwrap();
                    ("206 Partial Content", object[..object.len().min(to + 1)].to_vec())
                }
            },
        }
    }

    /// The bucket, of which requests are made again so often.
    pub fn open(&self, retries: usize) -> Bucket {
        self.open_with(RetryConfig { max_retries: retries, ..RetryConfig::default() })
    }

    /// The bucket, of which requests are made again as `retry` says, but at once.
    pub fn open_with(&self, mut retry: RetryConfig) -> Bucket {
        retry.backoff.init_backoff = Duration::from_millis(1);
        retry.backoff.max_backoff = Duration::from_millis(2);
        let store = AmazonS3Builder::new().with_endpoint(format!("http://{}", self.address)).with_retry(retry);
        let store = store.with_access_key_id("user").with_secret_access_key("a secret").with_allow_http(true);
        Bucket::by(store, Path::new("s3://bucket/some/results")).unwrap()
    }

    pub fn keys(&self) -> Vec<String> {
        self.inside().objects.keys().cloned().collect()
    }
}

/// Objects below the prefix, and what is a level further down.
fn list(objects: &BTreeMap<String, Vec<u8>>, query: &str) -> Vec<u8> {
    let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = prefix.replace("%2F", "/").replace("%3D", "=");
    let mut text = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (key, bytes) in
        objects.iter().filter(|(key, _)| key.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/')))
    {
        let size = bytes.len();
        text += &format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>{size}</Size><ETag>1</ETag></Contents>"
        );
    }
    let below = objects.keys().filter_map(|key| key.strip_prefix(&prefix)?.split_once('/'));
    let levels: BTreeSet<&str> = below.map(|(level, _)| level).collect();
    levels
        .iter()
        .for_each(|level| text += &format!("<CommonPrefixes><Prefix>{prefix}{level}/</Prefix></CommonPrefixes>"));
    (text + "</ListBucketResult>").into_bytes()
}
