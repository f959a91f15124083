//! System calls of programs that wait for our answer, received by a thread that may wait itself.
//!
//! What a call is about is in the memory of its program, and that may never answer: a page that the program has to fetch (userfaultfd(2)),
//! or one of a file whose server is gone (FUSE, NFS), blocks any thread that touches it, also where it was there a moment ago. So a thread
//! that does nothing else receives calls and reads what they are about. It lets the kernel make those that nothing is to be done for
//! (`Sieve`), which are most, and hands on the others. When it has been blocked for too long, its call is handed on unread and another
//! thread takes its place: a few of them, and one more that reads only what is there.

mod outstanding;

use crate::clock::Clock;
use crate::sys::process::{self, read_memory};
use crate::sys::seccomp::{Listener, Notification};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::sockaddr::MAX_BYTES;
pub use outstanding::Outstanding;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::Timespec;
use rustix::io::{Errno, read, write};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long a page may take: one that was swapped out, or is read from a disk. Ours.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a busy machine may keep a thread from running that nothing blocks. Ours.
const LONGEST: Duration = Duration::from_secs(2);
/// Threads that may be blocked. Ours.
const MOST_BLOCKED: usize = 2;

/// Which calls the kernel may make at once.
pub(crate) trait Sieve: Debug + Send + Sync {
    /// Whether nothing is to be done for `call`, which is about `address`. Asked by the thread that receives calls, in their order.
    fn lets_go(&self, call: &Notification, address: &[u8]) -> bool;
}

/// Lets no call go.
#[derive(Debug)]
pub(crate) struct Closed;

impl Sieve for Closed {
    fn lets_go(&self, _: &Notification, _: &[u8]) -> bool {
        false
    }
}

/// A call that is to be answered.
#[derive(Debug)]
pub(crate) struct Received {
    pub call: Notification,
    /// What it is about, as far as there is memory; none of calls that have no address. [`io::ErrorKind::TimedOut`]: it could not be read in
    /// time.
    pub address: io::Result<Vec<u8>>,
}

/// What there is to be done.
#[derive(Debug)]
pub(crate) enum Next {
    /// This call is to be answered.
    Call(Received),
    /// Nothing for now.
    Nothing,
    /// No more calls will come: no process is left that could make one, or they cannot be received.
    Over,
}

/// The calls that arrive at one listener. See the module.
///
/// Ready for reading when [`next`](Self::next) is to be called.
#[derive(Debug)]
pub(crate) struct Calls {
    shared: Arc<Shared>,
    /// The bell and the alarm.
    both: OwnedFd,
}

#[derive(Debug)]
struct Shared {
    listener: Listener,
    outstanding: Outstanding,
    sieve: Arc<dyn Sieve>,
    clock: Clock,
    /// Counts what is to be taken.
    bell: OwnedFd,
    /// Rings when a thread has been reading for too long.
    alarm: OwnedFd,
    /// Readable at the end.
    quit: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Received>,
    /// Calls that were handed on and not answered.
    unanswered: BTreeSet<u64>,
    /// The number of the thread that receives. Those before it are blocked.
    receiver: u64,
    /// What it reads, and its id in the kernel.
    reading: Option<(Notification, Instant, i32)>,
    blocked: usize,
    over: bool,
    /// Nobody takes what is handed on any more.
    closed: bool,
}

impl Calls {
    /// Receives the calls at `listener`, noted in `outstanding` for the watchdog.
    pub fn new(listener: Listener, outstanding: Outstanding, sieve: Arc<dyn Sieve>) -> io::Result<Self> {
        let count = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, count | EventfdFlags::SEMAPHORE)?;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let both = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&both, &bell, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&both, &alarm, EventData::new_u64(1), EventFlags::IN)?;
        listener.hand_over_in_place();
        let (clock, quit, state) = (Clock::new(), eventfd(0, count)?, Mutex::default());
        let shared = Arc::new(Shared { listener, outstanding, sieve, clock, bell, alarm, quit, state });
        shared.start(0)?;
        Ok(Self { shared, both })
    }

    /// What is to be done next.
    pub fn next(&mut self) -> Next {
        self.shared.look_after_the_reader();
        // Counted down by one; zero is an error.
        let _ = read(&self.shared.bell, &mut [0; 8]);
        let mut state = self.shared.state();
        match state.queue.pop_front() {
            Some(received) => Next::Call(received),
            None if state.over => Next::Over,
            None => Next::Nothing,
        }
    }

    /// Where they arrive.
    pub fn listener(&self) -> &Listener {
        &self.shared.listener
    }

    /// What the watchdog reads.
    pub fn outstanding(&self) -> &Outstanding {
        &self.shared.outstanding
    }

    /// How many calls were handed on and not answered.
    #[cfg(test)]
    pub fn unanswered(&self) -> usize {
        self.shared.state().unanswered.len()
    }

    /// As [`Listener::resume`]; a caller that has gone needs no answer.
    pub fn resume(&self, id: u64) {
        let _ = self.shared.listener.resume(id);
        self.shared.state().unanswered.remove(&id);
    }

    /// As [`Listener::answer`]; a caller that has gone needs no answer.
    pub fn answer(&self, id: u64, result: Result<(), i32>) {
        let _ = self.shared.listener.answer(id, result);
        self.shared.state().unanswered.remove(&id);
    }
}

