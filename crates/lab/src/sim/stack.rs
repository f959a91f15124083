//! The client's machine in virtual time: its kernel's TCP handshakes, its DNS transport, and the access link.
//!
//! TCP behaves as Linux 6.5 and later does: the SYN is repeated after a second, four times at that distance
//! (`tcp_syn_linear_timeouts`), then at doubling ones, and given up after `tcp_syn_retries` more. DNS goes over UDP, a
//! truncated answer is asked for again over TCP, what does not parse is dropped and counted. A family that leaves takes
//! the packets to its address with it: attempts under way hear nothing more, new ones fail at once. Time passes only in
//! [`Stack::step`]. There is no data transfer: a connection is over, for this model, when it is open.

use super::channels::{Channels, Steering};
use super::company::Carried;
use super::driver::Driven;
use super::far_side::FarSide;
use super::packet::{Body, Packet, Says, Segment, Server};
use crate::world::{Change, Event as WorldEvent, When, World};
use headstart_core::connect::{LookupResult, Output};
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use headstart_link::medium::Way;
use headstart_link::{Duplex, ParseError, parse_duplex};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// First retransmission timeout of a SYN: RFC 6298, section 2.1.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// Timeouts after which the distance of SYNs begins to double: `net.ipv4.tcp_syn_linear_timeouts`, default 4.
const SYN_LINEAR_TIMEOUTS: u32 = 4;
/// Retransmissions beyond the linear ones: `net.ipv4.tcp_syn_retries`, default 6.
const SYN_RETRIES: u32 = 6;

const ENETUNREACH: i32 = 101;
const ECONNREFUSED: i32 = 111;
const ETIMEDOUT: i32 = 110;

/// Something that the client's programs notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A query was answered.
    Answer { query: u64, result: LookupResult },
    /// A connection is open; how long its handshake took.
    Connected { socket: u64, took: Duration },
    /// A connection attempt has failed, with this errno.
    Failed { socket: u64, errno: i32 },
    /// A segment of an open connection has reached its end.
    Segment(Segment),
    /// What is exchanged beside a page load has reached its end.
    Company(Carried),
}

/// What was sent and received, counted at the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// DNS queries, repetitions and those over TCP included.
    pub queries: u64,
    /// First SYNs to hosts: connection attempts.
    pub syns: u64,
    /// Repeated SYNs.
    pub syn_retransmissions: u64,
    /// Responses that were no DNS message.
    pub malformed: u64,
    /// Bytes of IP packets, up.
    pub bytes_up: u64,
    /// Bytes of IP packets, down.
    pub bytes_down: u64,
    /// Times that the radio had to wake up: packets after [`RADIO_SLEEPS`] without any, probes of channels included.
    pub radio_wakeups: u64,
    /// For how long it was awake: [`RADIO_SLEEPS`] beyond each packet.
    pub radio_awake: Duration,
}

impl std::ops::Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            queries: self.queries + other.queries,
            syns: self.syns + other.syns,
            syn_retransmissions: self.syn_retransmissions + other.syn_retransmissions,
            malformed: self.malformed + other.malformed,
            bytes_up: self.bytes_up + other.bytes_up,
            bytes_down: self.bytes_down + other.bytes_down,
            radio_wakeups: self.radio_wakeups + other.radio_wakeups,
            radio_awake: self.radio_awake + other.radio_awake,
        }
    }
}

/// After so long without a packet the radio of an LTE device sleeps: the inactivity timer that Huang et al. measured in a
/// commercial network (MobiSys 2012, section 4), to the second.
pub const RADIO_SLEEPS: Duration = Duration::from_secs(11);

#[derive(Debug)]
struct Socket {
    to: IpAddr,
    began: Instant,
    timeouts: u32,
    rto: Duration,
    timer: (Instant, u64),
}

#[derive(Debug)]
struct Query {
    site: Option<usize>,
    name_len: usize,
    record: RecordType,
    server: Server,
}

/// What is between the client and all other hosts.
enum Access {
    /// The link of the world.
    One(Box<Duplex<Packet>>),
    /// Two channels.
    Two(Box<Channels>),
}

impl Access {
    /// A packet is to be sent. A drop is counted by the link; the sender hears nothing of it, as in life.
    fn send(&mut self, now: Instant, way: Way, packet: Packet) {
        match self {
            Self::One(link) => {
                let _ = link.push(now, way, packet);
            }
            Self::Two(channels) => channels.send(now, way, packet),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::One(link) => link.poll_timeout().map(|d| d.at),
            Self::Two(channels) => channels.poll_timeout(),
        }
    }

