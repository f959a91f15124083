//! `headstart steer`: keys for tunnels over two channels, as `wg` makes them, and a log of what a tunnel decides.

mod log;

use crate::exit::{self, Usage};
use crate::output::{self, Format};
use headstart_io::steer::keys::SecretKey;
use std::io::Read as _;

/// Verbs of `headstart steer`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Print a new secret key.
    Genkey(Format),
    /// Read a secret key from standard input and print its public part.
    Pubkey(Format),
    /// Write the daemon's steering decisions as qlog until SIGINT or SIGTERM.
    Log(log::Args),
}

/// A key and the end of its line; anything longer is not a key.
const LONGEST: u64 = 64;

/// Runs a verb.
pub fn run(verb: &Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::Log(args) => return log::run(args),
        Verb::Genkey(format) => print(*format, "secret", &SecretKey::generate()?.reveal().to_string()),
        Verb::Pubkey(format) => {
            let mut text = String::new();
            std::io::stdin().lock().take(LONGEST).read_to_string(&mut text)?;
            let key: SecretKey = text.parse().map_err(|e| Usage(format!("standard input: {e}")))?;
            print(*format, "public", &key.public().to_string());
        }
    }
    Ok(exit::OK)
}

fn print(format: Format, name: &str, key: &str) {
    if format.json {
        output::document(1, serde_json::json!({ name: key }));
    } else {
        crate::say!("{key}");
    }
}
