//! The mechanism: packets of one direction in, packets with their channel out.
//!
//! Everything that a policy needs is kept here: what was given to each channel, what waits for the fast one, what was sent of
//! each flow. The fast channel is paced at 0.97 of its rate where the policy's entry says so, so that its queue stands here.
//! A channel that probes miss is left to the other one, whatever the policy says, and taken again when it is back; what a channel
//! may be used for ([`Use`]) goes before the policy too. What never happens here: a packet is looked into, a number is
//! drawn, or a variant is known by its name.

use super::cap::Use;
use super::channel::{Channel, ChannelSettings, Model};
use super::flow::{Flow, FlowKey, Flows};
use super::packet::{Facts, Kind};
use super::policy::{Choice, Entry, Outlook, Policy, View};
use super::probe::{ProbeSettings, Prober, Turn};
use super::queue::{Queue, Waiting};
use super::{compress, tally::Tally};
use crate::machine::{Deadline, Machine};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// Share of the fast channel's rate that it is given: what is measured as a rate is never quite there. Ours.
const PACED: f64 = 0.97;
/// Bytes of a probe or an echo beyond a tunnel's headers: the least frame is 20 bytes, eight of which are such a header.
const PROBE: usize = 12;
/// Packets that wait for the fast channel at most. Reached only while it is the only one.
const MOST_WAITING: usize = 2_048;
/// By how much of the difference the price follows the queue, a packet.
const PRICE_FOLLOWS: f64 = 1.0 / 16.0;
/// The price is never higher: beyond this the queue speaks for itself.
const HIGHEST_PRICE: f64 = 8.0;
/// Packets are held at the other end for so long at least, and at most.
const HELD: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(300));

/// How a direction is steered.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// By which policy.
    pub policy: &'static Entry,
    /// The direction leads from the host to the network.
    pub uplink: bool,
    /// A packet of at least so many bytes is as large as they get: the inner MTU.
    pub full: usize,
    /// The fat channel and the fast one.
    pub channels: [ChannelSettings; 2],
    /// How channels are probed; without it both are taken for alive, and their delays for what was told.
    pub probes: Option<ProbeSettings>,
}

/// A packet's place: what the other end needs so that nobody is overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number on its channel, from 1.
    pub number: u64,
    /// The number of the last packet of its flow on the other channel, if it must not overtake that one.
    pub after: Option<u64>,
}

/// What a packet acknowledges is not to arrive as soon as it does: what came over the fast channel is acknowledged over the fat
/// one, or its sender takes the round trip of the fast channel for that of the path (docs/decisions/0033).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The packet is to acknowledge this, which is less than it does.
    pub back_to: u32,
    /// Something that acknowledges what it did, and nothing else, is to be given to the fat channel at this place; nothing,
    /// if that is on its way already.
    pub order: Option<Order>,
}

/// What the world tells a steerer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P> {
    /// A packet is to be sent.
    Packet(Facts, P),
    /// A packet of the other direction has come, over this channel.
    Seen(Facts, Channel),
    /// A probe has come back.
    Echo {
        /// Over which channel.
        channel: Channel,
        /// Its number.
        number: u16,
        /// Packets of the channel that the other end had got until then, the last 16 bits; none if it does not say.
        come: Option<u16>,
    },
}

/// What a steerer asks of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// A packet is to be given to a channel.
    Send {
        /// Which one.
        channel: Channel,
        /// Its place.
        order: Order,
        /// What it acknowledges goes apart.
        apart: Option<Apart>,
        /// What is known of it.
        facts: Facts,
        /// The packet.
        packet: P,
        /// Why it takes this channel.
        why: &'static str,
    },
    /// A probe is to be given to a channel.
    Probe {
        /// Which one.
        channel: Channel,
        /// Its number, which is to come back.
        number: u16,
    },
    /// A packet was given up: it was replaced by a newer one, or there was no room.
    Drop(P),
}

/// See the module.
pub struct Steerer<P> {
    settings: Settings,
    policy: Box<dyn Policy>,
    channels: [Model; 2],
    probers: Option<[Prober; 2]>,
    flows: Flows,
    queue: Queue<P>,
    /// Packets that wait, on average of late.
    waiting: f64,
    outputs: VecDeque<Output<P>>,
    tally: Tally,
}

