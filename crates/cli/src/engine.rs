//! `headstart engine --socket PATH`: the session of an app that has made a TUN interface; see [`headstart_io::engine`].

use crate::exit;
use headstart_io::engine::{self, EngineError};

/// Arguments of `headstart engine`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Unix socket (`@NAME`: abstract) that the app listens on, as this user or root. The protocol is in docs/reference/engine.md.
    #[arg(long, value_name = "PATH")]
    socket: String,
}

/// Serves until the app has enough; the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.socket.trim_start_matches('@').is_empty() {
        return Err(
            exit::Usage("--socket: must be the path of a Unix socket, or @NAME (got an empty name)".into()).into()
        );
    }
    match engine::serve(&args.socket) {
        Ok(()) => Ok(exit::OK),
        Err(why @ EngineError::Unreachable(..)) => {
            Err(exit::Coded(exit::UNREACHABLE, format!("--socket: {why}")).into())
        }
        Err(why) => Err(why.into()),
    }
}
