//! Connections that have not said what they want: only so many at a time, and no network keeps the others out.
//!
//! A network (an IPv4 address, or 56 bits of IPv6: what a customer is given, RFC 6177) has a share of the places. Beyond it, it gets
//! more only while less than half of all are taken, so that there is room for others at any time; the networks of 48 bits of IPv6 have four
//! shares together. The last places are for networks that have none. Further connections wait in a line of
//! their network, without holding up the accept loop, and the lightest network comes first. Where a place is needed, the
//! oldest of the network that has most is closed, once it has had time for a handshake; where the line is full, the newest of the network that
//! has most in it. A network whose connections say nothing is penalised: for a while it has few places, and never none. As OpenSSH's
//! PerSourceMaxStartups and PerSourcePenalties (sshd_config(5)); the numbers are ours.
//!
//! Programs of this host share an address: they are counted by their users, who have no share and no penalty, and leave the last places to
//! others as networks do.

mod line;
mod network;

pub(crate) use line::SHARE;
pub(crate) use network::{Network, Users};

use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use line::{Line, Standing, Waiting};
use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// So many places, or fewer where the program may have few descriptors: at most one for each `part` of those.
pub(crate) fn places(most: usize, part: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    most.min(files / part).max(1)
}

/// Connections that the kernel keeps until they are accepted, or fewer where it says so (net.core.somaxconn, 4096 unless changed).
const UNACCEPTED: i32 = 4096;

/// Has the kernel keep as many connections to a listening socket as it may until they are accepted. Libraries ask for 128: beyond that the
/// first packets of anyone's connections are dropped, and their clients try again after a second, or three, or seven.
pub fn lengthen(listener: impl AsFd) {
    // Where it is refused, the line is as long as it was.
    let _ = rustix::net::listen(listener, UNACCEPTED);
}

/// See the module.
pub struct Admission {
    most: usize,
    time: Box<dyn Fn() -> Instant + Send + Sync>,
    line: Mutex<Line>,
    users: Users,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Admission {
    /// With room for so many.
    pub fn new(most: usize) -> Arc<Self> {
        let clock = Clock::new();
        Self::by(most, move || clock.now())
    }

    /// The same, by this time.
    fn by(most: usize, time: impl Fn() -> Instant + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { most, time: Box::new(time), line: Mutex::default(), users: Users::default() })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Each change is one call.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection has come from `peer`: it has a place or waits for one; none if too many of its network wait already.
    pub fn arrive(self: &Arc<Self>, stream: &TcpStream, peer: SocketAddr) -> Option<Arrival> {
        self.arrive_at((self.time)(), self.users.network(peer, stream.local_addr().ok()))
    }

    fn arrive_at(self: &Arc<Self>, now: Instant, from: Network) -> Option<Arrival> {
        let mut line = self.line();
        let [enter, leave] = [(); 2].map(|()| Arc::new(Notify::new()));
        let number = line.number();
        let waiting = Waiting { number, since: now, from, enter: Arc::clone(&enter), leave: Arc::clone(&leave) };
        let has_come = line.arrive(now, waiting, self.most);
        drop(line);
        has_come.then(|| Arrival { place: Place { admission: Arc::clone(self), number, from, leave }, enter })
    }

    /// A place at once for a connection that came elsewhere, or none.
    pub(crate) fn enter_now(self: &Arc<Self>) -> Option<Place> {
        let now = (self.time)();
        let arrival = self.arrive_at(now, Network::Other)?;
        matches!(arrival.standing(now), Standing::Seated).then_some(arrival.place)
    }
}

/// A connection that has come, and may have to wait for its place. Dropped, it has left.
#[derive(Debug)]
pub struct Arrival {
    place: Place,
    enter: Arc<Notify>,
}

impl Arrival {
    /// Waits for the place; none if it has to give way to another.
    pub async fn place(self) -> Option<Place> {
        loop {
            let now = (self.place.admission.time)();
            match self.standing(now) {
                Standing::Seated => return Some(self.place),
                Standing::Gone => return None,
                Standing::Outside(until) => {
                    let _ = tokio::time::timeout(until.since(now), self.enter.notified()).await;
                }
            }
        }
    }

    fn standing(&self, now: Instant) -> Standing {
        let Place { admission, number, from, .. } = &self.place;
        admission.line().standing(now, *number, *from, admission.most)
    }
}

/// A place that admission has given, until it is dropped.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    number: u64,
    from: Network,
    leave: Arc<Notify>,
}

impl Place {
    /// Waits until it is needed for another; for ever once this is dropped.
    pub fn is_needed(&self) -> impl Future<Output = ()> + Send + use<> {
        let leave = Arc::clone(&self.leave);
        async move { leave.notified().await }
    }

