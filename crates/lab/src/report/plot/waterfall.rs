//! A page load as browsers draw it: a line an object, with what it waited for. Two loads of one page have one time
//! axis, so that the eye compares them.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::{Caption, LINE};
use crate::experiment::Waterfall;
use crate::report::number::figure;

const LEFT: f64 = 86.0;
/// Height of an object's line.
const ROW: f64 = 5.0;
/// Lines at most; of larger pages, every so many objects are drawn.
const MOST: usize = 120;
/// The parts of a line, with their places in the palette.
const PARTS: [(&str, usize); 3] = [("waits for a connection", 3), ("waits for the first byte", 0), ("arrives", 2)];

/// One load; the axis ends at `until`, in ms.
pub fn waterfall(caption: &Caption, load: &Waterfall, until: f64) -> String {
    let axis = Axis::of_values([0.0, until.max(1.0)].into_iter(), LEFT);
    let mut canvas = Canvas::default();
    let every = load.falls.len().div_ceil(MOST).max(1);
    let drawn: Vec<_> = load.falls.iter().step_by(every).collect();
    let top = 4.0 + LINE;
    let bottom = top + ROW * drawn.len() as f64;
    let end = axis.draw(&mut canvas, top, bottom, &caption.axis);
    let mut x = 4.0;
    for (name, style) in PARTS {
        canvas.rect(&format!("bar c{style} d{style}"), (x, 5.0), (9.0, 9.0));
        canvas.text("label", (x + 13.0, 14.0), Anchor::Start, name);
        x += 24.0 + super::text_width(name);
    }
    for (n, fall) in drawn.iter().enumerate() {
        let y = top + ROW * n as f64;
        // There is room for every third.
        if n % 3 == 0 {
            let name = super::fit(&format!("{} {}", fall.kind, fall.host), LEFT - 8.0);
            canvas.text("tick", (LEFT - 6.0, y + 5.0), Anchor::End, &name);
        }
        let ends = [fall.wanted_ms, fall.sent_ms, fall.first_byte_ms, fall.end_ms].map(|ms| axis.at(ms));
        for (part, (_, style)) in PARTS.into_iter().enumerate() {
            let width = ends[part + 1] - ends[part];
            if width > 0.0 {
                canvas.rect(&format!("bar c{style} d{style}"), (ends[part], y + 0.5), (width, ROW - 1.0));
            }
        }
    }
    let at = axis.at(load.load_ms);
    canvas.line("one", (at, top), (at, bottom));
    // Beside the line, where nothing is drawn: at its foot, on the side that has more room.
    let (x, anchor) =
        if at > (LEFT + axis.at(until)) / 2.0 { (at - 4.0, Anchor::End) } else { (at + 4.0, Anchor::Start) };
    canvas.text("tick", (x, bottom - 3.0), anchor, "load event");
    let told = format!(
        "{}: {} objects of page {} until the load event after {} ms",
        load.arm,
        load.falls.len(),
        load.page,
        figure(load.load_ms)
    );
    canvas.finish(caption, &told, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Fall;

    fn load(objects: usize) -> Waterfall {
        let fall = |n: usize| Fall {
            kind: if n == 0 { "doc" } else { "img" }.into(),
            host: "h<0>".into(),
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
        waterfall(&caption, &load(objects), 80.0)
    }

    #[test]
    fn every_object_has_three_parts_and_hostile_names_stay_text() {
        let svg = drawn(4);
        // Three of the key.
        assert_eq!(svg.matches("<rect").count(), 3 + 4 * 3, "{svg}");
        assert!(svg.contains("h&lt;0&gt;") && svg.contains("after 60.0 ms"), "{svg}");
    }

    #[test]
    fn a_large_page_is_thinned_out_and_an_empty_one_is_still_drawn() {
        assert!(drawn(1000).matches("<rect").count() <= 3 + 3 * MOST);
        assert!(drawn(0).contains("0 objects"));
    }
}
