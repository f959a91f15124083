//! Streams of small messages over one or two hops in virtual time: the messengers of `core::realtime` on the TCP of
//! [`tcp`](super::tcp), on the links of `headstart_link`.
//!
//! Every way of sending has a copy of its own of the same network: fades come at the same moments for all of them, and no way
//! is in another's way. Connections are open, and nothing is lost, before the first message. What never happens here: a clock
//! is read, or a way of sending learns what a real one could not.

use super::driver::Driven;
use super::talker::Talker;
use super::tcp::{Segment, Stack, Tcp};
use headstart_core::realtime::bundle::Thin;
use headstart_core::realtime::{Kind, LaneId};
use headstart_core::time::{Duration, Instant};
use headstart_link::medium::Way as Direction;
use headstart_link::{Duplex, DuplexSpec, Packet};

/// A message that has not come after this long counts as having taken so long.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How often the age of what the receiver knows is looked at.
pub const AGE_STEP: Duration = Duration::from_millis(5);
/// The stream begins within one interval of this.
const START: Duration = Duration::from_millis(200);
/// The same where a bulk flow is to fill its path first.
pub const START_WITH_BULK: Duration = Duration::from_secs(3);
/// IPv4 and UDP.
pub const UDP_HEADERS: usize = 28;
/// Messages in a datagram of [`Sending::Datagrams`] that a program would send.
pub const REPEATED: u32 = 3;
const BULK: u16 = u16::MAX;

/// How messages are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// By a messenger with this technique.
    Technique(String),
    /// By a messenger that does nothing, and thin streams bundled on their way out.
    Bundle,
    /// UDP, each datagram with so many of the last messages: the floor.
    Datagrams(u32),
}

/// Spells in which most packets are lost, the same for all connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fades {
    /// How long one is.
    pub length: Duration,
    /// From the end of one to the beginning of the next, on average.
    pub every: Duration,
    /// Share of packets that are lost in it.
    pub loss: f64,
}

/// One hop: a link, and what else is on it.
#[derive(Clone, Debug)]
pub struct Hop {
    /// The link; up is the way of the messages.
    pub link: DuplexSpec,
    /// Its round trip when it is idle, as a handshake would find it.
    pub rtt: Duration,
    /// Spells of loss.
    pub fades: Option<Fades>,
    /// A bulk flow of TCP towards the sender's side.
    pub bulk: bool,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Messages before those that count.
    pub before: u32,
    /// Messages that count.
    pub messages: u32,
    /// Time between two.
    pub interval: Duration,
    /// Bytes of one.
    pub bytes: usize,
}

/// Paper 4, section 5: 60 messages of 50 bytes, one each 30 ms. The 19 before them are ours, so that a path is known; by that
/// number the last message is one that every second and every third would hold as well.
pub const TOUCH: Workload = Workload { before: 19, messages: 60, interval: Duration::from_millis(30), bytes: 50 };

/// The results of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// Delays of the messages that were sent, in ms; [`PATIENCE`] for one that did not come.
    pub delays: Vec<f64>,
    /// Age of the newest message that the receiver has, in ms, each 5 ms.
    pub ages: Vec<f64>,
    /// Packets over the first hop with the messages' direction, acknowledgements included, from the first that counts on.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
    /// Packets the other way.
    pub back: u64,
}

#[derive(Clone)]
struct Carried {
    connection: u16,
    what: What,
}

#[derive(Clone)]
enum What {
    Segment(Segment),
    /// The newest message of a datagram.
    Datagram(u32, usize),
}

impl Packet for Carried {
    fn wire_len(&self) -> usize {
        match &self.what {
            What::Segment(segment) => segment.wire_len(),
            What::Datagram(_, len) => UDP_HEADERS + len,
        }
    }
}

/// Spells that come when the network's generator says so, whatever is sent.
struct Spells {
    fades: Fades,
    from: Instant,
    to: Instant,
    rng: fastrand::Rng,
}

