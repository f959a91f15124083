//! One run of a program on the lab's client, from its start to its end, with all that it printed.
//!
//! A program that does not end is ended, with whatever it started; that is a result, not an error.

use crate::experiment::stopwatch::{Run, Supervisor};
use crate::netns::Network;
use anyhow::Context as _;
use headstart_core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};

/// A program that is not done by then is ended: far longer than any takes here.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of what a program complained of that are worth repeating.
const COMPLAINT: usize = 300;

/// How a program ended.
pub(super) struct Trial {
    /// What it printed.
    pub out: Vec<u8>,
    /// What headstart said of it, in its line at the end; none if it was not there.
    pub remark: Option<String>,
    /// Why it did not do what it was asked for; none if all was well.
    pub fault: Option<String>,
}

impl Trial {
    /// Runs `command` on the client of `network`, with its home and its output in `folder`.
    pub fn run(network: &Network, folder: &Path, mut command: Command) -> anyhow::Result<Self> {
        command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder).env("LC_ALL", "C.UTF-8");
        network.adopt(&mut command)?;
        let [out, err] = ["out", "err"].map(|name| folder.join(name));
        let create = |file: &Path| File::create(file).with_context(|| format!("making {}", file.display()));
        let mut run = Run::start(command.stdout(create(&out)?), create(&err)?.into(), PATIENCE, Supervisor::Own)?;
        let status = match run.wait()? {
            Some(_) => Some(run.finish()?),
            None => {
                run.cut()?;
                None
            }
        };
        let read = |file: &Path| fs::read(file).with_context(|| format!("reading {}", file.display()));
        let (out, err) = (read(&out)?, read(&err)?);
        Ok(Self { out, remark: remark(&err), fault: fault(status, &err) })
    }
}

fn remark(err: &[u8]) -> Option<String> {
    let err = String::from_utf8_lossy(err);
    err.lines().rev().find_map(|line| line.strip_prefix("headstart: ")).map(str::to_owned)
}

fn fault(status: Option<ExitStatus>, complaint: &[u8]) -> Option<String> {
    let ended = match status {
        Some(status) if status.success() => return None,
        Some(status) => format!("ended with {status}"),
        None => format!("was not done after {} s", PATIENCE.as_secs()),
    };
    let said = String::from_utf8_lossy(&complaint[complaint.len().saturating_sub(COMPLAINT)..]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(if said.is_empty() { ended } else { format!("{ended}: {said}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_fault_says_how_the_program_ended_and_what_it_said_last() {
        assert_eq!(fault(Some(ExitStatus::from_raw(0)), b"a warning"), None);
        let long = [b"early ".repeat(100), b"no such\n host".to_vec()].concat();
        let text = fault(Some(ExitStatus::from_raw(7 << 8)), &long).unwrap();
        assert!(text.contains('7') && text.ends_with("early no such host") && text.len() < 400, "{text}");
        assert_eq!(fault(None, b"").unwrap(), "was not done after 120 s");
    }

    #[test]
    fn headstarts_last_line_is_told_from_the_programs() {
        assert_eq!(remark(b"headstart: early\nfoo\nheadstart: 1 name resolved\n").unwrap(), "1 name resolved");
        assert_eq!(remark(b"curl: headstart: no\n"), None);
    }
}
