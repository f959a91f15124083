//! Bars with intervals: how an arm relates to its baseline, with the paper's ratio as a mark.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, px};
use super::{Caption, LINE, RIGHT, WIDTH, style};
use crate::report::number;
use crate::report::summary::interval;
use crate::stats::Interval;

const LEFT: f64 = 10.0;
const ROW: f64 = 42.0;

/// Ratios above this go on a logarithmic axis, where bars begin at 1.
const LOG_ABOVE: f64 = 4.0;

/// Bars under one heading: the same metric against the same baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct BarGroup {
    /// "DNS lookup time, p75, against sequential".
    pub heading: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the arm.
    pub name: String,
    /// Its place in the palette.
    pub style: usize,
    /// The ratio.
    pub value: f64,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// The ratio in the paper.
    pub paper: Option<f64>,
}

impl Bar {
    fn numbers(&self) -> impl Iterator<Item = f64> + Clone {
        let ends = self.interval.map(|i| [i.lo, i.hi]).into_iter().flatten();
        [Some(self.value), self.paper].into_iter().flatten().chain(ends)
    }

    fn figures(&self) -> String {
        match self.interval {
            Some(i) => format!("{} ({})", number::ratio(self.value), interval(i)),
            None => number::ratio(self.value),
        }
    }
}

/// A bar chart of ratios, one group below the other, all on one axis with a line at 1.
pub fn bars(caption: &Caption, groups: &[BarGroup]) -> String {
    let all = || groups.iter().flat_map(|g| &g.bars);
    let least = all().flat_map(Bar::numbers).fold(1.0, f64::min);
    // A little beyond 1, so that its line is not the edge of the plot.
    let most = all().flat_map(Bar::numbers).fold(1.1, f64::max);
    let (axis, foot) = if most > LOG_ABOVE && least > 0.0 {
        (Axis::log(least, most, LEFT), 1.0)
    } else {
        (Axis::linear(least.min(0.0), most, LEFT), 0.0)
    };
    let rows: f64 = groups.iter().map(|g| LINE + 8.0 + ROW * g.bars.len() as f64).sum();
    let bottom = 4.0 + rows;
    let mut canvas = Canvas::default();
    let mut end = axis.draw(&mut canvas, 4.0, bottom, &caption.axis);
    let mut y = 4.0;
    for group in groups {
        y += LINE + 8.0;
        canvas.text(
            "label strong halo",
            (LEFT, y - 4.0),
            Anchor::Start,
            &super::fit(&group.heading, WIDTH - LEFT - RIGHT),
        );
        for bar in &group.bars {
            draw(&mut canvas, &axis, axis.at(foot), y, bar);
            y += ROW;
        }
    }
    end += LINE;
    let mut x = LEFT;
    let has_paper = all().any(|b| b.paper.is_some());
    if has_paper {
        canvas.path("paper", &diamond(x + 6.0, end - 4.0));
        canvas.text("label", (x + 18.0, end), Anchor::Start, "the paper's ratio");
        x += 150.0;
    }
    if all().any(|b| b.interval.is_some()) {
        whisker(&mut canvas, x, x + 24.0, end - 4.0);
        canvas.text("label", (x + 32.0, end), Anchor::Start, "95 % interval");
    }
    let described: Vec<String> = groups
        .iter()
        .flat_map(|g| g.bars.iter().map(|b| format!("{}, {}: {}{}", g.heading, b.name, b.figures(), paper(b))))
        .collect();
    canvas.finish(caption, &format!("{}: {}.", caption.axis, described.join("; ")), end + 8.0)
}

fn draw(canvas: &mut Canvas, axis: &Axis, foot: f64, top: f64, bar: &Bar) {
    let value = format!("{}{}", bar.figures(), paper(bar));
    let room = axis.end() - LEFT - super::text_width(&value) - 12.0;
    canvas.text("label halo", (LEFT, top + 13.0), Anchor::Start, &super::fit(&bar.name, room));
    canvas.text("label halo", (axis.end(), top + 13.0), Anchor::End, &value);
    let (x, middle) = (axis.at(bar.value), top + 27.0);
    // Beside the bar only: a line from top to bottom would run through the words.
    canvas.line("one", (axis.at(1.0), middle - 10.0), (axis.at(1.0), middle + 10.0));
    canvas.rect(&format!("bar {}", style(bar.style)), (x.min(foot), middle - 8.0), ((x - foot).abs(), 16.0));
    if let Some(i) = bar.interval {
        whisker(canvas, axis.at(i.lo), axis.at(i.hi), middle);
    }
    if let Some(p) = bar.paper {
        canvas.path("paper", &diamond(axis.at(p), middle));
    }
}

fn paper(bar: &Bar) -> String {
    bar.paper.map_or_else(String::new, |p| format!(", paper {}", number::ratio(p)))
}

fn whisker(canvas: &mut Canvas, from: f64, to: f64, y: f64) {
    canvas.line("whisker", (from, y), (to, y));
    for x in [from, to] {
        canvas.line("whisker", (x, y - 5.0), (x, y + 5.0));
    }
}

fn diamond(x: f64, y: f64) -> String {
    format!("M{} {}l6 6l-6 6l-6 -6z", px(x), px(y - 6.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caption() -> Caption {
        Caption { id: "r1".into(), title: "Ratios".into(), axis: "ratio to the baseline (1 = no difference)".into() }
    }

    fn bar(value: f64, ends: Option<(f64, f64)>, paper: Option<f64>) -> Bar {
        Bar { name: "ours".into(), style: 0, value, interval: ends.map(|(lo, hi)| Interval { lo, hi }), paper }
    }

    #[test]
    fn a_small_bar_chart_is_drawn_like_this() {
        let group = BarGroup {
            heading: "time, p75, against bare".into(),
            bars: vec![bar(0.64, Some((0.6, 0.68)), Some(0.7)), bar(1.25, None, None)],
        };
        insta::assert_snapshot!(bars(&caption(), &[group]));
    }

    #[test]
    fn a_large_ratio_moves_the_chart_to_a_logarithmic_axis_unless_something_is_zero() {
        let chart = |v| {
            bars(
                &caption(),
                &[BarGroup { heading: String::new(), bars: vec![bar(20.0, None, None), bar(v, None, None)] }],
            )
        };
        assert!(chart(0.1).contains("logarithmic"));
        assert!(!chart(0.0).contains("logarithmic"));
    }

    #[test]
    fn marks_are_explained_only_where_they_are_used() {
        let svg = bars(&caption(), &[BarGroup { heading: "h".into(), bars: vec![bar(0.5, None, None)] }]);
        assert!(!svg.contains("paper") && !svg.contains("95 %"), "{svg}");
    }
}
