//! The page of `headstart demo`. The first screen shows three facts as pictures: how many times faster each program is on each network,
//! what a first visit costs on a healthy one, and how long a page takes. Then the page loads object by object; the numbers behind a
//! fold, everything else in the experiments' own reports.

use super::html::{paragraphs, phases, section, whole};
use super::plot::{Caption, Pair, Speedup, SpeedupGroup, pairs, speedups, waterfall};
use super::{Row, summary};
use crate::experiment::connect_programs::BARE;
use crate::experiment::connect_programs::reading::{View, called, change, healthy, noise, price, time, views};
use crate::experiment::{Outcome, Waterfall};
use crate::stats::Interval;
use maud::{Markup, PreEscaped, html};

/// A colour belongs to an arm, in all figures of the page: places in the palette.
const WITHOUT: usize = 4;
const WITH: usize = 2;

/// The page about these outcomes.
pub fn page(outcomes: &[&Outcome]) -> String {
    whole(
        "headstart demo",
        &html! {
            header { h1 { "The same programs, without and with headstart" } }
            p.phases {
                span class={ "c" (WITHOUT) } { "without headstart" }
                span class={ "c" (WITH) } { "with headstart" }
            }
            @for outcome in outcomes { @if let Some(words) = doubt(outcome) { p.facts { (words) } } }
            div.glance { @for outcome in outcomes { (programs(outcome)) (prices(outcome)) (load_times(outcome)) } }
            @for outcome in outcomes { (loads(outcome)) }
            @for outcome in outcomes { (folded(outcome)) }
        },
    )
}

