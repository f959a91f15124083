//! The rules one by one; stories of floods are beside `Admission`.

use super::*;

/// Places in most of these: two are the share of a network, and two the last.
const MOST: usize = 32;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn net(n: u8) -> Network {
    Network::V4([192, 0, 2, n])
}

/// Networks of one site.
fn site(n: u8) -> Network {
    Network::V6([0x20, 1, 0xd, 0xb8, 0, 1, n])
}

fn waiting(number: u64, from: Network) -> Waiting {
    Waiting { number, since: at(0), from, enter: Arc::default(), leave: Arc::default() }
}

impl Line {
    /// One more of this network: its number, unless it is refused.
    fn comes(&mut self, millis: u64, from: Network, most: usize) -> Option<u64> {
        let number = self.number();
        self.arrive(at(millis), waiting(number, from), most).then_some(number)
    }

    fn is_seated(&mut self, millis: u64, number: u64, from: Network, most: usize) -> bool {
        matches!(self.standing(at(millis), number, from, most), Standing::Seated)
    }

    /// When it looks again.
    fn until(&mut self, millis: u64, number: u64, from: Network, most: usize) -> Instant {
        let Standing::Outside(until) = self.standing(at(millis), number, from, most) else {
            panic!("it does not wait")
        };
        until
    }

    fn is_gone(&mut self, millis: u64, number: u64, from: Network, most: usize) -> bool {
        matches!(self.standing(at(millis), number, from, most), Standing::Gone)
    }
}

#[test]
fn a_large_site_weighs_as_a_few_networks() {
    let mut counts = Counts::default();
    (0..9).for_each(|n| counts.add(site(n)));
    counts.add(site(0));
    assert_eq!([0, 1, 3].map(|more| counts.weight(site(0), more)), [3, 3, 5]);
    assert_eq!([0, 3].map(|more| counts.weight(site(77), more)), [3, 4], "one that has none, of a site that has ten");
    assert_eq!([0, 2].map(|more| counts.weight(net(1), more)), [0, 2]);
    (0..9).for_each(|n| counts.remove(site(n)));
    assert_eq!((counts.of(site(0)), counts.of(site(1)), counts.of_site(site(1))), (1, 0, 1));
    counts.remove(site(0));
    assert!(counts.networks.is_empty() && counts.sites.is_empty());
}

#[test]
fn a_penalty_grows_by_a_second_each_time_counts_beyond_fifteen_and_ends_within_a_minute() {
    let mut line = Line::default();
    let penalise = |line: &mut Line, times, millis| (0..times).for_each(|_| line.penalise(at(millis), net(1)));
    penalise(&mut line, 15, 0);
    assert!(!line.is_penalised(at(0), net(1)));
    penalise(&mut line, 1, 0);
    assert!(line.is_penalised(at(999), net(1)) && !line.is_penalised(at(1000), net(1)));
    assert!(line.was_silent(at(45_999), net(1)) && !line.was_silent(at(46_000), net(1)));
    assert!(!line.was_silent(at(0), net(2)) && !line.is_penalised(at(0), net(2)));
    // What is over is not counted on.
    penalise(&mut line, 1, 20_000);
    assert!(line.was_silent(at(50_999), net(1)) && !line.was_silent(at(51_000), net(1)));
    penalise(&mut line, 1000, 20_000);
    assert!(line.is_penalised(at(64_999), net(1)) && !line.is_penalised(at(65_000), net(1)));
}

