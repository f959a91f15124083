//! A `headstart client` at work on the lab's client, bare or preloaded: told what to call, it tells what that took.
//!
//! Nothing is measured on this side of the pipe.

use crate::netns::Network;
use crate::program::undisturbed;
use anyhow::{Context as _, bail};
use headstart_io::sys::call_cost::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Below a process: nothing, or the preloaded library and its supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiment) enum Arm {
    Bare,
    Headstart,
}

impl Arm {
    pub(in crate::experiment) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Headstart => "headstart",
        }
    }
}

/// A running client; ended when dropped.
pub(in crate::experiment) struct Client {
    arm: Arm,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What calls took, in microseconds, in the order of the calls.
#[derive(Debug, Default, Deserialize)]
pub(in crate::experiment) struct Taken {
    #[serde(rename = "lookup_us")]
    pub lookup: Vec<f64>,
    #[serde(rename = "call_us")]
    pub call: Vec<f64>,
}

/// What the supervisor says of its run (`headstart run --summary`), as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(in crate::experiment) struct Summary {
    pub processes: u64,
    pub handed_over: u64,
    pub handed_over_in_progress: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Error { error: String },
    Fine(T),
}

impl Client {
    /// Starts `program` as a client; under headstart with further `flags` of `headstart run`.
    pub(in crate::experiment) fn start(
        network: &Network,
        program: &Path,
        arm: Arm,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        if arm == Arm::Headstart {
            // No exploring: it would race a second family now and then, and this is about calls, not about races.
            // Answers are kept for an hour, so that every lookup but the first comes from the cache.
            command.args(["run", "--private", "--quiet", "--explore", "0", "--cache-lifetime", "3600s"]);
            // After the client's last answer no other process writes there.
            command.args(flags).args(["--summary", "/dev/stdout", "--"]).arg(program);
        }
        command.arg("client");
        // Whatever this process runs under, the two arms differ in headstart alone.
        undisturbed(&mut command);
        network.adopt(&mut command)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("a child without standard output")?);
        Ok(Self { arm, child, requests, answers })
    }

    /// Makes the calls of `request`.
    pub(in crate::experiment) fn measure(&mut self, request: &Request) -> anyhow::Result<Taken> {
        self.bench(request).with_context(|| format!("{} client, '{request}'", self.arm.name()))
    }

    fn bench(&mut self, request: &Request) -> anyhow::Result<Taken> {
        let requests = self.requests.as_mut().context("it was stopped")?;
        writeln!(requests, "bench {request}")?;
        self.line()
    }

    fn line<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("it ended without an answer");
        }
        match serde_json::from_str(&line).with_context(|| format!("{line:?} is not an answer"))? {
            Answer::Fine(told) => Ok(told),
            Answer::Error { error } => bail!(error),
        }
    }

    /// Lets the client end; what its supervisor says, if it has one.
    pub(in crate::experiment) fn finish(mut self) -> anyhow::Result<Option<Summary>> {
        self.requests = None;
        let summary = match self.arm {
            Arm::Bare => None,
            Arm::Headstart => Some(self.line().context("the supervisor's summary (is headstart linked statically?)")?),
        };
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the {} client ended with {status}", self.arm.name());
        Ok(summary)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Without input it ends by itself; `headstart run` ends with its client.
        self.requests = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_errors_are_told_apart() {
        let fine: Answer<Taken> = serde_json::from_str(r#"{"lookup_us":[],"call_us":[1.5,2.0]}"#).unwrap();
        assert!(matches!(fine, Answer::Fine(Taken { call, .. }) if call == [1.5, 2.0]));
        let error: Answer<Taken> = serde_json::from_str(r#"{"error":"no such name"}"#).unwrap();
        assert!(matches!(error, Answer::Error { error } if error == "no such name"));
        assert!(serde_json::from_str::<Answer<Taken>>("{}").is_err());
        let summary: Summary =
            serde_json::from_str(r#"{"version":1,"processes":1,"handed_over":9,"handed_over_in_progress":0}"#).unwrap();
        assert_eq!(summary, Summary { processes: 1, handed_over: 9, handed_over_in_progress: 0 });
    }
}
