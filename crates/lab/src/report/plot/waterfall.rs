//! A page load as browsers draw it: a line an object, with what it waited for. Two loads of one page have one time axis, so that the
//! eye compares them.
//!
//! Places along the axis are shares of the drawing's width, all else is in pixels: text has the same size on a wide screen and on a
//! telephone. A load has the colour of its arm; its phases are shades of it, as on the terminal.

use super::axis::Axis;
use super::{Caption, LINE, style};
use crate::experiment::{Fall, Waterfall};
use crate::report::escape::xml;
use crate::report::number::figure;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Height of an object's line.
const ROW: f64 = 15.0;
/// Lines at most; of larger pages, every so many objects are drawn.
const MOST: usize = 60;
/// What each shade stands for, from the lightest to the full one; their classes in the style sheet are `p0` and so on.
pub const PHASES: [&str; 3] = ["waits for a connection", "waits for the first byte", "arrives"];

/// One load in the colour `place` of the palette; the axis ends at `until`, in ms.
pub fn waterfall(caption: &Caption, load: &Waterfall, until: f64, place: usize) -> String {
    let axis = Axis::linear(0.0, until.max(1.0), 0.0);
    let share = |ms: f64| format!("{:.2}%", 100.0 * axis.share(ms).clamp(0.0, 1.0));
    let every = load.falls.len().div_ceil(MOST).max(1);
    let named = names(&load.falls);
    let drawn: Vec<_> = load.falls.iter().zip(&named).step_by(every).collect();
    let bottom = LINE + ROW * drawn.len() as f64;
    let mut body = String::new();
    for (at, text) in axis.ticks() {
        let x = format!("{:.2}%", 100.0 * at);
        let _ = writeln!(body, r#"<line class="grid" x1="{x}" y1="{LINE}" x2="{x}" y2="{bottom}"/>"#);
        let _ =
            writeln!(body, r#"<text class="tick" x="{x}" y="{}" text-anchor="middle">{text}</text>"#, bottom + 15.0);
    }
    for (n, (fall, name)) in drawn.iter().enumerate() {
        row(&mut body, LINE + ROW * n as f64, fall, name, &share, &style(place));
    }
    // Its words have a line of their own above the rows.
    let (x, late) = (share(load.load_ms), axis.share(load.load_ms) > 0.5);
    let _ = writeln!(body, r#"<line class="one" x1="{x}" y1="2" x2="{x}" y2="{bottom}"/>"#);
    let (dx, anchor) = if late { (-5, "end") } else { (5, "start") };
    let took = figure(load.load_ms);
    let _ = writeln!(
        body,
        r#"<text class="label" x="{x}" dx="{dx}" y="12" text-anchor="{anchor}">load event: {took} ms</text>"#
    );
    let thinned = if every > 1 { format!("; one object in {every} is drawn") } else { String::new() };
    let axis_name = xml(&format!("{}{thinned}", caption.axis));
    let _ =
        writeln!(body, r#"<text class="name" x="50%" y="{}" text-anchor="middle">{axis_name}</text>"#, bottom + 33.0);
    let count = load.falls.len();
    let told = format!("{}: {count} objects of page {} until the load event after {took} ms", load.arm, load.page);
    let (id, title, told) = (xml(&caption.id), xml(&caption.title), xml(&told));
    format!(
        "<svg class=\"fall\" style=\"height:{:.0}px\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
         <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{told}</desc>\n{body}</svg>\n",
        bottom + 42.0
    )
}

/// One object: its name to the left of the axis, and its phases.
fn row(body: &mut String, y: f64, fall: &Fall, name: &[String; 2], share: &impl Fn(f64) -> String, class: &str) {
    let [name, host] = [&name[0], &name[1]].map(|text| xml(text));
    let (text, top) = (y + 11.0, y + 2.0);
    let _ = writeln!(
        body,
        r#"<text class="tick" x="-8" y="{text}" text-anchor="end">{name}<tspan class="host">, {host}</tspan></text>"#
    );
    let ends = [fall.wanted_ms, fall.sent_ms, fall.first_byte_ms, fall.end_ms];
    for (n, phase) in ends.windows(2).enumerate().filter(|(_, phase)| phase[1] > phase[0]) {
        let (x, height) = (share(phase[0]), ROW - 4.0);
        // Shares have two decimals; the difference of what is drawn leaves no gap.
        let width = percent(&share(phase[1])) - percent(&x);
        let _ =
            writeln!(body, r#"<rect class="{class} p{n}" x="{x}" y="{top}" width="{width:.2}%" height="{height}"/>"#);
    }
}

fn percent(share: &str) -> f64 {
    share.trim_end_matches('%').parse().unwrap_or(0.0)
}

/// What a reader calls each object, and its server: objects are numbered by their type, servers in their order.
fn names(falls: &[Fall]) -> Vec<[String; 2]> {
    let (mut of_kind, mut hosts) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    let mut all = Vec::with_capacity(falls.len());
    for Fall { kind, host, .. } in falls {
        let number = of_kind.entry(kind).or_default();
        *number += 1;
        let next = hosts.len() + 1;
        let server = hosts.entry(host).or_insert(next);
        all.push([format!("{} {number}", in_words(kind)), format!("server {server}")]);
    }
    all
}

/// A type as readers know it.
fn in_words(kind: &str) -> &str {
    match kind {
        "doc" => "document",
        "css" => "style sheet",
        "js" => "script",
        "img" => "image",
        "xhr" => "data",
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(objects: usize) -> Waterfall {
        let fall = |n: usize| Fall {
            kind: if n == 0 { "doc" } else { "<img>" }.into(),
            host: format!("h{}", n % 2),
            wanted_ms: n as f64,
            sent_ms: n as f64 + 5.0,
            first_byte_ms: n as f64 + 30.0,
            end_ms: n as f64 + 40.0,
        };
        let falls = (0..objects).map(fall).collect();
        Waterfall { condition: "lte-later".into(), arm: "bare".into(), page: "p".into(), load_ms: 60.0, falls }
    }

    fn drawn(objects: usize) -> String {
        let caption = Caption { id: "w".into(), title: "a page".into(), axis: "time (ms)".into() };
        waterfall(&caption, &load(objects), 80.0, 4)
    }

    #[test]
    fn every_object_has_a_name_and_three_phases_in_the_colour_of_the_arm() {
        let svg = drawn(4);
        assert_eq!((svg.matches("<rect").count(), svg.matches("c4").count()), (4 * 3, 4 * 3), "{svg}");
        for name in ["document 1<", "&lt;img&gt; 1<", "&lt;img&gt; 3<"] {
            assert!(svg.contains(name), "{name} in {svg}");
        }
        assert_eq!(svg.matches("server 2<").count(), 2, "{svg}");
        assert!(svg.contains("load event: 60.0 ms"), "{svg}");
    }

    #[test]
    fn phases_lie_side_by_side_at_their_shares_of_the_axis() {
        let svg = drawn(1);
        let rects: Vec<&str> = svg.lines().filter(|line| line.starts_with("<rect")).collect();
        let place = |line: &str, name: &str| {
            percent(line.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap())
        };
        assert_eq!(rects.iter().map(|line| place(line, "x")).collect::<Vec<_>>(), [0.0, 6.25, 37.5], "{svg}");
        assert_eq!(rects.iter().map(|line| place(line, "width")).collect::<Vec<_>>(), [6.25, 31.25, 12.5], "{svg}");
    }

    #[test]
    fn no_text_lies_on_a_bar() {
        let svg = drawn(9);
        let y = |line: &str| -> f64 { line.split_once(" y=\"").unwrap().1.split('"').next().unwrap().parse().unwrap() };
        let bars: Vec<f64> = svg.lines().filter(|line| line.starts_with("<rect")).map(y).collect();
        let (first, last) = (bars[0], bars[bars.len() - 1] + ROW - 4.0);
        // Names of objects are outside of the axis, to the left.
        for text in svg.lines().filter(|line| line.starts_with("<text") && !line.contains("x=\"-8\"")) {
            assert!(y(text) < first || y(text) - 9.0 > last, "{text}\n{svg}");
        }
    }

    #[test]
    fn a_large_page_is_thinned_out_and_says_so_and_an_empty_one_is_still_drawn() {
        let large = drawn(1000);
        assert!(large.matches("<rect").count() <= 3 * MOST && large.contains("one object in 17 is drawn"));
        assert!(drawn(0).contains("0 objects"));
    }
}
