//! `headstart top`: the programs that are being measured, their connections and lookups, as they are now.
//!
//! It asks a running measurement (`headstart run --measure`, `headstart trace`, `headstart up --measure`) once an interval and reads; nothing is measured here,
//! and the measurement sleeps between two questions.

mod choice;
mod columns;
mod past;
mod screen;
mod view;

use crate::exit::{self, Coded, Usage};
use crate::input;
use crate::output::{Format, document, width};
use headstart_io::board;
use headstart_io::clock::Clock;
use headstart_io::forward::board::Board;
use rustix::stdio::stdout;
use serde_json::json;
use view::View;

/// Version of the JSON.
const VERSION: u32 = 2;
/// Arguments of `headstart top`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Process ID of the measurement, if there are several.
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print one snapshot and exit; also when standard output is not a terminal.
    #[arg(long)]
    once: bool,
    /// Seconds between updates.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    #[command(flatten)]
    format: Format,
}

/// Shows it.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let every = input::interval(args.interval)?;
    let pid = chosen(args.pid)?;
    let first = ask(pid)?;
    if args.once || args.format.json || !rustix::termios::isatty(stdout()) {
        Clock::new().sleep(every);
        // It may have ended meanwhile; then what it said first is the last.
        let view = match board::ask::<Board>(pid) {
            Ok(second) => View::between(&first, second),
            Err(_) => View::first(first),
        };
        if args.format.json {
            let board = serde_json::to_value(&view.board)?;
            let rates: Vec<_> = view
                .apps()
                .map(|app| json!({ "app": app.name, "up_mbit_s": app.rates[0], "down_mbit_s": app.rates[1] }))
                .collect();
            document(VERSION, json!({ "board": board, "rates": rates }));
        } else {
            // What is no terminal is a file or a program, which has room.
            let width = if rustix::termios::isatty(stdout()) { width() } else { usize::MAX / 2 };
            crate::say!("{}", view.text(width).join("\n"));
        }
        return Ok(exit::OK);
    }
    screen::show(pid, View::first(first), every)?;
    Ok(exit::OK)
}

/// The measurement that is asked.
fn chosen(named: Option<u32>) -> anyhow::Result<u32> {
    if let Some(pid) = named {
        return Ok(pid);
    }
    match board::running::<Board>()[..] {
        [] => {
            let why = "no measurement is running in this network namespace: start one with `headstart run --measure -- CMD` or `headstart up --measure --capture-default`";
            Err(Coded(exit::UNREACHABLE, why.into()).into())
        }
        [pid] => Ok(pid),
        ref several => {
            let pids: Vec<_> = several.iter().map(u32::to_string).collect();
            Err(Usage(format!("several measurements are running; choose one: headstart top {}", pids.join(" | ")))
                .into())
        }
    }
}

fn ask(pid: u32) -> anyhow::Result<Board> {
    board::ask(pid).map_err(|e| {
        let code =
            if e.kind() == std::io::ErrorKind::PermissionDenied { exit::NOT_PERMITTED } else { exit::UNREACHABLE };
        Coded(code, format!("process {pid} does not answer as a measurement: {e}; `headstart top` without a process id finds running ones")).into()
    })
}
