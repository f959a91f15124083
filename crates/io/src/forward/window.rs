//! Sends the state of a measurement to its readers, without waiting for them: all of it to who measures, to root and to a group; to every
//! other user of a measured host what is its own (docs/decisions/0106).

use super::Attributed;
use super::board::{Board, Tallies};
use crate::board::{self, Audience, Sight};
use crate::clock::Clock;
use headstart_core::time::Instant;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

/// Users of whose programs something is kept for them alone. Of further ones, who was silent for longest is forgotten.
const MOST_USERS: usize = 16;
/// Users who get only what is their own take one part in so many of the time of who answers them, all together.
const SHARE: u32 = 10;

/// The listener, and what is sent.
pub(super) struct Window {
    /// None where the program that has made the interface tells it.
    pub(super) listener: Option<OwnedFd>,
    audience: Audience,
    tallies: Tallies,
    /// The same of single users, and the number of the latest record of each.
    own: BTreeMap<u32, (u64, Tallies)>,
    records: u64,
    clock: Clock,
    /// Until when who gets only what is its own gets nothing.
    resting: Cell<Instant>,
    /// What a user sees if nothing is kept of it.
    nothing: Tallies,
}

/// What a client gets.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) tallies: &'a Tallies,
    sight: Sight,
}

impl Part<'_> {
    /// Whether what belongs to this user is in it; `None` is a user who is not known.
    pub(super) fn has(&self, user: Option<u32>) -> bool {
        match self.sight {
            Sight::Everything => true,
            Sight::Of(own) => user == Some(own),
        }
    }
}

impl Window {
    /// Opens it.
    pub fn open(audience: Audience) -> io::Result<Self> {
        Ok(Self { listener: Some(board::listener::<Board>()?), audience, ..Self::closed() })
    }

    /// One at which nothing can ask.
    pub fn closed() -> Self {
        Self {
            listener: None,
            audience: Audience::Owner,
            tallies: Tallies::default(),
            own: BTreeMap::new(),
            records: 0,
            clock: Clock::new(),
            resting: Cell::new(Instant::ZERO),
            nothing: Tallies::default(),
        }
    }

    /// All that there is.
    pub fn everything(&self) -> Part<'_> {
        self.part(Sight::Everything)
    }

    /// Something has ended.
    pub fn take(&mut self, seen: &Attributed) {
        self.tallies.take(seen);
        let Some(user) = seen.owner.map(|owner| owner.user) else { return };
        let sees_all = user == 0 || user == rustix::process::geteuid().as_raw();
        if self.audience == Audience::Owner || sees_all {
            return;
        }
        self.records += 1;
        if self.own.len() >= MOST_USERS && !self.own.contains_key(&user) {
            let silent = self.own.iter().min_by_key(|(_, (latest, _))| *latest).map(|(user, _)| *user);
            silent.and_then(|user| self.own.remove(&user));
        }
        let (latest, tallies) = self.own.entry(user).or_insert_with(|| (0, Tallies::of_one_user()));
        *latest = self.records;
        tallies.take(seen);
    }

    /// What a client gets.
    fn part(&self, sight: Sight) -> Part<'_> {
        let tallies = match sight {
            Sight::Everything => &self.tallies,
            Sight::Of(user) => self.own.get(&user).map_or(&self.nothing, |(_, tallies)| tallies),
        };
        Part { tallies, sight }
    }

    /// Accepts a client and sends it the board made of its part, if it may read any.
    pub fn answer(&self, board_of: impl FnOnce(Part<'_>) -> Board) {
        let Some(listener) = &self.listener else { return };
        board::answer(listener, self.audience, |sight| {
            let Sight::Of(user) = sight else { return Some(board_of(self.everything())) };
            let began = self.clock.now();
            if !self.has_time(began) {
                return None;
            }
            let board = board_of(self.part(sight)).for_user(user);
            self.spent(began, self.clock.now());
            Some(board)
        });
    }

    /// Whether a user who gets only what is its own is answered now: who asks all the time must not keep who measures from its records.
    fn has_time(&self, now: Instant) -> bool {
        now >= self.resting.get()
    }

    fn spent(&self, began: Instant, now: Instant) {
        self.resting.set(now + now.since(began) * (SHARE - 1));
    }
}

#[cfg(test)]
mod tests;
