//! Both ends of a session under every technique, on connections that open, close, and lose their tails at any time, by clocks that
//! jump and turn back.

use crate::technique::names;
use headstart_core::machine::Machine;
use headstart_core::realtime::technique::find;
use headstart_core::realtime::{
    Connection, Input, Kind, LaneId, MAX_CONNECTIONS, Messenger, Output, SessionId, Settings,
};
use headstart_core::time::{Duration, Instant};
use proptest::prelude::*;
use std::collections::VecDeque;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A message of this lane, with a key, of so many bytes, at this end.
    Send(usize, u8, u64, usize),
    /// So much time passes.
    Pass(Duration),
    /// The clock is set to this.
    Set(Instant),
    /// A connection opens; its handshake took so long.
    Open(u32, Option<Duration>),
    /// A connection ends: what was on its way is lost.
    Close(u32),
    /// What a connection carries to this end arrives, cut into pieces of this length.
    Arrive(usize, u32, usize),
    /// This end's kernel says how much of a connection is unacknowledged.
    Kernel(usize, u32, u64),
    /// An end leaves.
    Leave(usize),
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        6 => (0u64..200).prop_map(Duration::from_millis),
        1 => Just(Duration::ZERO),
        1 => any::<u64>().prop_map(Duration::from_nanos),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let connection = || 0u32..8;
    prop_oneof![
        8 => (0usize..2, 0u8..6, 0u64..3, 0usize..700).prop_map(|(end, lane, key, len)| Step::Send(end, lane, key, len)),
        8 => time().prop_map(Step::Pass),
        1 => any::<u64>().prop_map(|nanos| Step::Set(Instant::from_nanos(nanos))),
        4 => (connection(), proptest::option::of(time())).prop_map(|(id, rtt)| Step::Open(id, rtt)),
        1 => connection().prop_map(Step::Close),
        12 => (0usize..2, connection(), 1usize..900).prop_map(|(end, id, cut)| Step::Arrive(end, id, cut)),
        1 => (0usize..2, connection(), any::<u64>()).prop_map(|(end, id, bytes)| Step::Kernel(end, id, bytes)),
        1 => (0usize..2).prop_map(Step::Leave),
    ]
}

/// A session in play.
struct Play {
    ends: [Messenger; 2],
    now: Instant,
    /// The latest that the clock has shown.
    latest: Instant,
    /// Bytes on their way to each end, by connection; `None` where there is none.
    pipes: [[Option<VecDeque<u8>>; 8]; 2],
    /// What was handed out at each end: lane and number.
    taken: [Vec<(u8, Kind, u64)>; 2],
    /// All that was written, for comparison.
    written: Vec<u8>,
}

impl Play {
    fn new(technique: &str) -> Self {
        let end = || Messenger::new(SessionId::default(), Settings::new(technique).unwrap());
        Self {
            ends: [end(), end()],
            now: Instant::ZERO,
            latest: Instant::ZERO,
            pipes: Default::default(),
            taken: Default::default(),
            written: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(end, lane, key, len) => {
                let kind = Kind::ALL[usize::from(lane % 3)];
                // A lane may be full.
                let _ = self.ends[end].send(self.now, LaneId(lane), kind, key, &vec![lane; len]);
            }
            Step::Pass(time) => self.now += time,
            Step::Set(now) => self.now = now,
            Step::Open(id, rtt) => {
                if self.pipes[0][id as usize].is_none() {
                    for end in 0..2 {
                        let input = Input::Opened { connection: Connection(id), rtt, introduce: end == 0 };
                        self.ends[end].handle_input(self.now, input);
                        self.pipes[end][id as usize] = Some(VecDeque::new());
                    }
                }
            }
            Step::Close(id) => self.close(id),
            Step::Arrive(end, id, cut) => {
                let Some(pipe) = &mut self.pipes[end][id as usize] else { return };
                let bytes: Vec<u8> = pipe.drain(..).collect();
                for piece in bytes.chunks(cut) {
                    if self.ends[end].received(self.now, Connection(id), piece).is_err() {
                        return self.close(id);
                    }
                }
            }
            Step::Kernel(end, id, bytes) => {
                // A kernel may be late to say so, and says nothing that is not so.
                let has = self.pipes[1 - end][id as usize].as_ref().map_or(0, VecDeque::len) as u64;
                let input = Input::Unacknowledged { connection: Connection(id), bytes: bytes.max(has) };
                self.ends[end].handle_input(self.now, input);
            }
            Step::Leave(end) => self.ends[end].leave(),
        }
    }

    fn close(&mut self, id: u32) {
        for end in 0..2 {
            self.pipes[end][id as usize] = None;
            self.ends[end].handle_input(self.now, Input::Closed(Connection(id)));
        }
    }

    /// Does what an end asks for, and has it wake if it is time.
    fn serve(&mut self, name: &str) {
        let on_time = self.now >= self.latest;
        self.latest = self.latest.max(self.now);
        for end in 0..2 {
            self.drain(end);
            self.ends[end].handle_timeout(self.now);
            self.drain(end);
            if on_time && self.now < Instant::FAR_FUTURE {
                let next = self.ends[end].poll_timeout();
                assert!(next.is_none_or(|next| next.at > self.now), "{name}: at {:?}, wakes for {next:?}", self.now);
            }
            assert!(self.ends[end].connections() <= MAX_CONNECTIONS);
        }
    }

    fn drain(&mut self, end: usize) {
        let mut bytes = Vec::new();
        while let Some(output) = self.ends[end].poll_output() {
            match output {
                Output::Write(connection) => {
                    let mut frame = Vec::new();
                    while self.ends[end].transmit(self.now, connection, &mut frame) {
                        self.written.extend_from_slice(&frame);
                        if let Some(pipe) = &mut self.pipes[1 - end][connection.0 as usize] {
                            pipe.extend(&frame);
                        }
                        frame.clear();
                    }
                }
                Output::Deliver => {
                    while let Some(delivered) = self.ends[end].receive(&mut bytes) {
                        self.taken[end].push((delivered.lane.0, delivered.kind, delivered.seq));
                    }
                }
            }
        }
    }
}

fn play(technique: &str, steps: &[Step]) -> Play {
    let mut play = Play::new(technique);
    play.serve(technique);
    for step in steps {
        play.step(step);
        play.serve(technique);
    }
    play
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Nothing panics, no end wants to be woken at a moment that has passed, each message is handed out once at most, those of an
    /// ordered lane in their order, and the same story is told twice the same.
    #[test]
    fn every_technique_bears_every_story(steps in proptest::collection::vec(step(), 0..80)) {
        for name in names().iter().map(String::as_str).chain(["reduction-66+trigger-adaptive+echo", "auto+trigger"]) {
            prop_assert!(find(name).is_ok());
            let told = play(name, &steps);
            for taken in &told.taken {
                for lane in 0..6 {
                    let numbers: Vec<u64> = taken.iter().filter(|t| t.0 == lane).map(|t| t.2).collect();
                    let mut sorted = numbers.clone();
                    sorted.sort_unstable();
                    prop_assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "{} hands out twice", name);
                    let ordered = Kind::ALL[usize::from(lane % 3)] == Kind::Ordered;
                    prop_assert!(!ordered || numbers == sorted, "{} is out of order", name);
                }
            }
            let again = play(name, &steps);
            prop_assert!(again.written == told.written && again.taken == told.taken, "{} is not deterministic", name);
        }
    }
}
