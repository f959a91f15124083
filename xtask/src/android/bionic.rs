//! Whether core, link and quic build for Android itself (`aarch64-linux-android`), and link: against libraries that hold nothing, since Android's own
//! come with the NDK alone. Links; never run. `io` and what stands on it do not build there: they use pidfds, seccomp and namespaces, which the
//! crate libc does not know of Android. The engine needs none of it, for it is a program for GNU/Linux.

use super::{Places, failed, step};
use crate::Failure;
use crate::step::Step;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const TARGET: &str = "aarch64-linux-android";
/// The libraries that Rust's standard library wants there.
const LIBRARIES: [&str; 6] = ["c", "dl", "log", "m", "unwind", "gcc"];
const CRATES: [&str; 3] = ["headstart-core", "headstart-link", "headstart-quic"];

/// Builds and links these crates.
pub fn check(places: &Places) -> Result<(), Failure> {
    let folder = places.made.join("bionic");
    fs::create_dir_all(&folder).map_err(|e| failed(&folder, &e))?;
    let text = folder.display().to_string();
    let clang = format!("clang --target={TARGET}29 -nostdlib -fuse-ld=lld");
    for library in LIBRARIES {
        step("sh", &["-c", &format!("{clang} -shared -x c -o '{text}/lib{library}.so' /dev/null")]).run()?;
    }
    let linker = folder.join("linker");
    let script = format!(
        "#!/bin/sh\nexec {clang} -L '{text}' -Wl,--unresolved-symbols=ignore-all -Wl,-z,max-page-size=16384 \"$@\"\n"
    );
    fs::write(&linker, script).map_err(|e| failed(&linker, &e))?;
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755)).map_err(|e| failed(&linker, &e))?;
    CRATES.iter().try_for_each(|name| library(name, &folder, &linker))?;
    println!("xtask: {} link for Android; never run", CRATES.join(", "));
    Ok(())
}

/// Links one as a library that apps could load.
fn library(name: &str, folder: &Path, linker: &Path) -> Result<(), Failure> {
    let into = folder.join("target").display().to_string();
    let mut words = vec!["rustc", "--locked", "-p", name, "--lib", "--crate-type", "cdylib", "--target", TARGET];
    // Nothing of it is run.
    words.extend(["-Zbuild-std=std,panic_abort", "--config", "profile.dev.opt-level=0", "--target-dir", &into]);
    println!("xtask: {name} for Android itself");
    Step::cargo(&words)
        .with("RUSTC", "/usr/bin/rustc")
        .with("RUSTC_BOOTSTRAP", "1")
        .with("CC_aarch64_linux_android", "aarch64-linux-gnu-gcc")
        .with("AR_aarch64_linux_android", "aarch64-linux-gnu-ar")
        .with("CARGO_TARGET_AARCH64_LINUX_ANDROID_LINKER", linker.display().to_string())
        .run()
}
