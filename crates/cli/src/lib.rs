//! The commands `headstart` and `headstart-run`.
//!
//! Each verb is a file: its arguments, and what it does by calling the floors below. What verbs share of speaking to
//! people is in `exit` (codes, errors), `input` (files) and `output` (streams, JSON); what they do by default in `config`.
#![forbid(unsafe_code)]

mod accept;
mod client;
mod config;
mod demo;
mod exit;
mod explain;
mod forward;
mod get;
mod history;
mod input;
mod lab;
mod list;
mod measure;
mod operate;
mod output;
mod paths;
mod probe;
mod proxy;
mod realtime;
mod relay;
mod run;
mod serve;
mod steer;
mod supervise;
mod top;
mod trace;

use clap::{Args, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Takes the waiting out of a host's network, and proves it.
#[derive(Debug, Parser)]
#[command(name = "headstart", version, max_term_width = 100)]
struct Cli {
    /// A file of settings, read after the usual ones (see `headstart config`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a program with its names resolved and its connections opened ahead of time.
    Run(run::Args),
    /// Why connections to a host were as fast or slow as they were: its last race, what is cached, what is known.
    Explain(explain::Args),
    /// What was learned of programs and networks and outlives the supervisor: see it, take it along, have it forgotten.
    #[command(subcommand)]
    History(history::Verb),
    /// Serve a folder over HTTP/3, HTTP/2 and HTTP/1.1, on this host alone unless told.
    Serve(serve::Args),
    /// Fetch a file over HTTP/3, or over HTTP/2 or HTTP/1.1 where QUIC does not answer.
    Get(get::Args),
    /// Make the changes to this host that are on, and keep them until `down`.
    Up(operate::up::Args),
    /// Be the network's end of a tunnel over a fat and a fast channel (`up --steer` is the host's).
    Gateway(operate::gateway::Args),
    /// A proxy that picks the channel, fat or fast, of each object. For this host alone unless told.
    Proxy(proxy::Args),
    /// Undo every change and end the daemon.
    Down(operate::down::Args),
    /// Whether the daemon is up, what it has changed, what is wrong.
    Status(operate::status::Args),
    /// What `up` would change, changing nothing.
    Plan(operate::plan::Args),
    /// Undo what a killed daemon has left.
    Recover(operate::recover::Args),
    /// What works here, what does not, and the line that mends it.
    Doctor(operate::doctor::Args),
    /// A relay with loss recovery of its own on each hop, and ports that lead programs through it.
    #[command(subcommand)]
    Relay(relay::Verb),
    /// Streams of small messages from here to there: how late they come, by which technique.
    #[command(subcommand)]
    Realtime(realtime::Verb),
    /// Run a program and write its packets to a capture (pcapng), each with the name of its process. Needs root.
    Trace(trace::Args),
    /// Forward and measure what comes out of a TUN interface that another program has made.
    Forward(forward::Args),
    /// The programs that are being measured, as they are now: connections, round trips, lookups, rates, gaps.
    Top(top::Args),
    /// What can be said of a network by asking it (throughput, round trips idle and under load) or by reckoning (LTE).
    #[command(subcommand)]
    Measure(measure::Verb),
    /// Keys for tunnels over two channels.
    #[command(subcommand)]
    Steer(steer::Verb),
    /// Emulated networks and experiments.
    #[command(subcommand)]
    Lab(lab::Verb),
    /// A quick tour: real programs through an emulated dual-stack network, with and without headstart.
    Demo(demo::Args),
    /// What there is: races, techniques, links and their models, scenarios, conditions, faults, programs, experiments.
    List(list::Args),
    /// Settings: an example to begin with, a check, what holds and why.
    #[command(subcommand)]
    Config(config::verb::Verb),
    /// Serve this user's runs (`headstart run` starts it).
    #[command(hide = true)]
    Supervise(supervise::Args),
    /// Do a small workload and say what was seen (for measuring).
    #[command(hide = true)]
    Probe(probe::Args),
    /// Connect to names read from standard input (for measuring).
    #[command(hide = true)]
    Client(client::Args),
}

/// The command `headstart-run`: a plain `headstart run`, without all that the other verbs bring along, which takes longer to be
/// loaded than a program to be covered. What is more than plain is left to `headstart` beside it.
pub fn headstart_run() -> ExitCode {
    supervise::is_part();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    exit::code(match run::Args::plain(&words) {
        Some(args) => run::covered(args, None, supervise::apart),
        None => Err(run::whole_instead(&words)),
    })
}

/// The arguments of a plain `headstart run`. Every program waits for it: to describe all other verbs first takes longer
/// than everything else that it does. What is not understood is left to [`Cli`], which knows how to say so.
fn run_alone() -> Option<run::Args> {
    let words = || std::env::args_os().skip(1);
    words().next().filter(|verb| verb == "run")?;
    let command = run::Args::augment_args(clap::Command::new("run"));
    run::Args::from_arg_matches(&command.try_get_matches_from(words()).ok()?).ok()
}

/// The command `headstart`.
pub fn headstart() -> ExitCode {
    let alone = run_alone().map(|args| Cli { config: None, verb: Verb::Run(args) });
    let Cli { config, verb } = alone.unwrap_or_else(Cli::parse);
    let named = config.as_deref();
    let result = match verb {
        Verb::Run(args) => run::run(args, named),
        Verb::Config(verb) => config::verb::run(verb, named),
        Verb::Explain(args) => explain::run(&args),
        Verb::History(verb) => history::run(verb),
        Verb::Serve(args) => serve::run(&args),
        Verb::Get(args) => get::run(&args),
        Verb::Up(args) => operate::up::run(&args, named),
        Verb::Gateway(args) => operate::gateway::run(&args, named),
        Verb::Proxy(args) => proxy::run(args),
        Verb::Down(args) => operate::down::run(&args),
        Verb::Status(args) => operate::status::run(&args),
        Verb::Plan(args) => operate::plan::run(&args, named),
        Verb::Recover(args) => operate::recover::run(&args),
        Verb::Doctor(args) => operate::doctor::run(&args, named),
        Verb::Relay(verb) => relay::run(verb),
        Verb::Realtime(verb) => realtime::run(verb),
        Verb::Trace(args) => trace::run(&args),
        Verb::Forward(args) => forward::run(&args, named),
        Verb::Top(args) => top::run(&args),
        Verb::Measure(verb) => measure::run(&verb),
        Verb::Steer(verb) => steer::run(&verb),
        Verb::Lab(verb) => lab::run(verb),
        Verb::Demo(args) => demo::run(&args),
        Verb::List(args) => list::run(&args),
        Verb::Supervise(args) => supervise::run(args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Client(args) => client::run(&args),
    };
    exit::code(result)
}
