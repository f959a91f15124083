//! `headstart telemetry send`: hands pending events to a collector (OTLP logs over HTTP). A process of its own, which a timer starts:
//! what sits in programs' connections sends nothing.
//!
//! A batch is deleted once the collector has accepted it, so a collector that is away, or a kill in between, loses nothing; what was
//! sent twice has the same ids. A batch of which the collector refused a part must not be sent again (OTLP, partial success): the latest
//! such batch is set aside, for a person to look at.

use super::logs;
use crate::exit;
use crate::otlp::MEDIA_TYPE;
use crate::output::{self, plural};
use crate::post::{self, Target};
use anyhow::Context as _;
use headstart_io::telemetry::Telemetry;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;

/// Arguments of `headstart telemetry send`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Collector, for example http://localhost:4318/v1/logs.
    #[arg(long, value_name = "URL")]
    to: Target,
    #[command(flatten)]
    format: output::Format,
}

/// What was sent.
#[derive(Debug, Default, PartialEq)]
struct Sent {
    batches: u64,
    events: u64,
    refused: u64,
    damaged: u64,
}

/// Sends them.
pub fn run(args: &Args, telemetry: &Telemetry) -> anyhow::Result<u8> {
    let mut sent = Sent::default();
    let batches = telemetry.close().context("reading telemetry")?;
    let came = batches.iter().try_for_each(|batch| hand_over(batch, args, telemetry, &mut sent));
    let Sent { batches, events, refused, damaged } = sent;
    if args.format.json {
        let said =
            serde_json::json!({ "batches": batches, "events": events, "refused": refused, "damaged_lines": damaged });
        output::document(1, said);
    } else {
        crate::say!("{} sent to {}", plural(events, "event"), args.to);
    }
    if damaged > 0 {
        crate::complain!(
            "headstart: {} contained no event (a writer was killed) and left out",
            plural(damaged, "line")
        );
    }
    came?;
    Ok(if refused > 0 { exit::DEGRADED } else { exit::OK })
}

/// Hands one batch over, and deletes it, or sets it aside.
fn hand_over(batch: &Path, Args { to, .. }: &Args, telemetry: &Telemetry, sent: &mut Sent) -> anyhow::Result<()> {
    let bytes = match std::fs::read(batch) {
        // Another took it away.
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        bytes => bytes.with_context(|| format!("reading {}", batch.display()))?,
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let (events, damaged): (Vec<_>, Vec<_>) =
        lines.map(|line| serde_json::from_slice(line).ok().filter(Value::is_object).ok_or(())).partition(Result::is_ok);
    let events: Vec<Value> = events.into_iter().flatten().collect();
    let mut aside = None;
    if !events.is_empty() {
        let answer = post::post_and_read(to, MEDIA_TYPE, logs::request(&events))?;
        if let Some((count, why)) = logs::refused(&answer) {
            let kept = telemetry.refused();
            let what = plural(count, "event");
            crate::complain!("headstart: {to} has refused {what}: {why}; their batch is kept as {}", kept.display());
            sent.refused += count;
            aside = Some(kept);
        }
    }
    sent.batches += 1;
    sent.events += events.len() as u64;
    sent.damaged += damaged.len() as u64;
    let (done, what) = match aside {
        Some(kept) => (std::fs::rename(batch, kept), "setting aside"),
        None => (std::fs::remove_file(batch), "deleting"),
    };
    match done {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("{what} {}", batch.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::Tally;
    use headstart_io::telemetry::Settings;

    fn telemetry(folder: &Path) -> Telemetry {
        let (folder, key) = (folder.join("out"), folder.join("key"));
        Telemetry::open(&Settings { folder, key, names: false, label: "office".into(), most: 1 << 20 }).unwrap()
    }

    fn send(telemetry: &Telemetry, to: std::net::SocketAddr) -> anyhow::Result<u8> {
        let to = format!("http://{to}/v1/logs").parse().unwrap();
        run(&Args { to, format: output::Format { json: true } }, telemetry)
    }

    #[test]
    fn what_a_collector_has_accepted_is_deleted_and_what_it_has_not_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut telemetry = telemetry(folder.path());
        telemetry.run("curl", &Tally::default());
        let (address, served) = post::server(&[503, 200]);
        let why = format!("{:#}", send(&telemetry, address).unwrap_err());
        assert!(why.contains("503"), "{why}");
        telemetry.run("wget", &Tally::default());
        let [first, second] = &telemetry.batches().unwrap()[..] else { panic!("two batches") };
        // A line that a killed writer has left.
        let text = std::fs::read_to_string(first).unwrap();
        std::fs::write(first, format!("{text}{{\"kind\":")).unwrap();
        std::fs::remove_file(second).unwrap();
        assert_eq!(send(&telemetry, address).unwrap(), exit::OK);
        assert_eq!(telemetry.batches().unwrap(), Vec::<std::path::PathBuf>::new());
        let requests = served.join().unwrap();
        assert_eq!(requests[0].1, requests[1].1, "the same event, and half a line is none");
        assert!(requests[1].0.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{}", requests[1].0);
        assert!(requests[1].0.to_lowercase().contains("content-type: application/x-protobuf"), "{}", requests[1].0);
        assert_eq!(send(&telemetry, address).unwrap(), exit::OK, "there is nothing, and no request");
    }

    #[test]
    fn a_batch_of_which_a_part_is_refused_is_set_aside_and_never_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut telemetry = telemetry(folder.path());
        telemetry.run("curl", &Tally::default());
        let [batch] = &telemetry.batches().unwrap()[..] else { panic!("one batch") };
        let text = std::fs::read(batch).unwrap();
        let (address, served) = post::answering(vec![(200, logs::refusal(1, "too old"))]);
        assert_eq!(send(&telemetry, address).unwrap(), exit::DEGRADED);
        assert_eq!(served.join().unwrap().len(), 1);
        assert_eq!(std::fs::read(telemetry.refused()).unwrap(), text);
        assert_eq!(telemetry.batches().unwrap(), Vec::<std::path::PathBuf>::new());
        assert_eq!(send(&telemetry, address).unwrap(), exit::OK, "there is nothing, and no request");
    }
}
