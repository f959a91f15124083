//! Third-party programs that fetch a page, unmodified, which experiments and tests run bare and under headstart.
//!
//! One file a program, one line in [`ALL`]. An [`Entry`] says what the program is and how it is asked for a page;
//! [`Entry::prepare`] finds it on this machine and makes what it needs in a work folder; the [`Program`] that comes out
//! gives a [`Command`] for a [`Url`], which prints the page on standard output and ends. Nothing here starts the program,
//! measures it or touches the network, and nothing is ever installed.

mod aiohttp;
mod asyncio;
mod chromium;
mod client;
mod curl;
mod environment;
mod folder;
mod git;
mod go;
mod java;
pub mod line;
mod nginx;
mod node;
mod python;
mod requests;
mod url;
mod wget;

pub(crate) use environment::undisturbed;
pub use folder::{Folder, sweep_after};
pub use url::{Scheme, Url};

use crate::server::{authority, ssh};
use anyhow::{Context as _, ensure};
use headstart_io::program::find;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Every program, in the order of tables.
pub const ALL: &[Entry] = &[
    client::ENTRY,
    curl::ENTRY,
    wget::ENTRY,
    python::ENTRY,
    requests::ENTRY,
    aiohttp::ENTRY,
    asyncio::ENTRY,
    node::FETCH,
    node::RESOLVE,
    java::ENTRY,
    go::ENTRY,
    git::HTTPS,
    git::SSH,
    nginx::AT_START,
    nginx::RESOLVER,
    chromium::ENTRY,
];

/// The command `headstart` that is measured and whose own client is run: beside `headstart-lab`, else on the PATH. A program of
/// another name is that command itself.
pub fn headstart() -> std::io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    if this.file_name().is_none_or(|name| name != "headstart-lab") {
        return Ok(this);
    }
    let beside = this.with_file_name("headstart");
    let found = if beside.is_file() {
        Some(beside)
    } else {
        find(OsStr::new("headstart"), std::env::var_os("PATH").as_deref())
    };
    found.ok_or_else(|| std::io::Error::other("`headstart` is neither beside headstart-lab nor on the PATH"))
}

/// A program as the registry knows it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in tables and at the end of conditions, hyphenated.
    pub name: &'static str,
    /// What it is, for a report: one sentence without a full stop.
    pub what: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// The schemes that it fetches.
    pub schemes: &'static [Scheme],
    /// Whether its standard output is the page, byte for byte.
    pub prints_page: bool,
    /// Whether it can be told to send a file (see [`Program::sending`]).
    pub sends: bool,
    /// The folder of a server that its pages are in: a repository for programs that clone one, nothing for others.
    pub within: &'static str,
    /// Makes what the program needs in the work folder (a script, a compiled file) and says which file is started with it.
    /// Called once before any command; the folder is its own.
    prepare: fn(found: &Path, workdir: &Path) -> anyhow::Result<PathBuf>,
    /// Gives `command` (already that of the file that `prepare` named) the arguments and the environment that make it do
    /// what is asked for.
    fetch: fn(command: &mut Command, asked: &PageRequest<'_>),
}

/// What a program is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// The page.
    pub url: &'a Url,
    /// The program's own folder.
    pub workdir: &'a Path,
    /// The authorities to trust; the host's if none.
    pub trust: Option<&'a Trust>,
    /// A file to send there (POST), if the program sends any.
    pub body: Option<&'a Path>,
}

/// The authorities that programs are to trust, beyond or instead of what their user's settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The certificate authority of the lab's HTTPS servers.
    pub https: Option<authority::Trust>,
    /// How to log in at the lab's SSH server.
    pub ssh: Option<ssh::Identity>,
}

impl PageRequest<'_> {
    /// The file of the authority's certificate, if there is one to be told of.
    fn certificate(&self) -> Option<&Path> {
        Some(&self.trust?.https.as_ref()?.certificate)
    }

    /// Tells by the variable that OpenSSL, Go and our own scripts read.
    fn trust_by_environment(&self, command: &mut Command) {
        if let Some(file) = self.certificate() {
            command.env("SSL_CERT_FILE", file);
        }
    }
}

/// Where a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is a part of headstart itself.
    Own,
    /// A file on the PATH.
    Path {
        /// The file's name.
        file: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// A module of Python 3, with the first interpreter that has it.
    Module {
        /// The module's name.
        module: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
}

impl Origin {
    /// What is missing where [`Entry::find`] finds nothing, and what brings it.
    pub fn missing(&self) -> String {
        match self {
            Self::Own => "headstart itself is missing".into(),
            Self::Path { file, package } => format!("{file} is not installed (Debian package: {package})"),
            Self::Module { module, package } => {
                format!("no Python here has the module {module} (Debian package: {package})")
            }
        }
    }
}

impl Entry {
    /// Whether it fetches pages of this scheme.
    pub fn covers(&self, scheme: Scheme) -> bool {
        self.schemes.contains(&scheme)
    }

    /// The file that the program is, if it is on this machine: on `path` (a value of the variable PATH), or `own`, the
    /// program `headstart`.
    pub fn find(&self, own: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
        match self.origin {
            Origin::Own => Some(own.to_owned()),
            Origin::Path { file, .. } => find(OsStr::new(file), path),
            Origin::Module { module, .. } => python::with_module(module, path),
        }
    }

    /// Makes the program ready in `workdir`, a folder that exists and is its own; none if it is not on this machine.
    ///
    /// `own` is the program `headstart`. `Err` if the program is there and what it needs could not be made.
    pub fn prepare(&'static self, own: &Path, workdir: &Path) -> anyhow::Result<Option<Program>> {
        let Some(found) = self.find(own, Some(&search_path())) else { return Ok(None) };
        let file = (self.prepare)(&found, workdir)?;
        Ok(Some(Program { entry: self, file, workdir: workdir.to_owned(), trust: None, body: None }))
    }
}

/// The program called `name`, made ready in a folder of its own within `folder`; none if it is not on this machine.
///
/// `own` is the program `headstart`.
pub fn prepare(name: &str, own: &Path, folder: &Folder) -> anyhow::Result<Option<Program>> {
    let entry = find_entry(name)?;
    let workdir = folder.of(name).with_context(|| format!("making a folder for {name}"))?;
    entry.prepare(own, &workdir).with_context(|| format!("preparing {name}"))
}

/// The PATH, and where Debian keeps what only root has on it.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    path.push(":/usr/sbin:/sbin");
    path
}

