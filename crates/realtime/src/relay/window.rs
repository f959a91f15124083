//! Limits the unconfirmed bytes of relayed streams: each stream has a fixed amount, and may use more from one budget that all streams
//! of this process share.
//!
//! Without a limit, a stream whose far side does not read would fill a whole lane, and a user with a thousand such streams would take a
//! gigabyte. The budget is shared by dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): a stream
//! may use as much of it as is still free. So a single stream gets what its path needs, many get equal parts, and a new one finds room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What each stream may use regardless of others: what an ordinary TCP socket is given to begin with (net.ipv4.tcp_rmem, rounded down). Ours.
const SURE: usize = 64 << 10;
/// The budget that all share; a lane that is full has one megabyte and a quarter. Ours.
const BUDGET: usize = 32 << 20;

/// Bytes of all streams of this process.
pub(super) static OF_PROCESS: Shared = Shared::new(BUDGET);

/// What streams share.
#[derive(Debug)]
pub(super) struct Shared {
    budget: usize,
    held: AtomicUsize,
}

impl Shared {
    const fn new(budget: usize) -> Self {
        Self { budget, held: AtomicUsize::new(0) }
    }
}

/// Messages of one stream that are not confirmed, the oldest first.
#[derive(Debug)]
pub(super) struct Window<'a> {
    shared: &'a Shared,
    sizes: VecDeque<usize>,
    held: usize,
}

impl<'a> Window<'a> {
    pub(super) const fn new(shared: &'a Shared) -> Self {
        Self { shared, sizes: VecDeque::new(), held: 0 }
    }

    /// A message was handed in.
    pub(super) fn took(&mut self, bytes: usize) {
        self.sizes.push_back(bytes);
        self.held += bytes;
        self.shared.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether one more may be, with so many messages unconfirmed.
    pub(super) fn has_room(&mut self, unconfirmed: usize) -> bool {
        while self.sizes.len() > unconfirmed {
            let bytes = self.sizes.pop_front().unwrap_or_default();
            self.held -= bytes;
            self.shared.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        let free = self.shared.budget.saturating_sub(self.shared.held.load(Ordering::Relaxed));
        self.held < SURE.max(free)
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 1200;
    const LANE: usize = 1024;

    /// A stream whose far side confirms nothing takes what it may; how many messages.
    fn fill(window: &mut Window<'_>, most: usize) -> usize {
        let mut count = window.sizes.len();
        while count < most && window.has_room(count) {
            window.took(CHUNK);
            count += 1;
        }
        count
    }

    #[test]
    fn one_stream_alone_has_all_that_a_lane_may_have_and_so_have_a_dozen() {
        let shared = Shared::new(BUDGET);
        let mut windows: Vec<Window<'_>> = (0..12).map(|_| Window::new(&shared)).collect();
        assert!(windows.iter_mut().all(|window| fill(window, LANE) == LANE));
    }

    #[test]
    fn a_thousand_that_nobody_takes_have_the_budget_and_what_is_sure_and_all_is_given_back() {
        let shared = Shared::new(BUDGET);
        let mut windows: Vec<Window<'_>> = (0..1000).map(|_| Window::new(&shared)).collect();
        windows.iter_mut().for_each(|window| _ = fill(window, LANE));
        let held = shared.held.load(Ordering::Relaxed);
        assert!(held <= BUDGET + 1000 * (SURE + CHUNK), "{held}");
        // One that comes then goes on, at the pace of what is confirmed.
        let mut late = Window::new(&shared);
        assert!(fill(&mut late, LANE) >= SURE / CHUNK);
        assert!(!late.has_room(SURE / CHUNK + 1) && late.has_room(SURE / CHUNK));
        drop((windows, late));
        assert_eq!(shared.held.load(Ordering::Relaxed), 0);
    }
}
