//! `headstart serve DIR`: a folder over HTTP/3, and over HTTP/2 and HTTP/1.1 on the same number. Loopback unless told.
//!
//! What is served is decided in [`site`] and [`answer`], whatever the version of HTTP; [`http3`] and [`tcp`] carry it.

mod access;
mod answer;
pub mod board;
mod borrowed;
mod bounded;
mod certificate;
mod chunks;
mod coding;
mod compressed;
mod file;
mod http3;
mod kind;
mod listing;
pub mod places;
pub mod rehearsal;
mod site;
mod sockets;
mod stalls;
mod tcp;
mod token_key;
mod turns;

use crate::exit::{self, Usage};
use crate::qlog::{self, Side};
use crate::written::Written;
use access::Access;
use anyhow::Context as _;
use certificate::Certificate;
use headstart_core::cwnd::history::Medium;
use headstart_core::path::NetworkId;
use headstart_quic::CarefulResume;
use hyper::header::HeaderValue;
use places::Places;
use rustix::event::{PollFd, PollFlags, poll};
use site::Site;
use sockets::Sockets;
pub use sockets::widen;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use token_key::Keys;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use turns::Turns;

/// Version of the JSON.
const VERSION: u32 = 1;
/// Connections that are open at once, over UDP and TCP.
const MOST_CONNECTIONS: usize = 4096;
/// Answers that are under way at once; at most 130 MB of pieces of files, an eighth of them in the larger ones.
const MOST_ANSWERS: usize = 2048;
/// Threads that wait for the disk.
const WAITING: usize = 64;
/// The same with one to spare for an address that comes beside sixteen busy ones.
const THREADS: usize = WAITING + 16;

/// Arguments of `headstart serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder to serve. Hidden files and links out of the folder are never served.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address to listen on (TCP and UDP); may be repeated. Port 0 picks a free port. [default: the sockets that a service manager
    /// has passed (LISTEN_FDS), else 127.0.0.1:8443]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// TLS certificate chain (PEM) [default: a new self-signed certificate].
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Host name for the self-signed certificate, in addition to localhost and the addresses; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    name: Vec<String>,
    /// Write the certificate (without its key) to FILE, for clients to trust.
    #[arg(long, value_name = "FILE")]
    write_cert: Option<PathBuf>,
    #[command(flatten)]
    paths: crate::paths::Remember,
    /// Do not compress text on the fly; compressed files beside it are still sent.
    #[arg(long)]
    no_compress: bool,
    /// Time for which clients may use a file without asking again (Cache-Control) [default: clients decide].
    #[arg(long, value_name = "SECONDS")]
    max_age: Option<u32>,
    /// Key file that all servers of a site have (`headstart relay key FILE` makes one): clients then carry the history of their path
    /// from one server to the next, encrypted, in QUIC's tokens. May be repeated: the first key encrypts, all of them decrypt.
    #[arg(long, value_name = "FILE")]
    token_key: Vec<PathBuf>,
    /// Write qlog events of the start rule into DIR, one file per connection.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Append a line for each request to FILE (`-`: standard output); if the file is moved away, it is created again.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Format of the log.
    #[arg(long, value_name = "FORMAT", default_value = "common", requires = "log")]
    log_format: access::Format,
    /// Time to finish open requests on shutdown.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
    /// Print the listening addresses as one JSON object on one line.
    #[arg(long)]
    json: bool,
}

/// What all connections share.
#[derive(Clone, Debug)]
struct Serving {
    /// What is served.
    site: Arc<Site>,
    /// Becomes true on shutdown.
    stop: watch::Receiver<bool>,
    /// Places for connections and answers.
    places: Arc<Places>,
    /// Turns of what is done for them.
    turns: Arc<Turns>,
    /// Where requests are logged.
    access: Access,
}

impl Serving {
    fn new(site: Arc<Site>, stop: watch::Receiver<bool>) -> Self {
        let turns = Arc::new(Turns::default());
        Self { site, stop, places: places(), turns, access: Access::default() }
    }

    /// The same for the connections of one client.
    fn of(&self, client: IpAddr) -> Self {
        Self { access: self.access.of(client), ..self.clone() }
    }

