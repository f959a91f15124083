//! Our one nftables table, made and removed by the program `nft`, each in one transaction of the kernel. Its comment tells that
//! it is ours; a table of the same name without it is another program's.

use super::{ChangeError, Entry, TABLES, Undone};
use crate::host::TABLE_NAME;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// This kind.
pub const ENTRY: Entry =
    Entry { name: "table", what: "the nftables table `inet headstart`; undone by removing the whole table" };

/// The comment that tells our table from others'.
const MARK: &str = "made by headstart; removed by: headstart recover";
/// Where administrators' programs are, for callers whose PATH lacks them.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

/// Our table with chains and rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What is inside, in nft's language.
    body: String,
}

impl Table {
    /// Our table with this inside.
    pub fn new(body: &str) -> Self {
        Self { body: body.to_owned() }
    }

    pub(super) fn make(&self, lock: &File) -> Result<(), ChangeError> {
        TABLE.make(&self.body, lock)
    }

    pub(super) fn undo(&self, lock: &File) -> Result<Undone, ChangeError> {
        TABLE.undo(lock)
    }
}

/// One of headstart's tables by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked(pub &'static str);

const TABLE: Marked = Marked(TABLE_NAME);

impl Marked {
    pub fn make(self, body: &str, lock: &File) -> Result<(), ChangeError> {
        let Self(name) = self;
        // `create` fails where `add` would join what is there.
        let script = format!("create table inet {name} {{ comment \"{MARK}\"; }}\ntable inet {name} {{\n{body}\n}}\n");
        match nft(&["-f", "-"], &script, lock)? {
            Ok(_) => Ok(()),
            Err(said) if said.contains("File exists") => {
                Err(ChangeError::Occupied { what: format!("an nftables table inet {name}") })
            }
            Err(said) => Err(ChangeError::Nft(said)),
        }
    }

    pub fn undo(self, lock: &File) -> Result<Undone, ChangeError> {
        let Self(name) = self;
        match nft(&["list", "table", "inet", name], "", lock)? {
            Err(said) if said.contains("No such file") => return Ok(Undone::WasGone),
            Err(said) => return Err(ChangeError::Nft(said)),
            Ok(listed) if !listed.contains(MARK) => {
                let why = format!("the nftables table inet {name} was not created by headstart");
                return Ok(Undone::LeftAlone(why));
            }
            Ok(_) => {}
        }
        match nft(&["delete", "table", "inet", name], "", lock)? {
            Ok(_) => Ok(Undone::Removed),
            Err(said) if said.contains("No such file") => Ok(Undone::WasGone),
            Err(said) => Err(ChangeError::Nft(said)),
        }
    }

    /// What a person would type: on one line, or (`{:#}`) on as many as the table has.
    pub fn tell(self, body: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
        write!(f, "nft 'create table inet {} {{", self.0)?;
        let mut depth = 1;
        for line in lines {
            let closes = usize::from(line.starts_with('}'));
            if f.alternate() {
                write!(f, "\n{:1$}{line}", "", 2 * (depth - closes))?;
            } else {
                // Rules that share a line are parted by semicolons, and so is what follows a block.
                let end = if line.ends_with(['{', ';']) { "" } else { ";" };
                write!(f, " {line}{end}")?;
            }
            depth = (depth + usize::from(line.ends_with('{'))).saturating_sub(closes).max(1);
        }
        f.write_str(if f.alternate() { "\n}'" } else { " }'" })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TABLE.tell(&self.body, f)
    }
}

/// Which of our tables are there and bear our mark; else why that cannot be read.
pub fn ours(lock: &File) -> Result<Vec<&'static str>, String> {
    let said = |listed: Result<Result<String, String>, ChangeError>| listed.map_err(|e| e.to_string())?;
    let all = said(nft(&["list", "tables", "inet"], "", lock))?;
    let there = TABLES.into_iter().filter(|name| all.lines().any(|line| line == format!("table inet {name}")));
    let mut ours = Vec::new();
    for name in there {
        if said(nft(&["list", "table", "inet", name], "", lock))?.contains(MARK) {
            ours.push(name);
        }
    }
    Ok(ours)
}

/// The program, if it is anywhere.
pub fn program() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(Into::into));
    folders.map(|folder| folder.join("nft")).find(|file| file.is_file())
}

/// Runs nft; what it printed, or what it complained of. If this process is killed, `lock` is held until nft is done as well:
/// no other process then undoes what is only about to be made.
pub(super) fn nft(arguments: &[&str], script: &str, lock: &File) -> Result<Result<String, String>, ChangeError> {
    let failed = |e: std::io::Error| ChangeError::Nft(e.to_string());
    let program =
        program().ok_or_else(|| ChangeError::Nft("the program is not installed (package nftables)".into()))?;
    let listing = arguments.first() == Some(&"list");
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::piped()).stderr(Stdio::piped());
    // Whatever changes something prints nothing.
    command.stdout(if listing { Stdio::piped() } else { Stdio::from(lock.try_clone().map_err(failed)?) });
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it has read everything says why.
        let _ = stdin.write_all(script.as_bytes());
    }
    let ended = child.wait_with_output().map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(if ended.status.success() { Ok(text(&ended.stdout)) } else { Err(text(&ended.stderr)) })
}
