//! What outlives the program of `run --measure`: its only way out is the forwarder, which therefore stays until the last process in the
//! namespace has ended.
//!
//! The command ends with its program, as ever, so the forwarder is a process of its own from the beginning: a child, which starts the program. It
//! says by a pipe that the command may end before it does (docs/decisions/0081). What never happens here: the command waits for
//! what a program has left behind.

use crate::exit;
use anyhow::Context as _;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::sys::{fork, signal};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};

/// How often it is looked whether a process is left. One look reads a link of each process of the host.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Releases the command, which may then end before this process.
#[derive(Debug)]
pub struct Release(PipeWriter);

impl Release {
    /// The command ends with `code`, and this process goes on without a terminal.
    pub fn go_on_alone(mut self, code: u8) -> io::Result<()> {
        self.0.write_all(&[code])?;
        drop(self);
        // Signals for the command's group are not its own any more, and it ends by those for itself before it can be found by its name.
        let _ = rustix::process::setsid();
        signal::end_by_default()?;
        fork::cut_loose(c"hs-forwarder")
    }
}

/// Does `work` in a process of its own; the exit code that it ends with, or that it [releases](Release) the command with before.
pub fn in_two(work: impl FnOnce(Release) -> anyhow::Result<u8>) -> anyhow::Result<u8> {
    // From before there is anything to leave behind.
    signal::pass_on_to(0).context("handling signals")?;
    let (mut reader, writer) = io::pipe().context("making a pipe")?;
    match fork::split().context("starting the forwarder")? {
        None => {
            drop(reader);
            std::process::exit(exit::number(work(Release(writer))).into());
        }
        Some(forwarder) => {
            drop(writer);
            // What it writes to is the other process's: nothing that is kept for it is to be written twice.
            std::mem::forget(work);
            signal::pass_on_to(forwarder.as_raw_pid()).context("handling signals")?;
            let mut code = [0];
            if reader.read_exact(&mut code).is_ok() {
                return Ok(code[0]);
            }
            fork::end_of(forwarder).map(exit::of_child).context("waiting for the forwarder")
        }
    }
}

/// A descriptor that is readable when no process is left in the network namespace of this number; none, if no process is left.
pub fn until_all_have_left(number: u64) -> Option<PipeReader> {
    if !is_inhabited(number) {
        return None;
    }
    let (left, inhabited) = io::pipe().ok()?;
    let look = move || {
        let clock = Clock::new();
        while is_inhabited(number) {
            clock.sleep(LOOK_EVERY);
        }
        drop(inhabited);
    };
    std::thread::Builder::new().name("remains".into()).spawn(look).ok()?;
    Some(left)
}

/// Whether a process is in the network namespace of this number. Those of other users do not count.
fn is_inhabited(number: u64) -> bool {
    let here = format!("net:[{number}]");
    let Ok(all) = std::fs::read_dir("/proc") else { return false };
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
    all.flatten().filter(|entry| is_process(&entry.file_name())).any(|entry| {
        std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|namespace| namespace.as_os_str() == here.as_str())
    })
}
