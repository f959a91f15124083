//! `headstart demo`: one screen in half a minute. The same unmodified programs fetch a page without and with headstart, on a
//! healthy network and on two where IPv6 is broken, with bars that move as time does; then a page load, what `headstart explain` says,
//! the price, and what to type next. Needs no Debian package: whichever of curl, wget and Python is there takes part, a
//! client of headstart's own, which only looks up and connects, always does.
//!
//! JSON: one object with `version`, `programs` (`network`, `program`, `arm`, `without_ms`, `with_ms`, `cut`, `ratio`, `interval`),
//! `page` (`without_ms`, `with_ms`), `price_ms`, `noise_ms`, `valid` and `report`. A program that was stopped has the time
//! [`CUT`](headstart_lab::experiment::connect_programs::CUT), and `cut` says which times, and so which ratios, are bounds.

mod live;
mod screen;

use crate::{exit, lab, output};
use headstart_lab::experiment::connect_programs::reading::{View, change, is_cut, noise, price, time, views};
use headstart_lab::experiment::connect_programs::{BARE, CUT, EXPLAINED};
use headstart_lab::experiment::{self, Claims, Context, Outcome, Row, Speeds, Waterfall};
use headstart_lab::netns::{Entered, InnerCommand};
use headstart_lab::report;
use live::Live;
use screen::{Elapsed, SideBySide};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the JSON.
const VERSION: u32 = 2;

/// Arguments of `headstart demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the report.
    #[arg(long, value_name = "DIR", default_value = "headstart-results/demo")]
    out: PathBuf,
    /// Random seed.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = lab::seed())]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Takes the tour.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    // Before half a minute of work that could not be stored.
    lab::prepare(&args.out)?;
    if let Entered::Ended(status) = InnerCommand::this_command().pass_signals().enter()? {
        return Ok(u8::try_from(status).unwrap_or(exit::FAILURE));
    }
    let terminal = !args.json && std::io::stdout().is_terminal();
    if !args.json {
        crate::say!("headstart demo: the same programs without and with headstart, on emulated LTE");
    }
    let quick = |speeds| Context { quick: true, speeds, ..Context::new(args.seed) };
    let live = terminal.then(|| Arc::new(Live::begin()));
    let plan = quick(Speeds::Namespaces);
    let entry = experiment::find("connect-programs")?;
    let programs = match &live {
        Some(live) => lab::run::watched(entry, Context { progress: Box::new(Arc::clone(live)), ..plan }),
        None => lab::run::observed(entry, plan),
    };
    if let Some(live) = live {
        live.end();
    }
    let programs = programs?;
    let page = Context { conditions: Some(vec!["lte".to_owned()]), ..quick(Speeds::Virtual) };
    let page = lab::run::observed(experiment::find("page-load")?, page)?;
    let path = written(&args.out, &[&programs, &page])?;
    if args.json {
        output::document(VERSION, json(&programs, &page, &path));
    } else {
        let rows = terminal.then(headstart_io::terminal_height).flatten();
        screen_lines(&programs, &page, &path, rows).iter().for_each(|line| crate::say!("{line}"));
    }
    Ok(exit::OK)
}

/// Writes a folder an experiment, and one page about all; returns its path.
fn written(out: &Path, outcomes: &[&Outcome]) -> anyhow::Result<PathBuf> {
    let claims = Claims::built_in()?;
    for outcome in outcomes {
        report::write(&out.join(&outcome.experiment), outcome, &claims)?;
    }
    let page = report::write_tour(out, outcomes)?;
    Ok(page.canonicalize().unwrap_or(page))
}

/// Lines of all of it at most. A terminal with fewer rows does not get what would scroll the race away.
const LINES: usize = 40;

