//! The mechanism: packets of one direction in, packets with their channel out.
//!
//! Everything that a policy needs is kept here: what was given to each channel, what waits for the fast one, what was sent of
//! each flow. The fast channel is paced at 0.97 of its rate where the policy's entry says so, so that its queue stands here.
//! A channel that probes miss is left to the other one, whatever the policy says, and taken again when it is back; what a channel
//! may be used for ([`Use`]) goes before the policy too. What never happens here: a packet is looked into, a number is
//! drawn, or a variant is known by its name.

use super::cap::Use;
use super::channel::{Channel, ChannelSettings, Model, PACED};
use super::flow::{Flow, Flows};
use super::outlet::{Outlet, Output, Standing, bytes_on, is_ordered};
use super::packet::{Facts, FlowKey, Kind};
use super::policy::{Choice, Entry, Policy, View};
use super::probe::{ProbeSettings, Prober, Turn};
use super::queue::{BULK, Queue, Waiting};
use super::rescue::{Kept, Rescue};
use super::tally::Tally;
use crate::machine::{Deadline, Machine};
use crate::time::{Duration, Instant};

/// Bytes of a probe or an echo beyond a tunnel's headers: the least frame is 20 bytes, eight of which are such a header.
const PROBE: usize = 12;
/// Packets that wait for the fast channel at most. Reached only while it is the only one.
const MOST_WAITING: usize = 2_048;
/// While it is the only one, what would wait for longer is given up at once: its sender is to notice the thin channel by a
/// loss, not from a queue that everything stands in. Ours: with the 170 ms until a lost channel is left less than 300.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// So many may wait however long it takes them: with less no sender detects a loss by the packets behind it (RFC 8985).
const LEAST_WAITING: usize = 8;
/// While it is in doubt whether a channel is lost, what is small takes both, if it waits for the fast one for less than this. Ours.
const LONGEST_DOUBT: Duration = Duration::from_millis(10);
/// What a lost channel had keeps the other one from everything else for so long at most. Ours: eight full packets at 2 Mbit/s.
const LONGEST_RESCUE: Duration = Duration::from_millis(40);
/// What would take the fat channel, has so many bytes and finds it dead is bulk. Ours: names, requests, calls are less.
const BULKY: usize = 1_000;
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
    /// How channels are probed; without it both count as alive, with their configured delays.
    pub probes: Option<ProbeSettings>,
}

/// What the world tells a steerer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P> {
    /// A packet is to be sent.
    Packet(Facts, P),
    /// A packet of the other direction has come, over this channel.
    Seen(Facts, Channel),
    /// A probe of the other end has come over this channel.
    Probed(Channel),
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

/// Where a packet goes, and where it stands in the queue there.
struct Route {
    choice: Choice,
    level: u8,
}

impl Route {
    /// What the channels allow of it: another channel where this one is dead, kept or forbidden, both where one is in doubt; `None` if
    /// neither may be used.
    fn allowed<P>(mut self, outlet: &Outlet<P>, facts: &Facts, doubtful: bool) -> Option<Self> {
        let channel = self.choice.channel;
        let [wanted, other] = [channel, channel.other()].map(|channel| outlet.standing(channel, facts));
        if other < wanted {
            let why = if wanted == Standing::Dead { "the other channel is dead" } else { "the other channel is kept" };
            self.choice = Choice { channel: channel.other(), why, ..self.choice };
            if self.choice.channel == Channel::Fast && facts.len >= BULKY {
                self.level = BULK;
            }
        } else if wanted == Standing::Forbidden {
            return None;
        }
        if doubtful && wanted.max(other) == Standing::Open && facts.len < BULKY {
            // A copy over each costs less than to learn by its loss which of them is lost.
            self.choice = Choice { channel: Channel::Fast, why: "a channel may be dead", twice: true };
        }
        Some(self)
    }
}

/// See the module.
pub struct Steerer<P> {
    settings: Settings,
    policy: Box<dyn Policy>,
    probers: Option<[Prober; 2]>,
    flows: Flows,
    queue: Queue<P>,
    outlet: Outlet<P>,
    rescue: Rescue<P>,
    /// Packets that wait, on average of late.
    waiting: f64,
}

