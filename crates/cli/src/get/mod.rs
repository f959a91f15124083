//! `headstart get URL`: a file over HTTP/3, or over HTTP/2 or HTTP/1.1 where QUIC does not answer.
//!
//! JSON (`--json`): one object a fetch, on a line. Times are milliseconds since the fetch began: `name_ms` (the name was
//! resolved), `handshake_ms` (a request could be sent), `first_byte_ms` (the head of the answer was there), `total_ms`.
//! `bytes` that came, `from` (the first of them; more than 0 where an interrupted fetch was gone on with), `protocol`,
//! `address`, `early_data` (whether the server took what came with the first packet; `null` where nothing could), `start`
//! (how the server says that its connection started; `null` if it does not), `lost` (packets of ours, HTTP/3 only).

mod connect;
mod part;
mod progress;
mod reply;
mod story;
pub mod trust;
mod url;

use crate::exit::{self, Coded, Usage};
use crate::paths::Remembering;
use crate::qlog::{self, Inlet, Side};
use crate::written::Written;
use clap::builder::UnknownArgumentValueParser;
use connect::{Connector, Opened, Versions};
use headstart_core::cwnd::history::Medium;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::range::ContentRange;
use headstart_io::clock::{Clock, wall};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use indicatif::DecimalBytes;
use part::{Begun, Destination, Sink, is_another};
use quinn::Runtime as _;
use reply::Reply;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use story::Story;
use trust::Trust;
use url::Url;

/// Version of the JSON.
const VERSION: u32 = 1;
/// A server that says nothing for so long is given up; what came is kept.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Arguments of `headstart get`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// URL to fetch: https://HOST[:PORT]/PATH.
    #[arg(value_name = "URL")]
    url: String,
    /// Output file; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Resume a partial download (FILE.part) if the file on the server has not changed.
    #[arg(short = 'C', long = "continue")]
    resume: bool,
    /// HTTP versions to use.
    #[arg(long, value_name = "VERSION", value_enum, default_value = "any")]
    http: Versions,
    /// Trust only the certificates in FILE (PEM).
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Skip certificate verification (dangerous).
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    paths: crate::paths::Remember,
    /// Write qlog events of connections over HTTP/3 into DIR, one file per server.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Fetch N times, each over a new connection that reuses session tickets and tokens.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    times: u32,
    /// Named by other programs: see the hint.
    #[arg(long = "timeout", hide = true, value_parser = UnknownArgumentValueParser::suggest(
        "there is no such limit; use timeout(1): `timeout 30 headstart get URL`"))]
    _timeout: Option<String>,
    /// Do not show progress.
    #[arg(short, long)]
    quiet: bool,
    /// Print timings as one JSON object per fetch.
    #[arg(long)]
    json: bool,
}

/// Fetches.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let url: Url = args.url.parse()?;
    let destination = Destination::named(&args.output)?;
    let to_stdout = matches!(destination, Destination::Stdout);
    if to_stdout && args.json {
        return Err(Usage("--json needs `-o FILE` (or `-o /dev/null`): both would go to standard output".into()).into());
    }
    if args.resume && !matches!(destination, Destination::File(_)) {
        return Err(Usage("--continue needs `-o FILE`".into()).into());
    }
    destination.check()?;
    let trust = match &args.ca {
        Some(file) => Trust::File(file.clone()),
        None if args.insecure => Trust::Everybody,
        None => Trust::Host,
    };
    let quiet = args.quiet || (to_stdout && std::io::stdout().is_terminal());
    // What comes is written by this thread, which may have to wait for a reader or a disk; the connection lives on in others.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Where the kernel tells nothing of it, all networks are one.
    let network = headstart_io::surroundings::look(&[]).map(|seen| seen.network()).unwrap_or_default();
    let medium = if headstart_io::surroundings::is_wireless() { Medium::Wireless } else { Medium::Wired };
    let log = args.qlog.as_deref().map(|folder| qlog::begin(folder, Side::Client)).transpose()?;
    let paths = Arc::new(args.paths.open(network, medium, log.as_ref().map(qlog::listener))?);
    let inlet = log.as_ref().map(Written::inlet);
    let fetched = runtime.block_on(async {
        let connector = Connector::new(args.http, &trust, paths.clone())?;
        let fetched = fetch_all(
            args,
            Fetch {
                url: &url,
                destination: &destination,
                connector: &connector,
                paths: &paths,
                resume: args.resume,
                quiet,
                log: inlet.as_ref(),
            },
        )
        .await;
        // A server keeps a connection that just falls silent for its whole idle time, so one that failed is closed, too.
        connector.close().await;
        fetched
    });
    paths.end();
    // What still runs is of no use any more.
    runtime.shutdown_background();
    let is_whole = log.is_none_or(Written::end);
    fetched.map(|()| if is_whole { exit::OK } else { exit::FAILURE })
}

