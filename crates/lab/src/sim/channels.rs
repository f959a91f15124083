//! Two channels in the place of one access link: the steerers of both ends, and the links between them.
//!
//! What is steered is decided by `core::steer`, the very code that a host runs: a steerer and a resequencer a direction. Either
//! they are *ideal*, inside the emulator as in paper 5: no byte more, delays and rates known; or they are a *tunnel*: each
//! packet carries the tunnel's headers, those of TCP are compressed on the fast channel, delays are probed with packets that
//! use the channels, and the resequencer is there whatever the policy. What is not modelled: handshakes of the tunnel.

use super::company::Carried;
use super::packet::{Body, Packet};
use crate::world::Site;
use headstart_core::machine::Machine;
use headstart_core::path::Family;
use headstart_core::steer::policy::Entry;
use headstart_core::steer::{
    Apart, Arrived, Channel, ChannelSettings, Facts, FlowKey, Input, Kind, Order, Output, ProbeSettings, Resequencer,
    Settings, Steerer, Tally, Use,
};
use headstart_core::time::{Duration, Instant};
use headstart_link::medium::Way;
use headstart_link::{Link, ParseError};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// Bytes of a full packet without a tunnel.
const MTU: usize = 1500;
/// The inner MTU of the tunnel: 1500 less IPv6, UDP, WireGuard and eight bytes of our own.
const INNER_MTU: usize = 1412;
/// IPv4, UDP, WireGuard's header and tag, and eight bytes of our own.
const TUNNEL: usize = 20 + 8 + 16 + 16 + 8;
/// A probe: the least frame, with the tunnel's headers but for our own eight, which it is.
const PROBE: usize = 20 + TUNNEL - 8;
/// IPv6 less IPv4: full packets of both families are full.
const BETWEEN_FAMILIES: usize = 20;
/// Channels unused for so long are not probed any more: a simulation comes to an end.
const PROBED_FOR: Duration = Duration::from_secs(10);

/// The two channels, and the policy that steers.
#[derive(Clone, Debug)]
pub struct Steering {
    /// The fat channel, as a text of `headstart_link`.
    pub fat: String,
    /// The fast one.
    pub fast: String,
    /// By which policy.
    pub policy: &'static Entry,
    /// Through a tunnel; else inside the emulator.
    pub tunnel: bool,
    /// Sites of the world whose connections are bound to the fast channel; all others to the fat one. Of use to policies that
    /// choose by objects.
    pub bound: BTreeSet<usize>,
}

impl Steering {
    /// Bytes of payload in a full segment.
    pub fn segment(&self) -> u64 {
        (if self.tunnel { INNER_MTU } else { MTU }) as u64 - 72
    }
}

/// A channel that loses everything for a while, both ways, without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Which.
    pub channel: Channel,
    /// From when.
    pub from: Instant,
    /// What is sent then arrives again.
    pub until: Instant,
}

/// What travels on a channel.
#[derive(Clone, Debug)]
struct Framed {
    bytes: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Packet(Box<(Order, Facts, Packet)>),
    /// With the number of the packet of the other channel that says the same.
    Copy(u64, Box<(Order, Facts, Packet)>),
    Probe(u16),
    /// With the packets that had come.
    Echo(u16, u16),
}

impl headstart_link::Packet for Framed {
    fn wire_len(&self) -> usize {
        self.bytes
    }
}

/// See the module.
pub(super) struct Channels {
    /// By direction, then by channel.
    links: [[Link<Framed>; 2]; 2],
    steerers: [Steerer<Packet>; 2],
    resequencers: [Option<Resequencer<Packet>>; 2],
    /// Packets that have come, by direction, then by channel.
    come: [[u64; 2]; 2],
    tunnel: bool,
    compresses: [bool; 2],
    bound_addresses: BTreeSet<IpAddr>,
    bound_sites: BTreeSet<usize>,
    /// Channels that the questions under way are bound to.
    questions: HashMap<u64, Option<Channel>>,
    ready: VecDeque<(Instant, Way, Packet)>,
    /// The last packet, and the last probe that was not reported.
    used: Option<Instant>,
    probed: Option<Instant>,
    /// Channels are probed as long as they are there.
    at_rest: bool,
    gone: Option<Gone>,
}

