//! Senders, two channels and a resequencer, beside a plain account of which packets are held. The model test and the fuzz target
//! `resequencer_story` play it.
//!
//! The account knows whole numbers and keeps a list; the machine has 16 bits of each number and keeps indexes. After each step both
//! have handed out the same packets. Within a flow that sends no copies, a packet is overtaken only by one that was held until its time
//! was up; nothing comes out twice, and in the end everything that came is out.

use headstart_core::machine::Machine;
use headstart_core::steer::{Arrived, Channel, Resequencer};
use headstart_core::time::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Flows; the last of them sends every packet over both channels.
const FLOWS: usize = 4;
/// A channel is never further ahead of what has come than its 16 bits can say.
const FURTHEST: u64 = 30_000;

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    after: Option<u64>,
    copy_of: Option<u64>,
    /// Which flow, and the how-manieth of it.
    what: (usize, u32),
}

/// A packet that is held, by the plain account.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    of: Channel,
    after: u64,
    due: Instant,
    what: (usize, u32),
}

struct Story {
    machine: Resequencer<(usize, u32)>,
    now: Instant,
    hold: Duration,
    /// The sender: the last number of each channel, each flow's last number there, and how many packets it has sent.
    sent: [u64; 2],
    last: [[Option<u64>; 2]; FLOWS],
    counts: [u32; FLOWS],
    /// What is on its way.
    ways: [VecDeque<Packet>; 2],
    /// The account: the highest number that has come by channel, what is held, what is out, and packets that were let go in time.
    highest: [Option<u64>; 2],
    held: Vec<Waiting>,
    out: BTreeSet<(usize, u32)>,
    newest: BTreeMap<usize, u32>,
    impatient: BTreeSet<(usize, u32)>,
    came: BTreeSet<(usize, u32)>,
}

/// Plays a story.
pub fn play(steps: &[[u8; 4]]) {
    let begin = steps.first().map_or(0, |step| u64::from(u16::from_le_bytes([step[2], step[3]])) % 60_000);
    let hold = Duration::from_millis(50);
    let mut story = Story {
        machine: Resequencer::new(hold),
        now: Instant::from_millis(1),
        hold,
        sent: [begin, begin / 2],
        last: Default::default(),
        counts: Default::default(),
        ways: Default::default(),
        highest: [None; 2],
        held: Vec::new(),
        out: BTreeSet::new(),
        newest: BTreeMap::new(),
        impatient: BTreeSet::new(),
        came: BTreeSet::new(),
    };
    steps.iter().for_each(|step| story.step(*step));
    story.pass(Duration::from_secs(1));
    assert_eq!(story.out, story.came, "something that came is still held");
    assert_eq!(story.machine.poll_timeout(), None);
}

impl Story {
    fn step(&mut self, [kind, a, low, high]: [u8; 4]) {
        let channel = Channel::ALL[usize::from(a & 1)];
        let flow = usize::from(low) % FLOWS;
        match kind % 16 {
            0..=4 => self.send(flow, channel),
            5 | 6 => self.pass(Duration::from_millis(u64::from(low % 20))),
            7 => self.pass(Duration::from_millis(u64::from(low))),
            8 => drop(self.ways[channel.index()].pop_front()),
            // Packets of others by the thousand, all lost. Nothing stays under way while thousands of others come and go.
            9 if high < 32 && self.ways.iter().all(VecDeque::is_empty) => {
                let i = channel.index();
                self.sent[i] = (self.sent[i] + u64::from(u16::from_le_bytes([low, high]))).min(self.furthest(channel));
            }
            10 if high < 8 => self.begins_anew(u64::from(low) * 200),
            _ => self.carry(channel),
        }
    }

    /// The highest number that the next packet of a channel may have.
    fn furthest(&self, channel: Channel) -> u64 {
        let i = channel.index();
        // Before the first has come, numbers must not go round: the receiver does not know where they began.
        self.highest[i].map_or_else(|| self.sent[i].max(60_000), |highest| (highest + FURTHEST).max(self.sent[i]))
    }

