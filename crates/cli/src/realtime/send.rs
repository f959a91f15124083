//! `headstart realtime send`: streams of small messages, one after the other.

use super::LANE;
use super::event::{self, Event};
use crate::exit::{self, Coded, Usage};
use crate::output::Format;
use crate::relay::runtime;
use headstart_core::time::Duration;
use headstart_realtime::keys::{PublicKey, SecretKey};
use headstart_realtime::relay::{Client, Destination};
use headstart_realtime::{Config, Kind, MAX_MESSAGE, Session};
use std::path::PathBuf;
use tokio::time::MissedTickBehavior;

/// How long is waited for what is on its way. Ours.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `headstart realtime send`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address of a `headstart realtime receive`.
    #[arg(value_name = "HOST:PORT")]
    to: Destination,
    /// Technique that keeps messages from waiting (`headstart list techniques`).
    #[arg(long, value_name = "NAME", default_value = headstart_realtime::technique::DEFAULT)]
    technique: String,
    /// Number of streams, sent one after the other.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    streams: u32,
    /// Messages per stream.
    #[arg(long, value_name = "COUNT", default_value_t = event::MESSAGES)]
    messages: u32,
    /// Interval between messages, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 30)]
    interval: u64,
    /// Message size in bytes.
    #[arg(long, value_name = "COUNT", default_value_t = event::BYTES)]
    bytes: usize,
    /// Drop unsent messages when a newer one is ready.
    #[arg(long)]
    latest: bool,
    /// Send through this relay.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["relay_key", "key"])]
    relay: Option<String>,
    /// Public key of the relay.
    #[arg(long, value_name = "PUBLIC", requires = "relay")]
    relay_key: Option<PublicKey>,
    /// File with this client's key for the relay.
    #[arg(long, value_name = "FILE", requires = "relay")]
    key: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

impl Args {
    fn check(&self) -> Result<(), Usage> {
        headstart_realtime::technique::find(&self.technique).map_err(|e| Usage(e.to_string()))?;
        if !(event::LEAST..=MAX_MESSAGE).contains(&self.bytes) {
            let why = format!("--bytes {}: must be from {} to {MAX_MESSAGE}", self.bytes, event::LEAST);
            return Err(Usage(why));
        }
        if self.interval == 0 || self.messages == 0 || self.streams == 0 {
            return Err(Usage("--interval, --messages and --streams must be at least 1".into()));
        }
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<Session> {
        let config = Config {
            technique: self.technique.clone(),
            interval: Some(Duration::from_millis(self.interval)),
            ..Config::default()
        };
        let session = match (&self.relay, self.relay_key, &self.key) {
            (Some(relay), Some(relay_key), Some(key)) => {
                Client::new(relay, &SecretKey::read(key).map_err(|why| Usage(why.to_string()))?, relay_key)?
                    .session(self.to.clone(), config)
                    .await
            }
            _ => Session::connect(self.to.to_string(), config).await,
        };
        session.map_err(|why| Coded(exit::UNREACHABLE, why.to_string()).into())
    }
}

/// Sends the streams and says what that took.
pub fn run(args: Args) -> anyhow::Result<u8> {
    args.check()?;
    runtime()?.block_on(async move {
        super::show("realtime send");
        let session = args.connect().await?;
        send(&session, &args).await?;
        let mut stats = session.stats();
        // However long the path was cut: a session is given up after thirty seconds by either side.
        let _ = tokio::time::timeout(PATIENCE, session.delivered()).await;
        let ending = session.ending();
        let arrived = session.clone().close().await;
        // Copies go out until all is there.
        let last = session.stats();
        (stats.written, stats.copies, stats.stalls) = (last.written, last.copies, last.stalls);
        let ms = |time: Option<Duration>| time.map(|t| t.as_secs_f64() * 1e3);
        let per_message = stats.written as f64 / stats.sent.max(1) as f64;
        if args.format.json {
            let object = serde_json::json!({
                "technique": args.technique, "sent": stats.sent, "written": stats.written, "copies": stats.copies,
                "written_per_message": per_message, "conflated": stats.conflated, "stalls": stats.stalls,
                "round_trip_ms": ms(stats.smoothed), "shortest_round_trip_ms": ms(stats.shortest),
                "state": stats.state.name(), "arrived": arrived,
            });
            crate::output::document(1, object);
        } else {
            let (sent, copies, stalls) = (stats.sent, stats.copies, stats.stalls);
            crate::say!(
                "{sent} messages with {}: {per_message:.2} writes each, {copies} copies, {stalls} stalls",
                args.technique
            );
            if let Some(rtt) = ms(stats.smoothed) {
                crate::say!("round trip {rtt:.1} ms, path state: {}", stats.state.name());
            }
        }
        if !arrived {
            let why = ending.map_or_else(String::new, |ending| format!(": {ending}"));
            crate::complain!("headstart: the receiver did not confirm all messages{why}");
        }
        Ok(if arrived { exit::OK } else { exit::FAILURE })
    })
}

/// Each message is made on its beat; one that could not be handed in before its next was due is as late as that made it.
async fn send(session: &Session, args: &Args) -> anyhow::Result<()> {
    let lane = session.lane(LANE, if args.latest { Kind::Latest } else { Kind::Event });
    let interval = Duration::from_millis(args.interval);
    let mut beats = tokio::time::interval(interval);
    beats.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut bytes = Vec::new();
    for stream in 0..args.streams {
        for number in 0..args.messages {
            let due = beats.tick().await;
            let late = due.elapsed();
            let late = if late >= interval { u64::try_from(late.as_nanos()).unwrap_or(u64::MAX) } else { 0 };
            let made = event::now().saturating_sub(late);
            Event { stream, number, of: args.messages, made }.encode(args.bytes, &mut bytes);
            lane.send_value(u64::from(stream), &bytes).await?;
        }
    }
    Ok(())
}
