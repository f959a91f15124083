//! Both ends of a tunnel in memory: real sessions, real frames, and whatever a network may do to datagrams.

use super::super::config::tests::file;
use super::*;
use crate::clock::Clock;
use headstart_core::steer::{Facts, Settings, Steerer, policy};

/// A network that hands every datagram over at once, unless its channel is cut.
struct Pair {
    ends: [End; 2],
    cut: [bool; 2],
    clock: Clock,
    delivered: [Vec<Vec<u8>>; 2],
    sent: [u64; 2],
    /// The last datagrams of each channel, as they were.
    seen: Vec<(usize, Channel, Vec<u8>)>,
}

fn address(end: usize, channel: Channel) -> SocketAddr {
    let port = 7000 + channel.index() as u16;
    if end == 1 { format!("192.0.2.1:{port}") } else { format!("198.51.100.7:{port}") }.parse().unwrap()
}

impl Pair {
    fn new() -> Self {
        Self::of(&file(false), &file(true))
    }

    fn of(host: &str, gateway: &str) -> Self {
        let end = |text: &str, role, random| End::new(&text.parse().unwrap(), role, random);
        let host = end(host, Role::Host, [1, 2, 3 << 32 | 3]);
        let gateway = end(gateway, Role::Gateway, [4, 5, 6 << 32 | 6]);
        Self {
            ends: [host, gateway],
            cut: [false; 2],
            clock: Clock::new(),
            delivered: [Vec::new(), Vec::new()],
            sent: [0; 2],
            seen: Vec::new(),
        }
    }

