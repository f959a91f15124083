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

/// One more session.
pub(crate) fn note(shared: &Arc<Shared>) {
    let mut known = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Known { begun, all }) = known.as_mut() else { return };
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
