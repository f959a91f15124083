//! What is shown: two boards of a measurement, and the rates between them, as rows of cells.

use super::columns::{APPS, CONNECTIONS, Column, fitting};
use super::past::Past;
use crate::output::plural;
use headstart_io::forward::board::{App, Board, FlowLine};
use std::collections::HashMap;

/// What is not known.
const NOTHING: &str = "-";
/// Instead of a connect time, which a race has not.
const RACED: &str = "raced";
/// Instead of the age of a connection that has ended.
const CLOSED: &str = "ended";

/// A measurement at a moment, and how fast bytes went since the one before.
#[derive(Clone, Debug)]
pub struct View {
    /// The later board.
    pub board: Board,
    /// Mbit/s up and down of each program; none before there are two boards.
    app_rates: Vec<Option<[f64; 2]>>,
    /// The same of each connection.
    line_rates: Vec<Option<[f64; 2]>>,
}

/// A program and its rates.
#[derive(Debug)]
pub struct AppRate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Mbit/s up and down.
    pub rates: [Option<f64>; 2],
}

/// A cell: what is shown, and by what it is sorted if that is a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// Its number, if it has one.
    pub number: Option<f64>,
}

/// How a row is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// As any other.
    Plain,
    /// A program of which connections failed.
    Failing,
    /// A connection that has ended.
    Closed,
}

/// A program or a connection.
#[derive(Clone, Debug)]
pub struct Row {
    /// A cell a column.
    pub cells: Vec<Cell>,
    /// How it is shown.
    pub mood: Mood,
}

impl View {
    /// Of the first board.
    pub fn first(board: Board) -> Self {
        let (app_rates, line_rates) = (vec![None; board.apps.len()], vec![None; board.connections.len()]);
        Self { board, app_rates, line_rates }
    }

    /// Of the later of two boards.
    pub fn between(earlier: &Board, board: Board) -> Self {
        let seconds = (board.at_ms - earlier.at_ms) / 1e3;
        let rate = |before: [u64; 2], now: [u64; 2]| {
            let mbit = |k: usize| now[k].saturating_sub(before[k]) as f64 * 8.0 / 1e6 / seconds;
            (seconds > 0.0).then(|| [mbit(0), mbit(1)])
        };
        let apps: HashMap<_, _> = earlier.apps.iter().map(|app| (&app.name, [app.up_bytes, app.down_bytes])).collect();
        let key = |line: &FlowLine| (line.local.clone(), line.peer.clone());
        let lines: HashMap<_, _> = earlier.connections.iter().map(|line| (key(line), line)).collect();
        let app_rates = board.apps.iter().map(|app| {
            // A new program had nothing before.
            rate(apps.get(&app.name).copied().unwrap_or_default(), [app.up_bytes, app.down_bytes])
        });
        let line_rates = board.connections.iter().map(|line| {
            // The same ends may be another connection's by now.
            let before = lines.get(&key(line)).filter(|before| before.age_ms <= line.age_ms);
            rate(before.map_or([0; 2], |before| [before.up_bytes, before.down_bytes]), [line.up_bytes, line.down_bytes])
        });
        let (app_rates, line_rates) = (app_rates.collect(), line_rates.collect());
        Self { board, app_rates, line_rates }
    }

