//! What the handles and the tasks of one session share: its messenger, and which of them waits for what.
//!
//! Nothing is decided here. The lock is held for as long as the messenger thinks, never across a wait.

use crate::ending::{Ending, Why};
use crate::tcp_options::TcpOptions;
use crate::vigil::Vigil;
use headstart_core::machine::{Deadline, Machine, Wakeups};
use headstart_core::realtime::{FrameError, Input, MAX_CONNECTIONS, Messenger, Output, Stats};
use headstart_core::time::Instant;
use headstart_io::clock::Clock;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// See the module.
pub(crate) struct Shared {
    pub clock: Clock,
    state: Mutex<State>,
    /// Where its first connection leads, or comes from.
    pub peer: OnceLock<String>,
    /// Who is told what it has done when it is gone, if anyone has noted it ([`crate::observe`]).
    pub noted: OnceLock<fn(Stats)>,
    /// Which options the kernel took.
    pub tcp_options: OnceLock<TcpOptions>,
    /// The deadline has moved.
    pub timer: Notify,
    /// A connection is gone, or more are wanted.
    pub dial: Notify,
    /// The program has taken messages, so connections may be read again.
    pub room: Notify,
    /// The session has come to its end.
    pub ended: Notify,
    /// A connection is gone.
    pub parted: Notify,
    /// It has become known whether the peer speaks this protocol.
    pub judged: Notify,
}

pub(crate) struct State {
    pub messenger: Messenger,
    writers: Vec<(u32, Arc<Notify>)>,
    pub receivers: Vec<Waker>,
    pub senders: Vec<Waker>,
    deadline: Option<Deadline>,
    /// How often time has woken it, by cause.
    pub wakeups: Wakeups,
    /// Nothing more is to come or to go.
    pub closed: bool,
    /// Why, and what was on its way then.
    ending: Option<Ending>,
    pub error: Option<FrameError>,
    /// Whether all was known to have arrived when this side closed.
    pub arrived: Option<bool>,
    vigil: Vigil,
    /// What a program may poll, and whether it is readable.
    signal: Option<(OwnedFd, bool)>,
    pub next_connection: u32,
    /// How often bytes were received.
    arrivals: u64,
    /// The program has not accepted the session yet.
    pub confined: Option<Room>,
}

/// What a session may keep that waits to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// As much as one whose program is slow to read.
    Ample,
    /// Few bytes, with one connection.
    Little,
}

/// Bytes that may wait for a program that is sending. Ours: a thousand messages of the longest.
const MOST_UNTAKEN: usize = 16 << 20;
/// Bytes that a session may keep that waits to be accepted: where few do, and where many do. Ours.
const AMPLE: usize = 256 << 10;
const LITTLE: usize = 16 << 10;

impl State {
    /// Whether nothing more is sent, and why.
    pub fn ending(&self) -> Option<Ending> {
        let now = |why| Ending { why, unconfirmed: self.messenger.on_their_way() };
        let left = || self.messenger.peer_has_left().then(|| now(self.left()));
        // What is confirmed after the end is confirmed.
        let over =
            |ending: Ending| Ending { unconfirmed: ending.unconfirmed.min(self.messenger.on_their_way()), ..ending };
        self.ending.map(over).or_else(left)
    }

    fn left(&self) -> Why {
        Why::Left { untaken: self.messenger.untaken_by_peer() }
    }

    /// Whether all that was handed in is known to have arrived: confirmed by a peer that has neither thrown it away nor died with it.
    pub fn all_arrived(&self) -> bool {
        let sent = self.messenger.has_sent();
        let died = |ending: Ending| !matches!(ending.why, Why::Closed | Why::Left { .. });
        let all_there = self.messenger.on_their_way() == 0 && self.messenger.untaken_by_peer() == 0;
        all_there && !(sent && self.ending().is_some_and(died))
    }

    /// Whether nothing is on its way, and the peer answers: one that was lost may have died with what it had confirmed.
    pub fn is_confirmed(&self) -> bool {
        let answers = self.messenger.answered() > 0 || !self.messenger.has_sent();
        self.messenger.on_their_way() == 0 && answers
    }