impl Spells {
    fn new(fades: Fades, rng: fastrand::Rng) -> Self {
        Self { fades, from: Instant::ZERO, to: Instant::ZERO, rng }
    }

    /// Whether a packet that comes at `at` is lost; `at` never decreases.
    fn loses(&mut self, at: Instant, luck: &mut fastrand::Rng) -> bool {
        while self.to <= at {
            let gap = self.fades.every.mul_f64(-(1.0 - self.rng.f64()).ln());
            self.from = self.to + gap;
            self.to = self.from + self.fades.length;
        }
        self.from <= at && luck.f64() < self.fades.loss
    }
}

struct Playing {
    link: Duplex<Carried>,
    spells: Option<Spells>,
    luck: fastrand::Rng,
    ends: [Talker; 2],
    bulk: Option<[Tcp; 2]>,
    /// One a connection, if thin streams are bundled.
    thin: Vec<Thin>,
}

/// Plays one stream. The same arguments give the same bits; `seed` is of the network, `luck` of single packets.
pub fn play(
    hops: &[Hop],
    stack: Stack,
    sending: &Sending,
    load: Workload,
    seed: u64,
    luck: u64,
) -> anyhow::Result<StreamResult> {
    let mut stream = Stream::new(hops, stack, sending, load, seed, luck)?;
    let end = stream.made(stream.total()) + PATIENCE;
    stream.run(end, Stream::is_over);
    Ok(stream.finish())
}

struct Stream<'a> {
    hops: Vec<Playing>,
    sending: &'a Sending,
    load: Workload,
    begin: Instant,
    next: u32,
    /// When each message came, by number.
    arrived: Vec<Option<Instant>>,
    result: StreamResult,
    now: Instant,
    bytes: Vec<u8>,
}

impl Driven for Stream<'_> {
    fn deadline(&mut self) -> Option<Instant> {
        self.hops.iter().filter_map(Playing::deadline).chain(self.next_made()).min()
    }

    fn woken(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.next_made().is_some_and(|at| at <= self.now) {
            let number = self.next;
            self.next += 1;
            self.send(0, number);
        }
        for at in 0..self.hops.len() {
            self.wake(at);
            while let Some((_, direction, carried)) = self.hops[at].link.poll(self.now) {
                self.arrive(at, direction, carried);
            }
        }
    }
}

impl<'a> Stream<'a> {
    fn new(
        hops: &[Hop],
        stack: Stack,
        sending: &'a Sending,
        load: Workload,
        seed: u64,
        luck: u64,
    ) -> anyhow::Result<Self> {
        let mut network = fastrand::Rng::with_seed(seed);
        let start = if hops.iter().any(|hop| hop.bulk) { START_WITH_BULK } else { START };
        let begin = Instant::ZERO + start + load.interval.mul_f64(network.f64());
        let mut luck = fastrand::Rng::with_seed(luck);
        let playing = hops.iter().map(|hop| Playing::new(hop, stack, sending, load, &mut network, &mut luck));
        let mut stream = Self {
            hops: playing.collect::<anyhow::Result<_>>()?,
            sending,
            load,
            begin,
            next: 0,
            arrived: vec![None; (load.before + load.messages) as usize],
            result: StreamResult::default(),
            now: Instant::ZERO,
            bytes: Vec::new(),
        };
        (0..stream.hops.len()).for_each(|at| stream.flush(at));
        Ok(stream)
    }

    fn made(&self, number: u32) -> Instant {
        self.begin + self.load.interval * number
    }

    fn total(&self) -> u32 {
        self.load.before + self.load.messages
    }

    /// When the next message is made.
    fn next_made(&self) -> Option<Instant> {
        (self.next < self.total()).then(|| self.made(self.next))
    }

    /// All messages are made, and nothing of them is on its way.
    fn is_over(&self) -> bool {
        let idle = |hop: &Playing| {
            let end = &hop.ends[0];
            end.messenger.on_their_way() == 0 && end.connections.iter().all(|tcp| tcp.unacknowledged() == 0)
        };
        let datagrams = matches!(self.sending, Sending::Datagrams(_));
        let last = self.made(self.total());
        self.next == self.total()
            && (datagrams && self.now > last + Duration::from_secs(1)
                || !datagrams && self.now > last && self.hops.iter().all(idle))
    }

