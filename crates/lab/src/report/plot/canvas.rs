//! An SVG under construction: shapes by class, escaped text, one decimal of a unit.

use super::{Caption, WIDTH};
use crate::report::escape;
use std::fmt::Write;

/// Where a text is anchored.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// Begins at x.
    Start,
    /// Centred on x.
    Middle,
    /// Ends at x.
    End,
}

/// An SVG under construction.
#[derive(Debug, Default)]
pub struct Canvas {
    body: String,
}

/// A coordinate with at most one decimal.
pub fn px(v: f64) -> String {
    let text = format!("{v:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

impl Canvas {
    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(px);
        let _ = writeln!(self.body, r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#);
    }

    /// A rectangle; at least half a unit wide, so that it can be seen.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let [x, y, width, height] = [x, y, width.max(0.5), height].map(px);
        let _ = writeln!(self.body, r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#);
    }

    /// A circle.
    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let [x, y, r] = [x, y, radius].map(px);
        let _ = writeln!(self.body, r#"<circle class="{class}" cx="{x}" cy="{y}" r="{r}"/>"#);
    }

    /// A path.
    pub fn path(&mut self, class: &str, d: &str) {
        let _ = writeln!(self.body, r#"<path class="{class}" d="{d}"/>"#);
    }

    /// A line of text, y being its baseline.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (px(x), px(y), escape::xml(text));
        let _ = writeln!(self.body, r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#);
    }

    /// The whole SVG.
    pub fn finish(self, caption: &Caption, description: &str, height: f64) -> String {
        let (id, title, description) =
            (escape::xml(&caption.id), escape::xml(&caption.title), escape::xml(description));
        let (width, height) = (px(WIDTH), px(height));
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{description}</desc>\n{}</svg>\n",
            self.body
        )
    }
}
