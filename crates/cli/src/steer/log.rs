//! `headstart steer log`: what the tunnel of the daemon decides, as events of qlog (draft-ietf-quic-qlog-main-schema-12, JSON text sequences)
//! with an event schema of our own, `docs/reference/schemas/qlog-steer.json`. Decisions are told by reason and look, not by packet: a process of
//! its own asks the daemon now and then, so that no packet waits for a disk.

use crate::exit::{self, Coded, Usage};
use crate::input;
use anyhow::Context as _;
use headstart_io::clock::wall;
use headstart_io::daemon::client::ask;
use headstart_io::daemon::message::{Answer, Wish};
use headstart_io::host::folders::Folders;
use headstart_io::steer::{ChannelStatus, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Arguments of `headstart steer log`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write; `-` is standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Seconds between looks.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 0.5)]
    interval: f64,
}

/// Writes until SIGINT or SIGTERM, or until there is no tunnel any more.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let every = input::interval(args.interval)?;
    let mut out: Box<dyn Write> = match &args.file {
        file if file == Path::new("-") => Box::new(std::io::stdout()),
        file => Box::new(File::create(file).map_err(|why| Usage::unwritable(file, why))?),
    };
    let ending = headstart_io::sys::signal::ending().context("waiting for signals")?;
    let Some(first) = tunnel()? else {
        return Err(
            Coded(exit::FAILURE, "no tunnel over two channels: `headstart up --steer FILE` opens one".into()).into()
        );
    };
    let mut log = Log::default();
    let mut write = |records: Vec<Value>| -> anyhow::Result<()> {
        for record in records {
            writeln!(out, "\u{1e}{record}").with_context(|| format!("writing {}", args.file.display()))?;
        }
        out.flush().with_context(|| format!("writing {}", args.file.display()))
    };
    write(vec![head(&first)])?;
    let mut now = Some(first);
    while let Some(status) = now {
        let ms = wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3;
        write(log.look(&status, ms.round()))?;
        let timeout = Timespec { tv_sec: every.as_secs() as i64, tv_nsec: i64::from(every.subsec_nanos()) };
        if poll(&mut [PollFd::new(&ending, PollFlags::IN)], Some(&timeout)).unwrap_or(0) > 0 {
            return Ok(exit::OK);
        }
        now = tunnel()?;
    }
    crate::complain!("headstart: the tunnel is gone");
    Ok(exit::OK)
}

/// How the tunnel is; none if there is none, or no daemon.
fn tunnel() -> anyhow::Result<Option<Status>> {
    match ask(&Folders::of_host()?, Wish::Status) {
        Ok(Answer::Status(status)) => Ok(status.steering),
        Ok(Answer::Refused { why }) => Err(Coded(exit::FAILURE, why).into()),
        _ => Ok(None),
    }
}

fn head(status: &Status) -> Value {
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": "headstart steer log",
        "trace": {
            "title": format!("{}, policy {}", status.interface, status.policy),
            "event_schemas": ["urn:headstart:qlog:steer"],
            "vantage_point": { "type": "network" },
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "system", "epoch": "1970-01-01T00:00:00.000Z" },
            },
        },
    })
}

/// The state that was written last.
#[derive(Default)]
struct Log {
    channels: BTreeMap<String, Value>,
    packets: BTreeMap<(String, String), (u64, f64)>,
    tunnel: Value,
}

impl Log {
    /// What is new since the last look, at a moment in milliseconds since 1970.
    fn look(&mut self, status: &Status, ms: f64) -> Vec<Value> {
        let mut news = Vec::new();
        for channel in &status.channels {
            let now = of_channel(channel);
            if self.channels.insert(channel.channel.clone(), now.clone()).as_ref() != Some(&now) {
                news.push(("channel_updated", now));
            }
        }
        for reason in &status.reasons {
            let gained = reason.gained_ms * reason.packets as f64;
            let key = (reason.channel.clone(), reason.why.clone());
            let (before, gained_before) = self.packets.insert(key, (reason.packets, gained)).unwrap_or_default();
            let packets = reason.packets.saturating_sub(before);
            if packets > 0 {
                let mean = (1e3 * (gained - gained_before) / packets as f64).round() / 1e3;
                let data =
                    json!({ "channel": reason.channel, "reason": reason.why, "packets": packets, "gained_ms": mean });
                news.push(("packets_steered", data));
            }
        }
        let now = json!({
            "queued": status.queued, "failovers": status.failovers, "resent": status.again, "both": status.twice,
            "moved": status.moved, "dropped": status.dropped,
        });
        if self.tunnel != now {
            self.tunnel = now.clone();
            news.push(("tunnel_updated", now));
        }
        news.into_iter()
            .map(|(name, data)| json!({ "time": ms, "name": format!("steer:{name}"), "data": data }))
            .collect()
    }
}

fn of_channel(channel: &ChannelStatus) -> Value {
    json!({
        "channel": channel.channel, "alive": channel.alive, "uses": channel.uses,
        "smoothed_rtt": channel.rtt_ms.map(|ms| (ms * 1e3).round() / 1e3), "loss_percent": (channel.loss * 10.0).round() / 10.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_io::steer::ReasonStatus;

    fn status(packets: u64, gained_ms: f64, alive: bool) -> Status {
        let text = json!({
            "interface": "steer0", "policy": "pkt-state", "reasons": [], "replaced": 0, "held": [0, 0], "bundled": null,
            "failovers": u64::from(!alive),
            "refused": { "datagrams": 0, "frames": 0, "sources": 0, "destinations": 0, "packets": 0, "contexts": 0, "nowhere": 0 },
            "channels": [{ "channel": "fast", "uses": "primary", "cap": null, "alive": alive, "loss": 0.0, "peer": null,
                "rtt_ms": 5.0, "packets": packets, "bytes": 1, "share": 100.0 }],
        });
        let mut status: Status = serde_json::from_value(text).unwrap();
        let why = "sooner".to_owned();
        status.reasons = vec![ReasonStatus { why, channel: "fast".into(), packets, gained_ms }];
        status
    }

    #[test]
    fn a_look_tells_what_is_new_and_nothing_else() {
        let mut log = Log::default();
        let names =
            |news: &[Value]| news.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        let first = log.look(&status(10, 4.0, true), 1.0);
        assert_eq!(names(&first), ["steer:channel_updated", "steer:packets_steered", "steer:tunnel_updated"]);
        assert_eq!(log.look(&status(10, 4.0, true), 2.0), Vec::<Value>::new());
        // Ten packets gained 4 ms each, 20 in all 5 ms: the ten between gained 6 ms.
        let more = log.look(&status(20, 5.0, true), 3.0);
        assert_eq!(names(&more), ["steer:packets_steered"]);
        assert_eq!((&more[0]["data"]["packets"], &more[0]["data"]["gained_ms"]), (&json!(10), &json!(6.0)));
        let lost = log.look(&status(20, 5.0, false), 4.0);
        assert_eq!(names(&lost), ["steer:channel_updated", "steer:tunnel_updated"]);
        assert_eq!(lost[1]["data"]["failovers"], 1);
    }
}
