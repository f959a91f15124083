//! `headstart proxy`: a proxy for HTTP/1.1 and CONNECT that picks the channel of each object. Loopback unless told.
//!
//! Policies by objects (paper 5, section 3) need knowledge of objects: this proxy learns their sizes from those that came
//! before, and reads their urgency in requests. What it cannot look into (CONNECT) is one object, by its host. Decision 0021.

mod body;
mod connect;
mod door;
mod fetch;
mod guess;
mod pool;
mod way;

use crate::exit::{self, Usage};
use crate::output::{Format, document};
use crate::seat::{Room, Seat, User};
use body::Body;
use door::Door;
use guess::Guess;
use headstart_core::steer::Channel;
use headstart_core::steer::policy::{self, Object};
use headstart_realtime::admission::{Admission, Arrival};
use headstart_realtime::relay::access::{Access, Pattern};
use hyper::body::Incoming;
use hyper::header::{PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pool::Pool;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use way::{Bound, Ways};

/// How long a client may take for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// After so long a client hears that its password is wrong. With the places of a network that is penalised this is what guessing may take. Ours.
const WRONG: Duration = Duration::from_secs(2);
/// Between two times that learned sizes are written.
const KEPT: Duration = Duration::from_secs(300);
/// Connections of clients that are served at once.
const MOST_CONNECTIONS: usize = 1024;
/// Connections of clients that have not authenticated.
const UNDECIDED: usize = 512;
/// Bytes of a request's head at most.
const LONGEST_HEAD: usize = 64 * 1024;

/// Arguments of `headstart proxy`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interface or local address of the high-bandwidth (fat) channel.
    #[arg(long, value_name = "INTERFACE|ADDRESS")]
    fat: Bound,
    /// Interface or local address of the low-latency (fast) channel.
    #[arg(long, value_name = "INTERFACE|ADDRESS")]
    fast: Bound,
    /// Policy that chooses the channel of an object (`headstart list policies`, the object-based ones).
    #[arg(long, value_name = "POLICY", default_value = "obj-size-3k")]
    policy: String,
    /// Address to listen on; a non-loopback address requires --users. Port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:3128")]
    listen: SocketAddr,
    /// File of allowed users, one NAME:PASSWORD per line, not readable by other users [default: all programs on this host].
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// With --users: also allow this destination, which is private or this host's own; may be repeated. As in
    /// `headstart relay serve --allow`.
    #[arg(long = "allow", value_name = "HOST:PORT")]
    allowed: Vec<Pattern>,
    /// Time to finish open requests on shutdown.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
    /// Log the channel of each object to standard error.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    format: Format,
}

/// What all connections share.
struct ProxyState {
    door: Door,
    /// Clients that have not authenticated.
    admission: Arc<Admission>,
    /// Clients that are served.
    room: Arc<Room>,
    guess: Guess,
    ways: Ways,
    pool: Pool,
    policy: Box<dyn Chooser>,
    /// In `Via`, so that it knows itself again.
    name: String,
    objects: [AtomicU64; 2],
    verbose: bool,
}

/// A policy, behind what threads may share.
trait Chooser: Send + Sync {
    fn channel(&self, object: &Object) -> Channel;
}

