//! A day: where the phone is, for how long, and what it does there.

use crate::condition::page::{Families, world};
use crate::page::{Page, synthetic};
use crate::sim::Steering;
use crate::world::{Fate, World};
use headstart_core::steer::policy;
use headstart_core::time::Duration;
use std::collections::BTreeSet;

/// A place of the day.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// As in rows.
    pub name: &'static str,
    /// Its number, by which the phone knows it again.
    pub number: u8,
    /// The access link.
    link: &'static str,
    /// The fast channel beside it, where there is one.
    fast: Option<&'static str>,
    /// Packets to hosts over IPv6 vanish.
    broken_v6: bool,
    /// The round trip to the gateway when nothing waits.
    pub rtt: Duration,
    pub about: &'static str,
}

/// Gone for 3 s each 45 s on average, both channels at the same moments: ours; a train between cells and in cuttings.
const TRAIN: &str =
    "rate=10mbit,delay=normal:30ms:5ms,loss=fades:3s:45s:1:7;rate=30mbit,delay=normal:30ms:5ms,loss=fades:3s:45s:1:7";
const TRAIN_FAST: &str = "rate=2mbit,delay=2500us,queue=infinite,loss=fades:3s:45s:1:7";

/// The day, in order. The phone comes home again.
pub const DAY: [Place; 5] = [HOME, WALK, OFFICE, RIDE, HOME];

const HOME: Place = Place {
    name: "home",
    number: 1,
    link: "wlan-strong",
    fast: None,
    broken_v6: false,
    rtt: Duration::from_millis(2),
    about: "link `wlan-strong`; no fast channel",
};
const WALK: Place = Place {
    name: "walk",
    number: 2,
    link: "lte",
    fast: Some("urllc"),
    broken_v6: false,
    rtt: Duration::from_millis(18),
    about: "link `lte`, `urllc` beside it",
};
const OFFICE: Place = Place {
    name: "office",
    number: 3,
    link: "wlan-strong",
    fast: None,
    broken_v6: true,
    rtt: Duration::from_millis(2),
    about: "link `wlan-strong`; packets to hosts over IPv6 vanish",
};
const RIDE: Place = Place {
    name: "train",
    number: 4,
    link: TRAIN,
    fast: Some(TRAIN_FAST),
    broken_v6: false,
    rtt: Duration::from_millis(60),
    about: "10 Mbit/s up, 30 down, 60 ms; 2 Mbit/s and 5 ms beside it; both gone for 3 s each 45 s on average",
};

/// Every place once, in the order of the day.
pub const PLACES: [Place; 4] = [HOME, WALK, OFFICE, RIDE];

/// From the end of one thing to the beginning of the next: a phone is looked at some 50 to 100 times a day. Ours.
pub const PAUSE: Duration = Duration::from_secs(360);
/// A call, and a talk of messages.
pub const CALL: Duration = Duration::from_secs(60);
pub const TALK: Duration = Duration::from_secs(20);

/// The pages of the day, all in one world: their hosts stand one behind the other.
pub fn pages(seed: u64, count: usize) -> Vec<Page> {
    let mut hosts = Vec::new();
    let mut pages: Vec<Page> = synthetic::pages(seed, count).collect();
    for page in &mut pages {
        let first = hosts.len();
        hosts.append(&mut page.hosts);
        page.objects.iter_mut().for_each(|object| object.host += first);
    }
    pages.iter_mut().for_each(|page| page.hosts.clone_from(&hosts));
    pages
}

impl Place {
    /// The world of `pages` here: the hosts are the same ones everywhere.
    pub fn world(&self, pages: &[Page], seed: u64) -> World {
        let mut world = world(&pages[0], self.link, Families::Paper1, seed);
        if self.broken_v6 {
            world.sites.iter_mut().flat_map(|site| &mut site.v6).for_each(|host| host.fate = Fate::BlackHole);
        }
        world
    }

    /// The channels here, if there are two.
    pub fn steering(&self) -> anyhow::Result<Option<Steering>> {
        let Some(fast) = self.fast else { return Ok(None) };
        let policy = policy::ALL.iter().find(|entry| entry.name == policy::DEFAULT);
        let policy = policy.ok_or_else(|| anyhow::anyhow!("the default policy is in no registry"))?;
        let (fat, fast) = (self.link.to_owned(), fast.to_owned());
        Ok(Some(Steering { fat, fast, policy, tunnel: true, bound: BTreeSet::new() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_day_share_one_world_that_is_the_same_everywhere_but_for_what_is_broken() {
        let pages = pages(3, 4);
        assert!(pages.iter().all(|page| page.hosts.len() == pages[0].hosts.len()));
        let own: Vec<usize> = synthetic::pages(3, 4).map(|page| page.hosts.len()).collect();
        assert_eq!(pages[0].hosts.len(), own.iter().sum::<usize>());
        assert!(pages[1].objects.iter().all(|object| (own[0]..own[0] + own[1]).contains(&object.host)));
        let (home, office) = (HOME.world(&pages, 1), OFFICE.world(&pages, 1));
        assert!(home.sites.iter().zip(&office.sites).all(|(a, b)| a.v4 == b.v4 && b.v6[0].fate == Fate::BlackHole));
        for place in PLACES {
            assert!(headstart_link::parse_duplex(place.link).is_ok(), "{}", place.name);
            assert!(place.steering().unwrap().is_none_or(|s| headstart_link::parse(&s.fast).is_ok()), "{}", place.name);
        }
    }
}
