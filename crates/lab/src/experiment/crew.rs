//! Work that is done by several threads at once, each taking what comes next. What each does is its own; nothing is shared.

use crate::lock;
use std::sync::Mutex;

/// Does `work` on each of `all`, `workers` at once, until one of them fails; what came of them, in their order.
pub(super) fn each<T: Send, R: Send>(
    workers: usize,
    all: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let (rest, done) = (Mutex::new(all.enumerate()), Mutex::new(Vec::new()));
    let take = || -> anyhow::Result<()> {
        loop {
            // In a line of its own, so that the others are not locked out while this one works.
            let next = lock(&rest).next();
            let Some((n, next)) = next else { return Ok(()) };
            let result = work(next)?;
            lock(&done).push((n, result));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(take)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a worker panicked")))
    })?;
    let mut done = std::mem::take(&mut *lock(&done));
    done.sort_by_key(|(n, _)| *n);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
