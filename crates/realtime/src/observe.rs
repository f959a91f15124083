//! What the sessions of this process are doing, for a program that shows it.
//!
//! Nothing is kept until [`start`] is called, and then only a weak reference to each session.

use crate::shared::Shared;
use headstart_core::realtime::Stats;
use headstart_core::time::Instant;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

static SESSIONS: Mutex<Option<Known>> = Mutex::new(None);

#[derive(Default)]
struct Known {
    begun: u64,
    all: Vec<(u64, Weak<Shared>)>,
    /// What those have done that are gone.
    ended: Totals,
    /// The most that was told.
    told: Totals,
}

/// What all sessions of this process have done since [`start`], those that have ended too. No count ever goes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions that began.
    pub begun: u64,
    /// Messages handed in.
    pub sent: u64,
    /// Messages handed to the program.
    pub received: u64,
    /// Copies that were sent.
    pub copies: u64,
    /// Bytes of messages that were sent, with those of copies.
    pub bytes: u64,
    /// Of these, bytes of copies.
    pub copied_bytes: u64,
    /// Connections that were left because a message on them was overdue.
    pub stalls: u64,
    /// Messages of which a copy was there first.
    pub ahead: u64,
    /// By how much, added up.
    pub saved: Duration,
    /// Values that were dropped for newer ones.
    pub conflated: u64,
}

impl Totals {
    fn each(
        self,
        other: Self,
        number: impl Fn(u64, u64) -> u64,
        time: impl Fn(Duration, Duration) -> Duration,
    ) -> Self {
        Self {
            begun: number(self.begun, other.begun),
            sent: number(self.sent, other.sent),
            received: number(self.received, other.received),
            copies: number(self.copies, other.copies),
            bytes: number(self.bytes, other.bytes),
            copied_bytes: number(self.copied_bytes, other.copied_bytes),
            stalls: number(self.stalls, other.stalls),
            ahead: number(self.ahead, other.ahead),
            saved: time(self.saved, other.saved),
            conflated: number(self.conflated, other.conflated),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add, Duration::saturating_add)
    }
}

impl From<Stats> for Totals {
    /// Of one session; that it began is counted elsewhere.
    fn from(stats: Stats) -> Self {
        Self {
            begun: 0,
            sent: stats.sent,
            received: stats.received,
            copies: stats.copies,
            bytes: stats.bytes,
            copied_bytes: stats.bytes_again,
            stalls: stats.stalls,
            ahead: stats.ahead,
            saved: stats.saved,
            conflated: stats.conflated,
        }
    }
}

/// A session that goes on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Its number among those of this process, from 1 on.
    pub number: u64,
    /// Where its first connection leads, or comes from; not known of streams that the program has opened.
    pub peer: Option<String>,
    /// The technique, by its name in the registry.
    pub technique: String,
    /// For how long it has been there.
    pub age: Duration,
    /// Connections that are open.
    pub connections: usize,
    /// Messages that the peer is not known to have.
    pub unconfirmed: usize,
    /// What has been done so far.
    pub stats: Stats,
}

/// Sessions that begin from now on are listed by [`sessions`].
pub fn start() {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Those that go on, in the order in which they began.
pub fn sessions() -> Vec<Observed> {
    // Looked at without the lock: what is dropped here may be the last of a session.
    let all: Vec<_> = {
        let known = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().flat_map(|known| &known.all).filter_map(|(n, session)| Some((*n, session.upgrade()?))).collect()
    };
    all.iter().filter_map(|(number, shared)| observed(*number, shared)).collect()
}

/// What all of them have done; nothing before [`start`].
pub fn totals() -> Totals {
    let (all, gone) = {
        let known = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_ref() else { return Totals::default() };
        let all: Vec<_> = known.all.iter().filter_map(|(_, session)| session.upgrade()).collect();
        (all, Totals { begun: known.begun, ..known.ended })
    };
    let sum = all.iter().fold(gone, |sum, shared| sum.plus(shared.stats().into()));
    // One that is just going is neither among those that go on nor among those that are gone: what it has done was told before.
    let mut known = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = known.as_mut() else { return sum };
    known.told = known.told.each(sum, u64::max, Duration::max);
    known.told
}

/// A session that was noted is gone, and has done this.
fn gone(done: Stats) {
    let mut known = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_mut() {
        known.ended = known.ended.plus(done.into());
    }
}

/// One more session.
pub(crate) fn note(shared: &Arc<Shared>) {
    let mut known = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Known { begun, all, .. }) = known.as_mut() else { return };
    let _ = shared.noted.set(gone);
    if all.len() == all.capacity() {
        all.retain(|(_, session)| session.strong_count() > 0);
    }
    *begun += 1;
    all.push((*begun, Arc::downgrade(shared)));
}

fn observed(number: u64, shared: &Shared) -> Option<Observed> {
    let now = shared.clock.now();
    let state = shared.lock();
    let messenger = &state.messenger;
    (!state.closed && !messenger.peer_has_left()).then(|| Observed {
        number,
        peer: shared.peer.get().cloned(),
        technique: messenger.technique().to_owned(),
        // Its clock began with it.
        age: now.since(Instant::ZERO),
        connections: messenger.connections(),
        unconfirmed: messenger.on_their_way(),
        stats: messenger.stats(now),
    })
}
