//! What a link carries, and the account of what becomes of it: packets, drops, outcomes, counters.
//!
//! What never happens here: nothing is carried, and no packet is dropped or counted.

use headstart_core::time::Instant;

/// What a link carries. Copies are made only for links with [`Mishaps::duplicate`](crate::Mishaps::duplicate).
pub trait Packet: Clone {
    /// Bytes of the IP packet, headers included, link layer excluded.
    fn wire_len(&self) -> usize;

    /// Called once, when the rate or the medium takes it out of the queue: for packets that keep a record.
    fn dequeued(&mut self, _at: Instant) {}

    /// The packet with one bit flipped: bit `random` modulo the number of its bits. `None` for packets of which no bytes are known: they
    /// are lost, as the receiver's checksum would have it.
    fn damaged(&self, _random: u64) -> Option<Self> {
        None
    }
}

impl Packet for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn damaged(&self, random: u64) -> Option<Self> {
        let bit = random.checked_rem(8 * self.len() as u64)?;
        let mut bytes = self.clone();
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        Some(bytes)
    }
}

/// Why a packet was not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Dropped {
    /// The loss model chose it, or the medium gave it up.
    #[error("lost on the link")]
    Lost,
    /// The queue model refused it on arrival.
    #[error("dropped: the queue is full")]
    QueueFull,
    /// The queue model dropped it from its head, because packets wait too long.
    #[error("dropped: packets wait too long in the queue")]
    QueueDelay,
}

/// What has become of a packet that a link had taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<P> {
    /// It comes out, at this moment.
    Released(Instant, P),
    /// It was dropped on the way, at this moment.
    Dropped(Instant, Dropped, P),
}

/// What one direction has carried so far. Bytes are those of the IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered, dropped ones included.
    pub packets_in: u64,
    /// Bytes offered, dropped ones included.
    pub bytes_in: u64,
    /// Packets released.
    pub packets_out: u64,
    /// Bytes released.
    pub bytes_out: u64,
    /// Packets that the loss model or the medium took.
    pub packets_lost: u64,
    /// Bytes that the loss model or the medium took.
    pub bytes_lost: u64,
    /// Packets that the queue refused or dropped.
    pub packets_dropped: u64,
    /// Bytes that the queue refused or dropped.
    pub bytes_dropped: u64,
    /// Copies that the link made of packets; they are counted again as they are released.
    pub packets_copied: u64,
    /// Bytes of the copies.
    pub bytes_copied: u64,
}

impl Counters {
    /// Packets that are still inside.
    pub fn packets_held(&self) -> u64 {
        self.packets_in + self.packets_copied - self.packets_out - self.packets_lost - self.packets_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_flips_the_bit_that_was_drawn_and_no_other() {
        let packet = vec![0xa5, 0x00, 0xff];
        for bit in 0..24usize {
            let mut wanted = packet.clone();
            wanted[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(packet.damaged(bit as u64), Some(wanted.clone()));
            assert_eq!(packet.damaged(bit as u64 + 48), Some(wanted), "modulo the number of bits");
        }
        assert_eq!(Vec::new().damaged(1), None, "there is no bit");
    }
}
