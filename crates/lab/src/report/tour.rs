//! The page of `headstart demo`: how many times faster each program is on each network, and a page load without and with headstart.
//! Two figures on the first screen; the numbers behind a fold, everything else in the experiments' own reports.

use super::html::{END, head, paragraphs, section};
use super::plot::{Caption, Speedup, SpeedupGroup, speedups, waterfall};
use super::{Row, escape, number, summary};
use crate::experiment::Outcome;
use crate::experiment::connect_programs::{BARE, View, views};
use crate::stats::Interval;
use std::fmt::Write;

/// A colour belongs to an arm: headstart's in all figures of the page.
const OURS: usize = 2;

/// The page about these outcomes.
pub fn page(outcomes: &[&Outcome]) -> String {
    let mut out = head("headstart demo");
    out += "<header><h1>The same programs, without and with headstart</h1></header>\n";
    if outcomes.iter().any(|outcome| !outcome.valid) {
        out += "<p class=\"facts\">The machine was busy: differences of a few milliseconds may be noise (reasons below).</p>\n";
    }
    for outcome in outcomes {
        programs(&mut out, outcome);
        loads(&mut out, outcome);
    }
    for outcome in outcomes {
        let name = escape::html(&outcome.experiment);
        let _ = writeln!(out, "<details><summary>{name}: numbers, method, machine</summary>");
        facts(&mut out, outcome);
        let rows = outcome.rows.iter().filter(|row| row.ratio.is_some());
        section(&mut out, "All comparisons", &summary::comparisons("All comparisons", rows));
        paragraphs(&mut out, "How it was measured", &outcome.method);
        section(&mut out, "State of the machine", &summary::machine(outcome));
        let _ = writeln!(out, "<p>In full: <a href=\"{name}/report.html\">{name}/report.html</a></p></details>");
    }
    out + END
}

fn facts(out: &mut String, outcome: &Outcome) {
    let mut facts = vec![format!("experiment {}, seed {}", outcome.experiment, outcome.seed)];
    facts.extend(outcome.extent.as_ref().map(ToString::to_string));
    facts.extend(outcome.device.as_ref().map(|d| d.date.clone()));
    if !outcome.valid {
        facts.push(format!("not valid as a measurement: {}", outcome.why_invalid.join("; ")));
    }
    let _ = writeln!(out, "<p class=\"facts\">{}</p>", escape::html(&facts.join(" · ")));
}

/// How many times faster every program is.
fn programs(out: &mut String, outcome: &Outcome) {
    let group = |view: View| SpeedupGroup {
        heading: view.title(),
        rows: view.rows(outcome).filter_map(|(program, row)| speedup(program, row)).collect(),
    };
    let groups: Vec<_> = views().map(group).filter(|group| !group.rows.is_empty()).collect();
    if groups.is_empty() {
        return;
    }
    let caption = Caption {
        id: "speedups".into(),
        title: "How many times faster each program fetches a page with headstart".into(),
        axis: "times as fast (1 = no difference)".into(),
    };
    let _ = write!(
        out,
        "<figure class=\"large\"><figcaption>{}</figcaption>\n{}</figure>\n",
        escape::html(&caption.title),
        speedups(&caption, &groups)
    );
}

fn speedup(program: &str, row: &Row) -> Option<Speedup> {
    let (ratio, baseline) = (row.ratio.filter(|ratio| *ratio > 0.0)?, row.baseline?);
    let interval = row.interval.filter(|i| i.lo > 0.0).map(|i| Interval { lo: 1.0 / i.hi, hi: 1.0 / i.lo });
    let figures = format!("{} → {}", time(baseline), time(row.ours));
    Some(Speedup { name: program.to_owned(), style: OURS, times: 1.0 / ratio, interval, figures })
}

/// A time in ms as people read it.
fn time(ms: f64) -> String {
    if ms >= 1e3 { number::with_unit(ms / 1e3, "s") } else { number::with_unit(ms, "ms") }
}

/// A page load without headstart and with it, over one axis of time.
fn loads(out: &mut String, outcome: &Outcome) {
    let all = &outcome.waterfalls;
    let Some(first) = all.first() else { return };
    let until = all.iter().flat_map(|load| load.falls.iter().map(|fall| fall.end_ms)).fold(1.0, f64::max);
    let heading = format!("A page of {} objects over LTE, in virtual time", first.falls.len());
    let _ = writeln!(
        out,
        "<figure class=\"large\"><figcaption>{}</figcaption>\n<div class=\"plots\">",
        escape::html(&heading)
    );
    for (n, load) in all.iter().enumerate() {
        let caption = Caption {
            id: format!("load{n}"),
            title: format!("{}: load event after {:.0} ms", load.arm, load.load_ms),
            axis: format!("{} headstart: time since the start (ms)", if load.arm == BARE { "without" } else { "with" }),
        };
        *out += &waterfall(&caption, load, until);
    }
    *out += "</div></figure>\n";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_page_is_small_and_has_a_figure_for_gains_and_losses() {
        let mut programs = Outcome::new("connect-programs", 1);
        let row = |condition: &str, arm: &str, baseline: f64, ours: f64| Row {
            baseline_arm: Some("bare".into()),
            baseline: Some(baseline),
            ratio: Some(ours / baseline),
            ..Row::measured(condition, "time to fetch a page, median", "ms", arm, ours)
        };
        programs.rows = vec![
            row("aaaa-lost-wget", "headstart", 15_080.0, 114.0),
            row("healthy-curl", "headstart", 64.0, 66.0),
            row("healthy-curl", "headstart-again", 64.0, 36.0),
        ];
        programs.invalidate("<b>busy</b>");
        let html = page(&[&programs, &sample::outcome()]);
        for expected in ["132.28 times as fast", "0.97 times as fast", "later visits", "&lt;b&gt;busy&lt;/b&gt;"] {
            assert!(html.contains(expected), "{expected}\n{html}");
        }
        assert!(html.len() < 500_000 && html.matches("<svg ").count() <= 10);
        for fetch in ["<script", "<img", "src=", "url(", "http://", "https://"] {
            assert!(!html.contains(fetch), "{fetch}");
        }
    }
}
