//! Whoever asks how a measurement stands is told, and not waited for.

use super::board::{self, Board, Tallies};
use rustix::net::{SendFlags, SocketFlags, accept_with, send, sockopt};
use std::io;
use std::os::fd::OwnedFd;

/// Room for a whole board in the socket of who asks; the kernel gives as much of it as it may.
const ROOM: usize = 1 << 20;

/// Who is asked, and what is told.
pub(super) struct Window {
    /// None where the program that has made the interface tells it.
    pub(super) listener: Option<OwnedFd>,
    pub(super) tallies: Tallies,
}

impl Window {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        Ok(Self { listener: Some(board::listener()?), ..Self::closed() })
    }

    /// One at which nothing can ask.
    pub fn closed() -> Self {
        Self { listener: None, tallies: Tallies::default() }
    }

    /// Somebody asks: is told the board that is made of the tallies, if that one may be told.
    pub fn answer(&self, board: impl FnOnce(&Tallies) -> Board) {
        let Some(listener) = &self.listener else { return };
        let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else { return };
        if !board::is_trusted(&client) {
            return;
        }
        let Ok(text) = serde_json::to_vec(&board(&self.tallies)) else { return };
        let _ = sockopt::set_socket_send_buffer_size(&client, ROOM);
        // What does not fit is not told; the next question may be luckier.
        let _ = send(&client, &text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}
