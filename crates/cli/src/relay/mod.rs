//! `headstart relay`: a relay with its own loss recovery on each hop, and ports that lead programs through it.

mod key;
mod ports;
mod serve;

use crate::exit::Usage;
use headstart_realtime::keys::{PublicKey, SecretKey};
use headstart_realtime::relay::access::AccessError;
use headstart_realtime::relay::{Client, Destination};
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// Verbs of `headstart relay`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Create a key, or print the public part of an existing one.
    Key(key::Args),
    /// Run a relay for listed clients and destinations.
    Serve(serve::Args),
    /// Forward local ports through a relay, for unmodified programs.
    Ports(ports::Args),
}

/// Runs a verb.
pub fn run(verb: Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::Key(args) => key::run(&args),
        Verb::Serve(args) => serve::run(args),
        Verb::Ports(args) => ports::run(args),
    }
}

/// Which relay, and with which key.
#[derive(Debug, clap::Args)]
pub struct Through {
    /// Address of the relay.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    relay: String,
    /// Public key of the relay.
    #[arg(long, value_name = "PUBLIC")]
    relay_key: PublicKey,
    /// File with this client's key (`headstart relay key FILE`).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// The address of a relay as it was written, if it is one.
pub fn address(text: &str) -> Result<String, AccessError> {
    match text.parse::<Destination>() {
        // An address with a scope, as in [fe80::1%2]:7601, is no destination of a relay, but may be where the relay is.
        Err(why) if text.parse::<SocketAddr>().is_err() => Err(why),
        _ => Ok(text.to_owned()),
    }
}

impl Through {
    /// The relay, ready to be asked.
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(
            &self.relay,
            &SecretKey::read(&self.key).map_err(|why| Usage(why.to_string()))?,
            self.relay_key,
        )?)
    }
}

/// Warns if the relay's name is not found now; it may be later. Programs meet no error before they connect.
pub async fn warn_if_unknown(relay: String) {
    if let Err(why) = tokio::net::lookup_host(&*relay).await {
        crate::complain!("headstart: warning: --relay {relay}: {why}; connections fail until the name is found");
    }
}

/// One thread for all that a relay or its client does: what it does is little, and done for all connections in turn.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Raises the limit of open files as far as it may be: each connection takes one or two.
pub fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, connections beyond the limit wait.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
