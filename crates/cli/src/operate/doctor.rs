//! `headstart doctor`: what works here, what does not, and the line that mends it. Looks, and changes nothing.
//!
//! JSON: `checks`, each with `name`, `state` (`works`, `degraded`, `broken`), `says` and `mend` (null if there is
//! nothing to do).

mod installed;

use super::{grant, numbers, settings_or_defaults};
use crate::config::Config;
use crate::output::{self, Format};
use crate::{exit, say};
use headstart_io::cgroup;
use headstart_io::daemon::client::{AskError, ask};
use headstart_io::daemon::message::{Answer, Wish};
use headstart_io::forward::ebpf::lacking;
use headstart_io::host::change::table;
use headstart_io::host::folders::Folders;
use headstart_io::host::{Kernel, occupants};
use std::io::IsTerminal as _;
use std::path::Path;

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: Format,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    Degraded,
    Broken,
}

/// What a check found.
#[derive(Debug)]
struct Finding {
    state: State,
    says: String,
    mend: Option<String>,
}

fn works(says: impl Into<String>) -> Finding {
    Finding { state: State::Works, says: says.into(), mend: None }
}

fn degraded(says: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { state: State::Degraded, says: says.into(), mend: Some(mend.into()) }
}

fn broken(says: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { state: State::Broken, says: says.into(), mend: Some(mend.into()) }
}

/// A check.
struct Check {
    name: &'static str,
    run: fn(Option<&Path>) -> Finding,
}

/// Columns that text is wrapped to at least.
const MOST_NARROW: usize = 50;

/// Every check, in the order in which people should mend.
const ALL: &[Check] = &[
    Check { name: "settings", run: settings },
    Check { name: "package", run: |_| installed::here() },
    Check { name: "run: seccomp", run: system_calls },
    Check { name: "measure: TUN", run: |_| forwarder() },
    Check { name: "measure: eBPF", run: |_| kernel() },
    Check { name: "lab: namespaces", run: namespaces },
    Check { name: "up: privilege", run: privilege },
    Check { name: "up: folders", run: folders },
    Check { name: "up: daemon", run: daemon },
    Check { name: "up: routing table", run: routing_table },
    Check { name: "up: TCP metrics", run: memories },
    Check { name: "up: nft", run: nft },
];

/// Examines.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    let found: Vec<_> = ALL.iter().map(|check| (check.name, (check.run)(named))).collect();
    let code = if found.iter().all(|(_, finding)| finding.state == State::Works) { exit::OK } else { exit::DEGRADED };
    if args.format.json {
        let checks: Vec<_> = found
            .iter()
            .map(|(name, Finding { state, says, mend })| {
                let state = format!("{state:?}").to_lowercase();
                serde_json::json!({ "name": name, "state": state, "says": says, "mend": mend })
            })
            .collect();
        output::document(VERSION, serde_json::json!({ "checks": checks }));
        return Ok(code);
    }
    let colour = std::io::stdout().is_terminal() && output::colour();
    // Whole lines for a pipe, which may go to grep.
    let is_shown = std::io::stdout().is_terminal() || std::env::var_os("COLUMNS").is_some();
    let columns = if is_shown { output::width().max(MOST_NARROW) } else { 10_000 };
    let width = found.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, Finding { state, says, mend }) in &found {
        let (sign, paint) = match state {
            State::Works => ("ok  ", "32"),
            State::Degraded => ("part", "33"),
            State::Broken => ("no  ", "31"),
        };
        let rest = " ".repeat(width + 8);
        let wrapped = |first: &str, text: &str, after: &str| {
            let options = textwrap::Options::new(columns).initial_indent(&rest).break_words(false);
            let lines = textwrap::fill(text, options.subsequent_indent(&format!("{rest}{after}")));
            format!("{first}{}", &lines[rest.len()..])
        };
        let text = wrapped(&format!("{sign}  {name:width$}  "), says, "");
        say!("{}", if colour { text.replacen(sign, &format!("\x1b[{paint}m{sign}\x1b[0m"), 1) } else { text });
        if let Some(mend) = mend {
            say!("{}", wrapped(&rest, &format!("-> {mend}"), "   "));
        }
    }
    Ok(code)
}

fn settings(named: Option<&Path>) -> Finding {
    match Config::load(named) {
        Ok(_) => works("valid"),
        Err(why) => broken(why.to_string(), "correct that line; `headstart config init -` shows every setting"),
    }
}

fn privilege(_: Option<&Path>) -> Finding {
    if super::may_change_the_network() {
        works("CAP_NET_ADMIN is held")
    } else {
        degraded("CAP_NET_ADMIN is missing: `up` cannot change routes", grant())
    }
}

fn folders(_: Option<&Path>) -> Finding {
    let prepared = Folders::of_host().and_then(|folders| {
        let there = folders.state.exists();
        if there { folders.prepare().map(|()| folders) } else { Ok(folders) }
    });
    match prepared {
        Ok(folders) => {
            let parent = folders.state.ancestors().find(|path| path.exists());
            let writable = parent.is_some_and(|path| {
                rustix::fs::accessat(rustix::fs::CWD, path, rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS)
                    .is_ok()
            });
            if writable {
                works(format!("{} for the journal", folders.state.display()))
            } else {
                degraded(
                    format!("{} cannot be written", folders.state.display()),
                    "run as root, or set STATE_DIRECTORY to a folder of your own",
                )
            }
        }
        Err(why) => degraded(why.to_string(), "set STATE_DIRECTORY to a folder of your own"),
    }
}

