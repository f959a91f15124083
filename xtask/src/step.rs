//! One step of a chore: a command, or a check of ours, named and timed.
//!
//! Output goes straight through, so that cargo's own summary lines reach the terminal and the CI log. Steps never read
//! the standard input: CI has none.

use crate::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long the output of a command may stay silent after its end. A process that it left behind may hold the other
/// end of its pipes for longer.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A command in the workspace's root.
pub struct Step {
    /// The program.
    program: String,
    /// Its arguments.
    arguments: Vec<String>,
    /// Variables more in its environment.
    variables: Vec<(&'static str, String)>,
}

/// What a command printed, and how it ended.
pub struct Captured {
    /// Whether it ended with success.
    pub success: bool,
    /// The lines of its standard output.
    pub output: Vec<String>,
    /// The lines of its standard error.
    pub errors: Vec<String>,
}

impl Step {
    /// A cargo command, run by the cargo that runs this chore.
    pub fn cargo(arguments: &[&str]) -> Self {
        Self::command("cargo", arguments)
    }

    /// Any command.
    pub fn command(program: &str, arguments: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            variables: Vec::new(),
        }
    }

    /// The same with a variable set.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// The line that a person would type.
    pub fn line(&self) -> String {
        let quoted = |word: &str| if word.contains(' ') { format!("'{word}'") } else { word.to_owned() };
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = std::iter::once(&self.program).chain(&self.arguments).map(|word| quoted(word));
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it and waits for it.
    pub fn run(&self) -> Result<(), Failure> {
        match self.prepared()?.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Failed(format!("`{}` failed ({status})", self.line()))),
            Err(e) => Err(self.not_started(&e)),
        }
    }

    /// Runs it, lets its output through as it comes, and keeps it.
    pub fn capture(&self) -> Result<Captured, Failure> {
        self.capture_showing(|_| true)
    }

    /// The same, but lets only those lines of its standard output through for which `shown` says so.
    pub fn capture_showing(&self, shown: impl FnMut(&str) -> bool + Send + 'static) -> Result<Captured, Failure> {
        let mut command = self.prepared()?;
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| self.not_started(&e))?;
        let (errors_of, lines) = mpsc::channel();
        let output_of = errors_of.clone();
        if let Some(pipe) = child.stdout.take() {
            pass_on(pipe, std::io::stdout(), shown, move |line| output_of.send((false, line)).is_ok());
        }
        if let Some(pipe) = child.stderr.take() {
            pass_on(pipe, std::io::stderr(), |_| true, move |line| errors_of.send((true, line)).is_ok());
        }
        let (mut output, mut errors, mut ended) = (Vec::new(), Vec::new(), None);
        loop {
            match lines.recv_timeout(LAST_WORDS) {
                Ok((true, line)) => errors.push(line),
                Ok((false, line)) => output.push(line),
                Err(mpsc::RecvTimeoutError::Timeout) if ended.is_none() => ended = child.try_wait().ok().flatten(),
                Err(_) => break,
            }
        }
        let status = child.wait().map_err(|e| Failure::Failed(format!("`{}` is lost: {e}", self.line())))?;
        Ok(Captured { success: status.success(), output, errors })
    }

    /// The command, ready to start.
    fn prepared(&self) -> Result<Command, Failure> {
        let inherited = if self.program == "cargo" { std::env::var("CARGO").ok() } else { None };
        let program = inherited.as_deref().unwrap_or(&self.program);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut command = if ignores_control_c(&status) {
            let mut env = Command::new("env");
            env.args(["--default-signal=INT,QUIT", program]);
            env
        } else {
            Command::new(program)
        };
        // What cargo has set for this chore would have ring, and all that stands on it, built anew by whatever cargo is started.
        std::env::vars_os().map(|(name, _)| name).filter(|name| is_of_a_package(name)).for_each(|name| {
            command.env_remove(name);
        });
        command.args(&self.arguments).envs(self.variables.clone()).stdin(Stdio::null());
        command.current_dir(crate::tree::workspace_root()?);
        Ok(command)
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure::Failed(format!("`{}` could not be started: {error}; is it installed?", self.line()))
    }
}

