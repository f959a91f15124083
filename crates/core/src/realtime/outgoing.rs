//! Messages of one lane on their way out, from the program's call until the peer is known to have them.
//!
//! Buffers of messages that are done are used again, so that a session that has found its rhythm allocates nothing.

use super::lane::{Kind, LaneId, WINDOW};
use crate::time::Instant;
use std::collections::VecDeque;

/// Messages of a `Latest` lane that are kept at most, those that are done and stand behind one that is not among them. Ours.
const MOST_KEPT: usize = 4 * WINDOW;

/// A message that is kept.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub key: u64,
    pub bytes: Vec<u8>,
    pub queued: Instant,
    /// It went out at least once.
    pub sent: bool,
    /// When it went out last.
    pub last: Instant,
    /// The peer has it, or it is not needed any more.
    pub done: bool,
    /// How often it was queued to be resent.
    pub again: u8,
}

/// See the module.
#[derive(Debug)]
pub(super) struct OutgoingLane {
    pub id: LaneId,
    pub kind: Kind,
    /// Number of the first message that is kept.
    base: u64,
    kept: VecDeque<Outgoing>,
    /// Number of the first message that may not have been sent yet.
    unsent: u64,
    /// When the last message went out for the first time.
    pub last_sent: Option<Instant>,
}

/// Result of handing in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    New,
    /// It took the place of an older value that had not been sent.
    Instead,
    /// It took the place of an older value that was sent, and not known to have arrived.
    Displaced,
}

impl OutgoingLane {
    pub fn new(id: LaneId, kind: Kind) -> Self {
        Self { id, kind, base: 0, kept: VecDeque::new(), unsent: 0, last_sent: None }
    }

