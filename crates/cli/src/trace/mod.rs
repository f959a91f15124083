//! `headstart trace -- CMD`: what a program sent and received, as a file that other tools open: every packet with the name of its
//! process, or its connections and lookups on a time line.

mod har;
mod perfetto;

use crate::exit::Usage;
use crate::run::measure::{self, Source, Wanted};
use anyhow::Context as _;
use clap::ValueEnum;
use headstart_io::clock::wall;
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Arguments of `headstart trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write; `-` is standard output, for pcapng alone [default: headstart.pcapng, .har or .json, by format].
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// What to write.
    #[arg(short, long, value_name = "FORMAT", default_value = "pcapng")]
    format: Format,
    /// How to measure; only tun sees packets.
    #[arg(long, value_enum, default_value = "tun")]
    via: Source,
    /// Keep at most BYTES of each packet (128 covers the headers).
    #[arg(short, long, value_name = "BYTES")]
    snap: Option<usize>,
    /// Do not print the measurement summary.
    #[arg(short, long)]
    quiet: bool,
    /// Print the measurement summary as one JSON object on standard error instead of text.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Every packet, for Wireshark.
    Pcapng,
    /// Connections and lookups, for ui.perfetto.dev and chrome://tracing.
    Perfetto,
    /// Connections as entries of an HTTP archive (HAR 1.2).
    Har,
}

impl Format {
    fn file(self) -> &'static str {
        match self {
            Self::Pcapng => "headstart.pcapng",
            Self::Perfetto => "headstart.json",
            Self::Har => "headstart.har",
        }
    }
}

/// Runs the program and writes the file; the program's exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.via == Source::Ebpf && args.format == Format::Pcapng {
        return Err(
            Usage("--via ebpf: only tun sees packets; use --format perfetto or har, or --via tun".into()).into()
        );
    }
    if args.snap == Some(0) {
        return Err(Usage("--snap 0: must be at least 1".into()).into());
    }
    let file = args.write.clone().unwrap_or_else(|| args.format.file().into());
    let wanted = Wanted {
        via: args.via,
        command: &args.command,
        quiet: args.quiet,
        summary: None,
        json: args.json,
        flows: None,
        pcapng: None,
        snap: args.snap,
        request_rtt: false,
        no_lookout: false,
        profile: None,
        accelerate: None,
        telemetry: None,
    };
    let write = match args.format {
        Format::Pcapng => return measure::run(&Wanted { pcapng: Some(&file), ..wanted }),
        Format::Perfetto => perfetto::trace,
        Format::Har => har::archive,
    };
    if args.snap.is_some() {
        return Err(Usage("--snap: only packets can be cut short; use it with --format pcapng".into()).into());
    }
    if file == Path::new("-") {
        return Err(Usage("--write -: only pcapng can go to standard output, which the program uses too".into()).into());
    }
    // Before the program runs: what cannot be written should not cost a run.
    let mut out = File::create(&file).map_err(|why| Usage::unwritable(&file, why))?;
    let mut lines = File::from(memfd_create(c"headstart-trace", MemfdFlags::CLOEXEC)?);
    let path = format!("/proc/self/fd/{}", lines.as_raw_fd());
    let began = wall();
    let code = measure::run(&Wanted { flows: Some(Path::new(&path)), ..wanted })?;
    lines.seek(SeekFrom::Start(0))?;
    let lines = BufReader::new(lines).lines().map(|line| Ok(serde_json::from_str(&line?)?));
    let lines: Vec<Value> = lines.collect::<anyhow::Result<_>>().context("reading the measurement")?;
    let written = out.write_all(write(&lines, began).to_string().as_bytes());
    written.with_context(|| format!("writing {}", file.display()))?;
    Ok(code)
}

/// What is in a line as text; empty without it.
fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

/// Lines as a measurement writes them: a lookup, a connection with TLS that came to be, and one that did not.
#[cfg(test)]
fn sample() -> Vec<Value> {
    use serde_json::json;
    vec![
        json!({"version": 1, "event": "lookup", "app": "curl", "name": "www.example", "server": "192.0.2.53:53", "at_ms": 5.0, "took_ms": 20.0}),
        json!({"version": 1, "event": "connection", "app": "curl", "pid": 7, "local": "192.0.2.1:4000",
            "peer": "198.51.100.1:443", "at_ms": 26.0, "end": "finished", "lasted_ms": 300.0, "up_bytes": 500, "down_bytes": 9000,
            "connect_ms": 40.0, "tls_hello_ms": 45.0}),
        json!({"version": 1, "event": "connection", "app": "wget", "pid": 8, "local": "192.0.2.1:4001",
            "peer": "[2001:db8::1]:443", "at_ms": 30.0, "end": "refused", "lasted_ms": 10.0, "up_bytes": 0, "down_bytes": 0,
            "connect_ms": null, "tls_hello_ms": null}),
    ]
}
