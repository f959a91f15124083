//! A capture by tshark, a process of its own, on the client's interface.

use crate::experiment::Outcome;
use crate::netns::Network;
use anyhow::Context as _;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A capture that goes on.
pub struct Capture {
    tshark: Child,
    file: PathBuf,
}

impl Capture {
    /// Begins on the client of `network`; none, and a note of `condition`, where there is no tshark.
    pub fn begin(
        outcome: &mut Outcome,
        condition: &str,
        network: &Network,
        peer: SocketAddr,
        file: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let mut program = network.command("tshark")?;

        let filter = format!("tcp and host {}", peer.ip());
        program.args(["-i", "eth0", "-s", "128", "-f", &filter, "-w"]).arg(file);
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut tshark = match program.spawn() {
            Ok(tshark) => tshark,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let missing = "skipped, because tshark is not installed (Debian package: tshark).";
                outcome.notes.push(format!("{condition}: {missing}"));
                return Ok(None);
            }

            Err(e) => return Err(e).context("starting tshark"),
        };
        // It says when it has begun; what it says later is of no interest, but must go somewhere.
        let mut words = BufReader::new(tshark.stderr.take().context("tshark's words")?);
        let mut line = String::new();
        while !line.contains("Capturing on") {
            line.clear();
            anyhow::ensure!(words.read_line(&mut line)? > 0, "tshark has ended before it captured");
        }
        std::thread::spawn(move || io::copy(&mut words, &mut io::sink()));
        Ok(Some(Self { tshark, file: file.to_owned() }))
    }

    /// Ends when all of it `is_there`, or is not after a while: these fields of packets, as they are `read`.
    pub fn end<T>(
        mut self,
        filter: &str,
        fields: &[&str],
        read: impl Fn(&str) -> T,
        is_there: impl Fn(&T) -> bool,
    ) -> anyhow::Result<T> {
        // What has come by last is written a moment later.
        let clock = Clock::new();
        let mut tries = 20;
        let seen = loop {
            clock.sleep(Duration::from_millis(250));
            let seen = read(&self.fields(filter, fields)?);
            tries -= 1;
            if is_there(&seen) || tries == 0 {
                break seen;
            }
        };
        kill_process(Pid::from_child(&self.tshark), Signal::INT)?;
        self.tshark.wait()?;
        Ok(seen)
    }

    fn fields(&self, filter: &str, fields: &[&str]) -> anyhow::Result<String> {
        let mut program = Command::new("tshark");
        program.arg("-r").arg(&self.file).args(["-Y", filter, "-T", "fields"]);
        fields.iter().for_each(|field| _ = program.args(["-e", field]));
        let output = program.stderr(Stdio::null()).output().context("reading the capture with tshark")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
