//! What a run has shown, in `target/android/report.md`: sizes, what the package says of itself, tests. For people who check it, and for
//! docs/results/phone.md. Only what tools printed is in it.

use super::{Places, failed};
use crate::Failure;
use crate::step::{Captured, Step};
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Begins another one.
pub fn begin(places: &Places) -> Result<(), Failure> {
    let text = "# The app and its engines\n\nBuilt and tested on the build machine; never run on a device.\n\n";
    let file = places.made.join("report.md");
    fs::write(&file, text).map_err(|e| failed(&file, &e))
}

/// Adds a line.
pub fn line(places: &Places, text: &str) -> Result<(), Failure> {
    let file = places.made.join("report.md");
    let open = fs::OpenOptions::new().append(true).create(true).open(&file);
    open.and_then(|mut open| writeln!(open, "{text}")).map_err(|e| failed(&file, &e))
}

/// Adds how large a file is.
pub fn size(places: &Places, what: &str, file: &Path) -> Result<(), Failure> {
    let bytes = file.metadata().map_err(|e| failed(file, &e))?.len();
    line(places, &format!("- {what}: {bytes} bytes"))
}

/// Runs a step, and adds those of its lines that are `wanted`.
pub fn run(places: &Places, title: &str, step: &Step, wanted: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let Captured { success, output, .. } = step.capture()?;
    let lines = output.iter().filter(|line| wanted(line)).map(|line| format!("{line}\n")).collect::<String>();
    let ending = if success { "" } else { "**It failed.**\n" };
    line(places, &format!("\n## {title}\n\n```text\n{lines}```\n{ending}"))?;
    if success { Ok(()) } else { Err(Failure::Failed(format!("`{}` failed", step.line()))) }
}

/// Whether this line of JUnit's says how many tests there were, or which one failed.
pub fn is_result(line: &str) -> bool {
    let numbered = || line.split_once(") ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    line.starts_with("OK (") || line.starts_with("Tests run:") || line.starts_with("Time:") || numbered()
}

#[cfg(test)]
mod unit {
    use super::is_result;

    #[test]
    fn of_junits_lines_the_results_are_kept() {
        let said = "JUnit version 4.13.2\n..E.\nTime: 1.9\nThere was 1 failure:\n1) aName(org.example.Test)\n\tat it(Test.java:7)";
        let kept: Vec<_> = said.lines().filter(|line| is_result(line)).collect();
        assert_eq!(kept, ["Time: 1.9", "1) aName(org.example.Test)"]);
        assert!(is_result("OK (22 tests)") && is_result("Tests run: 22,  Failures: 1") && !is_result("OK then"));
    }
}