    /// Programs with their rates.
    pub fn apps(&self) -> impl Iterator<Item = AppRate<'_>> {
        self.board
            .apps
            .iter()
            .zip(&self.app_rates)
            .map(|(app, rates)| AppRate { name: &app.name, rates: [0, 1].map(|k| rates.map(|rates| rates[k])) })
    }

    /// What is measured, in a line of at most `width` characters if that is possible: what does not fit is left out as a whole.
    pub fn title(&self, width: usize) -> String {
        let Board { pid, at_ms, packets, left_out, lost, via, wakeups, apps, connections, omitted, of_user, .. } =
            &self.board;
        let open: usize = apps.iter().map(|app| app.open).sum();
        let mut title = format!("process {pid}, {:.0} s: {}", at_ms / 1e3, plural(apps.len() as u64, "program"));
        let mut parts = vec![format!(", {} open", plural(open as u64, "connection"))];
        // Whatever the reason, what is missing must not look like all there is.
        parts.extend(of_user.map(|user| format!(", only of user {user}")));
        // What is wrong comes before what is only counted.
        if *left_out > 0 {
            parts.push(format!(", {left_out} not forwarded"));
        }
        if *lost > 0 {
            parts.push(format!(", {} lost", plural(*lost, "record")));
        }
        parts.push(match via.as_str() {
            "ebpf" => ", in the kernel (eBPF)".to_owned(),
            _ => format!(", {}", plural(*packets, "packet")),
        });
        if *omitted > 0 {
            parts.push(format!("; {} connections are shown", connections.len()));
        }
        if let Some((cause, n)) = wakeups.iter().max_by_key(|(_, n)| **n) {
            parts.push(format!("; {}, {n} of them for {cause}", plural(wakeups.values().sum(), "wake-up")));
        }
        for part in parts {
            if title.chars().count() + part.chars().count() <= width {
                title += &part;
            }
        }
        title
    }

    /// A row for each program, in the columns of [`APPS`].
    pub fn app_rows(&self, past: &Past) -> Vec<Row> {
        let row = |(app, rates): (&App, &Option<[f64; 2]>)| {
            let meter = |name| number(app.meters.get(name).copied());
            let cells = vec![
                text(&app.name),
                count(Some(app.open as f64)),
                count(Some(app.connections as f64)),
                count(Some(app.failed as f64)),
                meter("rtt_ms"),
                text(&past.trend(&app.name)),
                meter("connect_ms"),
                number(app.lookup_ms),
                number(rates.map(|rates| rates[0])),
                number(rates.map(|rates| rates[1])),
                meter("down_gap_ms"),
                meter("longest_down_gap_ms"),
                count(app.meters.get("retransmissions").copied()),
            ];
            Row { cells, mood: if app.failed > 0 { Mood::Failing } else { Mood::Plain } }
        };
        self.board.apps.iter().zip(&self.app_rates).map(row).collect()
    }

    /// A row for each connection, in the columns of [`CONNECTIONS`]; those that have ended of late come last.
    pub fn connection_rows(&self, past: &Past) -> Vec<Row> {
        let row = |line: &FlowLine, rates: Option<[f64; 2]>, mood: Mood| {
            let meter = |name| number(line.meters.get(name).copied());
            let peer = if is_tcp(line) { line.peer.clone() } else { format!("{} {}", line.transport, line.peer) };
            let seconds = line.age_ms / 1e3;
            let age = if mood == Mood::Closed { CLOSED.into() } else { format!("{seconds:.0}") };
            let raced = line.accelerated.is_some();
            let cells = vec![
                text(&line.app),
                text(&line.pid.map_or_else(|| NOTHING.into(), |pid| pid.to_string())),
                text(&peer),
                Cell { text: age, number: Some(seconds) },
                meter("rtt_ms"),
                if raced { text(RACED) } else { meter("connect_ms") },
                number(rates.map(|rates| rates[0])),
                number(rates.map(|rates| rates[1])),
                meter("down_gap_ms"),
                meter("longest_down_gap_ms"),
                count(line.meters.get("retransmissions").copied()),
            ];
            Row { cells, mood }
        };
        let open = self.board.connections.iter().zip(&self.line_rates);
        let open = open.map(|(line, rates)| row(line, *rates, Mood::Plain));
        open.chain(past.closed().map(|line| row(line, None, Mood::Closed))).collect()
    }

    /// All of it as plain lines, no longer than `width` if that is possible.
    pub fn text(&self, width: usize) -> Vec<String> {
        let past = Past::default();
        let mut lines = vec![self.title(width), String::new()];
        lines.extend(table(&APPS, &self.app_rows(&past), width));
        let connections = self.connection_rows(&past);
        if !connections.is_empty() {
            lines.push(String::new());
            lines.extend(table(&CONNECTIONS, &connections, width));
        }
        lines
    }
}

