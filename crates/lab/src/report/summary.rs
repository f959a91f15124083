//! What an outcome says in sentences and tables, the same for every form of the report.
//!
//! Reads outcomes and claims, computes nothing but summaries of samples that are already there.

use super::layout::ColumnStyle;
use super::number::{self, NONE, figure};
use super::table::Table;
use crate::experiment::{Claims, Fall, Outcome, Price, Row, Series, Verdict, Waterfall};
use crate::stats::{Interval, median, quantile};

/// Sentences for the top of the report: what became of the claims, then the first comparisons.
pub fn headlines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let verdicts: Vec<Verdict> = outcome.rows.iter().filter_map(|r| r.verdict).collect();
    if !verdicts.is_empty() {
        let parts: Vec<String> = [
            (Verdict::Exceeded, "do better with headstart's own method", "does better with headstart's own method"),
            (Verdict::Reproduced, "reproduce it", "reproduces it"),
            (Verdict::Stronger, "show a stronger effect", "shows a stronger effect"),
            (Verdict::Weaker, "show a weaker one", "shows a weaker one"),
            (Verdict::NotReproduced, "do not reproduce it", "does not reproduce it"),
            (Verdict::ProblemAbsent, "lack the paper's problem", "lacks the paper's problem"),
            (Verdict::InstrumentOnly, "do not decide", "does not decide"),
        ]
        .into_iter()
        .map(|(v, many, one)| (verdicts.iter().filter(|w| **w == v).count(), many, one))
        .filter(|(n, _, _)| *n > 0)
        .map(|(n, many, one)| format!("{n} {}", if n == 1 { one } else { many }))
        .collect();
        let noun = if verdicts.len() == 1 { "comparison" } else { "comparisons" };
        lines.push(format!("Of {} {noun} with a figure of the paper, {}.", verdicts.len(), join(&parts)));
    }
    let claimed = outcome.rows.iter().any(|r| r.claim.is_some() && r.ratio.is_some());
    let first = outcome.rows.iter().filter(|r| r.ratio.is_some() && (r.claim.is_some() || !claimed));
    lines.extend(first.take(3).filter_map(sentence));
    lines
}

/// One comparison in words; none without a ratio.
pub fn sentence(row: &Row) -> Option<String> {
    let (ratio, baseline, arm) = (row.ratio?, row.baseline?, row.baseline_arm.as_deref()?);
    let known = row.interval.map_or_else(String::new, |i| format!(", 95 % interval {}", interval(i)));
    let paper = match (row.paper, row.verdict) {
        (Some(p), Some(v)) => format!(" The paper has {}: {v}.", number::ratio(p)),
        (Some(p), None) => format!(" The paper has {}.", number::ratio(p)),
        _ => String::new(),
    };
    Some(format!(
        "{} ({}): {} with {} against {} with {}, a ratio of {}{known} ({}).{paper}",
        row.metric,
        row.condition,
        number::with_unit(row.ours, &row.unit),
        row.arm,
        number::with_unit(baseline, &row.unit),
        arm,
        number::ratio(ratio),
        number::change(ratio),
    ))
}

fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// `0.60 to 0.68`
pub fn interval(i: Interval) -> String {
    format!("{} to {}", number::ratio(i.lo), number::ratio(i.hi))
}

/// The comparisons, the paper's ratio beside ours; columns that would be empty are left out.
pub fn comparisons<'a>(caption: &str, rows: impl IntoIterator<Item = &'a Row>) -> Table {
    let mut table = Table::new(
        caption,
        &[
            ("Claim", ColumnStyle::Text),
            ("Condition", ColumnStyle::Text),
            ("Metric", ColumnStyle::Text),
            ("Arm", ColumnStyle::Text),
            ("Value", ColumnStyle::Number),
            ("Baseline", ColumnStyle::Text),
            ("Value", ColumnStyle::Number),
            ("Ratio", ColumnStyle::Number),
            ("95 % interval", ColumnStyle::Number),
            ("Paper", ColumnStyle::Number),
            ("Verdict", ColumnStyle::Verdict),
        ],
    );
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    for r in rows {
        table.push([
            or_none(r.claim.clone()),
            r.condition.clone(),
            r.metric.clone(),
            r.arm.clone(),
            number::with_unit(r.ours, &r.unit),
            or_none(r.baseline_arm.clone()),
            or_none(r.baseline.map(|b| number::with_unit(b, &r.unit))),
            or_none(r.ratio.map(number::ratio)),
            or_none(r.interval.map(interval)),
            or_none(r.paper.map(number::ratio)),
            or_none(r.verdict.map(|v| v.to_string())),
        ]);
    }
    table.without_blank_columns(NONE)
}

