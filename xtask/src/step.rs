//! One step of a chore: a command, or a check of ours, named and timed.
//!
//! Output goes straight through, so that cargo's own summary lines reach the terminal and the CI log. Steps never read
//! the standard input: CI has none.

use crate::Failure;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command in the workspace's root.
pub struct Step {
    /// The program.
    program: String,
    /// Its arguments.
    arguments: Vec<String>,
    /// One variable more in its environment.
    variable: Option<(&'static str, String)>,
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
            variable: None,
        }
    }

    /// The same with a variable set.
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        Self { variable: Some((name, value.into())), ..self }
    }

    /// The line that a person would type.
    pub fn line(&self) -> String {
        let quoted = |word: &str| if word.contains(' ') { format!("'{word}'") } else { word.to_owned() };
        let variable = self.variable.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = std::iter::once(&self.program).chain(&self.arguments).map(|word| quoted(word));
        variable.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it and waits for it.
    pub fn run(&self) -> Result<(), Failure> {
        let inherited = if self.program == "cargo" { std::env::var("CARGO").ok() } else { None };
        let mut command = Command::new(inherited.as_deref().unwrap_or(&self.program));
        command.args(&self.arguments).envs(self.variable.clone()).stdin(Stdio::null());
        command.current_dir(crate::tree::workspace_root()?);
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Failed(format!("`{}` failed ({status})", self.line()))),
            Err(e) => Err(Failure::Failed(format!("`{}` could not be started: {e}; is it installed?", self.line()))),
        }
    }
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
    fn a_failing_command_is_named_in_the_failure() {
        let Err(Failure::Failed(why)) = Step::command("false", &[]).run() else { panic!("false succeeded") };
        assert!(why.starts_with("`false` failed"), "{why}");
        let Err(Failure::Failed(why)) = Step::command("no-such-program-here", &[]).run() else { panic!("it ran") };
        assert!(why.contains("could not be started"), "{why}");
    }
}