impl Channels {
    /// Channels to `sites`, of a world with this seed.
    pub fn new(world_seed: u64, sites: &[Site], steering: &Steering) -> Result<Self, ParseError> {
        let texts = [&steering.fat, &steering.fast];
        let duplexes = [headstart_link::parse(texts[0])?, headstart_link::parse(texts[1])?];
        let of = |way: Way, channel: Channel| match way {
            Way::Up => &duplexes[channel.index()].0,
            Way::Down => &duplexes[channel.index()].1,
        };
        let seed = |way: Way, channel: Channel| world_seed ^ (0x5eed + 2 * channel.index() as u64 + way.index() as u64);
        let links = Way::BOTH.map(|way| Channel::ALL.map(|c| Link::new(of(way, c), seed(way, c))));
        let compresses = [false, steering.tunnel];
        let steerers = Way::BOTH.map(|way| {
            let channels = Channel::ALL.map(|channel| ChannelSettings {
                rate: mean_rate(of(way, channel)),
                delay: of(way, channel).least_delay(),
                loss: Some(loss(of(way, channel))),
                overhead: if steering.tunnel { TUNNEL } else { 0 },
                compresses: compresses[channel.index()],
                uses: Use::Primary,
            });
            Steerer::new(Settings {
                policy: steering.policy,
                uplink: way == Way::Up,
                full: if steering.tunnel { INNER_MTU } else { MTU } - BETWEEN_FAMILIES,
                channels,
                probes: steering.tunnel.then(|| probing(way)),
            })
        });
        let ordered = steering.tunnel || steering.policy.keeps_order;
        let bound = |(n, site): (usize, &Site)| {
            let addresses = site.v4.iter().chain(&site.v6).map(|host| host.addr);
            if steering.bound.contains(&n) { addresses.collect() } else { Vec::new() }
        };
        Ok(Self {
            links,
            resequencers: [0, 1].map(|i| ordered.then(|| Resequencer::new(steerers[i].hold()))),
            steerers,
            come: [[0; 2]; 2],
            tunnel: steering.tunnel,
            compresses,
            bound_addresses: sites.iter().enumerate().flat_map(bound).collect(),
            bound_sites: steering.bound.clone(),
            questions: HashMap::new(),
            ready: VecDeque::new(),
            used: None,
            probed: None,
            at_rest: false,
            gone: None,
        })
    }

    /// A channel is lost for a while.
    pub fn lose(&mut self, gone: Gone) {
        self.gone = Some(gone);
    }

    /// Gives a frame to a channel. A drop is counted by the link; the sender hears nothing of it, as in life.
    fn put(&mut self, now: Instant, way: Way, channel: Channel, framed: Framed) {
        if self.gone.is_none_or(|gone| gone.channel != channel || !(gone.from..gone.until).contains(&now)) {
            let _ = self.links[way.index()][channel.index()].push(now, framed);
        }
    }

    /// Whether they are probed for ever; else a while after the last packet.
    pub fn probe_at_rest(&mut self, at_rest: bool) {
        self.at_rest = at_rest;
    }

    /// When the last probe was sent, if it was since the last question.
    pub fn probed(&mut self) -> Option<Instant> {
        self.probed.take()
    }

    /// What was decided, up and down.
    pub fn tallies(&self) -> [Tally; 2] {
        [0, 1].map(|i| self.steerers[i].tally().clone())
    }

    /// Bytes offered to the channels of a direction, headers of the tunnel and probes included.
    pub fn bytes_in(&self, way: Way) -> u64 {
        self.links[way.index()].iter().map(|link| link.counters().bytes_in).sum()
    }

    /// Bytes on each channel, both directions together.
    pub fn bytes(&self) -> [u64; 2] {
        [0, 1].map(|c| self.links.iter().map(|way| way[c].counters().bytes_in).sum())
    }

    /// A packet is to be sent; a drop is counted by its link.
    pub fn send(&mut self, now: Instant, way: Way, packet: Packet) {
        let facts = self.facts(&packet);
        self.used = Some(now);
        // What was due while nothing was probed is due now, and not once for each time that it would have been.
        for way in Way::BOTH {
            if self.steerers[way.index()].poll_timeout().is_some_and(|d| d.at < now) {
                self.steerers[way.index()].handle_timeout(now);
                self.carry_out(now, way);
            }
        }
        self.steerers[way.index()].handle_input(now, Input::Packet(facts, packet));
        self.carry_out(now, way);
    }

