//! `headstart lab`: emulated networks, experiments, reports.

mod asked;
mod attach;
mod campaign;
mod child;
mod compare;
mod fleet;
mod link;
pub mod progress;
mod record;
mod report;
mod reproduce;
pub mod run;
mod scenario;

pub use asked::seed;

use crate::{exit, input, output};
use headstart_lab::experiment;
use headstart_lab::netns::{self, PortKind, Settings};
use headstart_lab::report::{ColumnStyle, Table};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// Verbs of `headstart lab`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List the experiments, or show one with its conditions.
    List(List),
    /// Run one experiment and write a report.
    Run(run::Args),
    /// Measure every claim of the papers and write the verdicts.
    Reproduce(reproduce::Args),
    /// Combine several results folders into one report.
    Report(report::Args),
    /// Compare two results or campaigns: what got better, what got worse.
    Compare(compare::Args),
    /// Print the tasks of a campaign, for `lab work` on any number of hosts.
    Plan(campaign::plan::Args),
    /// Run the tasks of a plan.
    Work(campaign::work::Args),
    /// Show the progress of a plan.
    Status(campaign::status::Args),
    /// Write what a scheduler needs to work through a plan, or submit it.
    Submit(campaign::submit::Args),
    /// Check that every task was done exactly once; write tables and one report.
    Collect(campaign::collect::Args),
    /// Query a campaign's tables with SQL (DuckDB).
    Query(campaign::query::Args),
    /// Report on telemetry of many hosts.
    #[command(subcommand)]
    Fleet(fleet::Verb),
    /// Run a network described in a TOML file, in virtual time and with real packets.
    Scenario(scenario::Args),
    /// Run a shell or a program behind an emulated link.
    Shell(Shell),
    /// Put an emulated link in the way of a container, or of any process, that runs.
    Attach(attach::Args),
    /// Show or change the link of a running `lab shell` or `lab attach`.
    #[command(subcommand)]
    Link(link::Verb),
    /// Run a program and record all its HTTP requests and responses, including TLS.
    Record(record::Args),
    /// Run a program behind an emulated link with recorded servers.
    Replay(record::Replay),
}

/// Arguments of `headstart lab list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Show only this experiment, with its conditions.
    name: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The emulated link of a verb.
#[derive(Debug, clap::Args)]
struct Emulated {
    /// Link preset (`headstart list links`) or a specification such as "rate=100mbit,delay=15ms,loss=1%"
    /// (without queue=, a queue of 200 ms or twice the delay at that rate).
    #[arg(long, default_value = "lte")]
    link: String,
    /// Packet interface of the emulator: single-packets or super-packets [default: super-packets above 500 Mbit/s].
    #[arg(long, value_name = "KIND")]
    ports: Option<PortKind>,
    /// Write one JSON line to FILE for each packet: arrival, outcome, departure.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write a packet capture of the link to FILE (pcapng).
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
}

impl Emulated {
    /// The link, and how the emulator is to go about it, as far as both can be checked beforehand.
    fn checked(self) -> anyhow::Result<(String, Settings)> {
        let Self { link, ports, events, pcapng } = self;
        netns::link(&link).map_err(|e| exit::Usage(e.to_string()))?;
        events.iter().chain(&pcapng).try_for_each(|file| input::check_writable(file))?;
        Ok((link, Settings { ports, events, pcapng, ..Settings::default() }))
    }
}

/// Arguments of `headstart lab shell`.
#[derive(Debug, clap::Args)]
pub struct Shell {
    #[command(flatten)]
    emulated: Emulated,
    /// Let programs reach this port of this host (TCP and UDP, what listens on 127.0.0.1) at host.lab.example;
    /// may be repeated.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    host_port: Vec<u16>,
    /// Program and arguments [default: your shell].
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs a verb of the lab.
pub fn run(verb: Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::List(args) => list(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Reproduce(args) => reproduce::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Plan(args) => campaign::plan::run(&args),
        Verb::Work(args) => campaign::work::run(&args),
        Verb::Status(args) => campaign::status::run(&args),
        Verb::Submit(args) => campaign::submit::run(&args),
        Verb::Collect(args) => campaign::collect::run(&args),
        Verb::Query(args) => campaign::query::run(&args),
        Verb::Fleet(verb) => fleet::run(&verb),
        Verb::Scenario(args) => scenario::run(&args),
        Verb::Link(verb) => link::run(&verb),
        Verb::Record(args) => record::record(&args),
        Verb::Replay(args) => record::replay(&args),
        Verb::Attach(args) => attach::run(args),
        Verb::Shell(Shell { emulated, host_port, command }) => {
            let (link, settings) = emulated.checked()?;
            let status = netns::shell_with(&link, &command, &settings, &host_port)?;
            Ok(u8::try_from(status).unwrap_or(exit::FAILURE))
        }
    }
}

/// [`headstart_lab::report::prepare`] with the exit code of an output that cannot be written.
pub fn prepare(folder: &std::path::Path) -> Result<(), exit::Usage> {
    headstart_lab::report::prepare(folder).map_err(|why| exit::Usage(why.to_string()))
}

fn list(args: &List) -> anyhow::Result<u8> {
    let one = args.name.as_deref().map(asked::experiment).transpose()?;
    let wanted = || experiment::ALL.iter().filter(move |entry| one.is_none_or(|one| one.name == entry.name));
    if args.json {
        let experiments: Vec<_> = wanted()
            .map(|e| {
                let (name, shows, claims, conditions) = (e.name, e.shows, e.claims, e.conditions);
                serde_json::json!({ "name": name, "shows": shows, "claims": claims, "conditions": conditions })
            })
            .collect();
        crate::output::document(1, serde_json::json!({ "experiments": experiments }));
        return Ok(exit::OK);
    }
    let columns = ["experiment", "claims", "shows"].map(|column| (column, ColumnStyle::Text));
    let mut table = Table::new("Experiments", &columns);
    wanted().for_each(|e| table.push([e.name.to_owned(), e.claims.join(", "), e.shows.to_owned()]));
    let colour = std::io::stdout().is_terminal() && output::colour();
    let mut text = table.to_text(output::width(), colour);
    if let Some(one) = one {
        let mut conditions = Table::new("Conditions", &[("condition", ColumnStyle::Text)]);
        one.conditions.iter().for_each(|condition| conditions.push([(*condition).to_owned()]));
        text = format!("{}\n\n{}", text.trim_end(), conditions.to_text(output::width(), colour));
    }
    crate::say!("{}", text.trim_end());
    Ok(exit::OK)
}