impl<P> Steerer<P> {
    /// A steerer that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            policy: (settings.policy.new)(),
            channels: settings.channels.map(Model::new),
            probers: settings.probes.map(|probes| [Prober::new(probes), Prober::new(probes)]),
            flows: Flows::default(),
            queue: Queue::new(),
            waiting: 0.0,
            outputs: VecDeque::new(),
            tally: Tally::default(),
            settings,
        }
    }

    /// What was decided so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether `channel` answers.
    pub fn is_alive(&self, channel: Channel) -> bool {
        self.channels[channel.index()].alive
    }

    /// What `channel` may be used for by now.
    pub fn uses(&self, channel: Channel) -> Use {
        self.channels[channel.index()].uses()
    }

    /// The smoothed round trip of `channel`, if it was measured.
    pub fn round_trip(&self, channel: Channel) -> Option<Duration> {
        self.channels[channel.index()].rtt.map(|rtt| rtt.smoothed)
    }

    /// The share of packets that `channel` loses in this direction, 0 to 1; an assumption until enough were sent.
    pub fn loss(&self, channel: Channel) -> f64 {
        self.channels[channel.index()].loss.share()
    }

    /// For how long the other end is to hold a packet at most: one and a half times what the channels differ by and twice
    /// their jitter.
    pub fn hold(&self) -> Duration {
        let [fat, fast] = &self.channels;
        let apart = fat.delay().abs_diff(fast.delay());
        (apart * 3 / 2 + (fat.jitter() + fast.jitter()) * 2).clamp(HELD.0, HELD.1)
    }

    /// Packets that wait for the fast channel.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Room that flows take, in bytes.
    pub fn memory(&self) -> usize {
        self.flows.bytes()
    }

    /// Bytes that a packet is on `channel`.
    fn bytes_on(&self, channel: Channel, facts: &Facts) -> usize {
        bytes_on(&self.settings.channels[channel.index()], facts)
    }

    /// How a packet of `bytes` would fare on the fast channel behind `before` others' bytes.
    fn fast_outlook(&self, now: Instant, before: usize, bytes: usize) -> Outlook {
        let model = &self.channels[Channel::Fast.index()];
        let wait = model.wait(now) + Duration::from_secs_f64(model.transmit(before).as_secs_f64() / PACED);
        Outlook { wait, transmit: model.transmit(bytes), delay: model.delay(), loss: model.loss.share() }
    }

    fn fat_outlook(&self, now: Instant, bytes: usize) -> Outlook {
        let model = &self.channels[Channel::Fat.index()];
        let wait = model.wait(now);
        Outlook { wait, transmit: model.transmit(bytes), delay: model.delay(), loss: model.loss.share() }
    }

    fn steer(&mut self, now: Instant, facts: Facts, packet: P) {
        let [fat_bytes, fast_bytes] = Channel::ALL.map(|channel| self.bytes_on(channel, &facts));
        let mut flow = *self.flows.get(facts.flow);
        flow.speaks(&facts, true);
        let level = self.policy.level(&facts, &flow);
        let outlooks = [self.fat_outlook(now, fat_bytes), self.fast_outlook(now, self.queue.before(level), fast_bytes)];
        let view = View {
            now,
            packet: &facts,
            flow: &flow,
            outlooks,
            price: (1.0 + self.waiting).min(HIGHEST_PRICE),
            uplink: self.settings.uplink,
            full: self.settings.full,
        };
        let Choice { mut channel, mut why } = self.policy.choose(&view);
        let mut back_to = None;
        if channel == Channel::Fast && self.settings.policy.tells_as_heard {
            back_to = flow.may_acknowledge(&facts, now + outlooks[Channel::Fast.index()].takes());
            // Who says nothing else goes that way himself, and so does what cannot be changed.
            if back_to.is_some() && (facts.payload == 0 || !facts.plain) {
                Choice { channel, why } = Choice::fat("acknowledges what was hurried");
            }
        }
        let [wanted, other] = [channel, channel.other()].map(|channel| self.standing(channel, &facts));
        if other < wanted {
            channel = channel.other();
            why = if wanted == Standing::Dead { "the other channel is dead" } else { "the other channel is kept" };
        } else if wanted == Standing::Forbidden {
            self.tally.forbidden += 1;
            self.outputs.push_back(Output::Drop(packet));
            return;
        }
        let gained = view.arrival(channel.other()).since(view.arrival(channel));
        if is_ordered(facts.kind) {
            flow.arrives = view.arrival(channel);
        }
        match (channel, facts.ack) {
            (Channel::Fat, Some(ack)) => flow.tells(ack, now + outlooks[Channel::Fat.index()].takes()),
            // There is nowhere else to go.
            _ => back_to = back_to.filter(|_| self.standing(Channel::Fat, &facts) == Standing::Open),
        }
        *self.flows.get(facts.flow) = Flow { previous: Some(facts.len), ..flow };
        for prober in self.probers.iter_mut().flatten() {
            prober.used(now);
        }
        self.waiting += (self.queue.len() as f64 - self.waiting) * PRICE_FOLLOWS;
        if channel == Channel::Fat && is_ordered(facts.kind) {
            self.bring_along(now, facts.flow);
        }
        if channel == Channel::Fat || !self.settings.policy.queues {
            self.give(now, channel, Waiting { facts, packet, since: now, bytes: 0, back_to, why, gained }, 1.0);
            return;
        }
        if self.queue.len() >= MOST_WAITING {
            self.tally.dropped += 1;
            self.outputs.push_back(Output::Drop(packet));
            return;
        }
        let waiting = Waiting { facts, packet, since: now, bytes: fast_bytes, back_to, why, gained };
        if let Some(older) = self.queue.push(level, waiting) {
            self.tally.replaced += 1;
            self.outputs.push_back(Output::Drop(older.packet));
        }
        self.drain(now);
        self.move_over(now);
    }

    /// Gives a packet to a channel.
    fn give(&mut self, now: Instant, channel: Channel, waiting: Waiting<P>, share: f64) {
        let Waiting { facts, packet, back_to, why, gained, .. } = waiting;
        let apart = back_to.filter(|_| channel == Channel::Fast).map(|back_to| self.set_apart(now, &facts, back_to));
        let bytes = self.bytes_on(channel, &facts);
        let number = self.channels[channel.index()].take(now, bytes, share);
        let flow = self.flows.get(facts.flow);
        let ordered = is_ordered(facts.kind);
        let after = flow.last[channel.other().index()].filter(|_| ordered);
        if ordered {
            flow.last[channel.index()] = Some(number);
        }
        self.tally.count(why, channel, facts.len, gained);
        self.outputs.push_back(Output::Send { channel, order: Order { number, after }, apart, facts, packet, why });
    }

    /// What a packet acknowledges takes the fat channel, unless it is on its way there.
    fn set_apart(&mut self, now: Instant, facts: &Facts, back_to: u32) -> Apart {
        let bytes = facts.len.saturating_sub(facts.payload) + self.settings.channels[Channel::Fat.index()].overhead;
        let there = now + self.fat_outlook(now, bytes).takes();
        let flow = self.flows.get(facts.flow);
        let Some(ack) = facts.ack.filter(|ack| !flow.has_told(*ack)) else { return Apart { back_to, order: None } };
        flow.tells(ack, there);
        self.tally.apart += 1;
        let number = self.channels[Channel::Fat.index()].take(now, bytes, 1.0);
        Apart { back_to, order: Some(Order { number, after: None }) }
    }

    /// Gives the fast channel what it may have by now.
    fn drain(&mut self, now: Instant) {
        while self.channels[Channel::Fast.index()].free_at() <= now
            && let Some(next) = self.queue.pop(now)
        {
            self.give(now, Channel::Fast, next, PACED);
        }
    }

    /// How a channel stands for a packet.
    fn standing(&self, channel: Channel, facts: &Facts) -> Standing {
        let model = &self.channels[channel.index()];
        match model.uses() {
            Use::Never => Standing::Forbidden,
            _ if !model.alive => Standing::Dead,
            uses if uses.admits(facts) => Standing::Open,
            _ => Standing::Kept,
        }
    }

    /// From now on `channel` may be used for this at most, whatever its settings say: a cap is near, reached, or forgotten.
    pub fn allow(&mut self, now: Instant, channel: Channel, most: Use) {
        self.channels[channel.index()].allowed = most;
        self.move_over(now);
    }

    /// What still waits for the fast channel goes before a packet of its flow that takes the fat one: it has no number yet that
    /// the other end could wait for, and a sender takes who was overtaken by three for lost.
    fn bring_along(&mut self, now: Instant, flow: FlowKey) {
        while let Some(waiting) = self.queue.pop_of(flow, is_ordered) {
            self.tally.moved += 1;
            let why = "what follows it takes the fat channel";
            self.give(now, Channel::Fat, Waiting { why, gained: Duration::ZERO, ..waiting }, 1.0);
        }
    }

    /// What would by now be sooner over the fat channel goes there; all of it, if the fast one is dead or must not be used.
    fn move_over(&mut self, now: Instant) {
        while let Some((last, before)) = self.queue.last() {
            let [fat, fast] = Channel::ALL.map(|channel| self.standing(channel, &last.facts));
            let over_fat = self.fat_outlook(now, self.bytes_on(Channel::Fat, &last.facts)).takes();
            let stays = fat > Standing::Kept || over_fat >= self.fast_outlook(now, before, last.bytes).takes();
            if fat > fast || fat == fast && stays {
                return;
            }
            let Some(last) = self.queue.pop_last() else { return };
            if is_ordered(last.facts.kind) {
                self.bring_along(now, last.facts.flow);
            }
            self.tally.moved += 1;
            let last = Waiting { why: "sooner over fat by now", gained: Duration::ZERO, ..last };
            self.give(now, Channel::Fat, last, 1.0);
        }
    }

    fn turn(&mut self, now: Instant, channel: Channel, turn: Turn) {
        self.channels[channel.index()].alive = turn == Turn::Back;
        self.tally.lost_channels += u64::from(turn == Turn::Lost);
        self.move_over(now);
    }
}

