//! The one loop: sleeps until a descriptor is ready or a deadline comes, counts why, and lets the machines think.
//!
//! [`Hands`] is a machine with what does its outputs: what it asks of the world is done in order, until it asks for nothing.
//! [`Host`] is what one thread serves: its descriptors, its machines, and its own ends. [`serve`] is the loop. What never happens here:
//! a decision, or a wake-up without a cause.

use crate::clock::Clock;
use crate::poll::Poll;
use headstart_core::lookout::Lookout;
use headstart_core::machine::{Deadline, Machine, Wakeups};
use headstart_core::time::Instant;
use std::io;

/// A machine, and what does what it asks for.
pub trait Hands {
    /// The machine.
    type Machine: Machine;

    /// The machine.
    fn machine(&mut self) -> &mut Self::Machine;

    /// Does one output. What that comes to may be given to the machine at once.
    fn act(&mut self, now: Instant, output: <Self::Machine as Machine>::Output);

    /// Does all that the machine asks for.
    fn drain(&mut self, now: Instant) {
        while let Some(output) = self.machine().poll_output() {
            self.act(now, output);
        }
    }

    /// Tells the machine something, and does what it asks for then.
    fn feed(&mut self, now: Instant, input: <Self::Machine as Machine>::Input) {
        self.machine().handle_input(now, input);
        self.drain(now);
    }

    /// Lets the machine handle its deadline if that has come, and does what it asks for then.
    fn wake(&mut self, now: Instant) {
        if self.machine().wake(now).is_some() {
            self.drain(now);
        }
    }
}

/// What a loop waits with. The host owns it, because code that serves a descriptor adds and removes others.
pub struct Ears<'a> {
    /// The time.
    pub clock: Clock,
    /// What is listened to.
    pub poll: &'a mut Poll,
    /// How it looks out for an answer that is due, before it sleeps; without one it sleeps at once.
    pub lookout: Option<&'a mut Lookout>,
    /// How often it has woken up.
    pub wakeups: &'a mut Wakeups,
}

/// What one thread serves.
pub trait Host {
    /// How it ends.
    type Ended;
    /// What keeps it from going on.
    type Error: From<io::Error>;

    /// What it waits with.
    fn ears(&mut self) -> Ears<'_>;

    /// What kind of source a token stands for, as wake-ups are counted.
    fn cause(token: u64) -> &'static str;

    /// When it wants to be woken at the latest, and why.
    fn deadline(&mut self, now: Instant) -> Option<Deadline>;

    /// It is about to sleep: how many bytes it has passed on since it did so before, if any. See [`Lookout::begin`].
    fn passed(&mut self) -> Option<usize> {
        None
    }

    /// It has woken up: deals with what is ready, then with what is due. How it has ended, if it has.
    fn woken(&mut self, tokens: &[u64]) -> Result<Option<Self::Ended>, Self::Error>;
}

/// Serves until it has ended.
pub fn serve<H: Host>(host: &mut H) -> Result<H::Ended, H::Error> {
    let mut tokens = Vec::new();
    loop {
        wait(host, &mut tokens)?;
        if let Some(ended) = host.woken(&tokens)? {
            return Ok(ended);
        }
    }
}

