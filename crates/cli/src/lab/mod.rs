//! `headstart lab`: emulated networks, experiments, reports.

mod asked;
pub mod progress;
mod record;
mod report;
mod reproduce;
pub mod run;
mod scenario;

use crate::exit;
use headstart_lab::experiment;
use headstart_lab::netns::{self, PortKind, Settings};
use std::ffi::OsString;
use std::path::PathBuf;

/// Verbs of `headstart lab`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List the experiments.
    List(List),
    /// Run an experiment; its results go into a folder with a report.
    Run(run::Args),
    /// Measure every claim of the papers; the ledger says what became of each.
    Reproduce(reproduce::Args),
    /// Make one report out of several results folders.
    Report(report::Args),
    /// Play a network and its traffic from a TOML file, in virtual time and in namespaces.
    Scenario(scenario::Args),
    /// Run a shell or a program behind an emulated link.
    Shell(Shell),
    /// Run a program through a proxy that stores every request and its answer, TLS included.
    Record(record::Record),
    /// Run a program behind an emulated link where a recording is served again.
    Replay(record::Replay),
}

/// Arguments of `headstart lab list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

/// Arguments of `headstart lab shell`.
#[derive(Debug, clap::Args)]
pub struct Shell {
    /// A preset (see `headstart list links`) or a text such as "rate=100mbit,delay=15ms,loss=1%".
    #[arg(long, default_value = "lte")]
    link: String,
    /// How packets get in and out of the emulator: single-packets or super-packets [default: super-packets for links of more
    /// than 500 Mbit/s].
    #[arg(long, value_name = "KIND")]
    ports: Option<PortKind>,
    /// Write a line of JSON for each packet: when it came, what became of it, when it left.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write a capture of the link, for Wireshark and its kin.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// The program and its arguments; your shell if there is none.
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs a verb of the lab.
pub fn run(verb: Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::List(args) => {
            list(args.json);
            Ok(exit::OK)
        }
        Verb::Run(args) => run::run(&args),
        Verb::Reproduce(args) => reproduce::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Scenario(args) => scenario::run(&args),
        Verb::Record(args) => record::record(&args),
        Verb::Replay(args) => record::replay(&args),
        Verb::Shell(args) => {
            headstart_link::parse_duplex(&args.link).map_err(|e| exit::Usage(e.to_string()))?;
            let Shell { link, ports, events, pcapng, command } = args;
            let settings = Settings { ports, events, pcapng, ..Settings::default() };
            let status = netns::shell_with(&link, &command, &settings)?;
            Ok(u8::try_from(status).unwrap_or(exit::FAILURE))
        }
    }
}

fn list(json: bool) {
    if json {
        let experiments: Vec<_> = experiment::ALL
            .iter()
            .map(|e| {
                let (name, shows, claims, conditions) = (e.name, e.shows, e.claims, e.conditions);
                serde_json::json!({ "name": name, "shows": shows, "claims": claims, "conditions": conditions })
            })
            .collect();
        return crate::output::document(1, serde_json::json!({ "experiments": experiments }));
    }
    for e in experiment::ALL {
        let claims = if e.claims.is_empty() { String::new() } else { format!(" ({})", e.claims.join(", ")) };
        crate::say!("{}{claims}\n  {}\n  conditions: {}", e.name, e.shows, e.conditions.join(", "));
    }
}
