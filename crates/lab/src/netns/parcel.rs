//! Frames inside the emulator: taken in once, shared by their segments, in rooms that are used again and again.
//!
//! A [`Parcel`] is one packet of at most one MTU as a wire would carry it: what the link models decide about. Several of
//! them may lie in one [`Frame`], a super-packet of the kernel. Bytes are copied once at most, on their way in, and changed
//! only in a copy that a link is to damage.

use super::frame::ETHERNET;
use super::super_packet::{Cut, finish};
use crate::lock;
use headstart_io::sys::offload::Offload;
use headstart_io::sys::packet::{Arrived, ROOM};
use headstart_link::Packet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

/// Room for a packet of an Ethernet; what is no longer is copied, so that it does not hold a room for a super-packet.
const SMALL: usize = 2048;
/// Rooms kept for later use, small and large: 16 MiB and 64 MiB, what a link of 1.5 Gbit/s holds in 100 ms and in 400 ms.
const KEPT: [usize; 2] = [8192, 1024];

/// Rooms that are not in use at the moment.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Shelves>>);

/// Rooms by their size: small, large.
type Shelves = [Vec<Box<[u8]>>; 2];

impl Pool {
    /// Takes the bytes out of the socket's hands.
    pub fn keep(&self, arrived: &mut Arrived<'_>) -> Bytes {
        let len = arrived.len.min(arrived.room.len());
        let large = usize::from(len > SMALL);
        let taken = self.shelves()[large].pop();
        let mut room = taken.unwrap_or_else(|| vec![0; if len > SMALL { ROOM } else { SMALL }].into_boxed_slice());
        if len > SMALL {
            std::mem::swap(&mut room, arrived.room);
        } else {
            room[..len].copy_from_slice(&arrived.room[..len]);
        }
        Bytes { room, len, pool: Some(self.clone()) }
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        lock(&self.0)
    }
}

/// Bytes in a room, which goes back to its pool when they are dropped.
pub(super) struct Bytes {
    room: Box<[u8]>,
    len: usize,
    pool: Option<Pool>,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), room: bytes.into_boxed_slice(), pool: None }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            let large = usize::from(self.room.len() > SMALL);
            let shelf = &mut pool.shelves()[large];
            if shelf.len() < KEPT[large] {
                shelf.push(std::mem::take(&mut self.room));
            }
        }
    }
}

/// A frame as it came in.
pub(super) struct Frame {
    bytes: Bytes,
    offload: Offload,
    cut: Option<Cut>,
}

impl Frame {
    /// None for a super-packet that is not what the kernel says it is.
    pub fn new(bytes: impl Into<Bytes>, offload: Offload) -> Option<Self> {
        let bytes = bytes.into();
        let cut = match offload.segments {
            Some(segments) => Some(Cut::plan(&bytes, segments)?),
            None => None,
        };
        Some(Self { bytes, offload, cut })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is left to do about it.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// How it is cut; none if it is a single packet.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Number of packets in it; at least one.
    pub fn count(&self) -> usize {
        self.cut.as_ref().map_or(1, Cut::count)
    }

    /// The packets in it, in order.
    pub fn parcels(self) -> Vec<Parcel> {
        let count = self.count() as u16;
        let frame = Arc::new(self);
        (0..count).map(|segment| Parcel { frame: frame.clone(), segment }).collect()
    }
}

/// One packet, alone in its frame or a segment of it.
#[derive(Clone)]
pub(super) struct Parcel {
    frame: Arc<Frame>,
    segment: u16,
}

impl Parcel {
    /// The frame that it lies in.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Its place in the frame.
    pub fn segment(&self) -> usize {
        usize::from(self.segment)
    }

    /// Whether nothing of the frame comes after it.
    pub fn is_last(&self) -> bool {
        self.segment() + 1 == self.frame.count()
    }

    /// Whether `next` is what comes after it in the same frame.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.frame, &next.frame) && self.segment + 1 == next.segment
    }

    /// The whole frame as a wire would have carried it, its checksum filled in.
    pub fn to_wire(&self) -> Vec<u8> {
        let frame = self.frame();
        let (mut bytes, offload) = match frame.cut() {
            Some(cut) => {
                let range = self.segment()..self.segment() + 1;
                let headers = cut.headers(frame.bytes(), &range);
                ([headers.bytes(), &frame.bytes()[cut.payload(&range)]].concat(), headers.offload)
            }
            None => (frame.bytes().to_vec(), frame.offload()),
        };
        if let Some(checksum) = offload.checksum {
            finish(&mut bytes, checksum);
        }
        bytes
    }
}

impl Packet for Parcel {
    fn wire_len(&self) -> usize {
        match &self.frame.cut {
            Some(cut) => cut.wire_len(self.segment()),
            None => self.frame.bytes.len().saturating_sub(ETHERNET),
        }
    }

    /// A bit of the IP packet, as a wire would have carried it: the receiver sees that its checksum is wrong.
    fn damaged(&self, random: u64) -> Option<Self> {
        let mut bytes = self.to_wire();
        let packet = bytes.get_mut(ETHERNET..)?;
        let bit = random.checked_rem(8 * packet.len() as u64)?;
        packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        Some(Self { frame: Arc::new(Frame::new(bytes, Offload::default())?), segment: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super_packet::tests::super_packet;
    use super::*;
    use headstart_io::sys::offload::Transport;

    #[test]
    fn a_super_packet_weighs_as_much_as_its_segments_on_a_wire() {
        let (bytes, segments) = super_packet(Transport::TcpV4, 3000, 1448);
        let offload = Offload { checksum: None, segments: Some(segments) };
        let parcels = Frame::new(bytes, offload).unwrap().parcels();
        assert_eq!(parcels.iter().map(Packet::wire_len).collect::<Vec<_>>(), [1500, 1500, 52 + 104]);
        assert!(parcels[0].is_followed_by(&parcels[1]) && !parcels[0].is_followed_by(&parcels[2]));
        assert!(parcels[2].is_last() && !parcels[1].is_last());
        assert!(Frame::new(vec![0; 60], offload).is_none());
    }

    #[test]
    fn rooms_are_used_again_and_large_ones_without_a_copy() {
        let pool = Pool::default();
        let mut rooms = [vec![7; ROOM].into_boxed_slice(), vec![8; ROOM].into_boxed_slice()];
        let [first, second] = &mut rooms;
        let at = first.as_ptr();
        let large = pool.keep(&mut Arrived { room: first, len: 9000, offload: Offload::default(), stamp: None });
        let small = pool.keep(&mut Arrived { room: second, len: 60, offload: Offload::default(), stamp: None });
        assert_eq!((large.as_ptr(), large.len(), small.len()), (at, 9000, 60));
        assert!(large.iter().all(|byte| *byte == 7) && small.iter().all(|byte| *byte == 8));
        drop((large, small));
        assert_eq!(pool.shelves().each_ref().map(Vec::len), [1, 1]);
        let [first, _] = &mut rooms;
        let again = pool.keep(&mut Arrived { room: first, len: 9000, offload: Offload::default(), stamp: None });
        assert!(again.len() == 9000 && pool.shelves()[1].is_empty());
    }
}
