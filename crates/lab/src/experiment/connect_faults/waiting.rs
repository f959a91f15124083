//! Bare programs where a host hangs: each once, all beside each other, in networks of their own. They need no processor
//! while they wait, and their number is what would take the time.

use super::case::{Case, HANGS, value};
use crate::experiment::Context;
use crate::experiment::stopwatch::{Ended, How, Supervisor};
use crate::netns::Network;
use anyhow::Context as _;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::thread::{Scope, ScopedJoinHandle};

/// Programs that start at a time: more would only wait for the processor.
const STARTING: usize = 4;
/// A program that has run for this long waits for the network and nothing else.
const STARTED: Duration = HANGS;
/// Between two looks at the programs that have started.
const LOOK: Duration = Duration::from_millis(5);

/// A bare program that waits, or has waited; nothing where there is no need to wait.
pub struct Waiting<'scope, 'a> {
    case: &'a Case<'a>,
    thread: Option<ScopedJoinHandle<'scope, anyhow::Result<Ended>>>,
    began: Instant,
    quick: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Waiting<'_, '_> {
    /// Whether the program has ended, and soon enough to be measured in turns. Of one that just starts nothing is known:
    /// ask when all have started.
    pub fn is_quick(&self) -> bool {
        self.thread.is_none() || self.quick.load(std::sync::atomic::Ordering::Acquire)
    }

    /// The value of its run, at its end.
    pub fn join(self) -> anyhow::Result<Option<Option<f64>>> {
        let Some(thread) = self.thread else { return Ok(None) };
        let ended = thread.join().map_err(|_| anyhow::anyhow!("a thread that runs a program panicked"))??;
        Ok(Some(value(self.case.faulty, ended)))
    }

    fn is_starting(&self, now: Instant) -> bool {
        now < self.began + STARTED && self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

/// One network a place where programs hang; none where they change it, for there each has its own.
pub fn networks(cases: &[Case<'_>]) -> anyhow::Result<Vec<Option<Network>>> {
    let mut networks: Vec<Option<Network>> = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        let known = i > 0 && std::ptr::eq(cases[i - 1].faulty, case.faulty);
        let build = !known && case.faulty.hangs && !case.faulty.changes();
        networks.push(build.then(|| Network::build(&case.faulty.world)).transpose().context("building the network")?);
    }
    Ok(networks)
}

/// Starts them; returns when all have been started for a while. One for each case, in their order.
pub fn launch<'scope, 'a>(
    scope: &'scope Scope<'scope, '_>,
    cases: &'a [Case<'a>],
    networks: &'a [Option<Network>],
    cx: &Context,
) -> anyhow::Result<Vec<Waiting<'scope, 'a>>>
where
    'a: 'scope,
{
    let clock = Clock::new();
    let mut all: Vec<Waiting<'scope, 'a>> = Vec::new();
    let mut network = None;
    let settle = |all: &[Waiting<'_, '_>], most: usize| {
        while all.iter().filter(|w| w.is_starting(clock.now())).count() >= most {
            clock.sleep(LOOK);
        }
    };
    for (case, of_place) in cases.iter().zip(networks) {
        network = of_place.as_ref().or(network).filter(|_| case.faulty.hangs);
        let quick = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
        let mut waiting = Waiting { case, thread: None, began: clock.now(), quick: quick.clone() };
        if case.faulty.hangs && !cx.progress.stop() {
            settle(&all, STARTING);
            cx.progress.step(0, cases.len() as u64, &format!("{} alone, beside the others", case.name));
            waiting.began = clock.now();
            let shared = network.filter(|_| !case.faulty.changes());
            waiting.thread = Some(scope.spawn(move || {
                let ended = match shared {
                    Some(network) => case.time(&mut case.bare(network)?, Supervisor::Own),
                    None => {
                        let own = Network::build(&case.faulty.world).context("building the network")?;
                        case.time(&mut case.bare(&own)?, Supervisor::Own)
                    }
                }?;
                let soon = ended.how != How::Cut && ended.after < HANGS;
                quick.store(soon, std::sync::atomic::Ordering::Release);
                Ok(ended)
            }));
        }
        all.push(waiting);
    }
    settle(&all, 1);
    Ok(all)
}
