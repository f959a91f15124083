//! Two programs: a verb of the lab is done by `headstart-lab` beside `headstart` or on the PATH, and where it is in neither, that is said.
#![forbid(unsafe_code)]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");
const LAB: &str = env!("CARGO_BIN_EXE_headstart-lab");

/// Copies a program. Not written by this process: what another test starts meanwhile would have it open for writing, and it could not be run.
fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap().success());
}

/// `headstart` alone in a folder of its own, with what is in `path` on the PATH, not started by cargo.
fn alone(folder: &Path, path: &Path, words: &[&str]) -> Output {
    let copy = folder.join("headstart");
    if !copy.exists() {
        install(HEADSTART.as_ref(), &copy);
    }
    let mut command = Command::new(copy);
    command.args(words).env("PATH", path).env_remove("CARGO").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_the_lab_its_verbs_name_the_package_and_all_else_works() {
    let (folder, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for words in [&["lab", "run", "connect-model"][..], &["demo"], &["help", "lab"], &["list", "scenarios"]] {
        let output = alone(folder.path(), empty.path(), words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert!(text(&output.stderr).contains("install the package headstart-lab"), "{words:?}: {output:?}");
    }
    let json = alone(folder.path(), empty.path(), &["demo", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(error["exit_code"], 1, "{error}");
    let list = alone(folder.path(), empty.path(), &["list", "--json"]);
    let lists: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert!(lists["races"].is_array() && lists["scenarios"].is_null(), "{lists}");
    assert!(text(&list.stderr).contains("the lists of headstart-lab are left out"), "{list:?}");
    let man = alone(folder.path(), empty.path(), &["man"]);
    assert!(man.status.success() && man.stdout.starts_with(b".ie"), "{man:?}");
}

#[test]
fn the_lab_is_found_on_the_path_and_one_beside_goes_before_it() {
    let (folder, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(LAB, path.path().join("headstart-lab")).unwrap();
    for words in [&["lab", "list", "--json"][..], &["list", "--json"], &["lab", "run", "--help"], &["help", "demo"]] {
        let (there, here) = (alone(folder.path(), path.path(), words), Command::new(HEADSTART).args(words).output());
        let here = here.unwrap();
        assert!(there.status.success() && !there.stdout.is_empty(), "{words:?}: {there:?}");
        assert_eq!((text(&there.stdout), text(&there.stderr)), (text(&here.stdout), text(&here.stderr)), "{words:?}");
    }
    let other = folder.path().join("headstart-lab");
    symlink("/bin/echo", &other).unwrap();
    let output = alone(folder.path(), path.path(), &["lab", "run", "-x", "--json"]);
    assert_eq!(text(&output.stdout), "lab run -x --json\n", "words are passed on as they are");
}

#[test]
fn headstart_lab_needs_not_be_told_that_it_is_the_lab() {
    let list = |program: &str, words: &[&str]| text(&Command::new(program).args(words).output().unwrap().stdout);
    assert_eq!(list(LAB, &["list", "--json"]), list(HEADSTART, &["lab", "list", "--json"]));
    assert!(list(LAB, &["--version"]).starts_with("headstart-lab 0."));
}

#[test]
fn a_lab_that_cargo_run_has_left_out_is_built_by_that_cargo() {
    let (target, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = target.path().join("debug");
    std::fs::create_dir(&folder).unwrap();
    install(HEADSTART.as_ref(), &folder.join("headstart"));
    // A cargo that notes what it is asked for, and has it.
    let cargo = empty.path().join("cargo");
    let script = format!(
        "#!/bin/sh\necho \"$@\"\necho \"$@\" > {0}/asked\necho \"${{CARGO_PKG_NAME-}}${{CARGO_MANIFEST_DIR-}}\" > {0}/package\n/bin/ln -s {LAB} {0}/headstart-lab\n",
        folder.display()
    );
    std::fs::write(empty.path().join("script"), script).unwrap();
    install(&empty.path().join("script"), &cargo);
    let run = |package: &str| {
        let mut command = Command::new(folder.join("headstart"));
        command.args(["lab", "list", "--json"]).env("PATH", empty.path()).env("CARGO", &cargo);
        command.env("CARGO_PKG_NAME", package).env("CARGO_MANIFEST_DIR", "/checkout/crates/cli").output().unwrap()
    };
    let other = run("another");
    assert!(text(&other.stderr).contains("install the package headstart-lab"), "started by another's cargo: {other:?}");
    let built = run("headstart");
    assert!(built.status.success(), "{built:?}");
    serde_json::from_slice::<serde_json::Value>(&built.stdout).expect("what cargo says is not among it");
    let asked = std::fs::read_to_string(folder.join("asked")).unwrap();
    let place = format!("--target-dir {}\n", target.path().display());
    assert!(asked.starts_with("build --quiet --bin headstart-lab --profile dev --manifest-path /checkout/"), "{asked}");
    assert!(asked.ends_with(&place), "{asked}");
    let package = std::fs::read_to_string(folder.join("package")).unwrap();
    assert_eq!(package, "\n", "build scripts that watch these would run again, and what stands on them be built twice");
}
