//! Cumulative distributions: which share of the trials was done by when.
//!
//! Failed trials count in the share and never arrive, so that a curve of an arm that fails ends below 100 %.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, px};
use super::{Arm, Caption, LINE, style, text_width};
use crate::report::number::figure;
use crate::stats::{Ecdf, ecdf, median};

const LEFT: f64 = 46.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 226.0;

/// One curve on its way to the canvas.
struct Curve<'a> {
    arm: &'a Arm,
    distribution: Ecdf,
    /// Share of the trials that have a value.
    arrived: f64,
}

impl Curve<'_> {
    fn share(&self, v: f64) -> f64 {
        self.distribution.at(v) * self.arrived
    }
}

/// A plot of the distribution of each arm.
pub fn cdf(caption: &Caption, arms: &[Arm]) -> String {
    let curves: Vec<Curve> = arms
        .iter()
        .filter_map(|arm| {
            let arrived = arm.values.len() as f64 / (arm.values.len() + arm.failed) as f64;
            Some(Curve { arm, distribution: ecdf(&arm.values).ok()?, arrived })
        })
        .collect();
    let axis = Axis::of_values(curves.iter().flat_map(|c| c.distribution.values().iter().copied()), LEFT);
    let mut canvas = Canvas::default();
    canvas.text("name", (0.0, 12.0), Anchor::Start, "share of trials");
    for percent in [0, 25, 50, 75, 100] {
        let y = place(f64::from(percent) / 100.0);
        canvas.line("grid", (axis.start(), y), (axis.end(), y));
        canvas.text("tick", (LEFT - 6.0, y + 4.0), Anchor::End, &format!("{percent} %"));
    }
    let mut y = axis.draw(&mut canvas, TOP, BOTTOM, &caption.axis);
    for c in &curves {
        canvas.path(&format!("curve {}", style(c.arm.style)), &outline(c, &axis));
    }
    name_curves(&mut canvas, &curves, &axis);
    for arm in arms {
        y += LINE;
        canvas.line(&format!("curve {}", style(arm.style)), (LEFT, y - 4.0), (LEFT + 34.0, y - 4.0));
        canvas.text("label", (LEFT + 42.0, y), Anchor::Start, &super::fit(&arm.legend(), axis.end() - LEFT - 42.0));
    }
    canvas.finish(caption, &describe(caption, arms), y + 8.0)
}

fn place(share: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * share
}

/// The steps of a distribution from the bottom to its last share and on to the right edge. Steps that fall on the same
/// tenth of a unit are drawn once.
fn outline(curve: &Curve, axis: &Axis) -> String {
    let steps = curve.distribution.steps();
    let mut d = format!("M{} {}", px(axis.at(steps[0].0)), px(BOTTOM));
    let mut i = 0;
    while i < steps.len() {
        let x = px(axis.at(steps[i].0));
        while i + 1 < steps.len() && px(axis.at(steps[i + 1].0)) == x {
            i += 1;
        }
        d += &format!("H{x}V{}", px(place(steps[i].1 * curve.arrived)));
        i += 1;
    }
    d + &format!("H{}", px(axis.end()))
}

/// Writes the name of each arm beside its curve where there is room for it; the legend names them all in any case.
fn name_curves(canvas: &mut Canvas, curves: &[Curve], axis: &Axis) {
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for (own, curve) in curves.iter().enumerate() {
        let width = text_width(&curve.arm.name);
        let values = curve.distribution.values();
        let free = |area: &[f64; 4], reach: [f64; 4]| {
            let [x0, y0, x1, y1] = *area;
            let inside = x0 >= LEFT && x1 <= axis.end() && y0 >= TOP - 8.0 && y1 <= BOTTOM;
            let apart = |b: &[f64; 4]| x1 < b[0] || b[2] < x0 || y1 < b[1] || b[3] < y0;
            let clear = |(i, c): (usize, &Curve)| !crosses(c, axis, if i == own { *area } else { reach });
            inside && taken.iter().all(apart) && curves.iter().enumerate().all(clear)
        };
        let spots = [0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2, 0.9, 0.1].into_iter().flat_map(|level| {
            let at = values[((values.len() - 1) as f64 * level) as usize];
            let (x, y) = (axis.at(at), place(curve.share(at)));
            // To the right and below, or to the left and above: a rising curve leaves these free. The second area of each
            // reaches up to the curve, for nothing else may come between it and its name.
            let below = [x + 6.0, y + 2.0, x + 6.0 + width, y + 16.0];
            let above = [x - 6.0 - width, y - 16.0, x - 6.0, y - 2.0];
            [(below, [x + 0.3, y + 1.5, below[2], below[3]]), (above, [above[0], above[1], x - 0.3, y + 0.5])]
        });
        let spot = spots.into_iter().find(|(area, reach)| free(area, *reach));
        if let Some((area, _)) = spot {
            canvas.text("label halo", (area[0], area[3] - 3.0), Anchor::Start, &curve.arm.name);
            taken.push(area);
        }
    }
}

