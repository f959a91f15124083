//! The command `headstart-lab`: emulated networks, experiments, reports and the demonstration. See [`headstart_cli`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    headstart_cli::headstart_lab()
}
