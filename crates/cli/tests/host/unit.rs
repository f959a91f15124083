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

/// The drop-in for services of others.
const DROP_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/run.conf");

/// The drop-in for headstart's own daemon, that it measures.
const MEASURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/measure.conf");

/// What systemd has to say of a service with `text` as its drop-in.
fn complaints_of(text: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::create_dir_all(folder.join("demo.service.d")).unwrap();
    let unit = folder.join("demo.service");
    std::fs::write(&unit, "[Unit]\nDescription=demo\n[Service]\nExecStart=/bin/true\n").unwrap();
    std::fs::write(folder.join("demo.service.d/headstart.conf"), text).unwrap();
    let mut verify = Command::new("systemd-analyze");
    // The colon keeps systemd's own folders.
    let output =
        verify.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display())).arg("verify").arg(&unit).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().filter(|line| line.contains("headstart.conf") || line.contains("demo.service")).collect()
}

/// That systemd understands every line of the drop-in at `path`, whose `command` is not installed here, and would name a line that is wrong.
fn is_understood_whole(path: &str, command: &str, [right, wrong]: [&str; 2]) {
    let Some(()) = found("systemd-analyze", "systemd") else { return };
    let text = std::fs::read_to_string(path).unwrap().replace(command, "/bin/true");
    assert!(text.contains("ExecStart=\nExecStart=/bin/true\n"), "the unit's own command is replaced: {text}");
    assert_eq!(complaints_of(&text), "");
    assert!(complaints_of(&text.replace(right, wrong)).contains(wrong));
}

#[test]
fn the_drop_in_for_services_is_understood_whole() {
    is_understood_whole(DROP_IN, "/usr/bin/headstart-run -q -- /usr/bin/COMMAND", ["KillMode", "KillMood"]);
}

#[test]
fn the_drop_in_that_measures_is_understood_whole() {
    is_understood_whole(MEASURE, "/usr/bin/headstart up --foreground --measure --via ebpf", ["MemoryMax", "MemoryMix"]);
}
