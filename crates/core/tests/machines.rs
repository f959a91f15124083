//! What every machine owes the loop around it (`core::machine`), whatever it is told and whenever it is woken.
//!
//! Each machine is played at random: told things, woken early, woken on time. A new machine is one more [`Play`] and one more line below.

use fastrand::Rng;
use headstart_core::connect::{
    AttemptId, AttemptResult, Claim, Connector, LookupResult, RequestId, Resolve, Settings as Racing, Want, race,
};
use headstart_core::cwnd::rounds::{Changed, Rounds};
use headstart_core::forward::{Forwarder, HEADROOM, Settings as Forwarding};
use headstart_core::machine::Machine;
use headstart_core::path::Family;
use headstart_core::realtime::{Connection, Kind, LaneId, Messenger, SessionId};
use headstart_core::steer::end::{self, End};
use headstart_core::steer::frame::HEADER;
use headstart_core::steer::{
    Arrived, Channel, ChannelSettings, Facts, ProbeSettings, Resequencer, Settings as Steering, Steerer, Use, policy,
};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::tcp::{self, Flags, Segment};
use headstart_core::wire::ip::{Header, TCP};
use headstart_core::{connect, forward, realtime, steer};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

/// Turns of one play.
const TURNS: usize = 600;
/// Plays of a machine.
const SEEDS: u64 = 12;
/// Outputs of one input, or timeouts at one moment: more is a machine that never ends.
const ENDLESS: usize = 10_000;
/// A machine that nothing is said to and that still wants to be woken after so many timeouts keeps itself awake, as probes do.
const LAST: usize = 2_000;

/// A world for one kind of machine.
trait Play: Default {
    type M: Machine<Output: Debug>;

    fn machine(seed: u64) -> Self::M;
    /// Tells it something.
    fn tell(&mut self, rng: &mut Rng, now: Instant, machine: &mut Self::M);
    /// Hears what it asks for.
    fn hear(&mut self, output: &<Self::M as Machine>::Output) {
        let _ = output;
    }
}

struct Playing<P: Play> {
    play: P,
    machine: P::M,
    now: Instant,
    log: Vec<String>,
}

impl<P: Play> Playing<P> {
    /// Draining ends, and then there is nothing without an input or a timeout.
    fn drain(&mut self) -> usize {
        let mut count = 0;
        while let Some(output) = self.machine.poll_output() {
            self.play.hear(&output);
            self.log.push(format!("{:?} {output:?}", self.now));
            count += 1;
            assert!(count < ENDLESS, "draining does not end: {:?}", self.log.last());
        }
        assert!(self.machine.poll_output().is_none(), "an output without an input or a timeout");
        count
    }

    /// Once a timeout was handled no deadline is left in the past, nor at this moment.
    fn wake(&mut self) {
        for _ in 0..ENDLESS {
            self.machine.handle_timeout(self.now);
            self.drain();
            match self.machine.poll_timeout() {
                Some(deadline) => {
                    assert!(!deadline.why.is_empty(), "no reason to be woken");
                    assert!(
                        deadline.at >= self.now,
                        "{}: {:?} in the past of {:?}",
                        deadline.why,
                        deadline.at,
                        self.now
                    );
                    if deadline.at > self.now {
                        return;
                    }
                }
                None => return,
            }
        }
        panic!("it is woken for ever at {:?}: {:?}", self.now, self.machine.poll_timeout());
    }

    fn play(seed: u64) -> Self {
        let (play, machine) = (P::default(), P::machine(seed));
        let mut it = Self { play, machine, now: Instant::from_millis(1_000), log: Vec::new() };
        let mut rng = Rng::with_seed(seed);
        for _ in 0..TURNS {
            it.now += Duration::from_micros(rng.u64(0..40_000));
            match rng.u8(0..8) {
                // Early, or for nothing: nothing is done. Late: no harm.
                0 => {
                    let due = it.machine.poll_timeout().is_some_and(|deadline| deadline.at <= it.now);
                    it.machine.handle_timeout(it.now);
                    assert!(it.drain() == 0 || due, "woken too early, it asks for something: {:?}", it.log.last());
                }
                1 | 2 => {
                    it.now = it.machine.poll_timeout().map_or(it.now, |deadline| deadline.at.max(it.now));
                    it.wake();
                }
                _ => it.play.tell(&mut rng, it.now, &mut it.machine),
            }
            it.drain();
        }
        it
    }

