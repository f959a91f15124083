//! Whoever asks how a measurement stands is told, and not waited for.

use super::board::{Board, Tallies};
use crate::board;
use std::io;
use std::os::fd::OwnedFd;

/// Who is asked, and what is told.
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

    /// Somebody asks: is told the board that is made of the tallies, if that one may be told.
    pub fn answer(&self, board_of: impl FnOnce(&Tallies) -> Board) {
        let Some(listener) = &self.listener else { return };
        board::answer(listener, || board_of(&self.tallies));
    }
}
