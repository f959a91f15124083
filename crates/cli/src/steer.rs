//! `headstart steer`: keys for tunnels over two channels, as `wg` makes them.

use crate::exit::{self, Usage};
use headstart_io::steer::keys::SecretKey;
use std::io::Read as _;

/// Verbs of `headstart steer`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Print a new secret key.
    Genkey,
    /// Read a secret key from standard input and print its public part.
    Pubkey,
}

/// A key and the end of its line; anything longer is not a key.
const LONGEST: u64 = 64;

/// Runs a verb.
pub fn run(verb: &Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::Genkey => crate::say!("{}", SecretKey::generate()?.reveal()),
        Verb::Pubkey => {
            let mut text = String::new();
            std::io::stdin().lock().take(LONGEST).read_to_string(&mut text)?;
            let key: SecretKey = text.parse().map_err(|e| Usage(format!("standard input: {e}")))?;
            crate::say!("{}", key.public());
        }
    }
    Ok(exit::OK)
}
