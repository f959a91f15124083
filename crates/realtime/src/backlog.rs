//! Sessions that wait for the program to accept them: bounded in number, by network and in what they keep.
//!
//! A network ([`Network`]) has a sixteenth of the places, and more while less than half of all are taken. Where all are taken, the
//! newest of the network that has most gives way to one of a network that has less. The program is given one of each network in its
//! turn, so that a flood from one address delays others by one session. What waits keeps no more than a program would that is slow to
//! read; where many wait, each has one connection and keeps few bytes.

use crate::admission::{Network, SHARE};
use crate::session::Session;
use crate::shared::Room;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The part of the places beyond which sessions are confined. Ours.
const CROWDED: usize = 8;

/// What may wait: a session, or in tests a number.
pub(crate) trait Waits {
    /// It keeps so much until it is accepted; `None`: it is.
    fn confine(&self, room: Option<Room>);
    /// Whether nothing is to be had of it any more.
    fn is_spent(&self) -> bool;
}

impl Waits for Session {
    fn confine(&self, room: Option<Room>) {
        Session::confine(self, room);
    }

    fn is_spent(&self) -> bool {
        Session::is_spent(self)
    }
}

/// See the module.
pub(crate) struct Backlog<S = Session> {
    most: usize,
    lines: Mutex<Lines<S>>,
    came: Notify,
}

struct Lines<S> {
    /// A line for each network that has any, the next first.
    turns: VecDeque<(Network, VecDeque<S>)>,
    closed: bool,
}

impl<S> Lines<S> {
    fn count(&self) -> usize {
        self.turns.iter().map(|(_, line)| line.len()).sum()
    }

    fn of(&self, from: Network) -> usize {
        self.turns.iter().find(|(of, _)| *of == from).map_or(0, |(_, line)| line.len())
    }

    /// The network that has most of those that give way to `other`, and how many: those that are bounded, and among users of this host each.
    fn heaviest(&mut self, other: Network) -> Option<(usize, &mut VecDeque<S>)> {
        let gives_way = |of: &Network| of.is_bounded() || (of.is_own() && other.is_own());
        let lines = self.turns.iter_mut().filter(|(of, _)| gives_way(of));
        lines.map(|(_, line)| (line.len(), line)).max_by_key(|(count, _)| *count)
    }

    /// Takes out what is spent.
    fn spent(&mut self) -> Vec<S>
    where
        S: Waits,
    {
        let mut out = Vec::new();
        for (_, line) in &mut self.turns {
            let (spent, left): (VecDeque<S>, VecDeque<S>) = line.drain(..).partition(S::is_spent);
            *line = left;
            out.extend(spent);
        }
        self.turns.retain(|(_, line)| !line.is_empty());
        out
    }
}

impl<S: Waits> Backlog<S> {
    /// With so many places.
    pub fn new(most: usize) -> Self {
        let lines = Lines { turns: VecDeque::new(), closed: false };
        Self { most, lines: Mutex::new(lines), came: Notify::new() }
    }

    fn lines(&self) -> MutexGuard<'_, Lines<S>> {
        // Each change is one call.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more of this network may wait.
    pub fn has_room(&self, from: Network) -> bool {
        let mut lines = self.lines();
        let share = (self.most / SHARE).max(1);
        let admits = |lines: &mut Lines<S>| {
            let (count, own) = (lines.count(), lines.of(from));
            let has_share = !from.is_bounded() || own < share;
            let mut yields = || lines.heaviest(from).is_some_and(|(most, _)| most > own + 1);
            count < self.most / 2 || has_share && (count < self.most || yields())
        };
        if admits(&mut lines) {
            return true;
        }
        let gone = lines.spent();
        let admitted = admits(&mut lines);
        drop(lines);
        // Outside of the lock: a session ends with its handle.
        drop(gone);
        admitted
    }

