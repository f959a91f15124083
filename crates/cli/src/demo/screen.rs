//! What the demo's lines look like: a line a program with two bars on one scale of time, and a page load in two rows. Text in, text
//! out; nothing here measures or writes.

use headstart_lab::experiment::{Fall, Waterfall};

/// Characters of a bar; all of it is as long as a program may take.
const BAR: usize = 16;
/// Characters of a page load.
const PAGE: usize = 56;
/// Characters of a time.
const TIME: usize = 7;

/// How long a program takes, or has taken until now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// In milliseconds.
    pub ms: f64,
    /// It has not ended yet.
    pub running: bool,
}

/// A program on a network, without and with headstart.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Title of the network.
    pub network: String,
    /// The program.
    pub program: String,
    /// Without, with; none before the first run.
    pub cells: [Option<Cell>; 2],
    /// What comes of it, in words.
    pub verdict: String,
}

/// Whether a program was stopped after so many milliseconds.
pub fn is_cut(ms: f64) -> bool {
    ms >= super::stopped_after().as_secs_f64() * 1e3
}

/// A line a program under the name of its network.
pub fn lines(lanes: &[Lane]) -> Vec<String> {
    let column = BAR + 1 + TIME;
    let mut lines = vec![format!("{:<14}{:<column$}  with headstart", "", "without headstart")];
    let mut network = String::new();
    for lane in lanes {
        if lane.network != network {
            network.clone_from(&lane.network);
            lines.push(network.clone());
        }
        let [without, with] = lane.cells.map(|cell| cell.map_or_else(String::new, shown));
        let program = if lane.program == "client" { "own client" } else { &lane.program };
        let line = format!("  {program:<12}{without:<column$}  {with:<column$}  {}", lane.verdict);
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// A bar and the time beside it.
fn shown(cell: Cell) -> String {
    let whole = super::stopped_after().as_secs_f64() * 1e3;
    let time = if cell.running { format!("{:.1} s", cell.ms / 1e3) } else { time(cell.ms) };
    format!("{} {time}", bar((cell.ms / whole).min(1.0)))
}

/// A time that people read; one that was cut is at least that long.
fn time(ms: f64) -> String {
    match ms {
        ms if is_cut(ms) => format!("> {:.0} s", super::stopped_after().as_secs_f64()),
        ms if ms >= 1e3 => format!("{:.1} s", ms / 1e3),
        ms => format!("{ms:.0} ms"),
    }
}

/// A share of a whole bar, at least a sliver.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((share * BAR as f64 * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A page load without and with headstart, in two rows over one scale of time.
pub fn page(without: &Waterfall, with: &Waterfall) -> Vec<String> {
    let until = without.load_ms.max(with.load_ms);
    let row = |name: &str, load: &Waterfall| format!("  {name:<8} {} {:.2} s", phases(load, until), load.load_ms / 1e3);
    vec![
        format!("A page of {} objects over LTE (░ connecting, ▒ server, █ data)", without.falls.len()),
        row("without", without),
        row("with", with),
    ]
}

/// What a page load does at each moment until its load event; data goes before waiting.
fn phases(load: &Waterfall, until: f64) -> String {
    let step = until / PAGE as f64;
    let at = |n: usize| {
        let (from, to) = (n as f64 * step, (n + 1) as f64 * step);
        let any = |phase: fn(&Fall) -> (f64, f64)| {
            load.falls.iter().map(phase).any(|(begins, ends)| begins < to && ends > from && ends > begins)
        };
        match () {
            () if from >= load.load_ms => ' ',
            () if any(|fall| (fall.first_byte_ms, fall.end_ms)) => '█',
            () if any(|fall| (fall.sent_ms, fall.first_byte_ms)) => '▒',
            () if any(|fall| (fall.wanted_ms, fall.sent_ms)) => '░',
            // The browser computes.
            () => '·',
        }
    };
    (0..PAGE).map(at).collect::<String>().trim_end().to_owned()
}

/// The first `width` characters of a line.
pub fn cut(line: &str, width: usize) -> String {
    line.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_time_and_never_nothing() {
        assert_eq!([bar(0.0), bar(0.5), bar(1.0)], ["▏".to_owned(), "█".repeat(8), "█".repeat(16)]);
        assert_eq!([time(64.4), time(15_080.0), time(20_003.0)], ["64 ms", "15.1 s", "> 20 s"]);
    }

    #[test]
    fn a_page_load_says_what_it_waits_for() {
        let fall = |wanted_ms: f64, sent_ms: f64, first_byte_ms: f64, end_ms: f64| Fall {
            kind: "doc".into(),
            host: "h".into(),
            wanted_ms,
            sent_ms,
            first_byte_ms,
            end_ms,
        };
        let load = Waterfall {
            condition: "c".into(),
            arm: "bare".into(),
            page: "p".into(),
            load_ms: 700.0,
            falls: vec![fall(0.0, 140.0, 280.0, 420.0), fall(560.0, 560.0, 600.0, 700.0)],
        };
        let row = phases(&load, 700.0);
        let runs: String = row.chars().fold(String::new(), |mut all, c| {
            if !all.ends_with(c) {
                all.push(c);
            }
            all
        });
        assert_eq!((row.chars().count(), runs.as_str()), (PAGE, "░▒█·▒█"));
        assert_eq!(phases(&load, 1400.0).chars().count(), PAGE / 2);
    }
}
