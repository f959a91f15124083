//! Policies: which channel a packet takes. One file each, one line in [`ALL`].
//!
//! A [`Policy`] is a pure function of a [`View`]: a packet, what is kept of its flow, and how it would fare on either channel.
//! It keeps no time and no state. What a policy lets the mechanism do besides (pace, replace acknowledgements, keep
//! order) is in its [`Entry`]: the paper's rules are run as they were published, with none of it.

mod asap;
mod object;
mod pkt_control;
mod pkt_state;
mod pkt_uplink;
mod single;
mod value;

use super::channel::Channel;
pub use super::channel::Outlook;
use super::flow::Flow;
use super::packet::Facts;
use crate::time::{Duration, Instant};
use std::fmt;

/// How things stand for one packet: all that a policy may know.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The moment.
    pub now: Instant,
    /// The packet.
    pub packet: &'a Facts,
    /// Its flow: turns and bursts with this packet counted, all else as it was before it.
    pub flow: &'a Flow,
    /// How it would fare on either channel, by [`Channel::index`].
    pub outlooks: [Outlook; 2],
    /// When it, and everything before it in its flow, has arrived, if it is sent over that channel now.
    pub arrivals: [Instant; 2],
    /// Packets that wait for the fast channel, on average of late, and one: how many are made to wait by one more.
    pub price: f64,
    /// The direction that is steered leads from the host to the network.
    pub uplink: bool,
    /// A packet of at least so many bytes is as large as they get.
    pub full: usize,
}

impl View<'_> {
    /// When the packet and everything before it in its flow has arrived, if it is sent over `channel` now.
    pub fn arrival(&self, channel: Channel) -> Instant {
        self.arrivals[channel.index()]
    }

    /// How much sooner that is over the fast channel; zero if it is not.
    pub fn gain(&self) -> Duration {
        self.arrival(Channel::Fat).since(self.arrival(Channel::Fast))
    }

    /// The packet is smaller than the largest ones.
    pub fn is_small(&self) -> bool {
        self.packet.len < self.full
    }
}

/// A decision, and the word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Where the packet goes.
    pub channel: Channel,
    /// Why: one of a small fixed set a policy.
    pub why: &'static str,
    /// A copy of it takes the fat channel too, if the fast one was chosen and both may be used; of an acknowledgement only if it stands for
    /// others that have waited with it.
    pub twice: bool,
}

impl Choice {
    /// Over the fat channel.
    pub fn fat(why: &'static str) -> Self {
        Self { channel: Channel::Fat, why, twice: false }
    }

    /// Over the fast channel.
    pub fn fast(why: &'static str) -> Self {
        Self { channel: Channel::Fast, why, twice: false }
    }
}

/// An object that is about to be asked for, for policies that choose by objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Bytes of its response, if they are known before.
    pub bytes: Option<u64>,
    /// RFC 9218, 0 (first) to 7.
    pub urgency: u8,
}

/// Which channel a packet takes. See the module.
pub trait Policy: fmt::Debug + Send {
    /// The channel of a packet.
    fn choose(&self, view: &View<'_>) -> Choice;

    /// How urgent a packet is among those that wait for the fast channel: 0 goes first, 2 last.
    fn level(&self, _packet: &Facts, _flow: &Flow) -> u8 {
        1
    }

    /// The channel of an object, with everything that is exchanged for it. `None` from policies that look at packets.
    fn object(&self, _object: &Object) -> Option<Channel> {
        None
    }
}

/// A registered policy.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// Makes one.
    pub new: fn() -> Box<dyn Policy>,
    /// The fast channel is paced, so that what waits for it waits here: in the order of its urgency, newer acknowledgements in
    /// the place of older ones, and over the fat channel if that has become the sooner one. Else packets are given to
    /// their channel at once.
    pub queues: bool,
    /// The other end keeps packets in order: [`super::Resequencer`]. In a tunnel it does so for every policy.
    pub keeps_order: bool,
    /// What came over the fast channel is acknowledged over the fat one, apart from data if need be: [`super::Apart`].
    pub acknowledges_over_fat: bool,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The policy that is used when none is named.
pub const DEFAULT: &str = "value";

const fn published(name: &'static str, what: &'static str, new: fn() -> Box<dyn Policy>) -> Entry {
    Entry { name, what, new, queues: false, keeps_order: false, acknowledges_over_fat: false }
}

/// Every policy, baselines first.
pub const ALL: &[Entry] = &[
    published("single-fat", "everything over the fat channel (baseline)", || Box::new(single::Single(Channel::Fat))),
    published("single-fast", "everything over the fast channel", || Box::new(single::Single(Channel::Fast))),
    published(
        "pkt-state",
        "paper 5, Algorithm 1: small packets that follow small packets over the fast channel",
        || Box::new(pkt_state::PktState),
    ),
    published("pkt-control", "paper 5: SYN, FIN, RST and pure acknowledgements over the fast channel", || {
        Box::new(pkt_control::PktControl)
    }),
    published("pkt-uplink", "paper 5: uplink over the fast channel, downlink over the fat one", || {
        Box::new(pkt_uplink::PktUplink)
    }),
    published("obj-size-3k", "paper 5: connections of objects of at most 3 KB over the fast channel", || {
        Box::new(object::BySize(3_000))
    }),
    published("obj-size-6k", "paper 5: connections of objects of at most 6 KB over the fast channel", || {
        Box::new(object::BySize(6_000))
    }),
    published("obj-priority", "paper 5: connections of objects of the highest priority over the fast channel", || {
        Box::new(object::ByPriority)
    }),
    published(
        "asap",
        "ASAP (paper 5, section 4.2): DNS, handshakes and requests over the fast channel, responses over the fat one",
        || Box::new(asap::Asap),
    ),
    Entry {
        name: "value",
        what: "ours: the channel over which a packet is useful soonest, less the delay it adds to the packets queued behind it",
        new: || Box::new(value::Value),
        queues: true,
        keeps_order: true,
        acknowledges_over_fat: true,
    },
];

/// No policy of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", crate::choice::unknown("steering policy", .0, &names()))]
pub struct UnknownPolicy(pub String);

fn names() -> Vec<&'static str> {
    ALL.iter().map(|e| e.name).collect()
}

