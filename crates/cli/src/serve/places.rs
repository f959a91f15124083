//! Places for connections and for answers under way, so that no number of strangers costs more memory and descriptors than
//! that. A free place is never refused, however many one address holds: only when all are taken, the connection that
//! has moved least lately, of the address that holds most, gives way to a newcomer (max-min fairness between addresses).

use headstart_core::path::identity::prefix;
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// What moved within this time does not give way to one more of those that hold as much as its own address.
const FRESH: Duration = Duration::from_secs(1);
/// In milliseconds: how often all are looked through for an address that has as many answers as any.
const SELDOM: u64 = 100;
/// What one customer of a network may choose its addresses from (RFC 6177 has sites of /48 to /56).
const SITE: u8 = 56;

/// Looks at the disk that any connection may have under way, and beyond those each address: together no more than there are threads
/// for it while sixteen addresses are busy, so that others find one free.
const LOOKS: usize = 32;
const LOOKS_OF_ADDRESS: usize = 2;

/// All places.
#[derive(Debug)]
pub struct Places {
    looks: Arc<Semaphore>,
    most_connections: usize,
    most_answers: usize,
    clock: Clock,
    refused: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    held: HashMap<u64, Held>,
    groups: HashMap<IpAddr, Weight>,
    answers: usize,
    /// When all were looked through last for one more answer.
    looked: u64,
}

/// What the connections of an address hold together.
#[derive(Debug)]
struct Weight {
    connections: usize,
    answers: usize,
    looks: Arc<Semaphore>,
}

impl Default for Weight {
    fn default() -> Self {
        Self { connections: 0, answers: 0, looks: Arc::new(Semaphore::new(LOOKS_OF_ADDRESS)) }
    }
}

#[derive(Debug)]
struct Held {
    group: IpAddr,
    answers: usize,
    moved: Arc<AtomicU64>,
    leave: Arc<Notify>,
}

/// A connection's place, until it is dropped or told to leave.
#[derive(Debug)]
pub struct Place {
    all: Arc<Places>,
    id: u64,
    group: IpAddr,
    looks: Arc<Semaphore>,
    /// When something last moved, in milliseconds and one; 0: never.
    moved: Arc<AtomicU64>,
    leave: Arc<Notify>,
}

/// An answer under way.
#[derive(Debug)]
pub struct Turn(Arc<Place>);

