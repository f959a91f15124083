//! Boards: what a running process tells a client that asks, one JSON object a connection.
//!
//! The client connects to a socket with an abstract name (unix(7)), which needs no removal, and gets a file in memory: a thousand
//! connections do not fit into the buffer of a socket, and a client that reads slowly holds nothing up. Only the same user and root
//! get it: the kernel names the client (SO_PEERCRED).

use crate::local;
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

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
/// How long a process may take to answer; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// No board is longer, in bytes.
pub(crate) const LONGEST: usize = 4 << 20;
/// Comes with the file, since a descriptor needs a byte to come with.
const HERE: &[u8] = b"\n";

/// What a process reports to its clients.
pub trait Report: Serialize + DeserializeOwned {
    /// What the names of its sockets begin with; the number of the process follows.
    const NAME: &'static str;
    /// The version that is known.
    const VERSION: u32;

    /// The version of the report.
    fn version(&self) -> u32;
}

/// The socket at which this process is asked for a `T`.
pub fn listener<T: Report>() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &address::<T>(std::process::id())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Accepts a client of `listener` and sends it the board.
pub fn answer<T: Report>(listener: &OwnedFd, board: impl FnOnce() -> T) {
    if let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        tell(client, board);
    }
}

/// Sends the board to a client that may read it, without waiting for it.
pub fn tell<T: Report>(client: impl AsFd, board: impl FnOnce() -> T) {
    if !is_trusted(&client) {
        return;
    }
    // A client that gets nothing says so.
    if let Ok(file) = written(&board()) {
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

/// Whether the other end may read the board, and is trusted: this user, or root.
fn is_trusted(socket: impl AsFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
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
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this user may not read it: run as root"));
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
}
