//! The packets that the rate has let go and that are not yet due: in the order of sending, or of their release.
//!
//! What never happens here: two packets of one release never change places.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use headstart_core::time::Instant;

/// Packets under way, each with its release.
pub(crate) enum Flight<P> {
    /// Releases never decrease from front to back.
    Kept(VecDeque<(Instant, P)>),
    /// By release, then by sending.
    Free { heap: BinaryHeap<Due<P>>, sent: u64 },
}

pub(crate) struct Due<P> {
    release: Instant,
    number: u64,
    packet: P,
}

impl<P> Flight<P> {
    /// For packets that may overtake each other, or do not.
    pub fn new(overtakes: bool) -> Self {
        if overtakes { Self::Free { heap: BinaryHeap::new(), sent: 0 } } else { Self::Kept(VecDeque::new()) }
    }

    /// From now on packets may overtake each other, or do not; the last release of those that are under way.
    pub fn change(&mut self, overtakes: bool) -> Option<Instant> {
        let under_way: Vec<_> = std::iter::from_fn(|| self.pop()).collect();
        *self = Self::new(overtakes);
        let last = under_way.last().map(|(release, _)| *release);
        under_way.into_iter().for_each(|(release, packet)| self.depart(release, packet));
        last
    }

    /// A packet sets out and is due at `release`, which never decreases if order is kept.
    pub fn depart(&mut self, release: Instant, packet: P) {
        match self {
            Self::Kept(queue) => queue.push_back((release, packet)),
            Self::Free { heap, sent } => {
                heap.push(Due { release, number: *sent, packet });
                *sent += 1;
            }
        }
    }

    /// The earliest release.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        match self {
            Self::Kept(queue) => queue.front().map(|(release, _)| *release),
            Self::Free { heap, .. } => heap.peek().map(|due| due.release),
        }
    }

    /// Whether what sets out later may be due before what is under way.
    pub fn overtakes(&self) -> bool {
        matches!(self, Self::Free { .. })
    }

    /// The packet of the earliest release.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, P)> {
        match self {
            Self::Kept(queue) => queue.pop_front(),
            Self::Free { heap, .. } => heap.pop().map(|due| (due.release, due.packet)),
        }
    }
}

impl<P> Ord for Due<P> {
    /// The earliest is the greatest: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.release, other.number).cmp(&(self.release, self.number))
    }
}

impl<P> PartialOrd for Due<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Due<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Due<P> {}
