//! `cargo xtask interop resumed`: what a server of s2n-quic gains by the windows of `headstart-quic`, beside its own.
//!
//! Server and client are s2n-quic's, over the lab's link; both ways to set windows take turns.

use super::peer::crated;
use super::round::{Pair, Running, free_port, is_bound_now};
use crate::tree::workspace_root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What lies between.
const LINK: &str = "rate=100mbit,delay=25ms";
/// How often both take their turn with a new server, and connections that each serves.
const TURNS: usize = 3;
const CONNECTIONS: usize = 6;
/// Of them, those after which a path is known: the second begins with what the first one carried before it ended, the third with all of it.
const LATER: usize = 2;
/// The most that later connections may take of the first.
const AT_MOST: f64 = 0.8;
/// All connections of a server are over by then.
const LIMIT: Duration = Duration::from_secs(60);
/// Whose windows.
const WINDOWS: [&str; 2] = ["cubic", "careful"];

/// What was measured, in ms: turn by turn, connection by connection.
#[derive(Debug)]
pub struct Resumed {
    version: String,
    times: [Vec<Vec<f64>>; 2],
}

/// A program over s2n-quic and `headstart-quic`.
pub struct Program {
    version: String,
    path: PathBuf,
}

impl Program {
    /// Builds it in an empty folder; says what is missing if that does not work.
    pub fn built(folder: &Path) -> Result<Self, String> {
        let source = workspace_root().map_err(|failure| format!("{failure:?}"))?.join("crates/quic");
        let manifest = include_str!("programs/s2n_quic_resumed.toml");
        let manifest = manifest.replace("HEADSTART_QUIC", &source.to_string_lossy());
        let written = [&*manifest, include_str!("programs/s2n_quic_resumed.rs")];
        let (version, path) = crated(folder, "s2n-quic", "s2n-quic-resumed", written)?;
        Ok(Self { version, path })
    }

    /// Measures.
    pub fn measured(self, headstart: &Path, pair: &Pair, folder: &Path) -> Result<Resumed, String> {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (windows, times) in WINDOWS.iter().zip(&mut times) {
                times.push(turn(headstart, &self.path, pair, (windows, folder))?);
            }
        }
        Ok(Resumed { version: self.version, times })
    }
}

/// The times of one server's connections.
fn turn(headstart: &Path, peer: &Path, pair: &Pair, (windows, folder): (&str, &Path)) -> Result<Vec<f64>, String> {
    let free = free_port()?;
    let port = free.to_string();
    let mut server = Command::new(peer);
    server.args(["server", &port]).args([&pair.certificate, &pair.key]).arg(windows);
    let mut server = Running::start(server, folder.join("server"))?;
    while !is_bound_now(free) {
        if server.ended(Duration::ZERO).is_some() {
            return Err(format!("the server has ended: {}", server.last()));
        }
    }
    let mut client = Command::new(headstart);
    client.args(["lab", "shell", "--link", LINK, "--host-port", &port, "--"]).arg(peer);
    client.args(["client", "host.lab.example", &port]).arg(&pair.certificate).arg(CONNECTIONS.to_string());
    let mut client = Running::start(client, folder.join("client"))?;
    let status = client.ended(LIMIT);
    let times: Vec<f64> = client.said().lines().filter_map(|line| line.parse().ok()).collect();
    match status {
        Some(status) if status.success() && times.len() == CONNECTIONS => Ok(times),
        Some(status) => {
            Err(format!("{windows}: {status}, {} of {CONNECTIONS} connections; {}", times.len(), client.last()))
        }
        None => Err(format!("{windows}: a stall; {}", client.last())),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Resumed {
    /// Of one kind of windows, the medians of the first, the second and later connections.
    fn medians(&self, windows: usize) -> [f64; 3] {
        let of = |range: std::ops::Range<usize>| {
            median(
                self.times[windows]
                    .iter()
                    .flat_map(|turn| turn.get(range.clone()).unwrap_or_default())
                    .copied()
                    .collect(),
            )
        };
        [of(0..1), of(1..LATER), of(LATER..CONNECTIONS)]
    }

    /// What is wrong with it.
    pub fn doubt(&self) -> Option<String> {
        let [first, _, later] = self.medians(1);
        // What was not measured is no gain.
        let gains = later <= AT_MOST * first;
        (!gains).then(|| format!("s2n-quic, resumed: later connections took {later:.0} ms of {first:.0}"))
    }

    /// Its section of the page.
    pub fn text(&self) -> String {
        let mut text = format!(
            "\n## s2n-quic with the windows of `headstart-quic`\n\nServer and client of s2n-quic {}, 1 MB over each new connection, 100 Mbit/s, round trip 50 ms, \
             {TURNS} turns of {CONNECTIONS} connections;\nmedians in ms, and of the first connection by its own CUBIC.\n\n| windows | first | second | later |\n|---|---:|---:|---:|\n",
            self.version
        );
        let [bare, ..] = self.medians(0);
        for (n, name) in ["its own CUBIC", "`CarefulResume::s2n_quic`"].into_iter().enumerate() {
            let cells = self.medians(n).map(|ms| format!(" {ms:.0} ({:.2}) |", ms / bare));
            text += &format!("| {name} |{}\n", cells.concat());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_connections_are_set_beside_the_first_and_doubted_without_a_gain() {
        let turns = |later| vec![vec![400.0, 300.0, later, later, later, later]; TURNS];
        let of = |later| Resumed { version: "1.83.0".into(), times: [turns(400.0), turns(later)] };
        assert_eq!((of(260.0).doubt(), of(260.0).medians(1)), (None, [400.0, 300.0, 260.0]));
        assert!(
            of(260.0).text().ends_with("| `CarefulResume::s2n_quic` | 400 (1.00) | 300 (0.75) | 260 (0.65) |\n"),
            "{}",
            of(260.0).text()
        );
        assert!(of(330.0).doubt().is_some());
        assert!(Resumed { version: String::new(), times: [Vec::new(), Vec::new()] }.doubt().is_some());
    }
}
