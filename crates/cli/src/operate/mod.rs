//! The verbs around the daemon: `up`, `gateway`, `down`, `status`, `plan`, `recover`, `doctor`. Nothing is decided or
//! changed here; the daemon and the way back are in `headstart_io`.

pub mod doctor;
pub mod down;
pub mod gateway;
mod page;
pub mod plan;
pub mod recover;
pub mod status;
pub mod up;

use crate::config::{Config, all};
use crate::exit::{self, Coded, Usage};
use crate::{input, output};
use headstart_core::cwnd::initcwnd::Bounds;
use headstart_core::time::Duration;
use headstart_io::daemon::message::Undoing;
use headstart_io::daemon::{DaemonError, Initial, Settings};
use headstart_io::host::Numbers;
use headstart_io::host::change::table;
use headstart_io::host::ledger::LedgerError;
use headstart_io::packet_queue::PacketQueue;
use headstart_io::steer;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A packet queue that no daemon uses, to see whether the kernel has any.
const PROBED: u16 = 1;

/// What a daemon of these settings is to do.
fn settings(config: &Config) -> Result<Settings, Usage> {
    let bounds = Bounds {
        most: u32::try_from(config.whole(&all::INITCWND_MOST)).unwrap_or(u32::MAX),
        share: config.share(&all::INITCWND_SHARE),
        oldest: Duration::from_secs(config.whole(&all::INITCWND_AGE)),
        peers: usize::try_from(config.whole(&all::INITCWND_PEERS)).unwrap_or(usize::MAX),
    };
    let every = Duration::from_secs(config.whole(&all::INITCWND_REFRESH));
    let in_kernel = config.text(&all::INITCWND_VIA) == "ebpf";
    let numbers = numbers(config);
    if (253..=255).contains(&numbers.table) {
        let why = format!("host.table: {} is reserved by the system; choose another number", numbers.table);
        return Err(Usage(why));
    }
    let group = config.text(&all::GROUP);
    let together = config.text(&all::PROFILE) == all::ALL_COLUMNS;
    Ok(Settings {
        numbers,
        windows: config.is_on_in(together, &all::INITCWND).then_some(Initial { bounds, every, in_kernel }),
        bundle: config.is_on_in(together, &all::BUNDLE),
        steering: None,
        measuring: None,
        group: (!group.is_empty()).then_some(group),
        standing: Vec::new(),
        die_at: None,
    })
}

/// What sets initial windows: words for `--initcwnd`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    /// A route for each peer.
    Routes,
    /// One program in the kernel.
    Ebpf,
}

/// Takes what `--initcwnd` says: alone, what sets windows is left to the setting.
fn initcwnd(config: &mut Config, said: Option<Option<By>>) -> Result<(), Usage> {
    let via = said.flatten().map(|by| match by {
        By::Routes => "routes",
        By::Ebpf => "ebpf",
    });
    config.flag(&all::INITCWND, "--initcwnd", said.map(|_| "true"))?;
    config.flag(&all::INITCWND_VIA, "--initcwnd", via)
}

/// Settings, or the defaults where they cannot be read: that is no reason not to undo changes or to look for them.
fn settings_or_defaults(named: Option<&Path>) -> Config {
    Config::load(named).unwrap_or_else(|why| {
        why.0
            .lines()
            .for_each(|line| crate::complain!("headstart: warning: {}", line.trim_start_matches("headstart: ")));
        crate::complain!("headstart: warning: default settings are used");
        Config::default()
    })
}

fn numbers(config: &Config) -> Numbers {
    let number = |setting| u32::try_from(config.whole(setting)).unwrap_or(u32::MAX);
    Numbers { table: number(&all::TABLE), priority: number(&all::PRIORITY) }
}