/// All of it, in at most [`LINES`] of at most 80 columns; `rows` has the terminal, if it goes to one.
fn screen_lines(programs: &Outcome, page: &Outcome, report: &Path, rows: Option<usize>) -> Vec<String> {
    let mut lines = screen::lines(&comparisons(programs));
    if let Some([without, with]) = page_loads(page) {
        lines.push(String::new());
        lines.extend(screen::page(without, with));
    }
    let has_room = rows.is_none_or(|rows| rows >= LINES);
    if let Some(said) = programs.notes.iter().find_map(|note| note.strip_prefix(EXPLAINED)).filter(|_| has_room) {
        let host = said.split_whitespace().next().unwrap_or_default();
        lines.push(format!("\nWhy it does not wait: headstart explain {host}"));
        lines.extend(screen::story(said));
    }
    lines.push(String::new());
    lines.push(match price(programs) {
        Some(ms) => {
            let give =
                noise(programs).filter(|_| !programs.valid).map_or_else(String::new, |n| format!(" (± {n:.0} ms)"));
            format!("Price:  {ms:+.0} ms{give} on a first visit over a healthy network (median)")
        }
        None => "Price:  not measured".to_owned(),
    });
    lines.push(format!("Report: {}", report.display()));
    lines.push("Next:   headstart run -- curl https://example.org/  (any program, your network)".to_owned());
    lines.extend(doubt(programs));
    lines
}

/// What to show of each program, the broken networks first.
fn comparisons(outcome: &Outcome) -> Vec<SideBySide> {
    let done = |ms: Option<f64>| Elapsed { ms: ms.unwrap_or_default(), running: false };
    let compared = |view: View| -> Vec<SideBySide> {
        let comparison = |(program, row): (&str, &Row)| SideBySide {
            network: view.title(),
            program: program.to_owned(),
            cells: [Some(done(row.baseline)), Some(done(Some(row.ours)))],
            verdict: change(row, outcome).map_or_else(String::new, |change| change.to_string()),
        };
        view.rows(outcome).map(comparison).collect()
    };
    views().flat_map(compared).collect()
}

/// A page load without and with headstart, where both were kept.
fn page_loads(page: &Outcome) -> Option<[&Waterfall; 2]> {
    let of = |arm: &str| page.waterfalls.iter().find(|load| load.arm == arm);
    Some([of(BARE)?, of("headstart")?])
}

/// What other load on the machine means for the figures, if there was any.
fn doubt(programs: &Outcome) -> Option<String> {
    let size = noise(programs).map_or_else(|| "some ms".to_owned(), time);
    (!programs.valid).then(|| format!("Note:   busy machine: differences up to {size} occurred without headstart too"))
}

/// A time up to the limit, at which a program is stopped: stopping it takes a few milliseconds more.
fn bounded(ms: f64) -> f64 {
    ms.min(CUT.as_secs_f64() * 1e3)
}

