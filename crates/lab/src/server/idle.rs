//! A server that loses patience: it closes a connection on which nothing was said for a while, and every connection when it
//! restarts. A client that says something is answered. One thread for all its addresses.
//!
//! What never happens here: a connection is refused. A restart keeps the listening sockets, as a server with systemd's
//! socket activation does, so that a program that connects of its own never fails, and a program that sees a reset was given
//! a bad connection.

use crate::lock;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use headstart_io::poll::{Interest, Poll};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What is answered.
const ANSWER: &[u8] = b"ok\n";
/// Tokens of listeners are below, those of connections from here on.
const FIRST_CONNECTION: u64 = 1 << 32;
const COMMANDS: u64 = u64::MAX;

/// What clients did on connections to servers of one patience.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Connections on which the client sent something.
    pub spoken: u64,
    /// Of these, how many had been silent for [`WAITED`] or longer before.
    pub waited: u64,
    /// The longest silence before a first word.
    pub longest: Duration,
}

impl Activity {
    /// Adds what clients of another server did.
    pub fn add(&mut self, other: &Self) {
        self.spoken += other.spoken;
        self.waited += other.waited;
        self.longest = self.longest.max(other.longest);
    }
}

/// A client that connects and speaks is quicker by far.
pub const WAITED: Duration = Duration::from_millis(100);

/// How a restart ends connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// As a server that closes its sockets.
    Closing,
    /// As a machine that has forgotten about them.
    Resetting,
}

/// The running server; it ends when this is dropped.
pub struct IdleServer {
    commands: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    activity: Arc<Mutex<BTreeMap<Option<Duration>, Activity>>>,
}

impl IdleServer {
    /// Listens on these addresses, and closes what is silent for as long as is said of each; never, if nothing is. Call it
    /// where the servers are.
    pub fn start(addresses: &[(SocketAddr, Option<Duration>)]) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for (addr, patience) in addresses {
            let listener = TcpListener::bind(addr)?;
            listener.set_nonblocking(true)?;
            listeners.push((listener, *patience));
        }
        let (commands, ours) = UnixStream::pair()?;
        let activity = Arc::new(Mutex::new(BTreeMap::new()));
        let counts = Arc::clone(&activity);
        let serve = move || {
            if let Ok(server) = Server::new(listeners, ours, counts) {
                server.run();
            }
        };
        let thread = std::thread::Builder::new().name("idle-server".into()).spawn(serve)?;
        Ok(Self { commands: Some(commands), thread: Some(thread), activity })
    }

    /// What clients did so far, by the patience of the address that they connected to.
    pub fn activity(&self) -> BTreeMap<Option<Duration>, Activity> {
        lock(&self.activity).clone()
    }

    /// Ends every connection; all have been ended when this returns.
    pub fn restart(&self, how: Restart) -> io::Result<()> {
        let mut commands = self.commands.as_ref().ok_or(ErrorKind::BrokenPipe)?;
        commands.write_all(&[u8::from(how == Restart::Resetting)])?;
        commands.read_exact(&mut [0; 1])
    }
}

impl Drop for IdleServer {
    fn drop(&mut self) {
        self.commands = None;
        // It is gone already only if it panicked, which joining does not report either.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Server {
    poll: Poll,
    clock: Clock,
    listeners: Vec<(TcpListener, Option<Duration>)>,
    commands: UnixStream,
    activity: Arc<Mutex<BTreeMap<Option<Duration>, Activity>>>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
}

struct Connection {
    stream: TcpStream,
    accepted: Instant,
    patience: Option<Duration>,
    spoken: bool,
}

impl Connection {
    /// When it is closed, if nothing is said.
    fn until(&self) -> Option<Instant> {
        self.patience.filter(|_| !self.spoken).map(|patience| self.accepted + patience)
    }
}

impl Server {
    fn new(
        listeners: Vec<(TcpListener, Option<Duration>)>,
        commands: UnixStream,
        activity: Arc<Mutex<BTreeMap<Option<Duration>, Activity>>>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (n, (listener, _)) in (0..).zip(&listeners) {
            poll.add(listener, n, Interest::Read)?;
        }
        poll.add(&commands, COMMANDS, Interest::Read)?;
        let (clock, connections) = (Clock::new(), BTreeMap::new());
        Ok(Self { poll, clock, listeners, commands, activity, connections, next: FIRST_CONNECTION })
    }

