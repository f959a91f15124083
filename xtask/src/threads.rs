//! `cargo xtask threads`: the C interface of realtime under ThreadSanitizer. The program of the tests whose threads share a session and a
//! listener (`crates/realtime/tests/threads.c`) is built with it, and so is everything behind the interface: our crates, tokio, and
//! the standard library, without which each lock of it would look like none. What is reported and is no race stands in
//! `crates/realtime/tests/threads.supp`, with the reason.
//!
//! The sanitizer is a pass of LLVM, which the stable compiler has too; its flag is let through by RUSTC_BOOTSTRAP, as in
//! [`crate::fuzz`]. The standard library is built from the compiler's own source. valgrind's helgrind is of no use here: it does not know
//! the atomics that Rust's locks are made of, and reports all that they protect.

use crate::Failure;
use crate::step::Step;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where all of it is built.
const FOLDER: &str = "target/threads";
/// How often it is played: threads meet differently each time.
const TIMES: usize = 20;

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[])?;
    let host = crate::fuzz::host()?;
    let named = std::env::var("RUSTC").ok();
    let compiler = sysroot(named.as_deref().unwrap_or("rustc"))?;
    if !compiler.join("lib/rustlib/src/rust/library/std").exists() {
        return Err(Failure::Failed(
            "this compiler has no source of its standard library: `rustup component add rust-src`, or name by RUSTC one that has it \
             (Debian: rustc-web and rust-web-src)"
                .into(),
        ));
    }
    // Debian's compiler comes without: then that of the one on the PATH.
    let libraries = [&compiler, &sysroot("rustc")?].map(|root| root.join("lib/rustlib").join(&host).join("lib"));
    let runtime = libraries.iter().find_map(|folder| runtime(folder));
    let runtime = runtime.ok_or_else(|| Failure::Failed("this compiler has no runtime of ThreadSanitizer".into()))?;
    let [build, compile, play] = steps(&host, &runtime.to_string_lossy());
    for step in [&build, &compile] {
        println!("xtask: {}", step.line());
        step.run()?;
    }
    println!("xtask: {} times: {}", TIMES, play.line());
    (0..TIMES).try_for_each(|_| play.run())
}

/// Where a compiler's library is.
fn sysroot(rustc: &str) -> Result<PathBuf, Failure> {
    let output = Command::new(rustc).args(["--print", "sysroot"]).output();
    let output = output.map_err(|e| Failure::Failed(format!("{rustc} --print sysroot: {e}")))?;
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).to_owned())
}

/// The sanitizer's runtime among these libraries.
fn runtime(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    files.into_iter().find(|file| file.to_string_lossy().ends_with("_rt.tsan.a"))
}

fn steps(host: &str, runtime: &str) -> [Step; 3] {
    let build = ["build", "-p", "headstart-realtime", "--lib", "-Zbuild-std", "--target", host, "--target-dir", FOLDER];
    let build = Step::cargo(&build).with("RUSTC_BOOTSTRAP", "1").with("RUSTFLAGS", "-Zsanitizer=thread");
    let (library, program) = (format!("{FOLDER}/{host}/debug/libheadstart_realtime.a"), format!("{FOLDER}/threads"));
    // By our own hand, because the compiler of C would link its own runtime, which is older and lacks some functions.
    let object = format!("{FOLDER}/threads.o");
    let compile =
        format!("cc -g -c -fsanitize=thread -Icrates/realtime/include crates/realtime/tests/threads.c -o {object}");
    let whole = format!("-Wl,--whole-archive {runtime} -Wl,--no-whole-archive -rdynamic");
    let link = format!("cc {object} {library} {whole} -lpthread -lm -ldl -lrt -o {program}");
    let compile = Step::command("sh", &["-c", &format!("{compile} && {link}")]);
    let options = "halt_on_error=1 exitcode=66 suppressions=crates/realtime/tests/threads.supp";
    [build, compile, Step::command(&program, &[]).with("TSAN_OPTIONS", options)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_the_interface_is_built_with_the_sanitizer_and_a_report_fails() {
        let [build, compile, play] = steps("host", "rt.tsan.a").map(|step| step.line());
        assert!(
            build.contains("RUSTFLAGS=-Zsanitizer=thread cargo build") && build.contains(" -Zbuild-std "),
            "{build}"
        );
        assert!(compile.contains(" -fsanitize=thread ") && compile.contains("/host/debug/"), "{compile}");
        assert!(play.contains("exitcode=66") && play.ends_with(" target/threads/threads"), "{play}");
    }
}