    /// Lets everything that is to be done be done.
    fn run_until_idle(&mut self) {
        let now = self.clock.now();
        loop {
            let mut quiet = true;
            for end in 0..2 {
                while let Some(act) = self.ends[end].poll() {
                    quiet = false;
                    match act {
                        Act::Deliver(packet) => self.delivered[end].push(packet),
                        Act::Send(channel, to, datagram) => {
                            assert_eq!(to, address(1 - end, channel));
                            self.sent[channel.index()] += 1;
                            self.seen.push((end, channel, datagram.clone()));
                            if !self.cut[channel.index()] {
                                self.ends[1 - end].datagram(now, channel, address(end, channel), &datagram);
                            }
                        }
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn open(mut self) -> Self {
        self.ends[0].open();
        self.run_until_idle();
        self
    }

    /// Wakes both ends when they want to be, until `so_long` has passed.
    fn pass(&mut self, so_long: Duration) {
        let until = self.clock.now() + so_long;
        loop {
            let next = self.ends.iter().filter_map(End::deadline).map(|due| due.at).min().unwrap().min(until);
            self.clock.sleep_until(next);
            let now = self.clock.now();
            self.ends.iter_mut().for_each(|end| end.timeout(now));
            self.run_until_idle();
            if now >= until {
                return;
            }
        }
    }

    fn send(&mut self, end: usize, packet: &[u8]) {
        self.ends[end].packet(self.clock.now(), packet);
        self.run_until_idle();
    }
}

/// UDP from the host (or from the gateway) to the other, with `payload` bytes behind 28 of headers.
fn udp(from_host: bool, ports: (u16, u16), payload: usize) -> Vec<u8> {
    let (from, to) = if from_host { (2, 1) } else { (1, 2) };
    let length = (28 + payload) as u16;
    let mut p = vec![0x45, 0];
    p.extend_from_slice(&length.to_be_bytes());
    p.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, from, 10, 77, 0, to]);
    for word in [ports.0, ports.1, length - 20, 0] {
        p.extend_from_slice(&word.to_be_bytes());
    }
    p.resize(usize::from(length), 7);
    p
}

#[test]
fn packets_come_out_as_they_went_in_over_either_channel() {
    let mut pair = Pair::new().open();
    assert!(Channel::ALL.iter().all(|c| pair.ends[0].is_alive(*c)));
    // A name is asked for over the fast channel; a full packet goes over the fat one.
    let (question, full) = (udp(true, (5_000, 53), 40), udp(true, (5_000, 9), 1_300));
    pair.send(0, &question);
    for _ in 0..6 {
        pair.send(0, &full);
    }
    pair.pass(Duration::from_millis(60));
    assert_eq!(pair.delivered[1].len(), 7);
    assert!(pair.delivered[1].contains(&question) && pair.delivered[1].iter().filter(|p| **p == full).count() == 6);
    let tally = pair.ends[0].tally();
    assert!(tally.packets(Channel::Fast) >= 1 && tally.packets(Channel::Fat) >= 1, "{tally:?}");
    let answer = udp(false, (53, 5_000), 90);
    pair.send(1, &answer);
    assert_eq!((pair.delivered[0].last(), pair.ends[0].refused()), (Some(&answer), Refused::default()));
}

#[test]
fn what_takes_both_channels_comes_once_whichever_of_them_loses_it() {
    let mut pair = Pair::new().open();
    // One in fifty is lost on the fast channel, and a name that is lost costs a second.
    let channels = [(1_000_000_000, 0.0), (2_000_000, 0.02)].map(|(rate, loss)| ChannelSettings {
        rate,
        delay: FIRST_DELAYS[usize::from(loss > 0.0)],
        loss: Some(loss),
        overhead: 68,
        compresses: loss > 0.0,
        uses: Use::Primary,
    });
    let policy = policy::find("value").unwrap();
    let settings = Settings { policy, uplink: true, full: 1_392, channels, probes: None };
    pair.ends[0].inner.steer_by(Steerer::new(settings));
    for (n, cut) in [[false; 2], [false, true], [true, false], [false; 2]].into_iter().enumerate() {
        let question = udp(true, (5_000 + n as u16, 53), 40);
        pair.cut = cut;
        pair.send(0, &question);
        // The fast channel may still be sending the one before.
        pair.pass(Duration::from_millis(5));
        pair.cut = [false; 2];
        assert_eq!((pair.delivered[1].len(), pair.delivered[1].last()), (n + 1, Some(&question)));
        assert_eq!(pair.ends[0].tally().twice, n as u64 + 1, "over both");
    }
    // Two came twice, and were heard of once.
    assert_eq!(pair.ends[1].held().twice, 2);
    // What is large goes over the fat one alone.
    pair.cut = [false, true];
    pair.send(0, &udp(true, (5_000, 9), 1_300));
    assert_eq!((pair.delivered[1].len(), pair.ends[0].tally().twice), (5, 4));
}

#[test]
fn what_is_replayed_cut_short_changed_or_of_the_other_channel_is_dropped_and_counted_without_an_answer() {
    let mut pair = Pair::new().open();
    pair.send(0, &udp(true, (5_000, 53), 40));
    let (_, channel, good) = pair.seen.last().cloned().unwrap();
    let (now, from) = (pair.clock.now(), address(0, channel));
    let before = pair.ends[1].refused().datagrams;
    pair.ends[1].datagram(now, channel, from, &good);
    pair.ends[1].datagram(now, channel.other(), address(0, channel.other()), &good);
    for len in [0, 1, 31, good.len() - 1] {
        pair.ends[1].datagram(now, channel, from, &good[..len]);
    }
    let mut changed = good.clone();
    changed[20] ^= 1;
    pair.ends[1].datagram(now, channel, from, &changed);
    // An empty datagram belongs to no session.
    assert_eq!(pair.ends[1].refused().datagrams, before + 6);
    assert_eq!((pair.ends[1].poll(), pair.delivered[1].len()), (None, 1));
}

#[test]
fn addresses_that_are_not_behind_the_peer_are_refused_both_ways() {
    let mut pair = Pair::new().open();
    let mut stray = udp(true, (1, 2), 10);
    stray[16..20].copy_from_slice(&[192, 0, 2, 9]);
    pair.send(0, &stray);
    assert_eq!(pair.ends[0].refused().destinations, 1);
    let mut forged = udp(true, (1, 2), 10);
    forged[15] = 66;
    pair.send(0, &forged);
    assert_eq!((pair.ends[1].refused().sources, pair.delivered[1].len()), (1, 0));
    pair.send(0, &[0x45; 30]);
    pair.send(0, &udp(true, (1, 2), 1_400));
    assert_eq!(pair.ends[0].refused().packets, 2);
}

#[test]
fn a_wrong_key_gets_no_session_and_no_answer() {
    let other = headstart_keys();
    let host = file(false).replace(super::super::config::tests::SECRETS[0], &other);
    let pair = Pair::of(&host, &file(true)).open();
    assert!(!pair.ends[0].is_alive(Channel::Fat) && pair.ends[1].refused().datagrams == 2);
    assert!(pair.seen.iter().all(|(end, ..)| *end == 0));
}

#[test]
fn a_cap_is_counted_both_ways_and_at_it_nothing_more_goes_over_its_channel() {
    let capped = file(false).replace("2mbit", "2mbit\nPolicy = single-fast\nFastCap = 3kb/24h");
    let mut pair = Pair::of(&capped, &file(true)).open();
    let opened = pair.ends[0].cap(Channel::Fast).unwrap().used();
    assert!(opened > 148 + 92 && pair.ends[0].cap(Channel::Fat).is_none(), "{opened}");
    let from_host =
        |pair: &Pair| pair.seen.iter().filter(|(end, channel, _)| (*end, *channel) == (0, Channel::Fast)).count();
    for n in 0..200 {
        pair.send(0, &udp(true, (5_000 + n, 53), 40));
        pair.pass(Duration::from_millis(1));
        if pair.ends[0].uses(Channel::Fast) == Use::Never {
            break;
        }
    }
    let before = from_host(&pair);
    let used = pair.ends[0].cap(Channel::Fast).unwrap().used();
    assert!(pair.ends[0].uses(Channel::Fast) == Use::Never && (3_000..3_400).contains(&used), "{used}");
    // The gateway has no cap: what it sends is its own, and the host answers nothing.
    for n in 0..20 {
        pair.send(0, &udp(true, (6_000 + n, 53), 40));
        pair.pass(Duration::from_millis(5));
    }
    assert!((0..20).all(|n| pair.delivered[1].contains(&udp(true, (6_000 + n, 53), 40))));
    assert_eq!(from_host(&pair), before);
    assert!(pair.ends[0].tally().packets(Channel::Fat) >= 20);
    // Another run goes on with it, and a new period begins anew.
    let now = pair.clock.now();
    pair.ends[0].resume_cap(now, Channel::Fast, 2_800, Duration::from_secs(80_000));
    assert_eq!(pair.ends[0].uses(Channel::Fast), Use::Secondary);
    pair.ends[0].resume_cap(now, Channel::Fast, 9_000, Duration::from_secs(90_000));
    assert_eq!(pair.ends[0].uses(Channel::Fast), Use::Primary);
}

/// Five bytes of a TCP stream of the host.
fn thin(seq: u32, text: &[u8; 5]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 45, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 2, 10, 77, 0, 1];
    p.extend_from_slice(&[0x9c, 0x40, 0x1f, 0x90]);
    p.extend_from_slice(&seq.to_be_bytes());
    p.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    p.extend_from_slice(text);
    p
}

#[test]
fn a_thin_stream_that_is_bundled_loses_nothing_by_a_lost_packet_and_is_left_alone_else() {
    for bundle in [true, false] {
        let host = file(false).replace("2mbit", if bundle { "2mbit\nBundle = yes" } else { "2mbit\nBundle = no" });
        let mut pair = Pair::of(&host, &file(true)).open();
        pair.send(0, &thin(100, b"first"));
        pair.cut = [true; 2];
        pair.send(0, &thin(105, b"again"));
        pair.cut = [false; 2];
        pair.send(0, &thin(110, b"later"));
        pair.pass(Duration::from_millis(400));
        let last = pair.delivered[1].iter().max_by_key(|packet| packet.len()).unwrap();
        let (seq, said) = (&last[24..28], &last[40..]);
        if bundle {
            assert_eq!((seq, said), (&100u32.to_be_bytes()[..], &b"firstagainlater"[..]));
        } else {
            assert_eq!(said.len(), 5);
        }
        assert_eq!(pair.ends[0].bundled().map(|tally| tally.bundled), bundle.then_some(2));
    }
}

#[test]
fn a_channel_that_is_never_to_be_used_is_not_even_opened() {
    let host = file(false).replace("2mbit", "2mbit\nFatUse = never");
    let mut pair = Pair::of(&host, &file(true)).open();
    pair.send(0, &udp(true, (5_000, 9), 1_300));
    pair.pass(Duration::from_millis(60));
    assert_eq!((pair.delivered[1].len(), pair.sent[Channel::Fat.index()]), (1, 0));
}

fn headstart_keys() -> String {
    super::super::keys::SecretKey::generate().unwrap().reveal()
}

#[test]
fn a_channel_that_is_dead_from_the_start_holds_up_nobody_and_is_taken_when_it_comes() {
    let mut pair = Pair::new();
    pair.cut = [false, true];
    let mut pair = pair.open();
    pair.send(0, &udp(true, (5_000, 9), 40));
    pair.pass(Duration::from_millis(300));
    pair.send(0, &udp(true, (5_001, 53), 40));
    assert!(!pair.ends[0].is_alive(Channel::Fast) && pair.ends[0].is_alive(Channel::Fat));
    assert!(pair.delivered[1].iter().any(|p| *p == udp(true, (5_001, 53), 40)));
}

#[test]
fn a_channel_that_goes_is_left_and_no_packet_is_lost_for_long() {
    let mut pair = Pair::new().open();
    pair.pass(Duration::from_millis(100));
    pair.send(0, &udp(true, (5_000, 53), 40));
    pair.cut = [false, true];
    for n in 0..40 {
        pair.send(0, &udp(true, (5_000 + n, 53), 40));
        pair.pass(Duration::from_millis(10));
    }
    let there = |pair: &Pair, n: u16| pair.delivered[1].contains(&udp(true, (5_000 + n, 53), 40));
    // Within 300 ms, whatever this machine is doing.
    assert!(!pair.ends[0].is_alive(Channel::Fast) && (35..40).all(|n| there(&pair, n)));
}

#[test]
fn a_gateway_that_begins_anew_is_heard_again() {
    let mut pair = Pair::new().open();
    pair.send(0, &udp(true, (5_000, 9), 400));
    pair.pass(Duration::from_millis(30));
    assert_eq!(pair.delivered[1].len(), 1);
    pair.ends[1] = End::new(&file(true).parse().unwrap(), Role::Gateway, [7, 8, 9 << 32 | 9]);
    // The host's datagrams are of sessions that no longer exist, until the host notices that its peer does not answer.
    pair.send(0, &udp(true, (5_000, 9), 400));
    pair.pass(Duration::from_millis(800));
    assert!(pair.ends[1].refused().datagrams >= 1 && pair.ends[0].is_alive(Channel::Fat));
    pair.send(0, &udp(true, (5_002, 9), 400));
    pair.send(1, &udp(false, (9, 5_002), 400));
    pair.pass(Duration::from_millis(30));
    assert_eq!(pair.delivered[0].last(), Some(&udp(false, (9, 5_002), 400)));
    assert_eq!(pair.delivered[1].last(), Some(&udp(true, (5_002, 9), 400)));
}

/// TCP from the host or to it: numbers, and a payload.
fn segment(from_host: bool, (seq, ack): (u32, u32), payload: usize) -> Vec<u8> {
    let mut p = udp(from_host, (0, 0), 24 + payload);
    p[9] = 6;
    let (from, to): (u16, u16) = if from_host { (4_000, 443) } else { (443, 4_000) };
    p[20..22].copy_from_slice(&from.to_be_bytes());
    p[22..24].copy_from_slice(&to.to_be_bytes());
    p[24..28].copy_from_slice(&seq.to_be_bytes());
    p[28..32].copy_from_slice(&ack.to_be_bytes());
    p[32..40].copy_from_slice(&[0x80, 0x18, 1, 0, 0, 0, 0, 0]);
    p[40..52].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    p
}

#[test]
fn what_came_over_the_fast_channel_is_acknowledged_over_the_fat_one_behind_the_request() {
    let mut pair = Pair::new().open();
    pair.send(1, &segment(false, (1_000, 50), 300));
    assert_eq!(pair.delivered[0].len(), 1);
    pair.seen.clear();
    pair.send(0, &segment(true, (50, 1_300), 200));
    let ways: Vec<Channel> = pair.seen.iter().filter(|(end, ..)| *end == 0).map(|(_, channel, _)| *channel).collect();
    assert_eq!(ways, [Channel::Fat, Channel::Fast]);
    let mut said: Vec<_> = pair.delivered[1]
        .iter()
        .map(|packet| Facts::parse(packet, (1, 2)).map(|facts| (facts.payload, facts.seq, facts.ack)).unwrap())
        .collect();
    said.sort_unstable();
    assert_eq!(said, [(0, 250, Some(1_300)), (200, 50, Some(1_000))]);
    assert_eq!(pair.ends[0].tally().apart, 1);
}

#[test]
fn what_a_lost_channel_had_comes_over_the_other_one_and_once() {
    let mut pair = Pair::new().open();
    // A full segment takes the fat channel; the one before it has arrived.
    pair.send(0, &segment(true, (50, 1), 1_300));
    pair.pass(Duration::from_millis(120));
    assert_eq!(pair.delivered[1].len(), 1);
    pair.cut = [true, false];
    let lost = segment(true, (1_350, 1), 1_300);
    pair.send(0, &lost);
    assert_eq!(pair.delivered[1].len(), 1);
    for _ in 0..200 {
        pair.pass(Duration::from_millis(10));
        if pair.delivered[1].len() > 1 {
            break;
        }
    }
    assert_eq!(pair.delivered[1].get(1), Some(&lost));
    assert_eq!((pair.ends[0].tally().again, pair.ends[0].is_alive(Channel::Fat)), (1, false));
    pair.cut = [false; 2];
    pair.pass(Duration::from_millis(100));
    assert_eq!(pair.delivered[1].len(), 2);
}