/// The policy called `name`.
pub fn find(name: &str) -> Result<&'static Entry, UnknownPolicy> {
    ALL.iter().find(|e| e.name == name).ok_or_else(|| UnknownPolicy(name.into()))
}

#[cfg(test)]
mod tests {
    use super::super::packet::{FlowKey, Kind};
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn packet(kind: Kind, len: usize) -> Facts {
        let payload = if kind.is_control() { 0 } else { len - 52 };
        Facts { len, payload, ..Facts::of(FlowKey(1), kind) }
    }

    /// What policy `name` says of a packet on channels of 1500 Mbit/s, 30 ms and 2 Mbit/s, 5 ms.
    fn choose(name: &str, uplink: bool, packet: Facts, flow: Flow) -> Channel {
        choose_at(name, uplink, packet, flow, 15, 0.0)
    }

    /// The same with a fat channel that is so many milliseconds long one way, and a fast one that loses this share.
    fn choose_at(name: &str, uplink: bool, packet: Facts, flow: Flow, fat: u64, lost: f64) -> Channel {
        decide(name, uplink, packet, flow, (fat, 8), lost).channel
    }

    /// The same with a fat channel that takes so many microseconds for the packet.
    fn decide(name: &str, uplink: bool, packet: Facts, flow: Flow, (fat, takes): (u64, u64), lost: f64) -> Choice {
        let outlook = |micros, delay, loss| Outlook {
            wait: Duration::ZERO,
            transmit: Duration::from_micros(micros),
            delay,
            loss,
        };
        let now = Instant::from_millis(1000);
        let outlooks =
            [outlook(takes, ms(fat), 0.0), outlook(packet.len as u64 * 4, Duration::from_micros(2500), lost)];
        let view = View {
            now,
            packet: &packet,
            flow: &flow,
            outlooks,
            arrivals: outlooks.map(|outlook| (now + outlook.takes()).max(flow.arrives)),
            price: 1.0,
            uplink,
            full: 1480,
        };
        (find(name).unwrap().new)().choose(&view)
    }

    #[test]
    fn names_are_there_once_and_unknown_ones_are_told_the_known() {
        for entry in ALL {
            assert_eq!(ALL.iter().filter(|e| e.name == entry.name).count(), 1);
        }
        assert!(find(DEFAULT).is_ok());
        assert!(find("state").unwrap_err().to_string().contains("pkt-state, pkt-control"));
    }

    #[test]
    fn the_papers_rule_takes_small_packets_after_small_ones_and_no_tails() {
        let after = |previous| Flow { previous, ..Flow::default() };
        assert_eq!(choose("pkt-state", true, packet(Kind::Open, 60), after(0)), Channel::Fast);
        assert_eq!(choose("pkt-state", true, packet(Kind::Data, 500), after(52)), Channel::Fast);
        assert_eq!(choose("pkt-state", false, packet(Kind::Data, 1500), after(52)), Channel::Fat);
        assert_eq!(choose("pkt-state", false, packet(Kind::Data, 700), after(1500)), Channel::Fat);
        assert_eq!(choose("pkt-state", false, packet(Kind::Ack, 52), after(700)), Channel::Fast);
    }