impl<P> Steerer<P> {
    /// A steerer that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            policy: (settings.policy.new)(),
            outlet: Outlet::new(settings.channels.map(Model::new)),
            probers: settings.probes.map(|probes| [Prober::new(probes), Prober::new(probes)]),
            flows: Flows::default(),
            queue: Queue::new(),
            rescue: Rescue::new(),
            waiting: 0.0,
            settings,
        }
    }

    /// What was decided so far.
    pub fn tally(&self) -> &Tally {
        &self.outlet.tally
    }

    fn model(&self, channel: Channel) -> &Model {
        &self.outlet.channels[channel.index()]
    }

    /// Whether `channel` answers.
    pub fn is_alive(&self, channel: Channel) -> bool {
        self.model(channel).alive
    }

    /// What `channel` may be used for by now.
    pub fn uses(&self, channel: Channel) -> Use {
        self.model(channel).uses()
    }

    /// The smoothed round trip of `channel`, if it was measured.
    pub fn round_trip(&self, channel: Channel) -> Option<Duration> {
        self.model(channel).rtt.map(|rtt| rtt.smoothed)
    }

    /// The share of packets that `channel` loses in this direction, 0 to 1; an assumption until enough were sent.
    pub fn loss(&self, channel: Channel) -> f64 {
        self.model(channel).loss.share()
    }

    /// For how long the other end is to hold a packet at most: one and a half times what the channels differ by and twice
    /// their jitter.
    pub fn hold(&self) -> Duration {
        let [fat, fast] = &self.outlet.channels;
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

    /// Whether `channel` is missed, and not given up yet.
    fn is_late(&self, now: Instant, channel: Channel) -> bool {
        let Some(probers) = &self.probers else { return false };
        let model = self.model(channel);
        model.alive && probers[channel.index()].is_late(now, model.longest_round_trip())
    }

    /// Whether nothing was received over `channel` since a rest.
    fn is_unsure(&self, channel: Channel) -> bool {
        let Some(probers) = &self.probers else { return false };
        self.model(channel).alive && probers[channel.index()].is_unsure()
    }

    /// Whether what was sent is to be given to [`Steerer::keep`].
    pub fn keeps(&self, facts: &Facts) -> bool {
        self.probers.is_some() && Rescue::<P>::is_worth_keeping(facts.kind)
    }

    /// A packet was given to `channel` under this number, and is not needed any more: it is kept in case the channel is lost.
    /// Returns a packet that is not kept, or not any longer.
    pub fn keep(&mut self, now: Instant, channel: Channel, number: u64, facts: Facts, packet: P) -> Option<P> {
        if self.probers.is_none() {
            return Some(packet);
        }
        self.rescue.keep(now, channel, number, facts, packet)
    }

    /// Resends the packets of a lost channel over the other one, as far as that has room.
    fn send_again(&mut self, now: Instant, lost: Channel) {
        let other = lost.other();
        for Kept { number: of, facts, packet, .. } in self.rescue.take(now, lost) {
            let takes_long = self.model(other).wait(now) > LONGEST_RESCUE;
            if takes_long || self.outlet.standing(other, &facts) >= Standing::Dead {
                self.outlet.give_up(packet);
                continue;
            }
            let number = self.outlet.take(now, other, &facts, 1.0);
            self.outlet.tally.again += 1;
            self.outlet.outputs.push_back(Output::Again { channel: other, number, of, facts, packet });
        }
    }

    fn steer(&mut self, now: Instant, facts: Facts, packet: P) {
        self.probers.iter_mut().flatten().for_each(|prober| prober.used(now));
        let late = Channel::ALL.map(|channel| self.is_late(now, channel));
        let in_doubt = late != [false; 2] || Channel::ALL.iter().any(|channel| self.is_unsure(*channel));
        let Self { settings, policy, flows, queue, outlet, .. } = self;
        let bytes = outlet.channels.each_ref().map(|model| bytes_on(&model.settings, &facts));
        let flow = flows.get(facts.flow);
        flow.speaks(&facts, true);
        let level = policy.level(&facts, flow);
        let [fat, fast] = &outlet.channels;
        let outlooks = [fat.outlook(now, 0, bytes[0]), fast.outlook(now, queue.before(level), bytes[1])];
        let there = outlooks.map(|outlook| now + outlook.takes());
        let view = View {
            now,
            packet: &facts,
            flow,
            outlooks,
            arrivals: there.map(|at| at.max(flow.arrives)),
            price: (1.0 + self.waiting).min(HIGHEST_PRICE),
            uplink: settings.uplink,
            full: settings.full,
        };
        let mut choice = policy.choose(&view);
        let mut back_to = None;
        if choice.channel == Channel::Fast && settings.policy.acknowledges_over_fat && !late[Channel::Fat.index()] {
            back_to = flow.may_acknowledge(&facts, there[Channel::Fast.index()]);
            // A packet that says nothing else takes that channel itself, and so does one that cannot be changed.
            if back_to.is_some() && (facts.payload == 0 || !facts.plain) {
                choice = Choice { twice: choice.twice, ..Choice::fat("acknowledges fast packets") };
            }
        }
        let doubtful = in_doubt && settings.policy.queues && outlooks[Channel::Fast.index()].wait < LONGEST_DOUBT;
        let route = Route { choice, level }.allowed(outlet, &facts, doubtful);
        let Some(Route { choice: Choice { channel, why, twice }, level }) = route else {
            outlet.tally.forbidden += 1;
            return outlet.give_up(packet);
        };
        let arrival = view.arrival(channel);
        let gained = view.arrival(channel.other()).since(arrival);
        let ordered = is_ordered(facts.kind);
        if ordered {
            flow.arrives = arrival;
        }
        match (channel, facts.ack) {
            (Channel::Fat, Some(ack)) => flow.acknowledges(ack, there[Channel::Fat.index()]),
            // There is nowhere else to go.
            _ => back_to = back_to.filter(|_| outlet.standing(Channel::Fat, &facts) == Standing::Open),
        }
        flow.previous = facts.len as u32;
        self.waiting += (queue.len() as f64 - self.waiting) * PRICE_FOLLOWS;
        let waiting = Waiting { facts, packet, since: now, bytes: bytes[1], back_to, twice, replaced: 0, why, gained };
        if channel == Channel::Fat || !settings.policy.queues {
            if channel == Channel::Fat && ordered {
                bring_along(now, queue, outlet, flow, facts.flow);
            }
            return outlet.give(now, flow, channel, waiting, 1.0);
        }
        self.enqueue(now, level, waiting);
    }

    /// Has a packet wait for the fast channel.
    fn enqueue(&mut self, now: Instant, level: u8, waiting: Waiting<P>) {
        let Self { queue, outlet, .. } = self;
        let facts = waiting.facts;
        let level = if is_ordered(facts.kind) && queue.is_bulk(facts.flow) { BULK } else { level };
        let in_need = outlet.standing(Channel::Fat, &facts) > Standing::Kept;
        if queue.len() >= MOST_WAITING || in_need && is_too_late(&outlet.channels[1], queue, level, facts.kind) {
            outlet.tally.dropped += 1;
            // Resent packets go before later ones, which would wait for them at the other end.
            let after = (level == BULK).then(|| queue.pop_after(&facts)).flatten();
            let Some(after) = after else { return outlet.give_up(waiting.packet) };
            outlet.give_up(after.packet);
        }
        if let Some(older) = queue.push(level, waiting) {
            outlet.tally.replaced += 1;
            outlet.give_up(older.packet);
        }
        self.drain(now);
        self.move_over(now);
    }

    /// Gives the fast channel what it may have by now.
    fn drain(&mut self, now: Instant) {
        while self.model(Channel::Fast).free_at() <= now
            && let Some(next) = self.queue.pop(now)
        {
            // A packet outside every order is not recorded; flows are mostly out of the processor's caches by now.
            let mut nobody = Flow::default();
            let traced = is_ordered(next.facts.kind) || next.back_to.is_some();
            let flow = if traced { self.flows.get(next.facts.flow) } else { &mut nobody };
            self.outlet.give(now, flow, Channel::Fast, next, PACED);
        }
    }

    /// From now on `channel` may be used for this at most, whatever its settings say: a cap is near, reached, or forgotten.
    pub fn allow(&mut self, now: Instant, channel: Channel, most: Use) {
        self.outlet.channels[channel.index()].allowed = most;
        self.move_over(now);
    }

    /// What would by now be sooner over the fat channel goes there; all of it, if the fast one is dead or must not be used.
    fn move_over(&mut self, now: Instant) {
        let Self { queue, outlet, flows, .. } = self;
        while let Some((last, before)) = queue.last() {
            let [fat, fast] = Channel::ALL.map(|channel| outlet.standing(channel, &last.facts));
            if fat > fast {
                return;
            }
            if fat == fast {
                let [of_fat, of_fast] = &outlet.channels;
                let over_fat = of_fat.outlook(now, 0, bytes_on(&of_fat.settings, &last.facts)).takes();
                if fat > Standing::Kept || over_fat >= of_fast.outlook(now, before, last.bytes).takes() {
                    return;
                }
            }
            let Some(last) = queue.pop_last() else { return };
            let (mut nobody, ordered) = (Flow::default(), is_ordered(last.facts.kind));
            let flow = if ordered { flows.get(last.facts.flow) } else { &mut nobody };
            if ordered {
                bring_along(now, queue, outlet, flow, last.facts.flow);
            }
            outlet.tally.moved += 1;
            let last = Waiting { why: "sooner over fat by now", gained: Duration::ZERO, ..last };
            outlet.give(now, flow, Channel::Fat, last, 1.0);
        }
    }

    fn turn(&mut self, now: Instant, channel: Channel, turn: Turn) {
        self.outlet.channels[channel.index()].alive = turn == Turn::Back;
        self.outlet.tally.lost_channels += u64::from(turn == Turn::Lost);
        self.move_over(now);
        if turn == Turn::Lost {
            self.send_again(now, channel);
        }
    }
}

