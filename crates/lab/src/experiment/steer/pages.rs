//! `steer-pages`: pages under every policy (claims P5.1 and P5.2).

use super::network::BASE;
use super::play::{Block, Cell, as_in_the_paper, over};
use super::steps::Steps;
use super::{FAT, METHOD, METRIC, real, rows};
use crate::experiment::page_load::pages;
use crate::experiment::{Claims, Condition, Context, Entry, Outcome, Row, Speeds};
use crate::page::{Page, Protocol};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-pages",
    shows: "Pages load sooner over a fat and a fast channel than over the fat one, by every policy, and what each spends",
    claims: &["P5.1", "P5.2"],
    conditions: &["ideal-paper", "ideal-h1", "ideal-h2", "tunnel-paper", "tunnel-h1", "tunnel-h2"],
    speeds: Speeds::Both,
    run,
};

/// How the pages are served.
fn served(page: &Page, how: &str, seed: u64) -> Page {
    match how {
        "h1" => over(page, Protocol::Http1),
        "h2" => over(page, Protocol::Http2),
        _ => as_in_the_paper(page, seed),
    }
}

fn about(how: &str) -> &'static str {
    match how {
        "h1" => "hosts as far away as measured, HTTP/1.1",
        "h2" => "hosts as far away as measured, HTTP/2",
        _ => "as the paper's testbed would serve them: HTTP/1.1, all hosts at the channels' end, a CDN of two hops",
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    outcome.method = METHOD.map(str::to_owned).to_vec();
    if cx.speeds.in_virtual_time() {
        in_virtual_time(cx, &claims, &mut outcome)?;
    }
    if cx.speeds.in_namespaces() && outcome.valid {
        real::pages::run(cx, &claims, &mut outcome)?;
    }
    Ok(outcome)
}

fn in_virtual_time(cx: &Context, claims: &Claims, outcome: &mut Outcome) -> anyhow::Result<()> {
    let sources = pages::sources(cx, outcome)?;
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let mut steps = Steps::new(cx, sources.iter().map(|s| s.pages.len() * wanted.len()).sum());
    for (source, condition) in sources.iter().flat_map(|s| wanted.iter().map(move |c| (s, *c))) {
        let (way, how) = condition.split_once('-').unwrap_or((condition, ""));
        let mut block = Block::new(Cell { name: format!("{condition}{}", source.suffix), ..Cell::new(way, BASE) });
        for (n, page) in source.pages.iter().enumerate() {
            if !steps.next(outcome, &format!("{}, {}", block.cell.name, page.name)) {
                return Ok(());
            }
            block.load(&served(page, how, n as u64), cx.seed, if cx.quick { 1 } else { 2 })?;
        }
        let about = format!("{}; {}, {}.", BASE.about, source.whose, about(how));
        outcome.conditions.push(Condition { name: block.cell.name.clone(), about });
        let judged = block.cell.name == "ideal-paper";
        rows::add(outcome, &block, |row| if judged { serve(claims, row) } else { Ok(row) })?;
    }
    Ok(())
}

/// Ties a row to the claim that it serves: times against the fat channel alone, shares of bytes.
fn serve(claims: &Claims, row: Row) -> anyhow::Result<Row> {
    let against_fat = row.baseline_arm.as_deref() == Some(FAT) && row.metric.starts_with(METRIC);
    Ok(match row.arm.clone().as_str() {
        case @ ("pkt-state" | "pkt-control" | "asap") if against_fat => row.serving(claims, "P5.1", case)?,
        "obj-priority" | "obj-size-3k" | "obj-size-6k" | "pkt-uplink" | "pkt-control" | "asap" | "pkt-state"
            if row.metric.starts_with("share of bytes") =>
        {
            row.serving(claims, "P5.2", "")?
        }
        _ => row,
    })
}
