//! The commands `headstart`, `headstart-run` and, with the feature `lab`, `headstart-lab`.
//!
//! Each verb is a file: its arguments, and what it does by calling the floors below. What verbs share of speaking to
//! people is in `exit` (codes, errors), `input` (files, intervals) and `output` (streams, JSON); what they do by default in `config`.
#![forbid(unsafe_code)]

mod accept;
mod beside;
mod client;
mod config;
mod counted;
#[cfg(feature = "lab")]
mod demo;
#[cfg(all(test, feature = "lab"))]
mod documented;
mod engine;
mod exit;
mod explain;
mod forward;
mod get;
mod help;
mod history;
mod input;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "lab")]
mod laboratory;
mod list;
mod manual;
mod measure;
mod metrics;
mod observe;
mod operate;
mod otlp;
mod output;
mod paths;
mod post;
#[cfg(feature = "lab")]
mod probe;
mod proxy;
mod qlog;
mod realtime;
mod relay;
mod run;
mod seat;
mod serve;
mod steer;
mod supervise;
mod telemetry;
mod top;
mod trace;
mod ui;
mod watch;
mod web;
mod written;

pub use serve::rehearsal;

use clap::{Args, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes programs connect faster on slow or broken networks, without changing them.
#[derive(Debug, Parser)]
#[command(name = "headstart", version, max_term_width = 100)]
struct Cli {
    /// Extra configuration file; overrides /etc and ~/.config.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// With --version: also print commit, target and features.
    #[arg(long)]
    verbose: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a program with faster DNS lookups and connections
    Run(run::Args),
    /// Explain the last connections to a host
    Explain(explain::Args),
    /// Show, export or delete what headstart has learned
    #[command(subcommand)]
    History(history::Verb),
    /// Show the telemetry that this host writes (off by default)
    #[command(subcommand)]
    Telemetry(telemetry::Verb),
    /// Serve a folder over HTTP/3, HTTP/2 and HTTP/1.1
    ///
    /// Listens on loopback by default.
    Serve(serve::Args),
    /// Download a file over HTTP/3, or HTTP/2 and HTTP/1.1
    ///
    /// Falls back to TCP if QUIC does not answer.
    Get(get::Args),
    /// Enable features for the whole host, until `down`
    Up(operate::up::Args),
    /// Run the network end of a two-channel tunnel
    ///
    /// The host's end is `headstart up --steer`.
    Gateway(operate::gateway::Args),
    /// Run an HTTP proxy that picks a channel for each object
    ///
    /// Listens on loopback by default.
    Proxy(proxy::Args),
    /// Undo all changes and stop the daemon
    Down(operate::down::Args),
    /// Show the daemon, its changes and problems
    Status(operate::status::Args),
    /// Show what `up` would change, without changing it
    Plan(operate::plan::Args),
    /// Undo what a killed daemon left behind
    Recover(operate::recover::Args),
    /// Check what works on this host, and how to fix the rest
    Doctor(operate::doctor::Args),
    /// Run or use a relay for lossy networks
    #[command(subcommand)]
    Relay(relay::Verb),
    /// Measure the delay of small messages to another host
    #[command(subcommand)]
    Realtime(realtime::Verb),
    /// Run a program and capture its packets (root)
    ///
    /// Each packet in the capture is labelled with the name of its process.
    Trace(trace::Args),
    /// Forward and measure another program's TUN interface
    ///
    /// For programs that create the interface themselves, such as VPN apps.
    Forward(forward::Args),
    /// Forward and accelerate for a VPN app
    ///
    /// Serves one session over a Unix socket that the app listens on, as a VPN app on Android does. Tested on Linux; never run on a device.
    Engine(engine::Args),
    /// Watch measured programs live
    ///
    /// Shows connections, round trips, lookups, throughput and gaps of running measurements (`run --measure`, `trace`,
    /// `up --measure`).
    Top(top::Args),
    /// Show what headstart does and measures in a browser, live
    ///
    /// Listens on loopback, with a token that is new each time.
    Ui(ui::Args),
    /// Print or serve metrics for Prometheus
    Metrics(metrics::Args),
    /// Report network problems as they start and end
    Watch(watch::Args),
    /// Measure a network path, or calculate LTE throughput
    #[command(subcommand)]
    Measure(measure::Verb),
    /// Generate keys for two-channel tunnels
    #[command(subcommand)]
    Steer(steer::Verb),
    /// Emulate networks and run experiments
    Lab(beside::Words),
    /// Compare programs with and without headstart (25 s)
    Demo(beside::Words),
    /// List races, links, scenarios, experiments and more
    List(list::Args),
    /// Create, check and show settings
    #[command(subcommand)]
    Config(config::verb::Verb),
    /// Print a completion script for your shell
    Completions(manual::Completions),
    /// Print or write the man pages
    Man(manual::Man),
    /// Serve this user's runs (`headstart run` starts it).
    #[command(hide = true)]
    Supervise(supervise::Args),
    /// Run a small workload and print what it saw (for measurements).
    #[command(hide = true)]
    Probe(beside::Words),
    /// Connect to names read from standard input (for measurements).
    #[command(hide = true)]
    Client(client::Args),
}

impl Verb {
    /// A settings file or variable that is given to a verb without use for it is checked all the same: a mistake in it would
    /// otherwise look like something that holds.
    fn check_settings(&self, named: Option<&Path>) -> Result<(), exit::Usage> {
        // These help with a host whose settings are wrong, and say so themselves.
        let is_of_help =
            matches!(self, Self::Config(_) | Self::Down(_) | Self::Status(_) | Self::Recover(_) | Self::Doctor(_));
        // A run reads its own; a supervisor has those of its command line.
        if is_of_help || matches!(self, Self::Run(_) | Self::Supervise(_)) {
            return Ok(());
        }
        config::Config::check_given(named)?;
        run::environment::check()
    }
}

/// The command `headstart-run`: a plain `headstart run`, without all that the other verbs bring along, which takes longer to be
/// loaded than a program to be covered. What is more than plain is left to `headstart` beside it.
pub fn headstart_run() -> ExitCode {
    outlive_limits();
    exit::keep_panics_of_the_database_quiet();
    exit::note_run();
    supervise::is_part();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    exit::code(match run::Args::plain(&words) {
        Some(args) => run::covered(args, None, supervise::apart),
        None => Err(run::whole_instead(&words)),
    })
}

/// The arguments of a `headstart run`. Every program waits for it: to describe all other verbs first takes longer than everything
/// else that it does, and to describe this one as long as to load the command. What is not understood is left to [`Cli`], which
/// knows how to say so.
fn run_alone() -> Option<run::Args> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let (verb, rest) = words.split_first()?;
    if verb != "run" {
        return None;
    }
    exit::note_run();
    run::Args::plain(rest).or_else(|| {
        let command = run::Args::augment_args(clap::Command::new("run"));
        run::Args::from_arg_matches(&command.try_get_matches_from(&words).ok()?).ok()
    })
}