    /// Left alone it falls asleep, or goes on waking itself; asleep, no timeout brings anything.
    fn fall_asleep(mut self) -> Vec<String> {
        for _ in 0..LAST {
            let Some(deadline) = self.machine.poll_timeout() else {
                self.now += Duration::from_secs(100_000);
                self.machine.handle_timeout(self.now);
                assert_eq!(self.drain(), 0, "it said that it slept: {:?}", self.log.last());
                assert_eq!(self.machine.poll_timeout(), None, "it said that it slept");
                break;
            };
            self.now = self.now.max(deadline.at);
            self.wake();
        }
        self.log
    }
}

fn keeps_the_contract<P: Play>() {
    for seed in 0..SEEDS {
        let log = Playing::<P>::play(seed).fall_asleep();
        assert!(seed > 0 || log.len() > 1, "nothing was asked of the world: the play says nothing");
        assert!(log == Playing::<P>::play(seed).fall_asleep(), "the same seed, and other bits");
    }
}

macro_rules! machines {
    ($($name:ident: $play:ty,)*) => {$(
        #[test]
        fn $name() {
            keeps_the_contract::<$play>();
        }
    )*};
}

machines! {
    the_connector_keeps_the_contract: Connecting,
    the_forwarder_keeps_the_contract: Forwards,
    the_messenger_keeps_the_contract: Messages,
    the_steerer_keeps_the_contract: Steers,
    the_resequencer_keeps_the_contract: Resequences,
    the_end_of_a_tunnel_keeps_the_contract: Tunnels,
    rounds_keep_the_contract: Looks,
}

#[derive(Default)]
struct Connecting {
    asked: Vec<connect::Output>,
    next: u64,
}

impl Play for Connecting {
    type M = Connector;

    fn machine(seed: u64) -> Connector {
        let mut connector = Connector::new(Racing { seed, ..Racing::of(race::find("adaptive").unwrap()) });
        let network = connect::Input::Network { id: Default::default(), v4: true, v6: true, v4_first: false };
        connector.handle_input(Instant::ZERO, network);
        connector
    }

    fn tell(&mut self, rng: &mut Rng, now: Instant, connector: &mut Connector) {
        let address = |rng: &mut Rng| {
            if rng.bool() {
                IpAddr::from([192, 0, 2, rng.u8(1..4)])
            } else {
                IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, rng.u16(1..4)])
            }
        };
        let app = || "curl".into();
        let input = match (rng.u8(0..6), self.asked.len()) {
            (0, _) | (_, 0) => {
                let (name, port) = (format!("{}.example", rng.u8(0..4)), rng.bool().then_some(443));
                connect::Input::Resolve(RequestId(self.next), Resolve { app: app(), name, want: Want::Both, port })
            }
            (1, _) => {
                let claim = Claim {
                    app: app(),
                    to: SocketAddr::new(address(rng), 443),
                    domain: Family::V6,
                    nonblocking: rng.bool(),
                    accepts_mapped: rng.bool(),
                    rescuable: rng.bool().then_some(headstart_core::connect::Looks::Always),
                };
                connect::Input::Claim(RequestId(self.next), claim)
            }
            (2, _) if self.next > 0 => connect::Input::Abandon(RequestId(rng.u64(0..self.next))),
            (_, asked) => match self.asked.swap_remove(rng.usize(0..asked)) {
                connect::Output::Query { id, .. } => {
                    let ttl = Duration::from_secs(rng.u64(0..100));
                    let list = (0..rng.usize(0..3)).map(|_| address(rng)).collect();
                    connect::Input::Lookup(id, LookupResult::Addresses(list, ttl))
                }
                connect::Output::Connect { id: AttemptId(id), .. } => {
                    let rtt = Duration::from_millis(rng.u64(1..200));
                    let result = if rng.bool() { AttemptResult::Connected(rtt) } else { AttemptResult::Failed(111) };
                    connect::Input::Attempt(AttemptId(id), result)
                }
                _ => return,
            },
        };
        self.next += 1;
        connector.handle_input(now, input);
    }

    fn hear(&mut self, output: &connect::Output) {
        if matches!(output, connect::Output::Query { .. } | connect::Output::Connect { .. }) {
            self.asked.push(output.clone());
        }
    }
}

