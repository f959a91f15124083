//! The table in docs/compare.md: rows of the lab, read from its `rows.csv`, a line a measurement and a column a forwarder.

use super::build;

/// The heading of the section that is written.
pub const HEADING: &str = "## Forwarders side by side";

/// A row of the lab, as far as it is needed.
#[derive(Debug)]
pub struct Row {
    condition: String,
    metric: String,
    arm: String,
    baseline_arm: String,
    value: Option<f64>,
    baseline: Option<f64>,
    /// Ratio, and the ends of its interval.
    ratio: [Option<f64>; 3],
    /// The lab has no doubts about it.
    pub is_valid: bool,
}

/// The fields of a line, of which some are in quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            other => all.last_mut().into_iter().for_each(|field| field.push(other)),
        }
    }
    all
}

/// The rows of a file of the lab.
pub fn rows(text: &str) -> Vec<Row> {
    let mut lines = text.lines().map(fields);
    let header = lines.next().unwrap_or_default();
    let row = |line: Vec<String>| {
        let field = |name: &str| {
            let at = header.iter().position(|column| column == name)?;
            line.get(at).cloned()
        };
        let number = |name: &str| field(name).and_then(|text| text.parse().ok());
        let word = |name: &str| field(name).unwrap_or_default();
        Row {
            condition: word("condition"),
            metric: word("metric"),
            arm: word("arm"),
            baseline_arm: word("baseline_arm"),
            value: number("ours"),
            baseline: number("baseline"),
            ratio: ["ratio", "interval_lo", "interval_hi"].map(number),
            is_valid: word("valid") == "true",
        }
    };
    lines.map(row).collect()
}

/// A line of the table.
struct Line {
    about: &'static str,
    condition: &'static str,
    metric: &'static str,
    /// The unit here is so many of the lab's.
    times: f64,
    arms: [&'static str; 3],
}

/// Without any.
const BARE: &str = "no-tun";
/// On Linux, and on a phone: headstart, tun2socks, sing-box.
const LINUX: [&str; 3] = ["ours", "tun2socks", "sing-box"];
const PHONE: [&str; 3] = ["ours-phone", "tun2socks", "sing-box-1.13"];

fn lines() -> Vec<Line> {
    let rate = |about, condition| Line { about, condition, metric: "throughput, median", times: 1e-3, arms: LINUX };
    let metric = "processor time of the forwarder, median";
    let cost = |about, condition| Line { about, condition, metric, times: 1.0, arms: LINUX };
    let wire = |about, metric| Line { about, condition: "wire", metric, times: 1e3, arms: LINUX };
    let phone = |about, metric| Line { about, condition: "phone", metric, times: 1e-3, arms: PHONE };
    vec![
        rate("one connection up, Gbit/s", "one-flow-up"),
        rate("one down", "one-flow-down"),
        rate("eight up", "eight-flows-up"),
        rate("eight down", "eight-flows-down"),
        wire("connect, µs", "connect time, median"),
        wire("64 bytes there and back, µs", "request-response latency, median"),
        Line {
            times: 1.0,
            ..wire("a port that refuses is said to be open, %", "connections to a port that refuses, said to be open")
        },
        cost("processor time, one up, s/GB", "one-flow-up"),
        cost("one down", "one-flow-down"),
        cost("eight up", "eight-flows-up"),
        cost("eight down", "eight-flows-down"),
        phone("as on a phone: one up, Gbit/s", "throughput, one flow up, median"),
        phone("one down", "throughput, one flow down, median"),
        phone("eight up", "throughput, eight flows up, median"),
        phone("eight down", "throughput, eight flows down, median"),
        Line { times: 1.0, ..phone("peak memory of 5020 connections, MB", "peak memory of 5020 connections") },
    ]
}

/// Two significant digits behind what is before the point, at most.
fn figure(value: f64) -> String {
    match value.abs() {
        at if at >= 100.0 => format!("{value:.0}"),
        at if at >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

impl Line {
    fn row<'a>(&self, rows: &'a [Row], arm: &str) -> Option<&'a Row> {
        rows.iter().find(|row| row.condition == self.condition && row.metric == self.metric && row.arm == arm)
    }

    /// What is measured, without a TUN and under each arm.
    fn text(&self, rows: &[Row]) -> String {
        let told = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| figure(value * self.times));
        let bare = |row: &Row| row.baseline_arm == BARE;
        let ours = self.row(rows, self.arms[0]);
        let without = match self.row(rows, BARE) {
            Some(row) => row.value,
            None => ours.filter(|row| bare(row)).and_then(|row| row.baseline),
        };
        let mut text = format!("| {} | {} |", self.about, told(without));
        for arm in self.arms {
            let row = self.row(rows, arm);
            let ratio = row.filter(|row| bare(row)).and_then(|row| match row.ratio {
                [Some(ratio), Some(lo), Some(hi)] => Some(format!(" ({ratio:.2}; {lo:.2} to {hi:.2})")),
                // A quick run has too few turns for an interval.
                [ratio, ..] => ratio.map(|ratio| format!(" ({ratio:.2})")),
            });
            text += &format!(" {}{} |", told(row.and_then(|row| row.value)), ratio.unwrap_or_default());
        }
        text + "\n"
    }
}

