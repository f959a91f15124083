//! Whose a connection is: an exact question to the kernel (sock_diag(7)).
//!
//! The question costs microseconds and cannot miss: while a SYN is on its way its socket waits. Which process has the socket open is
//! another question, and is answered elsewhere (`finder`).

use crate::sys::netns::NetNs;
use netlink_sys::{Socket, SocketAddr as Address, protocols::NETLINK_SOCK_DIAG};
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
/// Room for an answer with what else the kernel may say in it; a longer one is cut, behind what is read.
const ROOM: usize = 1024;

/// What the kernel knows of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The number of the socket in the file system of sockets.
    pub inode: u32,
}

/// A process that has a socket open, or an app that another program has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number; see [`Process::number`].
    pub pid: i32,
    /// Its name, as the kernel has it (15 bytes at most), or as the program has.
    pub name: String,
    /// The container or the unit that it belongs to, where that is known (`core::forward::group`).
    pub group: Option<String>,
    /// The socket, as a descriptor of its own.
    pub(super) fd: RawFd,
}

impl Process {
    /// An app, of which no process is known.
    pub fn of_app(name: String) -> Self {
        Self { pid: 0, name, group: None, fd: -1 }
    }

    /// The number of the process; none of an app.
    pub fn number(&self) -> Option<i32> {
        (self.pid > 0).then_some(self.pid)
    }
}

/// The sources of owners in one namespace.
pub struct Owners {
    socket: Socket,
    sequence: u32,
    answer: Vec<u8>,
}

impl std::fmt::Debug for Owners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owners").finish_non_exhaustive()
    }
}

impl Owners {
    /// For the programs in `namespace`.
    pub fn of(namespace: &NetNs) -> io::Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            socket.connect(&Address::new(0, 0))?;
            io::Result::Ok(socket)
        };
        // Going to where one is already wants a right that need not be there.
        let is_here = NetNs::current()?.id()? == namespace.id()?;
        let socket = if is_here { open()? } else { namespace.run(open)?? };
        Ok(Self { socket, sequence: 0, answer: Vec::with_capacity(ROOM) })
    }

    /// The owner of the TCP socket with these ends; none if there is no such socket any more.
    pub fn of_tcp(&mut self, app: SocketAddr, peer: SocketAddr) -> io::Result<Option<Owner>> {
        self.ask(libc::IPPROTO_TCP, app, peer)
    }

    /// The owner of the UDP socket that has sent from `app` to `peer`; none if there is no such socket any more.
    pub fn of_udp(&mut self, app: SocketAddr, peer: SocketAddr) -> io::Result<Option<Owner>> {
        // The kernel looks for it by a datagram that comes in: "src and dst are swapped for historical reasons" (udp_diag.c).
        self.ask(libc::IPPROTO_UDP, peer, app)
    }

    fn ask(&mut self, protocol: libc::c_int, source: SocketAddr, destination: SocketAddr) -> io::Result<Option<Owner>> {
        self.sequence += 1;
        let question = question(self.sequence, protocol, source, destination);
        self.socket.send(&question, 0)?;
        loop {
            self.answer.clear();
            self.socket.recv(&mut self.answer, 0)?;
            match read_answer(&self.answer, self.sequence) {
                Answer::Other => {}
                Answer::None => return Ok(None),
                Answer::Owner(owner) => return Ok(Some(owner)),
            }
        }
    }
}

/// The question for one socket: `struct inet_diag_req_v2` with all states and no cookie.
fn question(sequence: u32, protocol: libc::c_int, source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    bytes.extend(((HEADER + QUESTION) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    let family = if source.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    bytes.extend([family as u8, protocol as u8, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    for ip in [source.ip(), destination.ip()] {
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
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_socket_of_ours_is_found_to_be_ours() {
        let mut owners = Owners::of(&NetNs::current().unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (app, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let owner = owners.of_tcp(app, peer).unwrap().expect("it is there");
        assert_eq!(owner.user, rustix::process::geteuid().as_raw());
        assert_ne!(owner.inode, 0);
        let nobody = SocketAddr::new(peer.ip(), 1);
        assert_eq!(owners.of_tcp(nobody, peer).unwrap(), None);
    }

    #[test]
    fn a_socket_of_datagrams_is_found_connected_or_not() {
        let mut owners = Owners::of(&NetNs::current().unwrap()).unwrap();
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let (app, peer) = (one.local_addr().unwrap(), other.local_addr().unwrap());
        let bound = owners.of_udp(app, peer).unwrap().expect("it is there");
        one.connect(peer).unwrap();
        assert_eq!(owners.of_udp(app, peer).unwrap(), Some(bound));
        assert_ne!(owners.of_udp(peer, app).unwrap(), Some(bound));
        drop(one);
        assert_eq!(owners.of_udp(app, peer).unwrap(), None);
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