impl Places {
    /// So many connections, and so many answers of all of them together.
    pub fn new(most_connections: usize, most_answers: usize) -> Arc<Self> {
        let state = Mutex::new(State::default());
        let looks = Arc::new(Semaphore::new(LOOKS));
        let (clock, refused) = (Clock::new(), AtomicU64::new(0));
        Arc::new(Self { looks, most_connections, most_answers, clock, refused, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves numbers behind, no broken promise.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether more than half of all connections are there.
    pub fn is_half_full(&self) -> bool {
        self.lock().held.len() >= self.most_connections / 2
    }

    /// Connections and answers that there are.
    pub fn held(&self) -> (usize, usize) {
        let state = self.lock();
        (state.held.len(), state.answers)
    }

    /// Connections for which there was no place.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A place for a connection from `address`; `None` if all are taken by such as move and hold no more than it would.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Place>> {
        let address = address.to_canonical();
        let group = prefix(address, if address.is_ipv4() { 32 } else { SITE });
        let mut state = self.lock();
        if state.held.len() >= self.most_connections {
            let Some(victim) = state.weakest(group, self.fresh(), |weight| weight.connections, |_| true) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            state.leave(victim);
        }
        state.next += 1;
        let (id, moved, leave) = (state.next, Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        state.held.insert(id, Held { group, answers: 0, moved: moved.clone(), leave: leave.clone() });
        let weight = state.groups.entry(group).or_default();
        weight.connections += 1;
        let looks = weight.looks.clone();
        Some(Arc::new(Place { all: self.clone(), id, group, looks, moved, leave }))
    }

    /// What moved since then is fresh.
    fn fresh(&self) -> u64 {
        self.moment().saturating_sub(u64::try_from(FRESH.as_millis()).unwrap_or(0)).max(1)
    }

    fn moment(&self) -> u64 {
        u64::try_from(self.clock.now().since(Instant::ZERO).as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

impl State {
    /// Which connection gives way to something of `group`.
    fn weakest(
        &self,
        group: IpAddr,
        fresh: u64,
        weight: impl Fn(&Weight) -> usize,
        may: impl Fn(&Held) -> bool,
    ) -> Option<u64> {
        let heaviest = self.groups.values().map(&weight).max()?;
        let of = |group: &IpAddr| self.groups.get(group).map_or(0, &weight);
        let all = self.held.iter().filter(|(_, held)| may(held) && of(&held.group) == heaviest);
        let moved = |held: &Held| held.moved.load(Ordering::Relaxed);
        let (id, held) = all.min_by_key(|(id, held)| (moved(held), **id))?;
        let is_heavier = of(&group) + 1 < heaviest;
        (is_heavier || moved(held) < fresh).then_some(*id)
    }

    /// Tells the connection to leave; what it held is free.
    fn leave(&mut self, id: u64) {
        if let Some(held) = self.held.remove(&id) {
            held.leave.notify_one();
            self.answers -= held.answers;
            if let Some(weight) = self.groups.get_mut(&held.group) {
                weight.connections -= 1;
                weight.answers -= held.answers;
                if weight.connections == 0 {
                    self.groups.remove(&held.group);
                }
            }
        }
    }
}

impl Place {
    /// Something came from the other side, or was taken by it.
    pub fn has_moved(&self) {
        self.moved.store(self.all.moment(), Ordering::Relaxed);
    }

    /// The address or site that it counts for.
    pub fn group(&self) -> IpAddr {
        self.group
    }

    /// Waits until it may look at the disk, which holds up a thread.
    pub async fn look(&self) -> Option<OwnedSemaphorePermit> {
        match self.all.looks.clone().try_acquire_owned() {
            Ok(look) => Some(look),
            // Closed by nothing.
            Err(_) => self.looks.clone().acquire_owned().await.ok(),
        }
    }

    /// Returns when another is to have the place.
    pub async fn must_leave(&self) {
        self.leave.notified().await;
    }

    /// Whether answers of this connection are under way.
    pub fn is_answering(&self) -> bool {
        self.answers() > 0
    }

    /// How many they are.
    pub fn answers(&self) -> usize {
        self.all.lock().held.get(&self.id).map_or(0, |held| held.answers)
    }

    /// One more answer; `None` if all are taken, or the place is gone.
    pub fn answer(self: &Arc<Self>) -> Option<Turn> {
        let fresh = self.all.fresh();
        let mut state = self.all.lock();
        let group = state.held.get(&self.id)?.group;
        if state.answers >= self.all.most_answers {
            let weights = state.groups.values().map(|weight| weight.answers);
            let is_heaviest = state.groups.get(&group).is_some_and(|own| own.answers + 1 >= weights.max().unwrap_or(0));
            let now = self.all.moment();
            // Looking through all is dear, and an address with as much as any asks often: others do not wait for that.
            if is_heaviest && now < state.looked + SELDOM {
                return None;
            }
            state.looked = now;
            let victim = state.weakest(group, fresh, |weight| weight.answers, |held| held.answers > 0)?;
            if victim == self.id {
                return None;
            }
            state.leave(victim);
        }
        state.answers += 1;
        state.held.get_mut(&self.id)?.answers += 1;
        state.groups.entry(group).or_default().answers += 1;
        Some(Turn(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.lock().leave(self.id);
    }
}

impl Turn {
    /// A piece of the answer was taken.
    pub fn has_moved(&self) {
        self.0.has_moved();
    }

    /// Whether so many answers are under way that each is to keep little in memory.
    pub fn is_scarce(&self) -> bool {
        self.0.all.lock().answers > self.0.all.most_answers / 8
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.all.lock();
        let Some(held) = state.held.get_mut(&self.0.id) else { return };
        held.answers -= 1;
        let group = held.group;
        state.answers -= 1;
        if let Some(weight) = state.groups.get_mut(&group) {
            weight.answers -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    /// Whether it must leave now.
    fn must_leave(place: &Place) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(place.must_leave()).poll(&mut cx).is_ready()
    }

    #[test]
    fn an_address_that_looks_at_the_disk_without_end_leaves_threads_to_others() {
        let places = Places::new(9, 9);
        let looks = |place: &Place| {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            match std::pin::pin!(place.look()).poll(&mut cx) {
                std::task::Poll::Ready(look) => look,
                std::task::Poll::Pending => None,
            }
        };
        let busy: Vec<_> = (0..16).map(|n| places.enter(ip(n)).unwrap()).collect();
        let held: Vec<_> = (0..16 * 100).filter_map(|n| looks(&busy[n % 16])).collect();
        assert_eq!(held.len(), LOOKS + 16 * LOOKS_OF_ADDRESS);
        assert!(held.len() <= super::super::WAITING && looks(&places.enter(ip(77)).unwrap()).is_some());
        drop(held);
        assert!(looks(&busy[0]).is_some());
    }

    #[test]
    fn a_free_place_is_never_refused_and_a_left_one_is_free() {
        let places = Places::new(3, 3);
        let all: Vec<_> = (0..3).map(|_| places.enter(ip(1)).unwrap()).collect();
        let turns: Vec<_> = (0..3).map(|_| all[0].answer().unwrap()).collect();
        assert!(all.iter().all(|place| !must_leave(place)) && all[0].is_answering());
        drop((turns, all));
        assert!(places.lock().held.is_empty() && places.lock().groups.is_empty() && places.lock().answers == 0);
    }

    #[test]
    fn the_one_that_never_moved_of_the_address_with_most_gives_way() {
        let places = Places::new(3, 9);
        let (one, silent, moving) =
            (places.enter(ip(1)).unwrap(), places.enter(ip(2)).unwrap(), places.enter(ip(2)).unwrap());
        moving.has_moved();
        let newcomer = places.enter(ip(3)).unwrap();
        assert!(must_leave(&silent) && !must_leave(&one) && !must_leave(&moving) && !must_leave(&newcomer));
        assert!(silent.answer().is_none(), "it has no place any more");
    }

    #[test]
    fn an_address_with_much_gets_no_more_at_the_price_of_those_that_move() {
        let places = Places::new(3, 9);
        let held: Vec<_> = [1, 2, 2].into_iter().map(|n| places.enter(ip(n)).unwrap()).collect();
        held.iter().for_each(|place| place.has_moved());
        assert!(places.enter(ip(2)).is_none());
        assert!(places.enter(ip(3)).is_some() && must_leave(&held[1]) && !must_leave(&held[0]));
    }

    #[test]
    fn addresses_of_one_site_are_one() {
        let places = Places::new(2, 9);
        let site = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, n, 0, 0, 0, 1]);
        let (first, second) = (places.enter(site(0x01)).unwrap(), places.enter(site(0x02)).unwrap());
        first.has_moved();
        second.has_moved();
        assert!(places.enter(ip(1)).is_some() && must_leave(&first), "two of a /56");
    }

    #[test]
    fn answers_are_bounded_as_connections_are() {
        let places = Places::new(9, 4);
        let (greedy, honest) = (places.enter(ip(1)).unwrap(), places.enter(ip(2)).unwrap());
        let turns: Vec<_> = (0..4).map(|_| greedy.answer().unwrap()).collect();
        turns[0].has_moved();
        assert!(greedy.answer().is_none(), "it has all of them");
        let turn = honest.answer().unwrap();
        assert!(must_leave(&greedy) && !must_leave(&honest));
        drop(turns);
        assert_eq!(places.lock().answers, 1);
        drop(turn);
        assert_eq!(places.lock().answers, 0);
    }
}
