//! `report.md`: what the page says, without its plots.

use super::{Table, escape, headlines_with_validity, summary, title};
use crate::experiment::{Claims, Outcome};
use std::fmt::Write;

/// A Markdown report about these outcomes.
pub fn markdown(outcomes: &[Outcome], claims: &Claims) -> String {
    outcomes.iter().map(|o| one(o, claims)).collect::<Vec<_>>().join("\n")
}

fn one(outcome: &Outcome, claims: &Claims) -> String {
    let mut out =
        format!("# {}\n\nExperiment `{}`\n", escape::markdown(title(outcome)), escape::markdown(&outcome.experiment));
    for line in headlines_with_validity(outcome) {
        let _ = write!(out, "\n{}\n", escape::markdown(&line));
    }
    let mut section = |heading: &str, table: &Table| {
        if !table.is_empty() {
            let _ = write!(out, "\n## {heading}\n\n{}", table.to_markdown());
        }
    };
    if let Some(medians) = summary::medians(outcome) {
        section(medians.caption(), &medians);
    }
    section("Results beside the paper", &summary::comparisons("", outcome.rows.iter().filter(|r| r.claim.is_some())));
    section("What the paper says", &summary::claims(outcome, claims));
    section("All comparisons", &summary::comparisons("", &outcome.rows));
    section("What each arm cost", &summary::prices(&outcome.prices));
    section("State of the machine", &summary::machine(outcome));
    if !outcome.conditions.is_empty() {
        out += "\n## Conditions\n\n";
        for c in &outcome.conditions {
            let _ = writeln!(out, "- **{}**: {}", escape::markdown(&c.name), escape::markdown(&c.about));
        }
    }
    for (heading, paragraphs) in [("How it was measured", &outcome.method), ("Notes", &outcome.notes)] {
        if !paragraphs.is_empty() {
            let _ = write!(out, "\n## {heading}\n");
            for p in paragraphs {
                let _ = write!(out, "\n{}\n", escape::markdown(p));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_report_has_the_papers_number_beside_ours() {
        let text = markdown(&[super::super::sample::outcome()], &Claims::built_in().unwrap());
        let line = text.lines().find(|l| l.starts_with("| P1.1 | ipv6-slower")).unwrap();
        assert!(line.contains("| 0.64 |") && line.contains("sequential"), "{line}");
        for heading in ["## What each arm cost", "## How it was measured", "## State of the machine", "## Notes"] {
            assert!(text.contains(heading), "{heading}");
        }
    }
}
