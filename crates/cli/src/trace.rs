//! `headstart trace -- CMD`: every packet of a program as a capture, each with the name of the process that it belongs to.

use crate::run::measure::{self, Wanted};
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `headstart trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Capture file (pcapng); `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "headstart.pcapng")]
    write: PathBuf,
    /// Keep at most BYTES of each packet (128 covers the headers).
    #[arg(short, long, value_name = "BYTES")]
    snap: Option<usize>,
    /// Do not print the measurement summary.
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the program and captures; its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let pcapng = Some(args.write.as_path());
    measure::run(&Wanted {
        command: &args.command,
        quiet: args.quiet,
        summary: None,
        flows: None,
        pcapng,
        snap: args.snap,
        request_rtt: false,
        no_lookout: false,
        profile: None,
        accelerate: None,
    })
}