/// The median of the first metric, a line a condition and a column an arm: the whole outcome at a glance. None where
/// fewer than two arms were sampled.
pub fn medians(outcome: &Outcome) -> Option<Table> {
    let first = outcome.samples.first()?;
    let of_metric: Vec<&Series> = outcome.samples.iter().filter(|s| s.metric == first.metric).collect();
    let arms = distinct(of_metric.iter().map(|s| s.arm.as_str()));
    if arms.len() < 2 {
        return None;
    }
    let columns: Vec<(&str, ColumnStyle)> = [("Condition", ColumnStyle::Text)]
        .into_iter()
        .chain(arms.iter().map(|arm| (*arm, ColumnStyle::Number)))
        .collect();
    let mut table = Table::new(&format!("At a glance: {}, median, {}", first.metric, first.unit), &columns);
    for condition in distinct(of_metric.iter().map(|s| s.condition.as_str())) {
        let value = |arm: &str| {
            let series = of_metric.iter().find(|s| s.condition == condition && s.arm == arm)?;
            Some(figure(median(&series.present()).ok()?))
        };
        let cells = arms.iter().map(|arm| value(arm).unwrap_or_else(|| NONE.into()));
        table.push([condition.to_owned()].into_iter().chain(cells));
    }
    Some(table)
}

/// The comparisons for a terminal: a narrow table for each condition, metric and baseline, which stand in its caption.
pub fn grouped(rows: &[Row]) -> Vec<Table> {
    let key = |r: &Row| (r.condition.clone(), r.metric.clone(), r.baseline_arm.clone());
    let tables = distinct(rows.iter().map(key)).into_iter().map(|group| {
        let mine: Vec<&Row> = rows.iter().filter(|r| key(r) == group).collect();
        let (condition, metric, baseline_arm) = &group;
        let baseline = |r: &Row| r.baseline.map_or_else(|| NONE.into(), |b| number::with_unit(b, &r.unit));
        // Pairs that failed leave arms with different trials to compare, and then with different values of the baseline.
        let values = distinct(mine.iter().map(|r| baseline(r)));
        let against = match (baseline_arm, values.as_slice()) {
            (None, _) => String::new(),
            (Some(arm), [one]) => format!(", against {arm} with {one}"),
            (Some(arm), _) => format!(", against {arm}"),
        };
        let mut table = Table::new(
            &format!("{condition}: {metric}{against}"),
            &[
                ("Arm", ColumnStyle::Text),
                ("Value", ColumnStyle::Number),
                ("Baseline", ColumnStyle::Number),
                ("Ratio", ColumnStyle::Number),
                ("95 % interval", ColumnStyle::Number),
                ("Paper", ColumnStyle::Number),
                ("Claim", ColumnStyle::Text),
                ("Verdict", ColumnStyle::Verdict),
            ],
        );
        for r in mine {
            table.push([
                r.arm.clone(),
                number::with_unit(r.ours, &r.unit),
                if values.len() > 1 { baseline(r) } else { NONE.into() },
                r.ratio.map_or_else(|| NONE.into(), number::ratio),
                r.interval.map_or_else(|| NONE.into(), interval),
                r.paper.map_or_else(|| NONE.into(), number::ratio),
                r.claim.clone().unwrap_or_else(|| NONE.into()),
                r.verdict.map_or_else(|| NONE.into(), |v| v.to_string()),
            ]);
        }
        table.without_blank_columns(NONE)
    });
    tables.collect()
}

/// The samples of one metric in one condition, an arm a row.
pub fn samples(caption: &str, series: &[&Series]) -> Table {
    let mut table = Table::new(
        caption,
        &[
            ("Arm", ColumnStyle::Text),
            ("n", ColumnStyle::Number),
            ("failed", ColumnStyle::Number),
            ("median", ColumnStyle::Number),
            ("p75", ColumnStyle::Number),
            ("p95", ColumnStyle::Number),
            ("p99", ColumnStyle::Number),
        ],
    );
    for s in series {
        let values = s.present();
        let at = |p| quantile(&values, p).map_or_else(|_| NONE.into(), figure);
        let middle = median(&values).map_or_else(|_| NONE.into(), figure);
        // Too few values to have a tail: p95 needs 20 values, p99 100, to differ from the largest.
        let tail = |p: f64, least: usize| if values.len() < least { NONE.into() } else { at(p) };
        let failed = if s.failed() == 0 { NONE.into() } else { s.failed().to_string() };
        table.push([
            s.arm.clone(),
            s.values.len().to_string(),
            failed,
            middle,
            at(0.75),
            tail(0.95, 20),
            tail(0.99, 100),
        ]);
    }
    table.without_blank_columns(NONE)
}

