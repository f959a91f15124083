//! `headstart recover`: undoes what a killed daemon has left. Does nothing where one lives or nothing is left, and may be
//! repeated.

use super::{down, explained};
use crate::output::{self, Format};
use crate::{exit, say};
use headstart_io::daemon::DaemonError;
use headstart_io::daemon::message::Undoing;
use headstart_io::daemon::recovery::recover;
use headstart_io::host::place::Place;

/// Arguments of `headstart recover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: Format,
}

/// Recovers.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let place = Place::of_host().map_err(|e| explained(e.into()))?;
    let said = match recover(&place) {
        Ok(Some(report)) => return Ok(down::tell(&Undoing::from(&report), "recovered", args.format)),
        Ok(None) => "nothing to recover".to_owned(),
        Err(DaemonError::Taken { pid }) => {
            let pid = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            format!("nothing to recover: the daemon is running{pid}; `headstart down` stops it")
        }
        Err(why) => return Err(explained(why)),
    };
    match args.format.json {
        true => output::document(down::VERSION, serde_json::to_value(Undoing::default())?),
        false => say!("{said}"),
    }
    Ok(exit::OK)
}
