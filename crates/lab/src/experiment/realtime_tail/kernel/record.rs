//! What was sent when, what came when, and what it cost, by cell and way of sending.

use super::socket::Traffic;
use super::{ARMS, DATAGRAMS, ORACLE};
use crate::lock;
use crate::sim::messages::{AGE_STEP, PATIENCE, StreamResult, TOUCH};
use headstart_core::time::{Duration, Instant};
use headstart_io::clock::Clock;
use std::sync::{Mutex, MutexGuard};

/// Messages of a stream, those that do not count included.
pub const STREAM: u32 = TOUCH.before + TOUCH.messages;

/// One way of sending in one cell, by number of message; streams follow each other.
#[derive(Debug, Default)]
pub struct MessageLog {
    made: Vec<Instant>,
    arrived: Vec<Option<Instant>>,
    /// At the first message of each stream that counts, and after its last.
    traffic: Vec<[Traffic; 2]>,
}

/// All of them.
#[derive(Debug)]
pub struct MessageLogs {
    pub clock: Clock,
    cells: usize,
    records: Vec<Mutex<MessageLog>>,
    failures: Mutex<Vec<String>>,
}

impl MessageLogs {
    pub fn new(cells: usize, clock: Clock) -> Self {
        let records = (0..cells * ARMS.len()).map(|_| Mutex::default()).collect();
        Self { clock, cells, records, failures: Mutex::default() }
    }

    fn of(&self, cell: usize, arm: usize) -> MutexGuard<'_, MessageLog> {
        // Each entry is whole by itself, whichever thread panicked.
        lock(&self.records[cell * ARMS.len() + arm])
    }

    /// A way of sending has not done what it should, for a reason that is not the network's.
    pub fn failed(&self, why: String) {
        lock(&self.failures).push(why);
    }

    /// What has failed.
    pub fn failures(&self) -> Vec<String> {
        lock(&self.failures).clone()
    }

    /// The next message is made now; its number.
    pub fn made(&self, cell: usize, arm: usize) -> u32 {
        let mut record = self.of(cell, arm);
        record.made.push(self.clock.now());
        record.arrived.push(None);
        record.made.len() as u32 - 1
    }

    /// A message is there.
    pub fn arrived(&self, cell: usize, arm: usize, number: u32) {
        let now = self.clock.now();
        if let Some(slot) = self.of(cell, arm).arrived.get_mut(number as usize) {
            slot.get_or_insert(now);
        }
    }

    /// What the sender's sockets have carried, at the beginning of what counts (`at` 0) or at its end.
    pub fn carried(&self, cell: usize, arm: usize, at: usize, traffic: Traffic) {
        let mut record = self.of(cell, arm);
        if at == 0 {
            record.traffic.push([traffic; 2]);
        } else if let Some(last) = record.traffic.last_mut() {
            last[1] = traffic;
        }
    }

    /// Whether nothing more is to be waited for in a cell; what a way of sending leaves out never comes.
    pub fn is_complete(&self, cell: usize) -> bool {
        ARMS.iter().enumerate().all(|(arm, name)| {
            let leaves_out = name.contains("reduction") || [DATAGRAMS, ORACLE].contains(name);
            leaves_out || self.of(cell, arm).arrived.iter().all(Option::is_some)
        })
    }

    /// The results of the streams, by way of sending.
    pub fn results(self, streams: u32) -> Vec<Vec<StreamResult>> {
        let (cells, clock) = (self.cells, self.clock);
        let all = |arm| (0..cells).flat_map(move |cell| (0..streams).map(move |stream| (cell, arm, stream)));
        let now = clock.now();
        (0..ARMS.len())
            .map(|arm| {
                all(arm).filter_map(|(cell, arm, stream)| self.of(cell, arm).stream(ARMS[arm], stream, now)).collect()
            })
            .collect()
    }
}

impl MessageLog {
    fn stream(&self, arm: &str, stream: u32, now: Instant) -> Option<StreamResult> {
        let (from, to) = ((stream * STREAM) as usize, ((stream + 1) * STREAM) as usize);
        let (made, arrived) = (self.made.get(from..to)?, self.arrived.get(from..to)?);
        let [before, after] = *self.traffic.get(stream as usize)?;
        let counted = || made.iter().zip(arrived).skip(TOUCH.before as usize);
        let delay = |(made, arrived): (&Instant, &Option<Instant>)| {
            let took = arrived.map_or(PATIENCE, |at| at.since(*made).min(PATIENCE));
            // What was left out for a newer value was not sent; the age says what that costs.
            (arrived.is_some() || !arm.contains("reduction")).then_some(took.as_secs_f64() * 1e3)
        };
        Some(StreamResult {
            delays: counted().filter_map(delay).collect(),
            ages: ages(made, arrived, now),
            packets: after.packets - before.packets,
            bytes: after.bytes - before.bytes,
            back: after.back - before.back,
        })
    }
}

/// The age of the newest message that the receiver has, each 5 ms from the first that counts to the end of the last interval.
fn ages(made: &[Instant], arrived: &[Option<Instant>], now: Instant) -> Vec<f64> {
    let (Some(first), Some(last)) = (made.get(TOUCH.before as usize), made.last()) else { return Vec::new() };
    let mut news: Vec<(Instant, Instant)> =
        arrived.iter().zip(made).filter_map(|(at, made)| Some(((*at)?, *made))).collect();
    news.sort_unstable();
    let (mut known, mut k, mut ages) = (made.first().copied(), 0, Vec::new());
    let mut at = *first;
    while at < (*last + TOUCH.interval).min(now) {
        while let Some((_, made)) = news.get(k).filter(|(arrival, _)| *arrival <= at) {
            known = known.max(Some(*made));
            k += 1;
        }
        ages.extend(known.map(|made| at.since(made).as_secs_f64() * 1e3));
        at += AGE_STEP;
    }
    ages
}

/// From the last message of a stream to the first of the next: what was lost has mostly been sent again by then.
pub const PAUSE: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_out_of_its_session_and_what_never_came_has_taken_all_patience() {
        let ms = |n: u32| Instant::from_millis(1000 + 30 * u64::from(n));
        let mut record = MessageLog::default();
        for number in 0..2 * STREAM {
            record.made.push(ms(number));
            record.arrived.push((number != STREAM + 40).then(|| ms(number) + Duration::from_millis(7)));
        }
        for packets in [100, 300] {
            let at = |packets| Traffic { packets, bytes: 10 * packets, back: 1 };
            record.traffic.push([at(packets), at(packets + 61)]);
        }
        let far = Instant::from_millis(100_000);
        let (one, other) = (record.stream("plain", 0, far).unwrap(), record.stream("plain", 1, far).unwrap());
        assert_eq!((one.delays, one.packets, one.bytes), (vec![7.0; 60], 61, 610));
        assert_eq!(other.delays.iter().filter(|delay| **delay == 5000.0).count(), 1);
        assert_eq!(record.stream("reduction-50", 1, far).unwrap().delays, [7.0; 59]);
        assert!(one.ages.iter().all(|age| (7.0..=37.0).contains(age)), "{:?}", one.ages);
        assert!(other.ages.iter().any(|age| *age > 60.0));
        assert!(record.stream("plain", 2, far).is_none());
    }
}
