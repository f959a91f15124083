//! Who has connected and not said what it wants: only so many at a time, and nobody keeps the others out for long.
//!
//! Where there is no room for one more, the oldest of the network that has most of them is sent away, once it has had time for a
//! handshake: who opens connections by the hundred and says nothing loses those, and clients that all come back at once, after a
//! restart, wait for each other instead of chasing each other away. Ours.

use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Who is behind an address: of IPv6 a host has 64 bits to choose from (RFC 4291, section 2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    V4([u8; 4]),
    V6([u8; 8]),
    /// Not TCP, or not known.
    Other,
}

impl Network {
    fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(ip)) => Self::V4(ip.octets()),
            Some(IpAddr::V6(ip)) => ip.octets().first_chunk().map_or(Self::Other, |prefix| Self::V6(*prefix)),
            None => Self::Other,
        }
    }
}

/// Nobody is sent away before: a handshake of TLS takes two round trips of any path, and its turn on a busy processor.
const GRACE: Duration = Duration::from_secs(2);

struct Waiting {
    number: u64,
    since: Instant,
    from: Network,
    leave: Arc<Notify>,
}

#[derive(Default)]
struct Line {
    next: u64,
    /// The oldest first.
    waiting: Vec<Waiting>,
}

/// See the module.
pub(crate) struct Doorstep {
    most: usize,
    clock: Clock,
    line: Mutex<Line>,
    left: Notify,
}

impl Doorstep {
    /// With room for so many.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, clock: Clock::new(), line: Mutex::default(), left: Notify::new() })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Each change is one call.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has come from there; it waits until there is room, or somebody may be sent away.
    pub async fn enter(self: &Arc<Self>, from: Option<IpAddr>) -> Place {
        loop {
            let left = self.left.notified();
            match self.try_enter(self.clock.now(), from) {
                Ok(place) => return place,
                Err(until) => {
                    let _ = tokio::time::timeout(until.since(self.clock.now()), left).await;
                }
            }
        }
    }

    /// The same without waiting; without room, when to ask again.
    fn try_enter(self: &Arc<Self>, now: Instant, from: Option<IpAddr>) -> Result<Place, Instant> {
        let (from, leave) = (Network::of(from), Arc::new(Notify::new()));
        let mut line = self.line();
        if line.waiting.len() >= self.most {
            let mut counts: HashMap<Network, usize> = HashMap::from([(from, 1)]);
            for waiting in &line.waiting {
                *counts.entry(waiting.from).or_default() += 1;
            }
            let patient = line.waiting.iter().enumerate().take_while(|(_, waiting)| waiting.since + GRACE <= now);
            // Of equals the first, which is the oldest.
            let away = patient.max_by_key(|(at, waiting)| (counts.get(&waiting.from).copied(), Reverse(*at)));
            match away.map(|(at, _)| at) {
                Some(at) => line.waiting.remove(at).leave.notify_one(),
                None => return Err(line.waiting.first().map_or(now, |oldest| oldest.since + GRACE)),
            }
        }
        let number = line.next;
        line.next += 1;
        line.waiting.push(Waiting { number, since: now, from, leave: Arc::clone(&leave) });
        Ok(Place { doorstep: Arc::clone(self), number, leave })
    }

    /// A place at once, or none.
    pub fn enter_now(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Place> {
        self.try_enter(self.clock.now(), from).ok()
    }
}

/// A place on the doorstep, until it is dropped.
pub(crate) struct Place {
    doorstep: Arc<Doorstep>,
    number: u64,
    leave: Arc<Notify>,
}

impl Place {
    /// Waits until it is needed for another.
    pub async fn is_needed(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doorstep.line().waiting.retain(|waiting| waiting.number != self.number);
        self.doorstep.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn from(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn is_sent_away(place: &Place) -> bool {
        pin!(place.is_needed()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    impl Doorstep {
        fn takes(self: &Arc<Self>, millis: u64, address: &str) -> Place {
            self.try_enter(at(millis), from(address)).unwrap_or_else(|until| panic!("not before {until:?}"))
        }
    }

    #[test]
    fn who_fills_the_doorstep_makes_room_for_others_and_not_they_for_it() {
        let doorstep = Doorstep::new(4);
        let client = doorstep.takes(0, "192.0.2.7");
        let many: Vec<Place> = (1..4).map(|n| doorstep.takes(n, "198.51.100.1")).collect();
        // The oldest of the many, each time.
        let another = doorstep.takes(5000, "192.0.2.8");
        let more = doorstep.takes(5001, "198.51.100.1");
        let away: Vec<bool> = many.iter().map(is_sent_away).collect();
        assert_eq!(away, [true, true, false]);
        assert!(!is_sent_away(&client) && !is_sent_away(&another) && !is_sent_away(&more));
    }

    #[test]
    fn nobody_is_sent_away_in_the_midst_of_a_handshake() {
        let doorstep = Doorstep::new(2);
        let first = doorstep.takes(1000, "192.0.2.7");
        let second = doorstep.takes(1500, "192.0.2.7");
        assert_eq!(doorstep.try_enter(at(2999), from("192.0.2.7")).err(), Some(at(3000)));
        assert!(!is_sent_away(&first));
        let third = doorstep.takes(3000, "192.0.2.7");
        assert!(is_sent_away(&first) && !is_sent_away(&second) && !is_sent_away(&third));
        drop(second);
        assert!(doorstep.try_enter(at(3000), from("192.0.2.7")).is_ok());
    }

    #[test]
    fn a_place_that_is_left_is_free() {
        let doorstep = Doorstep::new(2);
        let first = doorstep.enter_now(None).unwrap();
        drop(doorstep.enter_now(None));
        let second = doorstep.enter_now(None).unwrap();
        assert!(doorstep.enter_now(None).is_none());
        assert!(!is_sent_away(&first) && !is_sent_away(&second));
        drop((first, second));
        assert!(doorstep.line().waiting.is_empty());
    }

    #[test]
    fn a_host_of_ipv6_is_one_whatever_addresses_it_takes() {
        let doorstep = Doorstep::new(3);
        let client = doorstep.takes(0, "2001:db8:0:1::1");
        let many: Vec<Place> = (1..3).map(|n| doorstep.takes(n, &format!("2001:db8:0:2::{n}"))).collect();
        let last = doorstep.takes(5000, "2001:db8:0:3::1");
        assert!(!is_sent_away(&client) && is_sent_away(&many[0]) && !is_sent_away(&last));
        assert_eq!(Network::of(from("::ffff:192.0.2.7")), Network::of(from("192.0.2.7")));
    }
}
