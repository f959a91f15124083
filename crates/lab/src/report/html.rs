//! `report.html`: one page that needs nothing but itself.
//!
//! Headline first, then the paper's numbers beside ours, then plots per condition with their tables, then cost, method and
//! machine. Light and dark by the reader's preference; readable on a telephone; no script. Its content security policy
//! forbids every fetch, so that a mistake in here cannot make one.

use super::plot::{Arm, Bar, BarGroup, Caption, PHASES, bars, boxes, cdf, waterfall};
use super::{Table, summary, title};
use crate::experiment::{Claims, Outcome, Row, Series, Waterfall};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// A page about these outcomes, in this order.
pub fn page(outcomes: &[Outcome], claims: &Claims) -> String {
    let name = match outcomes {
        [one] => title(one).to_owned(),
        _ => format!("{} experiments", outcomes.len()),
    };
    whole(
        &name,
        &html! {
            @if outcomes.len() > 1 {
                nav {
                    h1 { "headstart lab" }
                    ul {
                        @for (i, o) in outcomes.iter().enumerate() {
                            li { a href={ "#e" (i) } { (title(o)) } @if !o.valid { " (not valid)" } }
                        }
                    }
                }
            }
            @for (i, outcome) in outcomes.iter().enumerate() {
                (Article { outcome, claims, id: format!("e{i}") }.markup())
            }
        },
    )
}

/// A page called `name` of nothing but `body` and our style.
pub(super) fn whole(name: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (name) " – headstart lab" }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string() + "\n"
}

/// One experiment on the page.
struct Article<'a> {
    outcome: &'a Outcome,
    claims: &'a Claims,
    /// Unique in the page; ids of everything inside begin with it.
    id: String,
}