fn json(programs: &Outcome, page: &Outcome, report: &Path) -> serde_json::Value {
    let compared = views().flat_map(|view| {
        let program = |(program, row): (&str, &Row)| {
            serde_json::json!({
                "network": view.title(),
                "program": program,
                "arm": row.arm,
                "without_ms": row.baseline.map(bounded),
                "with_ms": bounded(row.ours),
                "cut": { "without": row.baseline.is_some_and(is_cut), "with": is_cut(row.ours) },
                "ratio": row.ratio,
                "interval": row.interval,
            })
        };
        view.rows(programs).map(program).collect::<Vec<_>>()
    });
    serde_json::json!({
        "programs": compared.collect::<Vec<_>>(),
        "page": page_loads(page).map(|[a, b]| serde_json::json!({"without_ms": a.load_ms, "with_ms": b.load_ms})),
        "price_ms": price(programs),
        "noise_ms": noise(programs),
        "valid": programs.valid,
        "report": report,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_lab::experiment::{Fall, Series};
    use headstart_lab::stats::Interval;

    fn row(condition: &str, arm: &str, baseline: f64, ours: f64) -> Row {
        let ratio = ours / baseline;
        Row {
            baseline_arm: Some("bare".into()),
            baseline: Some(baseline),
            ratio: Some(ratio),
            interval: Some(Interval { lo: 0.98 * ratio, hi: 1.02 * ratio }),
            ..Row::measured(condition, "time to fetch a page, median", "ms", arm, ours)
        }
    }

    fn programs() -> Outcome {
        let mut outcome = Outcome::new("connect-programs", 1);
        for program in ["client", "curl", "wget", "python"] {
            let healthy = format!("healthy-{program}");
            outcome.rows.push(row(&healthy, "headstart", 64.0, 65.0));
            outcome.rows.push(row(&healthy, "headstart-again", 64.0, 36.0));
            outcome.rows.push(row(&format!("aaaa-lost-{program}"), "headstart", 15_080.0, 120.0));
            outcome.rows.push(row(&format!("ipv6-black-hole-{program}"), "headstart", 20_004.0, 313.0));
        }
        let events: String = (0..9).map(|n| format!("\n     {n}.0 ms query       AAAA")).collect();
        outcome.notes.push(format!("{EXPLAINED} aaaa-lost.lab.example after a visit of aaaa-lost-curl:{events}"));
        outcome.samples = vec![Series::new("healthy-curl", "time to fetch a page", "ms", BARE, [60.0, 64.0, 97.0])];
        outcome
    }

    fn page() -> Outcome {
        let load = |arm: &str, load_ms: f64| {
            let fall = Fall {
                kind: "doc".into(),
                host: "h".into(),
                wanted_ms: 0.0,
                sent_ms: load_ms / 3.0,
                first_byte_ms: load_ms / 2.0,
                end_ms: load_ms,
            };
            Waterfall {
                condition: "lte-launched".into(),
                arm: arm.into(),
                page: "page".into(),
                load_ms,
                falls: vec![fall],
            }
        };
        let mut outcome = Outcome::new("page-load", 1);
        outcome.waterfalls = vec![load("bare", 1500.0), load("headstart", 1400.0)];
        outcome
    }

    /// Words of a line without figures, bars and what is said of a difference.
    fn shape(line: &str) -> Vec<String> {
        let is_word = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() > 2;
        let differs = ["faster", "slower", "clear", "difference"];
        let words = line.split(|c: char| c.is_whitespace() || "░▒█·:".contains(c)).filter(is_word);
        words.filter(|word| !differs.contains(word)).map(str::to_owned).collect()
    }

    #[test]
    fn the_recording_in_the_readme_is_current() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.svg");
        let picture = std::fs::read_to_string(file).unwrap();
        let text =
            |line: &str| Some(line.strip_prefix("<text")?.split_once('>')?.1.strip_suffix("</text>")?.to_owned());
        let recorded: Vec<_> = picture.lines().filter_map(text).collect();
        let printed = screen_lines(&programs(), &page(), Path::new("headstart-results/demo/report.html"), None);
        let until_events = |line: &&String| !line.starts_with("Why") && !line.starts_with("\nWhy");
        for line in printed.iter().take_while(until_events).filter(|line| !shape(line).is_empty()) {
            let found = recorded.iter().any(|old| shape(old) == shape(line));
            assert!(found, "docs/demo.svg is stale (cargo xtask screen): it lacks {line:?} ({:?})", shape(line));
        }
        for words in ["Why it does not wait: headstart explain", "Price:", "Report: headstart-results/demo", "Next:"] {
            assert!(recorded.iter().any(|old| old.contains(words)), "docs/demo.svg is stale: it lacks {words:?}");
        }
    }

    #[test]
    fn the_times_in_the_readme_are_those_of_the_recording() {
        let read = |name: &str| {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
            std::fs::read_to_string(file).unwrap()
        };
        let (readme, picture) = (read("README.md"), read("docs/demo.svg"));
        let table = readme.split_once("## Results").and_then(|(_, rest)| rest.split_once("|---|")).unwrap().1;
        let rows: Vec<_> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
        let of_network = |network: &str| {
            let lines = picture.lines().filter_map(|line| line.split_once("\">")?.1.strip_suffix("</text>"));
            let rows = lines.skip_while(|line| *line != network).skip(1).take_while(|line| line.starts_with("  "));
            rows.map(|row| row.replace("&gt;", ">")).collect::<Vec<_>>()
        };
        for row in &rows {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('*')).collect();
            let [what, without, with] = cells[..] else { panic!("{row}") };
            let network = match what.rsplit_once(", ").unwrap().1 {
                "black hole" => "IPv6 black hole",
                "answers lost" => "IPv6 answers lost",
                "later visits" => "healthy network, later visits",
                "first visit" => "healthy network",
                other => panic!("{other}"),
            };
            let program = what.split([' ', ',']).next().unwrap().to_lowercase();
            let shown = of_network(network);
            let found = shown.iter().find(|line| line.trim_start().starts_with(&program)).expect(row);
            let times: Vec<_> =
                found.split(|c: char| "█▉▊▋▌▍▎▏".contains(c)).map(str::trim).filter(|t| !t.is_empty()).collect();
            let times: Vec<_> = times[1..].iter().map(|text| text.split("  ").next().unwrap()).collect();
            assert_eq!(times, [without, with], "{row} in README.md; docs/demo.svg has {found}");
        }
        assert!(rows.len() > 5, "{rows:?}");
    }

    #[test]
    fn all_of_it_fits_on_one_screen_and_says_what_was_measured() {
        let mut programs = programs();
        let screen = |programs: &Outcome| {
            screen_lines(programs, &page(), Path::new("headstart-results/demo/report.html"), None).join("\n")
        };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let calm = words(&screen(&programs));
        for expected in ["64 ms ▏ 65 ms no clear difference", "36 ms 1.8x faster", "Price: +1 ms"] {
            assert!(calm.contains(expected), "{expected}\n{calm}");
        }
        assert!(!calm.contains("busy"), "{calm}");
        programs.invalidate("17 % of the processor was taken");
        let text = screen(&programs);
        // With the title.
        assert!(text.lines().count() < 40, "{}\n{text}", text.lines().count());
        let busy = words(&text);
        for expected in [
            "15.1 s ▏ 120 ms 126x faster",
            "> 20 s ▎ 313 ms > 64x faster",
            "64 ms ▏ 65 ms no clear difference",
            "36 ms no clear difference",
            "headstart explain aaaa-lost.lab.example",
            "Price: +1 ms (± 37 ms) on a first visit",
            "busy machine: differences up to 37 ms occurred without headstart too",
        ] {
            assert!(busy.contains(expected), "{expected}\n{text}");
        }
        let low = screen_lines(&programs, &page(), Path::new("r"), Some(39)).join("\n");
        assert!(!low.contains("explain") && low.contains("Price:") && low.lines().count() < 32, "{low}");
        let long: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:?}");
    }

    #[test]
    fn the_object_has_every_program_on_every_network() {
        let object = json(&programs(), &page(), Path::new("r"));
        assert_eq!(object["programs"].as_array().unwrap().len(), 16);
        assert_eq!((&object["page"]["without_ms"], &object["valid"]), (&1500.0.into(), &true.into()));
        assert_eq!((&object["price_ms"], &object["noise_ms"]), (&1.0.into(), &37.0.into()));
        let programs = object["programs"].as_array().unwrap();
        let cut: Vec<_> = programs.iter().filter(|row| row["cut"]["without"] == true).collect();
        assert!(!cut.is_empty() && cut.iter().all(|row| row["without_ms"] == 20_000.0), "{cut:?}");
        let whole = programs.iter().filter(|row| row["cut"]["without"] == false);
        assert!(whole.clone().count() > 0 && whole.clone().all(|row| row["without_ms"].as_f64() < Some(20_000.0)));
        assert!(programs.iter().all(|row| row["cut"]["with"] == false));
    }
}
