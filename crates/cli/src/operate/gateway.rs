//! `headstart gateway`: the network's end of a tunnel over two channels.
//!
//! It is a daemon as `headstart up` is: asked by `headstart status`, ended by `headstart down`. Packets of the host are
//! forwarded (the values that allow it are journalled and put back), and leave under the gateway's own address with `--nat`.

use super::up::bring_up;
use super::{settings, tunnel};
use crate::config::Config;
use crate::output::Format;
use headstart_io::daemon::Settings;
use headstart_io::host::change::{Change, sysctl::Sysctl, table::Table};
use headstart_io::steer::{self, Role};
use headstart_io::sys::fork;
use std::path::{Path, PathBuf};

/// Arguments of `headstart gateway`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tunnel file, in WireGuard's format.
    file: PathBuf,
    /// Translate the host's addresses to the gateway's own (NAT). Without it, you need routes back to the host.
    #[arg(long)]
    nat: bool,
    /// Stay in the foreground and undo all changes on SIGTERM; for service managers.
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    format: Format,
}

/// Brings the gateway up.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    if !args.foreground {
        // The daemon outlives the shell whose pipes and locks these are.
        fork::close_inherited();
    }
    let tunnel = tunnel(&args.file)?;
    let mut standing = vec![Change::Sysctl(Sysctl::new("net/ipv4/ip_forward", "1"))];
    if tunnel.addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
        standing.push(Change::Sysctl(Sysctl::new("net/ipv6/conf/all/forwarding", "1")));
    }
    if args.nat {
        standing.push(Change::Table(Table::new(&masquerade(&tunnel))));
    }
    let settings = Settings {
        windows: None,
        bundle: false,
        steering: Some((tunnel, Role::Gateway)),
        standing,
        ..settings(&Config::load(named)?)?
    };
    bring_up(settings, args.foreground, false, &args.format)
}

/// The chain that gives packets of the host the gateway's address as they leave; what goes back into the tunnel keeps its own.
fn masquerade(tunnel: &steer::Config) -> String {
    let rules = tunnel.allowed.iter().map(|prefix| {
        let family = if prefix.address.is_ipv4() { "ip" } else { "ip6" };
        let inside = tunnel.name.replace("%d", "*");
        format!("{family} saddr {prefix} oifname != \"{inside}\" masquerade;")
    });
    let rules = rules.collect::<Vec<_>>().join(" ");
    format!("chain steer {{ type nat hook postrouting priority 100; policy accept; {rules} }}")
}
