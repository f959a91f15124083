//! What one direction has apart from its server: loss, the queue, the delay and the account of it all.
//!
//! A server (a rate, or a medium that both directions share) takes packets out of the lane and says when each is
//! through. All times are logical. What never happens here: a packet is never released before it was through and its
//! delay is over (which a packet that overtakes does not have), and never copied or changed but by a mishap.

use std::collections::VecDeque;

use headstart_core::time::Instant;

use crate::delay::Delay;
use crate::flight::Flight;
use crate::loss::Loss;
use crate::mishap::Mishaps;
use crate::queue::{Backlog, Head, Queue};
use crate::{Counters, Dropped, LinkSpec, Order, Outcome, Packet, seed};

/// One direction but for its server. See the module.
pub(crate) struct Lane<P> {
    delay: Box<dyn Delay>,
    loss: Box<dyn Loss>,
    queue: Box<dyn Queue>,
    /// [`Queue::drops_heads`], asked once.
    drops_heads: bool,
    delay_rng: fastrand::Rng,
    loss_rng: fastrand::Rng,
    mishaps: Mishaps,
    mishap_rng: fastrand::Rng,
    order: Order,
    /// Packets that wait for the server, each with its arrival.
    waiting: VecDeque<(Instant, P)>,
    backlog: Backlog,
    /// Whether the queue has judged the head already: it is dropped no more.
    judged: bool,
    /// Starts and sizes of packets that left `waiting` later than the last arrival: a late caller polled past it.
    begun: VecDeque<(Instant, usize)>,
    flight: Flight<P>,
    /// Packets that were dropped on the way, in the order of their drops.
    fallen: VecDeque<(Instant, Dropped, P)>,
    last_arrival: Instant,
    last_release: Instant,
    counters: Counters,
}

