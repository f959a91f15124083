//! Initial windows for the kernel's own TCP: which peers get one, and how large. Linux remembers the congestion window of
//! past connections (RFC 9040, section 6, calls this sharing) and never starts with it; a route can say otherwise.
//!
//! Deliberately careful, since nothing watches the first flight: a share of the window that was reached (RFC 9959: at most
//! half), never more than a bound, never less than the kernel's own, from memories that are not too old. Pure: what is
//! remembered and which routes there are come in, windows and routes come out.

use super::history::{PREFIX_V4, PREFIX_V6};
use crate::path::identity::prefix;
use crate::time::Duration;
use crate::wire::netlink::{Route, TABLE_LOCAL, TABLE_MAIN};
use crate::wire::tcp_metrics::Remembered;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The initial window without our doing, in segments: RFC 6928.
pub const KERNELS_OWN: u32 = 10;

/// How careful to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The largest initial window, in segments.
    pub most: u32,
    /// The share of the remembered window that a connection starts with.
    pub share: f64,
    /// The oldest memory that counts.
    pub oldest: Duration,
    /// The most peers.
    pub peers: usize,
}

/// A peer and its initial window in segments, always larger than the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The peer.
    pub peer: IpAddr,
    /// The window.
    pub segments: u32,
}

/// The windows that memories earn: for the peers that were used last, sorted by peer. If a peer is remembered from several
/// source addresses, the smallest window counts.
pub fn windows(remembered: &[Remembered], bounds: &Bounds) -> Vec<Window> {
    let mut peers: BTreeMap<IpAddr, (Duration, u32)> = BTreeMap::new();
    for memory in remembered.iter().filter(|memory| memory.age <= bounds.oldest) {
        let Some(window) = memory.window else { continue };
        let (age, least) = peers.entry(memory.peer).or_insert((memory.age, window));
        (*age, *least) = ((*age).min(memory.age), (*least).min(window));
    }
    let earned = |window: u32| ((f64::from(window) * bounds.share) as u32).min(bounds.most);
    let mut found: Vec<_> = peers
        .into_iter()
        .map(|(peer, (age, window))| (age, Window { peer, segments: earned(window) }))
        .filter(|(_, window)| window.segments > KERNELS_OWN)
        .collect();
    found.sort_by_key(|(age, window)| (*age, window.peer));
    found.truncate(bounds.peers);
    let mut windows: Vec<_> = found.into_iter().map(|(_, window)| window).collect();
    windows.sort_by_key(|window| window.peer);
    windows
}

/// What a path allows: for a host, or for the prefix that hosts share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The host or the network.
    pub to: IpAddr,
    /// Bits of the prefix; all of them for a host.
    pub bits: u8,
    /// The address that it was learned from; none if it is not known, or if they were several.
    pub source: Option<IpAddr>,
    /// Segments that may be sent at once over [`Path::rtt`]: a share of what was carried, whatever the bound.
    pub window: u32,
    /// The round trip over which it was carried.
    pub rtt: Duration,
    /// How long the answer to a SYN is waited for; none if that is no less than the kernel waits.
    pub timeout: Option<Duration>,
}

/// How long the kernel waits for the answer to a SYN: RFC 6298, section 2.1.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// The kernel's shortest timeout (TCP_RTO_MIN of net/tcp.h).
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// The same as [`windows`] for a program that sees each connection's round trip: for the peers that were used last, and for their
/// prefixes at half of the smallest window of their hosts, as a neighbour's memory is trusted less (RFC 9959 asks for the same path).
/// A peer whose round trip is not remembered is left out.
pub fn paths(remembered: &[Remembered], bounds: &Bounds) -> Vec<Path> {
    let unbound = Bounds { most: u32::MAX, ..*bounds };
    let mut hosts = Vec::new();
    for Window { peer, segments } in windows(remembered, &unbound) {
        let of_it = || remembered.iter().filter(|memory| memory.peer == peer && memory.age <= bounds.oldest);
        // The longest: the same window over a shorter one would be faster.
        let Some(rtt) = of_it().filter_map(|memory| memory.rtt).max().filter(|rtt| !rtt.is_zero()) else { continue };
        let mut sources = of_it().map(|memory| memory.source);
        let first = sources.next().flatten();
        let source = first.filter(|_| sources.all(|source| source == first));
        // What the kernel itself expects of a connection to a host whose round trip it remembers (tcp_init_metrics).
        let timeout = rtt + (rtt * 2).max(LEAST_TIMEOUT);
        let timeout = (timeout < SYN_TIMEOUT).then_some(timeout);
        hosts.push(Path { to: peer, bits: length(peer), source, window: segments, rtt, timeout });
    }
    let mut prefixes: BTreeMap<(IpAddr, u8), Path> = BTreeMap::new();
    for host in &hosts {
        let bits = if host.to.is_ipv4() { PREFIX_V4 } else { PREFIX_V6 };
        let of_host = Path { to: prefix(host.to, bits), bits, window: host.window / 2, timeout: None, ..*host };
        prefixes
            .entry((of_host.to, bits))
            .and_modify(|known| {
                known.window = known.window.min(of_host.window);
                known.rtt = known.rtt.max(of_host.rtt);
                known.source = known.source.filter(|source| Some(*source) == of_host.source);
            })
            .or_insert(of_host);
    }
    hosts.extend(prefixes.into_values().filter(|path| path.window > KERNELS_OWN));
    hosts
}

