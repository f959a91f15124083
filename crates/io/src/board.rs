//! Boards: what a running process tells a client that asks, one JSON object a connection.
//!
//! The client connects to a socket with an abstract name (unix(7)), which needs no removal, and gets a file in memory: a thousand
//! connections do not fit into the buffer of a socket, and a client that reads slowly holds nothing up. The same user and root
//! get it, and whoever else an [`Audience`] has in it: the kernel names the client (SO_PEERCRED, SO_PEERGROUPS).

use crate::local;
use crate::sys::socket_option::peer_groups;
use headstart_core::time::Duration;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recvmsg, sendmsg, socket_with,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{self, BufWriter, IoSlice, IoSliceMut, Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
/// How long a process may take to answer; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// No board is longer, in bytes.
pub(crate) const LONGEST: usize = 4 << 20;
/// Comes with the file, since a descriptor needs a byte to come with.
const HERE: &[u8] = b"\n";
/// What users and groups of another user namespace are called, all of them (proc(5), overflowuid).
const NOBODY: u32 = 65534;
/// The folder of the system's daemon, which only root can make.
const SYSTEM: &str = "/run/headstart";

/// What a process reports to its clients.
pub trait Report: Serialize + DeserializeOwned {
    /// What the names of its sockets begin with; the number of the process follows.
    const NAME: &'static str;
    /// The version that is known.
    const VERSION: u32;

    /// The version of the report.
    fn version(&self) -> u32;
}

/// Who gets a board, beside the user of this process and root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Nobody.
    #[default]
    Owner,
    /// Every user of the host: members of the group all of it, others what is their own.
    Host {
        /// The group's number; none if there is no such group.
        group: Option<u32>,
    },
}

/// How much of a board a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of it.
    Everything,
    /// What is this user's.
    Of(u32),
}

impl Audience {
    /// How much the client at the other end of a socket gets; none if it gets nothing.
    pub fn sight(self, client: impl AsFd) -> Option<Sight> {
        let peer = socket_peercred(&client).ok()?;
        if peer.uid.is_root() || peer.uid == rustix::process::geteuid() {
            return Some(Sight::Everything);
        }
        let Self::Host { group } = self else { return None };
        let is_member = |group: u32| {
            let others = || peer_groups(&client).is_ok_and(|groups| groups.contains(&group));
            group != NOBODY && (peer.gid.as_raw() == group || others())
        };
        if group.is_some_and(is_member) {
            return Some(Sight::Everything);
        }
        let user = peer.uid.as_raw();
        (user != NOBODY).then_some(Sight::Of(user))
    }
}

/// The socket at which this process is asked for a `T`.
pub fn listener<T: Report>() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &address::<T>(std::process::id())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Accepts a client of `listener` and sends it what it gets of the board, if it gets anything.
pub fn answer<T: Report>(listener: &OwnedFd, audience: Audience, board: impl FnOnce(Sight) -> Option<T>) {
    if let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        && let Some(sight) = audience.sight(&client)
        && let Some(board) = board(sight)
    {
        send(client, &board);
    }
}

/// Sends the board to a client that is this user or root, without waiting for it.
pub fn tell<T: Report>(client: impl AsFd, board: impl FnOnce() -> T) {
    if Audience::Owner.sight(&client).is_some() {
        send(client, &board());
    }
}

fn send(client: impl AsFd, board: &impl Serialize) {
    // A client that gets nothing says so.
    if let Ok(file) = written(board) {
        let _ = hand_over(&client, &file);
    }
}

fn written(board: &impl Serialize) -> io::Result<File> {
    let mut to = BufWriter::new(File::from(memfd_create(c"headstart-board", MemfdFlags::CLOEXEC)?));
    serde_json::to_writer(&mut to, board).map_err(io::Error::other)?;
    let mut file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

fn hand_over(client: impl AsFd, file: &File) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(client, &[IoSlice::new(HERE)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The file that the other end hands over; nothing if it only hangs up.
fn handed(socket: impl AsFd) -> io::Result<Option<File>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut control, mut byte) = (RecvAncillaryBuffer::new(&mut space), [0]);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut list) => list.next(),
        _ => None,
    });
    match file {
        None if got.bytes > 0 => Err(io::Error::other("it is of another version")),
        file => Ok(file.map(File::from)),
    }
}

/// Whether what the other end says is believed: this user, root, or the user of the system's daemon (systemd's DynamicUser).
fn is_trusted(socket: impl AsFd) -> bool {
    let is_daemon = |uid: u32| std::fs::symlink_metadata(SYSTEM).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
    socket_peercred(socket)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid() || is_daemon(peer.uid.as_raw()))
}