/// What still waits for the fast channel goes before a packet of its flow that takes the fat one: it has no number yet that
/// the other end could wait for, and a sender takes a segment that three others overtook for lost.
fn bring_along<P>(now: Instant, queue: &mut Queue<P>, outlet: &mut Outlet<P>, flow: &mut Flow, key: FlowKey) {
    while let Some(waiting) = queue.pop_of(key, is_ordered) {
        outlet.tally.moved += 1;
        let why = "later packets take the fat channel";
        outlet.give(now, flow, Channel::Fat, Waiting { why, gained: Duration::ZERO, ..waiting }, 1.0);
    }
}

/// Whether a packet would wait on `level` for longer than it is of use, while there is no other channel.
fn is_too_late<P>(fast: &Model, queue: &Queue<P>, level: u8, kind: Kind) -> bool {
    // An acknowledgement takes the place of an older one, and what opens is small and rare.
    !matches!(kind, Kind::Ack | Kind::Open)
        && queue.len_of(level) >= LEAST_WAITING
        && fast.transmit_paced(queue.before(level)) > LONGEST_WAIT
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
                flow.received(&facts, channel);
            }
            Input::Probed(channel) => {
                self.probers.iter_mut().for_each(|probers| probers[channel.index()].heard(now));
            }
            Input::Echo { channel, number, come } => {
                let Some(probers) = &mut self.probers else { return };
                let Some(echo) = probers[channel.index()].echo(now, number) else { return };
                self.rescue.delivered(channel, echo.sent);
                let model = &mut self.outlet.channels[channel.index()];
                model.sample(echo.round_trip);
                if let Some(come) = come {
                    model.loss.on_echo(echo.sent, come);
                }
                if let Some(turn) = echo.turn {
                    self.turn(now, channel, turn);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.drain(now);
        for channel in Channel::ALL {
            let i = channel.index();
            let Some(probers) = &mut self.probers else { break };
            let model = &self.outlet.channels[i];
            if model.uses() == Use::Never {
                continue;
            }
            let (turn, probe) = probers[i].handle_timeout(now, model.probe_timeout(), model.counter);
            if let Some(turn) = turn {
                self.turn(now, channel, turn);
            }
            if let Some(number) = probe {
                self.outlet.tally.probes += 1;
                // As many echoes go this way as probes, since both ends probe alike.
                let bytes = 2 * (PROBE + self.settings.channels[i].overhead);
                self.outlet.channels[i].occupy(now, bytes, PACED);
                self.outlet.outputs.push_back(Output::Probe { channel, number });
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output<P>> {
        self.outlet.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let pacing = (!self.queue.is_empty())
            .then(|| Deadline { at: self.model(Channel::Fast).free_at(), why: "pacing of the fast channel" });
        let probed = self.probers.iter().flatten().zip(&self.outlet.channels);
        let probe = probed
            .filter(|(_, model)| model.uses() != Use::Never)
            .filter_map(|(prober, model)| prober.deadline(model.probe_timeout()))
            .map(|at| Deadline { at, why: "probe of a channel" });
        pacing.into_iter().chain(probe).min_by_key(|deadline| deadline.at)
    }
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
