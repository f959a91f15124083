//! The world of a page: a site for each of its hosts, at the distance that was measured of it.
//!
//! How the families of a host relate is not in any page data (there is no IPv6 in it at all) and comes from `paper1-lte`.

use super::paper1_lte::{A_MEDIAN, AAAA_MEDIAN, LIKENESS, REFUSED_PERCENT, SPREAD, V4_MEDIAN, V6_MEDIAN};
use super::{normal::stratified, record, site};
use crate::page::Page;
use crate::world::{Fate, World};
use headstart_core::time::Duration;

/// How the two families of a page's hosts relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Families {
    /// Both records take as long (the median of A in `paper1-lte`), no host fails.
    Alike,
    /// As in `paper1-lte`: AAAA records take longer, and 5 % of hosts refuse over IPv6. None is a black hole: a page load that
    /// waits for one takes minutes without a race, and a mean over pages would show nothing else.
    Paper1,
}

/// The hosts of `page` behind `link`; the same seed gives the same world. In either case a host is as far over IPv4 as was
/// measured, and over IPv6 further or nearer as in `paper1-lte`: IPv4 is the faster one at 64 % of them.
///
/// # Panics
///
/// If the page has more than [`super::MAX_SITES`] hosts.
pub fn world(page: &Page, link: &str, families: Families, seed: u64) -> World {
    let mut rng = fastrand::Rng::with_seed(seed);
    let hosts = page.hosts.len();
    let [a, aaaa, detour] = [(); 3].map(|()| stratified(&mut rng, hosts));
    let spread = |median: f64, z: f64| median * (SPREAD * z).exp();
    let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let one = |n: usize| {
        let leg = page.hosts[n].leg;
        // The shared part of the two distances of a name is in the leg; what is left differs by twice the rest.
        let apart = (2.0 * (1.0 - LIKENESS)).sqrt() * detour[n];
        let v6 = leg.mul_f64(spread(V6_MEDIAN / V4_MEDIAN, apart));
        let refused = families == Families::Paper1 && rng.f64() * 100.0 < REFUSED_PERCENT;
        let a_delay = ms(spread(A_MEDIAN, a[n]));
        let aaaa_delay = match families {
            Families::Alike => a_delay,
            Families::Paper1 => ms(spread(AAAA_MEDIAN, aaaa[n])),
        };
        let v6_fate = if refused { Fate::Refuses } else { Fate::Answers };
        site(n, record(a_delay), record(aaaa_delay), (leg, Fate::Answers), (v6, v6_fate))
    };
    let sites = (0..hosts).map(one).collect();
    World::new(link, seed, sites)
}

/// `world` with twins of these sites behind its own: as far away, under other names and addresses. A connection to a
/// twin is one to its site that can be told apart.
///
/// # Panics
///
/// If a site is not in the world, or there are more than [`super::MAX_SITES`] with the twins.
pub fn with_twins(mut world: World, of: &[usize]) -> World {
    for n in of {
        let twin = world.sites[*n].clone();
        let (v4, v6) = (&twin.v4[0], &twin.v6[0]);
        let at = |host: &crate::world::Host| (host.extra_rtt, host.fate);
        world.sites.push(site(world.sites.len(), twin.a, twin.aaaa, at(v4), at(v6)));
    }
    world
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::synthetic;

    #[test]
    fn a_world_has_the_hosts_of_its_page_and_repeats() {
        let page = synthetic::page(3);
        for families in [Families::Alike, Families::Paper1] {
            let w = world(&page, "lte", families, 5);
            assert_eq!(w, world(&page, "lte", families, 5));
            assert_eq!(w.sites.len(), page.hosts.len());
            assert!(w.sites.iter().zip(&page.hosts).all(|(s, h)| s.v4[0].extra_rtt == h.leg));
        }
    }

    #[test]
    fn most_hosts_are_faster_over_ipv4_and_one_in_twenty_refuses_over_ipv6_where_the_paper_says_so() {
        let (mut hosts, mut faster, mut refused) = (0, 0, 0);
        for (n, page) in synthetic::pages(1, 200).enumerate() {
            for s in world(&page, "lte", Families::Paper1, n as u64).sites {
                hosts += 1;
                faster += usize::from(s.v4[0].extra_rtt < s.v6[0].extra_rtt);
                refused += usize::from(s.v6[0].fate == Fate::Refuses);
            }
        }
        assert!((0.58..0.70).contains(&(faster as f64 / hosts as f64)), "{faster} of {hosts}");
        assert!((0.035..0.065).contains(&(refused as f64 / hosts as f64)), "{refused} of {hosts}");
    }
}
