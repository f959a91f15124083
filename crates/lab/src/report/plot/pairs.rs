//! Two bars a row on one axis from zero: the same work without and with headstart. What is small beside the whole looks small.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::{Caption, RIGHT, WIDTH, fit, style, text_width};

const LEFT: f64 = 84.0;
const ROW: f64 = 30.0;
/// Height of one of the two bars.
const BAR: f64 = 9.0;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What is compared.
    pub name: String,
    /// Places in the palette and values: the baseline, ours.
    pub bars: [(usize, f64); 2],
    /// What to write beside the bars.
    pub figures: String,
}

/// The plot.
pub fn pairs(caption: &Caption, pairs: &[Pair]) -> String {
    let most = pairs.iter().flat_map(|pair| pair.bars).map(|(_, value)| value).fold(0.0, f64::max);
    // The figures have a column of their own, so that they lie on no bar.
    let column = pairs.iter().map(|pair| text_width(&pair.figures)).fold(0.0, f64::max);
    let axis = Axis::linear(0.0, most, LEFT).ending_at(WIDTH - RIGHT - column);
    let mut canvas = Canvas::default();
    let bottom = 4.0 + ROW * pairs.len() as f64;
    let end = axis.draw(&mut canvas, 4.0, bottom, &caption.axis);
    for (n, pair) in pairs.iter().enumerate() {
        let top = 4.0 + ROW * n as f64 + (ROW - 2.0 * BAR) / 2.0;
        canvas.text("label", (4.0, top + BAR + 4.0), Anchor::Start, &fit(&pair.name, LEFT - 10.0));
        for ((place, value), y) in pair.bars.into_iter().zip([top, top + BAR]) {
            canvas.rect(&format!("solid {}", style(place)), (LEFT, y), (axis.at(value) - LEFT, BAR - 1.0));
        }
        canvas.text("label", (WIDTH - 4.0, top + BAR + 4.0), Anchor::End, &pair.figures);
    }
    let described = pairs.iter().map(|pair| format!("{}: {}", pair.name, pair.figures));
    canvas.finish(caption, &format!("{}.", described.collect::<Vec<_>>().join("; ")), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of an attribute of all rectangles.
    fn of_rects(svg: &str, name: &str) -> Vec<f64> {
        let value = |line: &str| line.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok();
        svg.lines().filter(|line| line.starts_with("<rect")).filter_map(value).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_end_before_the_figures() {
        let caption = Caption { id: "p".into(), title: "t".into(), axis: "time (ms)".into() };
        let figures = "60 ms → 30 ms".to_owned();
        let width = text_width(&figures);
        let svg = pairs(&caption, &[Pair { name: "<wget>".into(), bars: [(4, 60.0), (2, 30.0)], figures }]);
        let widths = of_rects(&svg, "width");
        assert!((widths[0] - 2.0 * widths[1]).abs() < 0.2, "{svg}");
        assert!(LEFT + widths[0] <= WIDTH - width, "{svg}");
        assert!(svg.contains("&lt;wget&gt;: 60 ms → 30 ms") && svg.contains("c4") && svg.contains("c2"), "{svg}");
    }
}