    fn poll(&mut self, now: Instant) -> Option<(Instant, Way, Packet)> {
        match self {
            Self::One(link) => link.poll(now),
            Self::Two(channels) => channels.poll(now),
        }
    }

    /// Bytes up, as offered, and down, as they came out.
    fn bytes(&self) -> [u64; 2] {
        match self {
            Self::One(link) => [link.counters(Way::Up).bytes_in, link.counters(Way::Down).bytes_out],
            Self::Two(channels) => Way::BOTH.map(|way| channels.bytes_in(way)),
        }
    }
}

/// The client's machine.
pub(super) struct Stack {
    now: Instant,
    far: FarSide,
    access: Access,
    /// Answers of the far side, by the time at which they enter the link.
    answers: BTreeMap<(Instant, u64), Packet>,
    /// Retransmission timers: the socket of each.
    timers: BTreeMap<(Instant, u64), u64>,
    /// Changes that wait for a question.
    waiting: Vec<Change>,
    /// Changes that are due.
    changes: BTreeMap<(Instant, u64), WorldEvent>,
    /// The families without an address and a route.
    gone: BTreeSet<Family>,
    order: u64,
    sockets: HashMap<u64, Socket>,
    queries: HashMap<u64, Query>,
    noticed: VecDeque<Event>,
    traffic: Traffic,
    /// The last packet.
    radio: Option<Instant>,
}

impl Driven for Stack {
    fn deadline(&mut self) -> Option<Instant> {
        if !self.noticed.is_empty() {
            return Some(self.now);
        }
        let change = self.changes.keys().next().map(|key| key.0);
        let answer = self.answers.keys().next().map(|key| key.0);
        let timer = self.timers.keys().next().map(|key| key.0);
        [change, answer, timer, self.access.poll_timeout()].into_iter().flatten().min()
    }

    fn woken(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        if let Some(change) = self.changes.first_entry().filter(|change| change.key().0 <= now) {
            let event = change.remove();
            self.change(event);
        } else if let Some(answer) = self.answers.first_entry().filter(|answer| answer.key().0 <= now) {
            let packet = answer.remove();
            self.answered(packet);
        } else if let Some(timer) = self.timers.first_entry().filter(|timer| timer.key().0 <= now) {
            let socket = timer.remove();
            self.timed_out(socket);
        } else if let Some((at, way, packet)) = self.polled(now) {
            self.arrived(at, way, packet);
        }
    }
}

impl Stack {
    pub fn new(world: &World) -> Result<Self, ParseError> {
        let link = parse_duplex(&world.link)?;
        Ok(Self::over(world, Access::One(Box::new(Duplex::new(&link, world.seed)))))
    }

    /// The same machine behind two channels in the place of the world's link.
    pub fn steered(world: &World, steering: &Steering) -> Result<Self, ParseError> {
        Ok(Self::over(world, Access::Two(Box::new(Channels::new(world.seed, &world.sites, steering)?))))
    }

    fn over(world: &World, access: Access) -> Self {
        let mut stack = Self {
            now: Instant::ZERO,
            far: FarSide::new(world),
            access,
            answers: BTreeMap::new(),
            timers: BTreeMap::new(),
            waiting: Vec::new(),
            changes: BTreeMap::new(),
            gone: BTreeSet::new(),
            order: 0,
            sockets: HashMap::new(),
            queries: HashMap::new(),
            noticed: VecDeque::new(),
            traffic: Traffic::default(),
            radio: None,
        };
        for change in &world.timeline {
            match change.when {
                When::AtFirst => stack.change(change.event),
                When::Asked { .. } => stack.waiting.push(change.clone()),
            }
        }
        stack
    }

    /// The same at a later moment: nothing has happened until then.
    #[must_use]
    pub fn starting(self, now: Instant) -> Self {
        Self { now, ..self }
    }

    /// Something goes by that keeps the radio awake, or wakes it.
    fn is_on_air(&mut self, at: Instant) {
        let before = self.radio.map_or(RADIO_SLEEPS, |last| at.since(last));
        self.traffic.radio_wakeups += u64::from(before >= RADIO_SLEEPS);
        self.traffic.radio_awake += before.min(RADIO_SLEEPS);
        self.radio = self.radio.max(Some(at));
    }

    /// Whether channels are probed for ever; else a while after the last packet.
    pub fn probe_at_rest(&mut self, at_rest: bool) {
        if let Access::Two(channels) = &mut self.access {
            channels.probe_at_rest(at_rest);
        }
    }

