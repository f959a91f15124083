//! `pool-safety`: whether a connection that was opened ahead is ever a bad one (an instrument; the only number is zero).
//!
//! The shipped program, the kernel's TCP, in namespaces: a client is launched again and again under one supervisor, waits for
//! a time that it draws, and then says something on connections to a dozen hosts. Some of their servers close what is silent for
//! 1, 5 or 15 s; while connections lie open, servers restart and the network changes. A program that connects of its own never
//! fails here, so whatever is reset or refused is the pool's doing.

mod round;

use super::{Condition as About, Context, Entry, Outcome, Price, Row};
use crate::experiment::target::Target;
use round::{Disturbance, Launched};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "pool-safety",
    shows: "No connection that was opened ahead is reset or refused after it was handed over",
    claims: &[],
    conditions: &["idle-close", "restarts", "network-changes"],
    needs_namespaces: true,
    run,
};

/// Hand-overs of a full run, over all conditions, and of a quick one; and launches after which a condition is given up.
const HAND_OVERS: (u64, u64) = (10_000, 120);
const MAX_LAUNCHES: (u64, u64) = (6_000, 90);
/// Launches of a supervisor; the next begins with nothing learned.
const ROUND: u64 = 40;

const ARM: &str = "headstart";

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::new(ENTRY.name, cx.seed);
    outcome.method = METHOD.map(str::to_owned).to_vec();
    let pick = |(full, quick): (u64, u64)| if cx.quick { quick } else { full };
    let wanted: Vec<_> = Disturbance::ALL.into_iter().filter(|d| cx.wants(d.name())).collect();
    let each = pick(HAND_OVERS).div_ceil(wanted.len().max(1) as u64);
    let launches = pick(MAX_LAUNCHES) / wanted.len().max(1) as u64;
    let total = each * wanted.len() as u64;
    let mut all = Launched::default();
    let mut rng = fastrand::Rng::with_seed(cx.seed);
    for disturbance in &wanted {
        let mut sum = Launched::default();
        while sum.handed_over < each && sum.launches < launches {
            cx.progress.step(all.handed_over + sum.handed_over, total, disturbance.name());
            if cx.progress.stop() {
                outcome.invalidate("it was stopped before the end");
                break;
            }
            let most = ROUND.min(launches - sum.launches);
            sum.add(&round::play(*disturbance, most, rng.u64(..), cx.program.as_deref(), cx.progress.as_ref())?);
        }
        add(&mut outcome, disturbance.name(), &sum);
        let about = disturbance.about().to_owned();
        outcome.conditions.push(About { name: disturbance.name().to_owned(), about });
        all.add(&sum);
    }
    add(&mut outcome, "all", &all);
    let about = "All of these together.".to_owned();
    outcome.conditions.push(About { name: "all".to_owned(), about });
    outcome.notes.extend([
        format!("{}.", Target::AtMost(0.0).note("reset or refused after hand-over", all.failed as f64, "connections")),
        format!(
            "{}.",
            Target::AtLeast(pick(HAND_OVERS) as f64).note("handed over", all.handed_over as f64, "connections")
        ),
    ]);
    outcome.notes.extend(all.complaints.iter().take(20).cloned());
    Ok(outcome)
}

fn add(outcome: &mut Outcome, condition: &str, sum: &Launched) {
    let row = |metric: &str, value: u64| Row::measured(condition, metric, "connections", ARM, value as f64);
    outcome.rows.push(row("reset or refused after hand-over", sum.failed));
    outcome.rows.push(row("handed over that were opened ahead", sum.handed_over));
    outcome.rows.push(row("connections of the program", sum.connections));
    outcome.prices.push(Price {
        condition: condition.into(),
        arm: ARM.into(),
        what: "spare connections opened for each that was handed over".into(),
        unit: String::new(),
        amount: sum.opened as f64 / sum.handed_over.max(1) as f64,
    });
}

const METHOD: [&str; 2] = [
    "Each launch is a `headstart run` of headstart's own client under a supervisor that knows the launches before it. The client \
     waits, looks twelve names up and connects to them at once, says a line on each connection and waits for the answer. How \
     many of its connections had been opened ahead is what the supervisor counted.",
    "Every connection of a launch counts as failed that was refused, reset, or closed before the answer, whether it was opened \
     ahead or not. Supervisors are replaced after 40 launches, so that what each learns of its servers it learns again.",
];
