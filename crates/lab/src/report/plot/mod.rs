//! Plots as small SVG texts: distributions, box plots, bars with intervals.
//!
//! Drawn by our own code, because a chart of a report needs little and must need no script, no font and no fetch. Colours
//! and dash patterns come from the page's style sheet by class (`c0` … `c7`, `d0` … `d7`), so that one plot serves light
//! and dark pages. Every plot says what it shows in `<title>` and `<desc>`; the numbers stand in a table beside it.

mod axis;
mod bars;
mod boxes;
mod canvas;
mod cdf;
mod pairs;
mod speedup;
mod waterfall;

pub use bars::{Bar, BarGroup, bars};
pub use boxes::boxes;
pub use cdf::cdf;
pub use pairs::{Pair, pairs};
pub use speedup::{Speedup, SpeedupGroup, speedups};
pub use waterfall::{PHASES, waterfall};

/// Width of every plot in its own units; the page scales it, so that text stays readable on a telephone.
const WIDTH: f64 = 440.0;

/// Height of a line of text.
const LINE: f64 = 18.0;

/// Space to the right of the axis, for half of its last label.
const RIGHT: f64 = 18.0;

/// Colours and dash patterns in the style sheet.
pub const STYLES: usize = 8;

/// What a plot is called and where it stands in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// Unique in the page, letters, digits and hyphens: ties title and description to the drawing.
    pub id: String,
    /// What is measured, in which condition.
    pub title: String,
    /// Name of the value axis, with its unit: "DNS lookup time (ms)".
    pub axis: String,
}

/// The values of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Its place in the palette; the same arm has the same place in every plot of a page.
    pub style: usize,
    /// Its values, finite, in any order.
    pub values: Vec<f64>,
    /// Trials without a value.
    pub failed: usize,
}

impl Arm {
    /// `adaptive (n = 300, 2 failed)`
    fn legend(&self) -> String {
        let n = self.values.len() + self.failed;
        match self.failed {
            0 => format!("{} (n = {n})", self.name),
            failed => format!("{} (n = {n}, {failed} failed)", self.name),
        }
    }
}

/// Colour and dash classes of a place in the palette; past the eighth, colours come again with other dashes.
fn style(index: usize) -> String {
    format!("c{} d{}", index % STYLES, (index + 3 * (index / STYLES)) % STYLES)
}

/// About how wide `text` is at the size of labels.
fn text_width(text: &str) -> f64 {
    6.6 * text.chars().count() as f64
}

/// `text` cut to about `width`.
fn fit(text: &str, width: f64) -> String {
    let room = (width / 6.6).max(2.0) as usize;
    if text.chars().count() <= room { text.to_owned() } else { text.chars().take(room - 1).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_arms_have_sixteen_styles() {
        let all: std::collections::BTreeSet<String> = (0..16).map(style).collect();
        assert_eq!(all.len(), 16);
    }
}
