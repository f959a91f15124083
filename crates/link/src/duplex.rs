//! Both directions of a link and what joins them.
//!
//! The caller pushes packets in the order of time and says which way each goes; what comes out says so too. On a wire the
//! directions are two [`Link`]s. On a shared medium a packet that is pushed with a time that the caller has polled past
//! finds the medium as it is then: what it would have changed has happened. What never happens here: a packet is released
//! early, altered, copied, or handed to the wrong side.

use std::fmt;

use headstart_core::machine::Deadline;
use headstart_core::time::Instant;

use crate::air::Air;
use crate::medium::{self, Medium, MediumSpec, Way};
use crate::queue::Backlog;
use crate::{Counters, Dropped, Link, LinkSpec, Outcome, Packet, seed};

/// Both directions of a link and what joins them.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplexSpec {
    /// Away from the host, or from the first node to the second.
    pub up: LinkSpec,
    /// Towards the host.
    pub down: LinkSpec,
    /// What joins them. If that is not a wire, it takes the place of both rates.
    pub medium: MediumSpec,
}

impl DuplexSpec {
    /// Two directions that share nothing.
    pub fn wire(up: LinkSpec, down: LinkSpec) -> Self {
        Self { up, down, medium: medium::wire() }
    }

    /// Whether the directions share nothing, so that each may be a [`Link`] of its own.
    pub fn is_wire(&self) -> bool {
        self.medium.name() == medium::ALL[0].name
    }

    /// The direction of that name.
    pub fn way(&self, way: Way) -> &LinkSpec {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}

impl fmt::Display for DuplexSpec {
    /// The form that [`crate::parse_duplex`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_wire() {
            write!(f, "medium={},", self.medium)?;
        }
        write!(f, "{};{}", self.up, self.down)
    }
}

/// Both directions of a link. See the module.
pub struct Duplex<P>(Joined<P>);

enum Joined<P> {
    Wire(Box<[Link<P>; 2]>),
    Air(Box<Air<P>>),
}

impl<P: Packet> Duplex<P> {
    /// An empty link. The same `spec`, `seed` and pushes give the same releases.
    pub fn new(spec: &DuplexSpec, seed: u64) -> Self {
        Self(match *spec.medium.build() {
            Medium::Wire => {
                let link = |way: Way| Link::new(spec.way(way), seed::mix(seed, way.index() as u64));
                Joined::Wire(Box::new(Way::BOTH.map(link)))
            }
            Medium::Shared(medium) => Joined::Air(Box::new(Air::new([&spec.up, &spec.down], medium, seed))),
        })
    }

    /// Becomes another link at `at`, as in [`Link::change`]. The medium stays what it is.
    pub fn change(&mut self, at: Instant, spec: &DuplexSpec) {
        match &mut self.0 {
            Joined::Wire(links) => Way::BOTH.map(|way| links[way.index()].change(at, spec.way(way))),
            Joined::Air(air) => Way::BOTH.map(|way| air.change(at, way, spec.way(way))),
        };
    }

    /// A packet arrives to go `way`. `at` is its logical arrival, as in [`Link::push`].
    pub fn push(&mut self, at: Instant, way: Way, packet: P) -> Result<(), Dropped> {
        match &mut self.0 {
            Joined::Wire(links) => links[way.index()].push(at, packet),
            Joined::Air(air) => air.push(at, way, packet),
        }
    }

