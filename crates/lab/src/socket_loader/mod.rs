//! A page load over real sockets without a browser: the dependencies, connections and priorities of [`crate::sim::Browser`], the
//! kernel's TCP, real TLS and HTTP. It runs in the network namespace of the calling thread.
//!
//! What it shares with the browser of virtual time is the model of a page; what it shares with Chromium is everything below it.
//! Between the two it tells which of them a difference comes from. Nothing is parsed, drawn or kept: an object is bytes.

mod connection;
mod http3;

use crate::lock;
use crate::page::recording::Exchange;
use crate::page::{Dependency, Page, Protocol, Start};
use crate::sim::Timing;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc};

/// Connections an origin over HTTP/1.1: Chromium, Firefox and Safari alike.
const CONNECTIONS: usize = 6;
/// Chromium's `kIPv6FallbackTime`.
const FALLBACK: Duration = Duration::from_millis(300);
/// A load that takes longer is given up.
const LONGEST: Duration = Duration::from_secs(120);

/// What is asked for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// RFC 9218.
    pub urgency: u8,
    /// Bytes of the request, which are padded to.
    pub bytes: u64,
}

/// What is asked for each object of `page`, of which `exchanges` are the answers, in the same order.
pub fn requests<'e>(page: &Page, exchanges: impl Iterator<Item = &'e Exchange>) -> Vec<Request> {
    let one = |(object, exchange): (&crate::page::Object, &Exchange)| Request {
        host: exchange.host(),
        target: String::from_utf8_lossy(exchange.target()).into_owned(),
        urgency: object.urgency,
        bytes: object.request_bytes,
    };
    page.objects.iter().zip(exchanges).map(one).collect()
}

/// The kernel's protocol below TLS where a connection is one of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP (RFC 8684), over whatever endpoints the namespace has.
    Multipath,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketLoad {
    /// Until the load event: until the last object has arrived that holds it up.
    pub time: Duration,
    /// The objects, in the order of the page.
    pub objects: Vec<Timing>,
    /// Connections that were opened.
    pub connections: usize,
}

/// Something that has happened to an object.
#[derive(Clone, Copy, Debug)]
enum ObjectEvent {
    Want(usize),
    Sent(usize),
    Bytes(usize, u64),
    Done(usize),
    Failed(usize),
}

/// The objects that wait for a connection to a host.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Vec<usize>>,
    new: Notify,
}

impl Queue {
    fn take(&self, requests: &[Request]) -> Option<usize> {
        let mut waiting = lock(&self.waiting);
        let first = (0..waiting.len()).min_by_key(|i| (requests[waiting[*i]].urgency, *i))?;
        Some(waiting.remove(first))
    }

    /// The next object, when there is one.
    async fn next(&self, requests: &[Request]) -> usize {
        loop {
            match self.take(requests) {
                Some(object) => return object,
                None => self.new.notified().await,
            }
        }
    }

    fn add(&self, object: usize) -> usize {
        let mut waiting = lock(&self.waiting);
        waiting.push(object);
        waiting.len()
    }

    /// Takes everything that waits, without serving it.
    fn drain(&self) -> Vec<usize> {
        std::mem::take(&mut *lock(&self.waiting))
    }
}

/// What connections share.
struct LoaderState {
    requests: Vec<Request>,
    config: Arc<ClientConfig>,
    transport: Transport,
    tell: mpsc::UnboundedSender<ObjectEvent>,
}

#[derive(Default)]
struct HostState {
    queue: Arc<Queue>,
    connections: usize,
    /// Connections that take no requests yet.
    opening: Arc<std::sync::atomic::AtomicUsize>,
    /// The highest version that an object of it comes over.
    protocol: Option<Protocol>,
}

/// Loads `page` by asking for `requests`, one an object, from servers that `roots` vouch for.
pub fn load(page: &Page, by: Dependency, requests: Vec<Request>, roots: RootCertStore) -> io::Result<SocketLoad> {
    load_over(Transport::Tcp, page, by, requests, roots)
}

/// As [`load`], over connections of `transport`.
pub fn load_over(
    transport: Transport,
    page: &Page,
    by: Dependency,
    requests: Vec<Request>,
    roots: RootCertStore,
) -> io::Result<SocketLoad> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let loaded =
        runtime.block_on(async { tokio::time::timeout(LONGEST, run(page, by, requests, config, transport)).await });
    // Connections that wait for more are of no use.
    runtime.shutdown_background();
    loaded.map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, format!("page {} took longer than two minutes", page.name))
    })
}

/// A load; none if it was given up, which is one that failed and no reason to end an experiment.
pub fn unless_given_up(loaded: io::Result<SocketLoad>) -> io::Result<Option<SocketLoad>> {
    match loaded {
        Err(e) if e.kind() == io::ErrorKind::TimedOut => Ok(None),
        other => other.map(Some),
    }
}

