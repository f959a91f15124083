//! `headstart status`: whether a daemon is up, what it has changed, what is not as it should be.
//!
//! JSON: `up`, and the fields of `headstart_io::daemon::message::Status`; where none is up, `left_behind` tells whether
//! one has been killed (null if the caller may not see that), and `found` lists what bears headstart's marks without a record.

use super::{explained, numbers, settings_or_defaults, unrecorded};
use crate::exit::{self, Coded};
use crate::output::{self, Format};
use crate::say;
use headstart_io::daemon::client::{AskError, ask};
use headstart_io::daemon::measuring::Status as Measuring;
use headstart_io::daemon::message::{Answer, BundlingTally, Starts, Status, Wish};
use headstart_io::daemon::recovery::left_without_record;
use headstart_io::forward::ebpf::Ran;
use headstart_io::host::folders::Folders;
use headstart_io::steer::{self, CapStatus, ChannelStatus, ReasonStatus};
use std::path::Path;

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: Format,
}

/// Tells how it is.
pub fn run(args: &Args, named: Option<&Path>) -> anyhow::Result<u8> {
    let folders = Folders::of_host().map_err(|e| explained(e.into()))?;
    match ask(&folders, Wish::Status) {
        Ok(Answer::Status(status)) => {
            let code = if status.problems.is_empty() { exit::OK } else { exit::DEGRADED };
            if args.format.json {
                let mut object = serde_json::to_value(&status)?;
                object["up"] = true.into();
                output::document(VERSION, object);
            } else {
                tell(&status);
            }
            Ok(code)
        }
        Ok(other) => anyhow::bail!("unexpected answer from the daemon: {other:?}"),
        Err(AskError::NotUp) => not_up(&folders, args.format, named),
        Err(why @ AskError::Denied { .. }) => Err(Coded(exit::NOT_PERMITTED, why.to_string()).into()),
        Err(why) => Err(Coded(exit::UNREACHABLE, why.to_string()).into()),
    }
}

/// Tells what is left where no daemon is up.
fn not_up(folders: &Folders, format: Format, named: Option<&Path>) -> anyhow::Result<u8> {
    let left_behind = folders.has_journal();
    let numbers = numbers(&settings_or_defaults(named));
    // What a journal names is found, too.
    let found = match left_behind {
        Some(true) => Vec::new(),
        _ => left_without_record(folders, numbers).map_err(explained)?.in_words(),
    };
    if format.json {
        output::document(VERSION, serde_json::json!({ "up": false, "left_behind": left_behind, "found": found }));
    } else {
        match left_behind {
            Some(true) => {
                say!("down; a daemon was killed and its changes remain: undo them with `headstart recover`")
            }
            _ if !found.is_empty() => say!("down; {}", unrecorded(&found)),
            Some(false) => say!("down"),
            None => say!("down; only its owner or root can see whether a killed daemon left changes"),
        }
    }
    let is_left = left_behind == Some(true) || !found.is_empty();
    Ok(if is_left { exit::NEEDS_RECOVER } else { exit::UNREACHABLE })
}

fn tell(status: &Status) {
    let Status {
        pid,
        up_ms,
        wakeups,
        causes,
        changes,
        omitted,
        initial_windows,
        starts,
        bundling,
        steering,
        measuring,
        problems,
    } = status;
    say!("up for {} s (process {pid}, {wakeups} wake-ups)", up_ms / 1000);
    if !causes.is_empty() {
        say!("woken by: {}", output::by_cause(causes));
    }
    if let Some(peers) = initial_windows {
        let by = if starts.is_some() { ", by a program in the kernel" } else { "" };
        say!("initial windows: {peers} peers{by}");
    }
    if let Some(Starts { given, lost, syns }) = starts {
        say!(
            "  {given} connections began larger, {lost} of them lost packets then; {syns} SYNs with a shorter timeout"
        );
    }
    if let Some(BundlingTally { outgoing, bundled, bytes, .. }) = bundling {
        say!("bundling: {bundled} of {outgoing} small segments repeated {bytes} bytes");
    }
    if let Some(steering) = steering {
        tell_steering(steering);
    }
    if let Some(measuring) = measuring {
        tell_measuring(measuring, *pid);
    }
    for change in changes {
        say!("  {}", shortly(change));
    }
    if *omitted > 0 {
        say!("  and {omitted} more changes");
    }
    for problem in problems {
        say!("problem: {problem}");
    }
}

