//! How fast the peer gets what a program says: from when a socket is given the first of it, while nothing is on the way, to the kernel's
//! stamps of the peer's acknowledgements. Stamps are of the clock that tells the date, which may be set: each is a moment of the monotonic
//! one as soon as it is read, so that a rate is right all the same. What the program has handed to its kernel says nothing of the path (paper 3, section 4).

use super::Worker;
use crate::sys::{stamps, stream};
use headstart_core::forward::FlowId;
use headstart_core::time::{Duration, Instant};
use std::os::fd::OwnedFd;

/// Less than this at a time says nothing of a rate: a question of a few segments, of which one round trip is all that is seen. 8 KiB.
const WORTH: u64 = 8 * 1024;
/// Sends that are stamped are so far apart, because a stamp costs as much as a small packet. 200 us: a hundredth of the least transfer
/// that is worth a rate, at 20 Mbit/s.
const APART: Duration = Duration::from_micros(200);
/// But no more than this part of what is on the way stays without a stamp, for all of it may leave at once and be the last: 1/64, half of
/// the 3 % by which a rate may be wrong.
const UNSTAMPED: u64 = 64;

/// What is known of the program's data on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Bytes that the socket has taken.
    pub carried: u64,
    /// Whether the kernel reports timestamps for this socket, once that was requested.
    stamps: Option<bool>,
    /// Where what is on the way began.
    began: u64,
    /// Up to which byte the peer has acknowledged, and when it did; or where and when it began.
    reached: Option<(u64, Instant)>,
    /// Up to which byte sends were stamped, and when the last was.
    stamped: Option<(u64, Instant)>,
}

impl Delivery {
    /// Requests timestamps from the kernel, while nothing is on the way; whether it reports them.
    pub fn enable_stamps(&mut self, socket: &OwnedFd) -> bool {
        *self.stamps.get_or_insert_with(|| stamps::tell(socket).is_ok())
    }

    /// Whether the kernel reports timestamps, so that some may be waiting.
    pub fn has_stamps(&self) -> bool {
        self.stamps == Some(true)
    }

    /// Whether a send of so many bytes now is to be stamped.
    pub fn wants_stamp(&self, now: Instant, len: usize) -> bool {
        let end = self.carried + len as u64;
        let on_the_way = end - self.began;
        if !self.has_stamps() || on_the_way < WORTH {
            return false;
        }
        self.stamped.is_none_or(|(to, at)| {
            now.since(at) >= APART || end.saturating_sub(to.max(self.began)).saturating_mul(UNSTAMPED) > on_the_way
        })
    }

    /// The socket has taken so many bytes of a send. Of one that was stamped the stamp is on the last of these, and not on what was left.
    pub fn taken(&mut self, now: Instant, bytes: usize, is_stamped: bool) {
        self.carried += bytes as u64;
        if is_stamped {
            self.stamped = Some((self.carried, now));
        }
    }

    /// The peer has acknowledged this byte at that moment: how many that are more, and in how long.
    pub fn acknowledged(&mut self, byte: u32, at: Instant) -> Option<(u64, Duration)> {
        let (before, since) = self.reached?;
        // Bytes are counted from the first of the connection, in 32 bits.
        let bytes = u64::from(byte.wrapping_add(1).wrapping_sub(before as u32));
        let is_news = bytes > 0 && before + bytes <= self.carried && at > since;
        is_news.then(|| {
            self.reached = Some((before + bytes, at));
            (bytes, at - since)
        })
    }
}

impl Worker {
    /// A socket is about to be given something: if nothing is on the way, its time begins.
    pub(super) fn begin_delivery(&mut self, now: Instant, flow: FlowId) {
        let Some(upstream) = self.upstreams.get(&flow) else { return };
        if upstream.delivery.reached.is_some() && stream::unacknowledged(&upstream.socket) != Some(0) {
            return;
        }
        // What was acknowledged before is not of this time.
        self.stamped(now, flow);
        let begins = self.clock.now();
        if let Some(upstream) = self.upstreams.get_mut(&flow)
            && upstream.delivery.enable_stamps(&upstream.socket)
        {
            let delivery = &mut upstream.delivery;
            (delivery.began, delivery.reached) = (delivery.carried, Some((delivery.carried, begins)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_leaves_at_once_the_end_is_stamped_and_of_a_long_transfer_a_send_in_200_us() {
        let now = Instant::from_millis(5);
        let mut delivery = Delivery { stamps: Some(true), carried: 9, began: 9, ..Default::default() };
        let mut sent = |now, len| {
            let wants = delivery.wants_stamp(now, len);
            delivery.taken(now, len, wants);
            wants
        };
        // 25 kB, as a program's library cuts them.
        assert_eq!([8191, 8192, 8192, 425].map(|len| sent(now, len)), [false, true, true, true]);
        assert!((0..400).filter(|_| sent(now, 65_536)).count() < 200, "every send of 26 MB was stamped");
        assert!(!sent(now + Duration::from_micros(199), 65_536));
        assert!(sent(now + Duration::from_micros(200), 65_536));
    }

    #[test]
    fn of_a_stamped_send_that_was_taken_in_part_the_rest_is_stamped_too() {
        let now = Instant::from_millis(5);
        let mut delivery = Delivery { stamps: Some(true), ..Default::default() };
        assert!(delivery.wants_stamp(now, 65_536));
        delivery.taken(now, 1000, true);
        // All that is left at once, and a part of it: most of what is on the way has no stamp.
        assert!(delivery.wants_stamp(now, 64_536));
        assert!(delivery.wants_stamp(now, 8000));
        // As soon as it has one, little more needs none.
        delivery.taken(now, 64_536, true);
        assert!(!delivery.wants_stamp(now, 500));
    }

    #[test]
    fn what_is_acknowledged_is_counted_once_from_where_it_began_beyond_32_bits_too() {
        let (ms, at) = (Duration::from_millis, Instant::from_millis);
        let acknowledged = |delivery: &mut Delivery, byte: u64, ms| delivery.acknowledged(byte as u32, at(ms));
        for first in [0, (1 << 32) - 5000] {
            let mut delivery =
                Delivery { carried: first + 20_000, reached: Some((first, at(10))), ..Default::default() };
            assert_eq!(acknowledged(&mut delivery, first + 8999, 14), Some((9000, ms(4))));
            assert_eq!(acknowledged(&mut delivery, first + 8999, 15), None);
            assert_eq!(acknowledged(&mut delivery, first + 7999, 15), None, "it comes late");
            assert_eq!(acknowledged(&mut delivery, first + 19_999, 20), Some((11_000, ms(6))));
            assert_eq!(acknowledged(&mut delivery, first + 20_000, 21), None, "it was not sent");
        }
    }
}