/// Waits until a descriptor is ready or a deadline comes, and counts why it woke.
fn wait<H: Host>(host: &mut H, tokens: &mut Vec<u64>) -> io::Result<()> {
    let now = host.ears().clock.now();
    let until = host.deadline(now);
    let at = until.map(|deadline| deadline.at);
    // What is due is no wait, just a look at what else there is: work without end must not keep it from hearing.
    let sleeps = at.is_none_or(|at| at > now);
    let passed = if sleeps { host.passed() } else { None };
    let Ears { clock, poll, lookout, wakeups } = host.ears();
    match lookout {
        Some(lookout) if sleeps => poll.look_out(&clock, lookout, passed, at, tokens)?,
        _ => poll.wait(&clock, at, tokens)?,
    }
    match (tokens.first(), until) {
        (Some(token), _) => wakeups.count(H::cause(*token)),
        (None, Some(deadline)) => wakeups.count(deadline.why),
        // A signal that is of no interest.
        (None, None) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Interest;
    use headstart_core::time::Duration;
    use std::collections::VecDeque;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    const AFTER: Duration = Duration::from_millis(2);
    const SOURCE: u64 = 7;

    /// Sends back each byte that it receives, [`AFTER`] later.
    #[derive(Default)]
    struct Echo {
        due: VecDeque<(Instant, u8)>,
        said: VecDeque<u8>,
    }

    impl Machine for Echo {
        type Input = u8;
        type Output = u8;

        fn handle_input(&mut self, now: Instant, byte: u8) {
            self.due.push_back((now + AFTER, byte));
        }

        fn handle_timeout(&mut self, now: Instant) {
            while self.due.front().is_some_and(|(at, _)| *at <= now) {
                self.said.extend(self.due.pop_front().map(|(_, byte)| byte));
            }
        }

        fn poll_output(&mut self) -> Option<u8> {
            self.said.pop_front()
        }

        fn poll_timeout(&self) -> Option<Deadline> {
            self.due.front().map(|(at, _)| Deadline { at: *at, why: "an echo is due" })
        }
    }

    struct Served {
        clock: Clock,
        poll: Poll,
        wakeups: Wakeups,
        machine: Echo,
        source: UnixStream,
        heard: Vec<u8>,
    }

    impl Hands for Served {
        type Machine = Echo;

        fn machine(&mut self) -> &mut Echo {
            &mut self.machine
        }

        fn act(&mut self, _: Instant, byte: u8) {
            self.heard.push(byte);
        }
    }

    impl Host for Served {
        type Ended = Vec<u8>;
        type Error = io::Error;

        fn ears(&mut self) -> Ears<'_> {
            Ears { clock: self.clock, poll: &mut self.poll, lookout: None, wakeups: &mut self.wakeups }
        }

        fn cause(token: u64) -> &'static str {
            if token == SOURCE { "source" } else { "?" }
        }

        fn deadline(&mut self, _: Instant) -> Option<Deadline> {
            self.machine.poll_timeout()
        }

        fn woken(&mut self, tokens: &[u64]) -> io::Result<Option<Vec<u8>>> {
            let now = self.clock.now();
            if tokens.contains(&SOURCE) {
                let mut byte = [0];
                if self.source.read(&mut byte)? == 1 {
                    self.feed(now, byte[0]);
                } else {
                    self.poll.remove(&self.source);
                }
            }
            self.wake(now);
            Ok((self.heard.len() == 2).then(|| std::mem::take(&mut self.heard)))
        }
    }

    #[test]
    fn a_machine_hears_its_source_is_woken_when_it_wants_to_be_and_each_wake_up_has_its_cause() {
        let (mut here, source) = UnixStream::pair().unwrap();
        let poll = Poll::new().unwrap();
        poll.add(&source, SOURCE, Interest::Read).unwrap();
        let (clock, wakeups, machine) = (Clock::new(), Wakeups::default(), Echo::default());
        let mut served = Served { clock, poll, wakeups, machine, source, heard: Vec::new() };
        here.write_all(b"ab").unwrap();
        drop(here);
        assert_eq!(serve(&mut served).unwrap(), b"ab");
        let causes: Vec<_> = served.wakeups.iter().collect();
        let of = |why| causes.iter().find(|(name, _)| *name == why).map_or(0, |(_, count)| *count);
        // Both bytes and the end come from the source, unless an echo became due before the end was heard; on a busy machine one
        // wake-up may be for both echoes, or an echo be found due beside the source.
        assert!((2..=3).contains(&of("source")) && of("an echo is due") <= 2, "{causes:?}");
        assert_eq!(causes.len(), 1 + usize::from(of("an echo is due") > 0), "{causes:?}");
    }
}