    /// The next packet whose release is not later than `now`, with its exact logical release and its direction, in the
    /// order of time; of two at one moment, the one that goes up. Packets that were dropped on the way are passed over.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, Way, P)> {
        loop {
            match self.poll_outcome(now)? {
                (way, Outcome::Released(release, packet)) => return Some((release, way, packet)),
                (_, Outcome::Dropped(..)) => {}
            }
        }
    }

    /// The next packet that has come to an end until `now`, as in [`Link::poll_outcome`].
    pub fn poll_outcome(&mut self, now: Instant) -> Option<(Way, Outcome<P>)> {
        match &mut self.0 {
            Joined::Wire(links) => {
                let ends = Way::BOTH.into_iter().filter_map(|way| Some((links[way.index()].next_end(now)?, way)));
                let (_, way) = ends.min()?;
                Some((way, links[way.index()].poll_outcome(now)?))
            }
            Joined::Air(air) => air.poll_outcome(now),
        }
    }

    /// When to poll next; `None` while the link is empty. Polling later loses nothing.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        match &self.0 {
            Joined::Wire(links) => links.iter().filter_map(Link::poll_timeout).min_by_key(|deadline| deadline.at),
            Joined::Air(air) => air.poll_timeout(),
        }
    }

    /// What one direction has carried so far.
    pub fn counters(&self, way: Way) -> Counters {
        match &self.0 {
            Joined::Wire(links) => links[way.index()].counters(),
            Joined::Air(air) => air.counters(way),
        }
    }

    /// What waits in one direction, as of the last push or poll.
    pub fn backlog(&self, way: Way) -> Backlog {
        match &self.0 {
            Joined::Wire(links) => links[way.index()].backlog(),
            Joined::Air(air) => air.backlog(way),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_duplex;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn on_a_wire_each_direction_keeps_its_own_rate_and_delay() {
        let mut duplex = Duplex::new(&parse_duplex("rate=12mbit,delay=5ms;rate=6mbit,delay=20ms").unwrap(), 1);
        duplex.push(ms(0), Way::Down, vec![0; 1500]).unwrap();
        duplex.push(ms(0), Way::Up, vec![0; 1500]).unwrap();
        assert_eq!(duplex.poll_timeout().map(|deadline| deadline.at), Some(ms(6)));
        let all: Vec<_> = std::iter::from_fn(|| duplex.poll(ms(100))).map(|(at, way, _)| (at, way)).collect();
        assert_eq!(all, [(ms(6), Way::Up), (ms(22), Way::Down)]);
        assert_eq!(duplex.poll_timeout(), None);
    }

    #[test]
    fn a_wire_is_two_links_bit_for_bit() {
        let spec = parse_duplex("rate=8mbit,delay=normal:20ms:5ms,loss=5%;rate=3mbit,delay=uniform:1ms:9ms").unwrap();
        let mut duplex = Duplex::new(&spec, 77);
        let mut links = Way::BOTH.map(|way| Link::new(spec.way(way), seed::mix(77, way.index() as u64)));
        for k in 0..1000u64 {
            let way = Way::BOTH[(k % 3 == 0) as usize];
            let (at, packet) = (Instant::from_nanos(k * 700_000), vec![k as u8; 900]);
            assert_eq!(duplex.push(at, way, packet.clone()), links[way.index()].push(at, packet));
        }
        let mut expected: Vec<_> = Way::BOTH
            .into_iter()
            .flat_map(|way| {
                let link = &mut links[way.index()];
                std::iter::from_fn(|| link.poll(ms(60_000))).map(|(at, p)| (at, way, p)).collect::<Vec<_>>()
            })
            .collect();
        expected.sort_by_key(|(at, way, _)| (*at, *way));
        let found: Vec<_> = std::iter::from_fn(|| duplex.poll(ms(60_000))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_direction_becomes_another_link_whatever_joins_them() {
        for medium in ["", "medium=wlan:65mbit,"] {
            let read = |delays: &str| parse_duplex(&format!("{medium}{delays}")).unwrap();
            let mut duplex = Duplex::new(&read("delay=10ms;delay=20ms"), 1);
            duplex.change(ms(50), &read("delay=100ms;delay=200ms"));
            for way in Way::BOTH {
                duplex.push(ms(50), way, vec![0; 100]).unwrap();
            }
            let all: Vec<_> = std::iter::from_fn(|| duplex.poll(ms(900))).map(|(at, way, _)| (at, way)).collect();
            assert_eq!(all.iter().map(|(_, way)| *way).collect::<Vec<_>>(), Way::BOTH, "{medium}");
            // On the air a packet of 100 bytes takes less than a millisecond.
            for ((at, _), wanted) in all.iter().zip([150, 250]) {
                assert!((ms(wanted)..ms(wanted + 1)).contains(at), "{medium}: {at:?}, not {wanted} ms");
            }
        }
    }
}
