//! What each target has had so far: `fuzz/played.md`, a table that `cargo xtask fuzz` reads, adds to after every turn and
//! writes again, so that it goes on where it was stopped.

use std::collections::BTreeMap;

/// What stands above the table.
const HEAD: &str = "<!-- Written by `cargo xtask fuzz` after every turn. -->

# What each target has had

*s*: seconds of processor time in all, counted since 2026-11-23. *inputs*: tried since 2026-11-24. *features*: what libFuzzer tells
apart in the last build that was played. *quiet*: seconds since a turn found a new one.

| target | s | inputs | features | quiet |
|---|---:|---:|---:|---:|
";

/// What a target has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Seconds of processor time.
    pub seconds: u64,
    /// Inputs that were tried.
    pub inputs: u64,
    /// Features that its inputs have.
    pub features: u64,
    /// Seconds of processor time since a turn found a new one.
    pub quiet: u64,
}

/// By target.
pub type Table = BTreeMap<String, Played>;

/// Reads the table; lines that are none of it are left out.
pub fn read(text: &str) -> Table {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let target = cells.next()?.strip_suffix('`')?.to_owned();
        let mut number = || cells.next()?.parse().ok();
        let (seconds, inputs, features, quiet) = (number()?, number()?, number()?, number()?);
        Some((target, Played { seconds, inputs, features, quiet }))
    };
    text.lines().filter_map(row).collect()
}

/// The table as text.
pub fn write(table: &Table) -> String {
    let row = |(target, played): (&String, &Played)| {
        let Played { seconds, inputs, features, quiet } = played;
        format!("| `{target}` | {seconds} | {inputs} | {features} | {quiet} |\n")
    };
    HEAD.to_owned() + &table.iter().map(row).collect::<String>()
}

/// What libFuzzer said of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Inputs that were tried.
    pub inputs: u64,
    /// Features at its end.
    pub features: u64,
    /// Of these, new ones.
    pub new: u64,
}

impl Turn {
    /// Reads it out of what libFuzzer prints (`-print_final_stats=1`).
    pub fn parse(lines: &[String]) -> Self {
        let features = |line: &String| line.split(" ft: ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
        let first = lines.iter().filter(|line| line.contains("INITED")).find_map(features);
        let last = lines.iter().rev().find_map(features).unwrap_or_default();
        let units = |line: &String| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
        let inputs = lines.iter().find_map(units).unwrap_or_default();
        Self { inputs, features: last, new: last.saturating_sub(first.unwrap_or(last)) }
    }
}

impl Played {
    /// With one turn more, which took so many seconds of processor time.
    pub fn and(self, turn: Turn, seconds: u64) -> Self {
        Self {
            seconds: self.seconds + seconds,
            inputs: self.inputs + turn.inputs,
            features: turn.features,
            quiet: if turn.new > 0 { 0 } else { self.quiet + seconds },
        }
    }
}

/// Seconds of processor time of the children that this process has waited for, by `/proc/self/stat` (proc(5)).
pub fn of_children(stat: &str) -> u64 {
    /// USER_HZ of Linux.
    const TICKS: u64 = 100;
    // Behind the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    (ticks(13) + ticks(14)) / TICKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_back_and_what_is_not_of_it_is_left_out() {
        let played = Played { seconds: 300, inputs: 5_000_000, features: 812, quiet: 40 };
        let table = Table::from([("har".to_owned(), played), ("sockaddr".to_owned(), Played::default())]);
        let text = write(&table);
        assert_eq!(read(&text), table);
        assert!(read("| target | s |\n|---|\n| `har` | x | 1 | 2 | 3 |\n| har | 1 | 2 | 3 | 4 |\n").is_empty());
    }

    #[test]
    fn a_turn_is_read_out_of_what_libfuzzer_prints() {
        let lines = [
            "INFO: Seed: 1",
            "#15\tINITED cov: 40 ft: 60 corp: 9/33b exec/s: 0 rss: 30Mb",
            "#99\tNEW    cov: 41 ft: 66 corp: 10/37b lim: 4 exec/s: 0 rss: 31Mb L: 4/4 MS: 1 ChangeBit-",
            "#5000\tDONE   cov: 41 ft: 67 corp: 10/37b lim: 48 exec/s: 50 rss: 31Mb",
            "stat::number_of_executed_units: 5000",
        ];
        let turn = Turn::parse(&lines.map(str::to_owned));
        assert_eq!(turn, Turn { inputs: 5000, features: 67, new: 7 });
        let before = Played { seconds: 10, inputs: 1, features: 50, quiet: 10 };
        assert_eq!(before.and(turn, 5), Played { seconds: 15, inputs: 5001, features: 67, quiet: 0 });
        assert_eq!(before.and(Turn { new: 0, ..turn }, 5).quiet, 15);
        assert_eq!(Turn::parse(&[]), Turn::default());
    }

    #[test]
    fn the_time_of_children_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 250 350 15 16";
        assert_eq!(of_children(stat), 6);
    }
}