/// A heading and rows: names to the left, numbers to the right.
fn table(columns: &[Column], rows: &[Row], width: usize) -> Vec<String> {
    let shown = fitting(columns, width, |column| !column.only_live);
    let line = |text: &dyn Fn(usize) -> String| {
        let cell = |n: &usize| columns[*n].aligned(&text(*n));
        shown.iter().map(cell).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    let heading = line(&|n| columns[n].heading.to_owned());
    std::iter::once(heading).chain(rows.iter().map(|row| line(&|n| row.cells[n].text.clone()))).collect()
}

/// Whether a line is a connection's of TCP, of which nothing need be said.
fn is_tcp(line: &FlowLine) -> bool {
    matches!(line.transport.as_str(), "" | "tcp")
}

fn text(text: &str) -> Cell {
    Cell { text: text.to_owned(), number: None }
}

/// Three digits, more or less.
fn number(value: Option<f64>) -> Cell {
    let text = match value {
        None => NOTHING.into(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    };
    Cell { text, number: value }
}

fn count(value: Option<f64>) -> Cell {
    Cell { text: value.map_or_else(|| NOTHING.into(), |value| format!("{value:.0}")), number: value }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use headstart_core::forward::meter;
    use headstart_io::forward::board::Meters;

    /// A board of a program with a connection, which has had so many bytes at so many milliseconds.
    pub fn board(at_ms: f64, down_bytes: u64) -> Board {
        let meters: Meters =
            [("rtt_ms", 17.25), ("connect_ms", 34.5), ("retransmissions", 2.0)].map(|(k, v)| (k.to_owned(), v)).into();
        let app = App {
            name: "curl".into(),
            open: 1,
            connections: 3,
            failed: 1,
            down_bytes,
            meters: meters.clone(),
            ..App::default()
        };
        let (local, peer) = ("192.0.2.1:4000".into(), "198.51.100.1:443".into());
        let line = FlowLine {
            app: "curl".into(),
            pid: Some(77),
            local,
            peer,
            age_ms: at_ms,
            down_bytes,
            meters,
            ..FlowLine::default()
        };
        Board { pid: 7, at_ms, packets: 9, apps: vec![app], connections: vec![line], ..Board::default() }
    }

    fn shown(row: &Row) -> Vec<&str> {
        row.cells.iter().map(|cell| cell.text.as_str()).collect()
    }

    #[test]
    fn a_connection_that_was_raced_says_so_instead_of_a_time() {
        let mut board = board(1000.0, 0);
        board.connections[0].accelerated = Some("198.51.100.2:443".into());
        let rows = View::first(board).connection_rows(&Past::default());
        assert_eq!((shown(&rows[0])[2], shown(&rows[0])[5]), ("198.51.100.1:443", RACED));
    }

    #[test]
    fn rates_are_of_what_came_between_two_boards() {
        let past = Past::default();
        let view = View::between(&board(1000.0, 1_000_000), board(3000.0, 2_000_000));
        assert_eq!(view.apps().next().unwrap().rates, [Some(0.0), Some(4.0)]);
        assert_eq!(shown(&view.connection_rows(&past)[0])[7], "4.00");
        // Nothing is made up: one board has no rates, and neither have two of one moment.
        assert_eq!(View::first(board(1.0, 1)).apps().next().unwrap().rates, [None, None]);
        assert_eq!(shown(&View::between(&board(1.0, 1), board(1.0, 2)).app_rows(&past)[0])[9], "-");
    }

    #[test]
    fn the_text_has_a_line_for_each_program_and_connection() {
        let view = View::between(&board(1000.0, 0), board(2000.0, 125_000));
        let text = view.text(200);
        assert_eq!(text[0], "process 7, 2 s: 1 program, 1 connection open, 9 packets");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text[3]), ["curl", "1", "3", "1", "17.2", "34.5", "-", "0.00", "1.00", "-", "-", "2"]);
        assert_eq!(words(&text[6])[..4], ["curl", "77", "198.51.100.1:443", "2"]);
        let mut busy = view.clone();
        busy.board.packets = 304;
        busy.board.wakeups = [("packets".to_owned(), 519), ("timer of a connection".to_owned(), 265)].into();
        assert_eq!(busy.title(60), "process 7, 2 s: 1 program, 1 connection open, 304 packets");
        assert_eq!(busy.title(80), busy.title(60), "no part of a phrase");
        assert!(busy.title(200).ends_with("; 784 wake-ups, 519 of them for packets"), "{}", busy.title(200));
        busy.board.left_out = 3;
        assert_eq!(busy.title(61), "process 7, 2 s: 1 program, 1 connection open, 3 not forwarded");
        for width in [60, 80, 100] {
            assert!(view.text(width).iter().all(|line| line.len() <= width), "{:#?}", view.text(width));
        }
    }

    #[test]
    fn the_meters_that_are_shown_are_in_the_registry() {
        for name in ["rtt_ms", "connect_ms", "down_gap_ms", "longest_down_gap_ms", "retransmissions"] {
            assert!(meter::ALL.iter().any(|meter| meter.name == name), "{name}");
        }
    }
}
