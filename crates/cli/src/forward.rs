//! `headstart forward --tun-fd N`: forwards and measures what comes out of a TUN interface that another program has made. For
//! programs that have headstart within them, as an app with Android's VpnService would: routes and the interface are theirs.

use crate::config::Config;
use crate::run::measure::{self, MeasuredBy, Wanted};
use crate::{exit, supervise};
use headstart_core::connect::{Ahead, Settings};
use headstart_io::forward::Protector;
use headstart_io::sys::tun::Tun;
use std::path::{Path, PathBuf};

/// Arguments of `headstart forward`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Inherited file descriptor of a TUN interface, with or without IFF_VNET_HDR, without packet information (IFF_NO_PI). Multicast,
    /// broadcast, link-local IPv6 and protocols other than TCP, UDP and ICMP echo are dropped (the summary counts them).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    tun_fd: i32,
    /// Unix socket (`@NAME`: abstract) that receives each new socket with one byte before use, to exclude it from the TUN
    /// route. It must answer one byte: 0 for success.
    #[arg(long, value_name = "PATH")]
    protect: Option<String>,
    /// Write one JSON line to FILE for each connection and lookup when it ends.
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// Write all packets to FILE as pcapng, each labelled with its program; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Write a JSON summary to FILE.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Print the summary as one JSON object on standard error instead of text.
    #[arg(long, conflicts_with = "summary")]
    json: bool,
    /// Also time each request until the peer acknowledges it (see `headstart run --help`).
    #[arg(long)]
    request_rtt: bool,
    /// Do not busy-poll (for up to 100 us) for expected answers (see `headstart run --help`).
    #[arg(long)]
    no_lookout: bool,
    /// Race each connection over all addresses of its host name.
    #[arg(long)]
    accelerate: bool,
    /// Also answer lookups from what servers told the same user's programs before, within its lifetime, and look up names and open
    /// connections before programs want them.
    #[arg(long, requires = "accelerate")]
    ahead: bool,
    /// Do not print the measurement summary.
    #[arg(short, long)]
    quiet: bool,
}

/// Forwards until the end; the exit code.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    // A link that leads nowhere by name, to a device that was deleted, is there all the same.
    if std::fs::symlink_metadata(format!("/proc/self/fd/{}", args.tun_fd)).is_err() {
        let why =
            format!("--tun-fd {}: headstart inherits no such descriptor; open it without close-on-exec", args.tun_fd);
        return Err(exit::Usage(why).into());
    }
    let tun = Tun::of_descriptor(args.tun_fd).map_err(|e| exit::Usage(format!("--tun-fd {}: {e}", args.tun_fd)))?;
    let protector = args.protect.as_deref().map(Protector::at).transpose();
    let protector = protector.map_err(|e| exit::Usage(format!("--protect: must be the name of a Unix socket: {e}")))?;
    let racing = args.accelerate.then(|| supervise::settings(&Config::load(named)?)).transpose()?;
    let ahead = if args.ahead { Ahead::ON } else { Ahead::OFF };
    let racing = racing.map(|racing| Settings { ahead, ..racing });
    let telemetry = crate::telemetry::settings(&Config::load(named)?)?;
    let wanted = Wanted {
        via: MeasuredBy::Tun,
        command: &[],
        quiet: args.quiet,
        summary: args.summary.as_deref(),
        json: args.json,
        flows: args.flows.as_deref(),
        pcapng: args.pcapng.as_deref(),
        snap: None,
        request_rtt: args.request_rtt,
        no_lookout: args.no_lookout,
        profile: None,
        accelerate: racing.as_ref(),
        telemetry: telemetry.as_ref(),
    };
    measure::forward(tun, protector, &wanted)
}