    /// The network that it is of.
    pub(crate) fn network(&self) -> Network {
        self.from
    }

    /// The user of this host whose connection it is, where that is known.
    pub fn user(&self) -> Option<u32> {
        match self.from {
            Network::User(user) => Some(user),
            _ => None,
        }
    }

    /// Its connection has said nothing for as long as it might: its network is penalised. One that closes by itself holds nothing up,
    /// as the checks of a load balancer do.
    pub fn was_silent(&self) {
        let now = (self.admission.time)();
        self.admission.line().penalise(now, self.from);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = (self.admission.time)();
        self.admission.line().leave(now, self.number, self.from, self.admission.most);
    }
}

#[cfg(test)]
mod tests {
    use super::line::{GRACE, LINES, PENALISED};
    use super::*;
    use headstart_core::time::Duration;
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::net::{TcpListener, TcpStream};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn from(text: &str) -> Network {
        Network::of(Some(text.parse().unwrap()))
    }

    /// Half a minute of two thousand silent connections a second, each from one of those `networks` in its turn, and what becomes of a client
    /// that comes from `honest` every half a second, and takes a tenth of one to say what it wants. How often it is refused or sent away, and
    /// how long it waits at most: in the first two seconds, and after them.
    fn flooded(networks: impl Fn(u64) -> Network, honest: Network) -> (usize, [u64; 2]) {
        let admission = with(512);
        let (mut silent, mut clients) = (VecDeque::new(), Vec::new());
        let (mut lost, mut slowest) = (0, [0; 2]);
        for millis in 0..25_001u64 {
            let now = at(millis);
            for n in 2 * millis..2 * millis + 2 {
                silent.extend(admission.arrive_at(now, networks(n)).map(|arrival| (millis, arrival)));
            }
            admission.line().advance(now, 512);
            // Each is closed when it is sent away, or has said nothing for ten seconds.
            if millis % 100 == 0 {
                silent.retain(|(since, arrival)| {
                    let (is_over, standing) = (*since + 10_000 <= millis, arrival.standing(now));
                    if is_over && matches!(standing, Standing::Seated) {
                        arrival.place.was_silent();
                    }
                    !is_over && !matches!(standing, Standing::Gone)
                });
            }
            if millis % 500 == 0 {
                match admission.arrive_at(now, honest) {
                    Some(arrival) => clients.push((millis, arrival, None)),
                    None => lost += 1,
                }
            }
            clients.retain_mut(|(since, arrival, until)| match arrival.standing(now) {
                Standing::Gone => {
                    lost += 1;
                    false
                }
                Standing::Outside(_) => true,
                Standing::Seated => {
                    let slowest = &mut slowest[usize::from(*since >= 2000)];
                    let until = until.get_or_insert_with(|| {
                        *slowest = (*slowest).max(millis - *since);
                        millis + 100
                    });
                    *until > millis
                }
            });
        }
        (lost + clients.iter().filter(|(since, ..)| *since < 20_000).count(), slowest)
    }

    #[test]
    fn two_thousand_silent_connections_a_second_from_256_networks_refuse_nobody() {
        let addresses = |n: u64| Network::V4([198, 51, 100, n as u8]);
        // One customer's 48 bits of IPv6: as many networks.
        let site = |n: u64| Network::V6([0x20, 1, 0xd, 0xb8, 0, 1, n as u8]);
        assert_eq!(flooded(addresses, from("2001:db8:2::1")), (0, [0, 0]), "addresses");
        assert_eq!(flooded(site, from("192.0.2.7")), (0, [0, 0]), "a site");
        // Who shares the site with the flood has a turn among its networks.
        let (lost, slowest) = flooded(|n| site(n % 255), from("2001:db8:1:ff00::1"));
        assert!(lost == 0 && slowest.iter().all(|millis| *millis <= 2000), "{lost} {slowest:?}");
    }

    #[test]
    fn a_site_has_no_more_than_four_networks_and_all_of_what_nobody_wants() {
        let admission = with(512);
        let site = |n: u64| Network::V6([0x20, 1, 0xd, 0xb8, 0, 1, n as u8]);
        let of = |n: u64| {
            let arrival = admission.arrive_at(at(0), site(n))?;
            arrival.has_place(0).then_some(arrival)
        };
        // A provider may have given each of its customers a part of one site: they come back at once after a restart.
        let customers: Vec<Arrival> = (0..600).map_while(of).collect();
        assert_eq!(customers.len(), 256, "half of all, while nobody else is there");
        let others: Vec<Place> = (0..128).map(|n| admission.takes(0, &format!("192.0.2.{n}"))).collect();
        drop(customers);
        let customers: Vec<Arrival> = (0..600).map_while(of).collect();
        assert_eq!(admission.line().places_of(site(0))[1], 128, "{} of half of all", customers.len());
        drop(others);
    }