/// What only acknowledges or opens stands in nobody's order.
fn is_ordered(kind: Kind) -> bool {
    !matches!(kind, Kind::Ack | Kind::Open)
}

/// How a channel stands for a packet, the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// The policy may choose it.
    Open,
    /// It is for the need.
    Kept,
    Dead,
    /// It must not be used.
    Forbidden,
}

fn bytes_on(channel: &ChannelSettings, facts: &Facts) -> usize {
    let with_options = facts.ack.is_some() && facts.kind != Kind::Open;
    let saved = if channel.compresses && with_options { compress::SAVED[usize::from(facts.v6)] } else { 0 };
    (facts.len + channel.overhead).saturating_sub(saved)
}

impl<P> Machine for Steerer<P> {
    type Input = Input<P>;
    type Output = Output<P>;

    fn handle_input(&mut self, now: Instant, input: Input<P>) {
        match input {
            Input::Packet(facts, packet) => self.steer(now, facts, packet),
            Input::Seen(facts, channel) => {
                let flow = self.flows.get(facts.flow);
                flow.speaks(&facts, false);
                flow.heard(&facts, channel);
            }
            Input::Echo { channel, number, come } => {
                let Some(probers) = &mut self.probers else { return };
                let Some(heard) = probers[channel.index()].echo(now, number) else { return };
                let model = &mut self.channels[channel.index()];
                model.sample(heard.round_trip);
                if let Some(come) = come {
                    model.loss.heard(heard.sent, come);
                }
                if let Some(turn) = heard.turn {
                    self.turn(now, channel, turn);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.drain(now);
        for channel in Channel::ALL {
            let i = channel.index();
            if self.channels[i].uses() == Use::Never {
                continue;
            }
            let round_trip = Some(self.channels[i].expected_round_trip());
            let Some(probers) = &mut self.probers else { break };
            let (turn, probe) = probers[i].handle_timeout(now, round_trip, self.channels[i].counter);
            if let Some(turn) = turn {
                self.turn(now, channel, turn);
            }
            if let Some(number) = probe {
                self.tally.probes += 1;
                // As many echoes go this way as probes, since both ends probe alike.
                let bytes = 2 * (PROBE + self.settings.channels[i].overhead);
                self.channels[i].occupy(now, bytes, PACED);
                self.outputs.push_back(Output::Probe { channel, number });
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let pacing = (!self.queue.is_empty()).then(|| Deadline {
            at: self.channels[Channel::Fast.index()].free_at(),
            why: "pacing of the fast channel",
        });
        let probed = self.probers.iter().flatten().zip(&self.channels);
        let probe = probed.filter(|(_, model)| model.uses() != Use::Never).map(|(prober, model)| Deadline {
            at: prober.deadline(Some(model.expected_round_trip())),
            why: "probe of a channel",
        });
        pacing.into_iter().chain(probe).min_by_key(|deadline| deadline.at)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
