//! Programs and files that come by the Go module proxy, once, below `target/tmp`.

use super::scene::found;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where what comes by the proxy is kept.
pub const KEPT: &str = env!("CARGO_TARGET_TMPDIR");

/// Go, and a scratch folder for what it does.
pub struct Go {
    program: &'static str,
    scratch: tempfile::TempDir,
}

impl Go {
    /// With a scratch folder of its own, so that two runs at once do not meet; says so where Go is not installed.
    pub fn new() -> Option<Self> {
        let program = ["/usr/local/go/bin/go", "/usr/bin/go"].into_iter().find(|go| Path::new(go).exists());
        if program.is_none() && !found("go", "golang-go") {
            return None;
        }
        Some(Self { program: program.unwrap_or("go"), scratch: tempfile::tempdir_in(KEPT).unwrap() })
    }

    /// What a command of Go prints; the last line of its errors.
    pub fn run(&self, words: &[&str]) -> Result<Vec<u8>, String> {
        let scratch = self.scratch.path();
        let mut command = Command::new(self.program);
        command.args(words).current_dir(scratch).env("GOFLAGS", "-modcacherw").env("GOBIN", scratch);
        command.env("GOMODCACHE", scratch.join("modules")).env("GOCACHE", scratch.join("cache"));
        let output = command.output().map_err(|why| why.to_string())?;
        let last = |text: &[u8]| String::from_utf8_lossy(text).lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(output.stdout) } else { Err(last(&output.stderr)) }
    }

    /// A file in the scratch folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Builds the program `package` (`PATH/NAME@VERSION`) and moves it to `place`, whole.
    pub fn install(&self, package: &str, place: &Path) -> Result<(), String> {
        self.run(&["install", package])?;
        let name = package.rsplit('/').next().and_then(|last| last.split('@').next()).ok_or("it has no name")?;
        fs::rename(self.path(name), place).map_err(|why| why.to_string())
    }
}
