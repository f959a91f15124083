//! Which answers of a connection end because the client takes nothing of them, while it may take others: so that a client that
//! fetches something small now and then does not keep a hundred others for ever.
//!
//! An answer hands out a piece when the one before was taken. One that hands out none may wait for its client, or for others
//! before it on a slow link. The link is told by what is under way: when all that was sent is acknowledged, and an answer still
//! does not go on, it is its client that gives no credit. When something is under way, and enough of it gets through for all
//! that wait, none of them has stalled. Ours.

use super::turns::Turns;
use hyper::body::Bytes;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a client may take nothing of an answer, over any version of HTTP.
pub const STALLED: Duration = Duration::from_secs(20);
/// Bytes in that time that are more than keeps a connection alive: a word each ten seconds, and its acknowledgement.
pub const MOVING: u64 = 512;
/// How often that is looked at.
pub const LOOK: Duration = Duration::from_secs(5);

/// Bytes of a piece for a client that takes little, and for any other.
const LEAST: usize = 1024;
const MOST: usize = 16 * 1024;
/// A piece that takes longer is followed by the smallest, so that what is taken of it shows.
const SLOW: Duration = Duration::from_secs(1);

/// Cuts what is sent into pieces, small ones for slow clients. The last byte is a piece: it is handed out when there is credit
/// for it, so that an answer is under way until its client may have all of it.
#[derive(Debug)]
pub struct Pieces {
    rest: Bytes,
    size: usize,
    handed: Instant,
}

impl Pieces {
    /// Nothing yet. Inside a runtime only, for its clock.
    pub fn new() -> Self {
        Self { rest: Bytes::new(), size: LEAST, handed: Instant::now() }
    }

    /// What is to be sent next.
    pub fn fill(&mut self, bytes: Bytes) {
        self.rest = bytes;
    }

    /// Bytes that were not handed out.
    pub fn left(&self) -> u64 {
        self.rest.len() as u64
    }

    /// All that was not handed out; `None` if more is to be filled in.
    pub fn all(&mut self) -> Option<Bytes> {
        Some(std::mem::take(&mut self.rest)).filter(|rest| !rest.is_empty())
    }

    /// The next piece; `None` if more is to be filled in. `is_last`: nothing will be filled in any more.
    pub fn next(&mut self, is_last: bool) -> Option<Bytes> {
        let now = Instant::now();
        self.size = if now.duration_since(self.handed) > SLOW { LEAST } else { (2 * self.size).min(MOST) };
        self.handed = now;
        let length = match self.rest.len() {
            0 => return None,
            1 => 1,
            all if is_last => (all - 1).min(self.size),
            all => all.min(self.size),
        };
        Some(self.rest.split_to(length))
    }
}

/// How an answer goes on.
#[derive(Debug, Default)]
pub struct Progress {
    pieces: AtomicU64,
    /// A piece was handed out, and no other was asked for.
    waits: AtomicBool,
    over: Notify,
}

impl Progress {
    /// A piece is asked for: what it takes to get it is not the client's fault.
    pub fn is_asked(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// A piece was handed out.
    pub fn has_handed(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.waits.store(true, Ordering::Relaxed);
    }
}

/// What the path has carried since the last look.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// All that was sent has been acknowledged.
    pub is_empty: bool,
    /// Bytes that got through.
    pub moved: u64,
}

impl Path {
    /// Whether so many answers may wait for each other: enough gets through in `time` for all.
    pub fn is_busy(self, answers: u64, time: Duration) -> bool {
        let due = MOVING * answers * time.as_secs() / STALLED.as_secs();
        !self.is_empty && self.moved >= due
    }
}

/// The answers under way of a connection of HTTP/2. An executor of its streams, which gives them the turns of its address.
#[derive(Clone, Debug)]
pub struct Streams {
    turns: Arc<Turns>,
    group: IpAddr,
    watched: Arc<Mutex<Vec<Watched>>>,
}

#[derive(Debug)]
struct Watched {
    progress: Weak<Progress>,
    pieces: u64,
    silent: Duration,
}

tokio::task_local! {
    /// The stream that is being polled.
    static OWN: Arc<Progress>;
}

/// How the answer goes on that is being made; `None` outside the streams of HTTP/2.
pub fn own() -> Option<Arc<Progress>> {
    OWN.try_with(Arc::clone).ok()
}

impl Streams {
    /// None, of a connection of `group`.
    pub fn new(turns: Arc<Turns>, group: IpAddr) -> Self {
        Self { turns, group, watched: Arc::default() }
    }