    /// One more waits; there was room. Of two that found the last place at once, both have it.
    pub fn put(&self, from: Network, session: S) {
        let mut lines = self.lines();
        if lines.closed {
            return;
        }
        let count = lines.count();
        let own = lines.of(from);
        let away = match lines.heaviest(from) {
            Some((most, line)) if count >= self.most && most > own + 1 => line.pop_back(),
            _ => None,
        };
        session.confine(Some(if count >= self.most / CROWDED { Room::Little } else { Room::Ample }));
        match lines.turns.iter_mut().find(|(of, _)| *of == from) {
            Some((_, line)) => line.push_back(session),
            None => lines.turns.push_back((from, VecDeque::from([session]))),
        }
        drop(lines);
        drop(away);
        self.came.notify_one();
    }

    fn next(&self) -> Option<S> {
        let mut lines = self.lines();
        let (from, mut line) = lines.turns.pop_front()?;
        let session = line.pop_front();
        if !line.is_empty() {
            lines.turns.push_back((from, line));
        }
        session
    }

    /// Waits for the next one.
    pub async fn take(&self) -> S {
        loop {
            let came = self.came.notified();
            if let Some(session) = self.next() {
                // One that came meanwhile is for another that waits here.
                if !self.lines().turns.is_empty() {
                    self.came.notify_one();
                }
                session.confine(None);
                return session;
            }
            came.await;
        }
    }