/// The section; `about` is when and where it was.
pub fn section(rows: &[Row], about: &str, quick: bool) -> String {
    let versions: Vec<String> = build::ALL.iter().map(|peer| format!("{} {}", peer.name, peer.version)).collect();
    let mut text = format!(
        "{HEADING}\n\n`cargo xtask peers` writes this section. {about}; {}, built from Go's module proxy.\nPrograms over a veth pair, arms in \
         turns: medians, and in brackets the ratio to no TUN with its 95 % interval. sing-box has its defaults for\nLinux (an MTU of 65535, \
         super-packets), tun2socks an MTU of 1500. As on a phone: an interface of 1500 bytes without super-packets for all, `headstart\n\
         forward` and sing-box 1.13, the last that can do without them. A forwarder that says that a port is open before it has connected\nis \
         sooner with connect(), and lets a program write to what is not there.\n\n",
        versions.join(", ")
    );
    if !rows.iter().all(|row| row.is_valid) {
        text += "**The machine was busy: the lab calls these figures invalid.** Repeat them on an idle one.\n\n";
    }
    if quick {
        text += "**A quick run: it shows that the comparison works, not what the figures are.**\n\n";
    }
    text += "| | no TUN | headstart | tun2socks | sing-box |\n|---|---:|---:|---:|---:|\n";
    lines().iter().for_each(|line| text += &line.text(rows));
    text + "\n"
}

/// A page with this section in the place of its old one, or before the heading `before`.
pub fn put(page: &str, section: &str, before: &str) -> Result<String, String> {
    let (start, end) = match page.find(HEADING) {
        Some(start) => {
            let rest = &page[start + HEADING.len()..];
            (start, rest.find("\n## ").map_or(page.len(), |at| start + HEADING.len() + at + 1))
        }
        None => {
            let at = page.find(before).ok_or_else(|| format!("no {before:?}"))?;
            (at, at)
        }
    };
    Ok(format!("{}{section}{}", &page[..start], &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "experiment,valid,claim,condition,metric,unit,arm,baseline_arm,ours,baseline,ratio,interval_lo,interval_hi,paper,verdict\n\
        t,true,,one-flow-up,\"throughput, median\",Mbit/s,ours,no-tun,12000,16000,0.75,0.71,0.8,,\n\
        t,true,,one-flow-up,\"throughput, median\",Mbit/s,tun2socks,no-tun,1700,16000,0.106,0.1,0.11,,\n\
        t,true,,one-flow-up,\"processor time of the forwarder, median\",s/GB,ours,,0.4,,,,,,\n\
        t,true,,one-flow-up,\"processor time of the forwarder, median\",s/GB,tun2socks,ours,4,0.4,10,9,11,,\n\
        t,true,,wire,\"connections to a port that refuses, said to be open\",%,no-tun,,0,,,,,,\n\
        t,true,,wire,\"connections to a port that refuses, said to be open\",%,tun2socks,,100,,,,,,\n";

    #[test]
    fn a_line_has_what_was_measured_and_a_dash_for_what_was_not() {
        let text = section(&rows(CSV), "One day", false);
        assert!(
            text.contains(
                "| one connection up, Gbit/s | 16.0 | 12.0 (0.75; 0.71 to 0.80) | 1.70 (0.11; 0.10 to 0.11) | – |\n"
            ),
            "{text}"
        );
        assert!(text.contains("| processor time, one up, s/GB | – | 0.40 | 4.00 | – |\n"), "{text}");
        assert!(text.contains("| a port that refuses is said to be open, % | 0.00 | – | 100 | – |\n"), "{text}");
        assert!(
            text.contains("One day; tun2socks v") && !text.contains("busy") && !text.contains("quick run"),
            "{text}"
        );
    }

    #[test]
    fn a_busy_machine_and_a_quick_run_are_told() {
        let text = section(&rows(&CSV.replace("t,true,,one-flow-up,\"thr", "t,false,,one-flow-up,\"thr")), "x", true);
        assert!(text.contains("invalid") && text.contains("A quick run"), "{text}");
    }

    #[test]
    fn the_section_replaces_its_old_self_and_nothing_else() {
        let page = "# T\n\n## A\n\na\n\n## B\n\nb\n";
        let once = put(page, &format!("{HEADING}\n\n1\n\n"), "## B").unwrap();
        assert_eq!(once, format!("# T\n\n## A\n\na\n\n{HEADING}\n\n1\n\n## B\n\nb\n"));
        let twice = put(&once, &format!("{HEADING}\n\n2\n\n"), "## B").unwrap();
        assert_eq!(twice, once.replace('1', "2"));
        assert!(put(page, "", "## C").is_err());
    }
}