/// What other load on the machine means for the figures, if there was any.
fn doubt(outcome: &Outcome) -> Option<String> {
    let size = noise(outcome).map_or_else(|| "some milliseconds".to_owned(), time);
    let words = "The machine was busy: runs of one program without headstart differed by up to";
    (!outcome.valid).then(|| format!("{words} {size}, so smaller differences may be noise (reasons below)."))
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
            (section("What each arm cost", &summary::prices(&outcome.prices)))
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

/// A figure with its caption in words.
fn figure(class: &str, caption: &str, plot: &str) -> Markup {
    html! { figure class=(class) { figcaption { (caption) } (PreEscaped(plot)) } }
}

/// How many times faster every program is.
fn programs(outcome: &Outcome) -> Markup {
    let group = |view: View| SpeedupGroup {
        heading: view.title(),
        rows: view.rows(outcome).filter_map(|(program, row)| speedup(program, row, outcome)).collect(),
    };
    let groups: Vec<_> = views().map(group).filter(|group| !group.rows.is_empty()).collect();
    let caption = Caption {
        id: "speedups".into(),
        title: "How many times faster each program fetches a page".into(),
        axis: "times as fast (1 = no difference)".into(),
    };
    html! { @if !groups.is_empty() { (figure("tall", &caption.title, &speedups(&caption, &groups))) } }
}

fn speedup(program: &str, row: &Row, outcome: &Outcome) -> Option<Speedup> {
    let (ratio, baseline) = (row.ratio.filter(|ratio| *ratio > 0.0)?, row.baseline?);
    let interval = row.interval.filter(|i| i.lo > 0.0).map(|i| Interval { lo: 1.0 / i.hi, hi: 1.0 / i.lo });
    let said = change(row, outcome)?.to_string().replace("> ", "at least ");
    let figures = format!("{} → {}: {said}", time(baseline), time(row.ours));
    Some(Speedup { name: called(program).to_owned(), style: WITH, times: 1.0 / ratio, interval, figures })
}

/// What a first visit costs where there is nothing to gain.
fn prices(outcome: &Outcome) -> Markup {
    let pair = |(program, row): (&str, &Row)| {
        let baseline = row.baseline?;
        let figures = format!("{} → {}", time(baseline), time(row.ours));
        Some(Pair { name: called(program).to_owned(), bars: [(WITHOUT, baseline), (WITH, row.ours)], figures })
    };
    let all: Vec<_> = healthy().into_iter().flat_map(|view| view.rows(outcome).filter_map(pair)).collect();
    let cost = match price(outcome) {
        Some(ms) => format!("{ms:+.0} ms on a first visit over a healthy network (median program)").replace('-', "−"),
        None => "not measured".to_owned(),
    };
    let caption =
        Caption { id: "price".into(), title: format!("The price: {cost}"), axis: "time to fetch a page (ms)".into() };
    html! { @if !all.is_empty() { (figure("", &caption.title, &pairs(&caption, &all))) } }
}

/// A page load without headstart and with it.
fn both(outcome: &Outcome) -> Option<[&Waterfall; 2]> {
    let is_bare = |load: &&Waterfall| load.arm == BARE;
    let all = || outcome.waterfalls.iter();
    Some([all().find(is_bare)?, all().find(|load| !is_bare(load))?])
}

/// How long both page loads took.
fn load_times(outcome: &Outcome) -> Markup {
    let Some([without, with]) = both(outcome) else { return Markup::default() };
    let figures = format!("{:.2} s → {:.2} s", without.load_ms / 1e3, with.load_ms / 1e3);
    let bars = [(WITHOUT, without.load_ms), (WITH, with.load_ms)];
    let caption = Caption {
        id: "loads".into(),
        title: format!("A page of {} objects over LTE, in virtual time (below, object by object)", without.falls.len()),
        axis: "time until the load event (ms)".into(),
    };
    let plot = pairs(&caption, &[Pair { name: "first load".into(), bars, figures }]);
    figure("", &caption.title, &plot)
}

/// Both page loads, object by object, over one axis of time.
fn loads(outcome: &Outcome) -> Markup {
    let Some(loads) = both(outcome) else { return Markup::default() };
    let until = loads.iter().flat_map(|load| load.falls.iter().map(|fall| fall.end_ms)).fold(1.0, f64::max);
    let plot = |(load, name, place): (&Waterfall, &str, usize)| {
        let title = format!("{name} headstart: load event after {:.2} s", load.load_ms / 1e3);
        let caption = Caption { id: format!("load-{place}"), title, axis: "time since the start (ms)".into() };
        html! { h3 { (caption.title) } (PreEscaped(waterfall(&caption, load, until, place))) }
    };
    html! {
        section {
            h2 { "The page load, object by object" }
            (phases())
            @for load in [(loads[0], "Without", WITHOUT), (loads[1], "With", WITH)] { (plot(load)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Series;
    use crate::report::sample;

    #[test]
    fn the_page_is_small_and_has_pictures_of_gain_price_and_page() {
        let mut programs = Outcome::new("connect-programs", 1);
        let row = |condition: &str, arm: &str, baseline: f64, ours: f64| Row {
            baseline_arm: Some("bare".into()),
            baseline: Some(baseline),
            ratio: Some(ours / baseline),
            ..Row::measured(condition, "time to fetch a page, median", "ms", arm, ours)
        };
        programs.rows = vec![
            row("aaaa-lost-wget", "headstart", 15_080.0, 114.0),
            row("ipv6-black-hole-client", "headstart", 20_003.0, 344.0),
            row("healthy-curl", "headstart", 64.0, 66.0),
            row("healthy-curl", "headstart-again", 64.0, 30.0),
        ];
        programs.samples = vec![Series::new("healthy-curl", "time", "ms", BARE, [64.0, 60.0, 66.0])];
        let html = page(&[&programs, &sample::outcome()]);
        let cut = "test client: &gt; 20 s → 344 ms: at least 58x faster";
        for expected in ["wget: 15.1 s → 114 ms: 132x faster", cut, "The price: +2 ms", "64 ms → 66 ms: 1.03x slower"]
        {
            assert!(html.contains(expected), "{expected}\n{html}");
        }
        assert!(html.contains("0.40 s → 0.32 s") && !html.contains("busy"), "{html}");
        programs.invalidate("<b>busy</b>");
        let html = page(&[&programs, &sample::outcome()]);
        for expected in [
            "wget: 15.1 s → 114 ms: 132x faster",
            "64 ms → 66 ms: no clear difference",
            "The price: +2 ms",
            "64 ms → 30 ms: 2.1x faster",
            "later visits",
            "&lt;b&gt;busy&lt;/b&gt;",
        ] {
            assert!(html.contains(expected), "{expected}\n{html}");
        }
        assert!(html.len() < 500_000 && html.matches("<svg ").count() <= 10);
        for fetch in ["<script", "<img", "src=", "url(", "http://", "https://"] {
            assert!(!html.contains(fetch), "{fetch}");
        }
    }

    #[test]
    fn a_colour_belongs_to_an_arm() {
        let html = page(&[&sample::outcome()]);
        let of_load = |place: usize| {
            let from = html.split_once(&format!("aria-labelledby=\"load-{place}-t")).unwrap().1;
            from.split_once("</svg>").unwrap().0.to_owned()
        };
        for (ours, other) in [(WITHOUT, WITH), (WITH, WITHOUT)] {
            let load = of_load(ours);
            assert!(load.contains(&format!("\"c{ours} ")) && !load.contains(&format!("\"c{other} ")), "{load}");
        }
    }
}
