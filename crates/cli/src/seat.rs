//! A client's place: on the admission until it has authenticated, or asked for something, then among those that are served. What
//! `proxy` and the small servers of this host have in common.

use headstart_realtime::admission::Place;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Of all connections, one of several users may have a part: a quarter, as with the ports of a relay. Ours.
const PARTS: usize = 4;
/// Where users are not listed, what each has at any time: a part of all. As much as one may have is left to the others. Ours.
const FEW: usize = 16;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    /// One of a list.
    Listed(usize),
    /// One of this host; none where it is not known which.
    Own(Option<u32>),
}

/// The connections of clients that have authenticated: so many at a time, and no user has more than its part of them.
pub struct Room {
    /// What one user may have.
    part: usize,
    /// What all may have, ...
    most: usize,
    /// ... and what is left beyond to users that have few, and how many those are.
    left: usize,
    few: usize,
    open: Mutex<HashMap<User, usize>>,
}

impl Room {
    /// For at most `most` connections of `users` users. One user alone takes nothing from others, and may have all.
    pub fn new(most: usize, users: usize) -> Arc<Self> {
        let part = if users > 1 { most.div_ceil(PARTS) } else { most };
        Arc::new(Self { part, most, left: 0, few: 0, open: Mutex::default() })
    }

    /// For `most` connections of this host's users, who are not known beforehand: any may have all, and a quarter more is left to others.
    pub fn of_host(most: usize) -> Arc<Self> {
        Arc::new(Self { part: most, most, left: most.div_ceil(PARTS), few: most.div_ceil(FEW), open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<User, usize>> {
        // Each change is one call.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, user: User) -> Option<Served> {
        let mut open = self.open();
        let (all, own) = (open.values().sum::<usize>(), open.get(&user).copied().unwrap_or_default());
        let most = if own < self.few { self.most + self.left } else { self.most };
        if own >= self.part || all >= most {
            return None;
        }
        open.insert(user, own + 1);
        drop(open);
        Some(Served { room: Arc::clone(self), user })
    }
}

/// One of the connections that are served, until it is dropped.
struct Served {
    room: Arc<Room>,
    user: User,
}

impl Drop for Served {
    fn drop(&mut self) {
        let mut open = self.room.open();
        match open.get_mut(&self.user) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = open.remove(&self.user),
        }
    }
}

/// See the module.
pub struct Seat {
    undecided: Mutex<Option<Place>>,
    own: Option<u32>,
    room: Arc<Room>,
    served: OnceLock<Served>,
}

impl Seat {
    /// For a client on the admission, which will want room here.
    pub fn new(place: Place, room: Arc<Room>) -> Self {
        Self { own: place.user(), undecided: Mutex::new(Some(place)), room, served: OnceLock::new() }
    }

    /// The user of this host that its client is, as far as that is known.
    pub fn own(&self) -> User {
        User::Own(self.own)
    }

    /// Its client, which is `user`, may be served, as long as this lasts; whether there is room.
    pub fn admit(&self, user: User) -> bool {
        if self.served.get().is_some() {
            return true;
        }
        let Some(served) = self.room.enter(user) else { return false };
        // Of two at once, one is kept.
        let _ = self.served.set(served);
        drop(self.undecided());
        true
    }

    /// Its client has said something wrong, as one does that tries passwords: its network is penalised.
    pub fn was_wrong(&self) {
        self.undecided.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Place::was_silent);
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
        let of_one: Vec<_> = (0..8).map_while(|_| room.enter(User::Listed(0))).collect();
        assert_eq!(of_one.len(), 2);
        assert!(room.enter(User::Listed(1)).is_some());
        drop(of_one);
        assert!(room.enter(User::Listed(0)).is_some(), "what has ended gives its place back");
        let alone = Room::new(8, 1);
        assert_eq!((0..20).map_while(|_| alone.enter(User::Listed(0))).collect::<Vec<_>>().len(), 8);
    }

    #[test]
    fn one_user_of_the_host_has_all_and_more_are_left_to_others() {
        let room = Room::of_host(64);
        let all = |user| std::iter::from_fn(|| room.enter(User::Own(user))).collect::<Vec<_>>();
        let (of_one, of_another) = (all(Some(1000)), all(Some(1001)));
        assert_eq!((of_one.len(), of_another.len()), (64, 4));
        let kept: Vec<_> = [Some(1002), None, Some(1003), Some(1004)].into_iter().map(all).collect();
        assert_eq!(kept.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4, 0], "there is an end");
        drop((of_one, of_another, kept));
        assert!(room.open().is_empty());
    }
}
