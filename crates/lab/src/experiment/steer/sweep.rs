//! `steer-sweep`: channels of other delays and rates (claims P5.4 and P5.5).

use super::fitted::{Fit, WEIGHT};
use super::network::SWEEP;
use super::pages::printed;
use super::play::{Block, Cell, as_in_the_paper};
use super::{BOUND, FAST, FAT, METHOD, METRIC, OURS, STATE, bound, rows};
use crate::experiment::{Claims, Context, Entry, Outcome, Row, Speeds, Steps};
use crate::page::{Page, synthetic};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-sweep",
    shows: "The gain from a fast channel by how much the channels differ; no page loads later",
    claims: &["P5.4", "P5.5"],
    conditions: NAMES,
    speeds: Speeds::Virtual,
    run,
};

const NAMES: &[&str] = &[
    "ideal-fitted-base",
    "ideal-fitted-fat-rtt-150",
    "ideal-base",
    "ideal-fat-1000mbit",
    "ideal-fat-rtt-50",
    "ideal-fat-rtt-100",
    "ideal-fat-rtt-150",
    "ideal-fat-60mbit",
    "ideal-fat-jitter",
    "ideal-fast-rtt-10",
    "ideal-fast-rtt-20",
    "ideal-fast-rtt-30",
    "ideal-fast-500kbit",
    "ideal-fast-1mbit",
    "ideal-fast-5mbit",
    "ideal-fast-10mbit",
    "ideal-fast-loss",
    "tunnel-base",
    "tunnel-fat-1000mbit",
    "tunnel-fat-rtt-50",
    "tunnel-fat-rtt-100",
    "tunnel-fat-rtt-150",
    "tunnel-fat-60mbit",
    "tunnel-fat-jitter",
    "tunnel-fast-rtt-10",
    "tunnel-fast-rtt-20",
    "tunnel-fast-rtt-30",
    "tunnel-fast-500kbit",
    "tunnel-fast-1mbit",
    "tunnel-fast-5mbit",
    "tunnel-fast-10mbit",
    "tunnel-fast-loss",
];

/// Every condition: those on pages that are fitted to the paper's, and the others.
fn cells() -> impl Iterator<Item = Cell> {
    let fitted = SWEEP.into_iter().filter(|network| matches!(network.name, "base" | LONGEST));
    let fitted =
        fitted.map(|network| Cell { name: format!("{FITTED}{}", network.name), ..Cell::new("ideal", network) });
    fitted.chain(["ideal", "tunnel"].into_iter().flat_map(|way| SWEEP.map(|network| Cell::new(way, network))))
}

/// How conditions begin whose pages are fitted to the paper's over [`super::network::BASE`] (docs/decisions/0076).
const FITTED: &str = "ideal-fitted-";
/// The longest fat channel.
const LONGEST: &str = "fat-rtt-150";

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let (count, worlds) = if cx.quick { (4, 1) } else { (40, 2) };
    let pages: Vec<Page> =
        synthetic::pages(cx.seed, count).enumerate().map(|(n, p)| as_in_the_paper(&p, n as u64)).collect();
    let wanted: Vec<Cell> = cells().filter(|cell| cx.wants(&cell.name)).collect();
    let mut steps = Steps::new(cx, wanted.len() * count);
    let is_fitted = |cell: &Cell| cell.name.starts_with(FITTED);
    let fit = wanted.iter().any(is_fitted).then(|| Fit::of(&pages, printed(&claims)?, cx.seed, worlds)).transpose()?;
    for cell in &wanted {
        let mut block = Block::new(cell.clone());
        let fit = fit.as_ref().filter(|_| is_fitted(cell));
        for page in &pages {
            if !steps.next(&mut outcome, &cell.name) {
                return Ok(outcome);
            }
            let fitted = fit.map(|fit| fit.apply(page));
            block.load(fitted.as_ref().unwrap_or(page), cx.seed, worlds)?;
        }
        let about = format!(
            "{}; {count} pages of the generator as the paper's testbed would serve them (HTTP/1.1, all hosts at the channels' \
             end, a CDN of two hops), each in {worlds} worlds{}.",
            cell.network.about,
            fit.map_or_else(String::new, |fit| format!("; over the channels of section 4.1 they have {}", fit.about())),
        );
        outcome.condition(cell.name.clone(), about);
        rows::add(&mut outcome, &block, |row| serve(&claims, row))?;
        outcome.notes.extend(at_the_longest(&claims, &block)?);
        outcome.notes.extend(impossible(&block));
    }
    Ok(outcome)
}

/// What the paper's rule saves over the longest fat channel (P5.4) is what ours is to save, or the bound.
fn at_the_longest(claims: &Claims, block: &Block) -> anyhow::Result<Option<String>> {
    let mean = |arm: &str| {
        let times: Option<Vec<f64>> = block.series(arm)?.values.into_iter().collect();
        times.map(|times| times.iter().sum::<f64>() / times.len().max(1) as f64)
    };
    let saves = |arm: &str| Some(100.0 * (1.0 - mean(arm)? / mean(FAT)?));
    if block.cell.network.name != LONGEST {
        return Ok(None);
    }
    let (Some(ratio), Some(ours), Some(most)) = (claims.ratio("P5.4", FAT, "")?, saves(OURS), saves(BOUND)) else {
        return Ok(None);
    };
    let what = format!("{}, {OURS} saves of the mean {METRIC}", block.cell.name);
    Ok(Some(bound::note(&what, ours, 100.0 * (1.0 - ratio), most, "%")))
}

/// What the paper prints of the fast channel alone cannot be (P5.5), with what it takes here.
fn impossible(block: &Block) -> Option<String> {
    let times = (block.cell.name == "ideal-fitted-base").then(|| block.series(FAST))??.present();
    let alone = times.iter().sum::<f64>() / times.len().max(1) as f64 / 1e3;
    let least = WEIGHT * 8.0 / 2e6;
    Some(format!(
        "P5.5, impossible as printed: over URLLC alone a page would take 1.73 s (1635 ms and 5.87 %), but the bytes of a page of \
         {:.2} MB (Table 1: 476.3 KB are 22.1 % of one) take {least:.1} s at 2 Mbit/s. Measured here: {alone:.1} s.",
        WEIGHT / 1e6
    ))
}

/// Ties a row to the claim that it serves, if it serves one.
fn serve(claims: &Claims, row: Row) -> anyhow::Result<Row> {
    let load = row.metric.starts_with(METRIC) && row.baseline.is_some();
    Ok(match (row.condition.as_str(), row.arm.as_str()) {
        ("ideal-fitted-fat-rtt-150", STATE) if load => row.serving(claims, "P5.4", "")?,
        // The claim is in words, but for a figure that cannot be: none is judged.
        ("ideal-fitted-base", FAST) if load => row.serving(claims, "P5.5", "in words")?,
        ("ideal-fast-rtt-20" | "ideal-fast-1mbit" | "ideal-fast-5mbit" | "ideal-fast-10mbit", STATE) if load => {
            row.serving(claims, "P5.5", "in words")?
        }
        _ => row,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_that_are_played() {
        assert!(cells().map(|cell| cell.name).eq(NAMES.iter().map(|name| (*name).to_owned())));
    }
}