    #[test]
    fn control_uplink_and_single_do_as_they_are_called() {
        let flow = Flow::default();
        assert_eq!(choose("pkt-control", true, packet(Kind::Ack, 52), flow), Channel::Fast);
        assert_eq!(choose("pkt-control", true, packet(Kind::Data, 100), flow), Channel::Fat);
        assert_eq!(choose("pkt-uplink", true, packet(Kind::Data, 1500), flow), Channel::Fast);
        assert_eq!(choose("pkt-uplink", false, packet(Kind::Ack, 52), flow), Channel::Fat);
        assert_eq!(choose("single-fat", true, packet(Kind::Open, 60), flow), Channel::Fat);
        assert_eq!(choose("single-fast", false, packet(Kind::Data, 1500), flow), Channel::Fast);
    }

    #[test]
    fn asap_hurries_handshakes_and_requests_and_leaves_responses() {
        let in_turn = |turns, ours| Flow { turns, ours, ..Flow::default() };
        let tls = |len| Facts { tls: true, ..packet(Kind::Data, len) };
        assert_eq!(choose("asap", false, packet(Kind::Dns, 120), Flow::default()), Channel::Fast);
        // The server's flight of a TLS handshake, however large; its response, however small.
        assert_eq!(choose("asap", false, tls(1500), in_turn(2, true)), Channel::Fast);
        assert_eq!(choose("asap", false, tls(500), in_turn(4, true)), Channel::Fat);
        // Without TLS the first answer is a response.
        assert_eq!(choose("asap", false, packet(Kind::Data, 500), in_turn(2, true)), Channel::Fat);
        assert_eq!(choose("asap", true, packet(Kind::Data, 1500), in_turn(3, true)), Channel::Fast);
        assert_eq!(choose("asap", false, packet(Kind::Open, 60), Flow::default()), Channel::Fast);
    }

    #[test]
    fn objects_go_by_size_and_priority_and_their_packets_by_what_was_asked_for() {
        let of = |name: &str, bytes, urgency| (find(name).unwrap().new)().object(&Object { bytes, urgency });
        assert_eq!(of("obj-size-3k", Some(3_000), 3), Some(Channel::Fast));
        assert_eq!(of("obj-size-3k", Some(3_001), 0), Some(Channel::Fat));
        assert_eq!(of("obj-size-6k", Some(5_000), 0), Some(Channel::Fast));
        assert_eq!(of("obj-size-6k", None, 0), Some(Channel::Fat));
        assert_eq!(
            (of("obj-priority", None, 0), of("obj-priority", None, 1)),
            (Some(Channel::Fast), Some(Channel::Fat))
        );
        assert_eq!(of("pkt-state", Some(10), 0), None);
        let hinted = Facts { hint: Some(Channel::Fast), ..packet(Kind::Data, 1500) };
        assert_eq!(choose("obj-priority", false, hinted, Flow::default()), Channel::Fast);
        assert_eq!(choose("obj-priority", false, packet(Kind::Open, 60), Flow::default()), Channel::Fat);
    }

    #[test]
    fn value_hurries_a_handshake_where_the_fat_channel_is_far_and_never_what_is_long() {
        let tls = |len| Facts { tls: true, ..packet(Kind::Data, len) };
        let first = Flow { turns: 2, burst: 1428, ..Flow::default() };
        let far = |packet, flow, lost| choose_at("value", false, packet, flow, 75, lost);
        // Four kilobytes take 16 ms at 2 Mbit/s: more than 15 ms, and far less than 75.
        assert_eq!(choose("value", false, tls(1480), first), Channel::Fat);
        assert_eq!(far(tls(1480), first, 0.0), Channel::Fast);
        // Half of it is as good as none, where one packet in a hundred is lost.
        assert_eq!(far(tls(1480), first, 0.01), Channel::Fat);
        // What has said 20 kB in a turn will go on.
        assert_eq!(far(tls(1480), Flow { turns: 4, burst: 20_000, ..first }, 0.0), Channel::Fat);
        // QUIC's packets are never as large as the MTU.
        assert_eq!(choose("value", false, packet(Kind::Datagram, 1_228), first), Channel::Fat);
        assert_eq!(choose("value", false, packet(Kind::Datagram, 200), first), Channel::Fast);
    }