    /// Nothing is accepted any more: what waits ends, and what comes.
    pub fn close(&self) {
        let gone = {
            let mut lines = self.lines();
            lines.closed = true;
            std::mem::take(&mut lines.turns)
        };
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::IpAddr;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    /// A session of a test: its name, what it may keep, and whether it is spent.
    #[derive(Clone, Debug)]
    struct Named(u32, Rc<Cell<Option<Room>>>, Rc<Cell<bool>>);

    impl Waits for Named {
        fn confine(&self, room: Option<Room>) {
            self.1.set(room);
        }

        fn is_spent(&self) -> bool {
            self.2.get()
        }
    }

    fn named(name: u32) -> Named {
        Named(name, Rc::default(), Rc::default())
    }

    fn from(text: &str) -> Network {
        Network::of(Some(text.parse::<IpAddr>().unwrap()))
    }

    fn comes(backlog: &Backlog<Named>, address: &str, name: u32) -> bool {
        let has = backlog.has_room(from(address));
        if has {
            backlog.put(from(address), named(name));
        }
        has
    }

    fn taken(backlog: &Backlog<Named>) -> Option<Named> {
        match pin!(backlog.take()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(session) => Some(session),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_flood_from_one_network_delays_another_by_one_session() {
        let backlog = Backlog::new(64);
        let came = (0..1000).filter(|n| comes(&backlog, "198.51.100.1", *n)).count();
        assert_eq!(came, 32, "half are kept for others");
        assert!(comes(&backlog, "192.0.2.7", 7777));
        assert_eq!([(); 3].map(|()| taken(&backlog).unwrap().0), [0, 7777, 1]);
        assert!(comes(&backlog, "198.51.100.1", 1000), "there is room again");
    }

    #[test]
    fn where_all_places_are_taken_the_newest_of_the_heaviest_gives_way() {
        let backlog = Backlog::new(64);
        let came = (0..4000).filter(|n| comes(&backlog, &format!("198.51.100.{}", n % 20), *n)).count();
        assert_eq!(came, 64);
        let newest =
            |backlog: &Backlog<Named>| backlog.lines().turns.iter().map(|(_, line)| line.back().unwrap().0).max();
        let before = newest(&backlog);
        assert!(comes(&backlog, "192.0.2.7", 0), "others get in");
        assert!(backlog.lines().count() == 64 && newest(&backlog) <= before);
        assert!(!comes(&backlog, "198.51.100.3", 0), "one that has as much as any does not");
    }

    #[test]
    fn programs_of_this_host_may_have_all_places_and_keep_them() {
        let backlog = Backlog::new(64);
        assert!((0..20).all(|n| comes(&backlog, "198.51.100.1", n)));
        assert!((0..44).all(|n| comes(&backlog, "127.0.0.1", n)));
        assert!(comes(&backlog, "192.0.2.7", 44), "another network gives way");
        assert_eq!([Network::Own, from("198.51.100.1")].map(|of| backlog.lines().of(of)), [44, 19]);
    }

    #[test]
    fn one_user_of_this_host_gives_way_to_another() {
        let backlog = Backlog::new(64);
        let comes = |user, name| {
            let has = backlog.has_room(Network::User(user));
            if has {
                backlog.put(Network::User(user), named(name));
            }
            has
        };
        assert_eq!((0..100).filter(|n| comes(1000, *n)).count(), 64, "alone it has all");
        assert!(comes(1001, 100) && !comes(1000, 101), "its newest is not for itself");
        assert_eq!([1000, 1001].map(|user| backlog.lines().of(Network::User(user))), [63, 1]);
    }

    #[test]
    fn those_that_wait_among_many_keep_little_until_they_are_accepted() {
        let backlog = Backlog::new(64);
        assert!((0..9).all(|n| comes(&backlog, "198.51.100.1", n)));
        let rooms: Vec<_> = backlog.lines().turns[0].1.iter().map(|session| session.1.get()).collect();
        let of = |room| rooms.iter().filter(|of| **of == Some(room)).count();
        assert_eq!((of(Room::Little), of(Room::Ample)), (1, rooms.len() - 1), "{rooms:?}");
        let mut last = None;
        while let Some(session) = taken(&backlog) {
            assert_eq!(session.1.get(), None);
            last = Some(session.0);
        }
        assert_eq!(last, Some(8));
    }

    #[test]
    fn what_has_left_makes_room_before_others_are_refused() {
        let backlog = Backlog::new(4);
        assert!((0..4).all(|n| comes(&backlog, "127.0.0.1", n)) && !comes(&backlog, "127.0.0.1", 4));
        backlog.lines().turns[0].1[2].2.set(true);
        assert!(comes(&backlog, "127.0.0.1", 5));
        let names: Vec<u32> = std::iter::from_fn(|| taken(&backlog)).map(|session| session.0).collect();
        assert_eq!(names, [0, 1, 3, 5]);
        backlog.close();
        backlog.put(Network::Own, named(9));
        assert!(taken(&backlog).is_none());
    }

    #[test]
    fn two_that_wait_are_given_one_each() {
        let backlog = Backlog::new(4);
        let (mut first, mut second) = (pin!(backlog.take()), pin!(backlog.take()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending());
        assert!(comes(&backlog, "127.0.0.1", 0) && comes(&backlog, "127.0.0.1", 1));
        assert!(first.as_mut().poll(&mut cx).is_ready() && second.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn where_half_is_taken_a_network_has_its_share_and_no_more() {
        let backlog = Backlog::new(64);
        let came = |address: &str| (0..100).filter(|n| comes(&backlog, address, *n)).count();
        assert_eq!([came("198.51.100.1"), came("192.0.2.7"), came("192.0.2.8")], [32, 4, 4]);
        assert_eq!(backlog.lines().count(), 40);
    }

    #[test]
    fn among_networks_that_have_one_each_none_gives_way() {
        let backlog = Backlog::new(4);
        for (address, has) in [("192.0.2.1", true), ("192.0.2.1", true), ("192.0.2.1", false)] {
            assert_eq!(comes(&backlog, address, 1), has);
        }
        assert!(comes(&backlog, "192.0.2.2", 2) && comes(&backlog, "192.0.2.3", 3));
        assert!(comes(&backlog, "192.0.2.4", 4), "the second of the first gives way");
        assert!(!comes(&backlog, "192.0.2.5", 5));
        let names: Vec<u32> = std::iter::from_fn(|| taken(&backlog)).map(|session| session.0).collect();
        assert_eq!(names, [1, 2, 3, 4]);
    }

    #[test]
    fn of_two_that_found_the_last_place_both_have_it() {
        let backlog = Backlog::new(2);
        [1, 2, 3].into_iter().for_each(|n| backlog.put(from(&format!("192.0.2.{n}")), named(n)));
        assert_eq!(backlog.lines().count(), 3);
    }
}