    fn number(&mut self, channel: Channel) -> Option<u64> {
        let i = channel.index();
        (self.sent[i] < self.furthest(channel)).then(|| {
            self.sent[i] += 1;
            self.sent[i]
        })
    }

    fn send(&mut self, flow: usize, channel: Channel) {
        let both = flow == FLOWS - 1;
        let channel = if both { Channel::Fast } else { channel };
        let Some(number) = self.number(channel) else { return };
        // As senders do: of what has long come, the last 16 bits would be read as ahead.
        let (other, ahead) = (channel.other().index(), self.sent[channel.other().index()]);
        let after = self.last[flow][other].filter(|last| !both && ahead - last < FURTHEST);
        self.last[flow][channel.index()] = Some(number);
        self.counts[flow] += 1;
        let what = (flow, self.counts[flow]);
        self.ways[channel.index()].push_back(Packet { number, after, copy_of: None, what });
        if both && let Some(copy) = self.number(Channel::Fat) {
            let copy = Packet { number: copy, after: None, copy_of: Some(number), what };
            self.ways[Channel::Fat.index()].push_back(copy);
        }
    }

    /// The other end is restarted: what is on its way is of a time that is over.
    fn begins_anew(&mut self, from: u64) {
        (self.sent, self.last, self.highest) = ([from, from / 2], Default::default(), [None; 2]);
        self.ways.iter_mut().for_each(VecDeque::clear);
        self.machine.reset();
        let held = std::mem::take(&mut self.held);
        // What is let go for this reason has nothing to wait for.
        self.compare(held.iter().map(|waiting| waiting.what).collect());
    }

    fn carry(&mut self, channel: Channel) {
        let Some(packet) = self.ways[channel.index()].pop_front() else { return };
        let Packet { number, after, copy_of, what } = packet;
        let other = channel.other();
        self.highest[channel.index()] = self.highest[channel.index()].max(Some(number));
        let mut out = Vec::new();
        self.came.insert(what);
        let is_due = |highest: Option<u64>, after: u64| highest.is_none_or(|highest| after > highest);
        match after.filter(|after| is_due(self.highest[other.index()], *after)) {
            // One of two: the first goes on.
            _ if what.0 == FLOWS - 1 => out.extend((!self.out.contains(&what)).then_some(what)),
            Some(after) => self.held.push(Waiting { of: other, after, due: self.now + self.hold, what }),
            None => out.push(what),
        }
        let passed = self.highest[channel.index()].unwrap_or(0);
        self.held.retain(|waiting| {
            let goes = waiting.of == channel && waiting.after <= passed;
            out.extend(goes.then_some(waiting.what));
            !goes
        });
        let low = |number: u64| number as u16;
        let (after, copy_of) = (after.map(low), copy_of.map(low));
        self.machine.handle_input(self.now, Arrived { channel, number: low(number), after, copy_of, packet: what });
        self.compare(out);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let (now, mut out) = (self.now, Vec::new());
        self.held.retain(|waiting| {
            out.extend((waiting.due <= now).then_some(waiting.what));
            waiting.due > now
        });
        self.impatient.extend(out.iter().copied());
        self.machine.handle_timeout(now);
        self.compare(out);
        let due = self.held.iter().map(|waiting| waiting.due).min();
        assert_eq!(self.machine.poll_timeout().map(|deadline| deadline.at), due, "when it wants to be woken");
    }

    /// The machine has handed out these packets and no others, each flow's in order.
    fn compare(&mut self, mut expected: Vec<(usize, u32)>) {
        let mut out: Vec<_> = std::iter::from_fn(|| self.machine.poll_output()).collect();
        for what @ (flow, nth) in &out {
            assert!(self.out.insert(*what), "{what:?} came out twice");
            let newest = self.newest.entry(*flow).or_default();
            let in_time =
                self.out.iter().filter(|(of, later)| of == flow && later > nth).all(|w| self.impatient.contains(w));
            assert!(nth > newest || in_time || *flow == FLOWS - 1, "{what:?} was overtaken by {newest}");
            *newest = (*newest).max(*nth);
        }
        out.sort_unstable();
        expected.sort_unstable();
        assert_eq!(out, expected);
    }
}
