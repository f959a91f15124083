//! How many times faster: a dot with its interval for each row, on a logarithmic axis around 1. A hundredfold gain is the largest mark
//! of the plot, and a loss is as visible as a gain of its size.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::{Caption, LINE, WIDTH, style, text_width};
use crate::stats::Interval;

const LEFT: f64 = 84.0;
/// Height of a row with its figures beside its mark, and of one with its figures above its bar.
const ROW: [f64; 2] = [20.0, 29.0];
/// Half of a dot.
const DOT: f64 = 4.0;
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
    /// What to write at it: the two times, and what comes of it.
    pub figures: String,
}

impl Speedup {
    /// Where the mark with its interval ends.
    fn end(&self, axis: &Axis) -> f64 {
        let interval = self.interval.map_or(0.0, |i| axis.at(i.hi));
        interval.max(axis.at(self.times.max(1.0)) + DOT)
    }

    /// Whether its figures have room beside its mark.
    fn has_room(&self, axis: &Axis) -> bool {
        self.end(axis) + 6.0 + text_width(&self.figures) <= WIDTH
    }

    fn height(&self, axis: &Axis) -> f64 {
        if self.has_room(axis) { ROW[0] } else { ROW[1] }
    }

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
    let of_rows = |group: &SpeedupGroup| group.rows.iter().map(|row| row.height(&axis)).sum::<f64>();
    let bottom = 4.0 + groups.iter().map(|group| LINE + 4.0 + of_rows(group)).sum::<f64>();
    let mut canvas = Canvas::default();
    let end = axis.draw(&mut canvas, 4.0, bottom, &caption.axis);
    let mut y = 4.0;
    for group in groups {
        y += LINE + 4.0;
        canvas.text("label strong halo", (4.0, y - 4.0), Anchor::Start, &group.heading);
        // Beside the rows only: a line from top to bottom would run through the headings.
        canvas.line("one", (axis.at(1.0), y), (axis.at(1.0), y + of_rows(group)));
        for row in &group.rows {
            y += row.height(&axis);
            draw(&mut canvas, &axis, y, row);
        }
    }
    let described =
        groups.iter().flat_map(|g| g.rows.iter().map(|r| format!("{}, {}: {}", g.heading, r.name, r.figures)));
    canvas.finish(caption, &format!("{}.", described.collect::<Vec<_>>().join("; ")), end)
}

/// A row that ends at `bottom`.
fn draw(canvas: &mut Canvas, axis: &Axis, bottom: f64, row: &Speedup) {
    let (class, y) = (style(row.style), bottom - 2.0 * DOT);
    canvas.text("label", (12.0, y + 4.0), Anchor::Start, &super::fit(&row.name, LEFT - 16.0));
    let (one, x) = (axis.at(1.0), axis.at(row.times));
    let (near, far) = (one.min(x), one.max(x));
    canvas.rect(&format!("solid {class}"), (near, y - 1.5), (far - near, 3.0));
    if let Some(i) = row.interval.filter(|i| i.lo > 0.0) {
        canvas.line("whisker", (axis.at(i.lo), y), (axis.at(i.hi), y));
    }
    canvas.rect(&format!("solid {class}"), (x - DOT, y - DOT), (2.0 * DOT, 2.0 * DOT));
    // Never on a mark: beyond it where there is room, else above its bar, which is long then.
    let place = if row.has_room(axis) { (row.end(axis) + 6.0, y + 4.0) } else { (one + 6.0, y - DOT - 2.0) };
    canvas.text("label", place, Anchor::Start, &row.figures);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(times: f64) -> Speedup {
        let interval = Some(Interval { lo: times * 0.9, hi: times * 1.1 });
        Speedup { name: "wget".into(), style: 1, times, interval, figures: "15.1 s → 114 ms: 132x faster".into() }
    }

    #[test]
    fn a_large_gain_is_the_largest_mark_and_a_loss_goes_to_the_other_side() {
        let caption = Caption { id: "s".into(), title: "t".into(), axis: "times as fast".into() };
        let axis = Axis::log(0.5, 132.0 * 1.1, LEFT);
        let (gain, loss, none) = (axis.at(132.0), axis.at(0.95), axis.at(1.0));
        assert!(gain - none > 10.0 * (none - loss).abs() && loss < none);
        let groups = [SpeedupGroup { heading: "IPv6 black hole".into(), rows: vec![row(132.0), row(0.95)] }];
        let svg = speedups(&caption, &groups);
        assert!(svg.contains("logarithmic") && svg.contains("IPv6 black hole, wget: 15.1 s → 114 ms"), "{svg}");
    }

    #[test]
    fn figures_lie_on_no_mark_and_the_line_at_one_on_no_heading() {
        let caption = Caption { id: "s".into(), title: "t".into(), axis: "times as fast".into() };
        let groups = ["one", "two"].map(|heading| SpeedupGroup {
            heading: heading.into(),
            rows: vec![row(14.0), row(1.0), row(132.0), row(1.0)],
        });
        let svg = speedups(&caption, &groups);
        let number = |line: &str, name: &str| -> f64 {
            line.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap().parse().unwrap()
        };
        let of = |start: &'static str| svg.lines().filter(move |line| line.starts_with(start));
        let marks = || of("<rect").map(|l| ["x", "y", "width", "height"].map(|name| number(l, name)));
        for text in of("<text class=\"label\"").filter(|line| line.contains('→')) {
            let (x, y, width) = (number(text, "x"), number(text, "y"), text_width("15.1 s → 114 ms: 132x faster"));
            let left = if text.contains("\"end\"") { x - width } else { x };
            let over = |[a, b, w, h]: [f64; 4]| a < left + width && left < a + w && b < y && y - 9.0 < b + h;
            assert!(!marks().any(over), "{text}\n{svg}");
            assert!(
                !of("<line class=\"one\"").any(|line| (left..left + width).contains(&number(line, "x1"))),
                "{text}\n{svg}"
            );
        }
        // Nor on each other: a long bar under a short one has its figures above, in a row that is higher.
        let mut lines: Vec<f64> =
            of("<text class=\"label\"").filter(|line| line.contains('→')).map(|line| number(line, "y")).collect();
        lines.sort_by(f64::total_cmp);
        assert!(lines.windows(2).all(|pair| pair[1] - pair[0] >= 14.0), "{lines:?}\n{svg}");
        let headings: Vec<f64> = of("<text class=\"label strong").map(|line| number(line, "y")).collect();
        for line in of("<line class=\"one\"") {
            let lies = |y: &f64| (number(line, "y1")..number(line, "y2")).contains(y);
            assert!(!headings.iter().any(|y| lies(y) || lies(&(y - 9.0))), "{line}\n{svg}");
        }
    }
}
