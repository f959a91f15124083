//! Two ends of a session, what is between them, and the programs at both. The model test and the fuzz target `session_story` play it.

use headstart_core::machine::Machine;
use headstart_core::realtime::{
    Connection, Input, Kind, LaneId, MAX_CONNECTIONS, Messenger, Output, SessionId, Settings,
};
use headstart_core::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Messages of a lane on their way at most, and what waits for a program before no more is read.
const WINDOW: usize = headstart_core::realtime::WINDOW;
const INBOX: usize = 4096;
/// Bytes of a message at most; what a read may bring beyond a full inbox.
pub const MOST: usize = 600;
pub const READ: usize = 4096;

/// What happens next.
#[derive(Clone, Debug)]
pub enum Step {
    /// This end sends so many bytes on a lane of this kind.
    Send(usize, Kind, u64, usize),
    /// So many milliseconds pass.
    Pass(u64),
    /// A connection opens, if there may be one more.
    Open,
    /// One of the connections is lost, with what is on it.
    Lose(usize),
    /// So much of what one of the connections carries comes to this end.
    Carry(usize, usize, usize),
    /// The program at this end takes what has come.
    Take(usize),
    /// The program at this end takes what has come, and is restarted: the other side is told that the session is gone, and begins another.
    Restart(usize),
}

impl Step {
    /// A step of a story that is written in bytes, as the fuzz target has it.
    pub fn of([kind, end, low, high]: [u8; 4]) -> Self {
        let (end, much) = (usize::from(end & 1), usize::from(u16::from_le_bytes([low, high])));
        match kind % 8 {
            0 | 1 => Self::Send(end, Kind::ALL[much % Kind::ALL.len()], u64::from(low % 3), much % MOST),
            2 => Self::Pass(u64::from(low) * if high < 16 { 12 } else { 1 }),
            3 => Self::Open,
            4 if high >= 250 => Self::Restart(end),
            4 => Self::Lose(much),
            5 | 6 => Self::Carry(end, usize::from(low), usize::from(high) * 16 + 1),
            _ => Self::Take(end),
        }
    }
}

/// Both ends, what is between them, and what they have sent and taken: lane and bytes.
pub struct Session {
    technique: String,
    ends: [Messenger; 2],
    now: Instant,
    /// The number of the next connection.
    next: u32,
    /// Bytes on their way to each end.
    pipes: [BTreeMap<u32, VecDeque<u8>>; 2],
    sent: [Vec<(Kind, u64, Vec<u8>)>; 2],
    taken: [Vec<(Kind, u64, Vec<u8>)>; 2],
}

/// Two that have not met.
fn ends(technique: &str) -> [Messenger; 2] {
    [(); 2].map(|()| {
        let settings = Settings { inbox_bytes: INBOX, ..Settings::new(technique).unwrap() };
        Messenger::new(SessionId::default(), settings)
    })
}

/// The bytes of what was sent or taken on a lane of this kind, in order.
fn of(all: &[(Kind, u64, Vec<u8>)], kind: Kind) -> Vec<Vec<u8>> {
    all.iter().filter(|message| message.0 == kind).map(|message| message.2.clone()).collect()
}

fn sorted(mut all: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    all.sort();
    all
}

impl Session {
    pub fn new(technique: &str) -> Self {
        Self {
            technique: technique.to_owned(),
            ends: ends(technique),
            now: Instant::ZERO,
            next: 0,
            pipes: Default::default(),
            sent: Default::default(),
            taken: Default::default(),
        }
    }

    /// One of the connections that are open.
    fn nth(&self, nth: usize) -> Option<u32> {
        let open = &self.pipes[0];
        open.keys().nth(nth % open.len().max(1)).copied()
    }

    fn open(&mut self) {
        if self.pipes[0].len() == MAX_CONNECTIONS {
            return;
        }
        let id = self.next;
        self.next += 1;
        for end in 0..2 {
            let input = Input::Opened { connection: Connection(id), rtt: None, introduce: end == 0 };
            self.pipes[end].insert(id, VecDeque::new());
            self.ends[end].handle_input(self.now, input);
        }
    }

    fn lose(&mut self, id: u32) {
        for end in 0..2 {
            self.pipes[end].remove(&id);
            self.ends[end].handle_input(self.now, Input::Closed(Connection(id)));
        }
    }

    fn carry(&mut self, end: usize, id: u32, most: usize) {
        // A program that has much to take is waited for.
        if self.ends[end].is_full() {
            return;
        }
        let Some(pipe) = self.pipes[end].get_mut(&id) else { return };
        let bytes: Vec<u8> = pipe.drain(..pipe.len().min(most)).collect();
        let came = self.ends[end].received(self.now, Connection(id), &bytes);
        assert!(came.is_ok(), "one of ours is refused: {came:?}");
    }