    #[test]
    fn value_sends_twice_what_is_dear_to_lose_or_not_at_all_over_a_channel_that_loses() {
        let lossy = |kind, len, lost| {
            let choice = decide("value", true, packet(kind, len), Flow::default(), (15, 8), lost);
            (choice.channel, choice.twice)
        };
        let (fast, twice) = ((Channel::Fast, false), (Channel::Fast, true));
        assert_eq!([0.0, 0.0005, 0.02, 0.3].map(|lost| lossy(Kind::Open, 60, lost)), [fast, fast, twice, twice]);
        assert_eq!([0.0, 0.02].map(|lost| lossy(Kind::Datagram, 200, lost)), [fast, twice]);
        assert_eq!(lossy(Kind::Data, 400, 0.02), twice);
        // One that is all that is left of many acknowledgements, if it says nothing of a hole.
        assert_eq!([0.0, 0.1].map(|lost| lossy(Kind::Ack, 52, lost)), [fast, twice]);
        let of_a_hole = Facts { sacks: true, ..packet(Kind::Ack, 64) };
        assert_eq!(choose("value", true, of_a_hole, Flow::default()), Channel::Fat);
        // A copy takes 30 ms here: no more than it saves on average, a second times a share.
        let thin = |lost| {
            let choice = decide("value", true, packet(Kind::Open, 60), Flow::default(), (15, 30_000), lost);
            (choice.channel, choice.twice)
        };
        assert_eq!([0.005, 0.02].map(thin), [fast, fast]);
        assert_eq!(thin(0.045), twice);
    }

    #[test]
    fn value_sends_nothing_fast_that_would_not_be_of_use_sooner() {
        let flow = Flow::default();
        assert_eq!(choose("value", true, packet(Kind::Open, 60), flow), Channel::Fast);
        // A tail waits for what is before it, whichever way it goes.
        let behind = Flow { previous: 1500, arrives: Instant::from_millis(1015), ..flow };
        assert_eq!(choose("value", false, packet(Kind::Data, 300), behind), Channel::Fat);
    }

    /// What `value` says of a packet down a fat channel of so many milliseconds, which takes so many microseconds for each.
    fn value_says(packet: Facts, flow: Flow, fat: (u64, u64), lost: f64) -> &'static str {
        decide("value", false, packet, flow, fat, lost).why
    }

    #[test]
    fn value_takes_an_answer_for_a_handshake_only_with_tls_and_only_the_first_and_while_it_is_short() {
        let tls = |len| Facts { tls: true, ..packet(Kind::Data, len) };
        let first = Flow { turns: 2, burst: 1428, ..Flow::default() };
        let far = |packet, flow| value_says(packet, flow, (75, 8), 0.0);
        assert_eq!(far(tls(1480), first), "asking");
        assert_eq!(far(packet(Kind::Data, 1480), first), "full size");
        assert_eq!(far(tls(1480), Flow { turns: 4, ..first }), "full size");
        assert_eq!(far(tls(1480), Flow { turns: 3, burst: 5_001, ..first }), "full size");
        assert_eq!(far(packet(Kind::Data, 400), first), "arrives in order sooner");
        assert_eq!(far(tls(400), first), "asking");
    }

    #[test]
    fn value_counts_the_rest_of_a_message_in_what_it_takes_and_in_what_may_be_lost() {
        let hello = Facts { tls: true, ..packet(Kind::Data, 1480) };
        let first = Flow { turns: 2, burst: 1428, ..Flow::default() };
        // The 1.7 packets behind it would take 20 ms each over the fat channel, and 6 over the fast one.
        assert_eq!(value_says(hello, first, (5, 20_000), 0.0), "asking");
        // A gain of 6.2 ms counts twice, and 12 ms are what the message keeps others waiting. One loss in a thousand costs half a
        // millisecond, since there are 2.7 packets to lose.
        assert_eq!(value_says(hello, first, (24, 277), 0.0), "asking");
        assert_eq!(value_says(hello, first, (24, 277), 0.0009), "no gain");
    }

    #[test]
    fn value_copies_what_is_dearer_to_lose_than_to_copy_and_counts_the_gain_of_what_arrives() {
        let sent = |kind, len, fat, lost| {
            let choice = decide("value", true, packet(kind, len), Flow::default(), fat, lost);
            (choice.channel, choice.twice)
        };
        let (fast, twice) = ((Channel::Fast, false), (Channel::Fast, true));
        // Of what is lost of acknowledgements a fifth of a second is what it costs, if it is the last one.
        assert_eq!([0.05, 0.2].map(|lost| sent(Kind::Ack, 52, (15, 30_000), lost)), [fast, twice]);
        assert_eq!(sent(Kind::Ack, 52, (15, 8), 0.0005), fast, "that is no loss");
        // A datagram in ten is worth 15 ms, and one in eight 19.
        assert_eq!([0.1, 0.125].map(|lost| sent(Kind::Datagram, 200, (15, 17_500), lost)), [fast, twice]);
        // 0.7 ms sooner, where 0.6 are asked for: of what is lost nothing comes sooner.
        let few = [0.0, 0.1, 0.3].map(|lost| sent(Kind::Datagram, 200, (4, 8), lost));
        assert_eq!(few, [fast, twice, (Channel::Fat, false)]);
    }
}
