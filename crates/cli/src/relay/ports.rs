//! `headstart relay ports`: the client's side of a relay, for programs that know nothing of it.

use super::{Through, raise_files, runtime, warn_if_unknown};
use crate::exit::{self, Usage};
use crate::output::{Format, document};
use headstart_realtime::Config;
use headstart_realtime::relay::{Clients, Destination, ports};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use tokio::net::TcpListener;

/// Arguments of `headstart relay ports`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    through: Through,
    /// Forward a local port to a destination, as in 2222=desk.example.org:22; may be repeated.
    #[arg(long, value_name = "[ADDRESS:]PORT=HOST:PORT")]
    forward: Vec<Forward>,
    /// Open a SOCKS5 port on this host.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    socks: Option<Local>,
    /// Maximum number of connections; each user of this host, and each other host, is limited to a quarter of them.
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    most: usize,
    /// Technique that avoids head-of-line blocking (`headstart list techniques`).
    #[arg(long, value_name = "NAME", default_value = headstart_realtime::technique::DEFAULT)]
    technique: String,
    #[command(flatten)]
    format: Format,
}

/// Where to listen on this host: loopback unless an address is named; port 0: any.
#[derive(Clone, Copy, Debug)]
pub struct Local(SocketAddr);

impl FromStr for Local {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        port.or_else(|_| text.parse())
            .map(Self)
            .map_err(|_| format!("must be a local port such as 1080, 127.0.0.1:1080 or [::1]:1080 (got {text:?})"))
    }
}

/// A port of this host, and where it leads.
#[derive(Clone, Debug)]
pub struct Forward {
    from: Local,
    to: Destination,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once('=')
            .ok_or_else(|| format!("must be PORT=HOST:PORT, as in 2222=desk.example.org:22 (got {text:?})"))?;
        Ok(Self { from: from.parse()?, to: to.parse().map_err(|e| format!("{e}"))? })
    }
}

/// Opens the ports and carries what comes, until it is ended from outside.
pub fn run(args: Args) -> anyhow::Result<u8> {
    if args.forward.is_empty() && args.socks.is_none() {
        return Err(Usage("no port to open: add --forward PORT=HOST:PORT or --socks PORT".into()).into());
    }
    if args.most == 0 {
        return Err(Usage("--most 0: must be at least 1".into()).into());
    }
    headstart_realtime::technique::find(&args.technique).map_err(|e| Usage(e.to_string()))?;
    let config = Config { technique: args.technique, ..Config::default() };
    let client = args.through.client()?;
    raise_files();
    let clients = Clients::new(args.most);
    let runtime = runtime()?;
    let ended = runtime.block_on(async move {
        crate::realtime::show("relay ports");
        tokio::spawn(warn_if_unknown(args.through.relay));
        let mut serving = tokio::task::JoinSet::new();
        let failed = |error: &ports::PortError| crate::complain!("headstart: {error}");
        let mut forwards = Vec::new();
        for Forward { from, to } in args.forward {
            let listener = bind(from, "--forward").await?;
            let address = listener.local_addr()?;
            if args.format.json {
                forwards.push(serde_json::json!({ "address": address.to_string(), "to": to.to_string() }));
            } else {
                crate::say!("{address} forwards to {to}");
            }
            serving.spawn(ports::forward((listener, clients.clone()), to, client.clone(), config.clone(), failed));
        }
        let mut socks = None;
        if let Some(at) = args.socks {
            let listener = bind(at, "--socks").await?;
            let address = listener.local_addr()?;
            if args.format.json {
                socks = Some(address.to_string());
            } else {
                crate::say!("{address} accepts SOCKS5");
            }
            serving.spawn(ports::by_socks((listener, clients), client, config, failed));
        }
        if args.format.json {
            document(1, serde_json::json!({ "forwards": forwards, "socks": socks, "pid": std::process::id() }));
        }
        while serving.join_next().await.is_some() {}
        Ok(exit::OK)
    });
    // A name server that does not answer is not waited for.
    runtime.shutdown_background();
    ended
}

async fn bind(at: Local, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(at.0).await.map_err(|why| crate::accept::cannot_listen(at.0, flag, &why))?;
    headstart_realtime::admission::lengthen(&listener);
    Ok(listener)
}
