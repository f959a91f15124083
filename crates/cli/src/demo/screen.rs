//! What the demo's lines look like: a line a program with two bars on one scale of time, and a page load in two rows. Text in, text
//! out; nothing here measures or writes.

use headstart_lab::experiment::connect_programs::CUT;
use headstart_lab::experiment::connect_programs::reading::{called, time};
use headstart_lab::experiment::{Fall, Waterfall};

/// Characters of a bar; all of it is as long as a program may take.
const BAR: usize = 14;
/// Characters of a page load.
const PAGE: usize = 56;
/// Characters of a line.
const COLUMNS: usize = 80;
/// Characters of a time.
const TIME: usize = 6;

/// How long a program takes, or has taken until now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed {
    /// In milliseconds.
    pub ms: f64,
    /// It has not ended yet.
    pub running: bool,
}

/// A program on a network, without and with headstart.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// Title of the network.
    pub network: String,
    /// The program.
    pub program: String,
    /// Without, with; none before the first run.
    pub cells: [Option<Elapsed>; 2],
    /// What comes of it, in words.
    pub verdict: String,
}

/// A line a program under the name of its network.
pub fn lines(comparisons: &[SideBySide]) -> Vec<String> {
    let column = BAR + 1 + TIME;
    let mut lines = vec![format!("{:<15}{:<column$}  with headstart", "", "without headstart")];
    let mut network = String::new();
    for comparison in comparisons {
        if comparison.network != network {
            network.clone_from(&comparison.network);
            lines.push(network.clone());
        }
        let [without, with] = comparison.cells.map(|cell| cell.map_or_else(String::new, shown));
        let line =
            format!("  {:<13}{without:<column$}  {with:<column$}  {}", called(&comparison.program), comparison.verdict);
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// A bar and the time beside it.
fn shown(cell: Elapsed) -> String {
    let whole = CUT.as_secs_f64() * 1e3;
    let time = if cell.running { format!("{:.1} s", cell.ms / 1e3) } else { time(cell.ms) };
    format!("{} {time}", bar((cell.ms / whole).min(1.0)))
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
        format!("A page of {} objects over LTE (░ connecting, ▒ server, █ data, · idle)", without.falls.len()),
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
        if from >= load.load_ms {
            ' '
        } else if any(|fall| (fall.first_byte_ms, fall.end_ms)) {
            '█'
        } else if any(|fall| (fall.sent_ms, fall.first_byte_ms)) {
            '▒'
        } else if any(|fall| (fall.wanted_ms, fall.sent_ms)) {
            '░'
        } else {
            // The browser computes.
            '·'
        }
    };
    (0..PAGE).map(at).collect::<String>().trim_end().to_owned()
}

/// Events of `headstart explain` that tell how a connection came about.
const STORY: [&str; 5] = ["query", "answer", "attempt", "connected", "handed over"];
/// Lines of it at most.
const STORY_LINES: usize = 7;

/// What `headstart explain` says of a connection, shortened to what happened on the network and what the program got.
pub fn story(explained: &str) -> Vec<String> {
    let is_told = |line: &&str| {
        let event = line.trim_start().split_once(" ms ").map(|(_, event)| event.trim_start());
        event.is_some_and(|event| STORY.iter().any(|word| event.starts_with(word)))
    };
    let until_section = explained.lines().take_while(|line| !line.starts_with("cached:"));
    let told = until_section.filter(is_told).take(STORY_LINES);
    told.map(|line| format!("  {line}").chars().take(COLUMNS).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_time_and_never_nothing() {
        assert_eq!([bar(0.0), bar(0.5), bar(1.0)], ["▏".to_owned(), "█".repeat(7), "█".repeat(14)]);
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

    #[test]
    fn a_story_begins_with_the_queries_and_ends_with_what_the_program_got() {
        let told = story(EXPLAINED);
        let events: Vec<_> = told.iter().map(|line| line.split_whitespace().nth(2).unwrap()).collect();
        assert_eq!(events, ["query", "query", "answer", "attempt", "connected", "handed"], "{told:?}");
        assert!(told.iter().all(|line| line.chars().count() <= COLUMNS), "{told:?}");
    }

    const EXPLAINED: &str = "\
aaaa-lost.lab.example: last race, adaptive for curl, 0 ms ago

     0.0 ms lookup      by the program
     0.1 ms query       A
     0.1 ms query       AAAA
    20.3 ms answer      A: 198.19.0.2
    20.4 ms attempt     198.19.0.2
    40.5 ms connected   198.19.0.2, round trip 20.1 ms
    70.6 ms returned    198.19.0.2
    70.9 ms connect     198.19.0.2, non-blocking
    71.0 ms handed over 198.19.0.2, connected

cached:
     0.0 ms query       A
";
}