impl Article<'_> {
    fn markup(&self) -> Markup {
        let o = self.outcome;
        let mut facts = vec![format!("experiment {}", o.experiment), format!("seed {}", o.seed)];
        facts.extend(o.extent.as_ref().map(ToString::to_string));
        if let Some(d) = &o.device {
            facts.push(d.date.clone());
            facts.extend(d.short_commit().map(|commit| format!("commit {commit}")));
        }
        let lines = summary::headlines(o);
        let claimed = summary::comparisons("Results beside the paper", o.rows.iter().filter(|r| r.claim.is_some()));
        html! {
            article id=(self.id) {
                header { h1 { (title(o)) } p.facts { (facts.join(" · ")) } }
                @if !o.valid {
                    div.invalid role="alert" {
                        strong { "This run is not valid." }
                        " No claim is judged by it."
                        ul { @for why in &o.why_invalid { li { (why) } } }
                    }
                }
                @if let Some((first, rest)) = lines.split_first() {
                    p.lead { (first) }
                    ul.lead { @for line in rest { li { (line) } } }
                }
                @if let Some(medians) = summary::medians(o) { (section(medians.caption(), &medians)) }
                (section("Results beside the paper", &claimed))
                (section("What the paper says", &summary::claims(o, self.claims)))
                @for (i, condition) in self.conditions().into_iter().enumerate() { (self.condition(i, condition)) }
                (self.waterfalls())
                (section("What each arm cost", &summary::prices(&o.prices)))
                (paragraphs("How it was measured", &o.method))
                (section("State of the machine", &summary::machine(o)))
                (paragraphs("Notes", &o.notes))
                @if o.rows.iter().any(|r| r.verdict.is_some()) { (PreEscaped(VERDICTS)) }
            }
        }
    }

    /// All conditions, described ones first.
    fn conditions(&self) -> Vec<&str> {
        let o = self.outcome;
        let described = o.conditions.iter().map(|c| c.name.as_str());
        let in_rows = o.rows.iter().map(|r| r.condition.as_str());
        summary::distinct(described.chain(in_rows).chain(o.samples.iter().map(|s| s.condition.as_str())))
    }

    fn condition(&self, index: usize, condition: &str) -> Markup {
        let o = self.outcome;
        let id = format!("{}-c{index}", self.id);
        let samples = || o.samples.iter().filter(|s| s.condition == condition);
        let metrics = summary::distinct(samples().map(|s| (&s.metric, &s.unit)));
        html! {
            section {
                h2 { "Condition " (condition) }
                @if let Some(c) = o.conditions.iter().find(|c| c.name == condition) { p { (c.about) } }
                (self.ratios(&id, condition))
                @for (j, (metric, unit)) in metrics.into_iter().enumerate() {
                    @let series = samples().filter(|s| (&s.metric, &s.unit) == (metric, unit)).collect::<Vec<_>>();
                    (self.distributions([&format!("{id}-d{j}"), &format!("{id}-b{j}")], condition, &series))
                }
            }
        }
    }

    /// The comparisons in a condition.
    fn ratios(&self, id: &str, condition: &str) -> Markup {
        let rows: Vec<&Row> = self.outcome.rows.iter().filter(|r| r.condition == condition).collect();
        if rows.is_empty() {
            return Markup::default();
        }
        let table = summary::comparisons(&format!("All comparisons in {condition}"), rows.iter().copied())
            .without_column("Condition");
        let groups = self.bar_groups(&rows);
        if groups.is_empty() {
            return table.to_html(true);
        }
        let name = Caption {
            id: format!("{id}-r"),
            title: format!("Ratio to the baseline in {condition}"),
            axis: "ratio to the baseline (1 = no difference)".into(),
        };
        figure(&name.title, &[bars(&name, &groups)], &table)
    }

    /// The samples of one metric in a condition, drawn twice.
    fn distributions(&self, ids: [&str; 2], condition: &str, series: &[&Series]) -> Markup {
        let Some(Series { metric, unit, .. }) = series.first() else { return Markup::default() };
        let arms: Vec<Arm> = series.iter().map(|s| self.arm(s)).collect();
        let heading = format!("{metric} in {condition}");
        let axis = if unit.is_empty() { metric.clone() } else { format!("{metric} ({unit})") };
        let [first, second] = ids.map(|id| Caption { id: id.to_owned(), title: heading.clone(), axis: axis.clone() });
        let mut about = heading.clone();
        if !unit.is_empty() {
            about += &format!(", values in {unit}");
        }
        if series.iter().any(|s| s.failed() > 0) {
            about += ", of the trials that did not fail";
        }
        figure(&heading, &[cdf(&first, &arms), boxes(&second, &arms)], &summary::samples(&about, series))
    }

    /// Page loads under several arms, one below the other over one time axis.
    fn waterfalls(&self) -> Markup {
        let all = &self.outcome.waterfalls;
        let Some(first) = all.first() else { return Markup::default() };
        let until = all.iter().flat_map(|w| w.falls.iter().map(|f| f.end_ms)).fold(1.0, f64::max);
        let heading = format!("A page load in {}: page {}", first.condition, first.page);
        let plot = |(n, load): (usize, &Waterfall)| {
            let caption = Caption {
                id: format!("{}-w{n}", self.id),
                title: format!("{} under {}: load event after {:.0} ms", load.page, load.arm, load.load_ms),
                axis: format!("{}: time since the start (ms)", load.arm),
            };
            waterfall(&caption, load, until, self.style_of(&load.arm))
        };
        let plots: Vec<String> = all.iter().enumerate().map(plot).collect();
        html! { section { h2 { (heading) } (phases()) (figure(&heading, &plots, &summary::waterfalls(all))) } }
    }

    fn bar_groups(&self, rows: &[&Row]) -> Vec<BarGroup> {
        let with_ratio = || rows.iter().filter(|r| r.ratio.is_some());
        summary::distinct(with_ratio().map(|r| (&r.metric, r.baseline_arm.as_deref().unwrap_or_default())))
            .into_iter()
            .map(|(metric, baseline)| BarGroup {
                heading: format!("{metric}, against {baseline}"),
                bars: with_ratio()
                    .filter(|r| (&r.metric, r.baseline_arm.as_deref().unwrap_or_default()) == (metric, baseline))
                    .filter_map(|r| {
                        let (name, style) = (r.arm.clone(), self.style_of(&r.arm));
                        Some(Bar { name, style, value: r.ratio?, interval: r.interval, paper: r.paper })
                    })
                    .collect(),
            })
            .collect()
    }

    fn arm(&self, s: &Series) -> Arm {
        Arm { name: s.arm.clone(), style: self.style_of(&s.arm), values: s.present(), failed: s.failed() }
    }

    /// Place of an arm in the palette: the same in every plot of the experiment.
    fn style_of(&self, arm: &str) -> usize {
        let of_samples = self.outcome.samples.iter().map(|s| s.arm.as_str());
        let of_rows = self.outcome.rows.iter().map(|r| r.arm.as_str());
        summary::distinct(of_samples.chain(of_rows)).iter().position(|a| *a == arm).unwrap_or(0)
    }
}

/// What the verdicts mean, in short; the rule itself is `experiment::judge`.
const VERDICTS: &str = "<section><h2>How claims are judged</h2>\n<p>One rule for every claim, fixed before measuring, on ratios \
                        and their 95 % intervals. <b>Reproduced</b>: the interval touches 0.8 to 1.25 times the paper’s ratio. \
                        <b>Stronger</b>, <b>weaker</b>: the same direction, beyond that. <b>Not reproduced</b>: no effect, or the \
                        other direction. <b>Problem absent</b>: the baseline differs from the paper’s by more than 20 %, so \
                        nothing can be said about its remedy. <b>Exceeded</b>: headstart's own method beats the paper’s figure. \
                        <b>Instrument only</b>: the measurement does not decide, or the run is not valid. Where the paper saw no \
                        difference, an interval within 10 % of 1 reproduces it.</p></section>\n";

