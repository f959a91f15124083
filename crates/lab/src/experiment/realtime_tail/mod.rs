//! `realtime-tail`: how long small messages over TCP take in the worst cases, by technique (claims P4.1 to P4.6).
//!
//! Two metrics, never mixed: the paper's, the 95th percentile over streams of a stream's mean delay, in its topology with a
//! bulk flow in the sender's WLAN; and the message's own, over one lossy hop, where it is a message that a program waits for.
//! Each for three ages of TCP: in virtual time on a model of them (`sim::messages`), in namespaces on the kernel's own.

mod condition;
mod kernel;
mod rows;
mod targets;

use super::{Claims, Context, Entry, Outcome, Speeds, Steps};
use crate::sim::messages::{self, Sending, StreamResult, TOUCH};
use crate::sim::tcp::{self, Stack};
use condition::{Condition, Part};

/// The experiment.
pub const ENTRY: Entry = Entry {
    name: "realtime-tail",
    shows: "Which techniques keep small messages from waiting behind a lost segment, on old and new TCP",
    claims: &["P4.1", "P4.2", "P4.3", "P4.4", "P4.5", "P4.6"],
    conditions: &condition::NAMES,
    speeds: Speeds::Both,
    run,
};

/// The baseline of every row.
const PLAIN: &str = "plain";
/// Plain again, with other luck: what differs between these two is noise.
const CONTROL: &str = "plain-again";
/// The floor.
const DATAGRAMS: &str = "udp-redundant";
/// The bound: whatever was not there is there with the first datagram that gets through.
const ORACLE: &str = "udp-all";
/// Messages in a datagram of it: those of 300 ms, twice an outage.
const ALL_LOST: u32 = 10;
const BUNDLE: &str = "bundle";

/// Ways of sending, the baseline first.
const ARMS: &[&str] = &[
    PLAIN,
    CONTROL,
    "reduction-50",
    "reduction-66",
    "trigger",
    "trigger-adaptive",
    "echo",
    "reduction-50+trigger",
    "reduction-50+echo",
    "trigger+echo",
    "reduction-50+trigger+echo",
    "hedge",
    "auto",
    BUNDLE,
    DATAGRAMS,
    ORACLE,
];

fn sending(arm: &str) -> Sending {
    match arm {
        BUNDLE => Sending::Bundle,
        DATAGRAMS => Sending::Datagrams(messages::REPEATED),
        ORACLE => Sending::Datagrams(ALL_LOST),
        CONTROL => Sending::Technique(PLAIN.into()),
        name => Sending::Technique(name.into()),
    }
}

/// Streams of a condition. A bulk flow makes a stream a hundred times as much work.
fn streams(condition: &Condition, quick: bool) -> u64 {
    match (condition.part, quick) {
        (Part::Message, false) => 500,
        (Part::Message, true) => 24,
        (Part::Paper, false) => 300,
        (Part::Paper, true) => 8,
    }
}

/// What one arm came to in one condition with one age of TCP, a stream each.
struct Arm {
    name: &'static str,
    streams: Vec<StreamResult>,
}

fn run(cx: &Context) -> anyhow::Result<Outcome> {
    let mut outcome = ENTRY.outcome(cx, &METHOD, &NOTES);
    let wanted: Vec<&Condition> = condition::ALL.iter().filter(|c| cx.wants(c.name)).collect();
    if cx.speeds.in_virtual_time() {
        let modelled: Vec<&Condition> = wanted.iter().copied().filter(|condition| !condition.busy).collect();
        in_virtual_time(cx, &modelled, &mut outcome)?;
    }
    if cx.speeds.in_namespaces() && outcome.valid {
        outcome.method.extend(KERNEL_METHOD.map(str::to_owned));
        over_the_kernel(cx, &wanted, &mut outcome)?;
    }
    let targets = targets::notes(&outcome);
    outcome.notes.extend(targets);
    Ok(outcome)
}

