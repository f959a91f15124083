//! A client's place: on the admission until it has authenticated, then among those that are served.

use headstart_realtime::admission::Place;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the module.
pub struct Seat {
    undecided: Mutex<Option<Place>>,
    room: Arc<Semaphore>,
    served: OnceLock<OwnedSemaphorePermit>,
}

impl Seat {
    /// For a client on the admission, which will want room here.
    pub fn new(place: Place, room: Arc<Semaphore>) -> Self {
        Self { undecided: Mutex::new(Some(place)), room, served: OnceLock::new() }
    }

    /// Its client may be served, as long as this lasts; whether there is room.
    pub fn admit(&self) -> bool {
        if self.served.get().is_some() {
            return true;
        }
        let Ok(permit) = self.room.clone().try_acquire_owned() else { return false };
        // Of two at once, one is kept.
        let _ = self.served.set(permit);
        drop(self.undecided());
        true
    }

    fn undecided(&self) -> Option<Place> {
        self.undecided.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Its connection has ended, because its client said nothing for too long if `silent`; or it belongs to a tunnel.
    pub fn ended(&self, silent: bool) {
        self.undecided().filter(|_| silent).iter().for_each(Place::was_silent);
    }
}
