//! `headstart run -- CMD`: a program whose names are resolved and whose connections are opened ahead of time.
//!
//! The supervisor is this process; the program is its child, with the library preloaded. Standard input, output and
//! error are the program's; headstart says one line on standard error afterwards.

use crate::exit;
use anyhow::Context as _;
use clap::ValueEnum;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Settings, Tally, race};
use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_io::folder::Folder;
use headstart_io::names::Names;
use headstart_io::program::{self, Reach};
use headstart_io::supervisor::Supervisor;
use headstart_io::sys::signal;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;

/// The preloaded library, as the build made it.
const LIBRARY: &[u8] = include_bytes!(env!("HEADSTART_LIBRARY"));

/// Arguments of `headstart run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The race that orders lookups and connections (see `headstart list races`).
    #[arg(long, value_name = "NAME", default_value = race::DEFAULT)]
    race: String,
    /// How long answers are kept: `ttl`, `off`, or seconds such as `3600s` (paper 1).
    #[arg(long, value_name = "TIME", default_value = "ttl", value_parser = lifetime)]
    cache_lifetime: Lifetime,
    /// Share of races that try the other family too, to learn.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = share)]
    explore: f64,
    /// How the program is reached.
    #[arg(long, value_enum, default_value_t = Via::Preload)]
    via: Via,
    /// Do not say what was gained.
    #[arg(short, long)]
    quiet: bool,
    /// Write what was gained and what it cost to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// For the lab's `oracle`: a file of lines `NAME 4` or `NAME 6`.
    #[arg(long, value_name = "FILE", hide = true)]
    faster: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Ways to reach a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Via {
    /// A library preloaded into dynamically linked programs.
    Preload,
}

fn lifetime(text: &str) -> Result<Lifetime, String> {
    match text {
        "ttl" => Ok(Lifetime::Ttl),
        "off" => Ok(Lifetime::Off),
        _ => {
            let seconds = text.strip_suffix('s').unwrap_or(text).parse::<u64>();
            seconds
                .map(|s| Lifetime::Fixed(Duration::from_secs(s)))
                .map_err(|_| "give ttl, off, or seconds such as 3600s".into())
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s| (0.0..=1.0).contains(s)).ok_or_else(|| "give a share between 0 and 1".into())
}

/// Runs the program; its exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let entry = race::find(&args.race).map_err(|e| exit::Usage(e.to_string()))?;
    if entry.lab_only && args.faster.is_none() {
        return Err(
            exit::Usage(format!("race {:?} knows what no host can know; only the lab runs it", entry.name)).into()
        );
    }
    let mut settings = Settings::of(entry);
    settings.lifetime = args.cache_lifetime;
    settings.explore = args.explore;
    settings.seed = u64::from(std::process::id());
    if let Some(file) = &args.faster {
        settings.faster = faster(file)?;
    }
    let program = &args.command[0];
    let off = std::env::var_os("HEADSTART").is_some_and(|v| v == "off");
    let uncovered = if off { Some("HEADSTART=off".into()) } else { why_not(program) };

    let mut command = Command::new(program);
    command.args(&args.command[1..]);
    if let Some(why) = uncovered {
        if !args.quiet {
            crate::complain!("headstart: {} is not covered: {why}", program.to_string_lossy());
        }
        return supervised(command, None, program).map(|(code, _)| code);
    }
    // From before there is anything to leave behind.
    signal::pass_on_to(0).context("handling signals")?;
    let folder = Folder::create(LIBRARY)?;
    let supervisor = Supervisor::new(&folder, settings, Names::of_host())?;
    let mut preload = folder.library().into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload).env("HEADSTART_DIR", folder.path());
    let (code, supervisor) = supervised(command, Some(supervisor), program)?;
    if let Some(supervisor) = supervisor {
        if let Some(file) = &args.summary {
            let text = summary(&supervisor).to_string();
            std::fs::write(file, text).with_context(|| format!("writing the summary to {}", file.display()))?;
        }
        if !args.quiet {
            crate::complain!("headstart: {}", in_words(&supervisor));
        }
    }
    Ok(code)
}

/// Starts `command`, serves it until it ends, and says how it ended.
fn supervised(
    mut command: Command,
    mut supervisor: Option<Supervisor>,
    program: &OsStr,
) -> anyhow::Result<(u8, Option<Supervisor>)> {
    // What comes from now on is kept for the program.
    signal::pass_on_to(0).context("handling signals")?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            crate::complain!("headstart: {}: {e}", program.to_string_lossy());
            let code = if e.kind() == std::io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::CANNOT_RUN };
            return Ok((code, None));
        }
    };
    // What is sent to headstart is meant for the program; what the keyboard sends, the program gets itself.
    let pid = i32::try_from(child.id()).context("the child's process id")?;
    signal::pass_on_to(pid).context("handling signals")?;
    if let Some(supervisor) = &mut supervisor {
        let ended = ended(pid)?;
        supervisor.run_until(&ended).context("serving the program")?;
    }
    let status = child.wait().context("waiting for the program")?;
    // Its number may be another's from now on.
    signal::pass_on_to(0).context("handling signals")?;
    Ok((exit::of_child(status), supervisor))
}