fn in_virtual_time(cx: &Context, wanted: &[&Condition], outcome: &mut Outcome) -> anyhow::Result<()> {
    let claims = Claims::built_in()?;
    let mut steps = Steps::new(cx, wanted.len() * tcp::ALL.len());
    for condition in wanted {
        for stack in tcp::ALL {
            let name = format!("{}-{}", condition.name, stack.name);
            if !steps.next(outcome, &name) {
                return Ok(());
            }
            let streams = streams(condition, cx.quick);
            let arms = ARMS.iter().map(|arm| one(condition, *stack, arm, streams, cx.seed));
            let arms = arms.collect::<anyhow::Result<Vec<Arm>>>()?;
            match condition.part {
                Part::Message => rows::of_messages(outcome, &name, &arms, cx.seed)?,
                Part::Paper => {
                    // The paper's devices were of the oldest age: by that its claims are judged.
                    let claims = (*stack == tcp::LEGACY).then_some(&claims);
                    let quiet = condition::ALL.iter().find(|c| c.name == condition.without_bulk);
                    let quiet = quiet.map(|quiet| one(quiet, *stack, PLAIN, streams, cx.seed)).transpose()?;
                    rows::of_the_paper(outcome, &name, condition, &arms, quiet.as_ref(), claims, cx.seed)?;
                }
            }
            let about = format!("{} TCP: {}. {streams} streams.", condition.what, stack.name);
            outcome.condition(name, about);
        }
    }
    Ok(())
}

fn over_the_kernel(cx: &Context, wanted: &[&Condition], outcome: &mut Outcome) -> anyhow::Result<()> {
    let asked = cx.conditions.is_some();
    let plan = wanted.iter().flat_map(|condition| tcp::ALL.iter().map(move |stack| (*condition, *stack)));
    let plan: Vec<(&Condition, Stack)> = plan.filter(|(c, stack)| kernel::wants(c, *stack, cx.quick, asked)).collect();
    let mut steps = Steps::new(cx, plan.len());
    for (condition, stack) in plan {
        let name = format!("{}-{}-netns", condition.name, stack.name);
        if !steps.next(outcome, &name) {
            return Ok(());
        }
        let played = kernel::play(condition, stack, kernel::size(condition, cx.quick), cx.seed)?;
        for doubt in played.doubts {
            if condition.busy {
                // It is what was asked for: all ways of sending met it alike.
                outcome.notes.push(format!("{name}: {doubt}."));
            } else {
                outcome.invalidate(format!("{name}: {doubt}"));
            }
        }
        if let Some(why) = &played.unbundled {
            outcome.notes.push(format!("{name}: nothing was bundled: {why}."));
        }
        let arms = kernel::ARMS.iter().zip(played.arms).map(|(name, streams)| Arm { name, streams });
        let arms: Vec<Arm> = arms.filter(|arm| arm.name != BUNDLE || played.unbundled.is_none()).collect();
        let streams = arms[0].streams.len();
        match condition.part {
            Part::Message => rows::of_messages(outcome, &name, &arms, cx.seed)?,
            // The claims are about the paper's age of TCP, which no kernel of today is.
            Part::Paper => rows::of_the_paper(outcome, &name, condition, &arms, None, None, cx.seed)?,
        }
        let about = format!(
            "{} The kernel's TCP with {}, as near to {} as its settings allow. {streams} streams.",
            condition.what, played.congestion_control, stack.name
        );
        outcome.condition(name, about);
    }
    Ok(())
}

