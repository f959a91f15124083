//! The lab's web server: one thread, an epoll loop, a listener on port 80 of each site's address.
//!
//! Counts connections and requests per address, so that connections that were never used can be told. An address
//! without a listener is refused by the kernel, not by this.

use super::http;
use crate::lock;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const PORT: u16 = 80;
/// What bodies are made of.
static FILLER: [u8; 64 << 10] = [b'.'; 64 << 10];
/// 1 MiB: what one connection may send before the others have their turn.
const TURN: usize = 16;

/// What one address has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Accepted {
    /// Connections.
    pub connections: u64,
    /// Those that carried at least one request; the rest were opened in vain, or are not used yet.
    pub used: u64,
    /// Requests.
    pub requests: u64,
}

struct Shared {
    epoll: OwnedFd,
    wake: OwnedFd,
    stop: AtomicBool,
    listeners: Mutex<Listeners>,
    accepted: Mutex<BTreeMap<IpAddr, Accepted>>,
    congestion_control: String,
}

#[derive(Default)]
struct Listeners {
    by_key: HashMap<u64, TcpListener>,
    next_key: u64,
}

/// A running server; stops when dropped.
pub struct WebServer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Keys of epoll: 0 is the wake-up call, listeners are even, connections odd.
const WAKE: u64 = 0;

impl WebServer {
    /// Starts the thread. Its sockets use `congestion_control` if the kernel has it and allows it.
    pub fn start(congestion_control: &str) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            stop: AtomicBool::new(false),
            listeners: Mutex::default(),
            accepted: Mutex::default(),
            congestion_control: allowed(congestion_control)?,
        });
        epoll::add(&shared.epoll, &shared.wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let worker = Worker { shared: shared.clone(), connections: HashMap::new(), accepted: 0 };
        let thread = std::thread::Builder::new().name("web".into()).spawn(|| worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Listens on port 80 of `ip`, in the network namespace of the calling thread.
    pub fn listen(&self, ip: IpAddr) -> io::Result<()> {
        let listener = TcpListener::bind((ip, PORT)).map_err(|e| io::Error::new(e.kind(), format!("{ip}: {e}")))?;
        listener.set_nonblocking(true)?;
        // Accepted sockets inherit both.
        rustix::net::sockopt::set_tcp_congestion(&listener, &self.shared.congestion_control)?;
        rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
        lock(&self.shared.accepted).entry(ip).or_default();
        let mut listeners = lock(&self.shared.listeners);
        listeners.next_key += 2;
        let key = listeners.next_key;
        epoll::add(&self.shared.epoll, &listener, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?;
        listeners.by_key.insert(key, listener);
        Ok(())
    }

    /// Stops listening on `ip`; connections that exist stay. New ones are refused when this returns.
    pub fn close(&self, ip: IpAddr) -> io::Result<()> {
        lock(&self.shared.listeners).by_key.retain(|_, listener| listener.local_addr().is_ok_and(|a| a.ip() != ip));
        Ok(())
    }

    /// What each address has accepted so far; addresses that were ever listened on, even without a client.
    pub fn accepted(&self) -> BTreeMap<IpAddr, Accepted> {
        lock(&self.shared.accepted).clone()
    }

    /// The congestion control in use.
    pub fn congestion_control(&self) -> String {
        self.shared.congestion_control.clone()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let woken = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// `wanted` if a socket may have it, else what sockets have anyway.
fn allowed(wanted: &str) -> io::Result<String> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let _ = rustix::net::sockopt::set_tcp_congestion(&socket, wanted);
    Ok(rustix::net::sockopt::tcp_congestion(&socket)?)
}

struct Connection {
    socket: TcpStream,
    local: IpAddr,
    peer: SocketAddr,
    read: Vec<u8>,
    /// Start of an answer that is not sent yet.
    start: Vec<u8>,
    /// Filler that is not sent yet.
    filler: u64,
    used: bool,
    /// No more requests: close once all is sent.
    last: bool,
}

/// What is to become of a connection.
#[derive(PartialEq, Eq)]
enum Next {
    Read,
    Write,
    Close,
}

struct Worker {
    shared: Arc<Shared>,
    connections: HashMap<u64, Connection>,
    accepted: u64,
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        while !self.shared.stop.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&self.shared.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                match event.data.u64() {
                    WAKE => {}
                    key if key % 2 == 0 => self.accept(key),
                    key => self.serve(key),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, key: u64) {
        loop {
            let listeners = lock(&self.shared.listeners);
            // Closed since the event was read, or no client waits any more.
            let Some(Ok((socket, peer))) = listeners.by_key.get(&key).map(TcpListener::accept) else { return };
            drop(listeners);
            let Ok(local) = socket.local_addr() else { continue };
            self.accepted += 2;
            let id = self.accepted + 1;
            let ready = epoll::EventFlags::IN;
            let added = socket
                .set_nonblocking(true)
                .and_then(|()| Ok(epoll::add(&self.shared.epoll, &socket, epoll::EventData::new_u64(id), ready)?));
            if added.is_ok() {
                lock(&self.shared.accepted).entry(local.ip()).or_default().connections += 1;
                let (read, start) = (Vec::new(), Vec::new());
                let local = local.ip();
                let connection = Connection { socket, local, peer, read, start, filler: 0, used: false, last: false };
                self.connections.insert(id, connection);
            }
        }
    }

    fn serve(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut requests = 0;
        let next = connection.advance(&mut requests);
        if requests > 0 {
            let mut accepted = lock(&self.shared.accepted);
            let accepted = accepted.entry(connection.local).or_default();
            accepted.requests += requests;
            accepted.used += u64::from(!connection.used);
            connection.used = true;
        }
        let flags = match next {
            Next::Read => epoll::EventFlags::IN,
            Next::Write => epoll::EventFlags::OUT,
            Next::Close => {
                self.connections.remove(&id);
                return;
            }
        };
        let data = epoll::EventData::new_u64(id);
        if epoll::modify(&self.shared.epoll, connection.socket.as_fd(), data, flags).is_err() {
            self.connections.remove(&id);
        }
    }
}

impl Connection {
    /// Sends what there is to send, and takes requests once there is none. Counts the requests taken.
    fn advance(&mut self, requests: &mut u64) -> Next {
        let outcome = loop {
            match self.send() {
                Ok(true) if self.last => break Ok(Next::Close),
                Ok(true) => {}
                Ok(false) => break Ok(Next::Write),
                Err(e) => break Err(e),
            }
            if let Some(response) = http::respond(&mut self.read, self.peer) {
                *requests += 1;
                (self.start, self.filler, self.last) = (response.start, response.filler, response.close);
                continue;
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => break Ok(Next::Close),
                Ok(len) => self.read.extend(&buffer[..len]),
                Err(e) => break Err(e),
            }
        };
        match outcome {
            Ok(next) => next,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                if self.start.is_empty() && self.filler == 0 { Next::Read } else { Next::Write }
            }
            Err(_) => Next::Close,
        }
    }

    /// Whether all is sent; not if the turn is over.
    fn send(&mut self) -> io::Result<bool> {
        while !self.start.is_empty() {
            let len = self.socket.write(&self.start)?;
            self.start.drain(..len);
        }
        for _ in 0..TURN {
            if self.filler == 0 {
                return Ok(true);
            }
            let most = FILLER.len().min(usize::try_from(self.filler).unwrap_or(usize::MAX));
            self.filler -= self.socket.write(&FILLER[..most])? as u64;
        }
        Ok(self.filler == 0)
    }
}