    fn run(mut self) {
        let mut tokens = Vec::new();
        loop {
            let next = self.connections.values().filter_map(Connection::until).min();
            if self.poll.wait(&self.clock, next, &mut tokens).is_err() {
                return;
            }
            for token in tokens.iter().copied() {
                match token {
                    COMMANDS if !self.command() => return,
                    COMMANDS => {}
                    n if n < FIRST_CONNECTION => self.accept(n as usize),
                    n => self.serve(n),
                }
            }
            let now = self.clock.now();
            self.connections.retain(|_, c| c.until().is_none_or(|until| now < until));
        }
    }

    fn command(&mut self) -> bool {
        let mut byte = [0; 1];
        if self.commands.read_exact(&mut byte).is_err() {
            return false;
        }
        // A connection still in a queue is ended by the restart like all others.
        (0..self.listeners.len()).for_each(|n| self.accept(n));
        for Connection { stream, .. } in std::mem::take(&mut self.connections).into_values() {
            if byte[0] == 1 {
                // Closed with a linger time of zero, a connection is reset.
                let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
            }
        }
        self.commands.write_all(&byte).is_ok()
    }

    fn accept(&mut self, n: usize) {
        let Some((listener, patience)) = self.listeners.get(n) else { return };
        while let Ok((stream, _)) = listener.accept() {
            let accepted = self.clock.now();
            let added = stream.set_nonblocking(true).and_then(|()| self.poll.add(&stream, self.next, Interest::Read));
            if added.is_ok() {
                let connection = Connection { stream, accepted, patience: *patience, spoken: false };
                self.connections.insert(self.next, connection);
                self.next += 1;
            }
        }
    }

    fn serve(&mut self, n: u64) {
        let Some(connection) = self.connections.get_mut(&n) else { return };
        let over = match connection.stream.read(&mut [0; 512]) {
            // What is said is answered, and the connection kept until the client closes it.
            Ok(1..) => {
                let silent = self.clock.now() - connection.accepted;
                if !std::mem::replace(&mut connection.spoken, true) {
                    let activity = Activity { spoken: 1, waited: u64::from(silent >= WAITED), longest: silent };
                    let mut all = lock(&self.activity);
                    all.entry(connection.patience).or_default().add(&activity);
                }
                connection.stream.write_all(ANSWER).is_err()
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Ok(0) | Err(_) => true,
        };
        if over {
            self.connections.remove(&n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server on loopback, and where it is.
    fn server(patience: Option<Duration>) -> (IdleServer, SocketAddr) {
        // The port is free as soon as its finder lets go of it.
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        (IdleServer::start(&[(addr, patience)]).unwrap(), addr)
    }

    #[test]
    fn who_says_something_is_answered_and_who_says_nothing_is_closed() {
        let (_server, addr) = server(Some(Duration::from_millis(50)));
        let mut silent = TcpStream::connect(addr).unwrap();
        assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
        let (server, addr) = server(None);
        let mut talks = TcpStream::connect(addr).unwrap();
        talks.write_all(b"hello\n").unwrap();
        let mut answer = [0; 3];
        talks.read_exact(&mut answer).unwrap();
        assert_eq!(answer, ANSWER);
        assert_eq!(server.activity()[&None].spoken, 1);
    }

    #[test]
    fn a_restart_ends_every_connection_and_refuses_none() {
        let (server, addr) = server(None);
        for how in [Restart::Closing, Restart::Resetting] {
            let mut stream = TcpStream::connect(addr).unwrap();
            server.restart(how).unwrap();
            match stream.read(&mut [0; 8]) {
                Ok(read) => assert_eq!((read, how), (0, Restart::Closing)),
                Err(e) => assert_eq!((e.kind(), how), (ErrorKind::ConnectionReset, Restart::Resetting)),
            }
            let mut next = TcpStream::connect(addr).unwrap();
            next.write_all(b"hello\n").unwrap();
            next.read_exact(&mut [0; 3]).unwrap();
        }
    }
}
