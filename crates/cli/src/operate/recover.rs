//! `headstart recover`: undoes what a killed daemon has left. Does nothing where one lives or nothing is left, and may be
//! repeated. What bears headstart's marks and is in no record is told, and removed with `--found`.

use super::{down, explained, numbers, settings_or_defaults};
use crate::output::{self, Format};
use crate::{exit, say};
use headstart_io::daemon::DaemonError;
use headstart_io::daemon::message::Undoing;
use headstart_io::daemon::recovery::recover;
use headstart_io::host::change::table;
use headstart_io::host::folders::Folders;
use std::path::Path;

/// Arguments of `headstart recover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also remove routes, rules and nftables tables that are marked as headstart's but not in its journal. Only where no daemon is
    /// running with other folders.
    #[arg(long)]
    found: bool,
    #[command(flatten)]
    format: Format,
}

/// Recovers.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    let folders = Folders::of_host().map_err(|e| explained(e.into()))?;
    // Settings that cannot be read are no reason not to undo.
    let numbers = numbers(&settings_or_defaults(named));
    let (said, undoing) = match recover(&folders, numbers, args.found) {
        Ok(report) if report.had_record || args.found && report.removed > 0 => {
            return Ok(down::tell(&Undoing::from(&report), "recovered", args.format));
        }
        Ok(report) if !report.is_clean() => {
            return Ok(down::tell(&Undoing::from(&report), "no record of a daemon", args.format));
        }
        Ok(report) => {
            let said = ["nothing to recover"].into_iter().chain(report.not_looked_at.as_deref()).collect::<Vec<_>>();
            (said.join("; "), Undoing::from(&report))
        }
        Err(DaemonError::Taken { pid }) => {
            let pid = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            (format!("nothing to recover: the daemon is running{pid}; `headstart down` stops it"), Undoing::default())
        }
        Err(why) => return Err(explained(why)),
    };
    if args.format.json {
        output::document(down::VERSION, serde_json::to_value(&undoing)?)
    } else {
        say!("{said}")
    }
    // Where nft is not installed, nothing of ours can have been made by it: words do.
    let unseen = undoing.not_looked_at.is_some() && table::program().is_some();
    Ok(if unseen { exit::DEGRADED } else { exit::OK })
}
