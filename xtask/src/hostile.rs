//! `cargo xtask hostile`: what strangers try against everything that listens, what it may cost, and what it costs.
//!
//! The attacks are tests in modules called `hostile` of the command's end-to-end tests, against the built command, in namespaces or over
//! loopback; every test run has them among all others, this chore one after the other. Each writes rows of one table
//! (`crates/cli/tests/attack`). An attack without a row, because its test was skipped or is gone, is named, and fails.

use crate::Failure;
use crate::step::Step;

/// Where attacks are.
const TARGETS: &[&str] = &["serve", "relay", "run", "steer", "host"];

/// Every attack, and what it cost before there was a bound: as an outside audit found it (issue 28), or a run of the same test. A test
/// fails if its attack is not here; one that is here and was not tried is missing.
const KNOWN: &str = include_str!("../../crates/cli/tests/attack/known.tsv");
const NOT_TRIED: &str = "not tried";

/// The attacks of [`KNOWN`], with what they cost before.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.lines().filter_map(|line| line.split_once('\t'))
}

/// One row of the table.
#[derive(Debug, PartialEq)]
struct Row {
    attack: String,
    listener: String,
    bounded: String,
    bound: f64,
    seen: f64,
    holds: bool,
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &["--json"])?;
    let step = step();
    println!("xtask: {}", step.line());
    let captured = step.capture()?;
    let rows: Vec<Row> = captured.output.iter().filter_map(|line| row(line)).collect();
    let missing = missing(&rows);
    let holds = captured.success && missing.is_empty() && rows.iter().all(|row| row.holds);
    if arguments.is_empty() {
        print!("{}", table(&rows, &missing));
    } else {
        println!("{}", json(&rows, &missing, holds));
    }
    let why = || Failure::Failed("an attack costs more than it may, or was not tried".to_owned());
    holds.then_some(()).ok_or_else(why)
}

/// The attacks, one after the other: each has the machine for itself.
pub fn step() -> Step {
    let targets = TARGETS.iter().flat_map(|target| ["--test", target]);
    let words: Vec<&str> = ["test", "--workspace", "--no-fail-fast"].into_iter().chain(targets).collect();
    let flags = ["--", "--include-ignored", "--nocapture", "--test-threads=1", "hostile::"];
    // On a machine that does nothing else, times are worth a comparison.
    Step::cargo(&[&words[..], &flags].concat()).with("HEADSTART_HOSTILE", "1")
}

fn row(line: &str) -> Option<Row> {
    let ["hostile", attack, listener, bounded, bound, seen, holds] = line.split('\t').collect::<Vec<_>>()[..] else {
        return None;
    };
    let [attack, listener, bounded] = [attack, listener, bounded].map(str::to_owned);
    let (bound, seen) = (bound.parse().ok()?, seen.parse().ok()?);
    Some(Row { attack, listener, bounded, bound, seen, holds: holds == "true" })
}

/// What an attack cost before there was a bound.
fn before(attack: &str) -> &'static str {
    known().find(|(known, _)| *known == attack).map_or(NOT_TRIED, |(_, before)| before)
}

/// Attacks without a row, and rows of attacks that are not listed.
fn missing(rows: &[Row]) -> Vec<String> {
    let has = |attack: &str| rows.iter().any(|row| row.attack == attack);
    let absent = known().filter(|(attack, _)| !has(attack)).map(|(attack, _)| format!("{attack} (not tried)"));
    let unknown = rows.iter().filter(|row| known().all(|(attack, _)| attack != row.attack));
    absent.chain(unknown.map(|row| format!("{} (not in known.tsv)", row.attack))).collect()
}

fn table(rows: &[Row], missing: &[String]) -> String {
    let head = ["attack", "listener", "bounded", "bound", "seen", "holds", "before"].map(str::to_owned);
    let number = |number: f64| if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.2}") };
    let cells = rows.iter().map(|row| {
        let holds = if row.holds { "yes" } else { "NO" };
        [
            row.attack.clone(),
            row.listener.clone(),
            row.bounded.clone(),
            number(row.bound),
            number(row.seen),
            holds.into(),
            before(&row.attack).to_owned(),
        ]
    });
    let lines: Vec<[String; 7]> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().enumerate().map(|(column, cell)| format!("{cell:<width$}", width = width(column)));
        text += padded.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    missing.iter().for_each(|attack| text += &format!("missing: {attack}\n"));
    text
}

fn json(rows: &[Row], missing: &[String], holds: bool) -> String {
    let text = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let row = |row: &Row| {
        let Row { attack, listener, bounded, bound, seen, holds } = row;
        let [attack, listener, bounded, before] = [attack, listener, bounded, before(attack)].map(text);
        format!(
            "{{\"attack\":{attack},\"listener\":{listener},\"bounded\":{bounded},\"bound\":{bound},\"seen\":{seen},\"holds\":{holds},\"before\":{before}}}"
        )
    };
    let rows: Vec<String> = rows.iter().map(row).collect();
    let missing: Vec<String> = missing.iter().map(|attack| text(attack)).collect();
    format!("{{\"version\":1,\"holds\":{holds},\"attacks\":[{}],\"missing\":[{}]}}", rows.join(","), missing.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_shown_and_what_is_missing_is_named() {
        let line = format!("hostile\t{}\tserve\tmemory, kB\t300000\t59000.5\ttrue", known().next().unwrap().0);
        let rows: Vec<Row> =
            [&line, "test x ... ok", "hostile\tx\ty\tz\t1\t2\tfalse"].into_iter().filter_map(row).collect();
        assert_eq!((rows.len(), rows[0].holds, rows[1].holds), (2, true, false));
        let missing = missing(&rows);
        assert_eq!(missing.len(), known().count(), "all but the first, and one that is not known: {missing:?}");
        let shown = table(&rows, &missing);
        assert!(shown.contains("59000.50  yes    3,081 MB, 7,752 descriptors\n"), "{shown}");
        assert!(shown.contains("  NO     not tried\nmissing: "), "{shown}");
        let json = json(&rows, &missing, false);
        assert!(
            json.starts_with("{\"version\":1,\"holds\":false,\"attacks\":[{\"attack\":\"HTTP/2")
                && json.contains("\"holds\":true,\"before\":\"3,081 MB, 7,752 descriptors\"}")
                && json.ends_with("]}")
        );
    }

    #[test]
    fn what_attacks_cost_before_is_in_the_page_that_promises_what_they_cost_now() {
        let page = std::fs::read_to_string(crate::tree::workspace_root().unwrap().join("SECURITY.md")).unwrap();
        for (attack, before) in known().filter(|(_, before)| *before != NOT_TRIED) {
            assert!(page.contains(&format!(" | {before} | ")), "SECURITY.md has no row for {attack}: {before}");
        }
    }

    #[test]
    fn attacks_run_one_after_the_other() {
        let line = step().line();
        assert!(line.ends_with("--test-threads=1 hostile::") && line.contains("HEADSTART_HOSTILE=1 "), "{line}");
    }
}
