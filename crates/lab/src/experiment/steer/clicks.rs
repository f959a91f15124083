//! `steer-clicks`: a landing page and four pages behind it (claim P5.6).
//!
//! What grows from click to click is what the browser sends: cookies, state, forms. The paper prints the 99th percentile of a
//! page's requests, 1.92 KB on landing pages and 2.9 KB over the four others.

use super::network::BASE;
use super::play::{Cell, Visitor, as_in_the_paper};
use super::rows;
use super::{FAT, METHOD, METRIC, OURS, STATE};
use crate::experiment::{Claims, Context, Entry, Outcome, Series, Speeds, Steps};
use crate::page::{Page, synthetic};
use headstart_core::steer::policy;

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "steer-clicks",
    shows: "Steering policies keep their gain four clicks deep, where requests are larger",
    claims: &["P5.6"],
    conditions: &["ideal-clicks", "tunnel-clicks"],
    speeds: Speeds::Virtual,
    run,
};

/// Pages of a visit: the landing page and four clicks.
const PAGES: usize = 5;
/// The 99th percentile of request sizes on landing pages, and on pages behind them: section 4.2.
const REQUESTS: [f64; 2] = [1_920.0, 2_900.0];
/// The rules that the paper compares, and ours.
const ARMS: [&str; 4] = [FAT, "asap", STATE, OURS];

/// A page whose requests have `p99` bytes at the 99th percentile.
fn with_requests(mut page: Page, p99: f64) -> Page {
    let mut sizes: Vec<f64> = page.objects.iter().map(|o| o.request_bytes as f64).collect();
    sizes.sort_by(f64::total_cmp);
    let at = ((sizes.len() as f64 * 0.99).ceil() as usize).clamp(1, sizes.len()) - 1;
    let factor = p99 / sizes[at].max(1.0);
    for object in &mut page.objects {
        object.request_bytes = (object.request_bytes as f64 * factor) as u64;
    }
    page
}

/// The pages of visit number `n`.
fn visit(seed: u64, n: usize) -> Vec<Page> {
    let page = |place: usize| {
        let number = seed.wrapping_mul(1_000).wrapping_add((n * PAGES + place) as u64);
        let page = as_in_the_paper(&synthetic::page(number), number);
        with_requests(page, REQUESTS[usize::from(place > 0)])
    };
    (0..PAGES).map(page).collect()
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let claims = Claims::built_in()?;
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    outcome.how(
        "A visit is five pages of the generator, each with empty caches and no open connection; requests are scaled so that \
         their 99th percentile is the paper's: 1.92 KB on the landing page, 2.9 KB on the others.",
    );
    let visits = if cx.quick { 2 } else { 21 };
    let wanted: Vec<&str> = ENTRY.conditions.iter().copied().filter(|c| cx.wants(c)).collect();
    let mut steps = Steps::new(cx, wanted.len() * visits);
    for condition in wanted {
        let way = condition.split('-').next().unwrap_or_default();
        let cell = Cell { name: condition.to_owned(), ..Cell::new(way, BASE) };
        let mut landing = vec![Vec::new(); ARMS.len()];
        let mut internal = vec![Vec::new(); ARMS.len()];
        for n in 0..visits {
            if !steps.next(&mut outcome, condition) {
                return Ok(outcome);
            }
            let pages = visit(cx.seed, n);
            for (k, arm) in ARMS.iter().enumerate() {
                for (place, page) in pages.iter().enumerate() {
                    let mut visitor = Visitor::new(page, &cell, policy::find(arm)?, cx.seed.wrapping_add(n as u64))?;
                    let of_place = if place == 0 { &mut landing } else { &mut internal };
                    of_place[k].push(visitor.load().time());
                }
            }
        }
        for (what, values) in [("landing page", &landing), ("internal pages", &internal)] {
            let series = |k: usize| {
                Series::with_failures(condition, &format!("{METRIC}, {what}"), "ms", ARMS[k], values[k].iter().copied())
            };
            for (k, arm) in ARMS.into_iter().enumerate().skip(1) {
                let papers = condition == "ideal-clicks" && arm != OURS;
                rows::compare(&mut outcome, &series(k), &series(0), |row| {
                    Ok(if papers { row.serving(&claims, "P5.6", "")? } else { row })
                })?;
            }
            rows::compare(&mut outcome, &series(1), &series(2), Ok)?;
            outcome.samples.extend((0..ARMS.len()).map(series));
        }
        let about = format!("{}; {visits} visits of a landing page and four pages behind it.", BASE.about);
        outcome.condition(condition, about);
    }
    Ok(outcome)
}
