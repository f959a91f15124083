//! What a run has gained, as JSON and in words. Nothing is counted here.

use crate::exit::Usage;
use crate::input::check_writable;
use crate::output::plural;
use headstart_core::connect::Tally;
use headstart_core::time::Duration;
use headstart_io::control::Summary;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

fn ms(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e6).round() / 1e3
}

/// Version of the summary's format.
const SUMMARY_VERSION: u32 = 2;

/// The file that a summary goes to. A pipe is opened before the program runs and before signals are kept for it: one that nothing
/// reads from is waited for, which may be interrupted. Any other file is written only where there is a summary.
pub enum Destination {
    /// A file, and the descriptor of one that is a pipe.
    File(PathBuf, Option<File>),
    /// Standard error, on a line of its own (`--json`).
    StandardError,
}

impl Destination {
    /// That of `path`, if one is wanted; an error where no file can be written. A pipe that cannot be opened is named, and the
    /// program runs without a summary. With `json` and no path, it goes to standard error.
    pub fn open(path: Option<&Path>, json: bool) -> Result<Option<Self>, Usage> {
        let Some(path) = path.map(Path::to_owned) else { return Ok(json.then_some(Self::StandardError)) };
        let is_pipe = std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_fifo());
        if !is_pipe {
            check_writable(&path)?;
        }
        let pipe = is_pipe.then(|| File::options().write(true).open(&path)).transpose();
        let pipe = pipe.inspect_err(|why| failed(&path, why));
        Ok(pipe.ok().map(|pipe| Self::File(path, pipe)))
    }

    /// Writes the summary.
    pub fn write(self, summary: &serde_json::Value) {
        let text = summary.to_string();
        match self {
            Self::StandardError => crate::complain!("{text}"),
            Self::File(path, pipe) => {
                let written = match pipe {
                    Some(mut pipe) => pipe.write_all(text.as_bytes()),
                    None => std::fs::write(&path, text),
                };
                let _ = written.inspect_err(|why| failed(&path, why));
            }
        }
    }
}

fn failed(path: &Path, why: &std::io::Error) {
    crate::complain!("headstart: writing the summary to {}: {why}", path.display());
}

/// The summary as one JSON object.
pub fn json(summary: &Summary) -> serde_json::Value {
    let Tally {
        resolved,
        unresolved,
        asked,
        not_waited_for,
        cache_hits,
        cache_misses,
        queries,
        attempts,
        explorations,
        handed_over,
        handed_over_in_progress,
        failed,
        unused,
        at_once,
        queries_ahead,
        spares,
        spares_taken,
        optimistic,
        missed,
        passed,
        lookup_wait,
        connect_wait,
        handshakes,
    } = &summary.tally;
    let missed: serde_json::Map<_, _> = missed.iter().map(|(m, n)| (m.describe().to_owned(), (*n).into())).collect();
    let passed: serde_json::Map<_, _> = passed.iter().map(|(p, n)| (p.describe().to_owned(), (*n).into())).collect();
    serde_json::json!({
        "version": SUMMARY_VERSION,
        "processes": summary.processes,
        "connect_calls": summary.connects_heard,
        "resolved": resolved,
        "unresolved": unresolved,
        "program_queries": asked,
        "answered_without_other_family": not_waited_for,
        "cache_hits": cache_hits,
        "cache_misses": cache_misses,
        "queries": queries,
        "attempts": attempts,
        "explorations": explorations,
        "handed_over": handed_over,
        "handed_over_in_progress": handed_over_in_progress,
        "failed": failed,
        "unused": unused,
        "handed_over_without_wait": at_once,
        "queries_ahead": queries_ahead,
        "spares": spares,
        "spares_taken": spares_taken,
        "optimistic": optimistic,
        "spare_misses": missed,
        "not_handled": passed,
        "lookup_wait_ms": ms(*lookup_wait),
        "connect_wait_ms": ms(*connect_wait),
        "handshakes_ms": ms(*handshakes),
        "ignored_dns_messages": summary.ignored_messages,
    })
}

/// The summary in a line for people.
pub fn in_words(summary: &Summary) -> String {
    let t = &summary.tally;
    let mut parts = Vec::new();
    match summary.processes {
        0 if summary.connects_heard == 0 => {
            return "nothing to gain: the program made no lookups or connections".into();
        }
        0 if t.connections() + t.failed + t.asked == 0 => {
            let heard = plural(summary.connects_heard, "connect");
            parts.push(format!("nothing to gain: {heard}, but no lookups through the C library"));
        }
        0 => {}
        _ => parts.push(format!(
            "{} resolved in {:.1} ms ({} of {} lookups cached)",
            plural(t.resolved, "name"),
            ms(t.lookup_wait),
            t.cache_hits,
            t.cache_hits + t.cache_misses
        )),
    }
    if t.asked > 0 {
        let mut part = format!("{} of the program answered", plural(t.asked, "DNS query"));
        if t.not_waited_for > 0 {
            part += &format!(", {} without waiting for the slower address family", t.not_waited_for);
        }
        parts.push(part);
    }
    if t.handed_over > 0 {
        parts.push(format!(
            "{} ready after {:.1} ms of waiting (handshakes took {:.1} ms)",
            plural(t.handed_over, "connection"),
            ms(t.connect_wait),
            ms(t.handshakes)
        ));
    }
    if t.spares_taken > 0 {
        parts.push(format!("{} opened ahead of time", t.spares_taken));
    }
    if t.handed_over_in_progress > 0 {
        parts.push(format!("{} handed over while connecting", plural(t.handed_over_in_progress, "connection")));
    }
    if t.unused > 0 {
        parts.push(format!("{} opened but unused", t.unused));
    }
    if !t.passed.is_empty() {
        let reasons: Vec<_> = t.passed.iter().map(|(p, n)| format!("{n} {}", p.describe())).collect();
        parts.push(format!("not handled: {}", reasons.join(", ")));
    }
    parts.join("; ")
}
