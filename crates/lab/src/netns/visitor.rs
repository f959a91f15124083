//! A client process in a network, told which names to visit: `headstart client`, bare or under `headstart run`.

use super::{Error, Network};
use crate::program::{Folder, undisturbed};
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::race;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a visit came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Visited {
    /// Time in getaddrinfo.
    pub lookup: Duration,
    /// Time in connect; none if no peer was reached.
    pub connect: Option<Duration>,
    /// The peer that was reached.
    pub peer: Option<std::net::IpAddr>,
}

/// A client process that waits for names. It is ended when this is dropped.
#[derive(Debug)]
pub struct Visitor {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// For the race that knows the truth; removed with the visitor.
    _truth: Option<Folder>,
}

impl Visitor {
    /// A client without headstart.
    pub fn bare(network: &Network) -> Result<Self, Error> {
        let program = own_program()?;
        let mut command = network.command(&program)?;
        command.arg("client");
        Self::start(command, None)
    }

    /// A client under `headstart run` with this race. `truth` is the faster family of each name, for races that need it.
    pub fn with_race(
        network: &Network,
        race: &race::Entry,
        lifetime: Lifetime,
        truth: impl IntoIterator<Item = (String, Family)>,
    ) -> Result<Self, Error> {
        let program = own_program()?;
        let mut command = network.command(&program)?;
        let lifetime = match lifetime {
            Lifetime::Ttl => "ttl".to_owned(),
            Lifetime::Off => "off".to_owned(),
            Lifetime::Fixed(time) => format!("{}s", time.as_secs()),
        };
        command.args(["run", "--private", "--quiet", "--race", race.name, "--cache-lifetime", &lifetime]);
        let mut truth_told = None;
        if race.lab_only {
            let lines: String = truth
                .into_iter()
                .map(|(name, family)| format!("{name} {}\n", if family == Family::V4 { 4 } else { 6 }))
                .collect();
            let folder = Folder::new().map_err(Error::io("making a folder for the oracle's data"))?;
            let path = folder.path().join("truth");
            std::fs::write(&path, lines).map_err(Error::io("writing the oracle's data"))?;
            command.arg("--faster").arg(&path);
            truth_told = Some(folder);
        }
        command.arg("--").arg(&program).arg("client");
        Self::start(command, truth_told)
    }

    fn start(mut command: Command, truth: Option<Folder>) -> Result<Self, Error> {
        let failed = Error::io("starting a client");
        // Whatever this process runs under, arms differ in headstart alone.
        undisturbed(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(&failed)?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { child, requests, answers: BufReader::new(answers), _truth: truth })
    }

    /// Visits `name` over `family` (both if `None`), for at most about `patience` an address.
    pub fn visit(&mut self, name: &str, family: Option<Family>, patience: Duration) -> Result<Visited, Error> {
        self.ask(name, family, patience)?;
        self.answer().map(|(_, visited)| visited)
    }

    /// Visits `names` all at once, over both families; the answers in the order of the names.
    pub fn visit_all(&mut self, names: &[&str], patience: Duration) -> Result<Vec<Visited>, Error> {
        for name in names {
            self.ask(name, None, patience)?;
        }
        let mut answers = HashMap::new();
        for _ in names {
            let (name, visited) = self.answer()?;
            answers.insert(name, visited);
        }
        let missing = || Error::io("reading from a client")(io::ErrorKind::InvalidData.into());
        names.iter().map(|name| answers.remove(*name).ok_or_else(missing)).collect()
    }

    fn ask(&mut self, name: &str, family: Option<Family>, patience: Duration) -> Result<(), Error> {
        let family = match family {
            None => '-',
            Some(Family::V4) => '4',
            Some(Family::V6) => '6',
        };
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe.into());
        requests
            .and_then(|r| writeln!(r, "{name} 80 {family} {}", patience.as_millis()))
            .map_err(Error::io("writing to a client"))
    }

    fn answer(&mut self) -> Result<(String, Visited), Error> {
        let mut line = String::new();
        let failed = Error::io("reading from a client");
        if self.answers.read_line(&mut line).map_err(&failed)? == 0 {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let said: serde_json::Value = serde_json::from_str(&line).map_err(|e| failed(e.into()))?;
        let time = |key: &str| said[key].as_f64().map(|ms| Duration::from_secs_f64(ms / 1e3));
        let visited = Visited {
            lookup: time("lookup_ms").unwrap_or_default(),
            connect: time("connect_ms"),
            peer: said["peer"].as_str().and_then(|p| p.parse().ok()),
        };
        Ok((said["name"].as_str().unwrap_or_default().to_owned(), visited))
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        // A client ends with its standard input; one that still waits for a dead host is not waited for.
        self.requests = None;
        let ended = rustix::process::Pid::from_child(&self.child);
        let ended = rustix::process::kill_process(ended, rustix::process::Signal::TERM);
        if ended.is_ok() {
            let _ = self.child.wait();
        }
    }
}

fn own_program() -> Result<PathBuf, Error> {
    crate::program::headstart().map_err(Error::io("finding headstart"))
}
