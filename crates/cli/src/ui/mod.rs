//! `headstart ui`: one page in a browser that shows what headstart does and measures, live.
//!
//! A process of its own (docs/decisions/0078): it asks the user's supervisor, the daemon and running measurements only while a
//! page is open, and ends with SIGINT. Loopback alone, with a token that is new each time and reaches the page behind `#`,
//! which browsers do not send. No request leaves the host.

mod events;
mod files;
mod past;
mod results;
mod snapshot;

use crate::exit::{self, Usage};
use crate::observe::{Observer, RACES};
use crate::output::Format;
use crate::web::{self, Answer, Guard, Route, RouteRequest};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headstart_io::daemon::client::ask;
use headstart_io::daemon::message::{Answer as Reply, Wish};
use headstart_io::host::folders::Folders;
use headstart_io::link::Link;
use headstart_io::store::Series;
use hyper::{Method, StatusCode};
use past::Past;
use results::Results;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the JSON.
const VERSION: u32 = 1;

/// Arguments of `headstart ui`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Port on loopback; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print the address, and open no browser.
    #[arg(long)]
    no_browser: bool,
    /// Folder with results of the lab to show; may be repeated [default: headstart-results, if it is there].
    #[arg(long, value_name = "DIR")]
    results: Vec<PathBuf>,
    /// End with standard input, for the process that has started this one.
    #[arg(long, hide = true)]
    until_eof: bool,
    #[command(flatten)]
    format: Format,
}

/// Serves the page until SIGINT or SIGTERM.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let results = Arc::new(Results::of(folders(&args.results)?));
    // Before there are other threads, which inherit what this one waits for.
    let ending = if args.until_eof {
        std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?
    } else {
        headstart_io::sys::signal::ending().context("waiting for signals")?
    };
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(at).map_err(|why| crate::accept::cannot_listen(at, "--port", &why))?;
    let address = listener.local_addr()?;
    let token = token()?;
    let url = format!("http://{address}/#{token}");
    if args.format.json {
        crate::output::document(VERSION, json!({ "url": url, "pid": std::process::id() }));
    } else {
        crate::say!("{url}\nCtrl-C stops it");
    }
    if !args.no_browser && !args.format.json {
        open(&url);
    }
    let folder = headstart_io::store::folder(|name| std::env::var_os(name));
    let past = Arc::new(Mutex::new(Past::new(folder.map(Series::in_folder))));
    locked(&past).notes().iter().for_each(|note| crate::complain!("headstart: {note}"));
    let shown = Shown { observer: Arc::new(Observer::new(RACES)), past: Arc::clone(&past), results };
    let respond = move |asked: RouteRequest| answer(shown.clone(), asked);
    let served = web::serve(listener, Guard::with_token(address, token), ROUTES, respond, ending);
    locked(&past).write();
    served?;
    Ok(exit::OK)
}

/// All that is served.
const ROUTES: &[Route] = &[
    Route::public(Method::GET, "/"),
    Route::public(Method::GET, "/style.css"),
    Route::public(Method::GET, "/app.js"),
    Route::public(Method::GET, "/parts.js"),
    Route::public(Method::GET, "/views.js"),
    Route::public(Method::GET, "/lab.js"),
    Route::public(Method::GET, "/lanes.js"),
    Route::public(Method::GET, "/messages.js"),
    Route::public(Method::GET, "/spread.js"),
    Route::public(Method::GET, "/strip.js"),
    Route::public(Method::GET, "/trend.js"),
    Route::public(Method::GET, "/story.js"),
    Route::public(Method::GET, "/uplot.js"),
    Route::public(Method::GET, "/uplot.css"),
    Route::public(Method::GET, "/icon.svg"),
    Route::public(Method::GET, "/licences.txt"),
    Route::data("/api/events"),
    Route::data("/api/explain"),
    Route::data("/api/history"),
    Route::data("/api/results"),
    Route::data("/api/result"),
    Route::write("/api/down"),
];

/// What pages show.
#[derive(Clone)]
struct Shown {
    observer: Arc<Observer>,
    past: Arc<Mutex<Past>>,
    results: Arc<Results>,
}

fn locked(past: &Mutex<Past>) -> MutexGuard<'_, Past> {
    past.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(shown: Shown, asked: RouteRequest) -> Answer {
    let Shown { observer, past, results } = shown;
    match asked.path {
        "/api/events" => Answer::pieces("text/event-stream", events::stream(observer, past)),
        "/api/explain" => blocking(move || explain(&asked.query)).await,
        "/api/history" => blocking(move || history(&locked(&past), &asked.query)).await,
        "/api/results" => blocking(move || as_json(&results.list())).await,
        "/api/result" => blocking(move || result(&results, &asked.query)).await,
        "/api/down" => blocking(down).await,
        path => files::find(path).unwrap_or_else(|| Answer::plain(StatusCode::NOT_FOUND, "no such file\n")),
    }
}

async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let failed = |_| Answer::plain(StatusCode::INTERNAL_SERVER_ERROR, "the request failed\n");
    tokio::task::spawn_blocking(work).await.unwrap_or_else(failed)
}

fn as_json(value: &serde_json::Value) -> Answer {
    Answer::of("application/json", value.to_string())
}