/// Page loads that are drawn: how long each took, and when its objects had come.
pub fn waterfalls(all: &[Waterfall]) -> Table {
    let columns = [
        ("Arm", ColumnStyle::Text),
        ("Load event (ms)", ColumnStyle::Number),
        ("Objects", ColumnStyle::Number),
        ("Waited for connections, mean (ms)", ColumnStyle::Number),
        ("First bytes, mean (ms)", ColumnStyle::Number),
    ];
    let mut table = Table::new("The loads in the picture", &columns);
    for load in all {
        let mean = |of: fn(&Fall) -> f64| match load.falls.len() {
            0 => NONE.into(),
            n => figure(load.falls.iter().map(of).sum::<f64>() / n as f64),
        };
        let (waited, first) = (mean(|f| f.sent_ms - f.wanted_ms), mean(|f| f.first_byte_ms));
        table.push([load.arm.clone(), figure(load.load_ms), load.falls.len().to_string(), waited, first]);
    }
    table
}

/// What each arm cost: an arm of a condition a row, a kind of cost a column.
pub fn prices(prices: &[Price]) -> Table {
    let kinds = distinct(prices.iter().map(|p| (p.what.as_str(), p.unit.as_str())));
    let names: Vec<String> = kinds
        .iter()
        .map(|(what, unit)| if unit.is_empty() { (*what).into() } else { format!("{what} ({unit})") })
        .collect();
    let mut columns = vec![("Condition", ColumnStyle::Text), ("Arm", ColumnStyle::Text)];
    columns.extend(names.iter().map(|n| (n.as_str(), ColumnStyle::Number)));
    let mut table = Table::new("What each arm cost", &columns);
    for (condition, arm) in distinct(prices.iter().map(|p| (p.condition.as_str(), p.arm.as_str()))) {
        let amount = |kind: &(&str, &str)| {
            let mine = prices
                .iter()
                .find(|p| p.condition == condition && p.arm == arm && (p.what.as_str(), p.unit.as_str()) == *kind);
            mine.map_or_else(|| NONE.into(), |p| if p.amount == 0.0 { "0".into() } else { figure(p.amount) })
        };
        table.push([condition.to_owned(), arm.to_owned()].into_iter().chain(kinds.iter().map(amount)));
    }
    table
}

/// The claims that an outcome serves, in the words of `docs/claims.toml`.
pub fn claims(outcome: &Outcome, claims: &Claims) -> Table {
    let mut table = Table::new(
        "Claims measured here",
        &[("Claim", ColumnStyle::Text), ("Source", ColumnStyle::Text), ("The paper says", ColumnStyle::Text)],
    );
    for id in distinct(outcome.rows.iter().filter_map(|r| r.claim.as_deref())) {
        if let Ok(c) = claims.get(id) {
            let source = c.source.as_ref().map_or_else(String::new, |s| format!(", {s}"));
            table.push([c.id.clone(), format!("paper {}{source}", c.paper), c.what.clone()]);
        }
    }
    table
}

/// The machine, a line each; what is not known is left out.
pub fn machine(outcome: &Outcome) -> Table {
    let mut table = Table::new("State of the machine", &[("What", ColumnStyle::Text), ("State", ColumnStyle::Text)]);
    let mut line = |what: &str, state: Option<String>| {
        if let Some(state) = state {
            table.push([what.to_owned(), state]);
        }
    };
    line("seed", Some(outcome.seed.to_string()));
    line("extent", outcome.extent.as_ref().map(ToString::to_string));
    line("took", outcome.extent.as_ref().map(|extent| format!("{:.0} s", extent.seconds)));
    if let Some(d) = &outcome.device {
        let percent = |v: Option<f64>| v.map(|v| format!("{v:.1} %"));
        line("date", Some(d.date.clone()));
        line("program", Some(format!("headstart {}", d.program)));
        line("commit", d.commit.clone());
        line("kernel", d.kernel.clone());
        line("processor", d.cpu.clone());
        line("processors", d.cpus.map(|n| n.to_string()));
        line("frequency governor", d.governor.clone());
        line("idle before", d.idle_before_percent.map(|v| format!("{v:.0} %")));
        line("load before", d.load_before.map(|v| format!("{v:.2}")));
        line("load after", d.load_after.map(|v| format!("{v:.2}")));
        line("idle during the run", percent(d.idle_percent));
        line("stolen during the run", percent(d.steal_percent));
        line("congestion control", d.congestion_control.clone());
        line("battery", d.battery_percent.map(|v| format!("{v:.0} %")));
        line("battery status", d.battery_status.clone());
        line("hottest zone", d.temperature_c.map(|v| format!("{v:.0} °C")));
    }
    table
}