    /// Message `number` is handed in at the near end of hop `at`.
    fn send(&mut self, at: usize, number: u32) {
        if let Sending::Datagrams(repeated) = *self.sending {
            let count = repeated.min(number + 1) as usize;
            return self.push(at, Direction::Up, 0, What::Datagram(number, count * (self.load.bytes + 3)));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.resize(self.load.bytes, 0);
        // Values of a touch are of use one by one, except to a technique that is about leaving some out.
        let kind = match self.sending {
            Sending::Technique(name) if name.contains("reduction") => Kind::Latest,
            _ => Kind::Event,
        };
        // A lane that is full drops what is new: the message then counts as one that did not come.
        let _ = self.hops[at].ends[0].messenger.send(self.now, LaneId(0), kind, 0, &bytes);
        self.bytes = bytes;
        self.pump(at, 0);
    }

    fn wake(&mut self, at: usize) {
        let now = self.now;
        for end in 0..2 {
            self.hops[at].ends[end].handle_timeout(now);
            self.pump(at, end);
        }
        if let Some(bulk) = &mut self.hops[at].bulk {
            bulk.iter_mut().for_each(|tcp| tcp.timeout(now));
        }
        self.flush(at);
    }

    /// Does what a messenger asks for.
    fn pump(&mut self, at: usize, end: usize) {
        let mut come = Vec::new();
        self.hops[at].ends[end].carry_out(self.now, |bytes| {
            come.push(bytes.first_chunk().map(|first| u32::from_be_bytes(*first)).unwrap_or_default());
        });
        for number in come {
            self.delivered(at, number);
        }
        self.flush(at);
    }

    /// Message `number` has come to the far end of hop `at`.
    fn delivered(&mut self, at: usize, number: u32) {
        if at + 1 < self.hops.len() {
            return self.send(at + 1, number);
        }
        if let Some(slot) = self.arrived.get_mut(number as usize) {
            slot.get_or_insert(self.now);
        }
    }

    /// Puts on the link what TCP has to send.
    fn flush(&mut self, at: usize) {
        for (end, direction) in [(0, Direction::Up), (1, Direction::Down)] {
            for id in 0..self.hops[at].ends[end].connections.len() {
                while let Some(mut segment) = self.hops[at].ends[end].connections[id].poll(self.now) {
                    if end == 0
                        && let Some(thin) = self.hops[at].thin.get_mut(id)
                    {
                        bundle(thin, self.now, &mut segment);
                    }
                    self.push(at, direction, id as u16, What::Segment(segment));
                }
            }
            // The bulk flow goes towards the sender: its far end is ours.
            while let Some(segment) = self.hops[at].bulk.as_mut().and_then(|bulk| bulk[end].poll(self.now)) {
                self.push(at, direction, BULK, What::Segment(segment));
            }
        }
    }

    fn push(&mut self, at: usize, direction: Direction, connection: u16, what: What) {
        let carried = Carried { connection, what };
        if at == 0 && connection != BULK && self.now >= self.made(self.load.before) {
            match direction {
                Direction::Up => {
                    self.result.packets += 1;
                    self.result.bytes += carried.wire_len() as u64;
                }
                Direction::Down => self.result.back += 1,
            }
        }
        let hop = &mut self.hops[at];
        // Nothing is lost before the stream begins: connections are open.
        let faded = self.next > 0 && hop.spells.as_mut().is_some_and(|spells| spells.loses(self.now, &mut hop.luck));
        if !faded {
            // What the link drops is dropped.
            let _ = hop.link.push(self.now, direction, carried);
        }
    }

    fn arrive(&mut self, at: usize, direction: Direction, carried: Carried) {
        let end = if direction == Direction::Up { 1 } else { 0 };
        let now = self.now;
        match carried.what {
            What::Datagram(newest, _) => {
                let Sending::Datagrams(repeated) = *self.sending else { return };
                if at + 1 < self.hops.len() {
                    let count = repeated.min(newest + 1) as usize;
                    return self.push(at + 1, Direction::Up, 0, What::Datagram(newest, count * (self.load.bytes + 3)));
                }
                for number in newest.saturating_sub(repeated - 1)..=newest {
                    self.delivered(at, number);
                }
            }
            What::Segment(segment) if carried.connection == BULK => {
                if let Some(bulk) = &mut self.hops[at].bulk {
                    bulk[end].receive(now, &segment);
                }
                self.flush(at);
            }
            What::Segment(segment) => {
                let id = usize::from(carried.connection);
                if end == 0
                    && let Some(thin) = self.hops[at].thin.get_mut(id)
                {
                    thin.acknowledged(now, segment.ack as u32);
                }
                // The kernel answers before the program does.
                if let Some(ack) = self.hops[at].ends[end].receive(now, carried.connection, &segment) {
                    let back = if end == 0 { Direction::Up } else { Direction::Down };
                    self.push(at, back, carried.connection, What::Segment(ack));
                }
                self.pump(at, end);
            }
        }
    }

    fn finish(mut self) -> StreamResult {
        let first = self.load.before;
        let is_reduced = matches!(self.sending, Sending::Technique(name) if name.contains("reduction"));
        for number in first..self.total() {
            let made = self.made(number);
            match self.arrived[number as usize] {
                Some(at) => self.result.delays.push(at.since(made).min(PATIENCE).as_secs_f64() * 1e3),
                // What was left out for a newer value was not sent; the age says what that costs.
                None if is_reduced => {}
                None => self.result.delays.push(PATIENCE.as_secs_f64() * 1e3),
            }
        }
        let mut newest: Vec<(Instant, u32)> =
            self.arrived.iter().zip(0..).filter_map(|(at, number)| Some(((*at)?, number))).collect();
        newest.sort_unstable();
        let (mut known, mut k) = (None, 0);
        let mut at = self.made(first);
        while at < self.made(self.total()) {
            while let Some((_, number)) = newest.get(k).filter(|(arrival, _)| *arrival <= at) {
                known = known.max(Some(*number));
                k += 1;
            }
            let since = known.map_or(self.begin, |number| self.made(number));
            self.result.ages.push(at.since(since).as_secs_f64() * 1e3);
            at += AGE_STEP;
        }
        self.result
    }
}

fn bundle(thin: &mut Thin, now: Instant, segment: &mut Segment) {
    let mut prefix = Vec::new();
    if let Some(from) = thin.outgoing(now, segment.seq as u32, &segment.bytes, &mut prefix) {
        // Streams of the lab are short: their numbers do not wrap.
        segment.seq = u64::from(from);
        prefix.extend_from_slice(&segment.bytes);
        segment.len = prefix.len();
        segment.bytes = prefix;
    }
}

impl Playing {
    fn new(
        hop: &Hop,
        stack: Stack,
        sending: &Sending,
        load: Workload,
        network: &mut fastrand::Rng,
        luck: &mut fastrand::Rng,
    ) -> anyhow::Result<Self> {
        let name = match sending {
            Sending::Technique(name) => name,
            Sending::Bundle | Sending::Datagrams(_) => "plain",
        };
        let bulk = hop.bulk.then(|| {
            // The other machine is of the same age.
            let mut both = [Tcp::new(stack, hop.rtt), Tcp::new(stack, hop.rtt)];
            both[1].write_for_ever();
            both
        });
        Ok(Self {
            link: Duplex::new(&hop.link, luck.u64(..)),
            spells: hop.fades.map(|fades| Spells::new(fades, network.fork())),
            luck: luck.fork(),
            ends: Talker::pair(Instant::ZERO, name, load.interval, (stack, hop.rtt))?,
            bulk,
            thin: if *sending == Sending::Bundle { vec![Thin::default()] } else { Vec::new() },
        })
    }