    fn facts(&mut self, packet: &Packet) -> Facts {
        let bound = |addresses: &BTreeSet<IpAddr>, to: &IpAddr| addresses.contains(to).then_some(Channel::Fast);
        let (key, kind, hint) = match &packet.body {
            Body::Question { query, site, .. } => {
                let hint = site.filter(|n| self.bound_sites.contains(n)).map(|_| Channel::Fast);
                self.questions.insert(*query, hint);
                (query | 1 << 62, Kind::Dns, hint)
            }
            Body::Response { query, .. } | Body::NoServer { query } => {
                (query | 1 << 62, Kind::Dns, self.questions.remove(query).flatten())
            }
            Body::DnsSyn { query } | Body::DnsSynAck { query } => (query | 1 << 62, Kind::Open, None),
            Body::Syn { socket, to: peer } | Body::SynAck { socket, from: peer } => {
                (*socket, Kind::Open, bound(&self.bound_addresses, peer))
            }
            Body::Rst { socket } => (*socket, Kind::Close, None),
            Body::Ack => (u64::MAX, Kind::Ack, None),
            Body::Segment(segment) => {
                let kind = if segment.data.is_some() { Kind::Data } else { Kind::Ack };
                (segment.socket, kind, bound(&self.bound_addresses, &segment.peer))
            }
            Body::Company(Carried::Datagram { stream, .. }) => {
                (u64::MAX - 1 - (u64::from(*stream) << 20), Kind::Datagram, None)
            }
            Body::Company(Carried::Message { connection, segment, .. }) => {
                let kind = if segment.len > 0 { Kind::Data } else { Kind::Ack };
                (u64::MAX - 2 - u64::from(*connection), kind, None)
            }
        };
        let mut facts = Facts {
            len: packet.bytes,
            v6: packet.over == Family::V6,
            tls: true,
            hint,
            ..Facts::of(FlowKey(key), kind)
        };
        match &packet.body {
            Body::Segment(segment) => {
                facts.payload = segment.data.map_or(0, |d| d.len as usize);
                facts.seq = segment.data.map_or(0, |d| d.number as u32);
                // The number that is expected next, as TCP says it.
                let ranges = segment.acknowledges.unwrap_or_default();
                facts.ack = Some(ranges[0].map_or(0, |(_, highest)| highest + 1) as u32);
                // What has come beyond a hole is said in an option.
                facts.sacks = ranges[1].is_some();
                facts.plain = !facts.sacks;
            }
            Body::Company(Carried::Datagram { bytes, .. }) => facts.payload = *bytes,
            Body::Company(Carried::Message { segment, .. }) => {
                facts.payload = segment.len;
                facts.seq = segment.seq as u32;
                facts.ack = Some(segment.ack as u32);
                facts.sacks = segment.sacks.iter().any(|(from, to)| from < to);
                facts.plain = !facts.sacks;
            }
            Body::Question { .. } | Body::Response { .. } => facts.payload = packet.bytes.saturating_sub(28),
            _ => {}
        }
        facts
    }

    /// Does what a steerer asks for.
    fn carry_out(&mut self, now: Instant, way: Way) {
        let tunnel = if self.tunnel { TUNNEL } else { 0 };
        while let Some(output) = self.steerers[way.index()].poll_output() {
            let (channel, framed) = match output {
                Output::Send { channel, order, apart, copy, facts, mut packet, .. } => {
                    if let Some(Apart { back_to, order }) = apart {
                        let alone = packet.acknowledge_apart(back_to);
                        if let Some((order, alone)) = order.zip(alone) {
                            let bytes = alone.bytes + tunnel;
                            let facts = Facts { kind: Kind::Ack, len: alone.bytes, payload: 0, ..facts };
                            let framed = Framed { bytes, what: What::Packet(Box::new((order, facts, alone))) };
                            self.put(now, way, Channel::Fat, framed);
                        }
                    }
                    if let Some(number) = copy {
                        let bytes = packet.bytes + tunnel;
                        let place = Order { number, after: None };
                        let what = What::Copy(order.number, Box::new((place, facts, packet.clone())));
                        self.put(now, way, channel.other(), Framed { bytes, what });
                    }
                    let steerer = &mut self.steerers[way.index()];
                    if steerer.keeps(&facts) {
                        steerer.keep(now, channel, order.number, facts, packet.clone());
                    }
                    let shorter = self.compresses[channel.index()] && facts.ack.is_some();
                    let saved = if shorter { headstart_core::steer::compress::SAVED[usize::from(facts.v6)] } else { 0 };
                    (
                        channel,
                        Framed {
                            bytes: packet.bytes + tunnel - saved,
                            what: What::Packet(Box::new((order, facts, packet))),
                        },
                    )
                }
                Output::Again { channel, number, of, facts, packet } => {
                    let bytes = packet.bytes + tunnel;
                    let place = Order { number, after: None };
                    (channel, Framed { bytes, what: What::Copy(of, Box::new((place, facts, packet))) })
                }
                Output::Probe { channel, number } => {
                    self.probed = Some(now);
                    (channel, Framed { bytes: PROBE, what: What::Probe(number) })
                }
                Output::Drop(_) => continue,
            };
            self.put(now, way, channel, framed);
        }
    }

