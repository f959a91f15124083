//! What is shown: two boards of a measurement, and the rates between them, as rows of words.

use crate::output::plural;
use headstart_io::forward::board::{App, Board, Line, Meters};
use std::collections::HashMap;

/// Columns of a program, and of a connection: the heading, and how wide. The first takes what is left.
pub const APPS: [(&str, u16); 12] = [
    ("APP", 15),
    ("OPEN", 5),
    ("ALL", 6),
    ("FAILED", 6),
    ("RTT ms", 8),
    ("CONNECT", 8),
    ("DNS ms", 8),
    ("UP Mb/s", 8),
    ("DOWN", 8),
    ("GAP ms", 8),
    ("LONGEST", 8),
    ("AGAIN", 6),
];
/// See [`APPS`].
pub const CONNECTIONS: [(&str, u16); 11] = [
    ("APP", 15),
    ("PID", 8),
    ("PEER", 28),
    ("AGE s", 7),
    ("RTT ms", 8),
    ("CONNECT", 8),
    ("UP Mb/s", 8),
    ("DOWN", 8),
    ("GAP ms", 8),
    ("LONGEST", 8),
    ("AGAIN", 6),
];
/// What is not known.
const NOTHING: &str = "-";
/// Instead of a connect time, which a race has not.
const RACED: &str = "raced";

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
        let key = |line: &Line| (line.local.clone(), line.peer.clone());
        let lines: HashMap<_, _> = earlier.connections.iter().map(|line| (key(line), line)).collect();
        let app_rates = board.apps.iter().map(|app| {
            // Who is new had nothing before.
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

    /// What is measured, in a line.
    pub fn title(&self) -> String {
        let Board { pid, at_ms, packets, left_out, lost, via, wakeups, apps, connections, omitted, .. } = &self.board;
        let open: usize = apps.iter().map(|app| app.open).sum();
        let mut title = format!(
            "process {pid} has measured for {:.0} s: {}, {} open, {}",
            at_ms / 1e3,
            plural(apps.len() as u64, "program"),
            plural(open as u64, "connection"),
            if via == "ebpf" { "in the kernel (eBPF)".to_owned() } else { plural(*packets, "packet") },
        );
        if *left_out > 0 {
            title += &format!(", {left_out} not forwarded");
        }
        if *lost > 0 {
            title += &format!(", {} lost", plural(*lost, "record"));
        }
        if let Some((cause, n)) = wakeups.iter().max_by_key(|(_, n)| **n) {
            title += &format!("; {}, {n} of them for {cause}", plural(wakeups.values().sum(), "wake-up"));
        }
        if *omitted > 0 {
            title += &format!("; {} connections are shown", connections.len());
        }
        title
    }

    /// A row for each program, in the columns of [`APPS`].
    pub fn app_rows(&self) -> Vec<[String; APPS.len()]> {
        let row = |(app, rates): (&App, &Option<[f64; 2]>)| {
            let meter = |name| number(read(&app.meters, name));
            let rate = |k: usize| number(rates.map(|rates| rates[k]));
            [
                app.name.clone(),
                app.open.to_string(),
                app.connections.to_string(),
                app.failed.to_string(),
                meter("rtt_ms"),
                meter("connect_ms"),
                number(app.lookup_ms),
                rate(0),
                rate(1),
                meter("down_gap_ms"),
                meter("longest_down_gap_ms"),
                count(read(&app.meters, "sent_again")),
            ]
        };
        self.board.apps.iter().zip(&self.app_rates).map(row).collect()
    }

    /// A row for each connection, in the columns of [`CONNECTIONS`].
    pub fn connection_rows(&self) -> Vec<[String; CONNECTIONS.len()]> {
        let row = |(line, rates): (&Line, &Option<[f64; 2]>)| {
            let meter = |name| number(read(&line.meters, name));
            let rate = |k: usize| number(rates.map(|rates| rates[k]));
            [
                line.app.clone(),
                line.pid.map_or_else(|| NOTHING.into(), |pid| pid.to_string()),
                if is_tcp(line) { line.peer.clone() } else { format!("{} {}", line.transport, line.peer) },
                format!("{:.0}", line.age_ms / 1e3),
                meter("rtt_ms"),
                if line.accelerated.is_some() { RACED.into() } else { meter("connect_ms") },
                rate(0),
                rate(1),
                meter("down_gap_ms"),
                meter("longest_down_gap_ms"),
                count(read(&line.meters, "sent_again")),
            ]
        };
        self.board.connections.iter().zip(&self.line_rates).map(row).collect()
    }

    /// All of it as plain lines.
    pub fn text(&self) -> Vec<String> {
        let mut lines = vec![self.title(), String::new(), line(&APPS.map(|(heading, _)| heading.to_owned()), &APPS)];
        lines.extend(self.app_rows().iter().map(|row| line(row, &APPS)));
        let connections = self.connection_rows();
        if !connections.is_empty() {
            lines.push(String::new());
            lines.push(line(&CONNECTIONS.map(|(heading, _)| heading.to_owned()), &CONNECTIONS));
            lines.extend(connections.iter().map(|row| line(row, &CONNECTIONS)));
        }
        lines
    }
}

/// Names to the left, numbers to the right.
fn line(row: &[String], columns: &[(&str, u16)]) -> String {
    let cell = |(text, (heading, width)): (&String, &(&str, u16))| {
        let width = usize::from(*width);
        if is_name(heading) { format!("{text:<width$}") } else { format!("{text:>width$}") }
    };
    row.iter().zip(columns).map(cell).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// Whether a column holds names.
pub fn is_name(heading: &str) -> bool {
    matches!(heading, "APP" | "PEER")
}

/// Whether a line is a connection's of TCP, of which nothing need be said.
fn is_tcp(line: &Line) -> bool {
    matches!(line.transport.as_str(), "" | "tcp")
}

fn read(meters: &Meters, name: &str) -> Option<f64> {
    meters.get(name).copied()
}

/// Three digits, more or less.
fn number(value: Option<f64>) -> String {
    match value {
        None => NOTHING.into(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn count(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.into(), |value| format!("{value:.0}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use headstart_core::forward::meter;

    /// A board of a program with a connection, which has had so many bytes at so many milliseconds.
    pub fn board(at_ms: f64, down_bytes: u64) -> Board {
        let meters: Meters =
            [("rtt_ms", 17.25), ("connect_ms", 34.5), ("sent_again", 2.0)].map(|(k, v)| (k.to_owned(), v)).into();
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
        let line = Line {
            app: "curl".into(),
            pid: Some(77),
            local,
            peer,
            age_ms: at_ms,
            down_bytes,
            meters,
            ..Line::default()
        };
        Board { pid: 7, at_ms, packets: 9, apps: vec![app], connections: vec![line], ..Board::default() }
    }

    #[test]
    fn a_connection_that_was_raced_says_so_instead_of_a_time() {
        let mut board = board(1000.0, 0);
        board.connections[0].accelerated = Some("198.51.100.2:443".into());
        let rows = View::first(board).connection_rows();
        assert_eq!((rows[0][2].as_str(), rows[0][5].as_str()), ("198.51.100.1:443", RACED));
    }

    #[test]
    fn rates_are_of_what_came_between_two_boards() {
        let view = View::between(&board(1000.0, 1_000_000), board(3000.0, 2_000_000));
        assert_eq!(view.apps().next().unwrap().rates, [Some(0.0), Some(4.0)]);
        assert_eq!(view.connection_rows()[0][7], "4.00");
        // Nothing is made up: one board has no rates, and neither have two of one moment.
        assert_eq!(View::first(board(1.0, 1)).apps().next().unwrap().rates, [None, None]);
        assert_eq!(View::between(&board(1.0, 1), board(1.0, 2)).app_rows()[0][8], "-");
    }

    #[test]
    fn the_text_has_a_line_for_each_program_and_connection() {
        let text = View::between(&board(1000.0, 0), board(2000.0, 125_000)).text();
        assert_eq!(text[0], "process 7 has measured for 2 s: 1 program, 1 connection open, 9 packets");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text[3]), ["curl", "1", "3", "1", "17.2", "34.5", "-", "0.00", "1.00", "-", "-", "2"]);
        assert_eq!(words(&text[6])[..4], ["curl", "77", "198.51.100.1:443", "2"]);
    }

    #[test]
    fn the_meters_that_are_shown_are_in_the_registry() {
        for name in ["rtt_ms", "connect_ms", "down_gap_ms", "longest_down_gap_ms", "sent_again"] {
            assert!(meter::ALL.iter().any(|meter| meter.name == name), "{name}");
        }
    }
}