    /// The two channels, if there are two.
    pub fn channels(&self) -> Option<&Channels> {
        match &self.access {
            Access::One(_) => None,
            Access::Two(channels) => Some(channels),
        }
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn traffic(&self) -> Traffic {
        let [bytes_up, bytes_down] = self.access.bytes();
        Traffic { bytes_up, bytes_down, ..self.traffic }
    }

    /// Whether the client has an address and a route in `family`.
    pub fn has_route(&self, family: Family) -> bool {
        !self.gone.contains(&family)
    }

    /// How many DNS servers the client's list has.
    pub fn servers(&self) -> usize {
        self.far.servers()
    }

    /// Sends query number `query` to server number `server`, which the list's length is taken off as often as it takes; the
    /// same number again is a repetition.
    pub fn ask(&mut self, query: u64, name: &str, record: impl Into<RecordType>, server: usize) {
        let record = record.into();
        let site = self.far.site(name);
        let server = self.far.server(server);
        if !self.has_route(server.family) {
            return self.noticed.push_back(Event::Answer { query, result: LookupResult::Refused });
        }
        self.queries.insert(query, Query { site, name_len: name.len(), record, server });
        self.traffic.queries += 1;
        self.send(Packet::question(query, (site, name.len()), record, server, false));
    }

    /// No answer to this query is awaited any more.
    pub fn forget(&mut self, query: u64) {
        self.queries.remove(&query);
    }

    /// Begins to connect.
    pub fn connect(&mut self, socket: u64, to: IpAddr) {
        if !self.has_route(Family::of(to)) {
            return self.noticed.push_back(Event::Failed { socket, errno: ENETUNREACH });
        }
        self.traffic.syns += 1;
        let timer = self.arm(socket, INITIAL_RTO);
        self.sockets.insert(socket, Socket { to, began: self.now, timeouts: 0, rto: INITIAL_RTO, timer });
        self.send(Packet::syn(socket, to));
    }

    /// Sends a segment of an open connection, from whichever end it says. What reaches a host has the host's whole distance
    /// behind it, and leaves it at the gateway: round trips are what they would be with half of it each way.
    pub fn send_segment(&mut self, segment: Segment) {
        let packet = Packet::segment(segment);
        if segment.up {
            self.send(packet);
        } else {
            self.is_on_air(self.now);
            self.access.send(self.now, Way::Down, packet);
        }
    }

    /// Sends what is exchanged beside a page load; its other end is the gateway.
    pub fn send_company(&mut self, carried: Carried) {
        let way = if carried.is_up() { Way::Up } else { Way::Down };
        self.is_on_air(self.now);
        self.access.send(self.now, way, Packet::company(carried));
    }

    /// Ends an attempt; nothing more is heard of it.
    pub fn close(&mut self, socket: u64) {
        if let Some(closed) = self.sockets.remove(&socket) {
            self.timers.remove(&closed.timer);
        }
        let about = |e: &Event| matches!(e, Event::Connected { socket: s, .. } | Event::Failed { socket: s, .. } if *s == socket);
        self.noticed.retain(|e| !about(e));
    }

    /// Does what is asked of the network; the rest is for programs.
    pub fn act(&mut self, output: &Output) {
        match output {
            Output::Query { id, name, record, server } => self.ask(id.0, name, *record, *server as usize),
            Output::Forget(id) | Output::Late(id) => self.forget(id.0),
            Output::Connect { id, to, .. } => self.connect(id.0, to.ip()),
            Output::Close(id) => self.close(id.0),
            _ => {}
        }
    }

    /// Lets time pass until something is noticed, at most until `until`.
    pub fn step(&mut self, until: Instant) -> Option<Event> {
        self.run(until, |stack| !stack.noticed.is_empty());
        self.noticed.pop_front()
    }

    /// An answer of the far side is at the gateway: it enters the link, or has its end here.
    fn answered(&mut self, packet: Packet) {
        match packet.body {
            Body::Segment(segment) if segment.up => self.noticed.push_back(Event::Segment(segment)),
            _ => {
                self.is_on_air(self.now);
                self.access.send(self.now, Way::Down, packet);
            }
        }
    }

    /// A packet has crossed the access.
    fn arrived(&mut self, at: Instant, way: Way, packet: Packet) {
        if way == Way::Down {
            // What is sent to an address that is gone reaches no host.
            if self.has_route(packet.over) {
                self.receive(packet);
            }
            return;
        }
        if let Body::Company(carried) = packet.body {
            self.noticed.push_back(Event::Company(carried));
            return;
        }
        self.asked(at, &packet);
        let answer = match packet.body {
            Body::Segment(segment) => Some((self.far.distance(segment.peer), packet)),
            _ => self.far.answer(&packet),
        };
        if let Some((delay, reply)) = answer {
            self.order += 1;
            self.answers.insert((at + delay, self.order), reply);
        }
    }

    /// The next packet of the access that has arrived until `at`; probes of channels are on the air too.
    fn polled(&mut self, at: Instant) -> Option<(Instant, Way, Packet)> {
        let packet = self.access.poll(at);
        if let Access::Two(channels) = &mut self.access
            && let Some(probed) = channels.probed()
        {
            self.is_on_air(probed);
        }
        packet
    }

    /// A packet has reached the gateway: changes that waited for its question are due.
    fn asked(&mut self, at: Instant, packet: &Packet) {
        let Some(about) = self.far.asked_about(packet) else { return };
        let (changes, order) = (&mut self.changes, &mut self.order);
        self.waiting.retain(|change| match &change.when {
            When::Asked { name, later } if name.eq_ignore_ascii_case(about) => {
                *order += 1;
                changes.insert((at + *later, *order), change.event);
                false
            }
            _ => true,
        });
    }

    fn change(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Leaves(family) => self.gone.insert(family),
            WorldEvent::Comes(family) => self.gone.remove(&family),
        };
    }