    #[test]
    fn from_a_full_line_the_newest_of_the_heaviest_network_gives_way() {
        let admission = with(32);
        let flood: Vec<Arrival> = (0..2000u64)
            .filter_map(|n| admission.arrive_at(at(n / 100), Network::V4([198, 51, 100, (n % 20) as u8])))
            .collect();
        assert_eq!(admission.line().counts()[1], LINES * 32);
        let last = ["192.0.2.1", "192.0.2.2"].map(|address| admission.takes(30, address));
        let (one, has) = admission.comes(30, "192.0.2.7");
        assert!(!has);
        let gone = |arrival: &Arrival| matches!(arrival.standing(at(30)), Standing::Gone);
        let left: Vec<usize> = (0..flood.len()).filter(|n| gone(&flood[*n])).collect();
        assert!(left.len() == 1 && left[0] + 20 >= flood.len(), "{left:?} of {}", flood.len());
        assert!(admission.arrive_at(at(31), Network::V4([198, 51, 100, 0])).is_none(), "one of the heaviest does not");
        drop((one, flood, last));
        assert_eq!(admission.line().counts()[..2], [0; 2]);
    }

    #[test]
    fn a_user_of_this_host_has_nearly_all_places_and_leaves_some_to_another() {
        let admission = with(32);
        let (one, other) = (Network::User(1000), Network::User(1001));
        let come = |millis, from| admission.arrive_at(at(millis), from);
        let many: Vec<Arrival> = (0..1000).filter_map(|n| come(n / 100, one)).collect();
        assert_eq!(many.iter().filter(|arrival| arrival.has_place(10)).count(), 30);
        assert_eq!(many.len(), 30 + LINES * 32, "the line has an end");
        let another = come(11, other).unwrap();
        assert!(another.has_place(11) && come(12, from("192.0.2.7")).unwrap().has_place(12));
        let more: Vec<Arrival> = (0..20).map(|_| come(13, other).unwrap()).collect();
        drop(another);
        assert!(more[0].has_place(13), "it has one at any time");
        let later = 13 + GRACE.as_millis() as u64;
        let has = more.iter().filter(|arrival| arrival.has_place(later)).count();
        assert!((14..=16).contains(&has), "{has}: half of all");
        // What waits comes in as places are left.
        drop(more);
        assert_eq!(admission.line().places_of(one)[0], 30);
    }

