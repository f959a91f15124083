//! `headstart telemetry`: what this host writes down for its fleet, the settings of it, and one way to hand it on (docs/decisions/0101, 0117).

mod logs;
mod send;

use crate::config::{Config, all};
use crate::exit::{self, Usage};
use crate::output::plural;
use anyhow::Context as _;
use headstart_io::store;
use headstart_io::telemetry::{Settings, Telemetry};
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Print the events that wait for collection, unchanged.
    Show {
        /// Accepted everywhere; events are JSON in any case.
        #[arg(long)]
        json: bool,
    },
    /// Send pending events to a collector as logs of OpenTelemetry, and delete what it has accepted.
    Send(send::Args),
}

/// Does it.
pub fn run(verb: &Verb, named: Option<&Path>) -> anyhow::Result<u8> {
    let Some(settings) = settings(&Config::load(named)?)? else {
        crate::complain!(
            "headstart: telemetry is off (setting telemetry.folder): nothing is written, and nothing is sent"
        );
        return Ok(exit::OK);
    };
    let telemetry = Telemetry::open(&settings)?;
    match verb {
        Verb::Show { .. } => show(&telemetry, &settings),
        Verb::Send(args) => send::run(args, &telemetry),
    }
}

/// Prints what would be sent, byte for byte.
fn show(telemetry: &Telemetry, settings: &Settings) -> anyhow::Result<u8> {
    for batch in telemetry.batches()? {
        // One that was collected meanwhile has been sent.
        match std::fs::read(&batch) {
            Ok(text) => crate::say!("{}", String::from_utf8_lossy(&text).trim_end()),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => return Err(why).with_context(|| format!("reading {}", batch.display())),
        }
    }
    if telemetry.missing() > 0 {
        let missing = plural(telemetry.missing(), "event");
        crate::complain!(
            "headstart: {missing} dropped because {} is full (telemetry.most-mb)",
            settings.folder.display()
        );
    }
    Ok(exit::OK)
}

/// What the settings ask for; `None` where telemetry is off, as it is unless a folder is named.
pub fn settings(config: &Config) -> Result<Option<Settings>, Usage> {
    let folder = PathBuf::from(config.text(&all::TELEMETRY_FOLDER));
    if folder.as_os_str().is_empty() {
        return Ok(None);
    }
    if !folder.is_absolute() {
        return Err(Usage(format!("telemetry.folder: must be an absolute path (got {})", folder.display())));
    }
    let key = match config.text(&all::TELEMETRY_KEY_FILE) {
        file if !file.is_empty() => PathBuf::from(file),
        _ => {
            let state = store::folder(|name| std::env::var_os(name)).map(|state| state.join("telemetry.key"));
            state
                .ok_or_else(|| Usage("telemetry.key-file: must be set, because this user has no state folder".into()))?
        }
    };
    Ok(Some(Settings {
        folder,
        key,
        names: config.is_on(&all::TELEMETRY_NAMES),
        label: config.text(&all::TELEMETRY_LABEL),
        most: config.whole(&all::TELEMETRY_MOST_MB) << 20,
    }))
}

/// Telemetry by these settings; where it cannot be had, that is said, and what was to be measured goes on.
pub fn open(settings: Option<&Settings>, quiet: bool) -> Option<Telemetry> {
    match settings.map(Telemetry::open)? {
        Ok(telemetry) => Some(telemetry),
        Err(why) => {
            if !quiet {
                crate::complain!("headstart: {why}; nothing is written");
            }
            None
        }
    }
}

/// Sees to it that what was written stays; says what went wrong.
pub fn end(telemetry: Option<&mut Telemetry>, quiet: bool) {
    if let Some(why) = telemetry.and_then(Telemetry::end)
        && !quiet
    {
        crate::complain!("headstart: {why}");
    }
}
