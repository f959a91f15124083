//! A run's end of its control connection: finds the supervisor, starts one, or forks a private one.

use crate::calls::Outstanding;
use crate::control::{
    Account, ControlError, Descriptor, History, Observation, Reply, Request, Summary, receive, send, short,
};
use crate::folder::FolderError;
use crate::home::{Home, find};
use crate::sys::seccomp::{Listener, is_listened_to};
use crate::sys::{fork, process};
use crate::watchdog::Duty;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a supervisor may take to say what is going on; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// The connection to a supervisor.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    /// The private supervisor at the other end, which ends with the connection.
    child: Option<Pid>,
    /// The reply to the registration was received.
    registered: bool,
}

/// Why there is no connection to a supervisor.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no place for it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It could not be started.
    #[error("the supervisor could not be started: {0}")]
    Start(io::Error),
    /// It does not answer as it should.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// What a run registers.
#[derive(Debug)]
pub struct Registration {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How the program is reached.
    pub via: String,
    /// What its preloaded libraries need, if there are to be any.
    pub preload: Option<Preloaded>,
}

/// What the preloaded libraries of a run need.
#[derive(Debug)]
pub struct Preloaded {
    /// The socket on which they connect.
    pub listener: OwnedFd,
    /// The filter of known addresses, open for writing.
    pub filter: OwnedFd,
}

impl Link {
    /// The connection to the user's supervisor, if there is one.
    pub fn find() -> Option<Self> {
        find().map(Self::to)
    }

    fn to(socket: OwnedFd) -> Self {
        Self { socket, child: None, registered: false }
    }

    /// The connection of a run to the user's supervisor, which is started by what `supervise` makes if there is none: a
    /// command that takes the path of its home as last argument, its socket as standard input and its lock as standard
    /// output, and detaches itself. See [`crate::home::Home::inherited`].
    pub fn shared(supervise: Command, run: &Registration) -> Result<Self, LinkError> {
        let link = Self::find_or_start(supervise)?;
        // Its answer is not waited for. Should there be none, the program goes on alone.
        link.register(run)?;
        Ok(link)
    }

    fn find_or_start(supervise: Command) -> Result<Self, LinkError> {
        if let Some(link) = Self::find() {
            return Ok(link);
        }
        // A supervisor that other runs will find must not be under the filter of a process that ends before it does.
        if is_listened_to().unwrap_or(false) {
            let why =
                "under a sandbox or another headstart that intercepts system calls, no shared supervisor is started";
            return Err(LinkError::Start(io::Error::other(why)));
        }
        let (home, listener) = match Home::make() {
            Ok(made) => made,
            Err(Ok(socket)) => return Ok(Self::to(socket)),
            Err(Err(why)) => return Err(why.into()),
        };
        if let Err(e) = start(supervise, &home, listener) {
            home.remove();
            return Err(LinkError::Start(e));
        }
        Self::find().ok_or_else(|| LinkError::Start(io::Error::other("it ended at once")))
    }

