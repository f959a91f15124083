//! Apps: which names one asks for and when, launch after launch, drawn around the pattern of a page.
//!
//! The page says which hosts there are, which belong together, and how long after the start each is first needed; the
//! network says how far they are. What no page says, because each was loaded once, is drawn here, and each number has its
//! source or is ours: how launches differ, what a user does after the start, how long answers and idle connections last.

use crate::condition::Condition;
use crate::page::{Page, Start};
use crate::sim::Wish;
use crate::world::{Fate, World};
use headstart_core::time::Duration;
use std::collections::BTreeMap;

/// How long an app is looked at after its launch: three minutes, paper 1, Figure 13.
pub const STAYS: Duration = Duration::from_secs(180);
/// What follows within this time after the launch belongs to the start.
pub const START: Duration = Duration::from_secs(10);

/// Most hosts of an app that are used; a program's names are bounded likewise.
const MAX_HOSTS: usize = 80;
/// Round trip of the access on which the page's own times are laid out: ours, an LTE network's.
const ACCESS: Duration = Duration::from_millis(40);
/// From the launch to the first name: ours; programs load and draw first.
const FIRST: (f64, f64) = (0.2, 0.8);
/// Times of a launch differ by up to so much from those of the pattern: ours.
const JITTER: f64 = 0.15;
/// Hosts that are not the app's own and are asked for in most launches; how often these, and how often the others.
/// Ours: two pages of one site share 64 % of such hosts on average, and two launches of one app are more alike than two
/// pages.
const REGULAR: f64 = 0.8;
const OFTEN: f64 = 0.95;
const SELDOM: f64 = 0.3;
/// Hosts with two connections side by side, and with more: of 4677 hosts of real pages 13 % and 5 %.
const SIDE_BY_SIDE: [f64; 2] = [0.05, 0.18];
/// Lifetimes of answers, in seconds, each as likely: what a large content network, a load balancer of a cloud, another
/// content network and a server of one's own usually say.
const TTLS: [u32; 4] = [20, 60, 300, 3600];
/// How long an idle connection is kept, in seconds, each as likely: the defaults of Apache, of a cloud's load balancer, of
/// nginx, and of a client that keeps them longer than its servers do.
const KEPT: [u64; 4] = [5, 60, 75, 300];
/// Screens that a user may turn to, and how many hosts the content of one comes from.
const SCREENS: usize = 3;
const SCREEN_HOSTS: (usize, usize) = (2, 6);
/// Mean time between two things that a user does: ours.
const THINKS: f64 = 25.0;
/// Between two launches, from and to, every factor as likely: ours.
const PAUSE: (f64, f64) = (120.0, 3600.0);

/// An app with its launches.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Its hosts and the network.
    pub world: World,
    /// Each launch, and how long before it the app was away.
    pub launches: Vec<(Duration, Vec<Wish>)>,
}

struct Contact {
    first: Duration,
    chance: f64,
    connections: usize,
    kept: Duration,
}

/// The app of `page` on the network of `condition`, launched so many times.
pub fn app(page: &Page, condition: &Condition, launches: usize, seed: u64) -> App {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let first = first_uses(page);
    let mut world = (condition.world)(rng.u64(..), first.len());
    for site in &mut world.sites {
        let ttl = TTLS[rng.usize(..TTLS.len())];
        (site.a.ttl, site.aaaa.ttl) = (ttl, ttl);
        // What a silent family costs is shown by others; here the baseline's mean would be nothing else.
        site.v4.iter_mut().chain(&mut site.v6).for_each(|host| host.fate = Fate::Answers);
    }
    let hosts: Vec<Contact> = first
        .into_iter()
        .map(|(host, first)| {
            let often = if rng.f64() < REGULAR { OFTEN } else { SELDOM };
            let more = rng.f64();
            Contact {
                first,
                chance: if page.hosts[host].own { 1.0 } else { often },
                connections: 1 + SIDE_BY_SIDE.iter().filter(|share| more < **share).count(),
                kept: Duration::from_secs(KEPT[rng.usize(..KEPT.len())]),
            }
        })
        .collect();
    let screens: Vec<Vec<(usize, Duration)>> = (0..SCREENS)
        .map(|_| {
            let many = rng.usize(SCREEN_HOSTS.0..=SCREEN_HOSTS.1).min(hosts.len());
            let mut of_screen: Vec<usize> = (0..hosts.len()).collect();
            rng.shuffle(&mut of_screen);
            of_screen.truncate(many);
            let late = |n: usize, rng: &mut fastrand::Rng| if n == 0 { 0.0 } else { 0.1 + 1.4 * rng.f64() };
            of_screen.into_iter().enumerate().map(|(n, h)| (h, Duration::from_secs_f64(late(n, rng)))).collect()
        })
        .collect();
    let start = FIRST.0 + (FIRST.1 - FIRST.0) * rng.f64();
    let launches = (0..launches).map(|_| (pause(rng), launch(rng, &hosts, &screens, start))).collect();
    App { world, launches }
}