/// The folders with results: those that were named, which must be there, or the lab's own.
fn folders(named: &[PathBuf]) -> Result<Vec<PathBuf>, Usage> {
    let own = PathBuf::from(results::DEFAULT);
    if named.is_empty() {
        return Ok(own.is_dir().then_some(own).into_iter().collect());
    }
    for folder in named {
        std::fs::read_dir(folder).map_err(|why| Usage::unreadable(folder, why))?;
    }
    Ok(named.to_vec())
}

/// What was seen between two seconds of the Unix epoch: `from=SECONDS&to=SECONDS`, and `&program=NAME`.
fn history(past: &Past, query: &str) -> Answer {
    let of = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    match (of("from").map(str::parse), of("to").map(str::parse)) {
        (Some(Ok(from)), Some(Ok(to))) => as_json(&past.between(from, to, of("program").map(decoded).as_deref())),
        _ => Answer::plain(StatusCode::BAD_REQUEST, "?from=SECONDS&to=SECONDS is missing\n"),
    }
}

fn result(results: &Results, query: &str) -> Answer {
    match query.strip_prefix("id=").map(|id| results.get(&decoded(id))) {
        Some(Ok(told)) => as_json(&told),
        Some(Err(why)) => Answer::plain(StatusCode::NOT_FOUND, why),
        None => Answer::plain(StatusCode::BAD_REQUEST, "?id=RESULT is missing\n"),
    }
}

/// The story of a host, as `headstart explain --json` has it.
fn explain(query: &str) -> Answer {
    let Some(host) = query.strip_prefix("host=").map(decoded).filter(|host| host.len() <= 255) else {
        return Answer::plain(StatusCode::BAD_REQUEST, "?host=NAME is missing\n");
    };
    let Some(link) = Link::find() else {
        return Answer::plain(StatusCode::NOT_FOUND, "no supervisor is running: start a program by `headstart run`\n");
    };
    match link.explain(&host).map(|account| account.explanation) {
        Ok(Some(explanation)) => as_json(&json!(explanation)),
        Ok(None) => Answer::plain(StatusCode::NOT_FOUND, "no data: no program has looked it up recently\n"),
        Err(why) => Answer::plain(StatusCode::BAD_GATEWAY, why.to_string()),
    }
}

/// Has the daemon undo everything, if this user may.
fn down() -> Answer {
    let reply = Folders::of_host()
        .map_err(|e| e.to_string())
        .and_then(|folders| ask(&folders, Wish::Down).map_err(|e| e.to_string()));
    match reply {
        Ok(Reply::Down(undoing)) => as_json(&json!(undoing)),
        Ok(Reply::Refused { why }) => Answer::plain(StatusCode::FORBIDDEN, why),
        Ok(other) => Answer::plain(StatusCode::BAD_GATEWAY, format!("unexpected answer from the daemon: {other:?}")),
        Err(why) => Answer::plain(StatusCode::BAD_GATEWAY, why),
    }
}

/// Undoes the percent-encoding of a query's value (RFC 3986, section 2.1).
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(code) => {
                out.push(code);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// 144 random bits.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 18];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Opens the page in the user's browser, where there is a screen. Should that fail, the address has been printed.
fn open(url: &str) {
    let screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()));
    if screen {
        let mut command = Command::new("xdg-open");
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Waited for, so that nothing is left of it.
        let _ = std::thread::Builder::new().name("browser".into()).spawn(move || command.status());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::Needs;

    #[test]
    fn every_file_has_a_route_and_nothing_but_files_is_public() {
        for route in ROUTES {
            let is_file = files::find(route.path).is_some();
            assert_eq!(route.needs == Needs::Host, is_file, "{}", route.path);
            assert_eq!(route.needs == Needs::Origin, route.method != Method::GET, "{}", route.path);
        }
        assert!(files::ALL.iter().all(|file| ROUTES.iter().any(|route| route.path == file.path)));
    }

    #[test]
    fn every_route_is_refused_to_whoever_lacks_what_it_takes() {
        let guard = Guard::with_token("127.0.0.1:8000".parse().unwrap(), "secret".into());
        let good = [
            ("host", "127.0.0.1:8000"),
            ("authorization", "Bearer secret"),
            ("origin", "http://127.0.0.1:8000"),
            ("sec-fetch-site", "same-origin"),
        ];
        for route in ROUTES {
            let asked = |without: usize| {
                let parts = good.iter().enumerate().filter(|(n, _)| *n != without);
                let headers = parts.map(|(_, (name, value))| {
                    (hyper::header::HeaderName::from_static(name), hyper::header::HeaderValue::from_static(value))
                });
                let checked = guard.check(ROUTES, &route.method, route.path, &headers.collect());
                checked.map_or_else(|(status, _)| status.as_u16(), |_| 200)
            };
            let wanted = match route.needs {
                Needs::Host => [421, 200, 200, 200, 200],
                Needs::Token => [421, 401, 200, 200, 200],
                Needs::Origin => [421, 401, 403, 403, 200],
            };
            assert_eq!([0, 1, 2, 3, 4].map(asked), wanted, "{}", route.path);
        }
    }

    #[test]
    fn names_are_read_from_queries_as_browsers_write_them() {
        for (text, name) in
            [("www.example", "www.example"), ("%3A%3a1", "::1"), ("%zz%", "%zz%"), ("%c3%a4%ff", "ä\u{fffd}")]
        {
            assert_eq!(decoded(text), name);
        }
    }
}