    /// The connection to a supervisor of this run alone: `serve` in a process of its own, which is given the other end and
    /// ends with what it returns. Only for a process without further threads.
    pub fn private(serve: impl FnOnce(OwnedFd) -> u8, run: &Registration) -> Result<Self, LinkError> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (socket, theirs) = pair.map_err(|e| LinkError::Start(e.into()))?;
        let child = fork::apart([theirs], |[theirs]| serve(theirs)).map_err(LinkError::Start)?;
        let link = Self { socket, child: Some(child), registered: false };
        link.register(run)?;
        Ok(link)
    }

    fn register(&self, run: &Registration) -> Result<(), ControlError> {
        let (what, descriptors) = match &run.preload {
            Some(Preloaded { listener, filter }) => {
                (vec![Descriptor::PreloadListener, Descriptor::PreloadFilter], vec![listener.as_fd(), filter.as_fd()])
            }
            None => (Vec::new(), Vec::new()),
        };
        let request = Request::Run {
            command: short(&run.command),
            via: run.via.clone(),
            pid: std::process::id(),
            descriptors: what,
        };
        self.ask(&request, &descriptors)
    }

    /// Gives the supervisor the program's trapped system calls, which wait for it; it notes in `outstanding` which ones it
    /// has not answered, and takes over the `duty` to answer them.
    pub fn hand_over_calls(
        &self,
        listener: &Listener,
        outstanding: &Outstanding,
        duty: Duty,
    ) -> Result<(), ControlError> {
        let descriptors = vec![Descriptor::SeccompListener, Descriptor::Outstanding, Descriptor::Duty];
        self.ask(&Request::Add { descriptors }, &[listener.as_fd(), outstanding.as_fd(), duty.as_fd()])
    }

    /// Hangs up and leaves a private supervisor to those that it still serves.
    pub fn leave(mut self) {
        self.child = None;
    }

    /// Ends a private supervisor when no process is left of the run: it then serves no one else and has nothing to save, so it
    /// need not be asked; only children of its own it must wait for itself. What is returned waits for it when dropped.
    pub fn end(self) -> impl Drop {
        if let Some(child) = self.child.filter(|child| !process::has_children(child.as_raw_nonzero().get())) {
            // It can only have ended already.
            let _ = kill_process(child, Signal::KILL);
        }
        self
    }

    /// Lets the supervisor watch the program, by a descriptor from pidfd_open(2).
    pub fn watch(&self, program: &OwnedFd) -> Result<(), ControlError> {
        self.ask(&Request::Add { descriptors: vec![Descriptor::Program] }, &[program.as_fd()])
    }

    /// What the run has gained so far.
    pub fn summary(&mut self) -> Result<Summary, ControlError> {
        self.ask(&Request::Summarise, &[])?;
        if !std::mem::replace(&mut self.registered, true) {
            self.receive_reply()?;
        }
        match self.receive_reply()? {
            Reply::Summary(summary) => Ok(*summary),
            other => Err(ControlError::Malformed(format!("{other:?} is not a summary"))),
        }
    }

    /// What the supervisor knows of `host`, a name or an address.
    pub fn explain(&self, host: &str) -> Result<Account, ControlError> {
        self.ask(&Request::Explain { host: host.to_owned() }, &[])?;
        match self.receive_reply()? {
            Reply::Explained(account) => Ok(*account),
            other => Err(ControlError::Malformed(format!("{other:?} is not an explanation"))),
        }
    }

    /// What was learned, and what went wrong with the store.
    pub fn history(&self) -> Result<(History, Vec<String>), ControlError> {
        match self.report(&Request::Remember { descriptors: vec![Descriptor::Report] })? {
            (Reply::Remembered { notes }, history) => Ok((history, notes)),
            (other, _) => Err(ControlError::Malformed(format!("{other:?} is not a history"))),
        }
    }

    /// What is going on: with so many of the latest races at most, of these those that have changed `after` so many changes, and what
    /// was learned if `history` is wanted.
    pub fn observe(&self, races: usize, after: u64, history: bool) -> Result<Observation, ControlError> {
        set_socket_timeout(&self.socket, Timeout::Recv, Some(PATIENCE))?;
        match self.report(&Request::Observe { descriptors: vec![Descriptor::Report], races, after, history })? {
            (Reply::Observed, observation) => Ok(observation),
            (other, _) => Err(ControlError::Malformed(format!("{other:?} is not an observation"))),
        }
    }

    /// Asks for what does not fit into a message: the answer, and what was written into the file that goes along.
    fn report<T: DeserializeOwned>(&self, request: &Request) -> Result<(Reply, T), ControlError> {
        let file = File::from(memfd_create(c"headstart-report", MemfdFlags::CLOEXEC)?);
        self.ask(request, &[file.as_fd()])?;
        let reply = self.receive_reply()?;
        (&file).seek(SeekFrom::Start(0))?;
        let read = serde_json::from_reader(BufReader::new(file));
        Ok((reply, read.map_err(|e| ControlError::Malformed(e.to_string()))?))
    }

    /// Has what was learned of a program, of a host, or everything forgotten; how many records there were of it on disk.
    pub fn forget(&self, app: Option<&str>, host: Option<&str>) -> Result<usize, ControlError> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        self.ask(&Request::Forget { app: owned(app), host: owned(host) }, &[])?;
        match self.receive_reply()? {
            Reply::Forgotten { records } => Ok(records),
            other => Err(ControlError::Malformed(format!("{other:?} is not an answer about deletion"))),
        }
    }

    /// Sends a request; the reply is to be [received](Self::receive_reply) where there is one.
    pub fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), ControlError> {
        send(&self.socket, request, descriptors, SendFlags::empty())
    }

    /// Waits for the next reply.
    pub fn receive_reply(&self) -> Result<Reply, ControlError> {
        match receive(&self.socket, RecvFlags::empty())? {
            (Reply::Refused(why), _) => Err(ControlError::Refused(why)),
            (reply, _) => Ok(reply),
        }
    }
}

impl AsFd for Link {
    /// The connection, to watch for its end (see [`crate::poll::Interest::HangUp`]).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(child) = self.child {
            // Its end is that of the connection: it may not be waited for while that is open.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
            while matches!(waitpid(Some(child), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
        }
    }
}

/// Runs `supervise`, which returns as soon as the supervisor proper is a process of its own.
fn start(mut supervise: Command, home: &Home, listener: OwnedFd) -> io::Result<()> {
    let (path, lock) = home.parts();
    supervise.arg(path).stdin(listener).stdout(lock.try_clone_to_owned()?).stderr(Stdio::null());
    // Nothing of the first run stays with it: neither its preloaded libraries nor its terminal.
    let status = supervise.env_clear().current_dir("/").arg0("headstart").status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_arguments_are_as_long_as_execve_allows_is_registered() {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (socket, theirs) = pair.unwrap();
        let mut command = vec!["cc".to_owned()];
        command.extend(std::iter::repeat_n("object.o".repeat(10), 20_000));
        Link::to(socket).register(&Registration { command, via: "auto".into(), preload: None }).unwrap();
        match receive(&theirs, RecvFlags::empty()).unwrap() {
            (Request::Run { command, .. }, _) => assert!(command[0] == "cc" && command.len() > 1, "{command:?}"),
            (other, _) => panic!("{other:?}"),
        }
    }
}
