//! `together`: all columns at once, each alone, and all but one, on a dual-stack LTE link with a fast channel beside it.
//!
//! One simulation has all of it in one page load: the connector of `core::connect` looks names up and opens connections
//! ahead of time, servers start by the rules of `core::cwnd` out of histories of their own, every packet is steered by
//! `core::steer` through a tunnel, and messages go by the messengers of `core::realtime` over the same link. No ratio
//! of one column is multiplied with that of another.

pub(super) mod arm;
mod play;
mod rows;
#[cfg(test)]
mod tests;

use super::page_load::pages;
use super::{Context, Entry, Outcome, Speeds, Steps};
pub(super) use play::p95;
use play::{Block, SITUATIONS, Situation};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "together",
    shows: "All columns together load pages sooner than any one of them, and do not interfere with each other",
    claims: &[],
    conditions: &["pages", "busy", "far"],
    speeds: Speeds::Virtual,
    run,
};

const METHOD: [&str; 8] = [
    "A browser in virtual time loads pages as in `page-load`, behind link `lte` with families as in `paper1-lte` (condition \
     `dual-stack` there). Windows of servers are those of `core::cwnd` (CUBIC) in every arm; only what they start with differs.",
    "`connect`: race `adaptive`, answers kept for an hour, names looked up and connections opened ahead; else a modern browser \
     by itself. `cwnd`: servers start by `careful-resume`, each with a history of its own; else from ten segments. `steer`: a \
     tunnel over `lte` and `urllc` (2 Mbit/s, 5 ms), policy `value`, 68 bytes more a packet; else `lte` alone. `realtime`: \
     messages by technique `auto`; else `plain`. `forward` measures, and makes nothing sooner: it has no arm.",
    "`pages`: a page by itself. `busy`: beside a call (G.711 over UDP, both ways), messages (50 bytes each 30 ms over TCP) and a \
     download of 5 MB, which all begin with the page. The call and the messages end at the gateway. `far`: a page by itself, over \
     `lte` with a round trip of 100 ms in the place of 18, the middle of paper 5's (Fig. 5a); the fast channel is as near as it was.",
    "`first`: a host that has never been there; `later`: half an hour after; `launched`: the fourth visit, each half an hour \
     after the one before, when every column has what it learns from. Records live for five minutes.",
    "Three arms are bounds: `no-access` is bare over an access link that takes no time and has no end of room, `all-no-access` every \
     column over it, `no-network` bare where hosts are next door besides and names are there at once. What is left is what pages \
     compute and servers think.",
    "`of the page load time, …` is what load events wait for, one after the other: what the browser computes, a free connection, \
     the name, TCP, TLS, the first byte, the server's thinking, the rest of the answer.",
    "`bare-again` is `bare` in the same worlds with other numbers drawn by the links: it shows how many of its pages are slower, \
     and by how much, by chance alone.",
    "A value is the mean of a page over its worlds; the same page meets the same world under each arm. For call and messages a \
     value is the 95th percentile of a load's delays.",
];

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &[]);
    let sources = pages::sources(cx, &mut outcome)?;
    let wanted: Vec<&Situation> = SITUATIONS.iter().filter(|situation| cx.wants(situation.name)).collect();
    let mut steps = Steps::new(cx, sources.iter().map(|s| s.pages.len() * wanted.len()).sum());
    for (source, situation) in sources.iter().flat_map(|s| wanted.iter().map(move |situation| (s, **situation))) {
        let mut block = Block::new(format!("{}{}", situation.name, source.suffix), situation);
        for (n, page) in source.pages.iter().enumerate() {
            if !steps.next(&mut outcome, &format!("{}, {}", block.name, page.name)) {
                return Ok(outcome);
            }
            block.load(page, cx.seed.wrapping_add(n as u64), source.seeds)?;
        }
        for (visit, (name, _)) in play::VISITS.iter().enumerate() {
            let about = format!(
                "{}; {}, {name} visit; link `{}`, and `{}` beside it where it is steered.",
                source.whose,
                if situation.busy { "beside a call, messages and a download" } else { "by itself" },
                situation.fat,
                play::FAST,
            );
            outcome.condition(block.condition(visit), about);
        }
        rows::add(&mut outcome, &block)?;
    }
    Ok(outcome)
}