    pub fn get(&mut self, seq: u64) -> Option<&mut Outgoing> {
        self.kept.get_mut(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    /// A message that is kept.
    pub fn kept(&self, seq: u64) -> Option<&Outgoing> {
        self.kept.get(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    /// Whether the peer has the message, or it is not needed any more.
    pub fn is_done(&self, seq: u64) -> bool {
        self.kept(seq).is_none_or(|message| message.done)
    }

    /// Messages that are on their way.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Takes a message in; gives it back if there are too many that may not be dropped. Buffers of what it takes the place of go
    /// to `spare`.
    pub fn push(
        &mut self,
        now: Instant,
        key: u64,
        bytes: Vec<u8>,
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<Queued, Vec<u8>> {
        let mut queued = Queued::New;
        if self.kind == Kind::Latest {
            // Its number was on no wire, so that it may stand for the newer value.
            if let Some(old) = self.kept.iter_mut().find(|m| !m.sent && !m.done && m.key == key) {
                let mut older = std::mem::replace(&mut old.bytes, bytes);
                old.queued = now;
                older.clear();
                spare.push(older);
                return Ok(Queued::Instead);
            }
            if self.kept.len() >= WINDOW {
                self.displace();
                queued = Queued::Displaced;
            }
        }
        if self.kept.len() >= WINDOW && queued != Queued::Displaced {
            return Err(bytes);
        }
        self.kept.push_back(Outgoing { key, bytes, queued: now, sent: false, last: now, done: false, again: 0 });
        Ok(queued)
    }

    /// Makes room for another value: the oldest that a newer one of its key has overtaken is not resent. Only where each is the newest of
    /// its key, or too many that are done stand behind one that is not, is it the oldest of all.
    fn displace(&mut self) {
        let overtaken = |at: &usize| !self.kept[*at].done && self.is_overtaken(self.base + *at as u64);
        let at = (0..self.kept.len()).find(overtaken).filter(|_| self.kept.len() < MOST_KEPT).unwrap_or(0);
        if let Some(message) = self.kept.get_mut(at) {
            message.done = true;
        }
    }

    /// The first message that has not been sent: its number and when it was handed in.
    pub fn next_unsent(&mut self) -> Option<(u64, Instant)> {
        self.unsent = self.unsent.max(self.base);
        loop {
            let message = self.kept.get((self.unsent - self.base) as usize)?;
            if !message.sent && !message.done {
                return Some((self.unsent, message.queued));
            }
            self.unsent += 1;
        }
    }

    /// Whether there may be a message that has not been sent.
    pub fn has_unsent(&self) -> bool {
        let from = self.unsent.saturating_sub(self.base) as usize;
        self.kept.iter().skip(from).any(|m| !m.sent && !m.done)
    }

    /// Whether a newer value of the same key was handed in: an older one need not be resent.
    pub fn is_overtaken(&self, seq: u64) -> bool {
        let Some(at) = seq.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) else { return true };
        let Some(message) = self.kept.get(at) else { return true };
        self.kind == Kind::Latest && self.kept.iter().skip(at + 1).any(|m| m.key == message.key)
    }

    /// Nothing waits for this message any more: a newer value has overtaken it, and it is not resent.
    pub fn give_up(&mut self, seq: u64) {
        let at = seq.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        if let Some(message) = at.and_then(|at| self.kept.get_mut(at)) {
            message.done = true;
        }
    }

    /// Lets go of messages at the front that are done; their buffers go to `spare`.
    pub fn tidy(&mut self, spare: &mut Vec<Vec<u8>>) {
        while self.kept.front().is_some_and(|m| m.done) {
            if let Some(mut message) = self.kept.pop_front() {
                message.bytes.clear();
                spare.push(message.bytes);
                self.base += 1;
            }
        }
    }

    /// Numbers of messages that went out and are not known to have arrived.
    pub fn undelivered(&self) -> impl Iterator<Item = u64> {
        self.kept.iter().enumerate().filter(|(_, m)| m.sent && !m.done).map(|(at, _)| self.base + at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(lane: &mut OutgoingLane, key: u64, value: u64) -> Result<Queued, Vec<u8>> {
        let mut spare = Vec::new();
        let queued = lane.push(Instant::ZERO, key, value.to_be_bytes().to_vec(), &mut spare);
        lane.tidy(&mut spare);
        queued
    }

    fn unsent(lane: &OutgoingLane) -> Vec<(u64, u64)> {
        let waits = lane.kept.iter().filter(|m| !m.sent && !m.done);
        waits.map(|m| (m.key, u64::from_be_bytes(m.bytes[..].try_into().unwrap()))).collect()
    }

    #[test]
    fn while_nothing_can_be_sent_the_newest_value_of_each_key_waits_however_many_there_were() {
        let mut lane = OutgoingLane::new(LaneId(0), Kind::Latest);
        assert_eq!(push(&mut lane, 7, 0), Ok(Queued::New));
        for value in 0..5_000 {
            assert!(push(&mut lane, 8, value).is_ok());
        }
        assert_eq!(unsent(&lane), [(7, 0), (8, 4_999)]);
        assert_eq!(lane.len(), 2);
    }

    #[test]
    fn of_what_was_sent_and_is_not_known_to_have_come_the_newest_of_each_key_is_kept_longest() {
        let mut lane = OutgoingLane::new(LaneId(0), Kind::Latest);
        for value in 0..3 * MOST_KEPT as u64 {
            // One key once, at the beginning; the other one again and again.
            push(&mut lane, value.min(1), value).unwrap();
            lane.kept.back_mut().unwrap().sent = true;
            if value < 2 * WINDOW as u64 {
                assert!(!lane.is_done(0), "{value}");
            }
            assert!(!lane.is_done(lane.base + lane.len() as u64 - 1), "{value}");
        }
        assert!(lane.len() <= MOST_KEPT, "{}", lane.len());
    }

    #[test]
    fn what_is_sent_given_up_and_done_is_told_apart() {
        let mut lane = OutgoingLane::new(LaneId(0), Kind::Event);
        (0..3).for_each(|value| assert_eq!(push(&mut lane, 0, value), Ok(Queued::New)));
        lane.get(0).unwrap().sent = true;
        assert_eq!((lane.next_unsent(), lane.has_unsent()), (Some((1, Instant::ZERO)), true));
        lane.get(1).unwrap().sent = true;
        assert_eq!(lane.undelivered().collect::<Vec<_>>(), [0, 1]);
        lane.give_up(1);
        assert_eq!((lane.undelivered().collect::<Vec<_>>(), lane.is_done(0), lane.is_done(1)), (vec![0], false, true));
        assert!(lane.has_unsent());
        lane.give_up(2);
        assert_eq!((lane.has_unsent(), lane.undelivered().count(), lane.len()), (false, 1, 3));
        lane.give_up(0);
        lane.tidy(&mut Vec::new());
        assert!(lane.len() == 0 && lane.is_done(0) && lane.is_done(7), "what is not kept is not waited for");
    }
}