    fn is_sent_away(place: &Place) -> bool {
        pin!(place.is_needed()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    thread_local! {
        /// Virtual time of a test.
        static NOW: Cell<Instant> = const { Cell::new(Instant::ZERO) };
    }

    /// It is so late now.
    fn at(millis: u64) -> Instant {
        NOW.set(Instant::from_millis(millis));
        NOW.get()
    }

    fn with(places: usize) -> Arc<Admission> {
        Admission::by(places, || NOW.get())
    }

    impl Arrival {
        fn has_place(&self, millis: u64) -> bool {
            matches!(self.standing(at(millis)), Standing::Seated)
        }
    }

    impl Admission {
        /// One that comes, and whether it has a place.
        fn comes(self: &Arc<Self>, millis: u64, address: &str) -> (Arrival, bool) {
            let arrival = self.arrive_at(at(millis), from(address)).expect("the line is full");
            let has = arrival.has_place(millis);
            (arrival, has)
        }

        fn takes(self: &Arc<Self>, millis: u64, address: &str) -> Place {
            let (arrival, has) = self.comes(millis, address);
            assert!(has, "no place for {address} at {millis}");
            arrival.place
        }
    }

    #[test]
    fn however_many_come_from_eight_addresses_others_have_a_place_at_once() {
        let admission = with(512);
        let mut silent = Vec::new();
        let mut closed = 0;
        for n in 0..20_000u64 {
            // Ten seconds of two thousand a second, none of which says a word.
            let address = format!("198.51.100.{}", n % 8);
            match admission.arrive_at(at(n / 2), from(&address)) {
                Some(arrival) => {
                    arrival.has_place(n / 2);
                    silent.push(arrival);
                }
                None => closed += 1,
            }
            if n % 100 == 0 {
                drop(admission.takes(n / 2, "192.0.2.7"));
            }
        }
        assert!(closed > 1000, "{closed}: a line has an end");
        let [places, outside, _] = admission.line().counts();
        assert!(places < 512 && outside <= LINES * 512);
    }

    #[test]
    fn a_network_of_many_clients_takes_what_others_do_not_want_and_waits_for_the_rest() {
        let admission = with(32);
        let mut inside: Vec<Place> = (0..16).map(|n| admission.takes(n, "198.51.100.1")).collect();
        let mut outside: Vec<Arrival> = (0..8)
            .map(|n| {
                let (arrival, has) = admission.comes(20 + n, "198.51.100.1");
                assert!(!has, "half are kept for others");
                arrival
            })
            .collect();
        let other = admission.takes(30, "192.0.2.7");
        // As those inside say what they want, those outside come in, in their order.
        drop((inside.remove(0), inside.remove(0)));
        let has: Vec<bool> = outside.iter().map(|arrival| arrival.has_place(31)).collect();
        assert_eq!(has.iter().filter(|has| **has).count(), 1, "{has:?}: another has come meanwhile");
        assert!(has[0]);
        drop(outside.remove(0));
        drop((other, inside, outside));
        assert_eq!(admission.line().counts(), [0; 3]);
    }

    #[test]
    fn nothing_is_sent_away_in_the_midst_of_a_handshake() {
        let admission = with(2);
        let first = admission.takes(1000, "192.0.2.7");
        let second = admission.takes(1500, "192.0.2.8");
        let (third, has) = admission.comes(2000, "192.0.2.9");
        assert!(!has && matches!(third.standing(at(2000)), Standing::Outside(until) if until == at(3000)));
        assert!(!is_sent_away(&first));
        assert!(third.has_place(3000));
        assert!(is_sent_away(&first) && !is_sent_away(&second) && !is_sent_away(&third.place));
        let (fourth, has) = admission.comes(3100, "192.0.2.10");
        assert!(!has);
        drop(second);
        assert!(fourth.has_place(3100), "a place that is left is free");
    }

    #[test]
    fn where_a_network_has_its_share_it_makes_room_for_itself_by_its_own() {
        let admission = with(32);
        let other = admission.takes(0, "192.0.2.7");
        let many: Vec<Place> = (0..15).map(|n| admission.takes(n, "198.51.100.1")).collect();
        let more = admission.takes(3000, "198.51.100.1");
        assert!(is_sent_away(&many[0]) && !is_sent_away(&many[1]) && !is_sent_away(&other) && !is_sent_away(&more));
    }

    #[test]
    fn a_network_that_says_nothing_has_few_places_for_a_while_and_never_none() {
        let admission = with(512);
        let penalise = |n| (0..n).for_each(|_| admission.line().penalise(at(0), from("198.51.100.1")));
        penalise(15);
        let places = |millis| {
            let all: Vec<_> = (0..40).filter_map(|_| admission.arrive_at(at(millis), from("198.51.100.1"))).collect();
            (all.iter().filter(|arrival| arrival.has_place(millis)).count(), all.len())
        };
        assert_eq!(places(0), (40, 40), "a few do not count");
        penalise(30);
        assert_eq!(places(0), (PENALISED, 2 * PENALISED));
        assert_eq!(places(60_000), (40, 40), "it is forgotten");
        penalise(100_000);
        assert_eq!(places(46_000), (40, 40), "it has an end");
        // A host's own programs are not punished for each other.
        (0..100).for_each(|_| admission.line().penalise(at(0), from("127.0.0.1")));
        assert!(admission.comes(0, "::1").1 && admission.line().counts()[2] == 1);
        admission.takes(0, "192.0.2.1").was_silent();
        assert_eq!(admission.line().counts()[2], 2);
    }

    #[test]
    fn there_are_as_many_places_as_wanted_unless_descriptors_are_few() {
        let files = places(usize::MAX, 1);
        assert!(files > 2, "this process has descriptors");
        assert_eq!([places(2, 1), places(usize::MAX, 2), places(512, usize::MAX)], [2, files / 2, 1]);
    }

    #[test]
    fn a_place_says_which_user_of_this_host_has_it() {
        let admission = with(32);
        let user = |from| admission.arrive_at(at(0), from).unwrap().place.user();
        assert_eq!([Network::User(1000), Network::Own, from("192.0.2.1")].map(user), [Some(1000), None, None]);
    }

    #[test]
    fn a_place_that_is_left_is_free() {
        let admission = with(2);
        let first = admission.enter_now().unwrap();
        drop(admission.enter_now());
        let second = admission.enter_now().unwrap();
        assert!(admission.enter_now().is_none());
        assert!(!is_sent_away(&first) && !is_sent_away(&second));
        drop((first, second));
        assert_eq!(admission.line().counts(), [0; 3]);
    }

    #[test]
    fn a_thousand_connections_wait_in_the_kernel_until_they_are_accepted() {
        let most: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        lengthen(&listener);
        let at = listener.local_addr().unwrap();
        // One whose first packet is dropped is tried again after a second at the soonest, and never let in here.
        let open =
            |n| TcpStream::connect_timeout(&at, Duration::from_secs(5)).map_err(|why| format!("number {n}: {why}"));
        let held: Result<Vec<_>, _> = (0..most.min(300)).map(open).collect();
        held.unwrap();
    }
}