/// A segment of TCP, or of a datagram's size.
fn packet(rng: &mut Rng, outward: bool) -> Vec<u8> {
    let (own, peer) = (IpAddr::from([10, 77, 0, 2]), IpAddr::from([10, 77, 0, 1]));
    let (source, destination) = if outward { (own, peer) } else { (peer, own) };
    let header =
        Header { source, destination, protocol: TCP, traffic_class: 0, hop_limit: 64, whole: true, fragment: None };
    let flags = [Flags::SYN, Flags::ACK, Flags::ACK, Flags::ACK, Flags::ACK | Flags::FIN, Flags::RST];
    let ports = (4_000 + rng.u16(0..3), 443);
    let (source, destination) = if outward { ports } else { (ports.1, ports.0) };
    let segment = Segment {
        source,
        destination,
        sequence: rng.u32(0..5_000),
        acknowledged: rng.u32(0..5_000),
        flags: flags[rng.usize(0..flags.len())],
        window: rng.u16(0..2_000),
        ..Segment::default()
    };
    tcp::packet(&header, &segment, &vec![7; rng.usize(0..1_300)])
}

#[derive(Default)]
struct Forwards {
    flows: Vec<forward::FlowId>,
}

impl Play for Forwards {
    type M = Forwarder;

    fn machine(seed: u64) -> Forwarder {
        Forwarder::new(Forwarding { seed, ..Forwarding::default() })
    }

    fn tell(&mut self, rng: &mut Rng, now: Instant, forwarder: &mut Forwarder) {
        use forward::Input;
        let flow = self.flows.get(rng.usize(0..=self.flows.len())).copied();
        let input = match (flow, rng.u8(0..8)) {
            (Some(flow), 0 | 1) => Input::Connected { flow, mss: Some(1448) },
            (Some(flow), 2 | 3) if forwarder.room(now, flow) > 0 => {
                let length = HEADROOM + rng.usize(1..=forwarder.room(now, flow).min(1_000));
                Input::Received { flow, bytes: vec![1; length], urgent: false }
            }
            (Some(flow), 4) => Input::Ended { flow },
            (Some(flow), 5) => Input::Sent { flow, pieces: VecDeque::new() },
            _ => Input::Packet { bytes: packet(rng, true), segment: None },
        };
        forwarder.handle_input(now, input);
    }

