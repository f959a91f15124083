//! CPython's own tests of sockets: `python3 -m test test_socket`.

use super::outcomes::{Outcome, Outcomes, add};
use super::{Found, Suite, Work};
use crate::packages::{PYTHONS, imports};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// See the module.
pub const SUITE: Suite = Suite { name: "python", find };

const TESTS: &str = "test.test_socket";
/// Sockets to hypervisors: headstart has nothing to do with them, and where there is one that does not answer, they
/// wait for ever, with or without headstart.
const LEFT_OUT: &str = "*VSOCK*";
/// After so many seconds CPython ends its tests itself: twenty times what they take.
const PATIENCE: &str = "1200";
const REPORT: &str = "report.xml";

fn find(_: &Path) -> Result<Vec<Found>, String> {
    let python = PYTHONS.iter().find(|python| imports(python, TESTS));
    let missing = "no Python here has CPython's own tests (Debian package: libpython3.11-testsuite)";
    let python = executable(python.ok_or(missing)?)?;
    let said = Command::new(&python).arg("--version").output();
    let version = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    Ok(vec![Found { name: format!("{version}, test_socket"), run: Box::new(move |work| run(&python, work)) }])
}

/// The interpreter itself: what is on the PATH may be a script that starts one.
fn executable(python: &str) -> Result<String, String> {
    let output = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{python}: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(python: &str, work: &Work<'_>) -> Result<Outcomes, String> {
    let report = work.folder.join(REPORT);
    let mut command = work.command(python);
    command.args(["-m", "test", "--timeout", PATIENCE, "--ignore", LEFT_OUT, "--tempdir"]).arg(work.folder);
    command.arg("--junit-xml").arg(&report).arg("test_socket").current_dir(work.folder);
    // Not the user's own settings.
    command.env_remove("PYTHONPATH").env_remove("PYTHONSTARTUP");
    let said = work.run(command)?;
    let text = fs::read_to_string(&report).map_err(|e| format!("{}: {e}; the tests said: {said}", report.display()))?;
    let outcomes = parse(&text);
    if outcomes.is_empty() { Err(format!("it ran no tests, and said: {}", said.trim())) } else { Ok(outcomes) }
}

/// The outcomes in a report of JUnit's format, as CPython's runner writes it.
fn parse(report: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for case in report.split("<testcase ").skip(1) {
        let Some((_, rest)) = case.split_once("name=\"") else { continue };
        let Some((name, rest)) = rest.split_once('"') else { continue };
        let outcome = if rest.contains("<failure") || rest.contains("<error") {
            Outcome::Failed
        } else if rest.contains("<skipped") {
            Outcome::Skipped
        } else {
            Outcome::Passed
        };
        add(&mut outcomes, name, outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_test_by_test() {
        let report = "<testsuites tests=\"4\"><testsuite><testcase name=\"a.b\" status=\"run\" time=\"0.1\" />\
                      <testcase name=\"a.c\" status=\"run\"><skipped>not here</skipped></testcase>\
                      <testcase name=\"a.d\"><failure type=\"x\">&lt;error&gt;</failure></testcase>\
                      <testcase name=\"a.e\"><error>no</error></testcase></testsuite></testsuites>";
        let outcomes: Vec<_> = parse(report).into_iter().collect();
        let expected =
            [("a.b", Outcome::Passed), ("a.c", Outcome::Skipped), ("a.d", Outcome::Failed), ("a.e", Outcome::Failed)];
        assert_eq!(outcomes, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
        assert!(parse("no report at all").is_empty());
    }
}
