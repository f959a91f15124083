//! A Unix socket by which the link of a running lab is shown and changed: `headstart lab link`.
//!
//! That of a shell lies in a private folder; programs in the lab find it by [`LINK`], programs outside by that variable of a process
//! inside. That of `lab attach` has a name in the network namespace that it is at ([`claim`]), which ends with it and which no two have.
//! One line comes, `show` or `set SPECIFICATION`; one line goes, `ok SPECIFICATION` or `error WHY`. It is open to the user of the lab
//! alone (at an attached link to root too), answers one caller at a time, and waits for none longer than [`PATIENCE`].

use super::emulator::Links;
use super::{Error, files, topology};
use crate::program::Folder;
use headstart_io::sys::netns::NetNs;
use headstart_link::DuplexSpec;
use rustix::net::Shutdown;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Environment variable that names the socket of a shell.
pub(super) const LINK: &str = "HEADSTART_LAB_LINK";
/// Name of the socket of an attached link, in the network namespace that it is at.
const ATTACHED: &str = "headstart-lab-attach";
/// Why that name cannot be had.
const HELD: &str = "an emulated link is in the way of that network already: end that `lab attach` first (or the program there that \
                    holds the abstract socket @headstart-lab-attach)";
/// The longest line either way: specifications have some hundred bytes.
const LONGEST: u64 = 16 * 1024;
/// The longest wait for the other side.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked of a running lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What the link is.
    Show,
    /// Change what this says of it, in the form of `--link`; leave the rest.
    Set(String),
}

/// The socket's end in the lab; gone when dropped.
pub(super) struct Control {
    listener: UnixListener,
    thread: Option<JoinHandle<()>>,
}

/// That of a shell.
pub(super) struct InFolder {
    path: PathBuf,
    _control: Control,
    _folder: Folder,
}

