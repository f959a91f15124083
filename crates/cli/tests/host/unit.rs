//! The systemd units: what each may still do to a host if it were taken over, as systemd rates it.

use crate::scene::found;
use std::process::Command;

/// The units that are published.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");

#[test]
fn the_exposure_of_every_unit_is_at_most_two_and_a_half() {
    let Some(()) = found("systemd-analyze", "systemd") else { return };
    let mut rated = 0;
    for unit in std::fs::read_dir(UNITS).unwrap().map(|entry| entry.unwrap().path()) {
        // A drop-in is rated with the unit that it is of.
        if unit.extension().is_none_or(|kind| kind != "service") {
            continue;
        }
        let words = ["security", "--offline=true", "--no-pager", "--threshold=25"];
        let output = Command::new("systemd-analyze").args(words).arg(&unit).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let Some(level) = said.lines().find(|line| line.contains("Overall exposure level")) else {
            // Before version 250 it cannot look at a file.
            return println!(
                "skipped: this systemd-analyze rates no file: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        println!("{level}");
        assert!(output.status.success(), "{said}");
        rated += 1;
    }
    assert!(rated >= 4, "{rated}");
}
