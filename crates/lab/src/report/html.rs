//! `report.html`: one page that needs nothing but itself.
//!
//! Headline first, then the paper's numbers beside ours, then plots per condition with their tables, then cost, method and
//! machine. Light and dark by the reader's preference; readable on a telephone; no script. Its content security policy
//! forbids every fetch, so that a mistake in here cannot make one.

use super::plot::{Arm, Bar, BarGroup, Caption, bars, boxes, cdf, waterfall};
use super::{Table, escape, summary, title};
use crate::experiment::{Claims, Outcome, Row, Series};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// A page about these outcomes, in this order.
pub fn page(outcomes: &[Outcome], claims: &Claims) -> String {
    let name = match outcomes {
        [one] => title(one).to_owned(),
        _ => format!("{} experiments", outcomes.len()),
    };
    let mut out = head(&name);
    if outcomes.len() > 1 {
        out += "<nav><h1>headstart lab</h1><ul>\n";
        for (i, o) in outcomes.iter().enumerate() {
            let state = if o.valid { "" } else { " (not valid)" };
            let _ = writeln!(out, "<li><a href=\"#e{i}\">{}</a>{state}</li>", escape::html(title(o)));
        }
        out += "</ul></nav>\n";
    }
    for (i, o) in outcomes.iter().enumerate() {
        Article { outcome: o, claims, id: format!("e{i}") }.write(&mut out);
    }
    out + END
}

/// The beginning of a page called `name`.
pub(super) fn head(name: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} – headstart lab</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape::html(name)
    )
}

/// The end of a page.
pub(super) const END: &str = "</main>\n</body>\n</html>\n";

/// One experiment on the page.
struct Article<'a> {
    outcome: &'a Outcome,
    claims: &'a Claims,
    /// Unique in the page; ids of everything inside begin with it.
    id: String,
}

