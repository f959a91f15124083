//! The page of `headstart demo`: how many times faster each program is on each network, and a page load without and with headstart.
//! Two figures on the first screen; the numbers behind a fold, everything else in the experiments' own reports.

use super::html::{paragraphs, section, whole};
use super::plot::{Caption, Speedup, SpeedupGroup, speedups, waterfall};
use super::{Row, number, summary};
use crate::experiment::connect_programs::{BARE, View, views};
use crate::experiment::{Outcome, Waterfall};
use crate::stats::Interval;
use maud::{Markup, PreEscaped, html};

/// A colour belongs to an arm: headstart's in all figures of the page.
const OURS: usize = 2;

/// The page about these outcomes.
pub fn page(outcomes: &[&Outcome]) -> String {
    whole(
        "headstart demo",
        &html! {
            header { h1 { "The same programs, without and with headstart" } }
            @if outcomes.iter().any(|outcome| !outcome.valid) {
                p.facts { "The machine was busy: differences of a few milliseconds may be noise (reasons below)." }
            }
            @for outcome in outcomes { (programs(outcome)) (loads(outcome)) }
            @for outcome in outcomes { (folded(outcome)) }
        },
    )
}

/// The numbers of an outcome, behind a fold.
fn folded(outcome: &Outcome) -> Markup {
    let page = format!("{}/report.html", outcome.experiment);
    let rows = outcome.rows.iter().filter(|row| row.ratio.is_some());
    html! {
        details {
            summary { (outcome.experiment) ": numbers, method, machine" }
            p.facts { (facts(outcome)) }
            (section("All comparisons", &summary::comparisons("All comparisons", rows)))
            (paragraphs("How it was measured", &outcome.method))
            (section("State of the machine", &summary::machine(outcome)))
            p { "In full: " a href=(page) { (page) } }
        }
    }
}

fn facts(outcome: &Outcome) -> String {
    let mut facts = vec![format!("experiment {}, seed {}", outcome.experiment, outcome.seed)];
    facts.extend(outcome.extent.as_ref().map(ToString::to_string));
    facts.extend(outcome.device.as_ref().map(|d| d.date.clone()));
    if !outcome.valid {
        facts.push(format!("not valid as a measurement: {}", outcome.why_invalid.join("; ")));
    }
    facts.join(" · ")
}

/// How many times faster every program is.
fn programs(outcome: &Outcome) -> Markup {
    let group = |view: View| SpeedupGroup {
        heading: view.title(),
        rows: view.rows(outcome).filter_map(|(program, row)| speedup(program, row)).collect(),
    };
    let groups: Vec<_> = views().map(group).filter(|group| !group.rows.is_empty()).collect();
    let caption = Caption {
        id: "speedups".into(),
        title: "How many times faster each program fetches a page with headstart".into(),
        axis: "times as fast (1 = no difference)".into(),
    };
    html! {
        @if !groups.is_empty() {
            figure.large { figcaption { (caption.title) } (PreEscaped(speedups(&caption, &groups))) }
        }
    }
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
fn loads(outcome: &Outcome) -> Markup {
    let all = &outcome.waterfalls;
    let Some(first) = all.first() else { return Markup::default() };
    let until = all.iter().flat_map(|load| load.falls.iter().map(|fall| fall.end_ms)).fold(1.0, f64::max);
    let plot = |(n, load): (usize, &Waterfall)| {
        let caption = Caption {
            id: format!("load{n}"),
            title: format!("{}: load event after {:.0} ms", load.arm, load.load_ms),
            axis: format!("{} headstart: time since the start (ms)", if load.arm == BARE { "without" } else { "with" }),
        };
        waterfall(&caption, load, until)
    };
    html! {
        figure.large {
            figcaption { "A page of " (first.falls.len()) " objects over LTE, in virtual time" }
            div.plots { @for plot in all.iter().enumerate().map(plot) { (PreEscaped(plot)) } }
        }
    }
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