/// Fetches as often as `args` say, one after the other.
async fn fetch_all(args: &Args, fetch: Fetch<'_>) -> anyhow::Result<()> {
    for n in 0..args.times {
        let done = fetch.run().await?;
        if args.json {
            done.tell();
        } else if !fetch.quiet {
            crate::complain!("{}", done.text(&args.output));
        }
        // Tickets come behind the answer.
        let left = args.times - 1 - n;
        if left > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// What an answer brings.
struct Wanted {
    /// The first byte.
    from: u64,
    /// How many there are from there to the end, if that was said.
    length: Option<u64>,
    /// Where they go; nowhere, if everything is there already.
    sink: Option<Sink>,
}

struct Fetch<'a> {
    url: &'a Url,
    destination: &'a Destination,
    connector: &'a Connector,
    paths: &'a Remembering,
    resume: bool,
    quiet: bool,
    /// Where the story of its connection is written.
    log: Option<&'a Inlet>,
}

/// An answer, and the connection that it comes over. See [`Done`].
struct Answered {
    opened: Opened,
    reply: Reply,
    /// The connection was begun after so many milliseconds.
    begun_ms: f64,
    handshake_ms: f64,
    early_data: Option<bool>,
}

/// How a fetch went.
#[derive(Debug)]
struct Done {
    url: String,
    name_ms: f64,
    handshake_ms: f64,
    first_byte_ms: f64,
    total_ms: f64,
    bytes: u64,
    from: u64,
    protocol: &'static str,
    address: Option<SocketAddr>,
    early_data: Option<bool>,
    start: Option<String>,
    lost: Option<u64>,
}

fn ms(clock: &Clock) -> f64 {
    clock.now().since(Instant::ZERO).as_secs_f64() * 1e3
}

impl Fetch<'_> {
    async fn run(&self) -> anyhow::Result<Done> {
        let clock = Clock::new();
        let began = Instant::ZERO + wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let addresses = self.look_up().await?;
        let name_ms = ms(&clock);
        let begun = if self.resume { self.destination.begun(&self.url.to_string()) } else { None };
        let Answered { opened, mut reply, begun_ms, handshake_ms, early_data } =
            self.answered(&clock, &addresses, begun.as_ref()).await?;
        let first_byte_ms = ms(&clock);
        let Wanted { from, length, sink } = self.wanted(&reply, begun.as_ref())?;
        let mut story = match (self.log, &opened) {
            (Some(to), Opened::Three { connection, .. }) => {
                let is_early = early_data == Some(true);
                Some(Story::begin(to, connection.clone(), began, (begun_ms, handshake_ms), is_early))
            }
            _ => None,
        };
        let mut look = || _ = story.as_mut().map(|story| story.look(ms(&clock)));
        let bytes = match sink {
            Some(sink) => self.body(&mut reply, sink, (from, length), &mut look).await?,
            None => 0,
        };
        let total_ms = ms(&clock);
        if let Some(story) = story {
            story.end(total_ms);
        }
        let quic = if let Opened::Three { connection, .. } = &opened { Some(connection) } else { None };
        let lost = quic.map(|connection| connection.stats().path.lost_packets);
        let address = quic.map(quinn::Connection::remote_address);
        let start = reply.headers.get("server-timing").and_then(|value| value.to_str().ok()).map(str::to_owned);
        if let Some(connection) = quic {
            self.learn(connection, bytes, Duration::from_secs_f64((total_ms - first_byte_ms).max(0.0) / 1e3));
        }
        Ok(Done {
            url: self.url.to_string(),
            name_ms,
            handshake_ms,
            first_byte_ms,
            total_ms,
            bytes,
            from,
            protocol: opened.protocol(),
            address,
            early_data,
            start,
            lost,
        })
    }

    /// The answer to a request over a connection to one of `addresses`, which the first may come with.
    async fn answered(
        &self,
        clock: &Clock,
        addresses: &[SocketAddr],
        begun: Option<&Begun>,
    ) -> anyhow::Result<Answered> {
        let mut headers = HeaderMap::new();
        if let Some(begun) = begun {
            headers.insert(header::RANGE, HeaderValue::from_str(&format!("bytes={}-", begun.have))?);
            headers.insert(header::IF_RANGE, HeaderValue::from_str(&begun.validator)?);
        }
        let mut begun_ms = ms(clock);
        let mut opened = self.connector.connect(self.url, addresses, true).await?;
        let mut handshake_ms = ms(clock);
        let mut reply = self.ask(&mut opened, &headers).await;
        let mut early_data = None;
        if let Opened::Three { early: early @ Some(_), .. } = &mut opened
            && let Some(accepted) = early.take()
        {
            // What was sent ahead may be refused, and is then as if it had never been sent.
            let accepted = accepted.await;
            early_data = Some(accepted);
            if !accepted || reply.is_err() {
                begun_ms = ms(clock);
                opened = self.connector.connect(self.url, addresses, false).await?;
                handshake_ms = ms(clock);
                reply = self.ask(&mut opened, &headers).await;
            }
        }
        let lost_on_the_way = |why: anyhow::Error| {
            why.downcast()
                .unwrap_or_else(|why| Coded(exit::UNREACHABLE, format!("no answer from {}: {why:#}", self.url)))
        };
        let reply = reply.map_err(lost_on_the_way)?;
        Ok(Answered { opened, reply, begun_ms, handshake_ms, early_data })
    }

    async fn look_up(&self) -> Result<Vec<SocketAddr>, Coded> {
        let found = tokio::net::lookup_host((self.url.host.as_str(), self.url.port)).await;
        let failed = |why| Coded(exit::UNREACHABLE, format!("cannot resolve {}: {why}", self.url.host));
        Ok(found.map_err(failed)?.collect())
    }

    /// Keeps what a connection over QUIC has shown of its path, and closes it.
    fn learn(&self, connection: &quinn::Connection, bytes: u64, took: Duration) {
        let (peer, rtt) = (connection.remote_address().ip(), connection.rtt());
        self.paths.memory.received(quinn::TokioRuntime.now(), peer, bytes, took, rtt);
        self.paths.learned();
        connection.close(0x100u32.into(), b"");
    }

    async fn ask(&self, opened: &mut Opened, headers: &HeaderMap) -> anyhow::Result<Reply> {
        let asked = tokio::time::timeout(SILENCE, opened.ask(self.url, headers)).await;
        asked.unwrap_or_else(|_| Err(anyhow::anyhow!("no data for {} s", SILENCE.as_secs())))
    }

    /// What of it comes, and where it goes.
    fn wanted(&self, reply: &Reply, begun: Option<&Begun>) -> anyhow::Result<Wanted> {
        let said = |name: header::HeaderName| reply.headers.get(name).and_then(|value| value.to_str().ok());
        let range = reply.headers.get(header::CONTENT_RANGE).and_then(|value| ContentRange::parse(value.as_bytes()));
        let whole = range.as_ref().and_then(|range| range.whole);
        match (reply.status, begun) {
            (StatusCode::OK, _) => {
                let (sink, note) = self.destination.begin(&self.url.to_string(), &reply.headers)?;
                if let Some(note) = note {
                    crate::complain!("headstart: {note}");
                }
                let length = said(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
                Ok(Wanted { from: 0, length, sink: Some(sink) })
            }
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, Some(begun))
                if is_another(&reply.headers, &begun.validator) =>
            {
                let why =
                    format!("{} has changed since the partial download: fetch it again without --continue", self.url);
                Err(Coded(exit::FAILURE, why).into())
            }
            (StatusCode::PARTIAL_CONTENT, Some(Begun { have, .. }))
                if range.as_ref().is_some_and(|range| range.part.is_some_and(|part| part.0 == *have)) =>
            {
                // All that is missing, even if this answer is to bring less of it.
                let last = range.and_then(|range| range.part).map(|part| part.1);
                let end = whole.or(last.map(|last| last.saturating_add(1)));
                let length = end.map(|end| end.saturating_sub(*have));
                Ok(Wanted { from: *have, length, sink: Some(self.destination.resume()?) })
            }
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(Begun { have, .. })) if whole == Some(*have) => {
                self.destination.resume()?.finish()?;
                Ok(Wanted { from: *have, length: Some(0), sink: None })
            }
            (status, _) => {
                let moved = said(header::LOCATION).map(|to| format!("; it moved to {to}")).unwrap_or_default();
                Err(Coded(exit::FAILURE, format!("{}: the server answered {status}{moved}", self.url)).into())
            }
        }
    }

    /// Takes the body in, and calls `look` as it comes; how many bytes there were.
    async fn body(
        &self,
        reply: &mut Reply,
        mut sink: Sink,
        (from, length): (u64, Option<u64>),
        look: &mut impl FnMut(),
    ) -> anyhow::Result<u64> {
        let bar = progress::bar(self.quiet, from, length.map(|length| from.saturating_add(length)));
        let mut came = 0u64;
        let why = loop {
            let next = tokio::time::timeout(SILENCE, reply.next()).await;
            match next.unwrap_or_else(|_| Err(anyhow::anyhow!("no data for {} s", SILENCE.as_secs()))) {
                Ok(Some(bytes)) => {
                    sink.write(&bytes)?;
                    came += bytes.len() as u64;
                    look();
                    bar.set_position(from + came);
                }
                Ok(None) => break None,
                Err(why) => break Some(why),
            }
        };
        bar.finish_and_clear();
        let missing = length.is_some_and(|length| came != length);
        if why.is_some() || missing {
            let why = why.map(|why| format!(": {why:#}")).unwrap_or_default();
            let kept = match self.destination {
                Destination::File(_) => "; the partial file is kept: resume with --continue",
                _ => "",
            };
            let of = length.map(|length| format!(" of {length}")).unwrap_or_default();
            return Err(Coded(exit::DEGRADED, format!("{} ended after {came}{of} bytes{why}{kept}", self.url)).into());
        }
        sink.finish()?;
        Ok(came)
    }
}

impl Done {
    fn tell(&self) {
        let object = serde_json::json!({
            "url": self.url, "name_ms": self.name_ms, "handshake_ms": self.handshake_ms,
            "first_byte_ms": self.first_byte_ms, "total_ms": self.total_ms, "bytes": self.bytes, "from": self.from,
            "protocol": self.protocol, "address": self.address.map(|address| address.to_string()),
            "early_data": self.early_data, "start": self.start, "lost": self.lost,
        });
        crate::output::document(VERSION, object);
    }

    fn text(&self, output: &std::path::Path) -> String {
        let rate = self.bytes as f64 / (self.total_ms / 1e3).max(1e-3);
        format!(
            "{} to {} in {:.0} ms ({}/s) over {}; first byte after {:.0} ms{}",
            DecimalBytes(self.bytes),
            output.display(),
            self.total_ms,
            DecimalBytes(rate as u64),
            self.protocol,
            self.first_byte_ms,
            if self.early_data == Some(true) { ", with early data" } else { "" }
        )
    }
}