/// Reads the file of a tunnel, for either end. It holds a secret, so other users must not be able to read it.
fn tunnel(file: &Path) -> anyhow::Result<steer::Config> {
    let shown = file.display();
    let text = input::text(file, input::MOST).map_err(|e| Usage(format!("{shown}: {e}")))?;
    let about = std::fs::metadata(file)?;
    let mode = about.permissions().mode();
    if mode & 0o077 != 0 && !about.is_file() {
        return Err(Usage(format!("{shown} is not a regular file")).into());
    }
    if mode & 0o077 != 0 {
        return Err(Usage(format!("{shown} contains a secret but other users can read it: chmod 600 {shown}")).into());
    }
    Ok(text.parse().map_err(|e: steer::config::ConfigError| Usage(format!("{shown}: {e}")))?)
}

/// There must be something to do; `more` names what the verb offers beside what both `up` and `plan` do.
fn something_is_on(settings: &Settings, more: &str) -> Result<(), Usage> {
    let steers = settings.steering.is_some() || settings.measuring.is_some();
    if settings.windows.is_some() || settings.bundle || steers || !settings.standing.is_empty() {
        return Ok(());
    }
    Err(Usage(format!(
        "nothing to do: choose at least one of --initcwnd (larger initial windows for known peers; setting \
         cwnd.initcwnd), --bundle (repeat small segments; realtime.bundle), {more}--all (every feature that works on this \
         host; host.profile = \"all\")"
    )))
}

/// Whether small segments could be bundled here; else why not.
fn bundling_works() -> Result<(), String> {
    table::program().ok_or("nft (package nftables) is not installed")?;
    // No packet comes to a queue that no rule names.
    PacketQueue::open(PROBED).map(drop).map_err(|why| why.to_string())
}

/// An error of the daemon, with its code and what to do.
fn explained(why: DaemonError) -> anyhow::Error {
    let of_files = matches!(why, DaemonError::Folders(_) | DaemonError::Ledger(LedgerError::Journal(_)));
    if why.is_not_permitted() && of_files {
        return Coded(exit::NOT_PERMITTED, why.to_string()).into();
    }
    if why.is_not_permitted() {
        return Coded(exit::NOT_PERMITTED, format!("{why}; {}", grant())).into();
    }
    if matches!(why, DaemonError::Leftovers(_) | DaemonError::Unrecorded(_) | DaemonError::Halfway { .. }) {
        return Coded(exit::NEEDS_RECOVER, why.to_string()).into();
    }
    why.into()
}

/// CAP_NET_ADMIN (linux/capability.h).
const NET_ADMIN: u32 = 12;

/// Whether this process may change routes, rules and interfaces.
fn may_change_the_network() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    held >> NET_ADMIN & 1 == 1
}

/// The line that grants the right to change a host.
fn grant() -> String {
    let program = std::env::current_exe().map_or_else(|_| "headstart".into(), |path| path.display().to_string());
    format!("run as root, or grant the capability once: sudo setcap cap_net_admin+ep {program}")
}

/// What is left without a record, and what removes it.
fn unrecorded(found: &[String]) -> String {
    format!(
        "changes of headstart that are not in its journal: {}; `headstart recover --found` undoes {}",
        found.join("; "),
        if found.len() == 1 { "it" } else { "them" },
    )
}

/// What an undoing came to, in words, and the code that goes with it.
fn undone(undoing: &Undoing) -> (String, u8) {
    let Undoing { removed, were_gone, left_alone, failed, unclosed, found, not_looked_at } = undoing;
    let mut words = format!("{} undone", output::plural(*removed as u64, "change"));
    if *were_gone > 0 {
        words += &format!(", {were_gone} already gone");
    }
    for why in left_alone {
        words += &format!("\nleft alone: {why}");
    }
    for why in failed {
        words += &format!("\nnot undone: {why}");
    }
    for why in unclosed {
        words += &format!("\nthe journal cannot be removed (`headstart recover` tries again): {why}");
    }
    if !found.is_empty() {
        words += &format!("\n{}", unrecorded(found));
    }
    if let Some(why) = not_looked_at {
        words += &format!("\n{why}");
    }
    let code = if !failed.is_empty() || !found.is_empty() {
        exit::NEEDS_RECOVER
    } else if left_alone.is_empty() && unclosed.is_empty() {
        exit::OK
    } else {
        exit::DEGRADED
    };
    (words, code)
}