impl Article<'_> {
    fn write(&self, out: &mut String) {
        let o = self.outcome;
        let _ = writeln!(out, "<article id=\"{}\">\n<header><h1>{}</h1>", self.id, escape::html(title(o)));
        let mut facts = vec![format!("experiment {}", o.experiment), format!("seed {}", o.seed)];
        facts.extend(o.extent.as_ref().map(ToString::to_string));
        if let Some(d) = &o.device {
            facts.push(d.date.clone());
            facts.extend(d.commit.as_ref().map(|c| format!("commit {}", c.chars().take(12).collect::<String>())));
        }
        let _ = writeln!(out, "<p class=\"facts\">{}</p></header>", escape::html(&facts.join(" · ")));
        if !o.valid {
            *out += "<div class=\"invalid\" role=\"alert\"><strong>This run is not valid.</strong> No claim is judged by it.<ul>\n";
            for why in &o.why_invalid {
                let _ = writeln!(out, "<li>{}</li>", escape::html(why));
            }
            *out += "</ul></div>\n";
        }
        let lines = summary::headlines(o);
        if let Some((first, rest)) = lines.split_first() {
            let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape::html(first));
            *out += "<ul class=\"lead\">\n";
            for line in rest {
                let _ = writeln!(out, "<li>{}</li>", escape::html(line));
            }
            *out += "</ul>\n";
        }
        if let Some(medians) = summary::medians(o) {
            section(out, medians.caption(), &medians);
        }
        let claimed = summary::comparisons("Results beside the paper", o.rows.iter().filter(|r| r.claim.is_some()));
        section(out, "Results beside the paper", &claimed);
        section(out, "What the paper says", &summary::claims(o, self.claims));
        for (i, condition) in self.conditions().into_iter().enumerate() {
            self.write_condition(out, i, condition);
        }
        self.write_waterfalls(out);
        section(out, "What each arm cost", &summary::prices(&o.prices));
        paragraphs(out, "How it was measured", &o.method);
        section(out, "State of the machine", &summary::machine(o));
        paragraphs(out, "Notes", &o.notes);
        if o.rows.iter().any(|r| r.verdict.is_some()) {
            *out += VERDICTS;
        }
        *out += "</article>\n";
    }

    /// All conditions, described ones first.
    fn conditions(&self) -> Vec<&str> {
        let o = self.outcome;
        let described = o.conditions.iter().map(|c| c.name.as_str());
        let in_rows = o.rows.iter().map(|r| r.condition.as_str());
        summary::distinct(described.chain(in_rows).chain(o.samples.iter().map(|s| s.condition.as_str())))
    }

    fn write_condition(&self, out: &mut String, index: usize, condition: &str) {
        let o = self.outcome;
        let _ = writeln!(out, "<section><h2>Condition {}</h2>", escape::html(condition));
        if let Some(c) = o.conditions.iter().find(|c| c.name == condition) {
            let _ = writeln!(out, "<p>{}</p>", escape::html(&c.about));
        }
        let rows: Vec<&Row> = o.rows.iter().filter(|r| r.condition == condition).collect();
        let id = format!("{}-c{index}", self.id);
        if !rows.is_empty() {
            let table = summary::comparisons(&format!("All comparisons in {condition}"), rows.iter().copied())
                .without_column("Condition");
            let groups = self.bar_groups(&rows);
            if groups.is_empty() {
                *out += &table.to_html(true);
            } else {
                let name = Caption {
                    id: format!("{id}-r"),
                    title: format!("Ratio to the baseline in {condition}"),
                    axis: "ratio to the baseline (1 = no difference)".into(),
                };
                figure(out, &name.title, &[bars(&name, &groups)], &table);
            }
        }
        let samples = || o.samples.iter().filter(|s| s.condition == condition);
        for (j, (metric, unit)) in summary::distinct(samples().map(|s| (&s.metric, &s.unit))).into_iter().enumerate() {
            let series: Vec<&Series> = samples().filter(|s| (&s.metric, &s.unit) == (metric, unit)).collect();
            let arms: Vec<Arm> = series.iter().map(|s| self.arm(s)).collect();
            let heading = format!("{metric} in {condition}");
            let axis = if unit.is_empty() { metric.clone() } else { format!("{metric} ({unit})") };
            let name =
                |kind: &str| Caption { id: format!("{id}-{kind}{j}"), title: heading.clone(), axis: axis.clone() };
            let mut about = heading.clone();
            if !unit.is_empty() {
                let _ = write!(about, ", values in {unit}");
            }
            if series.iter().any(|s| s.failed() > 0) {
                about += ", of the trials that did not fail";
            }
            let table = summary::samples(&about, &series);
            figure(out, &heading, &[cdf(&name("d"), &arms), boxes(&name("b"), &arms)], &table);
        }
        *out += "</section>\n";
    }

    /// Page loads under several arms, one below the other over one time axis.
    fn write_waterfalls(&self, out: &mut String) {
        let all = &self.outcome.waterfalls;
        let Some(first) = all.first() else { return };
        let until = all.iter().flat_map(|w| w.falls.iter().map(|f| f.end_ms)).fold(1.0, f64::max);
        let heading = format!("A page load in {}: page {}", first.condition, first.page);
        let _ = writeln!(
            out,
            "<section><h2>{0}</h2>\n<figure><figcaption>{0}</figcaption>\n<div class=\"plots\">",
            escape::html(&heading)
        );
        for (n, load) in all.iter().enumerate() {
            let title = format!("{} under {}: load event after {:.0} ms", load.page, load.arm, load.load_ms);
            let caption = Caption {
                id: format!("{}-w{n}", self.id),
                title,
                axis: format!("{}: time since the start (ms)", load.arm),
            };
            *out += &waterfall(&caption, load, until);
        }
        let table = summary::waterfalls(all);
        let _ = write!(out, "</div>\n{}</figure>\n</section>\n", table.to_html(true));
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
const VERDICTS: &str = "<section><h2>How claims are judged</h2>\n<p>One rule for every claim, fixed before measuring, on ratios and their 95 % \
intervals. <b>Reproduced</b>: the interval touches 0.8 to 1.25 times the paper’s ratio. <b>Stronger</b>, <b>weaker</b>: the same direction, beyond \
that. <b>Not reproduced</b>: no effect, or the other direction. <b>Problem absent</b>: the baseline differs from the paper’s by more than 20 %, so \
nothing can be said about its remedy. <b>Exceeded</b>: a way of ours beats the paper’s figure. <b>Instrument only</b>: the measurement does not \
decide, or the run is not valid. Where the paper saw no difference, an interval within 10 % of 1 reproduces it.</p></section>\n";

pub(super) fn section(out: &mut String, heading: &str, table: &Table) {
    if !table.is_empty() {
        let _ = write!(out, "<section><h2>{}</h2>\n{}</section>\n", escape::html(heading), table.to_html(false));
    }
}

pub(super) fn paragraphs(out: &mut String, heading: &str, paragraphs: &[String]) {
    if paragraphs.is_empty() {
        return;
    }
    let _ = writeln!(out, "<section><h2>{}</h2>", escape::html(heading));
    for p in paragraphs {
        let _ = writeln!(out, "<p>{}</p>", escape::html(p));
    }
    *out += "</section>\n";
}

fn figure(out: &mut String, heading: &str, plots: &[String], table: &Table) {
    let _ = writeln!(out, "<figure><figcaption>{}</figcaption>\n<div class=\"plots\">", escape::html(heading));
    for plot in plots {
        *out += plot;
    }
    let _ = write!(out, "</div>\n{}</figure>\n", table.to_html(true));
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
        assert_eq!(html.matches("<figure>").count(), html.matches("</div>\n</figure>").count());
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