    fn send(&mut self, end: usize, kind: Kind, key: u64, len: usize) {
        let number = self.sent[end].len() as u64;
        let bytes: Vec<u8> = number.to_be_bytes().into_iter().cycle().take(len.max(8)).collect();
        let key = if kind == Kind::Latest { key } else { 0 };
        if self.ends[end].send(self.now, LaneId(kind.code() as u8), kind, key, &bytes).is_ok() {
            self.sent[end].push((kind, key, bytes));
        }
    }

    fn take(&mut self, end: usize) {
        let mut bytes = Vec::new();
        while let Some(what) = self.ends[end].receive(&mut bytes) {
            self.taken[end].push((what.kind, what.key, bytes.clone()));
        }
    }

    /// Writes what the ends have to write.
    fn serve(&mut self) {
        for end in 0..2 {
            self.ends[end].handle_timeout(self.now);
            let mut frame = Vec::new();
            while let Some(output) = self.ends[end].poll_output() {
                let Output::Write(connection) = output else { continue };
                while self.ends[end].transmit(self.now, connection, &mut frame) {
                    if let Some(pipe) = self.pipes[1 - end].get_mut(&connection.0) {
                        pipe.extend(&frame);
                    }
                    frame.clear();
                }
            }
        }
    }

    /// One program ends: what the other side may rely on has reached it, and nothing twice. Then both begin anew.
    fn restart(&mut self, end: usize) {
        self.take(end);
        self.serve();
        for to in 0..2 {
            let (sent, taken) = (&self.sent[1 - to], &self.taken[to]);
            assert!(of(sent, Kind::Ordered).starts_with(&of(taken, Kind::Ordered)), "an ordered lane has a hole");
            let (asked, came) = (sorted(of(sent, Kind::Event)), sorted(of(taken, Kind::Event)));
            let doubled = came.windows(2).any(|two| two[0] == two[1]);
            assert!(!doubled && came.iter().all(|one| asked.binary_search(one).is_ok()), "an event came twice");
        }
        let count = |all: &[(Kind, u64, Vec<u8>)]| all.iter().filter(|message| message.0 != Kind::Latest).count();
        let unconfirmed = self.ends[1 - end].on_their_way();
        let (sent, taken) = (count(&self.sent[1 - end]), count(&self.taken[end]));
        assert!(
            taken + unconfirmed >= sent,
            "{taken} of {sent} were taken, and only {unconfirmed} are known to be missing"
        );
        let now = self.now;
        *self = Self { now, ..Self::new(&self.technique) };
    }

    /// What was taken is what was sent, as far as each lane promises it.
    fn judge(&self, end: usize) {
        let (sent, taken) = (&self.sent[1 - end], &self.taken[end]);
        assert!(of(sent, Kind::Ordered) == of(taken, Kind::Ordered), "an ordered lane has lost, doubled or moved one");
        let (asked, came) = (sorted(of(sent, Kind::Event)), sorted(of(taken, Kind::Event)));
        assert!(asked == came, "a lane of events has lost or doubled one: {} of {}", came.len(), asked.len());
        let newest = |all: &[(Kind, u64, Vec<u8>)]| -> BTreeMap<u64, Vec<u8>> {
            all.iter().filter(|m| m.0 == Kind::Latest).map(|(_, key, bytes)| (*key, bytes.clone())).collect()
        };
        assert!(newest(sent) == newest(taken), "an old value is the last");
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::Send(end, kind, key, len) => self.send(end, kind, key, len),
            Step::Pass(millis) => self.now += Duration::from_millis(millis),
            Step::Open => self.open(),
            Step::Lose(nth) => self.nth(nth).into_iter().for_each(|id| self.lose(id)),
            Step::Carry(end, nth, most) => self.nth(nth).into_iter().for_each(|id| self.carry(end, id, most)),
            Step::Take(end) => self.take(end),
            Step::Restart(end) => self.restart(end),
        }
        self.serve();
        for end in &self.ends {
            assert!(end.on_their_way() <= Kind::ALL.len() * WINDOW, "{}", end.on_their_way());
            // Small messages take more than their bytes.
            assert!(end.untaken() <= INBOX + 16 * READ, "{} bytes wait", end.untaken());
        }
    }

    /// One more connection, on which everything comes through, and programs that take everything.
    pub fn finish(&mut self) {
        let spare = self.nth(0).filter(|_| self.pipes[0].len() == MAX_CONNECTIONS);
        spare.into_iter().for_each(|id| self.lose(id));
        self.open();
        for _ in 0..10_000 {
            self.serve();
            for end in 0..2 {
                for id in self.pipes[end].keys().copied().collect::<Vec<_>>() {
                    self.carry(end, id, READ);
                }
                self.take(end);
            }
            if self.ends.iter().all(|end| end.on_their_way() == 0) {
                break;
            }
            self.now += Duration::from_millis(10);
        }
    }

    /// After [`finish`](Self::finish): all that was promised has been kept.
    pub fn keeps_its_promises(&self) {
        for end in 0..2 {
            assert!(self.ends[end].on_their_way() == 0, "something never arrives, or is never confirmed");
            self.judge(end);
        }
    }
}
