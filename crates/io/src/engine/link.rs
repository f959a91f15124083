//! The connection to the app: a Unix stream socket, on which frames go both ways and descriptors come along with the first byte of theirs.
//!
//! Nothing waits for the app but [`Link::protect`], for at most [`PATIENCE`]: a socket that is not protected would be led back into the
//! interface. What else comes meanwhile is kept, and the bell says so.

use super::frame::{FrameError, Frames, encode};
use super::message::{MOST_DESCRIPTORS, NoMessage, ToApp, ToEngine, read};
use crate::clock::Clock;
use headstart_core::time::{Duration, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketType, recvmsg, send, sendmsg, sockopt,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How long the app may take to protect one socket; packets wait meanwhile. 1 s: a call of Android's takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes that may wait for an app that does not read. 4 MiB: two minutes of statistics of a busy device.
const MOST_WAITING: usize = 4 << 20;
/// Bytes that one read takes.
const ROOM: usize = 16 * 1024;

/// The app is no more, or does not keep to the protocol so that nothing further can be read.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It has closed the connection.
    #[error("the app has closed its connection")]
    Closed,
    /// What comes is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It does not read.
    #[error("the app does not read its messages ({MOST_WAITING} bytes wait)")]
    Deaf,
    /// The socket does not work.
    #[error("the connection to the app: {0}")]
    Socket(io::Error),
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> Self {
        Self::Socket(errno.into())
    }
}

/// A message of the app with its descriptors, or what is wrong with it.
pub type Received = Result<(ToEngine, Vec<OwnedFd>), NoMessage>;

/// See the module.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    clock: Clock,
    frames: Frames,
    /// Descriptors that have come, in order.
    descriptors: VecDeque<OwnedFd>,
    inbox: VecDeque<Received>,
    /// What the socket has not taken yet.
    waiting: Vec<u8>,
    bell: OwnedFd,
    questions: u64,
    /// Why nothing more can come, until that is said.
    broken: Option<LinkError>,
}

impl Link {
    /// Connects to the app that listens at `path`; `@NAME` is a name that is no file's (unix(7)). Only this user, or root, is trusted
    /// there.
    pub fn connect(path: &str, clock: Clock) -> io::Result<Self> {
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        let socket = crate::local::connect(SocketType::STREAM, &address, PATIENCE)?;
        let peer = sockopt::socket_peercred(&socket)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
        }
        Self::of(socket, clock)
    }

    /// Over a socket that is connected.
    pub fn of(socket: OwnedFd, clock: Clock) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            socket,
            clock,
            frames: Frames::default(),
            descriptors: VecDeque::new(),
            inbox: VecDeque::new(),
            waiting: Vec::new(),
            bell,
            questions: 0,
            broken: None,
        })
    }

    /// Readable when something has come while a socket was being protected.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether something waits for the socket.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Says something; what the socket does not take at once goes with the next [`flush`](Self::flush).
    pub fn say(&mut self, message: &ToApp) -> Result<(), LinkError> {
        // Statistics are shortened before; nothing else comes near the bound.
        let frame = serde_json::to_vec(message).ok().and_then(|body| encode(&body));
        self.waiting.extend(frame.unwrap_or_default());
        if self.waiting.len() > MOST_WAITING {
            return Err(LinkError::Deaf);
        }
        self.flush()
    }

    /// Gives the socket what waits for it.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        while !self.waiting.is_empty() {
            match send(&self.socket, &self.waiting, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => _ = self.waiting.drain(..taken),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(LinkError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// All messages that have come; an error once those are handed out and no more can come.
    pub fn receive_all(&mut self) -> Result<Vec<Received>, LinkError> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        while self.read_some() {}
        match self.broken.take() {
            Some(why) if self.inbox.is_empty() => Err(why),
            why => {
                if why.is_some() {
                    self.broken = why;
                    self.ring();
                }
                Ok(self.inbox.drain(..).collect())
            }
        }
    }

    /// Signals that there are messages.
    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Reads once; whether there may be more.
    fn read_some(&mut self) -> bool {
        if self.broken.is_none() {
            match self.receive() {
                Ok(more) => return more,
                Err(why) => self.broken = Some(why),
            }
        }
        false
    }

    fn receive(&mut self) -> Result<bool, LinkError> {
        let mut bytes = [0; ROOM];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::CONNRESET) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(list) = message {
                self.descriptors.extend(list);
            }
        }
        if got == 0 {
            return Err(LinkError::Closed);
        }
        self.frames.push(&bytes[..got]);
        while let Some(body) = self.frames.next_body()? {
            self.understand(&body);
        }
        Ok(true)
    }

    fn understand(&mut self, body: &[u8]) {
        let read = read(body);
        let count = read.as_ref().map_or_else(|wrong| wrong.descriptors, |body| body.descriptors);
        let descriptors = self.descriptors.drain(..count.min(self.descriptors.len())).collect();
        match read {
            Ok(body) => self.inbox.extend(body.message.map(|message| Ok((message, descriptors)))),
            Err(wrong) => self.inbox.push_back(Err(wrong)),
        }
    }

    /// Has the app protect a socket.
    pub fn protect(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let done = self.ask_to_protect(socket);
        // What else has come is for the loop.
        if !self.inbox.is_empty() || self.broken.is_some() {
            self.ring();
        }
        done
    }

    fn ask_to_protect(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let until = self.clock.now() + PATIENCE;
        self.questions += 1;
        let question = self.questions;
        let body = serde_json::to_vec(&ToApp::Protect { question, descriptors: 1 });
        let frame = body.ok().and_then(|body| encode(&body)).ok_or(Errno::INVAL)?;
        while !self.waiting.is_empty() {
            self.flush().map_err(|_| Errno::PIPE)?;
            self.wait(PollFlags::OUT, until)?;
        }
        self.send_along(&frame, socket, until)?;
        loop {
            if let Some(ok) = self.protected(question) {
                return if ok { Ok(()) } else { Err(Errno::PERM) };
            }
            // The rest of a long row, if there is one.
            let _ = self.flush();
            let more = self.read_some();
            if self.broken.is_some() {
                return Err(Errno::PIPE);
            }
            if !more {
                self.wait(PollFlags::IN, until)?;
            }
        }
    }

    /// Takes the answer to a question out of what has come.
    fn protected(&mut self, wanted: u64) -> Option<bool> {
        let mut answer = None;
        self.inbox.retain(|heard| match heard {
            Ok((ToEngine::Protected { question, ok }, _)) => {
                if *question == wanted {
                    answer = Some(*ok);
                }
                false
            }
            _ => true,
        });
        answer
    }

    /// Sends a frame with a descriptor.
    fn send_along(&mut self, frame: &[u8], socket: BorrowedFd<'_>, until: Instant) -> Result<(), Errno> {
        let descriptors = [socket];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&self.socket, &[IoSlice::new(frame)], &mut control, flags) {
                Ok(taken) => {
                    // The descriptor has gone with the first byte.
                    self.waiting.extend(&frame[taken..]);
                    return Ok(());
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, until)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Waits for the socket alone.
    fn wait(&self, flags: PollFlags, until: Instant) -> Result<(), Errno> {
        let left = until.since(self.clock.now());
        if left.is_zero() {
            return Err(Errno::TIMEDOUT);
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
