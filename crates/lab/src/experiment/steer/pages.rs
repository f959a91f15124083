//! `steer-pages`: pages under every policy (claims P5.1 and P5.2).

use super::fitted::Fit;
use super::network::BASE;
use super::play::{Block, Cell, as_in_the_paper, over};
use super::{FAT, METHOD, METRIC, STATE, real, rows};
use crate::experiment::page_load::pages;
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Speeds, Steps};
use crate::page::{Page, Protocol};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-pages",
    shows: "Pages load sooner over a fat and a fast channel than over the fat one alone, under every policy; the cost of each policy",
    claims: &["P5.1", "P5.2"],
    conditions: &[
        "ideal-fitted",
        "ideal-paper",
        "ideal-h1",
        "ideal-h2",
        "tunnel-fitted",
        "tunnel-paper",
        "tunnel-h1",
        "tunnel-h2",
    ],
    speeds: Speeds::Both,
    run,
};

/// Pages of the paper's weight, with so much computation that the fat channel alone takes as long as it prints.
const FITTED: &str = "fitted";

/// What the arms beside the registry's are.
const WITH_QUEUE: &str = "`…+queue` is a rule of the paper with what `value` has beside its own rule: the paced fast channel with its queue, \
     newer acknowledgements in the place of older ones and over the fat channel, order kept at the other end. From the published arm to \
     this one is the plumbing, from this one to `value` the rule.";

/// The mean over the fat channel alone that the paper prints, in ms.
pub fn printed(claims: &Claims) -> anyhow::Result<f64> {
    let figure = claims.get("P5.1")?.figure(FAT, STATE).and_then(|figure| figure.theirs);
    figure.ok_or_else(|| anyhow::anyhow!("docs/claims.toml has no value of {FAT} for P5.1"))
}

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
        FITTED => "as in `paper`, fitted to what it prints of the fat channel alone",
        _ => "as the paper's testbed would serve them: HTTP/1.1, all hosts at the channels' end, a CDN of two hops",
    }
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
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
    outcome.method.push(WITH_QUEUE.to_owned());
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let mut steps = Steps::new(cx, sources.iter().map(|s| s.pages.len() * wanted.len()).sum());
    for (source, condition) in sources.iter().flat_map(|s| wanted.iter().map(move |c| (s, *c))) {
        let (way, how) = condition.split_once('-').unwrap_or((condition, ""));
        let mut block =
            Block::with_queue(Cell { name: format!("{condition}{}", source.suffix), ..Cell::new(way, BASE) });
        let pages: Vec<Page> = source.pages.iter().enumerate().map(|(n, p)| served(p, how, n as u64)).collect();
        let worlds = if cx.quick { 1 } else { 2 };
        let fit = (how == FITTED).then(|| Fit::of(&pages, printed(claims)?, cx.seed, worlds)).transpose()?;
        for page in &pages {
            if !steps.next(outcome, &format!("{}, {}", block.cell.name, page.name)) {
                return Ok(());
            }
            let fitted = fit.as_ref().map(|fit| fit.apply(page));
            block.load(fitted.as_ref().unwrap_or(page), cx.seed, worlds)?;
        }
        let mut about = format!("{}; {}, {}.", BASE.about, source.whose, about(how));
        if let Some(fit) = fit {
            about = format!("{} {}.", about, fit.about());
        }
        outcome.condition(block.cell.name.clone(), about);
        let judged = condition == "ideal-fitted";
        rows::add(outcome, &block, |row| if judged { serve(claims, row) } else { Ok(row) })?;
    }
    Ok(())
}

/// Ties a row to the claim that it serves: times against the fat channel alone, shares of bytes against those of the paper's rule.
fn serve(claims: &Claims, row: Row) -> anyhow::Result<Row> {
    let against_fat = row.baseline_arm.as_deref() == Some(FAT) && row.metric.starts_with(METRIC);
    Ok(match row.arm.clone().as_str() {
        case @ ("pkt-state" | "pkt-control" | "asap") if against_fat => row.serving(claims, "P5.1", case)?,
        "obj-priority" | "obj-size-3k" | "obj-size-6k" | "pkt-uplink" | "pkt-control" | "asap" | "pkt-state"
            if row.metric.starts_with("share of bytes") =>
        {
            let case = row.arm.clone();
            row.serving(claims, "P5.2", &case)?
        }
        _ => row,
    })
}