pub(super) fn section(heading: &str, table: &Table) -> Markup {
    html! { @if !table.is_empty() { section { h2 { (heading) } (table.to_html(false)) } } }
}

pub(super) fn paragraphs(heading: &str, paragraphs: &[String]) -> Markup {
    html! { @if !paragraphs.is_empty() { section { h2 { (heading) } @for p in paragraphs { p { (p) } } } } }
}

/// What the shades of waterfalls stand for.
pub(super) fn phases() -> Markup {
    html! { p.phases { @for (n, phase) in PHASES.iter().enumerate() { span class={ "p" (n) } { (phase) } } } }
}

fn figure(heading: &str, plots: &[String], table: &Table) -> Markup {
    html! {
        figure {
            figcaption { (heading) }
            div.plots { @for plot in plots { (PreEscaped(plot)) } }
            (table.to_html(true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use std::collections::BTreeMap;

    fn sample_page() -> String {
        page(&[sample::outcome()], &Claims::built_in().unwrap())
    }

    #[test]
    fn the_page_needs_nothing_but_itself() {
        let html = sample_page();
        for fetch in ["<script", "<link", "<img", "src=", "url(", "@import", "http://", "https://"] {
            assert!(!html.contains(fetch), "{fetch}");
        }
        assert!(html.contains("default-src 'none'"));
    }

    #[test]
    fn every_plot_has_a_title_a_description_and_a_table() {
        let html = sample_page();
        let plots = html.matches("<svg ").count();
        assert!(plots >= 5);
        assert_eq!((html.matches("<title id=").count(), html.matches("<desc id=").count()), (plots, plots));
        assert_eq!(html.matches("<figure>").count(), html.matches("</table></div></figure>").count());
    }

    #[test]
    fn ids_are_unique_even_with_the_same_experiment_twice() {
        let html = page(&[sample::outcome(), sample::outcome()], &Claims::built_in().unwrap());
        let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|t| t.split('"').next()).collect();
        assert!(ids.len() > 10);
        assert_eq!(summary::distinct(ids.clone()).len(), ids.len());
    }

    #[test]
    fn every_tag_that_opens_is_closed_in_order() {
        let html = sample_page();
        let body = html.split_once("<body>").unwrap().1.split_once("</body>").unwrap().0;
        let mut open = Vec::new();
        for tag in body.split('<').skip(1).filter_map(|t| t.split_once('>')).map(|(tag, _)| tag) {
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "</{name}>"),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split([' ', '\n']).next().unwrap()),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut outcome = sample::outcome();
        let evil = "</title><script>alert(1)</script>\"'";
        outcome.experiment = evil.into();
        outcome.notes.push(evil.into());
        outcome.rows.push(Row::measured(evil, evil, evil, evil, 1.0));
        outcome.samples.push(Series::new(evil, evil, evil, evil, [1.0, 2.0]));
        outcome.invalidate(evil);
        let html = page(&[outcome], &Claims::built_in().unwrap());
        assert!(!html.contains("<script") && !html.contains("\"'\""));
        assert!(html.matches("&lt;script&gt;").count() > 8);
    }

    #[test]
    fn an_outcome_without_anything_is_still_a_page() {
        let html = page(&[Outcome::new("empty", 3)], &Claims::built_in().unwrap());
        assert!(html.contains("<h1>empty</h1>") && html.contains("<td class=\"s\">3</td>") && !html.contains("<svg"));
    }

    /// The variables of one block of the style sheet that hold a colour.
    fn colours(block: &str) -> BTreeMap<&str, [u8; 3]> {
        block
            .split(';')
            .filter_map(|d| d.trim().strip_prefix("--")?.split_once(':'))
            .filter_map(|(name, value)| {
                let hex = value.trim().strip_prefix('#').filter(|h| h.len() == 6)?;
                let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                Some((name, [byte(0), byte(2), byte(4)]))
            })
            .collect()
    }

    /// Contrast by WCAG 2.
    fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
        let luminance = |c: [u8; 3]| {
            let [r, g, b] = c.map(|v| {
                let v = f64::from(v) / 255.0;
                if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn colours_have_contrast_in_light_and_in_dark() {
        let blocks: Vec<&str> = STYLE.split(":root {").skip(1).map(|b| b.split('}').next().unwrap()).collect();
        assert_eq!(blocks.len(), 2, "a light block and a dark one");
        for block in blocks {
            let c = colours(block);
            for text in ["fg", "soft", "good", "bad", "link"] {
                assert!(contrast(c[text], c["bg"]) >= 4.5, "--{text}: {:.2}", contrast(c[text], c["bg"]));
            }
            for i in 0..super::super::plot::STYLES {
                let name = format!("c{i}");
                let against = contrast(c[name.as_str()], c["bg"]);
                assert!(against >= 3.0, "--{name}: {against:.2}");
            }
        }
    }
}