    fn hear(&mut self, output: &forward::Output) {
        match output {
            forward::Output::Connect { flow, .. } => self.flows.push(*flow),
            forward::Output::Close { flow, .. } => self.flows.retain(|known| known != flow),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Messages {
    next: u32,
    open: Vec<Connection>,
}

impl Play for Messages {
    type M = Messenger;

    fn machine(_: u64) -> Messenger {
        Messenger::new(SessionId([1; 16]), realtime::Settings::new("auto").unwrap())
    }

    fn tell(&mut self, rng: &mut Rng, now: Instant, messenger: &mut Messenger) {
        use realtime::Input;
        let connection = self.open.get(rng.usize(0..=self.open.len())).copied();
        match (connection, rng.u8(0..8)) {
            (Some(connection), 0) => {
                self.open.retain(|open| *open != connection);
                messenger.handle_input(now, Input::Closed(connection));
            }
            (Some(connection), 1..4) => while messenger.transmit(now, connection, &mut Vec::new()) {},
            (_, 4..7) => _ = messenger.send(now, LaneId(1), Kind::Event, 0, b"a message"),
            _ if self.open.len() < 4 => {
                let connection = Connection(self.next);
                self.next += 1;
                self.open.push(connection);
                let rtt = Some(Duration::from_millis(rng.u64(1..80)));
                messenger.handle_input(now, Input::Opened { connection, rtt, introduce: true });
            }
            _ => {}
        }
    }
}

fn channels() -> [ChannelSettings; 2] {
    [(100_000_000, 15, false), (2_000_000, 5, true)].map(|(rate, delay, compresses)| ChannelSettings {
        rate,
        delay: Duration::from_millis(delay),
        loss: None,
        overhead: 60 + HEADER,
        compresses,
        uses: Use::Primary,
    })
}

#[derive(Default)]
struct Steers {
    probes: Vec<(Channel, u16)>,
}

impl Play for Steers {
    type M = Steerer<Vec<u8>>;

    fn machine(_: u64) -> Self::M {
        let (policy, probes) = (policy::find("value").unwrap(), Some(ProbeSettings::default()));
        Steerer::new(Steering { policy, uplink: true, full: 1_392, channels: channels(), probes })
    }

    fn tell(&mut self, rng: &mut Rng, now: Instant, steerer: &mut Self::M) {
        let input = match self.probes.pop().filter(|_| rng.bool()) {
            Some((channel, number)) => steer::Input::Echo { channel, number, come: None },
            None => {
                let packet = packet(rng, true);
                let Some(facts) = Facts::parse(&packet, (1, 2)) else { return };
                steer::Input::Packet(facts, packet)
            }
        };
        steerer.handle_input(now, input);
    }

    fn hear(&mut self, output: &steer::Output<Vec<u8>>) {
        if let steer::Output::Probe { channel, number } = output {
            self.probes.push((*channel, *number));
        }
    }
}

#[derive(Default)]
struct Resequences {
    numbers: [u16; 2],
}

impl Play for Resequences {
    type M = Resequencer<Vec<u8>>;

    fn machine(_: u64) -> Self::M {
        Resequencer::new(Duration::from_millis(30))
    }

    fn tell(&mut self, rng: &mut Rng, now: Instant, resequencer: &mut Self::M) {
        let channel = Channel::ALL[rng.usize(0..2)];
        // One in eight is lost.
        self.numbers[channel.index()] += 1 + u16::from(rng.u8(0..8) == 0);
        let after = rng.bool().then(|| self.numbers[channel.other().index()] + rng.u16(0..3));
        let (number, packet) = (self.numbers[channel.index()], vec![1]);
        resequencer.handle_input(now, Arrived { channel, number, after, copy_of: None, packet });
    }
}

/// The frames that it sends come back to it now and then, as those of a peer that is as it is.
#[derive(Default)]
struct Tunnels {
    frames: Vec<(Channel, Vec<u8>)>,
}

impl Play for Tunnels {
    type M = End;

    fn machine(seed: u64) -> End {
        let everything: steer::Prefix = "10.77.0.0/24".parse().unwrap();
        End::new(end::Settings {
            is_host: true,
            mtu: 1_412,
            policy: policy::find("value").unwrap(),
            channels: channels(),
            caps: [None, Some((100_000, Duration::from_secs(5)))],
            rest: None,
            allowed: vec![everything],
            own: Vec::new(),
            keys: (seed, seed + 1),
            epoch: 9,
        })
    }

    fn tell(&mut self, rng: &mut Rng, now: Instant, end: &mut End) {
        let channel = Channel::ALL[rng.usize(0..2)];
        let input = match (rng.u8(0..8), self.frames.len()) {
            (0, _) => end::Input::Session(channel, rng.u8(0..4) > 0),
            (1, _) => end::Input::Carried(channel, rng.usize(0..3_000)),
            (2, _) => end::Input::Frame(channel, (0..rng.usize(0..60)).map(|_| rng.u8(..)).collect()),
            (3 | 4, 1..) => {
                let (channel, frame) = self.frames.swap_remove(rng.usize(0..self.frames.len()));
                end::Input::Frame(channel, frame)
            }
            _ => end::Input::Packet(packet(rng, true)),
        };
        end.handle_input(now, input);
    }

    fn hear(&mut self, output: &end::Output) {
        if let end::Output::Send(channel, frame) = output {
            self.frames.push((*channel, frame.clone()));
        }
    }
}

#[derive(Default)]
struct Looks;

impl Play for Looks {
    type M = Rounds;

    fn machine(_: u64) -> Rounds {
        Rounds::new(Instant::ZERO, Some(Duration::from_secs(20)))
    }

    fn tell(&mut self, _: &mut Rng, now: Instant, rounds: &mut Rounds) {
        rounds.handle_input(now, Changed);
    }
}