impl AsFd for Calls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // A thread that is blocked ends when its page comes, or with this process.
        let _ = write(&self.shared.quit, &1u64.to_ne_bytes());
        let left = {
            let mut state = self.shared.state();
            state.closed = true;
            std::mem::take(&mut state.queue)
        };
        left.iter().for_each(|received| self.resume(received.call.id));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // It would have to be rung more often than there are calls to fail.
        let _ = write(&self.bell, &1u64.to_ne_bytes());
    }

    fn set_alarm(&self, after: Duration) {
        let it_value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // It fails for times that are none.
        let _ = timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &once);
    }

    /// Starts the thread that receives from now on.
    fn start(self: &Arc<Self>, number: u64) -> io::Result<()> {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("calls".into());
        thread.spawn(move || Receiver { shared, number }.run()).map(drop)
    }

    /// Has another thread receive if the one that does is blocked.
    fn look_after_the_reader(self: &Arc<Self>) {
        if read(&self.alarm, &mut [0; 8]).is_err() {
            return;
        }
        let mut state = self.state();
        let Some((call, since, thread)) = state.reading else { return };
        let waited = self.clock.now() - since;
        let is_slow = waited < PATIENCE || waited < LONGEST && process::may_run(thread);
        // Where the machine has no thread left, this one goes on when its page comes, or another is tried for later.
        if is_slow || self.start(state.receiver + 1).is_err() {
            self.set_alarm(PATIENCE);
            return;
        }
        state.reading = None;
        state.blocked += 1;
        state.receiver += 1;
        state.unanswered.insert(call.id);
        state.queue.push_back(Received { call, address: Err(io::ErrorKind::TimedOut.into()) });
        self.ring();
    }
}

/// A thread that receives calls until it is blocked for too long.
struct Receiver {
    shared: Arc<Shared>,
    number: u64,
}

impl Receiver {
    fn run(self) {
        let it = &*self.shared;
        while self.waits_for_one() {
            // It may have gone since.
            let Ok(Some(call)) = it.listener.receive() else { continue };
            // Ids count up and may wrap around.
            let oldest = it.state().unanswered.iter().copied().max_by_key(|id| call.id.wrapping_sub(*id));
            it.outstanding.note(oldest.unwrap_or(call.id), call.id);
            let Some(address) = self.read(&call) else { return };
            if address.as_ref().is_ok_and(|address| it.sieve.lets_go(&call, address)) {
                // A caller that has gone needs no answer.
                let _ = it.listener.resume(call.id);
                continue;
            }
            let mut state = it.state();
            if state.closed {
                let _ = it.listener.resume(call.id);
                return;
            }
            state.unanswered.insert(call.id);
            state.queue.push_back(Received { call, address });
            it.ring();
        }
    }

    /// Waits until a call is there; whether one is. To receive what is not there would wait for it, whatever happens.
    fn waits_for_one(&self) -> bool {
        let it = &*self.shared;
        loop {
            let mut ready = [PollFd::new(&it.listener, PollFlags::IN), PollFd::new(&it.quit, PollFlags::IN)];
            let failed = !matches!(poll(&mut ready, None), Ok(_) | Err(Errno::INTR));
            let [calls, quit] = ready.map(|one| one.revents());
            if quit.contains(PollFlags::IN) {
                return false;
            }
            if calls.contains(PollFlags::IN) {
                return true;
            }
            if failed || !calls.is_empty() {
                it.state().over = true;
                it.ring();
                return false;
            }
        }
    }

    /// What `call` is about; `None` once another thread has taken over.
    fn read(&self, call: &Notification) -> Option<io::Result<Vec<u8>>> {
        let (it, (address, length)) = (&*self.shared, call.address);
        if length == 0 {
            return Some(Ok(Vec::new()));
        }
        let blocked = {
            let mut state = it.state();
            state.reading = Some((*call, it.clock.now(), rustix::thread::gettid().as_raw_nonzero().get()));
            state.blocked
        };
        it.set_alarm(PATIENCE);
        let mut bytes = vec![0; length.min(MAX_BYTES)];
        // The last thread is for what is there. The page may be taken away all the same before it reads, and then nothing is read until
        // it comes.
        let may_read = match blocked {
            0..MOST_BLOCKED => true,
            MOST_BLOCKED => process::is_present(call.thread, address, bytes.len()).unwrap_or(false),
            _ => false,
        };
        let got =
            if may_read { read_memory(call.thread, address, &mut bytes) } else { Err(io::ErrorKind::TimedOut.into()) };
        let mut state = it.state();
        if state.receiver != self.number {
            state.blocked -= 1;
            return None;
        }
        state.reading = None;
        drop(state);
        it.set_alarm(Duration::ZERO);
        Some(got.map(|got| {
            bytes.truncate(got);
            bytes
        }))
    }
}

#[cfg(test)]
mod tests;