    fn send(&mut self, packet: Packet) {
        if !self.has_route(packet.over) {
            return;
        }
        self.is_on_air(self.now);
        self.access.send(self.now, Way::Up, packet);
    }

    fn arm(&mut self, socket: u64, after: Duration) -> (Instant, u64) {
        self.order += 1;
        let key = (self.now + after, self.order);
        self.timers.insert(key, socket);
        key
    }

    fn receive(&mut self, packet: Packet) {
        match packet.body {
            Body::Response { query, says } => self.on_response(query, says),
            Body::NoServer { query } => self.on_response(query, Says::Result(LookupResult::Refused)),
            Body::DnsSynAck { query } => {
                let Some(Query { site, name_len, record, server }) = self.queries.get(&query) else { return };
                let question = Packet::question(query, (*site, *name_len), *record, *server, true);
                self.traffic.queries += 1;
                self.send(question);
            }
            Body::SynAck { socket, from } => {
                // To a socket that was closed meanwhile: the kernel resets it. (A second SYN-ACK to an open connection
                // would be acknowledged instead; the sizes differ by 12 bytes.)
                let Some(open) = self.sockets.remove(&socket) else { return self.send(Packet::rst(socket, from)) };
                self.timers.remove(&open.timer);
                self.send(Packet::ack(open.to));
                self.noticed.push_back(Event::Connected { socket, took: self.now - open.began });
            }
            Body::Rst { socket } => {
                if let Some(refused) = self.sockets.remove(&socket) {
                    self.timers.remove(&refused.timer);
                    self.noticed.push_back(Event::Failed { socket, errno: ECONNREFUSED });
                }
            }
            Body::Segment(segment) => self.noticed.push_back(Event::Segment(segment)),
            Body::Company(carried) => self.noticed.push_back(Event::Company(carried)),
            Body::Ack | Body::Question { .. } | Body::DnsSyn { .. } | Body::Syn { .. } => {}
        }
    }

    fn on_response(&mut self, query: u64, says: Says) {
        let Some(Query { server, .. }) = self.queries.get(&query) else { return };
        match says {
            Says::Result(result) => {
                self.queries.remove(&query);
                self.noticed.push_back(Event::Answer { query, result });
            }
            Says::Truncated => self.send(Packet::dns_syn(query, *server)),
            Says::Malformed => self.traffic.malformed += 1,
        }
    }

