//! A Unix socket by which the link of a running lab is shown and changed: `headstart lab link`.
//!
//! It lies in a private folder; programs in the lab find it by [`LINK`], programs outside by that variable of a process inside. One line
//! comes, `show` or `set SPECIFICATION`; one line goes, `ok SPECIFICATION` or `error WHY`. It is open to the user of the lab alone, answers
//! one caller at a time, and waits for none longer than [`PATIENCE`].

use super::emulator::Links;
use super::{Error, files};
use crate::program::Folder;
use headstart_link::DuplexSpec;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Environment variable that names the socket.
pub(super) const LINK: &str = "HEADSTART_LAB_LINK";
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
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: Folder,
}

impl Control {
    /// Starts answering, for the first of `links`, which is `link` now.
    pub fn start(links: Links, link: DuplexSpec) -> io::Result<Self> {
        let folder = Folder::new()?;
        let path = folder.path().join("link");
        let listener = UnixListener::bind(&path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut state = State { links, link };
        let thread = std::thread::Builder::new().name("link control".into()).spawn(move || {
            while let Ok((caller, _)) = listener.accept() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // A caller that goes away, or says nothing, is no matter of the lab's.
                let _ = state.serve(&caller);
            }
        })?;
        Ok(Self { path, stop, thread: Some(thread), _folder: folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let (Ok(_), Some(thread)) = (UnixStream::connect(&self.path), self.thread.take()) {
            let _ = thread.join();
        }
    }
}

struct State {
    links: Links,
    link: DuplexSpec,
}

impl State {
    fn serve(&mut self, caller: &UnixStream) -> io::Result<()> {
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
                let link = headstart_link::change(&self.link, text, &mut files).map_err(|why| why.to_string())?;
                self.links.change(0, link.clone()).map_err(|why| format!("telling the emulator: {why}"))?;
                self.link = link;
            }
            _ => return Err("neither `show` nor `set SPECIFICATION`".to_owned()),
        }
        Ok(self.link.to_string())
    }
}

/// Asks the lab that this process is in, or that process `pid` is in; what its link is now.
pub fn ask(pid: Option<u32>, request: &Request) -> Result<String, Error> {
    let path = match pid {
        None => std::env::var_os(LINK).map(PathBuf::from).ok_or_else(|| {
            Error::Asked("this is no program of a `headstart lab shell`: name one of its processes by --pid".into())
        })?,
        Some(pid) => socket_of(pid)?,
    };
    let failed = |source| Error::Io { what: format!("asking the lab at {}", path.display()), source };
    let line = match request {
        Request::Show => "show\n".to_owned(),
        Request::Set(text) => format!("set {}\n", text.replace('\n', " ")),
    };
    let answer = exchange(&path, &line).map_err(failed)?;
    match answer.trim_end().split_once(' ') {
        Some(("ok", link)) => Ok(link.to_owned()),
        Some(("error", why)) => Err(Error::Asked(why.to_owned())),
        _ => Err(failed(io::Error::other("it has ended"))),
    }
}

fn exchange(path: &Path, line: &str) -> io::Result<String> {
    let mut lab = UnixStream::connect(path)?;
    lab.set_read_timeout(Some(PATIENCE))?;
    lab.write_all(line.as_bytes())?;
    let mut answer = String::new();
    lab.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// The socket that the environment of a process names.
fn socket_of(pid: u32) -> Result<PathBuf, Error> {
    let environ = std::fs::read(format!("/proc/{pid}/environ"))
        .map_err(|source| Error::Io { what: format!("reading the environment of process {pid}"), source })?;
    let value = environ.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(format!("{LINK}=").as_bytes()));
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    value.map(PathBuf::from).ok_or_else(|| {
        Error::Asked(format!(
            "process {pid} was not started in a `headstart lab shell`: name the program that runs in it"
        ))
    })
}