/// A registered policy that chooses by objects.
struct ByObject(&'static policy::Entry);

impl Chooser for ByObject {
    fn channel(&self, object: &Object) -> Channel {
        (self.0.new)().object(object).unwrap_or(Channel::Fat)
    }
}

impl ProxyState {
    /// The channel of an object; it is counted.
    fn choose(&self, what: &str, object: &Object) -> Channel {
        let channel = self.policy.channel(object);
        self.objects[channel.index()].fetch_add(1, Ordering::Relaxed);
        if self.verbose {
            let bytes =
                object.bytes.map_or_else(|| "size unknown".to_owned(), |bytes| format!("{bytes} bytes expected"));
            crate::complain!("{channel}: {what} ({bytes}, urgency {})", object.urgency);
        }
        channel
    }
}

/// Says where it listens: from now on it answers.
fn tell(format: Format, address: SocketAddr, policy: &str) {
    if format.json {
        let url = format!("http://{address}");
        document(1, serde_json::json!({ "url": url, "policy": policy, "pid": std::process::id() }));
    } else {
        crate::say!("http://{address} (HTTP/1.1 and CONNECT, by {policy})");
    }
}

/// The policy, if what is asked for makes sense.
fn checked(args: &Args) -> anyhow::Result<&'static policy::Entry> {
    let entry = policy::find(&args.policy).map_err(|e| Usage(e.to_string()))?;
    if (entry.new)().object(&Object { bytes: None, urgency: 7 }).is_none() {
        let what = format!("--policy {}: this policy works on packets; use it with `headstart up --steer`", entry.name);
        return Err(Usage(what).into());
    }
    if args.users.is_none() && !args.listen.ip().is_loopback() {
        let what = format!("--listen {} is open to other hosts: add --users FILE", args.listen);
        return Err(Usage(what).into());
    }
    if args.fat == args.fast {
        return Err(Usage("--fat and --fast are the same: give two different interfaces or addresses".into()).into());
    }
    Ok(entry)
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let entry = checked(&args)?;
    let door = args.users.as_deref().map(Door::read).transpose()?.unwrap_or_else(Door::open);
    for absent in [&args.fat, &args.fast].into_iter().filter_map(Bound::absent) {
        crate::complain!("headstart: warning: {absent}; until it appears, the other channel carries all traffic");
    }
    let (guess, notes) = Guess::new(headstart_io::store::folder(|name| std::env::var_os(name)))?;
    notes.iter().for_each(|note| crate::complain!("headstart: {note}"));
    let shared = Arc::new(ProxyState {
        admission: Admission::new(UNDECIDED),
        // Without a list, users of this host alone.
        room: args
            .users
            .as_ref()
            .map_or_else(|| Room::of_host(MOST_CONNECTIONS), |_| Room::new(MOST_CONNECTIONS, door.users())),
        door,
        name: format!("headstart-{:016x}", RandomState::new().hash_one(args.listen)),
        guess,
        // What programs of this host reach anyway is not theirs who have come by a forwarded port, of whatever address.
        ways: Ways::new([args.fat, args.fast], args.users.as_ref().map(|_| Access::new(args.allowed))),
        pool: Pool::default(),
        policy: Box::new(ByObject(entry)),
        objects: [AtomicU64::new(0), AtomicU64::new(0)],
        verbose: args.verbose,
    });
    crate::relay::raise_files();
    // Before there are other threads, which inherit what this one waits for.
    let ending = headstart_io::sys::signal::ending()?;
    let runtime = crate::relay::runtime()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.listen)
            .await
            .map_err(|why| crate::accept::cannot_listen(args.listen, "--listen", &why))?;
        tell(args.format, listener.local_addr()?, entry.name);
        let (stop_all, stop) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, shared.clone(), stop));
        tokio::spawn(keep(shared.clone()));
        crate::serve::ended(ending).await?;
        let _ = stop_all.send(true);
        if tokio::time::timeout(Duration::from_secs(args.grace), serving).await.is_err() {
            crate::complain!("headstart: stopped with open connections after {} s (--grace)", args.grace);
        }
        anyhow::Ok(())
    })?;
    shared.guess.keep().iter().for_each(|note| crate::complain!("headstart: {note}"));
    let [fat, fast] = [0, 1].map(|n| shared.objects[n].load(Ordering::Relaxed));
    if !args.format.json {
        crate::say!("objects: {fat} over the fat channel, {fast} over the fast one");
    }
    // A name server that does not answer is not waited for.
    runtime.shutdown_background();
    Ok(exit::OK)
}

/// Saves the history from time to time.
async fn keep(shared: Arc<ProxyState>) {
    loop {
        tokio::time::sleep(KEPT).await;
        let shared = shared.clone();
        if let Ok(notes) = tokio::task::spawn_blocking(move || shared.guess.keep()).await {
            notes.iter().for_each(|note| crate::complain!("headstart: {note}"));
        }
    }
}

