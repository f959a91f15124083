//! `headstart lab record` and `headstart lab replay`: what a program fetches, stored once, and served again as often as
//! wanted behind an emulated link. The host is not changed: the program is told by variables of its own.

use crate::exit;
use anyhow::Context as _;
use headstart_lab::condition::page::Families;
use headstart_lab::netns::{self, Entered, InnerCommand};
use headstart_lab::page::{Protocol, recording};
use headstart_lab::program::Folder;
use headstart_lab::server::recorder::{self, Recorder, RecorderError};
use headstart_lab::server::stage::Stage;
use std::ffi::OsString;
use std::path::PathBuf;

/// Lines of what went wrong that are printed.
const MOST_LINES: usize = 10;

/// Arguments of `headstart lab record`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the recording; created if missing, must not contain another recording.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Program and arguments [default: your shell].
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Arguments of `headstart lab replay`.
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// Folder with a recording by `headstart lab record` or Mahimahi.
    recording: PathBuf,
    /// Link preset (`headstart list links`) or a specification such as "rate=100mbit,delay=15ms,loss=1%"
    /// (without queue=, a queue of 200 ms or twice the delay at that rate).
    #[arg(long, default_value = "lte")]
    link: String,
    /// TLS servers offer HTTP/2.
    #[arg(long)]
    http2: bool,
    /// TLS servers also offer HTTP/3 (Alt-Svc).
    #[arg(long)]
    http3: bool,
    /// Random seed.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = super::asked::seed())]
    seed: u64,
    /// Program and arguments [default: your shell].
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the program through a proxy that records; its exit status.
pub fn record(args: &Args) -> anyhow::Result<u8> {
    let private = Folder::new().context("making a private folder for the run's certificate")?;
    let recorder =
        Recorder::start(&args.out, &private.of("authority")?, recorder::roots()?).map_err(|why| match why {
            RecorderError::Folder { path, source } => exit::Usage::unwritable(&path, source).into(),
            RecorderError::Taken(_) => exit::Usage(why.to_string()).into(),
            other => anyhow::Error::from(other),
        })?;
    let status = netns::run_command(&args.command, |command| {
        recorder.introduce(command);
        Ok(())
    })?;
    let recorded = recorder.recorded();
    crate::complain!("{} exchanges recorded in {}", recorded.exchanges, args.out.display());
    list("not recorded", &recorded.complaints);
    Ok(u8::try_from(status).unwrap_or(exit::FAILURE))
}

/// Runs the program where the recording is served again; its exit status.
pub fn replay(args: &Replay) -> anyhow::Result<u8> {
    let link = netns::sized_link(&args.link).map_err(|e| exit::Usage(e.to_string()))?.to_string();
    // Said outside, before anything is started.
    let (exchanges, broken) = recording::read(&args.recording).map_err(|why| exit::Usage(why.to_string()))?;
    if let Entered::Ended(status) = InnerCommand::this_command().pass_signals().enter()? {
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    for file in &broken {
        crate::complain!("left out: {file}");
    }
    let private = Folder::new().context("making a private folder for the run's certificate")?;
    let network = (link.as_str(), Families::Alike, args.seed);
    let protocol = match args {
        Replay { http3: true, .. } => Protocol::Http3,
        Replay { http2: true, .. } => Protocol::Http2,
        Replay { .. } => Protocol::Http1,
    };
    let stage = Stage::of_exchanges(exchanges, protocol, network, &private.of("authority")?)?;
    let status = netns::run_command(&args.command, |command| {
        stage.trust().introduce(command);
        stage.network().adopt(command)
    })?;
    let served = stage.served();
    crate::complain!("{} requests answered, {} not", served.answered, served.missing);
    list("not in the recording", &served.unanswered);
    if let Some(doubt) = stage.network().certificate().doubt() {
        crate::complain!("{doubt}");
    }
    Ok(u8::try_from(status).unwrap_or(exit::FAILURE))
}

fn list(what: &str, lines: &[String]) {
    for line in lines.iter().take(MOST_LINES) {
        crate::complain!("{what}: {line}");
    }
    if let Some(more @ 1..) = lines.len().checked_sub(MOST_LINES) {
        crate::complain!("{what}: {more} more");
    }
}
