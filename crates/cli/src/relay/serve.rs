//! `headstart relay serve`: a relay, until it is ended.

use super::{raise_files, runtime};
use crate::exit::{self, Usage};
use headstart_realtime::keys::{PublicKey, SecretKey};
use headstart_realtime::relay::access::Pattern;
use headstart_realtime::relay::{Access, Answer, Event, Server, ServerSettings};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `headstart relay serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; other hosts reach it only if this is not a loopback address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7601")]
    listen: SocketAddr,
    /// The file with the relay's own key (`headstart relay key FILE`).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The public key of a client that may use it; again for each.
    #[arg(long = "client", value_name = "PUBLIC", required = true)]
    clients: Vec<PublicKey>,
    /// Where clients may go: HOST:PORT, where HOST is a name, *.NAME, an address, a network as in 10.0.0.0/8, or * for all that
    /// is public, and PORT a number, a range or *; again for each. Nothing else is allowed.
    #[arg(long = "allow", value_name = "HOST:PORT")]
    allowed: Vec<Pattern>,
    /// Connections at most; a session has up to six.
    #[arg(long, value_name = "COUNT", default_value_t = 40_000)]
    most: usize,
    /// Say on standard error who came, and what was answered for which destination.
    #[arg(short, long)]
    verbose: bool,
}

/// Serves until it is ended from outside.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let key = SecretKey::read(&args.key)?;
    let public = key.public()?;
    if args.most == 0 {
        return Err(Usage("--most 0: a relay of no connections serves nobody".into()).into());
    }
    if args.allowed.is_empty() {
        crate::complain!(
            "headstart: no destination is allowed, so every request will be refused: name some by --allow"
        );
    }
    raise_files();
    let settings =
        ServerSettings { most: args.most, ..ServerSettings::new(key, args.clients, Access::new(args.allowed)) };
    runtime()?.block_on(async move {
        let server = Server::bind(args.listen, settings).await.map_err(|e| anyhow::anyhow!("{}: {e}", args.listen))?;
        crate::say!("listening on {}, key {public}", server.address());
        let verbose = args.verbose;
        server
            .run(move |event| {
                if verbose {
                    tell(&event);
                }
            })
            .await;
        Ok(exit::OK)
    })
}

fn tell(event: &Event) {
    match event {
        Event::Unknown(peer) => crate::complain!("{peer}: no client of this relay, or silent"),
        Event::Answered(answer, to) => {
            let what = match answer {
                Answer::Granted => "granted",
                Answer::Refused => "refused: not on the list",
                Answer::Unreachable => "not reached",
                Answer::Gone => "a session that is not known any more",
                Answer::Busy => "refused: too many connections",
            };
            match to {
                Some(to) => crate::complain!("{to}: {what}"),
                None => crate::complain!("one more connection of a session: {what}"),
            }
        }
    }
}