/// Whether this variable tells a program that cargo runs of which package it is: build scripts that watch such a variable run again when
/// it changes.
fn is_of_a_package(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Whether a process with this `/proc/PID/status` ignores SIGINT, and so will whatever it starts: a shell without job control starts
/// all in the background so (POSIX, 2.11). Tests press Control-C, and what they started would never end.
fn ignores_control_c(status: &str) -> bool {
    const INT: u64 = 1 << (2 - 1);
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & INT != 0)
}

/// Copies those lines of a pipe that are `shown` to where they would have gone, and gives all to `keep`, until the pipe ends or it
/// wants no more.
fn pass_on(
    pipe: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    mut shown: impl FnMut(&str) -> bool + Send + 'static,
    keep: impl Fn(String) -> bool + Send + 'static,
) {
    std::thread::spawn(move || {
        let (mut pipe, mut line) = (BufReader::new(pipe), Vec::new());
        while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            if shown(&text) {
                // A closed terminal is no reason to end the tests.
                let _ = to.write_all(&line).and_then(|()| to.flush());
            }
            line.clear();
            if !keep(text) {
                break;
            }
        }
    });
}

/// Lets others go on for a moment: for what can only be looked at again and again.
#[expect(clippy::disallowed_methods, reason = "as timed")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// The first line that a program prints; `unknown` if it prints none.
pub fn said(program: &str, words: &[&str]) -> String {
    let captured = Step::command(program, words).capture_showing(|_| false).ok();
    captured.and_then(|captured| captured.output.first().cloned()).unwrap_or_else(|| "unknown".into())
}

/// The day and the kernel, for a page of results.
pub fn day_and_kernel() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = kernel.split(['-', '\n']).next().unwrap_or_default();
    format!("{}, Linux {version}", said("date", &["-u", "+%F"]))
}

/// Runs `work` and says how long it took.
// A chore is no machine of ours and may not wait for `headstart_io` to compile: the only clock of this crate is here.
#[expect(clippy::disallowed_methods, reason = "xtask times its steps without depending on headstart_io")]
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shown_can_be_typed_again() {
        let step = Step::cargo(&["doc", "--no-deps"]).with("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(step.line(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn what_a_command_prints_is_heard_and_nobody_it_left_behind_is_waited_for() {
        let script = "echo out; echo err >&2; sleep 1000 & echo $!; exit 3";
        let captured = Step::command("sh", &["-c", script]).capture().unwrap();
        assert!(!captured.success);
        assert_eq!((captured.output[0].as_str(), captured.errors.as_slice()), ("out", &["err".to_owned()][..]));
        Step::command("kill", &[&captured.output[1]]).run().unwrap();
    }

    #[test]
    fn a_command_is_not_told_of_the_package_that_this_chore_is() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo has set it for this test");
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let captured = Step::command("env", &[]).capture_showing(|_| false).unwrap();
        let of_it = |line: &&String| line.starts_with("CARGO_PKG_") || line.starts_with("CARGO_MANIFEST_");
        assert_eq!(captured.output.iter().find(of_it), None);
        assert!(captured.output.iter().any(|line| line.starts_with("PATH=")));
    }

    #[test]
    fn what_is_not_shown_is_kept_all_the_same() {
        let captured = Step::command("echo", &["hidden"]).capture_showing(|line| line != "hidden").unwrap();
        assert_eq!(captured.output, ["hidden"]);
    }

    #[test]
    fn who_ignores_control_c_says_so_in_his_status() {
        let status =
            |mask: &str| format!("Name:\tsh\nSigBlk:\t0000000000000002\nSigIgn:\t{mask}\nSigCgt:\t0000000000000002\n");
        assert!(ignores_control_c(&status("0000000000000006")) && ignores_control_c(&status("0000000000001003")));
        assert!(
            !ignores_control_c(&status("0000000000001001")) && !ignores_control_c("") && !ignores_control_c("SigIgn:")
        );
    }

    #[test]
    fn a_failing_command_is_named_in_the_failure() {
        let Err(Failure::Failed(why)) = Step::command("false", &[]).run() else { panic!("false succeeded") };
        assert!(why.starts_with("`false` failed"), "{why}");
        let Err(Failure::Failed(why)) = Step::command("no-such-program-here", &[]).run() else { panic!("it ran") };
        assert!(why.contains("could not be started"), "{why}");
    }
}
