//! `headstart down`: the daemon undoes everything and ends. Where it has been killed, what it left is undone instead.

use super::{explained, numbers, settings_or_defaults, undone};
use crate::exit::{self, Coded};
use crate::output::{self, Format};
use crate::say;
use headstart_io::daemon::client::{AskError, ask};
use headstart_io::daemon::message::{Answer, Undoing, Wish};
use headstart_io::daemon::recovery::recover;
use headstart_io::host::folders::Folders;
use std::path::Path;

/// Version of the JSON.
pub const VERSION: u32 = 1;

/// Arguments of `headstart down`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: Format,
}

/// Takes the daemon down.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    let folders = Folders::of_host().map_err(|e| explained(e.into()))?;
    match ask(&folders, Wish::Down) {
        Ok(Answer::Down(undoing)) => Ok(tell(&undoing, "down", args.format)),
        Ok(Answer::Refused { why }) => Err(Coded(exit::NOT_PERMITTED, why).into()),
        Ok(other) => anyhow::bail!("unexpected answer from the daemon: {other:?}"),
        Err(AskError::NotUp) => {
            let numbers = numbers(&settings_or_defaults(named));
            let report = recover(&folders, numbers, false).map_err(explained)?;
            if report.had_record {
                return Ok(tell(&Undoing::from(&report), "cleaned up after a killed daemon", args.format));
            }
            if !report.is_clean() {
                return Ok(tell(&Undoing::from(&report), "no daemon is running", args.format));
            }
            if args.format.json {
                output::document(VERSION, serde_json::json!({ "was_up": false }))
            } else {
                say!("no daemon is running")
            }
            Ok(exit::OK)
        }
        Err(why @ AskError::Denied { .. }) => Err(Coded(exit::NOT_PERMITTED, why.to_string()).into()),
        Err(why) => Err(Coded(exit::UNREACHABLE, why.to_string()).into()),
    }
}

/// Tells what an undoing came to; the code that goes with it.
pub fn tell(undoing: &Undoing, title: &str, format: Format) -> u8 {
    let (words, code) = undone(undoing);
    match (format.json, serde_json::to_value(undoing)) {
        (true, Ok(object)) => output::document(VERSION, object),
        _ => say!("{title}: {words}"),
    }
    code
}
