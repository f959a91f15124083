//! `headstart probe`: the near end of the lab's measurements of forwarders, a program that knows nothing of headstart.

use headstart_lab::experiment::measure::probe;

/// Arguments of `headstart probe`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workload and its words.
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
}

/// Does the workload; says in one line of JSON what was seen.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    crate::say!("{}", probe::run(&args.words)?);
    Ok(crate::exit::OK)
}