    /// The retransmission timer of a SYN has run out: `tcp_write_timeout` and `tcp_retransmit_timer` of Linux.
    fn timed_out(&mut self, socket: u64) {
        let Some(open) = self.sockets.get_mut(&socket) else { return };
        if open.timeouts >= SYN_RETRIES + SYN_LINEAR_TIMEOUTS {
            self.sockets.remove(&socket);
            return self.noticed.push_back(Event::Failed { socket, errno: ETIMEDOUT });
        }
        open.timeouts += 1;
        if open.timeouts > SYN_LINEAR_TIMEOUTS {
            open.rto *= 2;
        }
        let (to, rto) = (open.to, open.rto);
        let timer = self.arm(socket, rto);
        if let Some(open) = self.sockets.get_mut(&socket) {
            open.timer = timer;
        }
        self.traffic.syn_retransmissions += 1;
        self.send(Packet::syn(socket, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::tests::{ms, site, world};
    use crate::world::{Fate, Reply};

    /// Everything noticed until nothing more can come, with its time in milliseconds.
    fn events(stack: &mut Stack) -> Vec<(u64, Event)> {
        std::iter::from_fn(|| stack.step(Instant::FAR_FUTURE).map(|e| (stack.now().as_nanos() / 1_000_000, e)))
            .collect()
    }

    #[test]
    fn a_handshake_takes_the_link_and_the_hosts_own_distance() {
        let world = world(vec![site(1).rtts(40, 25)]);
        let mut stack = Stack::new(&world).unwrap();
        stack.connect(7, world.sites[0].v4[0].addr);
        stack.connect(8, world.sites[0].v6[0].addr);
        let took = |ms| Duration::from_millis(ms);
        assert_eq!(
            events(&mut stack),
            [
                (35, Event::Connected { socket: 8, took: took(35) }),
                (50, Event::Connected { socket: 7, took: took(50) })
            ]
        );
        assert_eq!((stack.traffic().bytes_up, stack.traffic().bytes_down), (60 + 80 + 52 + 72, 60 + 80));
    }

    #[test]
    fn a_refusal_takes_one_round_trip_and_a_black_hole_131_seconds_and_11_syns() {
        let world = world(vec![site(1).fates(Fate::Refuses, Fate::BlackHole)]);
        let mut stack = Stack::new(&world).unwrap();
        stack.connect(4, world.sites[0].v4[0].addr);
        stack.connect(6, world.sites[0].v6[0].addr);
        assert_eq!(
            events(&mut stack),
            [(20, Event::Failed { socket: 4, errno: 111 }), (131_000, Event::Failed { socket: 6, errno: 110 })]
        );
        assert_eq!((stack.traffic().syns, stack.traffic().syn_retransmissions), (2, 10));
    }

    #[test]
    fn syns_are_repeated_four_times_a_second_apart_then_at_doubling_distances() {
        let world = world(vec![site(1).fates(Fate::Answers, Fate::BlackHole)]);
        let mut stack = Stack::new(&world).unwrap();
        stack.connect(6, world.sites[0].v6[0].addr);
        let mut at = Vec::new();
        for second in 0..130 {
            let before = stack.traffic().syn_retransmissions;
            stack.step(ms(second * 1000 + 500));
            if stack.traffic().syn_retransmissions > before {
                at.push(second);
            }
        }
        assert_eq!(at, [1, 2, 3, 4, 5, 7, 11, 19, 35, 67]);
    }

    #[test]
    fn a_truncated_answer_costs_a_handshake_and_a_second_question() {
        let world = world(vec![site(1).dns(5, 5).replies(Reply::Truncated, Reply::Records)]);
        let mut stack = Stack::new(&world).unwrap();
        stack.ask(1, &world.sites[0].name, Family::V4, 0);
        let all = events(&mut stack);
        // Two questions of 10 + 5 ms each, and a handshake of 10 ms between them.
        assert!(
            matches!(&all[..], [(40, Event::Answer { query: 1, result: LookupResult::Addresses(list, _) })] if list.len() == 1)
        );
        assert_eq!(stack.traffic().queries, 2);
    }

    #[test]
    fn what_does_not_parse_is_dropped_and_counted_and_what_is_lost_stays_so() {
        let world = world(vec![site(1).replies(Reply::Malformed, Reply::Lost)]);
        let mut stack = Stack::new(&world).unwrap();
        stack.ask(1, &world.sites[0].name, Family::V4, 0);
        stack.ask(2, &world.sites[0].name, Family::V6, 0);
        assert_eq!(events(&mut stack), []);
        assert_eq!(stack.traffic().malformed, 1);
        stack.ask(3, "nowhere.lab.example", Family::V4, 0);
        assert!(matches!(events(&mut stack)[..], [(_, Event::Answer { query: 3, result: LookupResult::NxDomain(_) })]));
    }

    #[test]
    fn nothing_is_heard_of_what_was_closed_or_forgotten() {
        let world = world(vec![site(1)]);
        let mut stack = Stack::new(&world).unwrap();
        stack.connect(7, world.sites[0].v4[0].addr);
        stack.ask(1, &world.sites[0].name, Family::V4, 0);
        stack.close(7);
        stack.forget(1);
        assert_eq!(events(&mut stack), []);
        let about = (Some(0), world.sites[0].name.len());
        let server = Server { index: 0, family: Family::V4 };
        let question = Packet::question(1, about, RecordType::A, server, false).bytes as u64;
        assert_eq!(stack.traffic().bytes_up, 60 + question + 40, "the SYN-ACK to the closed socket is reset");
    }
}
