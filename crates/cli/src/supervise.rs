//! `headstart supervise`: the user's supervisor, started by the first `headstart run` and found by the others. And the
//! private supervisor of one run, which is forked from it.
//!
//! A supervisor has no terminal, no working folder, nothing of the run that happened to start it, and leaves no file
//! behind unless it is killed; what it leaves then is swept by the next run.

use anyhow::Context as _;
use headstart_core::connect::{Ahead, Settings, race};
use headstart_core::time::Duration;
use headstart_io::home::Home;
use headstart_io::names::Names;
use headstart_io::supervisor::{Ended, Supervisor};
use headstart_io::sys::{fork, signal};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;

/// How long a supervisor stays after the last run, in seconds, unless `HEADSTART_LINGER` says otherwise: long enough for
/// most of what it knows to be of use (answers rarely hold for longer), short enough to be forgotten about.
const LINGER: u64 = 600;

/// Arguments of `headstart supervise`, and its standard input and output: see [`headstart_io::link`].
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long to stay after the last run.
    #[arg(long, value_name = "SECONDS", default_value_t = LINGER)]
    linger: u64,
    /// The folder that it lives in.
    home: PathBuf,
}

/// The settings of the user's supervisor.
pub fn settings() -> Settings {
    let entry = race::find(race::DEFAULT).unwrap_or(&race::ALL[0]);
    let mut settings = Settings::of(entry);
    settings.seed = u64::from(std::process::id());
    // A private one knows of no earlier run, and does nothing ahead.
    settings.ahead = Ahead::ON;
    settings
}

/// The command that starts the user's supervisor, but for its home.
pub fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("supervise");
    if let Some(linger) = std::env::var_os("HEADSTART_LINGER").filter(|v| !v.is_empty()) {
        command.arg("--linger").arg(linger);
    }
    command
}

/// Serves the user's runs, in a process that nobody waits for; returns in the one that was started.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let door = copy(rustix::stdio::stdin()).context("the socket that should be standard input")?;
    let lock = copy(rustix::stdio::stdout()).context("the lock that should be standard output")?;
    let home = Home::inherited(args.home, lock);
    fork::detach()?;
    let stop = settle()?;
    // It serves many programs, each of which has descriptors of its own.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
    let made = Supervisor::new(settings(), Names::of_host()).and_then(|mut all| all.open(door).map(|()| all));
    let mut all = match made {
        Ok(all) => all,
        Err(why) => {
            home.remove();
            return Err(why.into());
        }
    };
    let ended = all.serve(&stop, Duration::from_secs(args.linger));
    // From now on the next run starts another; whoever has come in time is still served.
    home.remove();
    if ended? == Ended::Idle {
        all.close_the_door();
        all.serve(&stop, Duration::ZERO)?;
    }
    Ok(crate::exit::OK)
}

/// Serves the run whose control connection this is; what the process ends with.
pub fn alone(connection: OwnedFd, settings: Settings) -> u8 {
    let served = settle().and_then(|stop| {
        let mut one = Supervisor::new(settings, Names::of_host())?;
        one.admit(connection)?;
        one.serve(stop, Duration::ZERO)?;
        Ok(())
    });
    served.map_or(crate::exit::FAILURE, |()| crate::exit::OK)
}

fn copy(descriptor: rustix::fd::BorrowedFd<'_>) -> anyhow::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?)
}

/// Cuts this process loose from whoever started it. What it returns becomes readable when somebody wants it to end.
fn settle() -> anyhow::Result<OwnedFd> {
    let stop = signal::ending()?;
    // Fails in a process that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/")?;
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null").context("opening /dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    // For ps(1): a private one has the command line of its run.
    let _ = rustix::thread::set_name(c"headstart-super");
    Ok(stop)
}
