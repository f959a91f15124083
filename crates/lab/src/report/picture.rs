//! The picture of the README: time until connected on three networks, without headstart and with it. Measured in virtual time with
//! fixed seeds, so that it is the same on every machine; `cargo run -p headstart-lab --example picture` prints it.

use super::escape;
use crate::condition;
use crate::sim::{Arm, Session, Settings};
use headstart_core::connect::Want;
use headstart_core::connect::cache::Lifetime;
use headstart_core::time::Duration;
use std::fmt::Write as _;

/// Conditions that are shown, and what a reader calls them.
const NETWORKS: [(&str, &str); 3] =
    [("healthy", "Healthy network"), ("aaaa-lost", "IPv6 answers lost"), ("ipv6-black-hole", "IPv6 black hole")];
/// Sites that are visited; the last one is the visit with a history.
const SITES: usize = 4;
/// Between two visits: time for a silent attempt to count as failed.
const PAUSE: Duration = Duration::from_secs(5);
const SEED: u64 = 7;

/// The axis, in seconds; it is logarithmic.
const AXIS: (f64, f64) = (0.01, 200.0);
/// Where the axis begins and ends, in units of the drawing.
const SPAN: (f64, f64) = (190.0, 640.0);
const WIDTH: f64 = 720.0;
const BAR: f64 = 16.0;

/// A bar: what it shows and for how long, in seconds.
struct Bar {
    label: &'static str,
    class: &'static str,
    seconds: f64,
}

/// Measures and draws.
pub fn race() -> Result<String, Box<dyn std::error::Error>> {
    let mut body = String::new();
    let mut y = 64.0;
    for (name, title) in NETWORKS {
        text(&mut body, "head", (20.0, y), title);
        for bar in bars(name)? {
            y += BAR + 8.0;
            let end = place(bar.seconds);
            text(&mut body, "label", (32.0, y - 4.0), bar.label);
            let (top, width) = (y - BAR, end - SPAN.0);
            let _ = writeln!(
                body,
                r#"<rect class="{}" x="{}" y="{top:.1}" width="{width:.1}" height="{BAR}" rx="2"/>"#,
                bar.class, SPAN.0
            );
            text(&mut body, "label", (end + 6.0, y - 4.0), &figure(bar.seconds));
        }
        y += 38.0;
    }
    let height = y;
    let mut axis = String::new();
    for (seconds, label) in [(0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s"), (100.0, "100 s")] {
        let x = place(seconds);
        let _ = writeln!(axis, r#"<line class="grid" x1="{x:.1}" y1="44" x2="{x:.1}" y2="{:.1}"/>"#, height - 24.0);
        let _ = writeln!(
            axis,
            r#"<text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
            height - 8.0
        );
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>Time until connected to four new sites in turn, DNS lookup included, without headstart and with it</title>\n{STYLE}\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"20\" y=\"28\">Time until connected to four new sites in turn, DNS lookup included (logarithmic)</text>\n{axis}{body}</svg>\n"
    ))
}

/// The bars of one network.
fn bars(condition: &str) -> Result<[Bar; 3], Box<dyn std::error::Error>> {
    let without = visits(condition, Arm::Bare)?;
    let with = visits(condition, Arm::find("adaptive")?)?;
    Ok([
        Bar { label: "without headstart", class: "without", seconds: without[0] },
        Bar { label: "headstart, first site", class: "first", seconds: with[0] },
        Bar { label: "headstart, fourth site", class: "with", seconds: with[SITES - 1] },
    ])
}

/// What visits of new sites take, one after the other, in seconds.
fn visits(condition: &str, arm: Arm) -> Result<[f64; SITES], Box<dyn std::error::Error>> {
    let world = (condition::find(condition)?.world)(SEED, SITES);
    let mut host = Session::new(&world, Settings { arm, lifetime: Lifetime::Ttl, seed: SEED })?;
    Ok(std::array::from_fn(|site| {
        let took = host.visit(site, Want::Both).total.as_secs_f64();
        host.idle(PAUSE);
        took
    }))
}

fn place(seconds: f64) -> f64 {
    let share = (seconds / AXIS.0).log10() / (AXIS.1 / AXIS.0).log10();
    SPAN.0 + (SPAN.1 - SPAN.0) * share.clamp(0.0, 1.0)
}

fn figure(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

fn text(body: &mut String, class: &str, (x, y): (f64, f64), text: &str) {
    let _ = writeln!(body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escape::xml(text));
}

/// Light and dark pages.
const STYLE: &str = "<style>\n\
    text { font: 13px system-ui, sans-serif; fill: #24292f }\n\
    .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 } .tick { fill: #6e7781; font-size: 11px }\n\
    .page { fill: #ffffff } .grid { stroke: #d0d7de } .without { fill: #8c959f } .first { fill: #6cb6ff } .with { fill: #0969da }\n\
    @media (prefers-color-scheme: dark) {\n\
    text { fill: #e6edf3 } .page { fill: #0d1117 } .grid { stroke: #30363d } .tick { fill: #8b949e }\n\
    .without { fill: #6e7681 } .first { fill: #316dca } .with { fill: #58a6ff }\n\
    }\n</style>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_of_the_readme_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/race.svg");
        let current = race().unwrap();
        let stale = "docs/race.svg is stale: cargo run -p headstart-lab --example picture > docs/race.svg";
        assert!(std::fs::read_to_string(file).unwrap_or_default() == current, "{stale}");
    }

    #[test]
    fn headstart_is_far_ahead_where_ipv6_is_broken_and_no_worse_where_all_is_well() {
        let of = |name| bars(name).unwrap().map(|bar| bar.seconds);
        let [without, first, fourth] = of("healthy");
        assert!(first <= 1.1 * without && fourth <= 1.1 * without, "{without} {first} {fourth}");
        for name in ["aaaa-lost", "ipv6-black-hole"] {
            let [without, first, fourth] = of(name);
            assert!(without > 10.0 * first && without > 10.0 * fourth, "{name}: {without} {first} {fourth}");
        }
    }

    #[test]
    fn the_axis_is_logarithmic_and_ends_at_its_ends() {
        assert_eq!((place(AXIS.0), place(AXIS.1), place(1e6)), (SPAN.0, SPAN.1, SPAN.1));
        assert!((place(1.0) - place(0.1) - (place(0.1) - place(0.01))).abs() < 1e-9);
        assert_eq!([0.0502, 15.06].map(figure), ["50 ms", "15.1 s"]);
    }
}
