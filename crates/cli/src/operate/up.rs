//! `headstart up`: makes the changes that are on, and leaves a daemon behind that keeps and undoes them.

use super::{By, explained, initcwnd, page, settings, something_is_on, tunnel, undone};
use crate::config::{Config, all};
use crate::exit::Usage;
use crate::output::{self, Format};
use crate::run::measure::MeasuredBy;
use crate::{complain, exit, say, supervise};
use headstart_io::daemon::message::Undoing;
use headstart_io::daemon::{Daemon, Settings, measuring, readiness};
use headstart_io::forward::ebpf::Programs;
use headstart_io::host::change::{Change, sysctl::Sysctl, table};
use headstart_io::host::folders::Folders;
use headstart_io::steer::Role;
use headstart_io::sys::{fork, signal};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart up`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the initial congestion window of known peers from the kernel's TCP metrics of past connections, by routes or by a program in
    /// the kernel (settings `cwnd.initcwnd`, `cwnd.initcwnd-via`).
    #[arg(long, value_enum, num_args = 0..=1, value_name = "VIA")]
    initcwnd: Option<Option<By>>,
    /// Let small TCP segments repeat the one or two unacknowledged segments before them, so that a lost one costs no delay
    /// (setting `realtime.bundle`).
    #[arg(long)]
    bundle: bool,
    /// Open the two-channel tunnel described in FILE; the other end runs `headstart gateway` (setting `steer.tunnel`).
    #[arg(long, value_name = "FILE")]
    steer: Option<PathBuf>,
    /// Measure outgoing connections to the captured networks; watch them with `headstart top`.
    #[arg(long)]
    measure: bool,
    /// With --measure, how to measure: `tun` forwards the traffic of the captured networks, and alone sees pings and ICMP errors
    /// and accelerates; `ebpf` measures all programs in the kernel, without touching packets; `auto` is `ebpf` where it works
    /// and no network is named.
    #[arg(long, value_enum, requires = "measure", default_value = "tun", value_name = "HOW")]
    via: MeasuredBy,
    /// With --measure: capture the default route (everything).
    #[arg(long, requires = "measure", group = "captured")]
    capture_default: bool,
    /// With --measure: capture this network; may be repeated.
    #[arg(
        long,
        requires = "measure",
        group = "captured",
        value_name = "ADDRESS/BITS",
        conflicts_with = "capture_default"
    )]
    capture: Vec<String>,
    /// With --measure: append one JSON line to FILE for each connection and lookup.
    #[arg(long, requires = "measure", value_name = "FILE")]
    flows: Option<PathBuf>,
    /// With --measure: do not busy-poll (for up to 100 us) for expected answers (see `headstart run --help`).
    #[arg(long, requires = "measure")]
    no_lookout: bool,
    /// With --measure: race each captured connection over all addresses of its host name. Raced connections are marked, and
    /// their connect times are not counted.
    #[arg(long, requires = "measure")]
    accelerate: bool,
    /// Enable every feature that works on this host, and report those that do not (setting `host.profile`).
    #[arg(long)]
    all: bool,
    /// Serve the page of `headstart ui` as long as the daemon runs, and print its address.
    #[arg(long)]
    ui: bool,
    /// Stay in the foreground and undo all changes on SIGTERM; for service managers.
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    format: Format,
    /// For tests: make a change of each other kind too.
    #[arg(long, hide = true)]
    drill: bool,
    /// For tests: be killed (SIGKILL) before this step of the journal.
    #[arg(long, hide = true, value_name = "N")]
    die_at_step: Option<u32>,
}

/// Brings the daemon up.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    if !args.foreground {
        // The daemon outlives the shell whose pipes and locks these are.
        fork::close_inherited();
    }
    let mut config = Config::load(named)?;
    initcwnd(&mut config, args.initcwnd)?;
    config.flag(&all::BUNDLE, "--bundle", args.bundle.then_some("true"))?;
    config.flag(&all::PROFILE, "--all", args.all.then_some(all::ALL_COLUMNS))?;
    let mut settings = settings(&config)?;
    let together = config.text(&all::PROFILE) == all::ALL_COLUMNS;
    if together && settings.bundle && !config.is_on(&all::BUNDLE) {
        // This one was not asked for by its name.
        settings.bundle =
            super::bundling_works().map_err(|why| complain!("headstart: --all without bundling: {why}")).is_ok();
    }
    settings.die_at = args.die_at_step;
    if args.drill {
        settings.standing = drill();
    }
    let file =
        args.steer.clone().or_else(|| Some(config.text(&all::TUNNEL)).filter(|f| !f.is_empty()).map(PathBuf::from));
    match &file {
        Some(file) => settings.steering = Some((tunnel(file)?, Role::Host)),
        None if together => {
            complain!("headstart: --all without steering: no tunnel is configured (--steer FILE or steer.tunnel)")
        }
        None => {}
    }
    if args.measure {
        let to = args.capture.iter().map(|text| network(text)).collect::<Result<_, _>>()?;
        let lines = args.flows.as_deref().map(std::path::absolute).transpose()?;
        let racing = args.accelerate.then(|| supervise::settings(&config)).transpose()?;
        let telemetry = crate::telemetry::settings(&config)?;
        // Opened here once so that its errors are printed: the daemon has no terminal.
        drop(crate::telemetry::open(telemetry.as_ref(), false));
        let (in_kernel, looks_out) = (in_kernel(args)?, !args.no_lookout);
        settings.measuring = Some(measuring::Wish { in_kernel, to, lines, racing, looks_out, telemetry });
    }
    something_is_on(
        &settings,
        "--steer FILE (two-channel tunnel; steer.tunnel), --measure --capture-default (measure all programs), ",
    )?;
    if !super::may_change_the_network() {
        // A daemon without the right would stay and never change anything.
        return Err(exit::Coded(exit::NOT_PERMITTED, format!("CAP_NET_ADMIN is missing; {}", super::grant())).into());
    }
    // The daemon opens it, and its standard error goes nowhere: check it here.
    args.flows.as_deref().map_or(Ok(()), crate::input::check_writable)?;
    bring_up(settings, args.foreground, args.ui, &args.format)
}

/// Whether programs in the kernel measure.
fn in_kernel(args: &Args) -> Result<bool, Usage> {
    let is_captured = args.capture_default || !args.capture.is_empty();
    let needs_forwarder = match (args.capture.is_empty(), args.accelerate) {
        (false, _) => Some("--capture needs the forwarder"),
        (true, true) => Some("--accelerate needs the forwarder"),
        (true, false) => None,
    };
    match (args.via, needs_forwarder) {
        (MeasuredBy::Ebpf, Some(why)) => Err(Usage(format!("--via ebpf: {why}; use --via tun"))),
        (MeasuredBy::Ebpf, None) => Ok(true),
        (MeasuredBy::Tun | MeasuredBy::Auto, _) if !is_captured => {
            Err(Usage("--measure: add --capture-default or --capture ADDRESS/BITS, or --via ebpf".into()))
        }
        (MeasuredBy::Tun, _) => Ok(false),
        (MeasuredBy::Auto, Some(_)) => Ok(false),
        (MeasuredBy::Auto, None) => {
            Ok(Programs::load().map_err(|why| complain!("headstart: measuring through the forwarder: {why}")).is_ok())
        }
    }
}

/// Makes the changes of `settings`, and serves until the end: in the foreground, or behind the caller's back. With a page, if it is
/// wanted; should that fail, without one.
pub(super) fn bring_up(settings: Settings, foreground: bool, with_page: bool, format: &Format) -> anyhow::Result<u8> {
    let folders = Folders::of_host().map_err(|e| explained(e.into()))?;
    // A signal from now on ends it when it is up, not halfway.
    let _blocked = signal::ending()?;
    let (daemon, begun) = Daemon::begin(&folders, settings).map_err(explained)?;
    if let Some(report) = &begun.recovered {
        complain!("headstart: cleaned up after a killed daemon: {}", undone(&Undoing::from(report)).0);
    }
    let page = with_page
        .then(page::begin)
        .and_then(|page| page.map_err(|why| complain!("headstart: --ui: the page cannot be served: {why:#}")).ok());
    let status = daemon.status();
    let mut object = serde_json::to_value(&status)?;
    let tell = |pid: u32| {
        if format.json {
            object["pid"] = pid.into();
            if let Some(page) = &page {
                object["ui"] = page.url.as_str().into();
            }
            output::document(VERSION, object);
        } else {
            let changes = output::plural((status.changes.len() + status.omitted) as u64, "change");
            say!("up: {changes}; `headstart status` shows them, `headstart down` undoes them");
            page.iter().for_each(|page| say!("page: {}", page.url));
        }
    };
    let mut told_later = None;
    if foreground {
        told_later = Some(tell);
    } else {
        let detached = fork::detach_after(tell).and_then(|()| fork::cut_loose(c"headstart-up"));
        if let Err(why) = detached {
            // No process would maintain the changes.
            daemon.end().map_err(explained)?;
            return Err(anyhow::Error::from(why).context("cannot start the daemon in the background"));
        }
    }
    let up = || {
        if let Some(tell) = told_later {
            tell(std::process::id());
            readiness::ready();
        }
    };
    let report = daemon.serve(up, |problem| complain!("headstart: {problem}")).map_err(explained)?;
    let (words, code) = undone(&Undoing::from(&report));
    complain!("headstart: down: {words}");
    Ok(if code == exit::DEGRADED { exit::OK } else { code })
}

/// A network that is captured.
fn network(text: &str) -> Result<(IpAddr, u8), Usage> {
    let wrong = |why: &str| Usage(format!("--capture {text}: {why}, as in 198.51.100.0/24 or 2001:db8::/32"));
    let (address, bits) = text.split_once('/').ok_or_else(|| wrong("must be ADDRESS/BITS"))?;
    let address: IpAddr = address.parse().map_err(|_| wrong("not an IP address"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits
        .parse()
        .ok()
        .filter(|bits| *bits <= most)
        .ok_or_else(|| wrong(&format!("the prefix length must be from 0 to {most}")))?;
    if bits == 0 {
        return Err(wrong("use --capture-default to capture everything; give a network"));
    }
    Ok((address, bits))
}

/// A change of each kind that initial windows need not.
fn drill() -> Vec<Change> {
    let mut changes = vec![Change::Sysctl(Sysctl::new("net/ipv4/ip_default_ttl", "63"))];
    if table::program().is_some() {
        let body = "chain drill { type filter hook output priority 0; policy accept; counter; }";
        changes.push(Change::Table(table::Table::new(body)));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_and_bits_and_nothing_else() {
        assert_eq!(network("198.51.100.0/24").unwrap(), ("198.51.100.0".parse().unwrap(), 24));
        assert_eq!(network("2001:db8::/32").unwrap(), ("2001:db8::".parse().unwrap(), 32));
        for text in ["", "198.51.100.0", "198.51.100.0/33", "x/8", "0.0.0.0/0", "2001:db8::/129", "1.2.3.4/-1"] {
            assert!(network(text).unwrap_err().to_string().contains("198.51.100.0/24"), "{text}");
        }
    }
}