fn one(condition: &Condition, stack: Stack, arm: &'static str, streams: u64, seed: u64) -> anyhow::Result<Arm> {
    let hops = condition.hops()?;
    let sending = sending(arm);
    let place = ARMS.iter().position(|a| *a == arm).unwrap_or_default() as u64;
    let streams = (0..streams).map(|stream| {
        // Streams of all arms meet the same network; what happens to single packets is drawn for each.
        let network = fastrand::Rng::with_seed(seed ^ (stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let luck = fastrand::Rng::with_seed(network ^ (place + 1).wrapping_mul(0xd134_2543_de82_ef95)).u64(..);
        messages::play(&hops, stack, &sending, TOUCH, network, luck)
    });
    Ok(Arm { name: arm, streams: streams.collect::<anyhow::Result<_>>()? })
}

const METHOD: [&str; 3] = [
    "A stream is 60 messages of 50 bytes, one each 30 ms, after 19 that do not count. Every way of sending meets the same network \
     (the same fades at the same moments) in a copy of its own, so they do not interfere; losses of single packets are drawn for \
     each. `plain-again` is plain with other random numbers: its difference is noise.",
    "The delay of a message is from its creation until the receiving program has it; one that has not arrived after 5 s counts as \
     5 s. Techniques that leave values out (reduction) are judged by those that they send, so the age of the receiver's newest \
     value, sampled every 5 ms, is shown too. Intervals resample whole streams. A message is *held up* if it took more than 2 ms \
     longer than the fastest of its condition; a stream with such a message is *hit*.",
    "TCP is the model of `sim::tcp` in three ages: `modern` (RACK-TLP, SACK, acknowledgements at once), `delayed-ack` (the \
     same, the receiver delays them by 40 ms) and `legacy` (NewReno, three duplicates, no probes, delayed acknowledgements, a \
     first window of three segments).",
];

const KERNEL_METHOD: [&str; 3] = [
    "In namespaces the sessions of `headstart_realtime` and ordinary sockets run over the kernel's TCP, all ways of sending at \
     the same time on the same emulated link (an overloaded link is overloaded by all of them together), on eight links side by \
     side; a session is used for eight streams (five of the paper's). Packets and bytes are what the kernel counts for the \
     sender's sockets. For `bundle` the rule of `headstart up --bundle` passes small segments of all ways of sending to the \
     experiment, which bundles those of one: this detour is part of every delay, and bundled data is not counted in bytes.",
    "Cells begin one after the other within an interval. `delayed-ack` and `legacy` receivers are put back into the mode that delays acknowledgements after each read; `legacy` \
     has neither SACK nor RACK nor tail loss probes, but the first window of today.",
    "`busy` and `busy-lossy`: a thread for each processor computes while streams run. The emulator and all ways of sending then \
     wait for processors alike; a note reports packets that the emulator handled too late. A run of only these conditions reports \
     that no processor was idle, and like any such run is not valid.",
];

const NOTES: [&str; 5] = [
    "`udp-redundant` is the floor: UDP, each datagram with the last three messages. `udp-all` is the bound for arms that send when \
     messages are made: each datagram has the last ten, so that the first to get through brings all that were lost.",
    "`burst`: a burst of 60 ms loses two messages of sixty-nine and, where round trips are shorter than an interval, holds up one \
     more behind them: fewer than one of twenty, so plain TCP's 95th percentile is the delay of the path, nothing can be below \
     it, and the ratio is 1 for every way of sending, the bound included; the 99th percentile shows the differences. Where round \
     trips are longer (`burst-r60`, `burst-r100`), what is held up behind the lost ones reaches the 95th percentile.",
    "`outage`: a burst of 150 ms loses five messages of seventy-two; the 95th percentile lies between the third and the fourth of \
     them, so it is a step of one interval in any case, and `udp-all` shows where the step is for a way of sending that loses no \
     time. With longer round trips plain TCP needs one more to repair it.",
    "`iid3-r10-delayed-ack`: of plain TCP's messages the lost 3 % take 45 ms, and the one behind each of them 15 ms: those are \
     more than one in twenty, so the 95th percentile is 15 ms, the path takes 5 ms, and no ratio below 0.33 is possible, not even \
     for the bound. The project's 0.20 was read off a run over the kernel's TCP with 240 streams, in which more than one in \
     twenty took 45 ms (0.13): the percentile lies next to a step, and two runs of plain alone may differ by that much \
     (docs/decisions/0031).",
    "The paper's numbers are of its rooms, devices and file transfer, which it does not describe. In `fitted-…` loss and rate of the sender's \
     WLAN are those under which plain TCP of the oldest age comes out as printed (42, 336 and \
     242 ms); the claims are judged there, and no other way of sending was fitted (docs/decisions/0074). `no-bulk`, `strong` and `weak` \
     are the same way with a WLAN that loses next to nothing.",
];

#[cfg(test)]
mod tests;
