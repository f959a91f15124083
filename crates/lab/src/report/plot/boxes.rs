//! Box plots, one below the other: the box is the middle half, the whiskers are Tukey's, every outlier is drawn.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, px};
use super::{Arm, Caption, style};
use crate::report::number::figure;
use crate::report::summary::distinct;
use crate::stats::five_numbers;

const LEFT: f64 = 10.0;
const ROW: f64 = 46.0;

/// A box plot of each arm, its median in figures above it.
pub fn boxes(caption: &Caption, arms: &[Arm]) -> String {
    let axis = Axis::of_values(arms.iter().flat_map(|a| a.values.iter().copied()), LEFT);
    let mut canvas = Canvas::default();
    let bottom = 4.0 + ROW * arms.len() as f64;
    let end = axis.draw(&mut canvas, 4.0, bottom, &caption.axis);
    let mut described = Vec::new();
    for (i, arm) in arms.iter().enumerate() {
        let top = 4.0 + ROW * i as f64;
        let (middle, upper, lower) = (top + 30.0, top + 22.0, top + 38.0);
        let Ok(five) = five_numbers(&arm.values) else {
            canvas.text("label halo", (LEFT, top + 14.0), Anchor::Start, &arm.legend());
            canvas.text("label halo", (axis.end(), top + 14.0), Anchor::End, "no value");
            described.push(format!("{}, no value", arm.legend()));
            continue;
        };
        let value = format!("median {}", figure(five.median));
        let room = axis.end() - LEFT - super::text_width(&value) - 12.0;
        canvas.text("label halo", (LEFT, top + 14.0), Anchor::Start, &super::fit(&arm.legend(), room));
        canvas.text("label strong halo", (axis.end(), top + 14.0), Anchor::End, &value);
        let class = style(arm.style);
        let [low, q1, m, q3, high] =
            [five.whisker_low, five.q1, five.median, five.q3, five.whisker_high].map(|v| axis.at(v));
        canvas.line(&format!("stroke {class}"), (low, middle), (q1, middle));
        canvas.line(&format!("stroke {class}"), (q3, middle), (high, middle));
        for x in [low, high] {
            canvas.line(&format!("stroke {class}"), (x, middle - 4.0), (x, middle + 4.0));
        }
        canvas.rect(&format!("box {class}"), (q1, upper), (q3 - q1, lower - upper));
        canvas.line(&format!("median {class}"), (m, upper), (m, lower));
        // Outliers on the same tenth of a unit are one dot.
        for x in distinct(five.outliers.iter().map(|v| px(axis.at(*v)))) {
            canvas.circle(&format!("dot {class}"), (x.parse().unwrap_or(0.0), middle), 2.0);
        }
        described.push(format!(
            "{}, median {}, middle half {} to {}, {} outliers",
            arm.legend(),
            figure(five.median),
            figure(five.q1),
            figure(five.q3),
            five.outliers.len()
        ));
    }
    canvas.finish(caption, &format!("Box plots of {}: {}.", caption.axis, described.join("; ")), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caption() -> Caption {
        Caption { id: "b1".into(), title: "Time".into(), axis: "time (ms)".into() }
    }

    #[test]
    fn a_small_box_plot_is_drawn_like_this() {
        let arm =
            |name: &str, style, values: &[f64]| Arm { name: name.into(), style, values: values.into(), failed: 0 };
        let svg = boxes(&caption(), &[arm("ours", 0, &[10.0, 12.0, 14.0, 16.0, 60.0]), arm("one", 1, &[30.0])]);
        insta::assert_snapshot!(svg);
    }

    #[test]
    fn an_arm_without_values_says_so() {
        let svg = boxes(&caption(), &[Arm { name: "dead".into(), style: 0, values: vec![], failed: 4 }]);
        assert!(svg.contains(">no value</text>") && svg.contains("dead (n = 4, 4 failed)"), "{svg}");
    }
}