fn pause(rng: &mut fastrand::Rng) -> Duration {
    Duration::from_secs_f64(PAUSE.0 * (PAUSE.1 / PAUSE.0).powf(rng.f64()))
}

/// Some time around `time`.
fn around(rng: &mut fastrand::Rng, time: Duration) -> Duration {
    time.mul_f64(1.0 + JITTER * (2.0 * rng.f64() - 1.0))
}

fn launch(rng: &mut fastrand::Rng, hosts: &[Contact], screens: &[Vec<(usize, Duration)>], start: f64) -> Vec<Wish> {
    let start = around(rng, Duration::from_secs_f64(start));
    let mut uses: Vec<(Duration, usize)> = Vec::new();
    for (n, host) in hosts.iter().enumerate() {
        let first = start + around(rng, host.first);
        if rng.f64() < host.chance && first < STAYS {
            uses.push((first, n));
        }
    }
    let mut now = START.as_secs_f64();
    loop {
        now += -THINKS * (1.0 - rng.f64()).ln();
        let screen = &screens[rng.usize(..screens.len())];
        if now >= STAYS.as_secs_f64() {
            break;
        }
        for (host, late) in screen {
            // The screen's content changes as the start's does.
            if rng.f64() < hosts[*host].chance {
                uses.push((Duration::from_secs_f64(now) + around(rng, *late), *host));
            }
        }
    }
    uses.sort();
    let mut last: BTreeMap<usize, Duration> = BTreeMap::new();
    let mut wishes = Vec::new();
    for (at, host) in uses.into_iter().filter(|(at, _)| *at < STAYS) {
        // A connection that is still there is used again, without asking headstart.
        if last.insert(host, at).is_none_or(|before| at - before > hosts[host].kept) {
            let apart = |n: usize| Duration::from_millis(80 * n as u64);
            wishes.extend((0..hosts[host].connections).map(|n| Wish { at: at + apart(n), site: host }));
        }
    }
    wishes.sort_by_key(|w| w.at);
    wishes
}

/// When each host of the page is first needed, in the order of these times, by the structure of the page.
fn first_uses(page: &Page) -> Vec<(usize, Duration)> {
    let mut times: Vec<(Duration, Duration)> = Vec::with_capacity(page.objects.len());
    let mut first: BTreeMap<usize, Duration> = BTreeMap::new();
    for object in &page.objects {
        let start = match object.structure {
            Start::AtOnce => Duration::ZERO,
            Start::After { parent, gap } => times[parent].1 + gap,
            Start::During { parent, share } => {
                let (from, to) = times[parent];
                from + (to - from).mul_f64(share.clamp(0.0, 1.0))
            }
        };
        let round_trip = ACCESS + page.hosts[object.host].leg;
        // The first object of a host waits for handshakes too: TCP's and TLS's.
        let trips = if first.contains_key(&object.host) { 1 } else { 3 };
        first.entry(object.host).or_insert(start);
        times.push((start, start + round_trip * trips + object.think));
    }
    let mut uses: Vec<_> = first.into_iter().collect();
    uses.sort_by_key(|(host, at)| (*at, *host));
    uses.truncate(MAX_HOSTS);
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition;
    use crate::page::synthetic;

    fn draw(seed: u64) -> App {
        app(&synthetic::page(seed), condition::find("paper1-lte").unwrap(), 6, seed)
    }

    #[test]
    fn launches_of_an_app_are_alike_and_none_is_the_same() {
        let app = draw(3);
        let names = |n: usize| app.launches[n].1.iter().map(|w| w.site).collect::<std::collections::BTreeSet<_>>();
        let shared = names(0).intersection(&names(1)).count();
        assert!(shared * 2 > names(0).len(), "{shared} of {}", names(0).len());
        assert_ne!(app.launches[0].1, app.launches[1].1);
        assert_eq!(app, draw(3));
        assert_ne!(app, draw(4));
    }

    #[test]
    fn wishes_are_in_order_within_three_minutes_and_for_hosts_that_exist() {
        for seed in 0..20 {
            let app = draw(seed);
            for (pause, wishes) in &app.launches {
                assert!(pause.as_secs_f64() >= PAUSE.0 && pause.as_secs_f64() <= PAUSE.1);
                assert!(wishes.is_sorted_by_key(|w| w.at));
                assert!(wishes.iter().all(|w| w.site < app.world.sites.len() && w.at <= STAYS + STAYS / 10));
            }
        }
    }
}
