//! Boards: what a running process tells a client that asks, one JSON object a connection.
//!
//! The client connects to a socket with an abstract name (unix(7)), which needs no removal, and reads to its end. Only the same user
//! and root get it: the kernel names the client (SO_PEERCRED).

use crate::local;
use headstart_core::time::Duration;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_peercred};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, send, socket_with,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
/// How long a process may take to answer; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// No board is longer, in bytes: this much buffer is requested for the reader's socket; the kernel grants what it permits.
pub(crate) const LONGEST: usize = 1 << 20;

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
    let Ok(text) = serde_json::to_vec(&board()) else { return };
    let _ = set_socket_send_buffer_size(&client, LONGEST);
    // What does not fit is not told; the next question may be luckier.
    let _ = send(&client, &text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
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
    let mut text = Vec::new();
    File::from(socket).take(LONGEST as u64).read_to_end(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this user may not read it: run as root"));
    }
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
