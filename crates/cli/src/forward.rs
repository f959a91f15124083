//! `headstart forward --tun-fd N`: what comes out of a TUN interface that somebody else has made is forwarded and measured. For
//! programs that have headstart within them, as an app with Android's VpnService would: routes and the interface are theirs.

use crate::config::Config;
use crate::run::measure::{self, Wanted};
use crate::{exit, supervise};
use headstart_io::forward::Protector;
use headstart_io::sys::tun::Tun;
use std::path::{Path, PathBuf};

/// Arguments of `headstart forward`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The number of an inherited descriptor: a TUN interface of IP packets, with or without IFF_VNET_HDR.
    #[arg(long, value_name = "N")]
    tun_fd: i32,
    /// A Unix socket (`@NAME`: an abstract one) to which each descriptor is sent, with one byte, before it is used; one byte is
    /// awaited, 0 if packets of that socket will not come back to the interface.
    #[arg(long, value_name = "PATH")]
    protect: Option<String>,
    /// Write a JSON line for each connection and lookup to this file, as it ends.
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// Write every packet to this file, as pcapng with the program's name on each; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Write a summary to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Time what programs say piece by piece, until their peers acknowledge it (see `headstart run --help`).
    #[arg(long)]
    request_rtt: bool,
    /// Race each connection over all addresses that programs of its user were told of its peer's name.
    #[arg(long)]
    accelerate: bool,
    /// Not a word about what was measured.
    #[arg(short, long)]
    quiet: bool,
}

/// Forwards until the end; the exit code.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    let tun = Tun::of_descriptor(args.tun_fd).map_err(|e| exit::Usage(format!("--tun-fd {}: {e}", args.tun_fd)))?;
    let protector = args.protect.as_deref().map(Protector::at).transpose();
    let protector =
        protector.map_err(|e| exit::Usage(format!("--protect: the name of a Unix socket is wanted: {e}")))?;
    let racing = args.accelerate.then(|| supervise::settings(&Config::load(named)?)).transpose()?;
    let wanted = Wanted {
        command: &[],
        quiet: args.quiet,
        summary: args.summary.as_deref(),
        flows: args.flows.as_deref(),
        pcapng: args.pcapng.as_deref(),
        snap: None,
        request_rtt: args.request_rtt,
        profile: None,
        accelerate: racing.as_ref(),
    };
    measure::forward(tun, protector, &wanted)
}