/// The arguments of this process; ends it where they are help, the version or wrong.
fn parsed() -> Cli {
    let mut command = help::command_at(output::width());
    exit::note_verb(&command, &std::env::args_os().skip(1).collect::<Vec<_>>());
    let matches = command.try_get_matches_from_mut(std::env::args_os()).unwrap_or_else(|why| exit::of_arguments(&why));
    Cli::from_arg_matches(&matches).unwrap_or_else(|why| exit::of_arguments(&why.format(&mut command)))
}

/// A limit on files is a full disk to this process, not its end.
fn outlive_limits() {
    // Where even this fails, a limit is what it was.
    let _ = headstart_io::sys::signal::outlive_file_limit();
}

/// The command `headstart-lab`.
#[cfg(feature = "lab")]
pub fn headstart_lab() -> ExitCode {
    outlive_limits();
    exit::keep_panics_of_the_database_quiet();
    exit::code(laboratory::run())
}

/// Executes the program of the lab with the words of this one, where it is, to tell of both; what `verb` says otherwise.
fn with_the_lab(verb: &str, alone: impl FnOnce() -> anyhow::Result<u8>) -> anyhow::Result<u8> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == verb) {
        beside::execute_if_there(&words)?;
    }
    alone()
}

/// The command `headstart`.
pub fn headstart() -> ExitCode {
    outlive_limits();
    exit::keep_panics_of_the_database_quiet();
    let alone = run_alone().map(|args| Cli { config: None, verbose: false, verb: Verb::Run(args) });
    if alone.is_none() {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        if help::asks_for_version(&words) {
            say!("{}", help::version());
            return exit::code(Ok(exit::OK));
        }
        if let Some(words) = beside::of_the_lab(&words) {
            return exit::code(beside::execute_words(&words));
        }
    }
    let Cli { config, verbose, verb } = alone.unwrap_or_else(parsed);
    if verbose {
        return exit::code(Err(exit::Usage("--verbose goes with --version".into()).into()));
    }
    let named = config.as_deref();
    if let Err(why) = verb.check_settings(named) {
        return exit::code(Err(why.into()));
    }
    let result = match verb {
        Verb::Run(args) => run::run(args, named),
        Verb::Config(verb) => config::verb::run(verb, named),
        Verb::Explain(args) => explain::run(&args),
        Verb::History(verb) => history::run(verb),
        Verb::Telemetry(verb) => telemetry::run(&verb, named),
        Verb::Serve(args) => serve::run(&args),
        Verb::Get(args) => get::run(&args),
        Verb::Up(args) => operate::up::run(&args, named),
        Verb::Gateway(args) => operate::gateway::run(&args, named),
        Verb::Proxy(args) => proxy::run(args),
        Verb::Down(args) => operate::down::run(&args, named),
        Verb::Status(args) => operate::status::run(&args, named),
        Verb::Plan(args) => operate::plan::run(&args, named),
        Verb::Recover(args) => operate::recover::run(&args, named),
        Verb::Doctor(args) => operate::doctor::run(&args, named),
        Verb::Relay(verb) => relay::run(verb),
        Verb::Realtime(verb) => realtime::run(verb),
        Verb::Trace(args) => trace::run(&args),
        Verb::Forward(args) => forward::run(&args, named),
        Verb::Engine(args) => engine::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Ui(args) => ui::run(&args),
        Verb::Metrics(args) => metrics::run(&args),
        Verb::Watch(args) => watch::run(&args),
        Verb::Measure(verb) => measure::run(&verb),
        Verb::Steer(verb) => steer::run(&verb),
        Verb::Lab(words) => beside::execute("lab", words),
        Verb::Demo(words) => beside::execute("demo", words),
        Verb::List(args) => list::run(&args),
        Verb::Completions(args) => with_the_lab("completions", || manual::completions(&args, &help::command(), &[])),
        Verb::Man(args) => with_the_lab("man", || manual::man(&args, &help::command())),
        Verb::Supervise(args) => supervise::run(args),
        Verb::Probe(words) => beside::execute("probe", words),
        Verb::Client(args) => client::run(&args),
    };
    exit::code(result)
}
