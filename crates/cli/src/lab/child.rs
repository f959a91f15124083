//! One experiment as a process of its own: `headstart-lab lab run`, whose result is in the folder that it was given. So namespaces and
//! programs of it end with it.

use anyhow::{Context as _, bail};
use headstart_lab::experiment::Outcome;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::exit;

/// SIGHUP, SIGINT, SIGQUIT, SIGTERM.
const ENDING: [i32; 4] = [1, 2, 3, 15];

/// Starts experiment `name` with the words that say how much of it, to write into `folder`.
pub fn start<S: AsRef<OsStr>>(name: &str, words: &[S], folder: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["lab", "run", name, "--json"]).args(words).arg("--out").arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("starting its process")
}

/// The result of an experiment whose process ended with `status`; none if a signal that asks to end ended it.
pub fn result(name: &str, status: ExitStatus, folder: &Path) -> anyhow::Result<Option<Outcome>> {
    if ENDING.iter().any(|n| status.signal() == Some(*n) || status.code() == Some(128 + n)) {
        return Ok(None);
    }
    if ![Some(i32::from(exit::OK)), Some(i32::from(exit::INVALID))].contains(&status.code()) {
        bail!("`headstart lab run {name}` ended with {status}");
    }
    super::report::read(folder).map(Some)
}
