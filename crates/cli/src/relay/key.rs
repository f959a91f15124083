//! `headstart relay key`: a key in a file of its own, and its public part.

use crate::exit::{self, Usage};
use crate::input::check_writable;
use crate::output::Format;
use headstart_realtime::keys::SecretKey;
use std::path::PathBuf;

/// Arguments of `headstart relay key`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Key file. Created with owner-only permissions if missing; an existing key is never changed.
    file: PathBuf,
    #[command(flatten)]
    format: Format,
}

/// Makes a key, or reads one, and prints its public part.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let made = !args.file.exists();
    let key = if made {
        let key = SecretKey::generate()?;
        check_writable(&args.file)?;
        key.write(&args.file)?;
        key
    } else {
        SecretKey::read(&args.file).map_err(|why| Usage(why.to_string()))?
    };
    let public = key.public()?.to_string();
    if args.format.json {
        crate::output::document(1, serde_json::json!({ "public": public, "made": made }));
    } else {
        crate::say!("{public}");
    }
    Ok(exit::OK)
}
