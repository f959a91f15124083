//! `headstart supervise`: the user's supervisor, started by the first `headstart run` and found by the others. And the
//! private supervisor of one run, which is forked from it.
//!
//! A supervisor has no terminal, no working folder, nothing of the run that happened to start it, and leaves no file
//! behind but what it has learned (docs/decisions/0008) unless it is killed; what it leaves then is swept by the next run.

use crate::config::{Config, all};
use crate::exit::Usage;
use anyhow::Context as _;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, Settings, race};
use headstart_core::time::Duration;
use headstart_io::home::Home;
use headstart_io::names::Names;
use headstart_io::store;
use headstart_io::supervisor::{Ended, Supervisor};
use headstart_io::sys::{fork, signal};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `headstart supervise`, and its standard input and output: see [`headstart_io::link`].
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long to stay after the last run.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    linger: u64,
    /// The folder in which the history is kept; without it, nothing is.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// A file of settings; may be given several times, and those that do not exist say nothing.
    #[arg(long = "settings", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Serve one run, whose control connection is standard input, and end with it.
    #[arg(long, conflicts_with_all = ["linger", "state", "files", "home"])]
    alone: bool,
    /// The folder that it lives in.
    #[arg(required_unless_present = "alone")]
    home: Option<PathBuf>,
}

/// The settings of a supervisor.
pub fn settings(config: &Config) -> anyhow::Result<Settings> {
    let entry = race::find(&config.text(&all::RACE)).map_err(|e| Usage(e.to_string()))?;
    let mut settings = Settings::of(entry);
    settings.lifetime = Lifetime::parse(&config.text(&all::CACHE_LIFETIME)).map_err(|what| Usage(what.to_owned()))?;
    settings.explore = config.share(&all::EXPLORE);
    settings.seed = u64::from(std::process::id());
    Ok(settings)
}

/// The command that starts the user's supervisor, but for its home; `linger`: how long it stays, in seconds, unless
/// `HEADSTART_LINGER` says otherwise.
pub fn command(linger: u64) -> Command {
    let mut command = Command::new(whole());
    command.arg("supervise");
    let told = std::env::var_os("HEADSTART_LINGER").filter(|v| !v.is_empty());
    command.arg("--linger").arg(told.unwrap_or_else(|| linger.to_string().into()));
    // Its environment will be empty.
    if let Some(state) = store::folder(|name| std::env::var_os(name)) {
        command.arg("--state").arg(state);
    }
    crate::config::usual().iter().for_each(|file| _ = command.arg("--settings").arg(file));
    command
}

/// Whether this is `headstart-run`, which does the work of one verb.
static IS_PART: AtomicBool = AtomicBool::new(false);

/// This is not `headstart`, which lies beside it.
pub fn is_part() {
    IS_PART.store(true, Ordering::Relaxed);
}

/// The file of the command `headstart`.
pub fn whole() -> PathBuf {
    let here = std::env::current_exe().ok().filter(|_| IS_PART.load(Ordering::Relaxed));
    here.map_or_else(|| "/proc/self/exe".into(), |file| file.with_file_name("headstart"))
}

/// Serves the user's runs, in a process of its own; returns in the one that was started.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let Some(place) = args.home else {
        let connection = copy(rustix::stdio::stdin()).context("the connection that should be standard input")?;
        return Ok(alone(connection, settings(&Config::load(None)?)?));
    };
    // What the first run was given by its shell (a pipe, a lock) is the run's, not its supervisor's.
    fork::close_inherited();
    let door = copy(rustix::stdio::stdin()).context("the socket that should be standard input")?;
    let lock = copy(rustix::stdio::stdout()).context("the lock that should be standard output")?;
    let home = Home::inherited(place, lock);
    fork::detach()?;
    let stop = prepare_process()?;
    let make = || {
        // A private one knows of no earlier run, and does nothing ahead.
        let settings = Settings { ahead: Ahead::ON, ..settings(&Config::of_files(args.files)?)? };
        let mut all = Supervisor::new(settings, Names::of_host())?;
        all.open(door)?;
        anyhow::Ok(all)
    };
    let mut all = match make() {
        Ok(all) => all,
        Err(why) => {
            home.remove();
            return Err(why);
        }
    };
    if let Some(state) = args.state {
        // Should it fail, nothing is kept, and that is all.
        let _ = all.keep(state);
    }
    let ended = all.serve(&stop, Duration::from_secs(args.linger));
    // From now on the next run starts another; a client that has come in time is still served.
    home.remove();
    if matches!(ended, Ok(Ended::Idle)) {
        all.close_the_door();
        all.serve(&stop, Duration::ZERO)?;
    }
    all.put_away();
    ended?;
    Ok(crate::exit::OK)
}

/// Serves the run whose control connection this is; what the process ends with.
pub fn alone(connection: OwnedFd, settings: Settings) -> u8 {
    // Signals that are sent to this process are not meant for the program.
    let _ = signal::pass_on_to(0);
    let served = prepare_process().and_then(|stop| {
        let mut one = Supervisor::new(settings, Names::of_host())?;
        one.admit(connection)?;
        one.serve(stop, Duration::ZERO)?;
        Ok(())
    });
    served.map_or(crate::exit::FAILURE, |()| crate::exit::OK)
}

/// As [`alone`], by `headstart` beside this command, with the settings that it finds as this one did.
pub fn apart(connection: OwnedFd, _: Settings) -> u8 {
    if rustix::stdio::dup2_stdin(&connection).is_ok() {
        let _ = Command::new(whole()).args(["supervise", "--alone"]).exec();
    }
    crate::exit::FAILURE
}

fn copy(descriptor: rustix::fd::BorrowedFd<'_>) -> anyhow::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?)
}

/// Prepares this process to outlive its run: signals, limits, name. Returns a descriptor that is readable once a signal asks it to
/// stop.
fn prepare_process() -> anyhow::Result<OwnedFd> {
    let stop = signal::ending()?;
    // It serves many programs, each of which has descriptors of its own.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
    // For ps(1): a private one has the command line of its run.
    fork::cut_loose(c"headstart-super")?;
    Ok(stop)
}