fn length(of: IpAddr) -> u8 {
    if of.is_ipv4() { 32 } else { 128 }
}

/// Leaves out what was learned over another path than the one that connections take now: over a tunnel, or before it, or from
/// an address that the host has left. `source` is the address that a connection to a peer would come from now; what it does
/// not know stays.
pub fn of_this_path(remembered: &mut Vec<Remembered>, mut source: impl FnMut(IpAddr) -> Option<IpAddr>) {
    remembered.retain(|memory| match memory.source {
        Some(then) => source(memory.peer).is_none_or(|now| now == then),
        None => true,
    });
}

/// The route of the main table that packets to `peer` take: the longest prefix, then the least metric, as the kernel
/// chooses. None if there is none, if another program has given it an initial window, or if the peer is this host itself,
/// whose connections to itself the kernel remembers too.
pub fn way_to(peer: IpAddr, routes: &[Route]) -> Option<&Route> {
    if routes.iter().any(|route| route.table() == TABLE_LOCAL && route.contains(peer)) {
        return None;
    }
    let bits = |route: &Route| route.destination().map_or(0, |(_, bits)| bits);
    let main = routes.iter().filter(|route| route.table() == TABLE_MAIN && route.covers(peer));
    let best = main.min_by_key(|route| (std::cmp::Reverse(bits(route)), route.priority()))?;
    best.initcwnd().is_none().then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::netlink::{Attribute, encode, rta};

    const BOUNDS: Bounds = Bounds { most: 32, share: 0.5, oldest: Duration::from_secs(3600), peers: 3 };

    fn memory(last: u8, age: u64, window: u32) -> Remembered {
        Remembered {
            peer: [192, 0, 2, last].into(),
            source: None,
            age: Duration::from_secs(age),
            window: Some(window),
            rtt: None,
        }
    }

    fn segments(remembered: &[Remembered]) -> Vec<(u8, u32)> {
        let last = |ip: IpAddr| if let IpAddr::V4(ip) = ip { ip.octets()[3] } else { 0 };
        windows(remembered, &BOUNDS).iter().map(|w| (last(w.peer), w.segments)).collect()
    }

    #[test]
    fn a_connection_starts_with_half_of_what_was_reached_and_never_beyond_the_bound() {
        assert_eq!(segments(&[memory(1, 0, 40), memory(2, 0, 1000), memory(3, 0, 23)]), [(1, 20), (2, 32), (3, 11)]);
    }

    #[test]
    fn what_earns_no_more_than_the_kernel_gives_anyway_is_left_to_it() {
        assert_eq!(segments(&[memory(1, 0, 20), memory(2, 0, 3)]), []);
        let unknown = Remembered { window: None, ..memory(1, 0, 0) };
        assert_eq!(segments(&[unknown]), []);
    }

    #[test]
    fn a_prefix_is_trusted_half_as_much_as_the_least_of_its_hosts_and_nothing_is_known_without_a_round_trip() {
        let over = |last: u8, window, ms, source: [u8; 4]| Remembered {
            source: Some(source.into()),
            rtt: Some(Duration::from_millis(ms)),
            ..memory(last, 0, window)
        };
        let (wire, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let all = [over(1, 1000, 20, wire), over(2, 100, 30, wire), memory(3, 0, 500)];
        let known = paths(&all, &BOUNDS);
        let short: Vec<_> = known.iter().map(|path| (path.to.to_string(), path.bits, path.window, path.rtt)).collect();
        let (twenty, thirty) = (Duration::from_millis(20), Duration::from_millis(30));
        let expected = [("192.0.2.1", 32, 500, twenty), ("192.0.2.2", 32, 50, thirty), ("192.0.2.0", 24, 25, thirty)];
        assert_eq!(short, expected.map(|(to, bits, window, rtt)| (to.to_owned(), bits, window, rtt)));
        assert!(known.iter().all(|path| path.source == Some(wire.into())));
        let waits: Vec<_> = known.iter().map(|path| path.timeout).collect();
        assert_eq!(waits, [Some(Duration::from_millis(220)), Some(Duration::from_millis(230)), None]);
        let slow = paths(&[over(1, 30, 400, wire), over(1, 60, 500, other)], &BOUNDS);
        let [slow] = slow.as_slice() else { panic!("{slow:?}") };
        assert_eq!((slow.window, slow.rtt), (15, Duration::from_millis(500)), "the smallest window, the longest trip");
        assert_eq!((slow.source, slow.timeout), (None, None));
    }

    #[test]
    fn what_was_learned_over_a_tunnel_says_nothing_of_the_way_without_it() {
        let from = |last: u8, source: [u8; 4]| Remembered { source: Some(source.into()), ..memory(last, 0, 60) };
        let (wire, tunnel) = ([192, 0, 2, 200], [10, 77, 0, 2]);
        let all = vec![from(1, wire), from(1, tunnel), from(2, tunnel), memory(3, 0, 60), from(4, wire)];
        let left = |now: [u8; 4], of_fourth: Option<IpAddr>| {
            let mut all = all.clone();
            let fourth = IpAddr::from([192, 0, 2, 4]);
            of_this_path(&mut all, |peer| if peer == fourth { of_fourth } else { Some(now.into()) });
            all
        };
        assert_eq!(
            left(wire, None),
            [all[0], all[3], all[4]],
            "what the kernel cannot say is not held against a memory"
        );
        assert_eq!(left(tunnel, Some(tunnel.into())), [all[1], all[2], all[3]]);
    }

    #[test]
    fn old_memories_do_not_count_and_of_many_peers_the_last_used_are_chosen() {
        let all = [memory(1, 3601, 60), memory(2, 30, 60), memory(3, 20, 60), memory(4, 10, 60), memory(5, 3600, 60)];
        assert_eq!(segments(&all), [(2, 30), (3, 30), (4, 30)]);
    }

    #[test]
    fn of_two_memories_of_a_peer_the_smaller_window_counts() {
        assert_eq!(segments(&[memory(1, 5, 60), memory(1, 9, 30)]), [(1, 15)]);
    }

    fn route(to: [u8; 4], bits: u8, priority: u32, more: &[Attribute]) -> Route {
        let head = [2, bits, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let mut all = vec![Attribute::new(rta::DST, to), Attribute::u32(rta::PRIORITY, priority)];
        all.extend_from_slice(more);
        Route::decode(&[head.as_slice(), &encode(&all)].concat()).unwrap()
    }

    #[test]
    fn the_way_is_the_one_that_the_kernel_would_take() {
        let (wide, near, same) =
            (route([0; 4], 0, 0, &[]), route([192, 0, 2, 0], 24, 50, &[]), route([192, 0, 2, 0], 24, 7, &[]));
        let other_table = route([192, 0, 2, 1], 32, 0, &[Attribute::u32(rta::TABLE, 100)]);
        let all = [wide.clone(), near, same.clone(), other_table];
        assert_eq!(way_to([192, 0, 2, 1].into(), &all), Some(&same));
        assert_eq!(way_to([198, 51, 100, 1].into(), &all), Some(&wide));
        assert_eq!(way_to("2001:db8::1".parse().unwrap(), &all), None);
    }

    #[test]
    fn this_host_is_no_peer_of_its_own() {
        // RTN_LOCAL, in the table of addresses of the host.
        let head = [2, 8, 0, 0, TABLE_LOCAL as u8, 2, 254, 2, 0, 0, 0, 0];
        let local = encode(&[Attribute::new(rta::DST, [127, 0, 0, 0])]);
        let all = [route([0; 4], 0, 0, &[]), Route::decode(&[head.as_slice(), &local].concat()).unwrap()];
        assert_eq!(way_to([127, 0, 0, 1].into(), &all), None);
        assert_eq!(way_to([192, 0, 2, 1].into(), &all), Some(&all[0]));
    }

    #[test]
    fn a_window_that_somebody_has_set_is_left_alone() {
        let set = Attribute::new(rta::METRICS, encode(&[Attribute::u32(11, 12)]));
        let all = [route([0; 4], 0, 0, &[]), route([192, 0, 2, 0], 24, 0, &[set])];
        assert_eq!(way_to([192, 0, 2, 1].into(), &all), None);
    }
}