    fn deadline(&self) -> Option<Instant> {
        let ends = self.ends.iter().filter_map(Talker::deadline);
        let bulk = self.bulk.iter().flatten().filter_map(Tcp::deadline);
        ends.chain(bulk).chain(self.link.poll_timeout().map(|d| d.at)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tcp::{DELAYED_ACK, LEGACY, MODERN};
    use super::*;

    fn hop(link: &str, rtt_ms: u64) -> Hop {
        let link = headstart_link::parse_duplex(link).unwrap();
        Hop { link, rtt: Duration::from_millis(rtt_ms), fades: None, bulk: false }
    }

    fn technique(name: &str) -> Sending {
        Sending::Technique(name.into())
    }

    #[test]
    fn on_a_clean_link_every_way_of_sending_takes_the_way_and_no_longer() {
        let hops = [hop("delay=10ms", 20)];
        for stack in [MODERN, DELAYED_ACK, LEGACY] {
            for sending in [
                technique("plain"),
                technique("trigger+echo"),
                technique("hedge"),
                technique("auto"),
                Sending::Bundle,
                Sending::Datagrams(REPEATED),
            ] {
                let heard = play(&hops, stack, &sending, TOUCH, 1, 2).unwrap();
                assert!(heard.delays.iter().all(|d| *d == 10.0), "{sending:?} {}: {:?}", stack.name, heard.delays);
                assert_eq!(heard.delays.len(), 60);
                assert!(heard.ages.iter().all(|age| (10.0..=45.0).contains(age)));
            }
        }
    }

    #[test]
    fn plain_is_one_packet_a_message_and_bundling_adds_none() {
        let hops = [hop("delay=5ms,loss=3%", 10)];
        for sending in [technique("plain"), Sending::Bundle] {
            let packets: u64 = (0..20).map(|k| play(&hops, MODERN, &sending, TOUCH, k, k).unwrap().packets).sum();
            assert!((1190..1300).contains(&packets), "{sending:?}: {packets}");
        }
    }

    #[test]
    fn reduction_sends_half_and_what_it_sends_is_new() {
        let heard = play(&[hop("delay=10ms", 20)], MODERN, &technique("reduction-50"), TOUCH, 1, 2).unwrap();
        assert!((30..=31).contains(&heard.delays.len()), "{:?}", heard.delays);
        assert!(heard.packets <= 32);
    }

    #[test]
    fn two_hops_take_the_time_of_both() {
        let heard =
            play(&[hop("delay=10ms", 20), hop("delay=7ms", 14)], LEGACY, &technique("plain"), TOUCH, 1, 2).unwrap();
        assert!(heard.delays.iter().all(|d| *d == 17.0));
    }

    #[test]
    fn the_same_seeds_give_the_same_stream() {
        let mut faded = hop("medium=wlan:weak,delay=3ms", 10);
        faded.fades = Some(Fades { length: Duration::from_millis(60), every: Duration::from_secs(1), loss: 0.9 });
        for sending in
            [technique("auto"), technique("reduction-50+trigger+echo"), Sending::Bundle, Sending::Datagrams(3)]
        {
            let one = |luck| play(&[faded.clone()], MODERN, &sending, TOUCH, 5, luck).unwrap();
            assert_eq!(one(9), one(9));
            assert_ne!(one(9), one(10));
        }
    }

    #[test]
    fn a_bulk_flow_is_in_the_way() {
        let quiet = hop("medium=wlan:strong,delay=3ms", 8);
        let busy = Hop { bulk: true, ..quiet.clone() };
        let mean = |hop: &Hop| {
            let delays = play(std::slice::from_ref(hop), LEGACY, &technique("plain"), TOUCH, 1, 1).unwrap().delays;
            delays.iter().sum::<f64>() / delays.len() as f64
        };
        assert!(mean(&busy) > 1.5 * mean(&quiet), "{} {}", mean(&busy), mean(&quiet));
    }
}