fn daemon(_: Option<&Path>) -> Finding {
    let folders = match Folders::of_host() {
        Ok(folders) => folders,
        Err(why) => return broken(why.to_string(), "mount /proc; Linux 5.14 or later"),
    };
    match ask(&folders, Wish::Status) {
        Ok(Answer::Status(status)) if status.problems.is_empty() => works(format!("up (process {})", status.pid)),
        Ok(Answer::Status(status)) => degraded(status.problems.join("; "), "headstart down, then headstart up again"),
        Err(AskError::NotUp) => match folders.has_journal() {
            Some(true) => broken("a daemon was killed and its changes remain", "headstart recover"),
            _ => works("not running"),
        },
        Err(why @ AskError::Denied { .. }) => degraded(why.to_string(), "run as root, or set host.group"),
        Ok(_) => broken("the daemon gave no status", "headstart down, then headstart up again"),
        Err(why) => broken(why.to_string(), "headstart down; if it does not answer, kill it, then headstart recover"),
    }
}

fn routing_table(named: Option<&Path>) -> Finding {
    let numbers = numbers(&settings_or_defaults(named));
    let found = match Kernel::open().and_then(|mut kernel| occupants(&mut kernel, numbers)) {
        Ok(found) => found,
        Err(why) => return broken(why.to_string(), "a kernel with CONFIG_IP_MULTIPLE_TABLES"),
    };
    if !found.strangers.is_empty() {
        let says = format!("others use table {}: {}", numbers.table, found.strangers.join("; "));
        return degraded(says, "set host.table to an unused number");
    }
    let orphans = !found.ours.is_empty()
        && Folders::of_host().is_ok_and(|folders| {
            matches!(ask(&folders, Wish::Status), Err(AskError::NotUp)) && folders.has_journal() == Some(false)
        });
    if orphans {
        let says = format!("leftovers without a journal: {}", found.ours.join("; "));
        return degraded(says, "headstart recover --found");
    }
    works(format!("table {} is free for headstart", numbers.table))
}

fn memories(_: Option<&Path>) -> Finding {
    match Kernel::open().and_then(|mut kernel| kernel.remembers()) {
        Err(why) => return degraded(why.to_string(), "a kernel with CONFIG_INET and generic netlink"),
        Ok(false) => {
            return degraded("the kernel keeps no TCP metrics", "`up --initcwnd` cannot learn windows on this host");
        }
        Ok(true) => {}
    }
    match std::fs::read_to_string("/proc/sys/net/ipv4/tcp_no_metrics_save") {
        Ok(value) if value.trim() != "0" => {
            degraded("the kernel does not save TCP metrics", "sysctl -w net.ipv4.tcp_no_metrics_save=0")
        }
        _ => works("saved by the kernel"),
    }
}

fn nft(_: Option<&Path>) -> Finding {
    match table::program() {
        Some(path) => works(path.display().to_string()),
        None => degraded("not installed: no `--bundle`, no `gateway --nat`", "apt-get install nftables"),
    }
}

fn forwarder() -> Finding {
    if !Path::new("/dev/net/tun").exists() {
        return degraded("`--measure` cannot be used: no /dev/net/tun", "modprobe tun; or `--measure --via ebpf`");
    }
    if !rustix::process::geteuid().is_root() {
        return degraded("`--measure` cannot be used: not running as root", "sudo headstart run --measure -- CMD");
    }
    works(
        "`--measure`, but for multicast, broadcast, link-local IPv6 and protocols other than TCP, UDP and ICMP echo, which are dropped \
         (`headstart run --help`); `--via ebpf` touches no packet",
    )
}

fn kernel() -> Finding {
    let needs = "as root, on Linux 6.1 or later with BTF and cgroup v2; `--measure` works without it";
    let loaded = lacking().unwrap_or_else(|fault| Some(fault.to_string()));
    match loaded.map_or_else(|| cgroup::root().map_err(|e| e.to_string()), Err) {
        Ok(root) => works(format!("`--measure --via ebpf` on groups of {}", root.display())),
        Err(why) => degraded(format!("`--measure --via ebpf` cannot be used: {why}"), needs),
    }
}

fn namespaces(_: Option<&Path>) -> Finding {
    if rustix::process::geteuid().is_root() {
        return works("running as root");
    }
    // A process can only leave a user namespace by ending: a child tries.
    let tried = std::process::Command::new("unshare").args(["--user", "--net", "true"]).output();
    match tried {
        Ok(ended) if ended.status.success() => works("unprivileged user namespaces are allowed"),
        Ok(_) => degraded(
            "unprivileged user namespaces are disabled: the lab cannot run",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        Err(why) => degraded(format!("unshare(1) cannot be run: {why}"), "apt-get install util-linux"),
    }
}

fn system_calls(_: Option<&Path>) -> Finding {
    // The kernel lists what filters may answer; user_notif came with 5.0, the rest that is needed with 5.19.
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if !actions.split_whitespace().any(|action| action == "user_notif") {
        return degraded(
            "the kernel has no seccomp user notification: static programs are not covered",
            "Linux 5.19 or later",
        );
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 19) {
        works(format!("Linux {}", release.trim()))
    } else {
        degraded(format!("Linux {}: static programs are not covered", release.trim()), "Linux 5.19 or later")
    }
}
