//! Packets of programs: read in batches, and handed over in rows.
//!
//! Each thing that a socket is given wakes the reader at its other end. Where several connections are busy their packets come out
//! of the interface in turns; what a row has for one socket is given to it by one call, and wakes its reader once.

use super::{BATCH, LOST, SMALL, Worker, WorkerError};
use crate::driver::Hands;
use crate::sys::offload::Offload;
use headstart_core::forward::Input;
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip;

/// Large packets that are read in a row at most before they are handed over. 16: a megabyte, which the nearer caches of a processor
/// hold until it is sent; of eight connections each has two in it (docs/decisions/0043).
const TOGETHER: usize = 16;

/// The longest packet that ends a row where there are no super-packets. IPv6 has each link carry 1280 bytes, which is less than what a
/// stream's are.
const SHORT: usize = 1024;

/// A packet that was read.
#[derive(Debug)]
pub(super) struct Read {
    at: Instant,
    bytes: Vec<u8>,
    /// Payload of each of its segments, if it has many.
    segment: Option<u16>,
}

/// Whether what was read before this packet, and it, are handed over at once: it is of no stream that more comes of.
fn ends_row(len: usize, framed: bool) -> bool {
    len <= if framed { SMALL } else { SHORT }
}

impl Worker {
    /// Packets of programs; how many.
    pub(super) fn programs(&mut self, mut now: Instant) -> usize {
        let mut count = 0;
        self.batch = true;
        self.forwarder.handle_input(now, Input::Batch);
        while count < BATCH {
            self.make_room();
            if count > 0 {
                // A program may have connected, said all and closed meanwhile.
                now = self.clock.now();
            }
            let offload = match self.tun.read(&mut self.room) {
                Ok(Some(offload)) => offload,
                Ok(None) => {
                    self.programs.read(now, count > 0);
                    if count > 0 {
                        self.programs.read(now, false);
                    }
                    break;
                }
                Err(e) => {
                    // EBADFD and ENODEV: the interface has been taken away (tun.c).
                    let gone = [libc::EBADFD, libc::ENODEV].contains(&e.raw_os_error().unwrap_or_default());
                    self.lost = gone.then_some(WorkerError { what: LOST, source: e });
                    break;
                }
            };
            count += 1;
            self.passed += self.room.len();
            let ends_row = ends_row(self.room.len(), self.tun.is_framed());
            let large = self.room.len() > SMALL;
            let bytes = if large { std::mem::take(&mut self.room) } else { self.room.clone() };
            self.tapped(now, false, &bytes);
            // A kernel leaves its own sums to be done where the interface allows that, so one that is done was made by a program, or has come
            // from elsewhere: the peer would have dropped what is damaged, and would not if the sum were made anew here. Elsewhere they are the
            // kernel's, and adding all up again would cost as much as a copy.
            if offload == Offload::default() && self.tun.is_framed() && !ip::is_sound(&bytes) {
                self.forwarder.leave_out();
                continue;
            }
            let segment = offload.segments.map(|segments| segments.size);
            self.together.push(Read { at: now, bytes, segment });
            if (ends_row || self.together.len() >= TOGETHER) && self.hand_packets_over() {
                // It has taken a while.
                self.catch_up(now);
            }
        }
        self.hand_packets_over();
        self.forwarder.handle_input(now, Input::BatchEnd);
        self.drain(now);
        self.catch_up(now);
        self.batch = false;
        count
    }

    /// Hands over what was read; whether there were large packets among it.
    fn hand_packets_over(&mut self) -> bool {
        let mut together = std::mem::take(&mut self.together);
        let (large, row) = (together.iter().any(|read| read.bytes.len() > SMALL), together.len() > 1);
        let mut last = None;
        if row {
            self.forwarder.handle_input(together[0].at, Input::Row);
        }
        for Read { at, bytes, segment } in together.drain(..) {
            self.forwarder.handle_input(at, Input::Packet { bytes, segment });
            self.drain(at);
            self.tap_waiting(at, false);
            last = Some(at);
        }
        if let Some(at) = last.filter(|_| row) {
            self.forwarder.handle_input(at, Input::RowEnd);
            self.drain(at);
        }
        self.together = together;
        last.into_iter().for_each(|at| self.tap_waiting(at, true));
        large
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_long_packets_where_there_are_super_packets_and_full_ones_where_there_are_none() {
        // An acknowledgement, a datagram of a game, a full packet of Ethernet and of IPv6's least link, a super-packet.
        for (len, framed, plain) in
            [(52, true, true), (600, true, true), (1500, true, false), (1280, true, false), (64_000, false, false)]
        {
            assert_eq!((ends_row(len, true), ends_row(len, false)), (framed, plain), "{len} bytes");
        }
    }
}
