//! The page of `up --ui`: a process of its own, `headstart ui`, which ends with the daemon, however that ends.

use anyhow::{Context as _, ensure};
use std::io::{BufRead as _, BufReader};
use std::process::{ChildStdin, Command, Stdio};

/// A page that is there as long as this is.
#[derive(Debug)]
pub struct Page {
    /// Its address, with the token.
    pub url: String,
    /// The end of this pipe is the end of the page, after `kill -9` as well.
    _alive: ChildStdin,
}

/// Begins to serve it, on a free port of loopback.
pub fn begin() -> anyhow::Result<Page> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["ui", "--no-browser", "--json", "--until-eof"]).current_dir("/");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (Some(alive), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
        anyhow::bail!("its pipes cannot be opened")
    };
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    ensure!(!line.is_empty(), "it ended at once");
    let said: serde_json::Value = serde_json::from_str(&line).context("reading its address")?;
    let url = said["url"].as_str().context("it printed no address")?.to_owned();
    Ok(Page { url, _alive: alive })
}