fn tell_measuring(measuring: &Measuring, pid: u32) {
    let (interface, captured) = (&measuring.interface, measuring.captured.join(", "));
    let accelerated = if measuring.accelerated { " (accelerated)" } else { "" };
    let how = if interface.is_empty() {
        "all programs, in the kernel (eBPF)".to_owned()
    } else {
        format!("{captured}, through {interface}")
    };
    say!("measuring{accelerated}: {how}; watch it with `headstart top {pid}`");
    if let Some(Ran { times, ns }) = measuring.ran {
        say!("  its programs ran {times} times, {:.3} s of a processor in all", ns as f64 / 1e9);
    } else if measuring.via == "ebpf" {
        say!(
            "  how long its programs run is not known: start it with CAP_SYS_ADMIN, or set kernel.bpf_stats_enabled = 1"
        );
    }
}

/// A change in a line: of a table of nftables its name, because its rules fill a screen; `plan` and `--json` have them.
fn shortly(change: &str) -> std::borrow::Cow<'_, str> {
    let table = change.strip_prefix("nft 'create table ").and_then(|rest| rest.split_once(" {"));
    table.map_or(change.into(), |(name, _)| format!("nftables table {name}").into())
}

fn tell_steering(status: &steer::Status) {
    let steer::Status { interface, policy, channels, reasons, replaced, held, bundled, refused, .. } = status;
    let steer::Status { queued, failovers, moved, twice, again, dropped, .. } = status;
    say!("steering: {interface}, by {policy}");
    for ChannelStatus { channel, uses, cap, alive, loss, peer, rtt_ms, packets, share, .. } in channels {
        let state = if *alive { "alive" } else { "dead" };
        let peer = peer.as_deref().unwrap_or("no peer yet");
        let rtt = rtt_ms.map_or_else(|| "not measured".to_owned(), |ms| format!("{ms:.1} ms"));
        say!(
            "  {channel:4}  {state}, {peer}, {uses}, round trip {rtt}, {loss:.1} % lost, {packets} packets, {share:.1} % of bytes"
        );
        if let Some(CapStatus { limit, used, left_s }) = cap {
            let [limit, used] = [limit, used].map(|bytes| *bytes as f64 / 1e6);
            say!("        {used:.1} MB of {limit:.1} MB used, {:.1} h to go", *left_s as f64 / 3_600.0);
        }
    }
    for ReasonStatus { why, channel, packets, gained_ms } in reasons {
        say!("  {channel:4}  {why}: {packets} packets, {gained_ms:.1} ms earlier each");
    }
    say!("  {replaced} acknowledgements replaced, {} packets reordered, {} of them timed out", held[0], held[1]);
    say!(
        "  {failovers} failovers, {again} packets resent, {twice} sent over both, {moved} moved to fat; {queued} are queued for fast, {dropped} dropped"
    );
    if let Some(bundled) = bundled {
        say!("  {bundled} packets of thin streams repeated earlier packets");
    }
    let steer::Refused { datagrams, frames, sources, destinations, packets, contexts, nowhere } = refused;
    let all = datagrams + frames + sources + destinations + packets + contexts + nowhere;
    if all > 0 {
        say!(
            "  dropped: {datagrams} datagrams, {frames} frames, {sources} by source, {destinations} by destination, {packets} packets; \
             {contexts} without their compression context, {nowhere} without a route"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_io::host::change::{Change, bundle::Bundle};

    #[test]
    fn of_a_table_the_name_is_shown() {
        let change = Change::Bundle(Bundle::new(7)).to_string();
        assert!(change.len() > 500, "{change}");
        assert_eq!(shortly(&change), "nftables table inet headstart-bundle");
        assert_eq!(shortly("ip route add 198.51.100.7 via 192.0.2.1"), "ip route add 198.51.100.7 via 192.0.2.1");
    }
}
