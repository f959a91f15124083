//! The Debian packages that tests need beyond Rust and a C compiler, in one table.
//!
//! Tests run third-party programs through headstart to show that it serves what people use. A test whose program is
//! missing skips with a line that says so. Nothing here touches the host but [`install`].

use crate::Failure;
use crate::step::Step;
use std::path::Path;

/// A package of Debian (and Ubuntu).
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name for apt-get.
    pub name: &'static str,
    /// The program that it provides; it is installed only where this is not on the PATH.
    pub program: &'static str,
    /// What tests want it for.
    pub why: &'static str,
}

/// Every package that a test wants.
pub const ALL: &[Package] = &[
    Package { name: "curl", program: "curl", why: "an unmodified client with its own Happy Eyeballs" },
    Package { name: "wget", program: "wget", why: "an unmodified client that tries addresses one by one" },
    Package { name: "git", program: "git", why: "an unmodified client that runs others, over http" },
    Package { name: "python3", program: "python3", why: "an unmodified client in an interpreter, over the C library" },
    Package { name: "tshark", program: "tshark", why: "opens the emulator's captures and checks what is in them" },
];

/// The packages whose program is not there.
pub fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static Package> {
    ALL.iter().filter(|package| !is_there(package.program)).collect()
}

/// Whether a program is on the PATH and may be executed.
pub fn on_path(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable =
        |file: &Path| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| executable(&folder.join(program)))
}

/// The two commands that install `packages`; `prefix` is empty for root and `sudo` for others.
fn commands(packages: &[&Package], prefix: &[&str]) -> [Step; 2] {
    let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Acquire::Retries=3"];
    let line = |rest: &[&str]| {
        let words: Vec<&str> = prefix.iter().chain(&apt).chain(rest).copied().collect();
        Step::command(words[0], &words[1..])
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages.iter().map(|package| package.name));
    [line(&["update"]), line(&install)]
}

/// The line that a person would type to install `packages`.
pub fn line_for(packages: &[&Package]) -> String {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    format!("apt-get install --no-install-recommends {}", names.join(" "))
}

/// Installs `packages` with apt-get, through sudo for those who are not root.
pub fn install(packages: &[&Package]) -> Result<(), Failure> {
    if !on_path("apt-get") {
        let names: Vec<&str> = packages.iter().map(|package| package.program).collect();
        let names = names.join(", ");
        return Err(Failure::Failed(format!(
            "this host has no apt-get: install {names} by its own means, then run without --install"
        )));
    }
    let prefix: &[&str] = if is_root() || !on_path("sudo") { &[] } else { &["sudo"] };
    for step in commands(packages, prefix) {
        println!("xtask: {}", step.line());
        step.run()?;
    }
    Ok(())
}

/// The owner of our own entry in /proc is our effective user; without /proc nobody is root, and sudo asks.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        let absent = missing(|program| program != "wget");
        assert_eq!(absent.iter().map(|package| package.name).collect::<Vec<_>>(), ["wget"]);
        let [update, install] = commands(&absent, &["sudo"]);
        assert!(update.line().starts_with("sudo env DEBIAN_FRONTEND=noninteractive apt-get "), "{}", update.line());
        assert!(install.line().ends_with(" install -y --no-install-recommends wget"), "{}", install.line());
        assert_eq!(line_for(&absent), "apt-get install --no-install-recommends wget");
    }

    #[test]
    fn root_needs_no_sudo() {
        let [update, _] = commands(&missing(|_| false), &[]);
        assert!(update.line().starts_with("env "), "{}", update.line());
    }

    #[test]
    fn a_program_is_found_on_the_path_and_an_invented_one_is_not() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-here"));
    }
}
