//! `steer-object` with real packets: one document of 110 KB, without a browser.

use super::super::network::BASE;
use super::super::{FAST, FAT, OURS, STATE};
use super::stage::{Carrier, Content, Stage};
use super::{Arm, METHOD, MULTIPATH, Taken, ideal, multipath, tunnel};
use crate::experiment::page_load::put::Put;
use crate::experiment::{Condition, Context, Outcome, Row};
use crate::page::Page;
use crate::program::Folder;
use headstart_core::steer::Channel;

const ALL: [Arm; 7] = [
    ideal(FAT, Carrier::Alone(Channel::Fat)),
    ideal(FAST, Carrier::Alone(Channel::Fast)),
    ideal(MULTIPATH, Carrier::Multipath),
    tunnel(FAT),
    tunnel(FAST),
    tunnel(STATE),
    tunnel(OURS),
];
/// Behind `ideal-` and `tunnel-`.
const HOW: &str = "document-real";

/// Loads `page` by each way, in turns.
pub fn run(cx: &Context, page: Page, outcome: &mut Outcome) -> anyhow::Result<()> {
    let wanted = [cx.wants("ideal-document"), cx.wants("tunnel-document")];
    let mut arms: Vec<Arm> = ALL.into_iter().filter(|arm| wanted[usize::from(arm.tunnel)]).collect();
    if let Some(why) = multipath::missing() {
        outcome.notes.push(format!("The arm `{MULTIPATH}` is left out: {why}."));
        arms.retain(|arm| arm.way != Carrier::Multipath);
    }
    outcome.method.push(METHOD.to_owned());
    let put = Put::of_page(page);
    let folder = Folder::new()?;
    let content = Content::of(&put, &BASE, cx.seed, folder.path())?;
    let stages = arms.iter().map(|arm| Stage::build(&BASE, arm.way, &content, cx.seed));
    let stages = stages.collect::<anyhow::Result<Vec<_>>>()?;
    let rounds = if cx.quick { 6 } else { 40 };
    let mut taken = ["until the request", "transfer", "document load time"].map(|metric| (metric, Taken::new(&arms)));
    for round in 0..rounds {
        cx.progress.step(round, rounds, &format!("{HOW}, round {round}"));
        for n in (0..arms.len()).map(|n| (n + round as usize) % arms.len()) {
            if !cx.goes_on(outcome) {
                return Ok(());
            }
            let before = stages[n].bytes()?;
            let loaded = stages[n].load(&put.page, &content)?;
            let after = stages[n].bytes()?;
            let bytes = [0, 1].map(|channel| after[channel] - before[channel]);
            let timing = loaded.map(|loaded| loaded.objects[0]).filter(|timing| !timing.failed);
            let ms = |time: headstart_core::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
            let times = timing.map(|timing| [timing.sent, timing.end.saturating_sub(timing.sent), timing.end]);
            for (part, (_, taken)) in taken.iter_mut().enumerate() {
                taken.add(n, times.map(|times| ms(times[part])), bytes);
            }
        }
    }
    for (metric, taken) in &taken {
        taken.compare(outcome, (HOW, metric), Ok)?;
    }
    // The bytes are the same for all three.
    taken[0].1.shares(outcome, HOW, Ok)?;
    for (arm, stage) in arms.iter().zip(&stages) {
        if let Some(doubt) = stage.doubt() {
            outcome.invalidate(format!("{HOW}, {}: {doubt}", arm.name));
        }
        if arm.way == Carrier::Multipath {
            let [asked, joined] = stage.subflows()?;
            let condition = format!("ideal-{HOW}");
            let share = 100.0 * joined as f64 / asked.max(1) as f64;
            let row = Row::measured(&condition, "connections with a second subflow", "%", arm.name, share);
            outcome.rows.push(row);
        }
    }
    let kinds = ["ideal", "tunnel"].into_iter().zip(wanted).filter_map(|(kind, wanted)| wanted.then_some(kind));
    outcome.conditions.extend(kinds.map(|kind| condition(kind, rounds)));
    Ok(())
}

/// The condition of these loads, without a tunnel or through one.
fn condition(kind: &str, rounds: u64) -> Condition {
    let about = format!(
        "{}; one document of 110 KB over HTTP/1.1 and TLS 1.3, real packets, {rounds} loads an arm in turns.",
        BASE.about
    );
    Condition { name: format!("{kind}-{HOW}"), about }
}
