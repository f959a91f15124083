//! How many times faster: a dot with its interval for each row, on a logarithmic axis around 1. A hundredfold gain is the largest mark
//! of the plot, and a loss is as visible as a gain of its size.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::{Caption, LINE, style};
use crate::stats::Interval;

const LEFT: f64 = 120.0;
const ROW: f64 = 26.0;
/// The axis reaches at least this far to both sides of 1, so that noise around 1 looks like what it is.
const AROUND: f64 = 2.0;

/// Rows under one heading.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedupGroup {
    /// The network.
    pub heading: String,
    /// The rows.
    pub rows: Vec<Speedup>,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Speedup {
    /// What is compared: the program.
    pub name: String,
    /// Place of the arm in the palette.
    pub style: usize,
    /// How many times faster; below 1 slower.
    pub times: f64,
    /// 95 % interval.
    pub interval: Option<Interval>,
    /// What to write beside it: the two times.
    pub figures: String,
}

impl Speedup {
    fn numbers(&self) -> impl Iterator<Item = f64> + Clone {
        let ends = self.interval.map(|i| [i.lo, i.hi]).into_iter().flatten();
        std::iter::once(self.times).chain(ends)
    }
}

/// The plot.
pub fn speedups(caption: &Caption, groups: &[SpeedupGroup]) -> String {
    let numbers = || groups.iter().flat_map(|g| &g.rows).flat_map(Speedup::numbers).filter(|n| *n > 0.0);
    let (least, most) = (numbers().fold(1.0 / AROUND, f64::min), numbers().fold(AROUND, f64::max));
    let axis = Axis::log(least, most, LEFT);
    let rows: f64 = groups.iter().map(|g| LINE + 8.0 + ROW * g.rows.len() as f64).sum();
    let bottom = 4.0 + rows;
    let mut canvas = Canvas::default();
    let end = axis.draw(&mut canvas, 4.0, bottom, &caption.axis);
    canvas.line("one", (axis.at(1.0), 4.0), (axis.at(1.0), bottom));
    let mut y = 4.0;
    for group in groups {
        y += LINE + 8.0;
        canvas.text("label strong halo", (4.0, y - 4.0), Anchor::Start, &group.heading);
        for row in &group.rows {
            draw(&mut canvas, &axis, y + ROW / 2.0, row);
            y += ROW;
        }
    }
    let described = groups.iter().flat_map(|g| {
        g.rows.iter().map(|r| format!("{}, {}: {:.2} times as fast ({})", g.heading, r.name, r.times, r.figures))
    });
    canvas.finish(caption, &format!("{}.", described.collect::<Vec<_>>().join("; ")), end)
}

fn draw(canvas: &mut Canvas, axis: &Axis, y: f64, row: &Speedup) {
    let class = style(row.style);
    canvas.text("label", (12.0, y + 4.0), Anchor::Start, &super::fit(&row.name, LEFT - 16.0));
    let x = axis.at(row.times);
    let (near, far) = (axis.at(1.0).min(x), axis.at(1.0).max(x));
    canvas.rect(&format!("bar {class}"), (near, y - 2.0), (far - near, 4.0));
    if let Some(i) = row.interval.filter(|i| i.lo > 0.0) {
        canvas.line("whisker", (axis.at(i.lo), y), (axis.at(i.hi), y));
    }
    canvas.rect(&format!("bar {class}"), (x - 5.0, y - 5.0), (10.0, 10.0));
    // A large gain has room above its bar; a small one beside its dot.
    if x > f64::midpoint(axis.start(), axis.end()) {
        canvas.text("label halo", (axis.at(1.0) + 6.0, y - 6.0), Anchor::Start, &row.figures);
    } else {
        let end = row.interval.map_or(far, |i| axis.at(i.hi).max(far));
        canvas.text("label halo", (end + 10.0, y + 4.0), Anchor::Start, &row.figures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(times: f64) -> Speedup {
        let interval = Some(Interval { lo: times * 0.9, hi: times * 1.1 });
        Speedup { name: "wget".into(), style: 1, times, interval, figures: "15.1 s, 114 ms".into() }
    }

    #[test]
    fn a_large_gain_is_the_largest_mark_and_a_loss_goes_to_the_other_side() {
        let caption = Caption { id: "s".into(), title: "t".into(), axis: "times as fast".into() };
        let axis = Axis::log(0.5, 132.0 * 1.1, LEFT);
        let (gain, loss, none) = (axis.at(132.0), axis.at(0.95), axis.at(1.0));
        assert!(gain - none > 10.0 * (none - loss).abs() && loss < none);
        let groups = [SpeedupGroup { heading: "IPv6 black hole".into(), rows: vec![row(132.0), row(0.95)] }];
        let svg = speedups(&caption, &groups);
        assert!(svg.contains("logarithmic") && svg.contains("132.00 times as fast"), "{svg}");
    }
}
