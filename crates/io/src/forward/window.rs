//! Sends the state of a measurement to its readers, without waiting for them.

use super::board::{Board, Tallies};
use crate::board;
use std::io;
use std::os::fd::OwnedFd;

/// The listener, and what is sent.
pub(super) struct Window {
    /// None where the program that has made the interface tells it.
    pub(super) listener: Option<OwnedFd>,
    pub(super) tallies: Tallies,
}

impl Window {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        Ok(Self { listener: Some(board::listener::<Board>()?), ..Self::closed() })
    }

    /// One at which nothing can ask.
    pub fn closed() -> Self {
        Self { listener: None, tallies: Tallies::default() }
    }

    /// Accepts a client and sends it the board made of the tallies, if it may read it.
    pub fn answer(&self, board_of: impl FnOnce(&Tallies) -> Board) {
        let Some(listener) = &self.listener else { return };
        board::answer(listener, || board_of(&self.tallies));
    }
}
