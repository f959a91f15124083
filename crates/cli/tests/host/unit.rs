//! The systemd unit: what it may still do to a host if it were taken over, as systemd rates it.

use crate::scene::found;
use std::process::Command;

/// The unit that is published.
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/headstart.service");

#[test]
fn the_units_exposure_is_at_most_two_and_a_half() {
    let Some(()) = found("systemd-analyze", "systemd") else { return };
    let output =
        Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager", UNIT]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let level = said.lines().find_map(|line| line.split_once("Overall exposure level for headstart.service: "));
    let level = level.and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
    let Some(level) = level else {
        // Before version 250 it cannot look at a file.
        return println!("skipped: this systemd-analyze rates no file: {}", String::from_utf8_lossy(&output.stderr));
    };
    println!("exposure {level}");
    assert!(level <= 2.5, "{said}");
}
