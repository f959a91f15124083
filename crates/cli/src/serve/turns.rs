//! Work for clients in rounds: so many polls of an address in each, and what is beyond them waits for the next round.
//!
//! The runtime's own queue is one for all: a client beside thousands of busy connections of others would wait for each of them at every
//! step of its own. Here an address with a thousand busy connections delays others by a few polls. A round ends when everything that
//! was ready has been looked at ([`tokio::task::yield_now`] comes back last), so that nothing waits while the processor is idle, and
//! one address alone has all of it. Fair queueing (Demers, Keshav and Shenker, 1989), of polls in the place of bytes.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// Polls of an address in a round. Ours: fewer make more rounds, more make others wait.
const POLLS: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub struct Turns {
    rounds: Mutex<Rounds>,
    waiting: Notify,
}

#[derive(Debug, Default)]
struct Rounds {
    next: u64,
    groups: HashMap<IpAddr, Group>,
}

/// What is of one address, or of one site.
#[derive(Debug, Default)]
struct Group {
    polled: usize,
    /// What waits for the next round, the oldest first.
    waiting: BTreeMap<u64, Waker>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Rounds> {
        // Each change is one call.
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins rounds for as long as there is something that waits. Never returns.
    pub async fn run(&self) {
        loop {
            self.waiting.notified().await;
            loop {
                tokio::task::yield_now().await;
                let woken = self.lock().round();
                if woken.is_empty() {
                    break;
                }
                woken.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// `work` of `group`, in its turns.
    pub fn of<F: Future>(self: &Arc<Self>, group: IpAddr, work: F) -> InTurn<F> {
        InTurn { turns: self.clone(), group, number: None, work: Box::pin(work) }
    }
}

impl Rounds {
    /// The next round: what may be polled in it of what has waited, one of each address after the other.
    fn round(&mut self) -> Vec<Waker> {
        let mut woken: Vec<(usize, Waker)> = Vec::new();
        for group in self.groups.values_mut() {
            let first: Vec<_> = std::iter::from_fn(|| group.waiting.pop_first()).take(POLLS).collect();
            group.polled = first.len();
            woken.extend(first.into_iter().enumerate().map(|(nth, (_, waker))| (nth, waker)));
        }
        self.groups.retain(|_, group| group.polled > 0);
        woken.sort_by_key(|(nth, _)| *nth);
        woken.into_iter().map(|(_, waker)| waker).collect()
    }

    /// Whether the work may be polled now: which `number` it waits under, if it waits.
    fn may(&mut self, of: IpAddr, number: &mut Option<u64>, waker: &Waker) -> bool {
        let group = self.groups.entry(of).or_default();
        if let Some(own) = *number {
            if let Some(kept) = group.waiting.get_mut(&own) {
                kept.clone_from(waker);
                return false;
            }
            // Its round has come, which has counted it.
            *number = None;
            return true;
        }
        if group.polled < POLLS {
            group.polled += 1;
            return true;
        }
        group.waiting.insert(self.next, waker.clone());
        *number = Some(self.next);
        self.next += 1;
        false
    }
}

/// Work that is polled in its turns.
pub struct InTurn<F> {
    turns: Arc<Turns>,
    group: IpAddr,
    number: Option<u64>,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { turns, group, number, work } = &mut *self;
        let waited = number.is_some();
        if turns.lock().may(*group, number, cx.waker()) {
            return work.as_mut().poll(cx);
        }
        if !waited {
            turns.waiting.notify_one();
        }
        Poll::Pending
    }
}

impl<F> Drop for InTurn<F> {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && let Some(group) = self.turns.lock().groups.get_mut(&self.group)
        {
            group.waiting.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    /// Polls of `busy` always ready tasks of each of `of` addresses, while a task of another takes `steps` steps.
    fn polls_beside(turns: Option<Arc<Turns>>, of: u8, busy: usize, steps: usize) -> usize {
        let polls = Arc::new(AtomicUsize::new(0));
        runtime().block_on(async {
            let spawn = |last: u8, work: Pin<Box<dyn Future<Output = ()> + Send>>| match &turns {
                Some(turns) => tokio::spawn(turns.of(address(last), work)),
                None => tokio::spawn(work),
            };
            if let Some(turns) = turns.clone() {
                tokio::spawn(async move { turns.run().await });
            }
            for last in 1..=of {
                for _ in 0..busy {
                    let polls = polls.clone();
                    let work = std::future::poll_fn(move |cx| {
                        polls.fetch_add(1, Ordering::Relaxed);
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    });
                    drop(spawn(last, Box::pin(work)));
                }
            }
            while polls.load(Ordering::Relaxed) < busy {
                tokio::task::yield_now().await;
            }
            let before = polls.load(Ordering::Relaxed);
            let mut left = steps;
            let honest = std::future::poll_fn(move |cx| {
                left -= 1;
                if left == 0 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            });
            spawn(100, Box::pin(honest)).await.unwrap();
            polls.load(Ordering::Relaxed) - before
        })
    }

    #[test]
    fn thousands_of_busy_connections_delay_a_step_of_others_by_a_few_polls() {
        let alone = polls_beside(None, 8, 500, 10);
        assert!(alone > 8 * 500 * 5, "{alone}: without turns a step waits for all of them");
        let fair = polls_beside(Some(Arc::default()), 8, 500, 10);
        // Each of its steps may wait for a round, and its coming and its end for one more.
        assert!(fair <= 12 * 8 * POLLS, "{fair}");
    }

    #[test]
    fn one_address_alone_has_every_turn_and_all_of_its_work_is_done() {
        let turns = Arc::new(Turns::default());
        runtime().block_on(async {
            let pump = turns.clone();
            tokio::spawn(async move { pump.run().await });
            let work = |_| {
                tokio::spawn(turns.of(address(1), async {
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                }))
            };
            for task in (0..1000).map(work).collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        let mut rounds = turns.lock();
        assert!(rounds.round().is_empty() && rounds.groups.is_empty());
    }

    #[test]
    fn what_is_dropped_while_it_waits_leaves_its_turn_to_the_next() {
        let turns = Arc::new(Turns::default());
        let mut cx = Context::from_waker(Waker::noop());
        let mut all: Vec<_> = (0..POLLS + 2).map(|_| turns.of(address(1), std::future::ready(()))).collect();
        let last = all.len() - 1;
        let ready = all.iter_mut().filter_map(|work| Pin::new(work).poll(&mut cx).is_ready().then_some(())).count();
        assert_eq!(ready, POLLS);
        drop(all.remove(last - 1));
        assert_eq!(turns.lock().round().len(), 1);
        assert!(Pin::new(&mut all[last - 1]).poll(&mut cx).is_ready());
    }
}
