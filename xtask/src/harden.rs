//! `cargo xtask harden`: what takes too long for every change, one after the other. The daemon is killed at every step of its
//! journal, for every column, and its record is harmed in every way; programs look for signs of the forwarder by every check and case, hostile
//! peers try what they can, other QUIC stacks fetch and are fetched from, the law is played in a million worlds, the Python package is built and tried, the packages are made twice
//! with the same bytes, installed, upgraded and removed in a Debian of their own, campaigns lose hosts on every scheduler that is
//! there, the C interface runs under ThreadSanitizer, and the soak.

use crate::step::Step;
use crate::{Failure, campaigns, differential, hostile, interop, law, package, python, soak, threads};

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let minutes = soak::minutes(arguments)?;
    let all = |steps: &[Step]| {
        steps.iter().try_for_each(|step| {
            println!("xtask: {}", step.line());
            step.run()
        })
    };
    all(&before_soak())?;
    differential::run(&[])?;
    hostile::run(&[])?;
    interop::run(&[])?;
    python::run(&[])?;
    package::run(&["--twice".to_owned(), "--test".to_owned()])?;
    // What is not installed is skipped with a line.
    campaigns::run(&[])?;
    threads::run(&[])?;
    all(&soak::steps(minutes))
}

fn before_soak() -> [Step; 3] {
    let of = |target, filter: &[&str]| {
        let words = ["test", "-p", "headstart", "--test", target, "--", "--include-ignored", "--nocapture"];
        Step::cargo(&[&words[..], filter].concat())
    };
    [
        of("host", &["torture::", "record::", "columns::"]),
        of("semantics", &[]).with("HEADSTART_EVERY_CHECK", "1"),
        law::all(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::workspace_root;

    #[test]
    fn torture_semantics_and_the_law_come_before_the_soak() {
        let lines: Vec<_> = before_soak().iter().map(Step::line).collect();
        assert!(
            lines[0].ends_with("--test host -- --include-ignored --nocapture torture:: record:: columns::"),
            "{lines:?}"
        );
        let host = std::fs::read_to_string(workspace_root().unwrap().join("crates/cli/tests/host/main.rs")).unwrap();
        for name in ["torture", "record", "columns"] {
            assert!(host.contains(&format!("mod {name};")), "no such tests: {name}");
        }
        assert!(lines[1].starts_with("HEADSTART_EVERY_CHECK=1 cargo test"), "{lines:?}");
        assert!(lines[2].contains("--test law"), "{lines:?}");
        assert!(matches!(run(&["5".to_owned()]), Err(Failure::Usage(_))), "wrong words are told before anything runs");
    }
}
