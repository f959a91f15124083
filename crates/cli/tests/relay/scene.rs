//! The scene: a folder of one test with keys, and commands that run beside it until it ends.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
pub use headstart_lab::inside;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The command under test.
pub const HEADSTART: &str = env!("CARGO_BIN_EXE_headstart");

/// A folder of one test, gone with it, with a key for a relay and one for its client.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let mut bytes = [0u8; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
        let path = std::env::temp_dir().join(format!("headstart-relay-{:016x}", u64::from_ne_bytes(bytes)));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of a key's file as a word, and its public part.
    pub fn key(&self, name: &str) -> (String, String) {
        let file = self.path(name).display().to_string();
        let output = Command::new(HEADSTART).args(["relay", "key", &file]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (file, String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// The words that start a relay for one client.
    pub fn serve(&self, listen: &str, allow: &str) -> Vec<String> {
        let ((key, _), (_, client)) = (self.key("relay"), self.key("client"));
        let words = ["relay", "serve", "--listen", listen, "--key", &key, "--client", &client, "--allow", allow];
        words.map(str::to_owned).into()
    }

    /// The words by which a client names that relay.
    pub fn through(&self, relay: &str) -> Vec<String> {
        let ((_, public), (key, _)) = (self.key("relay"), self.key("client"));
        ["--relay", relay, "--relay-key", &public, "--key", &key].map(str::to_owned).into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that runs until it is dropped or waited for, and what it prints.
pub struct Running {
    pub child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    pub fn headstart<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::start(Command::new(HEADSTART).args(words))
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The address in the next line, which is its word number `at`.
    pub fn address(&mut self, at: usize) -> String {
        let line = self.line();
        let word = line.split_whitespace().nth(at).unwrap_or_else(|| panic!("no address in {line:?}"));
        word.trim_end_matches(',').to_owned()
    }

    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end; whether it was a good one.
    pub fn ended(&mut self) -> bool {
        until("the program ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `happened`, for as long as the slowest machine may take.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let clock = Clock::new();
    while !happened() {
        assert!(clock.now() < Instant::from_millis(60_000), "waited in vain until {what}");
        clock.sleep(Duration::from_millis(5));
    }
}

/// Where `program` is; `None`, and a line that says so, if the test must do without.
pub fn found(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let file = folders.map(|folder| folder.join(program)).find(|file: &PathBuf| Path::is_file(file));
    if file.is_none() {
        println!("skipped: {program} is not on the PATH (Debian package: {package})");
    }
    file
}
