//! `headstart relay serve`: a relay, until it is ended.

use super::{raise_files, runtime};
use crate::exit::{self, Usage};
use crate::output::{Format, document};
use headstart_realtime::keys::{PublicKey, SecretKey};
use headstart_realtime::relay::access::Pattern;
use headstart_realtime::relay::{Access, Answer, Event, Server, ServerError, ServerSettings};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `headstart relay serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; other hosts can reach only a non-loopback address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7601")]
    listen: SocketAddr,
    /// File with the relay's key (`headstart relay key FILE`).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Public key of an allowed client; may be repeated.
    #[arg(long = "client", value_name = "PUBLIC", required = true)]
    clients: Vec<PublicKey>,
    /// Allowed destination; may be repeated. HOST is a name, *.NAME, an address, a network such as 10.0.0.0/8, or * for all
    /// public addresses; PORT is a number, a range or *. Everything else is refused.
    #[arg(long = "allow", value_name = "HOST:PORT")]
    allowed: Vec<Pattern>,
    /// Maximum number of connections; a session uses up to six.
    #[arg(long, value_name = "COUNT", default_value_t = 40_000)]
    most: usize,
    /// Log clients, destinations and answers to standard error.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    format: Format,
}

/// Serves until it is ended from outside.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let key = SecretKey::read(&args.key).map_err(|why| Usage(why.to_string()))?;
    let public = key.public()?;
    if args.most == 0 {
        return Err(Usage("--most 0: must be at least 1".into()).into());
    }
    if args.allowed.is_empty() {
        crate::complain!(
            "headstart: warning: no destination is allowed, so every request will be refused: add --allow HOST:PORT"
        );
    }
    raise_files();
    let settings =
        ServerSettings { most: args.most, ..ServerSettings::new(key, args.clients, Access::new(args.allowed)) };
    runtime()?.block_on(async move {
        let server = Server::bind(args.listen, settings).await.map_err(|why| match why {
            ServerError::Listen(why) => {
                anyhow::Error::from(crate::accept::cannot_listen(args.listen, "--listen", &why))
            }
            why @ ServerError::Key(_) => anyhow::anyhow!("{}: {why}", args.listen),
        })?;
        let tally = server.tally();
        crate::realtime::show_with("relay serve", move |counted| {
            counted.count("relay-connections", &[], tally.accepted());
            counted.count("relay-strangers", &[], tally.unknown());
            Answer::ALL.iter().for_each(|a| counted.count("relay-answers", &[word(*a)], tally.answered(*a)));
        });
        if args.format.json {
            let (address, key) = (server.address().to_string(), public.to_string());
            document(1, serde_json::json!({ "address": address, "key": key, "pid": std::process::id() }));
        } else {
            crate::say!("listening on {}, key {public}", server.address());
        }
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

/// An answer as a label of metrics.
fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Granted => "granted",
        Answer::Refused => "refused",
        Answer::Unreachable => "unreachable",
        Answer::Gone => "gone",
        Answer::Busy => "busy",
    }
}

fn tell(event: &Event) {
    match event {
        Event::Unknown(peer) => crate::complain!("{peer}: not a client of this relay, or sent nothing"),
        Event::Answered(answer, to) => {
            let what = match answer {
                Answer::Granted => "granted",
                Answer::Refused => "refused: not on the list",
                Answer::Unreachable => "unreachable",
                Answer::Gone => "unknown or expired session",
                Answer::Busy => "refused: too many connections",
            };
            match to {
                Some(to) => crate::complain!("{to}: {what}"),
                None => crate::complain!("additional connection of a session: {what}"),
            }
        }
    }
}