/// Serves all connections, until shutdown.
async fn serve(listener: TcpListener, shared: Arc<ProxyState>, stop: watch::Receiver<bool>) {
    let mut stopped = stop.clone();
    let stopped = async move { drop(stopped.wait_for(|stop| *stop).await) };
    let admit = |stream: &TcpStream, peer| shared.admission.arrive(stream, peer);
    crate::accept::admitted(listener, admit, stopped, |stream, arrival| {
        connection(stream, shared.clone(), arrival, stop.clone())
    })
    .await;
}

async fn connection(stream: TcpStream, shared: Arc<ProxyState>, arrival: Arrival, mut stop: watch::Receiver<bool>) {
    let Ok(Some(place)) = tokio::time::timeout(PATIENCE, arrival.place()).await else { return };
    let is_needed = place.is_needed();
    let seat = Arc::new(Seat::new(place, shared.room.clone()));
    let of_connection = seat.clone();
    let service = service_fn(|request: Request<Incoming>| {
        let (shared, seat) = (shared.clone(), of_connection.clone());
        async move { Ok::<_, Infallible>(answer(shared, seat, request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    // Not by writev: as in `serve::tcp`.
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD).writev(false);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    // What goes wrong with one connection concerns its client alone.
    let mut was_silent = false;
    let is_stopped = tokio::select! {
        ended = connection.as_mut() => {
            was_silent = ended.is_err_and(|why| why.is_timeout());
            false
        }
        () = is_needed => false,
        _ = stop.wait_for(|stop| *stop) => true,
    };
    if is_stopped {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    seat.ended(was_silent);
}

async fn answer(shared: Arc<ProxyState>, seat: Arc<Seat>, request: Request<Incoming>) -> Response<Body> {
    let said = request.headers().get(PROXY_AUTHORIZATION).map(|value| value.as_bytes());
    let Some(user) = shared.door.user(said) else {
        // A client that has said nothing does not know yet that it has to.
        if said.is_some() {
            seat.was_wrong();
            tokio::time::sleep(WRONG).await;
        }
        let mut refused =
            response(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "this proxy requires a user name and a password\n");
        refused.headers_mut().insert(PROXY_AUTHENTICATE, door::CHALLENGE);
        return refused;
    };
    if !seat.admit(if shared.door.is_open() { seat.own() } else { User::Listed(user) }) {
        return response(StatusCode::SERVICE_UNAVAILABLE, "too many connections are open through this proxy\n");
    }
    let answered = if request.method() == Method::CONNECT {
        connect::connect(&shared, seat, request).await
    } else {
        fetch::fetch(&shared, request).await
    };
    answered.unwrap_or_else(|Refusal(status, why)| response(status, &why))
}

/// Why a request is not carried out: the message to its sender.
struct Refusal(StatusCode, String);

impl Refusal {
    /// No way leads there.
    fn unreachable(to: &str, why: &std::io::Error) -> Self {
        let status = match why.kind() {
            std::io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            std::io::ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self(status, format!("{to}: {why}\n"))
    }
}

fn response(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::Text(text.to_owned().into()));
    *response.status_mut() = status;
    response
}

/// Takes out what concerns one hop alone (RFC 9110, section 7.6.1).
fn forget_the_hop(headers: &mut HeaderMap) {
    use hyper::header::{CONNECTION, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    let always = [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE, PROXY_AUTHORIZATION, PROXY_AUTHENTICATE];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection"] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HOST, HeaderValue};

    #[test]
    fn what_concerns_one_hop_does_not_go_on_and_all_else_does() {
        let mut headers = HeaderMap::new();
        let all = [
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("proxy-authorization", "Basic eDp5"),
            ("proxy-connection", "keep-alive"),
            ("host", "a.example"),
            ("cookie", "c=1"),
        ];
        for (name, value) in all {
            headers.append(name, HeaderValue::from_static(value));
        }
        forget_the_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["cookie", HOST.as_str()]);
    }
}