    /// What is readable while there is something to receive, or the end.
    pub fn signal(&mut self) -> io::Result<&OwnedFd> {
        if self.signal.is_none() {
            use rustix::event::{EventfdFlags, eventfd};
            self.signal = Some((eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, false));
            self.show();
        }
        self.signal.as_ref().map(|(signal, _)| signal).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn show(&mut self) {
        let is_due = self.messenger.has_some() || self.closed || self.messenger.peer_has_left();
        if let Some((signal, shown)) = &mut self.signal
            && *shown != is_due
        {
            // It holds one or nothing, so that neither can block or fail.
            let _ = if is_due {
                rustix::io::write(&*signal, &1u64.to_ne_bytes())
            } else {
                rustix::io::read(&*signal, &mut [0; 8])
            };
            *shown = is_due;
        }
    }

    /// Whether connections are not to be read: the program has much to take. One that waits until it may send takes nothing, and what it waits
    /// for is an acknowledgement, behind what the peer sends: connections are read for it, until it would be far too much.
    pub fn must_not_read(&self) -> bool {
        // Until it is accepted, what is missing may be kept out too.
        let most = self.confined.map(|room| if room == Room::Little { LITTLE } else { AMPLE });
        if most.is_some_and(|most| self.messenger.kept() >= most) {
            return true;
        }
        self.messenger.is_full() && (self.senders.is_empty() || self.messenger.untaken() >= MOST_UNTAKEN)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(tell) = self.noted.get() {
            tell(self.stats());
        }
    }
}

impl Shared {
    pub fn new(messenger: Messenger, clock: Clock, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            clock,
            tcp_options: OnceLock::new(),
            peer: OnceLock::new(),
            noted: OnceLock::new(),
            state: Mutex::new(State {
                messenger,
                writers: Vec::new(),
                receivers: Vec::new(),
                senders: Vec::new(),
                deadline: None,
                wakeups: Wakeups::default(),
                closed: false,
                ending: None,
                error: None,
                arrived: None,
                vigil: Vigil::new(patience),
                signal: None,
                next_connection: 0,
                arrivals: 0,
                confined: None,
            }),
            timer: Notify::new(),
            dial: Notify::new(),
            room: Notify::new(),
            ended: Notify::new(),
            parted: Notify::new(),
            judged: Notify::new(),
        })
    }

    /// The state; a task that panicked has left it whole, for a messenger is changed by one call at a time.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.lock().messenger.stats(self.clock.now())
    }

    /// Lets the messenger think, and tells the tasks that it concerns.
    pub fn act<T>(&self, f: impl FnOnce(Instant, &mut Messenger) -> T) -> T {
        let mut state = self.lock();
        let now = self.clock.now();
        let result = f(now, &mut state.messenger);
        self.spread(now, &mut state);
        result
    }

    fn spread(&self, now: Instant, state: &mut State) {
        let (answered, on_its_way) = (state.messenger.answered() > 0, state.messenger.on_their_way() > 0);
        state.vigil.looked(now, answered, on_its_way);
        let mut delivered = false;
        while let Some(output) = state.messenger.poll_output() {
            match output {
                Output::Deliver => delivered = true,
                Output::Write(connection) => {
                    if let Some((_, writer)) = state.writers.iter().find(|(id, _)| *id == connection.0) {
                        writer.notify_one();
                    }
                }
            }
        }
        state.show();
        if delivered || state.messenger.peer_has_left() {
            state.receivers.drain(..).for_each(Waker::wake);
        }
        if !state.messenger.is_full() {
            self.room.notify_waiters();
        }
        let deadline = Deadline::earliest([state.messenger.poll_timeout(), state.vigil.deadline()]);
        if deadline != state.deadline {
            let sooner = deadline.is_some_and(|new| state.deadline.is_none_or(|old| new.at < old.at));
            state.deadline = deadline;
            if sooner {
                self.timer.notify_one();
            }
        }
        if state.messenger.connections() < state.messenger.connections_wanted() {
            self.dial.notify_one();
        }
    }

    /// How long the peer may not answer.
    pub fn patience(&self) -> Duration {
        self.lock().vigil.patience
    }

    /// From now on the peer may not answer for so long.
    pub fn set_patience(&self, patience: Duration) {
        let mut state = self.lock();
        state.vigil.patience = patience;
        self.spread(self.clock.now(), &mut state);
    }

    /// When to wake next.
    pub fn deadline(&self) -> Option<Instant> {
        self.lock().deadline.map(|deadline| deadline.at)
    }

    /// What is due at this moment: the messenger's affairs, and the end of a session whose peer does not answer.
    pub fn wake(&self) {
        {
            let mut state = self.lock();
            let due = state.deadline.filter(|due| due.at <= self.clock.now());
            due.into_iter().for_each(|due| state.wakeups.count(due.why));
        }
        self.act(|now, messenger| messenger.wake(now));
        let verdict = self.lock().vigil.verdict(self.clock.now());
        if let Some(why) = verdict {
            self.close(why);
        }
    }

    /// Sends the peer a keepalive over connection `id`, which this side does not read at the moment. Each connection has its own: one that
    /// has to end hears of it when it writes.
    pub fn assure(&self, id: u32) {
        let mut state = self.lock();
        let now = self.clock.now();
        // Nor can it hear that the peer is there.
        state.vigil.received(now);
        state.wakeups.count("keepalive");
        state.messenger.assure(headstart_core::realtime::Connection(id));
        self.spread(now, &mut state);
    }

    /// Whether a further connection may carry the session: one alone while it is confined.
    pub fn may_join(&self) -> bool {
        let state = self.lock();
        state.confined != Some(Room::Little) || state.writers.is_empty()
    }

    /// Keeps so much until the program has accepted the session; `None`: it has.
    pub fn confine(&self, room: Option<Room>) {
        self.lock().confined = room;
        if room.is_none() {
            self.room.notify_waiters();
        }
    }

    /// A program waits until it may send, or until what it sent has come.
    pub fn await_room(&self, state: &mut State, sender: Waker) {
        state.senders.push(sender);
        if state.messenger.is_full() {
            self.room.notify_waiters();
        }
    }

    /// Bytes have come over connection `id`.
    pub fn received(&self, id: u32, bytes: &[u8]) -> Result<(), FrameError> {
        let result =
            self.act(|now, messenger| messenger.received(now, headstart_core::realtime::Connection(id), bytes));
        let mut state = self.lock();
        state.senders.drain(..).for_each(Waker::wake);
        match result {
            Ok(()) => {
                state.arrivals += 1;
                state.vigil.received(self.clock.now());
            }
            // Where the peer answers on other connections, these lead elsewhere.
            Err(FrameError::Gone) => {}
            Err(error) => state.error = Some(error),
        }
        let forgotten = state.messenger.peer_has_forgotten();
        if state.error.is_some() || state.messenger.peer_is_ours() {
            self.judged.notify_waiters();
        }
        drop(state);
        if forgotten {
            self.close(Why::Gone);
        }
        result
    }

    /// How often bytes were received over any connection, and how many connections are wanted.
    pub fn arrivals(&self) -> (u64, usize) {
        let state = self.lock();
        (state.arrivals, state.messenger.connections_wanted())
    }

    /// A connection is up; what tells its writer that there is something to write. `None` for one that has the number of another,
    /// as when a host replays what it captured, and for one too many.
    pub fn opened(&self, input: Input, id: u32) -> Option<Arc<Notify>> {
        let writer = Arc::new(Notify::new());
        let mut state = self.lock();
        if state.writers.len() >= MAX_CONNECTIONS || state.writers.iter().any(|(known, _)| *known == id) {
            return None;
        }
        state.writers.push((id, Arc::clone(&writer)));
        let now = self.clock.now();
        state.messenger.handle_input(now, input);
        self.spread(now, &mut state);
        Some(writer)
    }

    /// A connection is gone.
    pub fn gone(&self, id: u32) {
        self.lock().writers.retain(|(known, _)| *known != id);
        self.act(|now, messenger| {
            messenger.handle_input(now, Input::Closed(headstart_core::realtime::Connection(id)));
        });
        let over = {
            let state = self.lock();
            (state.messenger.connections() == 0 && state.messenger.peer_has_left()).then(|| state.left())
        };
        if let Some(why) = over {
            self.close(why);
        }
        self.dial.notify_one();
        self.parted.notify_waiters();
    }

    /// The session is over for this side; the first reason stays.
    pub fn close(&self, why: Why) {
        let mut state = self.lock();
        state.closed = true;
        if state.ending.is_none() {
            // A peer that has left before is the reason.
            let why = if state.messenger.peer_has_left() { state.left() } else { why };
            state.ending = Some(Ending { why, unconfirmed: state.messenger.on_their_way() });
        }
        state.show();
        state.receivers.drain(..).for_each(Waker::wake);
        state.senders.drain(..).for_each(Waker::wake);
        for (_, writer) in &state.writers {
            writer.notify_one();
        }
        drop(state);
        self.timer.notify_one();
        self.dial.notify_one();
        self.room.notify_waiters();
        self.ended.notify_waiters();
        self.judged.notify_waiters();
    }
}