    /// Returns on shutdown.
    async fn stopped(&self) {
        // A sender that is gone means that it is over, too.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

/// The folder, with a word where links in it are not served.
fn opened(args: &Args) -> anyhow::Result<Arc<Site>> {
    let folder = &args.folder;
    let site = Site::open(folder)?.with_max_age(args.max_age);
    let site = if args.no_compress { site.without_compression() } else { site };
    if !site.follows_links() {
        let why = "openat2(2) is refused here (a systemd service with DynamicUser, or Linux before 5.6)";
        crate::complain!("headstart: links in {} are not served: {why}", folder.display());
    }
    Ok(Arc::new(site))
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    // Each connection and each file that is sent takes one.
    crate::relay::raise_files();
    let site = opened(args)?;
    let token_keys = Keys::read(&args.token_key)?;
    let all = bound(args)?;
    let addresses: Vec<SocketAddr> = all.iter().map(|sockets| sockets.address).collect();
    let certificate = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Certificate::read(cert, key)?,
        _ => own_certificate(args, &addresses)?,
    };
    if let Some(path) = &args.write_cert {
        crate::input::check_writable(path)?;
        std::fs::write(path, certificate.pem()).with_context(|| format!("writing {}", path.display()))?;
    }
    let shown = Shown { fingerprint: certificate.fingerprint(), key_hash: certificate.key_hash() };
    let (tcp, quic) = certificate.configurations()?;
    // Before there are other threads, which inherit what this one waits for.
    let ending = headstart_io::sys::signal::ending().context("waiting for signals")?;
    let qlog = args.qlog.as_deref().map(|folder| qlog::begin(folder, Side::Server)).transpose()?;
    let listener = qlog.as_ref().map(qlog::listener);
    let log = args.log.as_deref().map(|file| access::begin(file, args.log_format)).transpose()?;
    // A server sees every peer from the same place, whatever the network of the host is.
    let paths = Arc::new(args.paths.open(NetworkId::default(), Medium::Wired, listener)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(THREADS).enable_all().build();
    let runtime = runtime.context("starting threads")?;
    runtime.block_on(async {
        let (stop_all, stop) = watch::channel(false);
        let config = over_quic(quic, token_keys, &paths.memory)?;
        let access = log.as_ref().map(Access::to).unwrap_or_default();
        let serving = Serving { access, ..Serving::new(site, stop) };
        board::show(serving.places.clone(), serving.access.counts());
        let rounds = serving.turns.clone();
        // Until the runtime ends.
        tokio::spawn(async move { rounds.run().await });
        let mut tasks = JoinSet::new();
        for Sockets { tcp: listener, udp, address } in all {
            let runtime = Arc::new(quinn::TokioRuntime);
            let endpoint = quinn::Endpoint::new(quinn::EndpointConfig::default(), Some(config.clone()), udp, runtime)?;
            let start = http3::Start { config: config.clone(), paths: paths.clone() };
            tasks.spawn(http3::serve(endpoint, start, serving.clone()));
            let alt_svc = HeaderValue::from_str(&format!("h3=\":{}\"; ma=86400", address.port())).ok();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tasks.spawn(tcp::serve(listener, tcp.clone(), alt_svc, serving.clone()));
        }
        tell(args, &addresses, &shown);
        ended(ending).await?;
        let _ = stop_all.send(true);
        let finished = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(args.grace), finished).await.is_err() {
            crate::complain!("headstart: stopped with open connections after {} s (--grace)", args.grace);
        }
        anyhow::Ok(())
    })?;
    paths.end();
    // A disk that hangs is not waited for.
    runtime.shutdown_background();
    let is_whole = [qlog.is_none_or(Written::end), log.is_none_or(Written::end)] == [true; 2];
    Ok(if is_whole { exit::OK } else { exit::FAILURE })
}

/// Of QUIC connections. With keys for tokens, clients carry records of paths in them.
fn over_quic(
    tls: Arc<rustls::ServerConfig>,
    token_keys: Option<Keys>,
    memory: &CarefulResume,
) -> anyhow::Result<quinn::ServerConfig> {
    let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    if let Some(keys) = token_keys {
        config.token_key(memory.carried(Arc::new(keys)));
    }
    Ok(config)
}

/// As many places as are fixed, but at most three eighths of the descriptors that this process may have.
fn places() -> Arc<Places> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    Places::new(MOST_CONNECTIONS.min(limit / 4).max(1), MOST_ANSWERS.min(limit / 8).max(1))
}

/// The sockets to serve.
fn bound(args: &Args) -> anyhow::Result<Vec<Sockets>> {
    let mut all = sockets::handed_over()?;
    let usual: SocketAddr = (Ipv4Addr::LOCALHOST, 8443).into();
    let more = if all.is_empty() && args.listen.is_empty() { &[usual][..] } else { &args.listen };
    for address in more {
        all.push(Sockets::bind(*address)?);
    }
    Ok(all)
}

fn own_certificate(args: &Args, listen: &[SocketAddr]) -> anyhow::Result<Certificate> {
    let mut names = vec!["localhost".to_owned()];
    if let Some(wrong) = args.name.iter().find(|name| !may_be_a_host(name)) {
        return Err(Usage(format!("--name {wrong:?}: must be a host name")).into());
    }
    names.extend(args.name.iter().cloned());
    let unspecified = |ip: &IpAddr| !ip.is_unspecified();
    let addresses: Vec<IpAddr> = listen.iter().map(SocketAddr::ip).filter(unspecified).collect();
    Certificate::own(&names, &addresses).map_err(|why| Usage(format!("{why:#}: --name must be a host name")).into())
}

/// Whether clients may know a server by this name: letters, digits, hyphens and, as some names have it, underscores; a star
/// for the first label (RFC 6125, section 6.4.3).
fn may_be_a_host(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.len() <= 63 && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.len() <= 253 && name.strip_prefix("*.").unwrap_or(name).split('.').all(label)
}

/// What clients may compare.
struct Shown {
    fingerprint: String,
    key_hash: Option<String>,
}

/// Says where it listens: from now on it answers.
fn tell(args: &Args, addresses: &[SocketAddr], shown: &Shown) {
    if args.json {
        let urls: Vec<String> = addresses.iter().map(|address| format!("https://{address}/")).collect();
        let object = serde_json::json!({
            "urls": urls, "certificate_sha256": shown.fingerprint, "key_sha256": shown.key_hash,
            "pid": std::process::id(),
        });
        crate::output::document(VERSION, object);
        return;
    }
    for address in addresses {
        crate::say!("https://{address}/ (HTTP/3, HTTP/2, HTTP/1.1)");
        let public = !address.ip().is_loopback();
        if public || address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
            crate::complain!(
                "headstart: warning: any host that can reach {address} can read {}",
                args.folder.display()
            );
        }
    }
    crate::say!("certificate SHA-256 {}", shown.fingerprint);
}

/// Waits for a signal in a thread of its own, which ends with the process.
pub(crate) async fn ended(ending: OwnedFd) -> anyhow::Result<()> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut wanted = [PollFd::new(&ending, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut wanted, None) {}
        let _ = tell.send(());
    })?;
    told.await.context("waiting for signals")
}