async fn run(
    page: &Page,
    by: Dependency,
    requests: Vec<Request>,
    config: ClientConfig,
    transport: Transport,
) -> SocketLoad {
    let (tell, mut told) = mpsc::unbounded_channel();
    let shared = Arc::new(LoaderState { requests, config: Arc::new(config), transport, tell: tell.clone() });
    let clock = Clock::new();
    let mut visit = Visit::new(page, by, clock.now());
    for (n, object) in page.objects.iter().enumerate() {
        if by.start(object) == Start::AtOnce {
            visit.want(n, Duration::ZERO, &tell);
        }
    }
    while visit.open > 0 {
        // This function holds an end of the channel itself: it never closes.
        let Some(event) = told.recv().await else { break };
        visit.note(clock.now(), event, &shared);
    }
    let blocking = page.objects.iter().zip(&visit.timings).filter(|(o, _)| o.kind.blocks_load()).map(|(_, t)| t.end);
    let connections = visit.hosts.iter().map(|h| h.connections).sum();
    SocketLoad { time: blocking.max().unwrap_or_default(), connections, objects: visit.timings }
}

struct Visit<'p> {
    page: &'p Page,
    by: Dependency,
    began: Instant,
    timings: Vec<Timing>,
    got: Vec<u64>,
    wanted: Vec<bool>,
    ended: Vec<bool>,
    children: Vec<Vec<usize>>,
    hosts: Vec<HostState>,
    open: usize,
}

impl<'p> Visit<'p> {
    fn new(page: &'p Page, by: Dependency, began: Instant) -> Self {
        let count = page.objects.len();
        let mut children = vec![Vec::new(); count];
        let mut hosts: Vec<HostState> = page.hosts.iter().map(|_| HostState::default()).collect();
        for (n, object) in page.objects.iter().enumerate() {
            if let Some(parent) = by.start(object).parent() {
                children[parent].push(n);
            }
            let known = &mut hosts[object.host].protocol;
            *known = (*known).max(Some(object.protocol));
        }
        Self {
            page,
            by,
            began,
            timings: vec![Timing::default(); count],
            got: vec![0; count],
            wanted: vec![false; count],
            ended: vec![false; count],
            children,
            hosts,
            open: count,
        }
    }

    /// An object is wanted after `gap`, unless it is already.
    fn want(&mut self, object: usize, gap: Duration, tell: &mpsc::UnboundedSender<ObjectEvent>) {
        if std::mem::replace(&mut self.wanted[object], true) {
            return;
        }
        let tell = tell.clone();
        tokio::spawn(async move {
            if !gap.is_zero() {
                tokio::time::sleep(gap).await;
            }
            let _ = tell.send(ObjectEvent::Want(object));
        });
    }

    fn note(&mut self, now: Instant, event: ObjectEvent, shared: &Arc<LoaderState>) {
        let at = now - self.began;
        match event {
            ObjectEvent::Want(object) => {
                self.timings[object].wanted = at;
                self.ask(object, shared);
            }
            ObjectEvent::Sent(object) => self.timings[object].sent = at,
            ObjectEvent::Bytes(object, bytes) => {
                if self.got[object] == 0 {
                    self.timings[object].first_byte = at;
                }
                self.got[object] += bytes;
                let share = self.got[object] as f64 / self.page.objects[object].response_bytes.max(1) as f64;
                for n in 0..self.children[object].len() {
                    let child = self.children[object][n];
                    if matches!(self.by.start(&self.page.objects[child]), Start::During { share: needed, .. } if share >= needed)
                    {
                        self.want(child, Duration::ZERO, &shared.tell);
                    }
                }
            }
            ObjectEvent::Done(object) | ObjectEvent::Failed(object) => {
                if std::mem::replace(&mut self.ended[object], true) {
                    return;
                }
                self.timings[object].end = at;
                self.timings[object].failed = matches!(event, ObjectEvent::Failed(_));
                self.open -= 1;
                for n in 0..self.children[object].len() {
                    let child = self.children[object][n];
                    let gap = match self.by.start(&self.page.objects[child]) {
                        Start::After { gap, .. } => gap,
                        _ => Duration::ZERO,
                    };
                    self.want(child, gap, &shared.tell);
                }
            }
        }
    }

    fn ask(&mut self, object: usize, shared: &Arc<LoaderState>) {
        let host = &mut self.hosts[self.page.objects[object].host];
        let waiting = host.queue.add(object);
        host.queue.new.notify_one();
        let protocol = host.protocol.unwrap_or(Protocol::Http1);
        let most = if protocol == Protocol::Http1 { CONNECTIONS } else { 1 };
        if host.connections < most && waiting > host.opening.load(std::sync::atomic::Ordering::Relaxed) {
            host.connections += 1;
            let name = shared.requests[object].host.clone();
            let (queue, opening) = (host.queue.clone(), host.opening.clone());
            tokio::spawn(connection::serve(name, protocol, queue, opening, shared.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_was_given_up_is_no_error_and_no_load() {
        let given_up = |kind: io::ErrorKind| unless_given_up(Err(kind.into()));
        assert_eq!(given_up(io::ErrorKind::TimedOut).unwrap(), None);
        assert!(given_up(io::ErrorKind::ConnectionRefused).is_err());
        let load = SocketLoad { time: Duration::ZERO, objects: Vec::new(), connections: 1 };
        assert_eq!(unless_given_up(Ok(load.clone())).unwrap(), Some(load));
    }
}
