//! The engines: one for phones (aarch64), and one for emulators and for tests on the build machine (x86_64). Static, so that they need nothing
//! of the system that they run on; for GNU/Linux, because Android's standard library cannot be run here, and its kernel is the same.

use super::{How, Places};
use crate::Failure;
use crate::step::Step;
use std::path::PathBuf;

/// An engine for one kind of processor.
pub struct Engine {
    /// What Android calls the processor.
    pub abi: &'static str,
    /// The program.
    pub program: PathBuf,
    /// What runs it on the build machine, if that cannot by itself.
    pub runner: &'static str,
}

/// Targets, what Android calls them, and what runs them here; the build machine's is the first.
const TARGETS: [(&str, &str, &str); 2] =
    [("x86_64-unknown-linux-gnu", "x86_64", ""), ("aarch64-unknown-linux-gnu", "arm64-v8a", "qemu-aarch64 ")];

/// Builds them.
pub fn build(places: &Places, how: How) -> Result<Vec<Engine>, Failure> {
    let targets = if how.host_only { &TARGETS[..1] } else { &TARGETS };
    let one = |(target, abi, runner): &(&str, &'static str, &'static str)| {
        Ok(Engine { abi, program: one(places, how.profile, target, abi)?, runner })
    };
    targets.iter().map(one).collect()
}

fn one(places: &Places, profile: &str, target: &str, abi: &str) -> Result<PathBuf, Failure> {
    let folder = places.made.join("engine");
    let into = folder.display().to_string();
    let mut words = vec!["build", "--locked", "-p", "headstart-io", "--bin", "headstart-engine"];
    words.extend(["--profile", profile, "--target", target, "--target-dir", &into]);
    let is_foreign = !target.starts_with("x86_64");
    if is_foreign {
        words.push("-Zbuild-std=std,panic_abort");
    }
    let mut build = Step::cargo(&words).with("CARGO_ENCODED_RUSTFLAGS", flags(places));
    if is_foreign {
        // Debian's compiler has its library's sources beside it, which is all that building one for another processor needs.
        build = build.with("RUSTC", "/usr/bin/rustc").with("RUSTC_BOOTSTRAP", "1");
        build = build.with("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    }
    println!("xtask: an engine for {abi}");
    build.run()?;
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(folder.join(target).join(profile).join("headstart-engine"))
}

/// Static, without symbols, and without places of this machine.
fn flags(places: &Places) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let remap = |place: PathBuf, name: &str| format!("--remap-path-prefix={}={name}", place.display());
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), "-Cstrip=symbols".to_owned()];
    flags.push(remap(places.root.clone(), "/headstart"));
    flags.extend(home.map(|home| remap(home, "/cargo")));
    flags.join("\u{1f}")
}
