//! `headstart realtime receive`: what came, and how late.

use super::event::{self, Event};
use crate::exit;
use crate::output::Format;
use crate::relay::runtime;
use headstart_core::forward::active::RoundTrips;
use headstart_realtime::{Listener, Session, Why};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// ITU-T Y.1541, class 0: what a person does not notice. Paper 4, section 2.
const BOUND_MS: f64 = 100.0;

/// Arguments of `headstart realtime receive`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on. On a non-loopback address, any host that can reach it may send.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7602")]
    listen: SocketAddr,
    /// Number of senders to receive from before exiting.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    senders: u32,
    /// Clocks are not synchronised; delays are relative to the fastest message, which counts as half the shortest round trip
    /// (or zero).
    #[arg(long)]
    clocks_apart: bool,
    #[command(flatten)]
    format: Format,
}

/// What came of one sender.
#[derive(Debug, Default)]
struct Account {
    /// Delays in milliseconds, by stream and number.
    delays: BTreeMap<(u32, u32), f64>,
    expected: BTreeMap<u32, u32>,
    doubled: u64,
    strange: u64,
}

impl Account {
    fn take(&mut self, now: u64, bytes: &[u8]) {
        let Some(event) = Event::decode(bytes).filter(|event| event.number < event.of) else {
            self.strange += 1;
            return;
        };
        // A stream that says now so many and now fewer is foreign, and is as long as it ever was.
        let expected = self.expected.entry(event.stream).or_default();
        *expected = event.of.max(*expected);
        // Signed: clocks of two hosts, or one that is set back.
        let delay = now.wrapping_sub(event.made) as i64 as f64 / 1e6;
        if self.delays.insert((event.stream, event.number), delay).is_some() {
            self.doubled += 1;
        }
    }

    /// Counts delays from the fastest message's, which took `least` milliseconds.
    fn align(&mut self, least: f64) {
        let fastest = self.delays.values().copied().fold(f64::INFINITY, f64::min);
        self.delays.values_mut().for_each(|delay| *delay += least - fastest);
    }

    fn summary(&self) -> serde_json::Value {
        let delays: Vec<f64> = self.delays.values().copied().collect();
        let mut streams: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
        for ((stream, _), delay) in &self.delays {
            let (sum, count) = streams.entry(*stream).or_default();
            (*sum, *count) = (*sum + delay, *count + 1);
        }
        let means: Vec<f64> = streams.values().map(|(sum, count)| sum / f64::from(*count)).collect();
        let expected: u64 = self.expected.values().map(|of| u64::from(*of)).sum();
        let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let late = delays.iter().filter(|delay| **delay > BOUND_MS).count();
        let mean_ms = mean(&delays);
        // Not round trips, but their quantiles.
        let (delays, means) = (RoundTrips(delays), RoundTrips(means));
        serde_json::json!({
            "streams": streams.len(), "expected": expected, "received": delays.0.len(),
            "missing": expected - delays.0.len() as u64, "doubled": self.doubled, "strange": self.strange,
            "mean_ms": mean_ms, "p50_ms": delays.median(), "p95_ms": delays.quantile(0.95),
            "p99_ms": delays.quantile(0.99),
            "over_100_ms": (!delays.0.is_empty()).then(|| late as f64 / delays.0.len() as f64),
            "streams_p95_ms": means.quantile(0.95),
        })
    }
}

/// Receives and says how late it was.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    runtime()?.block_on(async {
        super::show("realtime receive");
        let named = |why| crate::accept::cannot_listen(args.listen, "--listen", &why);
        let listener = Listener::bind(args.listen).await.map_err(named)?;
        let at = listener.address().unwrap_or(args.listen);
        if args.format.json {
            crate::complain!("listening on {at}");
        } else {
            crate::say!("listening on {at}");
        }
        let mut receiving = tokio::task::JoinSet::new();
        for _ in 0..args.senders.max(1) {
            let Some(session) = listener.accept().await else { break };
            receiving.spawn(receive(session, args.clocks_apart));
        }
        while let Some(account) = receiving.join_next().await {
            print(args.format, &account?);
        }
        Ok(exit::OK)
    })
}

async fn receive(session: Session, clocks_apart: bool) -> Account {
    let mut account = Account::default();
    while let Some(message) = session.receive().await {
        account.take(event::now(), &message.bytes);
    }
    // What a sender that was lost had still to say, it has not said.
    if let Some(ending) = session.ending().filter(|ending| !matches!(ending.why, Why::Left { .. })) {
        crate::complain!("headstart: a sender was lost: {}", ending.why);
    }
    if clocks_apart {
        account.align(session.stats().shortest.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3 / 2.0));
    }
    account
}

fn print(format: Format, account: &Account) {
    let summary = account.summary();
    if format.json {
        return crate::output::document(1, summary);
    }
    let number = |name: &str| summary[name].as_f64().unwrap_or(f64::NAN);
    crate::say!(
        "{} of {} messages in {} streams, {} duplicates",
        summary["received"],
        summary["expected"],
        summary["streams"],
        summary["doubled"]
    );
    crate::say!(
        "delay: mean {:.1} ms, median {:.1}, 95th percentile {:.1}, 99th {:.1}; {:.2} % over 100 ms",
        number("mean_ms"),
        number("p50_ms"),
        number("p95_ms"),
        number("p99_ms"),
        100.0 * number("over_100_ms")
    );
    crate::say!("streams: 95th percentile of their mean delays {:.1} ms", number("streams_p95_ms"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(stream: u32, number: u32, made: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Event { stream, number, of: 2, made }.encode(50, &mut bytes);
        bytes
    }

    #[test]
    fn delays_missing_and_doubled_messages_are_counted_and_streams_by_their_means() {
        let mut account = Account::default();
        const MS: u64 = 1_000_000;
        account.take(1000 * MS, &bytes(0, 0, 990 * MS));
        account.take(1000 * MS, &bytes(0, 1, 850 * MS));
        account.take(1000 * MS, &bytes(1, 1, 980 * MS));
        account.take(2000 * MS, &bytes(1, 1, 1980 * MS));
        account.take(2000 * MS, b"something else");
        let summary = account.summary();
        let counts =
            ["streams", "expected", "received", "missing", "doubled", "strange"].map(|name| summary[name].as_u64());
        assert_eq!(counts, [2, 4, 3, 1, 1, 1].map(Some));
        assert_eq!(summary["mean_ms"].as_f64(), Some(60.0));
        assert_eq!(summary["over_100_ms"].as_f64(), Some(1.0 / 3.0));
        account.align(5.0);
        assert_eq!(account.summary()["p50_ms"].as_f64(), Some(15.0));
    }

    #[test]
    fn a_stream_that_is_said_to_be_shorter_than_it_was_lacks_what_it_lacked() {
        let mut account = Account::default();
        for (number, of) in [(9, 10), (0, 1), (1, 1)] {
            let mut bytes = Vec::new();
            Event { stream: 0, number, of, made: 0 }.encode(50, &mut bytes);
            account.take(0, &bytes);
        }
        let counts = ["expected", "received", "missing", "strange"].map(|name| account.summary()[name].as_u64());
        assert_eq!(counts, [10, 2, 8, 1].map(Some));
    }

    #[test]
    fn nothing_received_is_no_number() {
        assert!(Account::default().summary()["p95_ms"].is_null());
    }
}