    fn watch(&self) -> Arc<Progress> {
        let progress = Arc::<Progress>::default();
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|watched| watched.progress.strong_count() > 0);
        watched.push(Watched { progress: Arc::downgrade(&progress), pieces: 0, silent: Duration::ZERO });
        progress
    }

    /// Looks at all answers, `passed` after the last look: those that their client has not taken anything of for too long end. Whether
    /// there were such.
    pub fn look(&self, passed: Duration, path: Path) -> bool {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|watched| watched.progress.strong_count() > 0);
        let is_busy = path.is_busy(all.len() as u64, passed);
        let mut any = false;
        for watched in all.iter_mut() {
            let Some(progress) = watched.progress.upgrade() else { continue };
            let pieces = progress.pieces.load(Ordering::Relaxed);
            if pieces != watched.pieces || !progress.waits.load(Ordering::Relaxed) {
                (watched.pieces, watched.silent) = (pieces, Duration::ZERO);
            } else if !is_busy {
                watched.silent += passed;
            }
            if watched.silent >= STALLED {
                progress.over.notify_one();
                any = true;
            }
        }
        any
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, work: F) {
        let progress = self.watch();
        let work = OWN.scope(progress.clone(), work);
        tokio::spawn(self.turns.of(self.group, async move {
            tokio::select! {
                _ = work => {}
                // What is dropped is reset (CANCEL).
                () = progress.over.notified() => {}
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Path = Path { is_empty: true, moved: 0 };

    fn streams() -> Streams {
        Streams::new(Arc::default(), [192, 0, 2, 1].into())
    }

    fn is_over(progress: &Progress) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(progress.over.notified()).poll(&mut cx).is_ready()
    }

    /// Looks for as long as a stream may take nothing.
    fn looks(streams: &Streams, path: Path, mut between: impl FnMut()) {
        for _ in 0..STALLED.as_secs() / LOOK.as_secs() {
            between();
            streams.look(LOOK, path);
        }
    }

    #[test]
    fn answers_that_are_not_taken_end_beside_one_that_is() {
        let streams = streams();
        let (taken, stalled) = (streams.watch(), streams.watch());
        stalled.has_handed();
        streams.look(LOOK, EMPTY);
        // What the busy one fetches has arrived whenever it is looked at.
        let fetched = Path { is_empty: true, moved: 1_000_000 };
        looks(&streams, fetched, || taken.has_handed());
        assert!(is_over(&stalled) && !is_over(&taken));
        drop(stalled);
        taken.has_handed();
        assert!(!streams.look(LOOK, fetched));
    }

    #[test]
    fn answers_wait_for_each_other_on_a_slow_link() {
        let streams = streams();
        let all: Vec<_> = (0..128).map(|_| streams.watch()).collect();
        all.iter().for_each(|answer| answer.has_handed());
        // 8 kB/s, of which each gets 62 B/s: a piece of the largest takes four minutes.
        let slow = Path { is_empty: false, moved: 8_000 * LOOK.as_secs() };
        (0..12).for_each(|_| looks(&streams, slow, || ()));
        assert!(!all.iter().any(|answer| is_over(answer)));
        // A client that keeps its link full by next to nothing keeps nothing.
        looks(&streams, Path { is_empty: false, moved: 1_000 }, || ());
        assert!(all.iter().all(|answer| is_over(answer)));
    }

    #[test]
    fn who_waits_for_a_disk_is_not_left() {
        let streams = streams();
        let answer = streams.watch();
        answer.has_handed();
        answer.is_asked();
        looks(&streams, EMPTY, || ());
        looks(&streams, EMPTY, || ());
        assert!(!is_over(&answer));
        answer.has_handed();
        streams.look(LOOK, EMPTY);
        looks(&streams, EMPTY, || ());
        assert!(is_over(&answer));
    }

    #[test]
    fn what_is_over_is_not_watched() {
        let streams = streams();
        let first = streams.watch();
        drop(streams.watch());
        streams.look(LOOK, EMPTY);
        assert_eq!(streams.watched.lock().unwrap().len(), 1);
        drop(first);
        streams.look(LOOK, EMPTY);
        assert!(streams.watched.lock().unwrap().is_empty());
    }

    #[test]
    fn pieces_are_the_whole_in_order_and_the_last_byte_is_one() {
        let all = Bytes::from((0..100_000u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
        let mut pieces = Pieces::new();
        let mut seen = Vec::new();
        for (half, is_last) in [(all.slice(..40_000), false), (all.slice(40_000..), true)] {
            pieces.fill(half);
            seen.extend(std::iter::from_fn(|| pieces.next(is_last)));
        }
        assert!(seen.concat() == all && pieces.left() == 0);
        assert_eq!((seen[0].len(), seen.last().unwrap().len()), (2 * LEAST, 1));
        assert!(seen.iter().all(|piece| piece.len() <= MOST));
        // A client that was slow to take one gets the smallest.
        pieces.fill(all);
        pieces.handed -= 2 * SLOW;
        assert_eq!(pieces.next(true).unwrap().len(), LEAST);
    }
}
