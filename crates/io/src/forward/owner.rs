//! Whose a connection is: an exact question to the kernel (sock_diag(7)), and the process that has the socket open.
//!
//! The question costs microseconds and cannot miss: while a SYN is on its way its socket waits. The process is looked for in
//! /proc among those of the programs' own namespace, last finder's keepers first.

use crate::sys::netns::NetNs;
use crate::sys::process::descriptor;
use netlink_sys::{Socket, SocketAddr as Address, protocols::NETLINK_SOCK_DIAG};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
/// Bytes of a netlink header, of `struct inet_diag_req_v2` and of `struct inet_diag_msg`.
const HEADER: usize = 16;
const QUESTION: usize = 56;
const ANSWER: usize = 72;
/// Processes that are looked at first.
const MOST_RECENT: usize = 8;

/// What the kernel knows of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The number of the socket in the file system of sockets.
    pub inode: u32,
}

/// A process that has a socket open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its name, as the kernel has it (15 bytes at most).
    pub name: String,
    /// The socket, as a descriptor of its own.
    fd: RawFd,
}

/// Who can be asked for owners in one namespace.
pub struct Owners {
    socket: Socket,
    namespace: u64,
    sequence: u32,
    recent: VecDeque<i32>,
}

impl std::fmt::Debug for Owners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owners").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Owners {
    /// For the programs in `namespace`.
    pub fn of(namespace: &NetNs) -> io::Result<Self> {
        let socket = namespace.run(|| {
            let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            socket.connect(&Address::new(0, 0))?;
            io::Result::Ok(socket)
        })??;
        Ok(Self { socket, namespace: namespace.id()?, sequence: 0, recent: VecDeque::new() })
    }

    /// The owner of the TCP socket with these ends; none if there is no such socket any more.
    pub fn of_tcp(&mut self, app: SocketAddr, peer: SocketAddr) -> io::Result<Option<Owner>> {
        self.sequence += 1;
        let question = question(self.sequence, app, peer);
        self.socket.send(&question, 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            match read_answer(&answer, self.sequence) {
                Answer::Other => {}
                Answer::None => return Ok(None),
                Answer::Owner(owner) => return Ok(Some(owner)),
            }
        }
    }

    /// The process that has the socket with this number open; of several, one.
    pub fn process(&mut self, inode: u32) -> Option<Process> {
        let link = format!("socket:[{inode}]");
        let recent = self.recent.iter().copied().find_map(|pid| holds(pid, &link));
        let found = recent.or_else(|| {
            let pids = fs::read_dir("/proc").ok()?.flatten();
            let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
            pids.find_map(|pid| self.is_here(pid).then(|| holds(pid, &link))?)
        })?;
        self.recent.retain(|pid| *pid != found.pid);
        self.recent.push_front(found.pid);
        self.recent.truncate(MOST_RECENT);
        Some(found)
    }

    /// Whether a process is in the namespace.
    fn is_here(&self, pid: i32) -> bool {
        let link = fs::read_link(format!("/proc/{pid}/ns/net"));
        link.is_ok_and(|link| link.to_str() == Some(&format!("net:[{}]", self.namespace)))
    }
}

impl Process {
    /// Whether the program has Nagle's algorithm off on its socket (TCP_NODELAY).
    ///
    /// The descriptor is taken for a moment: it must not keep open what the program closes.
    pub fn no_delay(&self) -> Option<bool> {
        let socket = descriptor(self.pid, self.fd).ok()?;
        rustix::net::sockopt::tcp_nodelay(&socket).ok()
    }
}

fn holds(pid: i32, link: &str) -> Option<Process> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let fd = folder.flatten().find_map(|entry| {
        let is_it = fs::read_link(entry.path()).is_ok_and(|to| to.to_str() == Some(link));
        is_it.then(|| entry.file_name().to_str()?.parse().ok())?
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Process { pid, name: name.trim_end().to_owned(), fd })
}

/// The question for one TCP socket: `struct inet_diag_req_v2` with all states and no cookie.
fn question(sequence: u32, app: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    bytes.extend(((HEADER + QUESTION) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    let family = if app.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(app.port().to_be_bytes());
    bytes.extend(peer.port().to_be_bytes());
    for ip in [app.ip(), peer.ip()] {
        let mut field = [0; 16];
        match ip {
            IpAddr::V4(ip) => field[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => field.copy_from_slice(&ip.octets()),
        }
        bytes.extend(field);
    }
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// To another question.
    Other,
    /// There is no such socket.
    None,
    /// This one's.
    Owner(Owner),
}

fn read_answer(bytes: &[u8], sequence: u32) -> Answer {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_ne_bytes(*b));
    let kind = bytes.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    match (word(8), kind) {
        (Some(number), _) if number != sequence => Answer::Other,
        (Some(_), Some(BY_FAMILY)) if bytes.len() >= HEADER + ANSWER => {
            let (user, inode) = (word(HEADER + 64).unwrap_or(0), word(HEADER + 68).unwrap_or(0));
            Answer::Owner(Owner { user, inode })
        }
        _ => Answer::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_of_ours_is_found_to_be_ours() {
        let mut owners = Owners::of(&NetNs::current().unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (app, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let owner = owners.of_tcp(app, peer).unwrap().expect("it is there");
        assert_eq!(owner.user, rustix::process::geteuid().as_raw());
        let process = owners.process(owner.inode).expect("it is ours");
        assert_eq!(process.pid, std::process::id() as i32);
        assert_eq!(process.no_delay(), Some(false));
        stream.set_nodelay(true).unwrap();
        assert_eq!(owners.process(owner.inode).unwrap().no_delay(), Some(true));
        let nobody = SocketAddr::new(peer.ip(), 1);
        assert_eq!(owners.of_tcp(nobody, peer).unwrap(), None);
    }

    #[test]
    fn an_answer_that_is_cut_is_no_owner() {
        assert_eq!(read_answer(&[], 1), Answer::None);
        let mut bytes = vec![0; HEADER + ANSWER];
        bytes[8..12].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(read_answer(&bytes, 8), Answer::Other);
        bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert_eq!(read_answer(&bytes, 7), Answer::Owner(Owner { user: 0, inode: 0 }));
        assert_eq!(read_answer(&bytes[..60], 7), Answer::None);
    }
}