    /// When to poll next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if let Some((at, ..)) = self.ready.front() {
            return Some(*at);
        }
        let links = self.links.iter().flatten().filter_map(|link| link.poll_timeout());
        let orders = self.resequencers.iter().flatten().filter_map(|r| r.poll_timeout());
        // Before the first packet there is nothing to probe for.
        let rest =
            self.used.map_or(Instant::ZERO, |used| if self.at_rest { Instant::FAR_FUTURE } else { used + PROBED_FOR });
        let steerers = self.steerers.iter().filter_map(|s| s.poll_timeout().filter(|d| s.backlog() > 0 || d.at < rest));
        links.chain(orders).chain(steerers).map(|deadline| deadline.at).min()
    }

    /// The next packet that has arrived until `now`: when, which way it went, and what it is.
    pub fn poll(&mut self, now: Instant) -> Option<(Instant, Way, Packet)> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            let at = self.poll_timeout().filter(|at| *at <= now)?;
            for way in Way::BOTH {
                for channel in Channel::ALL {
                    while let Some((at, framed)) = self.links[way.index()][channel.index()].poll(at) {
                        self.arrived(at, way, channel, framed.what);
                    }
                }
                let i = way.index();
                if let Some(resequencer) = &mut self.resequencers[i] {
                    resequencer.set_hold(self.steerers[i].hold());
                    resequencer.handle_timeout(at);
                    while let Some(packet) = resequencer.poll_output() {
                        self.ready.push_back((at, way, packet));
                    }
                }
                if self.steerers[i].poll_timeout().is_some_and(|d| d.at <= at) {
                    self.steerers[i].handle_timeout(at);
                    self.carry_out(at, way);
                }
            }
        }
    }

    fn arrived(&mut self, at: Instant, way: Way, channel: Channel, what: What) {
        match what {
            What::Packet(packet) => self.handed_over(at, way, channel, None, *packet),
            What::Copy(of, packet) => self.handed_over(at, way, channel, Some(of as u16), *packet),
            What::Probe(number) => {
                let come = self.come[way.index()][channel.index()] as u16;
                let back = Framed { bytes: PROBE, what: What::Echo(number, come) };
                self.put(at, opposite(way), channel, back);
                self.steerers[opposite(way).index()].handle_input(at, Input::Probed(channel));
            }
            // The steerer of the other direction has asked.
            What::Echo(number, come) => {
                let other = opposite(way);
                self.steerers[other.index()].handle_input(at, Input::Echo { channel, number, come: Some(come) });
                self.carry_out(at, other);
            }
        }
    }

    /// A packet has come, or the copy of the one with this number of the other channel.
    fn handed_over(
        &mut self,
        at: Instant,
        way: Way,
        channel: Channel,
        copy_of: Option<u16>,
        (Order { number, after }, facts, packet): (Order, Facts, Packet),
    ) {
        self.come[way.index()][channel.index()] += 1;
        let again = |r: &Resequencer<Packet>| r.has_come(channel, number as u16, copy_of);
        if !self.resequencers[way.index()].as_ref().is_some_and(again) {
            self.steerers[1 - way.index()].handle_input(at, Input::Seen(facts, channel));
        }
        let Some(resequencer) = &mut self.resequencers[way.index()] else {
            return self.ready.push_back((at, way, packet));
        };
        let after = after.map(|n| n as u16);
        resequencer.handle_input(at, Arrived { channel, number: number as u16, after, copy_of, packet });
        while let Some(packet) = resequencer.poll_output() {
            self.ready.push_back((at, way, packet));
        }
    }
}

/// As the ends of a tunnel do it: the host keeps the way open.
fn probing(way: Way) -> ProbeSettings {
    let settings = ProbeSettings::default();
    ProbeSettings { rest: settings.rest.filter(|_| way == Way::Up), ..settings }
}

fn opposite(way: Way) -> Way {
    if way == Way::Up { Way::Down } else { Way::Up }
}

/// The rate of a direction in bits a second: what it takes to send a megabyte says it.
pub fn mean_rate(link: &headstart_link::LinkSpec) -> u64 {
    let mut rate = link.rate.build();
    let start = rate.start(Instant::ZERO);
    let takes = rate.serve(start, 1_000_000).since(start);
    (8e6 / takes.as_secs_f64().max(1e-9)) as u64
}

/// The share of packets that a direction loses: what becomes of ten thousand, ten milliseconds apart, says it.
fn loss(link: &headstart_link::LinkSpec) -> f64 {
    const PACKETS: u64 = 10_000;
    let (mut loss, mut rng) = (link.loss.build(), fastrand::Rng::with_seed(0));
    let lost = (0..PACKETS).filter(|n| loss.loses(Instant::from_millis(10 * n), &mut rng)).count();
    lost as f64 / PACKETS as f64
}