/// The processes in the caller's network namespace that tell a `T`, the latest last.
pub fn running<T: Report>() -> Vec<u32> {
    let text = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let number = |line: &str| line.split_whitespace().last()?.strip_prefix('@')?.strip_prefix(T::NAME)?.parse().ok();
    let mut all: Vec<u32> = text.lines().filter_map(number).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Asks the process `pid`.
pub fn ask<T: Report>(pid: u32) -> io::Result<T> {
    let socket = local::connect(SocketType::STREAM, &address::<T>(pid)?, PATIENCE)?;
    if !is_trusted(&socket) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user: run as root"));
    }
    let Some(file) = handed(&socket)? else {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it tells this user nothing, or was asked too often: run as root",
        ));
    };
    let mut text = Vec::new();
    file.take(LONGEST as u64).read_to_end(&mut text)?;
    let told: T = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if told.version() != T::VERSION {
        let why = format!("its board has version {}, this program reads {}", told.version(), T::VERSION);
        return Err(io::Error::other(why));
    }
    Ok(told)
}

fn address<T: Report>(pid: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("{}{pid}", T::NAME).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Long {
        version: u32,
        lines: Vec<String>,
    }

    impl Report for Long {
        const NAME: &'static str = "headstart-test-long-";
        const VERSION: u32 = 3;

        fn version(&self) -> u32 {
            self.version
        }
    }

    /// What a client gets where something else answers.
    fn answered(with: impl FnOnce(OwnedFd) + Send) -> io::Result<Long> {
        let listener = listener::<Long>().unwrap();
        rustix::io::ioctl_fionbio(&listener, false).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| with(accept_with(&listener, SocketFlags::CLOEXEC).unwrap()));
            ask(std::process::id())
        })
    }

    #[test]
    fn a_board_that_fits_no_buffer_arrives_whole_and_anything_else_is_an_error() {
        let long = |version| Long { version, lines: vec!["a connection".repeat(10); 20_000] };
        assert_eq!(answered(|client| tell(client, || long(3))).unwrap(), long(3));
        let says = |answer: io::Result<Long>| answer.unwrap_err().to_string();
        assert!(says(answered(|client| tell(client, || long(4)))).contains("version 4, this program reads 3"));
        assert!(says(answered(drop)).contains("run as root"));
        let older = |client| _ = rustix::io::write(client, b"{\"version\":3,\"lines\":[]}").unwrap();
        assert!(says(answered(older)).contains("another version"));
    }

    /// Tells how much of it its reader gets.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Told(String);

    impl Report for Told {
        const NAME: &'static str = "headstart-test-told-";
        const VERSION: u32 = 1;

        fn version(&self) -> u32 {
            1
        }
    }

    /// What a client of this user, group and further groups is told; nothing if it is told nothing.
    fn told_as(listener: &OwnedFd, audience: Audience, user: u32, group: u32, more: &[u32]) -> Option<String> {
        let become_it = || {
            // Of this thread alone.
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            let more: Vec<_> = more.iter().map(|group| Gid::from_raw(*group)).collect();
            set_thread_groups(&more).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
        };
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                become_it();
                ask::<Told>(std::process::id())
            });
            answer(listener, audience, |sight| Some(Told(format!("{sight:?}"))));
            asked.join().unwrap().ok().map(|told| told.0)
        })
    }

    #[test]
    fn all_of_it_is_for_its_user_for_root_and_for_the_group_and_others_get_what_is_their_own() {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
        if !rustix::process::geteuid().is_root() || !map.trim().ends_with("4294967295") {
            return eprintln!("skipped: this user cannot become another");
        }
        let listener = listener::<Told>().unwrap();
        rustix::io::ioctl_fionbio(&listener, false).unwrap();
        let told = |audience, user, group, more: &[u32]| told_as(&listener, audience, user, group, more);
        let (owner, host) = (Audience::Owner, |group| Audience::Host { group });
        let (everything, own) = (Some("Everything".to_owned()), Some("Of(4711)".to_owned()));
        for audience in [owner, host(None), host(Some(4800))] {
            assert_eq!(told(audience, 0, 0, &[]), everything, "root, {audience:?}");
        }
        assert_eq!(told(owner, 4711, 4800, &[4800]), None, "a run of one user is not for others");
        assert_eq!(told(host(None), 4711, 4800, &[4800]), own);
        assert_eq!(told(host(Some(4800)), 4711, 4711, &[]), own);
        assert_eq!(told(host(Some(4800)), 4711, 4711, &[4799, 4801, 0]), own, "root's group is none of its own");
        assert_eq!(told(host(Some(4800)), 4711, 4800, &[]), everything, "its first group");
        assert_eq!(told(host(Some(4800)), 4711, 4711, &[4799, 4800]), everything, "one of its further groups");
        let many: Vec<u32> = (4700..4900).collect();
        assert_eq!(told(host(Some(4800)), 4711, 4711, &many), everything, "one of very many");
        // Whoever is of another user namespace has these numbers too.
        assert_eq!(told(host(Some(NOBODY)), 4711, NOBODY, &[NOBODY]), own);
        assert_eq!(told(host(Some(4800)), NOBODY, NOBODY, &[]), None);
    }
}