/// Whether a curve runs through an area. It only rises, so it does if the shares at the two sides enclose any of it.
fn crosses(curve: &Curve, axis: &Axis, [x0, y0, x1, y1]: [f64; 4]) -> bool {
    let (left, right) = (place(curve.share(axis.value(x0))), place(curve.share(axis.value(x1))));
    left >= y0 - 1.0 && right <= y1 + 1.0
}

fn describe(caption: &Caption, arms: &[Arm]) -> String {
    let medians = arms.iter().map(|a| match median(&a.values) {
        Ok(m) => format!("{}, median {}", a.legend(), figure(m)),
        Err(_) => format!("{}, no value", a.legend()),
    });
    format!("Cumulative distribution of {}: {}.", caption.axis, medians.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caption() -> Caption {
        Caption { id: "p1".into(), title: "Time <of> it".into(), axis: "time (ms)".into() }
    }

    fn arm(name: &str, style: usize, values: &[f64], failed: usize) -> Arm {
        Arm { name: name.into(), style, values: values.into(), failed }
    }

    #[test]
    fn a_small_distribution_is_drawn_like_this() {
        let svg = cdf(&caption(), &[arm("ours", 0, &[10.0, 20.0, 20.0, 40.0], 0), arm("theirs", 1, &[30.0, 60.0], 2)]);
        insta::assert_snapshot!(svg);
    }

    #[test]
    fn failures_keep_a_curve_below_the_top() {
        let svg = cdf(&caption(), &[arm("half", 0, &[1.0, 2.0], 2)]);
        assert!(svg.contains(&format!("V{}H", px(place(0.5)))), "{svg}");
        assert!(svg.contains("half (n = 4, 2 failed)"), "{svg}");
    }

    #[test]
    fn an_arm_without_values_stands_in_the_legend_and_text_is_escaped() {
        let svg = cdf(&caption(), &[arm("<dead>", 0, &[], 3)]);
        assert!(svg.contains("&lt;dead&gt; (n = 3, 3 failed)") && !svg.contains("<path"), "{svg}");
        assert!(svg.contains("<title id=\"p1-t\">Time &lt;of&gt; it</title>"), "{svg}");
    }

    #[test]
    fn ten_thousand_values_do_not_make_a_large_page() {
        let values: Vec<f64> = (0..10_000).map(|i| 10.0 + f64::from(i) * 0.01).collect();
        assert!(cdf(&caption(), &[arm("many", 0, &values, 0)]).len() < 60_000);
    }

    #[test]
    fn names_never_stand_on_a_curve_or_on_each_other() {
        // Four curves that all but coincide: at most the outer ones can be named beside themselves.
        let arms: Vec<Arm> = (0..4)
            .map(|k| {
                arm(
                    &format!("arm-number-{k}"),
                    k,
                    &(0..50).map(|i| f64::from(i) + 0.1 * k as f64).collect::<Vec<_>>(),
                    0,
                )
            })
            .collect();
        let svg = cdf(&caption(), &arms);
        assert!(svg.matches("label halo").count() <= 2, "{svg}");
        assert_eq!(svg.matches("class=\"label\"").count(), 4);
    }
}