/// The entry called `name`.
pub fn find_entry(name: &str) -> Result<&'static Entry, UnknownProgram> {
    ALL.iter().find(|e| e.name == name).ok_or_else(|| UnknownProgram(name.into()))
}

/// No program of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", headstart_core::choice::unknown("program", .0, &ALL.iter().map(|e| e.name).collect::<Vec<_>>()))]
pub struct UnknownProgram(pub String);

/// A program that is ready to be started.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is.
    pub entry: &'static Entry,
    file: PathBuf,
    workdir: PathBuf,
    trust: Option<Trust>,
    body: Option<PathBuf>,
}

impl Program {
    /// The same program, which believes these servers.
    pub fn trusting(self, trust: &Trust) -> Self {
        Self { trust: Some(trust.clone()), ..self }
    }

    /// The same program, which sends `file` where it would fetch a page, and prints what comes back. For those that
    /// [send](Entry::sends).
    pub fn sending(self, file: &Path) -> Self {
        Self { body: Some(file.to_owned()), ..self }
    }

    /// The command that fetches `url`, prints the page on standard output and fails if it cannot.
    pub fn command(&self, url: &Url) -> Command {
        self.fetch_command(Command::new(&self.file), url)
    }

    /// The same command behind another: `wrapper` (`headstart run --`, say) with the program and its arguments at the end.
    pub fn command_behind(&self, mut wrapper: Command, url: &Url) -> Command {
        wrapper.arg(&self.file);
        self.fetch_command(wrapper, url)
    }

    fn fetch_command(&self, mut command: Command, url: &Url) -> Command {
        let Self { workdir, trust, body, .. } = self;
        let body = body.as_deref().filter(|_| self.entry.sends);
        (self.entry.fetch)(&mut command, &PageRequest { url, workdir, trust: trust.as_ref(), body });
        command
    }
}

/// Writes a file of ours into the work folder.
fn write(workdir: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let file = workdir.join(name);
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

/// Runs a compiler, which is to make `what`. An error has its own words.
fn compile(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let compiler = command.get_program().display();
    let output = output.with_context(|| format!("running {compiler}"))?;
    ensure!(
        output.status.success(),
        "{compiler} did not build {what}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The program as it was found, with nothing to make.
fn as_found(found: &Path, _: &Path) -> anyhow::Result<PathBuf> {
    Ok(found.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_at_the_end_of_a_condition() {
        for (i, entry) in ALL.iter().enumerate() {
            assert!(entry.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(ALL[..i].iter().all(|other| other.name != entry.name), "{} twice", entry.name);
            assert!(!entry.what.is_empty() && !entry.schemes.is_empty(), "{}", entry.name);
        }
    }

    #[test]
    fn a_program_that_is_not_on_the_path_is_missing_and_our_own_is_always_there() {
        let own = Path::new("/somewhere/headstart");
        // Modules are looked for in Debian's interpreter too, wherever the PATH leads.
        for entry in ALL.iter().filter(|entry| !matches!(entry.origin, Origin::Module { .. })) {
            let found = entry.find(own, Some(OsStr::new("/no/such/folder")));
            assert_eq!(found.is_some(), entry.origin == Origin::Own, "{}", entry.name);
        }
    }

    #[test]
    fn every_program_is_told_the_url_and_the_same_behind_a_wrapper() {
        let folder = tempfile::tempdir().unwrap();
        let own = Path::new("/somewhere/headstart");
        for entry in ALL {
            let program = match entry.prepare(own, folder.path()) {
                Ok(Some(program)) => program,
                Ok(None) => {
                    println!("skipped: {}", entry.origin.missing());
                    continue;
                }
                Err(e) => {
                    println!("skipped: {} cannot be made ready: {e:#}", entry.name);
                    continue;
                }
            };
            let url = Url::new(entry.schemes[0], "www.lab.example");
            let bare = program.command(&url);
            let mut wrapper = Command::new("wrapper");
            wrapper.args(["run", "--"]);
            let wrapped = program.command_behind(wrapper, &url);
            let words = |command: &Command| {
                let args = command.get_args().map(OsStr::to_owned);
                [command.get_program().to_owned()].into_iter().chain(args).collect::<Vec<_>>()
            };
            assert!(words(&bare).iter().any(|w| w.to_string_lossy().contains("www.lab.example")), "{bare:?}");
            assert_eq!(words(&wrapped)[..3], ["wrapper", "run", "--"]);
            assert_eq!(words(&wrapped)[3..], words(&bare));
        }
    }
}
