//! The arms: a program without a TUN, through a forwarder of each profile, and measured in the kernel; and the places where they run.

use super::beside::{self, Beside};
use super::least::LEAST;
use super::wire::Wire;
use crate::experiment::Outcome;
use crate::netns::Network;
use crate::program::undisturbed;
use anyhow::{Context as _, bail};
use headstart_core::forward::profile;
use headstart_io::forward::ebpf::Programs;
use std::ffi::{OsStr, OsString};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The arm without a forwarder.
pub const BARE: &str = "no-tun";
/// The arm of ours.
pub const OURS: &str = "ours";

/// The arm of ours that carries nothing: programs in the kernel measure (docs/decisions/0088).
pub const EBPF: &str = "ours-ebpf";

/// These arms and that of the kernel, where that one works; why not is noted otherwise.
pub fn and_kernel(mut arms: Vec<&'static str>, outcome: &mut Outcome) -> Vec<&'static str> {
    match Programs::load() {
        Ok(_) => arms.push(EBPF),
        Err(why) => {
            let note = format!("The arm {EBPF} was left out: {why}.");
            if !outcome.notes.contains(&note) {
                outcome.notes.push(note);
            }
        }
    }
    arms
}

/// Every arm, in the order of a turn.
pub fn all() -> Vec<&'static str> {
    [BARE].into_iter().chain(profile::ALL.iter().map(|profile| profile.name)).collect()
}

/// The arms over a wire, in the order of a turn: all and that of the kernel; without a TUN, ours and those of others, where such are given.
pub fn on_wire(outcome: &mut Outcome) -> Vec<&'static str> {
    let others = beside::found(&[beside::TUN2SOCKS, beside::SING_BOX]);
    if others.is_empty() { and_kernel(all(), outcome) } else { [BARE, OURS].into_iter().chain(others).collect() }
}

/// Where programs run.
pub enum Testbed<'a> {
    /// Behind an emulated link.
    Network(&'a Network),
    /// On a wire.
    Wire(&'a Wire),
}

/// Where programs run, and which program it is.
pub struct Stage<'a> {
    testbed: Testbed<'a>,
    program: PathBuf,
    /// What does the workloads.
    prober: PathBuf,
    /// Words before the program.
    under: Vec<OsString>,
}

impl<'a> Stage<'a> {
    /// For an experiment whose context names another program than the one beside this, or none.
    pub fn new(testbed: Testbed<'a>, program: Option<PathBuf>) -> anyhow::Result<Self> {
        let prober = program.clone().map_or_else(std::env::current_exe, Ok).context("finding this program")?;
        let program = program.map_or_else(crate::program::headstart, Ok)?;
        Ok(Self { testbed, program, prober, under: Vec::new() })
    }

    /// The same, with these words before the program.
    pub fn under(self, words: Vec<OsString>) -> Self {
        Self { under: words, ..self }
    }

    /// Runs `f` where the peers are, in a thread of its own.
    pub fn on_servers<T: Send>(&self, f: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        Ok(match self.testbed {
            Testbed::Network(network) => network.on_servers(f)?,
            Testbed::Wire(wire) => wire.server.run(f)?,
        })
    }

    /// Has `serve` listen at `peer`, in a thread of its own; where.
    pub fn listen(&self, peer: &str, serve: fn(&TcpListener)) -> anyhow::Result<SocketAddr> {
        let listener = self.on_servers(|| TcpListener::bind((peer, 0)))??;
        let to = listener.local_addr()?;
        std::thread::spawn(move || serve(&listener));
        Ok(to)
    }

    /// The command for a workload of [`probe`](super::probe) under an arm.
    pub fn command(&self, arm: &str, words: &[String]) -> anyhow::Result<Command> {
        self.command_with(arm, &[], words)
    }

    /// The same with further flags of ours.
    fn command_with(&self, arm: &str, flags: &[&OsStr], words: &[String]) -> anyhow::Result<Command> {
        let begun = if [BARE, LEAST].contains(&arm) { &self.prober } else { &self.program };
        let mut words_of_it = self.under.iter().map(OsString::as_os_str).chain([begun.as_os_str()]);
        let first = words_of_it.next().context("a command is a word at least")?;
        let mut command = match self.testbed {
            Testbed::Network(network) => network.command(first)?,
            Testbed::Wire(wire) => {
                let mut command = Command::new(first);
                wire.client.adopt(&mut command)?;
                command
            }
        };
        command.args(words_of_it);
        if ![BARE, LEAST].contains(&arm) {
            let how = if arm == EBPF { ["--via", "ebpf"] } else { ["--profile", arm] };
            command.args(["run", "--measure", "--quiet"]).args(how).args(flags).arg("--").arg(&self.prober);
        }
        command.arg("probe").args((arm == LEAST).then_some(LEAST)).args(words);
        undisturbed(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// What a workload says under an arm, as JSON.
    pub fn say(&self, arm: &str, words: &[String]) -> anyhow::Result<serde_json::Value> {
        self.say_with(arm, &[], words)
    }

    /// The same with further flags of ours.
    pub fn say_with(&self, arm: &str, flags: &[&OsStr], words: &[String]) -> anyhow::Result<serde_json::Value> {
        if !beside::is_beside(arm) {
            return heard(&mut self.command_with(arm, flags, words)?, arm);
        }
        let Testbed::Wire(wire) = self.testbed else { bail!("{arm} is only for a wire") };
        let forwarder = Beside::start(arm, wire, &self.program)?;
        let mut command = Command::new(&self.prober);
        forwarder.programs(wire).adopt(&mut command)?;
        command.arg("probe").args(words);
        undisturbed(&mut command);
        let mut said = heard(&mut command, arm)?;
        forwarder.account(&mut said)?;
        Ok(said)
    }
}

/// What a workload says under an arm, as JSON.
fn heard(command: &mut Command, arm: &str) -> anyhow::Result<serde_json::Value> {
    let output = command.stdin(Stdio::null()).output().context("starting a program")?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| {
        format!("{command:?} under {arm} said {text:?} and {:?}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Numbers under a key of what a workload has said.
pub fn numbers(said: &serde_json::Value, key: &str) -> Vec<f64> {
    said[key].as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect()
}

/// A number under a key of what a workload has said.
pub fn number(said: &serde_json::Value, key: &str) -> anyhow::Result<f64> {
    said[key].as_f64().with_context(|| format!("no {key} in {said}"))
}
