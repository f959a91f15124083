//! The daemon's socket: which clients may connect, what they may ask, and how much of its time they get.
//!
//! A process that can open the socket (its owner, and its group if one is set) may ask for the status; only the owner and root may
//! stop the daemon. The kernel names the client (SO_PEERCRED), not the client itself. One request and one answer a connection. The
//! daemon waits for no client: one that says nothing holds one of a few places until a newer one needs it.

use super::message::{Answer, MOST_REQUEST, Request, Wish};
use rustix::fs::{Gid, Mode, chmod, chown};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv,
    send, socket_with,
};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Clients that may be connected at once.
pub const MOST_CLIENTS: usize = 16;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// The socket and its clients.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    listener: OwnedFd,
    group: Option<u32>,
    clients: VecDeque<(u64, OwnedFd)>,
    next: u64,
}

/// What a client wants, and whether it is to be had.
#[derive(Debug, PartialEq, Eq)]
pub enum Demand {
    /// The status.
    Status,
    /// A shutdown, asked for by a client that may.
    Down,
}

impl Door {
    /// Listens at `path`, for the owner and `group`. The caller holds the daemon's lock: whatever socket is there is a dead one's.
    pub fn open(path: &Path, group: Option<&str>) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::other("it exists and is not a socket; it is left unchanged")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(path)?)?;
        // All of this before any client can connect.
        let furnish = || {
            let group = group.map(number_of).transpose()?;
            if let Some(group) = group {
                chown(path, None, Some(Gid::from_raw(group)))?;
            }
            chmod(path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP)?;
            listen(&listener, BACKLOG)?;
            Ok(group)
        };
        let group = furnish().inspect_err(|_: &io::Error| _ = fs::remove_file(path))?;
        Ok(Self { path: path.to_owned(), listener, group, clients: VecDeque::new(), next: 0 })
    }

    /// The number of the group that may ask, if one may.
    pub fn group(&self) -> Option<u32> {
        self.group
    }

    /// The socket to listen to.
    pub fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Accepts waiting clients; the descriptors to listen to from now on, each with its number, and the numbers of those sent away.
    pub fn admit(&mut self) -> (Vec<u64>, Vec<OwnedFd>) {
        let (mut came, mut sent_away) = (Vec::new(), Vec::new());
        // Bounded: others wait until the next round.
        for _ in 0..BACKLOG {
            let Ok(client) = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else { break };
            if self.clients.len() >= MOST_CLIENTS
                && let Some((_, oldest)) = self.clients.pop_front()
            {
                sent_away.push(oldest);
            }
            self.next += 1;
            self.clients.push_back((self.next, client));
            came.push(self.next);
        }
        came.retain(|number| self.client(*number).is_some());
        (came, sent_away)
    }

    /// The connection of a client, if it is still there.
    pub fn client(&self, number: u64) -> Option<&OwnedFd> {
        self.clients.iter().find(|(n, _)| *n == number).map(|(_, client)| client)
    }

    /// Removes the client from those that wait and reads its request. A client that may not ask this, or whose request is malformed,
    /// gets that answer here.
    pub fn read_request(&mut self, number: u64) -> Option<(OwnedFd, Demand)> {
        let at = self.clients.iter().position(|(n, _)| *n == number)?;
        let (_, client) = self.clients.remove(at)?;
        let mut bytes = [0; MOST_REQUEST + 1];
        let (got, _) = recv(&client, &mut bytes, RecvFlags::DONTWAIT).ok()?;
        match Request::decode(&bytes[..got]) {
            Err(why) => answer(&client, Answer::Misunderstood { why }),
            Ok(Request { verb: Wish::Status, .. }) => return Some((client, Demand::Status)),
            Ok(Request { verb: Wish::Down, .. }) => {
                let peer = socket_peercred(&client).ok()?;
                if peer.uid.is_root() || peer.uid == rustix::process::geteuid() {
                    return Some((client, Demand::Down));
                }
                let why = format!("user {} may not stop the daemon; its owner and root may", peer.uid.as_raw());
                answer(&client, Answer::Refused { why });
            }
        }
        None
    }

    /// Removes the socket.
    pub fn close(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers. Does not wait for a client that does not read.
pub fn answer(client: &OwnedFd, answer: Answer) {
    let _ = send(client, &answer.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// The number of a group of this host (/etc/group).
fn number_of(group: &str) -> io::Result<u32> {
    let text = fs::read_to_string("/etc/group")?;
    let number = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let unknown = || io::Error::other(format!("host.group: unknown group `{group}` (not in /etc/group)"));
    text.lines().find_map(number).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::message::Answer;
    use std::os::unix::fs::PermissionsExt as _;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hs-door-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn client(path: &Path) -> OwnedFd {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        socket
    }

    fn answer_to(client: &OwnedFd) -> Option<Answer> {
        let mut bytes = vec![0; 4096];
        let (got, _) = recv(client, bytes.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
        Answer::decode(&bytes[..got]).ok()
    }

    #[test]
    fn the_owner_is_heard_and_nonsense_is_refused() {
        let folder = scratch("owner");
        let path = folder.join("control");
        let mut door = Door::open(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let (one, other) = (client(&path), client(&path));
        let (came, _) = door.admit();
        send(&one, b"{\"version\":1,\"verb\":\"down\"}", SendFlags::empty()).unwrap();
        send(&other, b"\xff\0nonsense", SendFlags::empty()).unwrap();
        assert!(matches!(door.read_request(came[0]), Some((_, Demand::Down))));
        assert!(door.read_request(came[1]).is_none());
        assert!(matches!(answer_to(&other), Some(Answer::Misunderstood { .. })));
        assert!(door.read_request(came[0]).is_none(), "one request a connection");
        door.close();
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn those_who_say_nothing_make_room_for_those_who_do() {
        let folder = scratch("silent");
        let path = folder.join("control");
        let mut door = Door::open(&path, None).unwrap();
        let mut silent = Vec::new();
        for _ in 0..3 * MOST_CLIENTS {
            silent.push(client(&path));
            door.admit();
        }
        assert_eq!(door.clients.len(), MOST_CLIENTS);
        let heard = client(&path);
        let (came, sent_away) = door.admit();
        assert_eq!(sent_away.len(), 1);
        send(&heard, b"{\"version\":1,\"verb\":\"status\"}", SendFlags::empty()).unwrap();
        assert!(matches!(door.read_request(came[0]), Some((_, Demand::Status))));
        // One that hung up before it was heard is no harm.
        drop(silent);
        let number = door.clients[0].0;
        assert!(door.read_request(number).is_none());
        door.close();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_dead_ones_socket_is_replaced_and_anything_else_in_its_place_is_not() {
        let folder = scratch("stale");
        let path = folder.join("control");
        drop(Door::open(&path, None).unwrap());
        assert!(path.exists());
        Door::open(&path, None).unwrap().close();
        fs::write(&path, "precious").unwrap();
        assert!(Door::open(&path, None).unwrap_err().to_string().contains("left unchanged"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert!(Door::open(&folder.join("new"), Some("no-such-group")).is_err() && !folder.join("new").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
