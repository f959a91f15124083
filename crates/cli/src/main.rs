//! The command `headstart`.
//!
//! Each verb is a file: its arguments, and what it does by calling the floors below. What verbs share of speaking to
//! people (exit codes, streams) is in [`exit`].
#![forbid(unsafe_code)]

mod client;
mod demo;
mod exit;
mod explain;
mod history;
mod lab;
mod list;
mod run;
mod supervise;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Takes the waiting out of a host's network, and proves it.
#[derive(Debug, Parser)]
#[command(name = "headstart", version, max_term_width = 100)]
struct Cli {
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
    /// Emulated networks and experiments.
    #[command(subcommand)]
    Lab(lab::Verb),
    /// A quick tour: real programs through an emulated dual-stack network, with and without headstart.
    Demo(demo::Args),
    /// What there is: races, links and their models, scenarios, conditions, faults, programs, experiments.
    List(list::Args),
    /// Serve this user's runs (`headstart run` starts it).
    #[command(hide = true)]
    Supervise(supervise::Args),
    /// Connect to names read from standard input (for measuring).
    #[command(hide = true)]
    Client(client::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Run(args) => run::run(args),
        Verb::Explain(args) => explain::run(&args),
        Verb::History(verb) => history::run(verb),
        Verb::Lab(verb) => lab::run(verb),
        Verb::Demo(args) => demo::run(&args),
        Verb::List(args) => list::run(&args),
        Verb::Supervise(args) => supervise::run(args),
        Verb::Client(args) => client::run(&args),
    };
    exit::code(result)
}
