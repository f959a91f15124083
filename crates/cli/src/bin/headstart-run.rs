//! The command `headstart-run`: what `headstart run` does, begun in half the time. See [`headstart_cli`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    headstart_cli::headstart_run()
}
