//! A client's place: on the admission until it has authenticated, or asked for something, then among those that are served. What
//! `proxy` and the small servers of this host have in common.

use headstart_realtime::admission::Place;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of all connections, one of several users may have a part: a quarter, as with the ports of a relay. Ours.
const PARTS: usize = 4;

/// The connections of clients that have authenticated: so many at a time, and no user has more than its part of them.
pub struct Room {
    all: Arc<Semaphore>,
    users: Vec<Arc<Semaphore>>,
}

impl Room {
    /// For at most `most` connections of `users` users. One user alone takes nothing from others, and may have all.
    pub fn new(most: usize, users: usize) -> Self {
        let part = if users > 1 { most.div_ceil(PARTS) } else { most };
        let users = std::iter::repeat_with(|| Arc::new(Semaphore::new(part))).take(users).collect();
        Self { all: Arc::new(Semaphore::new(most)), users }
    }

    fn enter(&self, user: usize) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = self.users.get(user)?.clone().try_acquire_owned().ok()?;
        Some([own, self.all.clone().try_acquire_owned().ok()?])
    }
}

/// See the module.
pub struct Seat {
    undecided: Mutex<Option<Place>>,
    room: Arc<Room>,
    served: OnceLock<[OwnedSemaphorePermit; 2]>,
}

impl Seat {
    /// For a client on the admission, which will want room here.
    pub fn new(place: Place, room: Arc<Room>) -> Self {
        Self { undecided: Mutex::new(Some(place)), room, served: OnceLock::new() }
    }

    /// Its client, which is `user`, may be served, as long as this lasts; whether there is room.
    pub fn admit(&self, user: usize) -> bool {
        if self.served.get().is_some() {
            return true;
        }
        let Some(permits) = self.room.enter(user) else { return false };
        // Of two at once, one is kept.
        let _ = self.served.set(permits);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_users_has_a_quarter_and_one_alone_has_all() {
        let room = Room::new(8, 2);
        let of_one: Vec<_> = (0..8).map_while(|_| room.enter(0)).collect();
        assert_eq!(of_one.len(), 2);
        assert!(room.enter(1).is_some() && room.enter(2).is_none());
        drop(of_one);
        assert!(room.enter(0).is_some(), "what has ended gives its place back");
        let alone = Room::new(8, 1);
        assert_eq!((0..20).map_while(|_| alone.enter(0)).collect::<Vec<_>>().len(), 8);
    }
}
