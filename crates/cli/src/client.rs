//! `headstart client`: headstart's own small client, unmodified as far as the preloaded library is concerned: it calls
//! libc's getaddrinfo and connect. It reads a request a line and answers each with a line of JSON when it is done, so
//! that one process can be measured over many names, in turns with others.

use headstart_core::path::Family;
use headstart_io::sys::call_cost;
use headstart_io::sys::libc_client::reach;
use serde_json::{Value, json};
use std::io::{BufRead, ErrorKind, Read, Write, stdin, stdout};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Arguments of `headstart client`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Connect to this name once, port 80, instead of reading requests.
    name: Option<String>,
}

/// Reads lines until the end of standard input: `NAME PORT [4|6|-] [MILLISECONDS]` (a family, and how long an attempt to
/// connect may take), the same after `ask` to say a line on the connection and wait for an answer, or `bench` and what
/// to measure (see `call_cost::Request`). Visits that are read while others wait run beside them.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(name) = &args.name {
        let reached = reach(name, 80, None, None)?;
        crate::say!("{}", reached.peer.ip());
        return Ok(crate::exit::OK);
    }
    std::thread::scope(|scope| {
        for line in stdin().lock().lines() {
            let line = line?;
            let say = |answer: Value| {
                let mut out = stdout().lock();
                // A failed write means that the reader is gone: the end of standard input is near.
                let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
            };
            match request(&line) {
                Ok(Request::Bench(what)) => say(bench(what)),
                Ok(Request::Visit(visit)) => drop(scope.spawn(move || say(visit.answer()))),
                Err(why) => say(json!({ "error": why })),
            }
        }
        Ok(crate::exit::OK)
    })
}

/// A line that was read.
enum Request<'a> {
    /// What to measure.
    Bench(&'a str),
    /// What to visit.
    Visit(Visit),
}

struct Visit {
    name: String,
    port: u16,
    family: Option<Family>,
    patience: Option<Duration>,
    /// Says a line on the connection, and waits for an answer.
    asks: bool,
}

fn request(line: &str) -> Result<Request<'_>, String> {
    if let Some(what) = line.trim_start().strip_prefix("bench ") {
        return Ok(Request::Bench(what));
    }
    let (asks, visit) = line.trim_start().strip_prefix("ask ").map_or((false, line), |visit| (true, visit));
    let words: Vec<_> = visit.split_ascii_whitespace().collect();
    let [name, port, ref rest @ ..] = words[..] else {
        return Err(format!("{line:?} is not NAME PORT [4|6|-] [MILLISECONDS], and not `bench` with a measurement"));
    };
    let family = match rest.first() {
        Some(&"4") => Some(Family::V4),
        Some(&"6") => Some(Family::V6),
        _ => None,
    };
    let patience = rest.get(1).and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    let port = port.parse().map_err(|e| format!("{port:?} is not a port: {e}"))?;
    Ok(Request::Visit(Visit { name: name.to_owned(), port, family, patience, asks }))
}

impl Visit {
    fn answer(&self) -> Value {
        match reach(&self.name, self.port, self.family, self.patience) {
            Ok(reached) if self.asks => match ask(reached.socket) {
                Ok(()) => json!({ "name": self.name, "peer": reached.peer.ip().to_string() }),
                Err(e) => json!({ "name": self.name, "error": format!("{}: no answer: {e}", self.name) }),
            },
            Ok(reached) => json!({
                "name": self.name,
                "lookup_ms": reached.lookup.as_secs_f64() * 1e3,
                "connect_ms": reached.connect.as_secs_f64() * 1e3,
                "peer": reached.peer.ip().to_string(),
            }),
            Err(e) => json!({ "name": self.name, "error": e.to_string() }),
        }
    }
}

/// Says a line, and waits for anything to be said to it.
fn ask(socket: OwnedFd) -> std::io::Result<()> {
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"hello\n")?;
    match stream.read(&mut [0; 64])? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Measures what calls take, in microseconds.
fn bench(request: &str) -> Value {
    let taken = request.parse::<call_cost::Request>().map_err(|e| e.to_string());
    let us = |all: &[Duration]| all.iter().map(|d| d.as_nanos() as f64 / 1e3).collect::<Vec<_>>();
    match taken.and_then(|request| request.measure().map_err(|e| e.to_string())) {
        Ok(taken) => json!({ "lookup_us": us(&taken.lookup), "call_us": us(&taken.call) }),
        Err(e) => json!({ "error": e }),
    }
}