impl InFolder {
    /// Starts answering, for the first of `links`, which is `link` now.
    pub fn start(links: Links, link: DuplexSpec) -> io::Result<Self> {
        let folder = Folder::new()?;
        let path = folder.path().join("link");
        let control = Control::answer(UnixListener::bind(&path)?, State { links, link, open: true })?;
        Ok(Self { path, _control: control, _folder: folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A name in a network namespace that one `lab attach` has at a time.
pub(super) struct Claim(UnixListener);

/// Takes the name, if no other has it.
pub(super) fn claim(ns: &NetNs) -> Result<Claim, Error> {
    topology::in_ns(ns, || match attached_name().and_then(|name| UnixListener::bind_addr(&name)) {
        Ok(listener) => Ok(Claim(listener)),
        Err(taken) if taken.kind() == io::ErrorKind::AddrInUse => Err(Error::Asked(HELD.into())),
        Err(source) => Err(Error::Io { what: "making the socket for `lab link`".into(), source }),
    })
}

impl Control {
    /// Starts answering by that name, for the first of `links`, which is `link` now.
    pub fn at(claim: Claim, links: Links, link: DuplexSpec) -> io::Result<Self> {
        Self::answer(claim.0, State { links, link, open: false })
    }

    fn answer(listener: UnixListener, mut state: State) -> io::Result<Self> {
        let callers = listener.try_clone()?;
        let thread = std::thread::Builder::new().name("link control".into()).spawn(move || {
            while let Ok((caller, _)) = callers.accept() {
                // A caller that goes away, or says nothing, is no matter of the lab's.
                let _ = state.serve(&caller);
            }
        })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let (Ok(()), Some(thread)) = (rustix::net::shutdown(&self.listener, Shutdown::Both), self.thread.take()) {
            let _ = thread.join();
        }
    }
}

struct State {
    links: Links,
    link: DuplexSpec,
    /// Whether all who can reach the socket may ask.
    open: bool,
}

impl State {
    fn serve(&mut self, caller: &UnixStream) -> io::Result<()> {
        if !self.open && !is_trusted(caller) {
            return Ok(());
        }
        caller.set_read_timeout(Some(PATIENCE))?;
        caller.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(caller.take(LONGEST)).read_line(&mut line)?;
        let answer = match self.answer(line.trim_end()) {
            Ok(link) => format!("ok {link}\n"),
            Err(why) => format!("error {}\n", why.replace('\n', " ")),
        };
        (&*caller).write_all(answer.as_bytes())
    }

    fn answer(&mut self, line: &str) -> Result<String, String> {
        match line.split_once(' ') {
            None if line == "show" => {}
            Some(("set", text)) => {
                let link = headstart_link::change_sized(&self.link, text, &mut files).map_err(|why| why.to_string())?;
                self.links.change(0, link.clone()).map_err(|why| format!("telling the emulator: {why}"))?;
                self.link = link;
            }
            _ => return Err("neither `show` nor `set SPECIFICATION`".to_owned()),
        }
        Ok(self.link.to_string())
    }
}

/// Asks the lab whose link process `pid`, or this one, is behind; what that link is now.
pub fn ask(pid: Option<u32>, request: &Request) -> Result<String, Error> {
    let failed = |source| Error::Io { what: "asking the lab for its link".into(), source };
    let lab = match (attached(pid), pid) {
        (Some(lab), _) => lab,
        (None, None) => {
            let path = std::env::var_os(LINK).ok_or_else(|| {
                let why = "this is no program of a `headstart lab shell`: name one of its processes by --pid";
                Error::Asked(why.into())
            })?;
            UnixStream::connect(path).map_err(failed)?
        }
        (None, Some(pid)) => UnixStream::connect(socket_of(pid)?).map_err(failed)?,
    };
    let line = match request {
        Request::Show => "show\n".to_owned(),
        Request::Set(text) => format!("set {}\n", text.replace('\n', " ")),
    };
    let answer = exchange(lab, &line).map_err(failed)?;
    match answer.trim_end().split_once(' ') {
        Some(("ok", link)) => Ok(link.to_owned()),
        Some(("error", why)) => Err(Error::Asked(why.to_owned())),
        _ => Err(failed(io::Error::other("it has ended, or belongs to another user"))),
    }
}

fn exchange(mut lab: UnixStream, line: &str) -> io::Result<String> {
    lab.set_read_timeout(Some(PATIENCE))?;
    lab.write_all(line.as_bytes())?;
    let mut answer = String::new();
    lab.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// The `lab attach` at the network namespace of a process, or of this one. Others than its user and root may hold the name: they are
/// not asked.
fn attached(pid: Option<u32>) -> Option<UnixStream> {
    let connect = || UnixStream::connect_addr(&attached_name().ok()?).ok();
    let lab = match pid {
        None => connect(),
        Some(pid) => {
            let (there, here) = (NetNs::of_process(pid).ok()?, NetNs::current().ok()?);
            if there.id().ok()? == here.id().ok()? { connect() } else { there.run(connect).ok()? }
        }
    };
    lab.filter(|lab| is_trusted(lab))
}

fn attached_name() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(ATTACHED)
}

/// Whether the other end belongs to this user or to root.
fn is_trusted(other: impl AsFd) -> bool {
    socket_peercred(other).is_ok_and(|other| other.uid == geteuid() || other.uid.is_root())
}

/// The socket that the environment of a process names.
fn socket_of(pid: u32) -> Result<PathBuf, Error> {
    let environ = std::fs::read(format!("/proc/{pid}/environ"))
        .map_err(Error::io(format!("reading the environment of process {pid}")))?;
    let value = environ.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(format!("{LINK}=").as_bytes()));
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    value.map(PathBuf::from).ok_or_else(|| {
        Error::Asked(format!(
            "process {pid} was not started in a `headstart lab shell`, and no `lab attach` is at its network: name a program that runs there"
        ))
    })
}