/// A descriptor that becomes readable when process `pid` ends.
fn ended(pid: i32) -> anyhow::Result<OwnedFd> {
    headstart_io::process_end(pid).context("watching the program")
}

fn why_not(program: &OsStr) -> Option<String> {
    let path = program::find(program, std::env::var_os("PATH").as_deref())?;
    match program::reach(&path) {
        Ok(reach) => Reach::why_not(&reach),
        // A file that cannot be read can perhaps be run; the loader will see.
        Err(_) => None,
    }
}

fn faster(file: &std::path::Path) -> anyhow::Result<HashMap<String, Family>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let line = |(n, line): (usize, &str)| match line.split_once(' ') {
        Some((name, "4")) => Ok((name.to_owned(), Family::V4)),
        Some((name, "6")) => Ok((name.to_owned(), Family::V6)),
        _ => Err(exit::Usage(format!("{}:{}: {line:?} is not NAME 4 or NAME 6", file.display(), n + 1)).into()),
    };
    text.lines().enumerate().map(line).collect()
}

fn ms(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e6).round() / 1e3
}

/// Version of the summary's format.
const SUMMARY_VERSION: u32 = 1;

fn summary(supervisor: &Supervisor) -> serde_json::Value {
    let Tally {
        resolved,
        unresolved,
        cache_hits,
        cache_misses,
        queries,
        attempts,
        explorations,
        handed_over,
        handed_over_in_progress,
        failed,
        unused,
        passed,
        lookup_wait,
        connect_wait,
        handshakes,
    } = &supervisor.tally();
    let passed: serde_json::Map<_, _> = passed.iter().map(|(p, n)| (p.describe().to_owned(), (*n).into())).collect();
    serde_json::json!({
        "version": SUMMARY_VERSION,
        "processes": supervisor.processes(),
        "resolved": resolved,
        "unresolved": unresolved,
        "cache_hits": cache_hits,
        "cache_misses": cache_misses,
        "queries": queries,
        "attempts": attempts,
        "explorations": explorations,
        "handed_over": handed_over,
        "handed_over_in_progress": handed_over_in_progress,
        "failed": failed,
        "unused": unused,
        "passed": passed,
        "lookup_wait_ms": ms(*lookup_wait),
        "connect_wait_ms": ms(*connect_wait),
        "handshakes_ms": ms(*handshakes),
        "ignored_dns_messages": supervisor.ignored_messages(),
    })
}

fn in_words(supervisor: &Supervisor) -> String {
    let t = supervisor.tally();
    if supervisor.processes() == 0 {
        return "the program never looked up a name or connected through its C library; nothing to gain here".into();
    }
    let plural = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let mut parts = vec![format!(
        "{} resolved ({} of {} lookups from the cache) in {:.1} ms",
        plural(t.resolved, "name"),
        t.cache_hits,
        t.cache_hits + t.cache_misses,
        ms(t.lookup_wait)
    )];
    if t.handed_over > 0 {
        parts.push(format!(
            "{} handed over after {:.1} ms of waiting for {:.1} ms of handshakes",
            plural(t.handed_over, "connection"),
            ms(t.connect_wait),
            ms(t.handshakes)
        ));
    }
    if t.handed_over_in_progress > 0 {
        parts.push(format!("{} handed over under way", plural(t.handed_over_in_progress, "connection")));
    }
    if t.unused > 0 {
        parts.push(format!("{} opened and not used", t.unused));
    }
    if !t.passed.is_empty() {
        let reasons: Vec<_> = t.passed.iter().map(|(p, n)| format!("{n} {}", p.describe())).collect();
        parts.push(format!("left alone: {}", reasons.join(", ")));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_and_shares_are_read_or_explained() {
        assert_eq!(lifetime("3600s"), Ok(Lifetime::Fixed(Duration::from_secs(3600))));
        assert_eq!((lifetime("ttl"), lifetime("off")), (Ok(Lifetime::Ttl), Ok(Lifetime::Off)));
        assert!(lifetime("soon").unwrap_err().contains("3600s"));
        assert!(share("1.5").is_err() && share("x").is_err() && share("0.5") == Ok(0.5));
    }

    #[test]
    fn the_library_is_embedded_whole() {
        assert!(LIBRARY.starts_with(b"\x7fELF") && LIBRARY.len() > 10_000);
    }
}
