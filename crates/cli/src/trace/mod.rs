//! `headstart trace -- CMD`: what a program sent and received, as a file that other tools open: every packet with the name of its
//! process, or its connections and lookups on a time line.

mod har;
mod otlp;
mod perfetto;

use crate::exit::Usage;
use crate::post::{self, Target};
use crate::run::measure::{self, MeasuredBy, Wanted};
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
use std::time::SystemTime;

/// Arguments of `headstart trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write; `-` is standard output, for pcapng alone [default: headstart.pcapng, .har, .json or .otlp, by format].
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// What to write.
    #[arg(short, long, value_name = "FORMAT", default_value = "pcapng")]
    format: Format,
    /// How to measure; only tun sees packets.
    #[arg(long, value_enum, default_value = "tun")]
    via: MeasuredBy,
    /// Keep at most BYTES of each packet (128 covers the headers).
    #[arg(short, long, value_name = "BYTES")]
    snap: Option<usize>,
    /// Send the trace to a collector, for example http://localhost:4318/v1/traces (with --format otlp); a file is then written only with --write.
    #[arg(long, value_name = "URL")]
    to: Option<Target>,
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
    /// Connections, UDP flows, pings and lookups, for ui.perfetto.dev and chrome://tracing.
    Perfetto,
    /// TCP and QUIC connections as entries of an HTTP archive (HAR 1.2).
    Har,
    /// Connections, UDP flows, pings and lookups as spans of OpenTelemetry (OTLP, protobuf).
    Otlp,
}

impl Format {
    fn file(self) -> &'static str {
        match self {
            Self::Pcapng => "headstart.pcapng",
            Self::Perfetto => "headstart.json",
            Self::Har => "headstart.har",
            Self::Otlp => "headstart.otlp",
        }
    }
}

/// Runs the program and writes the file; the program's exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.via == MeasuredBy::Ebpf && args.format == Format::Pcapng {
        return Err(Usage(
            "--via ebpf: only tun sees packets; use --format perfetto, har or otlp, or --via tun".into(),
        )
        .into());
    }
    if args.snap == Some(0) {
        return Err(Usage("--snap 0: must be at least 1".into()).into());
    }
    if args.to.is_some() && args.format != Format::Otlp {
        return Err(Usage("--to: collectors take traces of OpenTelemetry; use it with --format otlp".into()).into());
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
    if args.format == Format::Pcapng {
        return measure::run(&Wanted { pcapng: Some(&file), ..wanted });
    }
    if args.snap.is_some() {
        return Err(Usage("--snap: only packets can be cut short; use it with --format pcapng".into()).into());
    }
    if file == Path::new("-") {
        return Err(Usage("--write -: only pcapng can go to standard output, which the program uses too".into()).into());
    }
    // Before the program runs: what cannot be written should not cost a run.
    let wants_file = args.write.is_some() || args.to.is_none();
    let mut out = wants_file.then(|| File::create(&file).map_err(|why| Usage::unwritable(&file, why))).transpose()?;
    let began = wall();
    let (code, lines) = measured(&wanted)?;
    let bytes = match args.format {
        Format::Har => har::archive(&lines, began).to_string().into_bytes(),
        Format::Otlp => otlp(&lines, args, began)?,
        Format::Perfetto | Format::Pcapng => perfetto::trace(&lines, began).to_string().into_bytes(),
    };
    if let Some(out) = &mut out {
        out.write_all(&bytes).with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(to) = &args.to {
        post::post(to, crate::otlp::MEDIA_TYPE, bytes)?;
    }
    Ok(code)
}

/// Runs the program; its exit code, and the lines of the measurement.
fn measured(wanted: &Wanted<'_>) -> anyhow::Result<(u8, Vec<Value>)> {
    let mut lines = File::from(memfd_create(c"headstart-trace", MemfdFlags::CLOEXEC)?);
    let path = format!("/proc/self/fd/{}", lines.as_raw_fd());
    let code = measure::run(&Wanted { flows: Some(Path::new(&path)), ..*wanted })?;
    lines.seek(SeekFrom::Start(0))?;
    let lines = BufReader::new(lines).lines().map(|line| Ok(serde_json::from_str(&line?)?));
    Ok((code, lines.collect::<anyhow::Result<_>>().context("reading the measurement")?))
}

fn otlp(lines: &[Value], args: &Args, began: SystemTime) -> anyhow::Result<Vec<u8>> {
    let mut id = [0; 16];
    rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())?;
    let program = args.command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let run = otlp::Run { program: &program.to_string_lossy(), began, ended: wall(), id };
    Ok(otlp::request(lines, &run))
}

/// What is in a line as text; empty without it.
fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

/// Lines as a measurement writes them: a lookup, a connection with TLS that came to be, and one that did not; a flow of QUIC, one of UDP that
/// is unreachable, and a ping.
#[cfg(test)]
fn sample() -> Vec<Value> {
    use serde_json::json;
    vec![
        json!({"version": 2, "event": "lookup", "app": "curl", "name": "www.example", "server": "192.0.2.53:53", "at_ms": 5.0, "took_ms": 20.0}),
        json!({"version": 2, "event": "connection", "app": "curl", "pid": 7, "local": "192.0.2.1:4000",
            "peer": "198.51.100.1:443", "at_ms": 26.0, "end": "finished", "lasted_ms": 300.0, "up_bytes": 500, "down_bytes": 9000,
            "connect_ms": 40.0, "tls_hello_ms": 45.0}),
        json!({"version": 2, "event": "connection", "app": "wget", "pid": 8, "local": "192.0.2.1:4001",
            "peer": "[2001:db8::1]:443", "at_ms": 30.0, "end": "refused", "lasted_ms": 10.0, "up_bytes": 0, "down_bytes": 0,
            "connect_ms": null, "tls_hello_ms": null}),
        json!({"version": 2, "event": "udp", "app": "curl", "pid": 7, "local": "192.0.2.1:4002", "peer": "198.51.100.1:443",
            "at_ms": 50.0, "lasted_ms": 200.0, "up_bytes": 3000, "down_bytes": 70_000, "up_packets": 9, "down_packets": 60,
            "icmp_errors": 0, "connect_ms": 30.0, "quic": {"version": "0x00000001", "handshake_ms": 30.0}}),
        json!({"version": 2, "event": "udp", "app": "ntp", "pid": 9, "local": "192.0.2.1:123", "peer": "198.51.100.2:123",
            "at_ms": 60.0, "lasted_ms": 0.0, "up_bytes": 48, "down_bytes": 0, "up_packets": 1, "down_packets": 0,
            "icmp_errors": 1, "connect_ms": null, "quic": null}),
        json!({"version": 2, "event": "echo", "app": "ping", "pid": null, "local": "192.0.2.1", "peer": "198.51.100.3",
            "at_ms": 70.0, "lasted_ms": 1000.0, "requests": 2, "replies": 2, "icmp_errors": 0, "rtt_ms": 10.0}),
    ]
}