impl<P: Packet> Lane<P> {
    /// An empty lane; `spec.rate` is the server's business.
    pub fn new(spec: &LinkSpec, seed: u64) -> Self {
        let queue = spec.queue.build();
        Self {
            delay: spec.delay.build(),
            loss: spec.loss.build(),
            drops_heads: queue.drops_heads(),
            queue,
            delay_rng: seed::stage(seed, 0),
            loss_rng: seed::stage(seed, 1),
            mishaps: spec.mishaps,
            // 2 is a medium's.
            mishap_rng: seed::stage(seed, 3),
            order: spec.order,
            waiting: VecDeque::new(),
            backlog: Backlog::default(),
            judged: false,
            begun: VecDeque::new(),
            flight: Flight::new(spec.overtakes()),
            fallen: VecDeque::new(),
            last_arrival: Instant::ZERO,
            last_release: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    /// What leaves the queue or comes in from now on is treated as `spec` has it; `spec.rate` is the server's business.
    pub fn change(&mut self, spec: &LinkSpec) {
        self.delay = spec.delay.build();
        self.loss = spec.loss.build();
        self.queue = spec.queue.build();
        self.drops_heads = self.queue.drops_heads();
        self.mishaps = spec.mishaps;
        if let Some(last) = self.flight.change(spec.overtakes()) {
            self.last_release = self.last_release.max(last);
        }
        self.order = spec.order;
    }

    /// Counts a packet of `bytes` that arrives at `at`, and lets the loss model judge it. The arrival as it counts from
    /// now on comes back: never before the arrival of the packet before it.
    #[inline]
    pub fn arrive(&mut self, at: Instant, bytes: usize) -> Result<Instant, Dropped> {
        let at = at.max(self.last_arrival);
        self.last_arrival = at;
        self.counters.packets_in += 1;
        self.counters.bytes_in += bytes as u64;
        if self.loss.loses(at, &mut self.loss_rng) {
            self.count_lost(bytes);
            return Err(Dropped::Lost);
        }
        Ok(at)
    }

    /// Lets a packet join the queue at `at`, its arrival, if the queue admits it or the server takes it `at_once`.
    #[inline]
    pub fn join(&mut self, at: Instant, packet: P, at_once: bool) -> Result<(), Dropped> {
        let bytes = packet.wire_len();
        let backlog = self.backlog_at(at);
        if !at_once && !self.queue.admits(at, bytes, backlog) {
            self.counters.packets_dropped += 1;
            self.counters.bytes_dropped += bytes as u64;
            return Err(Dropped::QueueFull);
        }
        self.backlog.packets += 1;
        self.backlog.bytes += bytes;
        self.waiting.push_back((at, packet));
        Ok(())
    }

    /// When the packet at the head of the queue arrived.
    #[inline]
    pub fn head(&self) -> Option<Instant> {
        self.waiting.front().map(|(arrival, _)| *arrival)
    }

    /// Lets the queue drop from its head at `now`, when the server is about to take a packet; once for each packet taken.
    #[inline]
    pub fn cull(&mut self, now: Instant) {
        if !self.drops_heads || self.judged {
            return;
        }
        let mut behind = self.backlog;
        let mut heads = self.waiting.iter().map(|(arrival, packet)| {
            let bytes = packet.wire_len();
            behind.packets -= 1;
            behind.bytes -= bytes;
            Head { arrival: *arrival, bytes, behind }
        });
        let count = self.queue.drops(now, &mut heads);
        for _ in 0..count {
            let Some((_, packet)) = self.leave(now) else { break };
            self.counters.packets_dropped += 1;
            self.counters.bytes_dropped += packet.wire_len() as u64;
            self.fallen.push_back((now, Dropped::QueueDelay, packet));
        }
        self.judged = !self.waiting.is_empty();
    }

    /// The server takes the head of the queue at `now`.
    #[inline]
    pub fn take(&mut self, now: Instant) -> Option<P> {
        self.judged = false;
        let (_, mut packet) = self.leave(now)?;
        packet.dequeued(now);
        Some(packet)
    }

    #[inline]
    fn leave(&mut self, now: Instant) -> Option<(Instant, P)> {
        let (arrival, packet) = self.waiting.pop_front()?;
        let bytes = packet.wire_len();
        self.backlog.packets -= 1;
        self.backlog.bytes -= bytes;
        if now > self.last_arrival {
            self.begun.push_back((now, bytes));
        }
        Some((arrival, packet))
    }

    /// A packet is through at `through`; its delay begins.
    #[inline]
    pub fn depart(&mut self, through: Instant, packet: P) {
        let mut release = through + self.delay.draw(through, &mut self.delay_rng);
        let fate = self.mishaps.draw(&mut self.mishap_rng);
        if fate.overtakes {
            release = through;
        } else if self.order == Order::Kept {
            release = release.max(self.last_release);
            self.last_release = release;
        }
        let packet = match fate.damage.map(|random| packet.damaged(random)) {
            None => packet,
            Some(Some(damaged)) => damaged,
            Some(None) => return self.lose(through, packet),
        };
        if fate.copied {
            self.counters.packets_copied += 1;
            self.counters.bytes_copied += packet.wire_len() as u64;
            self.flight.depart(release, packet.clone());
        }
        self.flight.depart(release, packet);
    }

    /// A packet that the server had taken is lost at `at`.
    pub fn lose(&mut self, at: Instant, packet: P) {
        self.count_lost(packet.wire_len());
        self.fallen.push_back((at, Dropped::Lost, packet));
    }

    /// Bytes of the packet at the head of the queue.
    pub fn head_bytes(&self) -> Option<usize> {
        self.waiting.front().map(|(_, packet)| packet.wire_len())
    }

    /// The moment of the next end that is known, a release or a drop.
    #[inline]
    pub fn next_end(&self) -> Option<Instant> {
        let release = self.flight.next();
        match self.fallen.front() {
            None => release,
            Some((at, ..)) => Some(release.map_or(*at, |release| release.min(*at))),
        }
    }

    /// The earliest release of what is under way.
    #[inline]
    pub fn next_release(&self) -> Option<Instant> {
        self.flight.next()
    }

    /// Whether what waits may be released before what is under way.
    #[inline]
    pub fn overtakes(&self) -> bool {
        self.flight.overtakes()
    }

    /// The next packet that has come to an end until `now`, released or dropped on the way, in the order of time.
    #[inline]
    pub fn end(&mut self, now: Instant) -> Option<Outcome<P>> {
        let release = self.flight.next();
        if let Some((at, ..)) = self.fallen.front()
            && *at <= now
            && release.is_none_or(|release| *at <= release)
        {
            let (at, why, packet) = self.fallen.pop_front()?;
            return Some(Outcome::Dropped(at, why, packet));
        }
        if release? > now {
            return None;
        }
        let (release, packet) = self.flight.pop()?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += packet.wire_len() as u64;
        Some(Outcome::Released(release, packet))
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn count_lost(&mut self, bytes: usize) {
        self.counters.packets_lost += 1;
        self.counters.bytes_lost += bytes as u64;
    }

    /// What waits at `at`, the time of the newest arrival: also what has begun since, if the caller polled past it.
    #[inline]
    fn backlog_at(&mut self, at: Instant) -> Backlog {
        while self.begun.front().is_some_and(|(start, _)| *start <= at) {
            self.begun.pop_front();
        }
        let mut backlog = self.backlog;
        for (_, bytes) in &self.begun {
            backlog.packets += 1;
            backlog.bytes += bytes;
        }
        backlog
    }
}