#[test]
fn only_so_many_networks_are_known_as_silent_until_their_time_is_over() {
    let mut line = Line::default();
    let of = |n: usize| Network::V4([10, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
    (0..MOST_NETWORKS + 5).for_each(|n| line.penalise(at(0), of(n)));
    assert_eq!(line.penalties.len(), MOST_NETWORKS);
    (0..20).for_each(|_| line.penalise(at(0), of(0)));
    assert!(line.is_penalised(at(0), of(0)), "one that is known is known better");
    line.penalise(at(999), of(MOST_NETWORKS));
    assert_eq!(line.penalties.len(), MOST_NETWORKS);
    line.penalise(at(1000), of(MOST_NETWORKS));
    assert_eq!(line.penalties.len(), 1, "the others are over");
    line.penalise(at(1000), of(MOST_NETWORKS));
    assert_eq!(line.penalties.len(), 2);
}

#[test]
fn a_network_has_a_sixteenth_and_the_last_sixteenth_is_for_those_that_have_none() {
    let mut line = Line::default();
    let user = Network::User(1000);
    assert_eq!([net(1), site(1), user, Network::Own].map(|of| line.share(at(0), of, 512)), [32, 32, 512, 512]);
    assert_eq!(line.share(at(0), net(1), 8), 1, "one at least");
    let limits = |line: &Line, all: [Network; 4]| all.map(|of| line.limit(at(0), of, 512));
    assert_eq!(limits(&line, [net(1), site(1), user, Network::Other]), [512; 4]);
    [net(1), site(1), user, Network::Other].into_iter().for_each(|of| line.places.add(of));
    assert_eq!(limits(&line, [net(1), site(1), user, Network::Other]), [480, 480, 480, 512]);
    assert_eq!(limits(&line, [net(2), site(2), Network::User(1001), Network::Own]), [512, 480, 512, 512]);
    (0..20).for_each(|_| line.penalise(at(0), net(2)));
    assert_eq!((line.limit(at(0), net(2), 512), line.share(at(0), net(2), 512)), (480, PENALISED));
    assert_eq!(line.share(at(0), net(2), 2), 2, "not more than there are");
}

#[test]
fn those_that_had_their_time_are_known_by_network_by_site_and_of_all() {
    let mut line = Line::default();
    for (millis, from) in [(0, net(1)), (500, site(1)), (1000, site(2)), (1000, site(2))] {
        line.seat(at(millis), waiting(0, from));
    }
    let Patient { of, of_site, of_all } = line.patient(at(2999));
    assert_eq!(of, HashMap::from([(net(1), 0), (site(1), 1)]));
    assert_eq!((of_site.into_values().collect::<Vec<_>>(), of_all), (vec![1], Some(0)), "of equals the oldest");
    let Patient { of, of_site, of_all } = line.patient(at(3000));
    assert_eq!(of, HashMap::from([(net(1), 0), (site(1), 1), (site(2), 2)]));
    assert_eq!((of_site.into_values().collect::<Vec<_>>(), of_all), (vec![2], Some(2)), "the heaviest");
}

#[test]
fn a_network_that_wants_a_second_place_leaves_the_last_ones_free() {
    let mut line = Line::default();
    let first: Vec<u64> = (0..MOST as u8).map(|n| line.comes(0, net(n), MOST).unwrap()).collect();
    let second = line.comes(100, net(5), MOST).unwrap();
    assert!(!line.is_seated(1999, second, net(5), MOST));
    assert!(line.is_seated(2000, second, net(5), MOST));
    // Its own, which made it the heaviest; then the oldest, one without a successor.
    let gone: Vec<usize> = (0..MOST).filter(|n| line.is_gone(2000, first[*n], net(*n as u8), MOST)).collect();
    assert_eq!((gone, line.counts()[..2].to_vec()), (vec![0, 1, 5], vec![30, 0]));
}

#[test]
fn a_place_that_is_free_is_given_before_any_is_taken_away() {
    let mut line = Line::default();
    let first: Vec<u64> = (0..MOST as u8).map(|n| line.comes(0, net(n), MOST).unwrap()).collect();
    let [second, new] = [5, 99].map(|n| line.comes(100, net(n), MOST).unwrap());
    line.leave(at(2000), first[31], net(31), MOST);
    assert!(line.is_seated(2000, second, net(5), MOST) && line.is_seated(2000, new, net(99), MOST));
    // With it all are taken, and the last two are not for a second of a network.
    let gone: Vec<usize> = (0..31).filter(|n| line.is_gone(2000, first[*n], net(*n as u8), MOST)).collect();
    assert_eq!((gone, line.counts()[..2].to_vec()), (vec![0, 1, 5], vec![30, 0]));
}

#[test]
fn a_network_that_has_none_has_one_of_the_last_places_and_then_that_of_the_oldest() {
    let mut line = Line::default();
    let first: Vec<u64> = (0..MOST as u8).map(|n| line.comes(n.into(), net(n), MOST).unwrap()).collect();
    assert_eq!(line.counts()[..2], [MOST, 0]);
    line.advance(at(2000), MOST);
    // One that comes when another has had its time need not wait for the next look at all.
    let next = line.comes(2100, net(99), MOST).unwrap();
    assert!(line.is_seated(2100, next, net(99), MOST));
    assert!(line.is_gone(2100, first[0], net(0), MOST) && line.is_seated(2100, first[1], net(1), MOST));
}

#[test]
fn a_site_that_has_four_shares_makes_room_for_itself_by_its_heaviest() {
    let mut line = Line::default();
    (0..8).for_each(|n| assert!(line.comes(0, net(n), MOST).is_some()));
    let of_site = [0, 1, 2, 3, 4, 5, 5, 6].map(|n| line.comes(0, site(n), MOST).unwrap());
    let next = line.comes(100, site(77), MOST).unwrap();
    let other = line.comes(100, net(77), MOST).unwrap();
    assert!(!line.is_seated(1999, next, site(77), MOST) && line.is_seated(1999, other, net(77), MOST));
    assert!(line.is_seated(2000, next, site(77), MOST));
    let gone: Vec<usize> = (0..8).filter(|n| line.is_gone(2000, of_site[*n], site(*n as u8), MOST)).collect();
    assert_eq!((gone, line.counts()[..2].to_vec()), (vec![5], vec![17, 0]), "the oldest of the network that has two");
}

#[test]
fn where_half_is_taken_a_site_has_four_shares() {
    let mut line = Line::default();
    (0..16).for_each(|n| assert!(line.comes(0, net(n), MOST).is_some()));
    let has_place = |n: &u8| {
        let number = line.comes(0, site(*n), MOST).unwrap();
        line.is_seated(0, number, site(*n), MOST)
    };
    assert_eq!((0..20).filter(has_place).count(), 8);
}

#[test]
fn a_network_waits_with_two_for_each_place_and_all_with_eight() {
    let mut line = Line::default();
    let came = (0..1000).filter(|_| line.comes(0, net(1), MOST).is_some()).count();
    assert_eq!((came, line.counts()[..2].to_vec()), (16 + 64, vec![16, 64]));
    let mut silent = Line::default();
    (0..20).for_each(|_| silent.penalise(at(0), net(1)));
    assert_eq!((0..1000).filter(|_| silent.comes(0, net(1), MOST).is_some()).count(), 2 * PENALISED);
}

/// Two places, both taken, and sixteen that wait of these networks in their turns.
fn full(networks: impl Fn(u8) -> Network) -> (Line, Vec<(u64, Network)>) {
    let mut line = Line::default();
    [100, 101].into_iter().for_each(|n| assert!(line.comes(0, net(n), 2).is_some()));
    let all = (0..16).map(|n| (line.comes(0, networks(n), 2).unwrap(), networks(n))).collect();
    assert_eq!(line.counts()[..2], [2, 16]);
    (line, all)
}

/// Which of those that waited are gone.
fn gone(line: &mut Line, all: &[(u64, Network)]) -> Vec<usize> {
    (0..all.len()).filter(|n| line.is_gone(0, all[*n].0, all[*n].1, 2)).collect()
}

#[test]
fn from_a_full_line_the_newest_of_the_longest_gives_way_to_a_lighter_network() {
    let (mut line, all) = full(|n| net(n % 4));
    assert!(line.comes(0, net(50), 2).is_some());
    assert_eq!(gone(&mut line, &all), [15], "of lines of one length the newest");
    assert!(line.comes(0, net(50), 2).is_some());
    assert_eq!(gone(&mut line, &all), [14, 15]);
    assert!(line.comes(0, net(50), 2).is_some() && line.comes(0, net(50), 2).is_none(), "as long as theirs");
    assert!(line.comes(0, net(3), 2).is_none());
    assert_eq!(gone(&mut line, &all), [13, 14, 15]);
    assert_eq!(line.counts()[..2], [2, 16]);
}

#[test]
fn from_a_full_line_one_of_a_large_site_gives_way_to_others_and_not_to_the_like_of_it() {
    let (mut line, all) = full(site);
    assert!(line.comes(0, site(77), 2).is_none());
    assert!(gone(&mut line, &all).is_empty());
    // Sixteen weigh as four networks.
    assert!(line.comes(0, net(50), 2).is_some());
    assert_eq!(gone(&mut line, &all), [15]);
    let (mut line, all) = full(|n| site(n.saturating_sub(2)));
    assert!(line.comes(0, site(77), 2).is_some());
    assert_eq!(gone(&mut line, &all), [2], "the newest of the network that has three");
    let (mut line, all) = full(|n| if n < 12 { site(n) } else { net(n) });
    assert!(line.comes(0, net(50), 2).is_some() && line.comes(0, net(50), 2).is_some());
    assert!(line.comes(0, net(50), 2).is_none(), "twelve, and ten, weigh as three networks");
    assert_eq!(gone(&mut line, &all), [10, 11]);
}

#[test]
fn what_came_elsewhere_does_not_give_way() {
    let (mut line, all) = full(|_| Network::Other);
    assert!(line.comes(0, net(50), 2).is_none());
    assert!(gone(&mut line, &all).is_empty());
}

#[test]
fn one_of_those_that_wait_looks_when_something_may_have_changed_and_the_others_later() {
    let mut line = Line::default();
    let held: Vec<u64> = (0..2).map(|n| line.comes(1000 + 500 * n, net(n as u8), 2).unwrap()).collect();
    let [one, two] = [7, 8].map(|n| line.comes(2000, net(n), 2).unwrap());
    assert_eq!(line.until(2900, one, net(7), 2), at(3000), "the oldest has had its time then");
    assert_eq!(line.until(2900, two, net(8), 2), at(3150), "after the one that looks");
    assert!(line.is_seated(3000, one, net(7), 2) && line.is_gone(3000, held[0], net(0), 2));
    assert_eq!(line.until(3000, two, net(8), 2), at(3500), "the second has had its time then");
    line.leave(at(3100), held[1], net(1), 2);
    assert!(line.is_seated(3100, two, net(8), 2));
    line.leave(at(3100), one, net(7), 2);
    line.leave(at(3100), two, net(8), 2);
    assert_eq!((line.counts(), line.places_of(net(7))), ([0, 0, 1], [0, 0]));
}

#[test]
fn one_that_cannot_come_in_yet_looks_again_soon_and_sooner_if_another_will_have_had_its_time() {
    let mut line = Line::default();
    let other = line.comes(0, net(0), MOST).unwrap();
    (0..15).for_each(|_| assert!(line.comes(500, net(1), MOST).is_some()));
    let [one, two] = [(); 2].map(|()| line.comes(2400, net(1), MOST).unwrap());
    assert_eq!(line.until(2400, one, net(1), MOST), at(2650), "its network makes room by its own, which are younger");
    line.leave(at(2450), other, net(0), MOST);
    assert!(line.is_seated(2450, one, net(1), MOST));
    assert_eq!(line.until(2450, two, net(1), MOST), at(2500));
    assert!(line.is_seated(2500, two, net(1), MOST));
}