/// Each value once, in the order of its first appearance.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: Option<Verdict>) -> Row {
        Row {
            claim: Some("P1.1".into()),
            baseline_arm: Some("sequential".into()),
            baseline: Some(75.0),
            ratio: Some(0.64),
            interval: Some(Interval { lo: 0.6, hi: 0.68 }),
            paper: Some(0.64),
            verdict,
            ..Row::measured("ipv6-slower", "DNS lookup time, p75", "ms", "adaptive", 48.0)
        }
    }

    #[test]
    fn the_headline_counts_verdicts_and_spells_out_the_first_comparison() {
        let rows = vec![row(Some(Verdict::Reproduced)), row(Some(Verdict::Exceeded)), row(Some(Verdict::Reproduced))];
        let lines = headlines(&Outcome { rows, ..Outcome::new("probe", 1) });
        assert_eq!(
            lines[0],
            "Of 3 comparisons with a figure of the paper, 1 does better with headstart's own method and 2 reproduce it."
        );
        assert_eq!(
            lines[1],
            "DNS lookup time, p75 (ipv6-slower): 48.0 ms with adaptive against 75.0 ms with sequential, a ratio of 0.64, \
             95 % interval 0.60 to 0.68 (−36 %). The paper has 0.64: reproduced."
        );
        assert_eq!(headlines(&Outcome::new("empty", 1)), Vec::<String>::new());
    }

    #[test]
    fn a_terminal_gets_a_table_for_each_condition_metric_and_baseline() {
        let rows = [
            row(None),
            Row { arm: "simultaneous".into(), ..row(None) },
            Row { condition: "other".into(), ..row(None) },
        ];
        let tables = grouped(&rows);
        let captions: Vec<&str> = tables.iter().map(|t| t.caption.as_str()).collect();
        assert_eq!(
            captions,
            [
                "ipv6-slower: DNS lookup time, p75, against sequential with 75.0 ms",
                "other: DNS lookup time, p75, against sequential with 75.0 ms"
            ]
        );
        assert!(!tables[0].to_markdown().contains("Baseline"), "one value stands in the caption");
        let uneven = [row(None), Row { baseline: Some(76.0), ratio: None, ..row(None) }];
        assert!(grouped(&uneven)[0].to_markdown().contains("| 76.0 ms |"));
    }

    #[test]
    fn samples_too_small_for_a_tail_show_none() {
        let few = Series::new("c", "m", "ms", "a", (0..10).map(f64::from));
        let many = Series::with_failures("c", "m", "ms", "b", (0..200).map(|i| (i != 7).then_some(f64::from(i))));
        let text = samples("", &[&few, &many]).to_markdown();
        assert!(text.contains("| a | 10 | – | 4.50 | 6.75 | – | – |"), "{text}");
        assert!(text.contains("| b | 200 | 1 | 100 |"), "{text}");
        let none = Series::with_failures("c", "m", "ms", "dead", [None, None]);
        assert!(samples("", &[&none]).to_markdown().contains("| dead | 2 | 2 |"));
    }

    #[test]
    fn prices_become_columns_and_a_missing_one_is_not_zero() {
        let price = |arm: &str, what: &str, amount| Price {
            condition: "c".into(),
            arm: arm.into(),
            what: what.into(),
            unit: String::new(),
            amount,
        };
        let text = prices(&[price("a", "extra SYNs", 0.0), price("b", "extra SYNs", 1.5), price("b", "resets", 0.0)])
            .to_markdown();
        assert!(text.contains("| c | a | 0 | – |") && text.contains("| c | b | 1.50 | 0 |"), "{text}");
    }

    #[test]
    fn claims_are_quoted_once_with_their_source() {
        let outcome = Outcome { rows: vec![row(None), row(None)], ..Outcome::new("probe", 1) };
        let text = claims(&outcome, &Claims::built_in().unwrap()).to_markdown();
        assert_eq!(text.matches("paper 1, Fig. 10").count(), 1, "{text}");
    }
}
