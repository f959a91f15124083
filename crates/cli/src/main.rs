//! The command `headstart`: see [`headstart_cli`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    headstart_cli::headstart()
}
