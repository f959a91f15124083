//! The value axis of a plot: from values to places, with ticks at round numbers.

use super::canvas::{Anchor, Canvas};
use super::{RIGHT, WIDTH, text_width};

/// Values spread over more than this factor go on a logarithmic axis, where they are all above zero.
const LOG_FROM: f64 = 50.0;

/// An axis from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    lo: f64,
    hi: f64,
    /// Whether equal distances are equal factors.
    pub log: bool,
    left: f64,
    right: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis for these values from x = `left` to the right edge, logarithmic if they span more than a factor of 50.
    pub fn of_values(values: impl Iterator<Item = f64> + Clone, left: f64) -> Self {
        let (min, max) = range(values);
        if min > 0.0 && max / min > LOG_FROM {
            return Self::log(min, max, left);
        }
        // Zero belongs on the axis unless it would push all values into the far half.
        let from = if min > 0.0 && min < max / 2.0 { 0.0 } else { min };
        Self::linear(from, max, left)
    }

    /// A linear axis over at least `lo` to `hi`.
    pub fn linear(lo: f64, hi: f64, left: f64) -> Self {
        // A single value gets room on both sides.
        let (lo, hi) = if hi > lo { (lo, hi) } else { (lo - lo.abs().max(1.0) / 2.0, hi + hi.abs().max(1.0) / 2.0) };
        let step = round_step((hi - lo) / 6.0);
        // The small slack keeps 0.3 / 0.1 from becoming one step more than it is.
        let (first, last) = ((lo / step + 1e-9).floor(), (hi / step - 1e-9).ceil());
        let ticks = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Self { lo: first * step, hi: last * step, log: false, left, right: WIDTH - RIGHT, ticks }
    }

    /// A logarithmic axis over at least `lo` to `hi`, both above zero.
    pub fn log(lo: f64, hi: f64, left: f64) -> Self {
        let (first, last) = ((lo.log10() + 1e-9).floor() as i32, (hi.log10() - 1e-9).ceil() as i32);
        // 1-2-5 up to three decades; above that decades alone, at most about eight of them.
        let every = ((last - first) / 8 + 1) as usize;
        let mantissas: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = (first..=last).step_by(every).flat_map(|d| mantissas.iter().map(move |m| m * 10_f64.powi(d)));
        let all: Vec<f64> = decades.collect();
        let from = all.iter().rposition(|t| *t <= lo * (1.0 + 1e-9)).unwrap_or(0);
        let to = all.iter().position(|t| *t >= hi * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
        let ticks = all[from..=to.max(from)].to_vec();
        let (lo, hi) = (lo.min(ticks[0]), hi.max(ticks[ticks.len() - 1]));
        Self { lo, hi, log: true, left, right: WIDTH - RIGHT, ticks }
    }

    /// The same axis with its right end at x = `right`.
    pub fn ending_at(self, right: f64) -> Self {
        Self { right, ..self }
    }

    /// Its round numbers with their texts, each with its place as a share of the axis.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|tick| (self.share(*tick), label(*tick)))
    }

    /// Where `v` lies.
    pub fn at(&self, v: f64) -> f64 {
        self.left + (self.right - self.left) * self.share(v)
    }

    /// The value at place `x`.
    pub fn value(&self, x: f64) -> f64 {
        let share = (x - self.left) / (self.right - self.left);
        if self.log { self.lo * (self.hi / self.lo).powf(share) } else { self.lo + (self.hi - self.lo) * share }
    }

    /// Where `v` lies as a share of the axis.
    pub fn share(&self, v: f64) -> f64 {
        let span = if self.log { (self.hi / self.lo).ln() } else { self.hi - self.lo };
        if span <= 0.0 {
            return 0.5;
        }
        (if self.log { (v / self.lo).ln() } else { v - self.lo }) / span
    }

    /// Left end of the axis.
    pub fn start(&self) -> f64 {
        self.left
    }

    /// Right end of the axis.
    pub fn end(&self) -> f64 {
        self.right
    }

    /// Draws grid lines from `top` to `bottom`, labels below, and the name of the axis below them. Returns the y below it
    /// all.
    pub fn draw(&self, canvas: &mut Canvas, top: f64, bottom: f64, name: &str) -> f64 {
        let mut free_from = f64::NEG_INFINITY;
        for &tick in &self.ticks {
            let x = self.at(tick);
            canvas.line("grid", (x, top), (x, bottom));
            let text = label(tick);
            let half = text_width(&text) / 2.0;
            // Ticks of a logarithmic axis come close to each other; a label that would touch the last one is left out.
            if x - half >= free_from {
                canvas.text("tick", (x, bottom + 15.0), Anchor::Middle, &text);
                free_from = x + half + 6.0;
            }
        }
        canvas.line("axis", (self.left, bottom), (self.right, bottom));
        let scale = if self.log { ", logarithmic" } else { "" };
        let name = format!("{name}{scale}");
        canvas.text(
            "name",
            (f64::midpoint(self.left, self.right), bottom + 34.0),
            Anchor::Middle,
            &super::fit(&name, WIDTH - self.left),
        );
        bottom + 44.0
    }
}

/// Smallest and largest; 0 and 1 of nothing.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (min, max) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if min <= max { (min, max) } else { (0.0, 1.0) }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powi(step.log10().floor() as i32);
    let mantissa = step / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|r| mantissa <= r * (1.0 + 1e-9)).unwrap_or(10.0);
    round * power
}

/// A tick as short as it can be: `0.05`, `20`, `1500`.
fn label(v: f64) -> String {
    let text = format!("{v:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.').replace('-', "−");
    if text.is_empty() || text == "−0" || (text == "0" && v != 0.0) { crate::report::number::figure(v) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(a: &Axis) -> Vec<String> {
        a.ticks.iter().map(|t| label(*t)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_that_enclose_the_values() {
        assert_eq!(labels(&Axis::linear(0.0, 117.0, 40.0)), ["0", "20", "40", "60", "80", "100", "120"]);
        assert_eq!(labels(&Axis::linear(0.0, 0.3, 40.0)), ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]);
        assert_eq!(labels(&Axis::linear(-3.0, 4.0, 40.0)), ["−4", "−2", "0", "2", "4"]);
        assert_eq!(labels(&Axis::log(3.0, 420.0, 40.0)), ["2", "5", "10", "20", "50", "100", "200", "500"]);
        assert_eq!(
            labels(&Axis::log(0.002, 9000.0, 40.0)),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1000", "10000"]
        );
    }

    #[test]
    fn values_that_span_a_factor_of_fifty_go_logarithmic_if_all_are_positive() {
        assert!(!Axis::of_values([10.0, 400.0].into_iter(), 40.0).log);
        assert!(Axis::of_values([10.0, 600.0].into_iter(), 40.0).log);
        assert!(!Axis::of_values([0.0, 600.0].into_iter(), 40.0).log);
    }

    #[test]
    fn places_and_values_are_each_others_inverse() {
        for axis in [Axis::linear(0.0, 120.0, 40.0), Axis::log(1.0, 1000.0, 40.0)] {
            for v in [1.0, 7.0, 99.0] {
                assert!((axis.value(axis.at(v)) - v).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn one_value_nothing_and_equal_values_still_have_an_axis() {
        for values in [vec![], vec![5.0], vec![0.0, 0.0], vec![-2.0]] {
            let a = Axis::of_values(values.iter().copied(), 40.0);
            assert!(a.ticks.len() >= 2, "{values:?}");
            assert!(values.iter().all(|v| (a.start()..=a.end()).contains(&a.at(*v))), "{values:?}");
        }
    }
}
