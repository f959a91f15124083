//! h2spec (github.com/summerwind/h2spec) against `headstart serve`: what RFC 9113 and RFC 7541 ask of a server, also of one whose client
//! does what no client may. Its program is built by Go in a folder of its own, through Go's module proxy, and is no part of this tree.

use super::outcomes::{Outcome, Outcomes, add, tally};
use crate::Failure;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The word on the command line.
pub const NAME: &str = "h2spec";
/// What is built: the newest version that the proxy has.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// Builds the program; says what is missing if that does not work.
pub fn find(scratch: &Path) -> Result<PathBuf, String> {
    let mut command = Command::new("go");
    command.args(["install", MODULE]).current_dir(scratch).stdin(Stdio::null());
    // No other toolchain than the one that is here. What is downloaded goes with the folder, which needs to be writable for that.
    command.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-modcacherw").env("GO111MODULE", "on");
    command.env("GOBIN", scratch).env("GOPATH", scratch.join("path")).env("GOCACHE", scratch.join("cache"));
    let output = command.output().map_err(|e| format!("go cannot be run: {e} (Debian package: golang-go)"))?;
    if !output.status.success() {
        return Err(format!("go install {MODULE}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(scratch.join(NAME))
}

/// Runs all tests against a server of a folder in `scratch`; those that fail each time. Some send what no client may beside an answer that is on
/// its way: which of the two is first is chance.
pub fn failed(program: &Path, headstart: &Path, scratch: &Path) -> Result<Vec<String>, Failure> {
    let mut standing: Option<BTreeSet<String>> = None;
    for _ in 0..super::ROUNDS {
        let outcomes = run(program, headstart, scratch).map_err(|why| Failure::Failed(format!("{NAME}: {why}")))?;
        println!("xtask: {NAME}, against `headstart serve`: {}", tally(&outcomes));
        let failed = outcomes.into_iter().filter(|(_, outcome)| *outcome == Outcome::Failed);
        let failed: BTreeSet<String> = failed.map(|(test, _)| format!("{NAME}, {test}: failed")).collect();
        failed.iter().for_each(|test| println!("xtask: {test} this time"));
        let both = standing.map_or(failed.clone(), |before| before.intersection(&failed).cloned().collect());
        if both.is_empty() {
            return Ok(Vec::new());
        }
        standing = Some(both);
    }
    Ok(standing.into_iter().flatten().collect())
}

/// A server until this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &Path, headstart: &Path, scratch: &Path) -> Result<Outcomes, String> {
    let (site, report) = (scratch.join("site"), scratch.join("report.xml"));
    let failed = |e: std::io::Error| e.to_string();
    fs::create_dir_all(&site).and_then(|()| fs::write(site.join("index.html"), "a page")).map_err(failed)?;
    let mut serve = Command::new(headstart);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--json"]).arg(&site);
    let mut server = Server(serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?);
    let mut told = String::new();
    let out = server.0.stdout.take().ok_or("no standard output")?;
    BufReader::new(out).read_line(&mut told).map_err(failed)?;
    let port = port(&told).ok_or_else(|| format!("the server said no address: {told}"))?;
    let mut command = Command::new(program);
    command.args(["--tls", "--insecure", "--strict", "--port", port, "--junit-report"]).arg(&report);
    // It fails where a test does, which the report tells.
    let said = command.stdin(Stdio::null()).output().map_err(failed)?;
    let outcomes = parse(&fs::read_to_string(&report).unwrap_or_default());
    if outcomes.is_empty() {
        return Err(format!("it ran no tests, and said: {}", String::from_utf8_lossy(&said.stdout).trim()));
    }
    Ok(outcomes)
}

/// The port in the line that a server prints.
fn port(told: &str) -> Option<&str> {
    let rest = told.split_once("https://127.0.0.1:")?.1;
    rest.split_once('/').map(|(port, _)| port)
}

/// The outcomes in a report in JUnit's XML, where each test is an element `testcase`.
fn parse(report: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for case in report.split("<testcase ").skip(1) {
        let case = case.split_once("</testcase>").map_or(case, |(case, _)| case);
        let attribute = |name: &str| case.split_once(&format!("{name}=\""))?.1.split_once('"').map(|(value, _)| value);
        let (Some(package), Some(what)) = (attribute("package"), attribute("classname")) else { continue };
        let outcome = if case.contains("<failure") || case.contains("<error") {
            Outcome::Failed
        } else if case.contains("<skipped") {
            Outcome::Skipped
        } else {
            Outcome::Passed
        };
        add(&mut outcomes, &format!("{package}: {what}"), outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_report_are_read_with_what_they_came_to() {
        let case = |name: &str, inner: &str| {
            format!("<testcase package=\"http2/5.1\" classname=\"{name}\" time=\"0.0\">{inner}</testcase>\n")
        };
        let report =
            ["<testsuite>", &case("A", ""), &case("B", "<failure>x</failure>"), &case("C", "<skipped></skipped>")];
        let outcomes: Vec<_> = parse(&report.concat()).into_iter().collect();
        let expected = [("A", Outcome::Passed), ("B", Outcome::Failed), ("C", Outcome::Skipped)];
        assert_eq!(outcomes, expected.map(|(name, outcome)| (format!("http2/5.1: {name}"), outcome)));
    }

    #[test]
    fn the_servers_port_is_in_its_line() {
        assert_eq!(port("{\"urls\":[\"https://127.0.0.1:43257/\"]}"), Some("43257"));
        assert_eq!(port("no"), None);
    }
}
