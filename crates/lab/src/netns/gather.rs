//! Which packets leave together: neighbouring segments of one super-packet that are due within a quantum go out as one.
//!
//! A group leaves when the last of its packets is due, so nothing leaves early and nothing waits for longer than the
//! quantum. It is made as soon as it is known: packets come in some time ahead of their release (see `switch`). Packets of
//! several super-packets are never joined. Pure.

use super::switch::Release;
use headstart_core::time::{Duration, Instant};
use std::collections::VecDeque;

/// 50 us: the time in which the packets of a group are due. Six full packets of 1500 bytes at 1.5 Gbit/s.
pub(super) const QUANTUM: Duration = Duration::from_micros(50);

/// The packets that wait to leave by one port, in the order of their release.
pub(super) struct Gather {
    waiting: VecDeque<Release>,
    quantum: Duration,
    /// Whatever is due until then is here.
    known: Instant,
}

impl Gather {
    /// With `quantum` zero every packet leaves alone.
    pub fn new(quantum: Duration) -> Self {
        Self { waiting: VecDeque::new(), quantum, known: Instant::ZERO }
    }

    /// A packet; most come in the order of their release.
    pub fn add(&mut self, release: Release) {
        let at = self.waiting.partition_point(|waiting| waiting.due <= release.due);
        self.waiting.insert(at, release);
    }

    /// All that is due until `known` has been added.
    pub fn know(&mut self, known: Instant) {
        self.known = known;
    }

    /// Moves the next group to the end of `out`, if it is due at `now`; whether there was one.
    pub fn take(&mut self, now: Instant, out: &mut Vec<Release>) -> bool {
        let Some((len, at)) = self.group() else { return false };
        let due = at <= now && len > 0;
        if due {
            out.extend(self.waiting.drain(..len));
        }
        due
    }

    /// When to call [`Self::take`] next; none while nothing waits.
    pub fn next(&self) -> Option<Instant> {
        self.group().map(|(_, at)| at)
    }

    /// The length of the next group and when it leaves; of a group that may still grow, none, and when to look again.
    fn group(&self) -> Option<(usize, Instant)> {
        let first = self.waiting.front()?;
        let end = first.due + self.quantum;
        let mut last = first;
        let mut len = 1;
        if self.quantum.is_zero() || last.parcel.is_last() {
            return Some((len, last.due));
        }
        for next in self.waiting.iter().skip(1) {
            if !last.parcel.is_followed_by(&next.parcel) || next.due > end {
                return Some((len, last.due));
            }
            len += 1;
            last = next;
            if last.parcel.is_last() {
                return Some((len, last.due));
            }
        }
        if self.known >= end { Some((len, last.due)) } else { Some((0, first.due)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parcel::{Frame, Parcel};
    use super::super::super_packet::tests::super_packet;
    use super::*;
    use headstart_io::sys::offload::{Offload, Transport};
    use headstart_link::medium::Way;

    fn us(n: u64) -> Instant {
        Instant::from_nanos(n * 1000)
    }

    fn parcels(count: usize) -> Vec<Parcel> {
        let (bytes, segments) = super_packet(Transport::TcpV4, count * 1448, 1448);
        Frame::new(bytes, Offload { checksum: None, segments: Some(segments) }).unwrap().parcels()
    }

    fn add(gather: &mut Gather, parcel: &Parcel, due: u64) {
        let parcel = parcel.clone();
        let (way, arrived, dequeued) = (Way::Up, us(0), None);
        gather.add(Release { port: 0, cable: 0, way, due: us(due), arrived, dequeued, parcel });
    }

    /// The groups that leave until `now`, each with the places of its packets.
    fn groups(gather: &mut Gather, now: u64) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        loop {
            let mut out = Vec::new();
            if !gather.take(us(now), &mut out) {
                return all;
            }
            all.push(out.iter().map(|release| release.parcel.segment()).collect());
        }
    }

    #[test]
    fn segments_within_a_quantum_leave_together_when_the_last_of_them_is_due() {
        let mut gather = Gather::new(QUANTUM);
        for (n, parcel) in parcels(10).iter().enumerate() {
            add(&mut gather, parcel, 100 + 8 * n as u64);
        }
        assert_eq!(gather.next(), Some(us(148)), "0 to 6: the next is due at 156, later than 150");
        assert_eq!(groups(&mut gather, 147), [[0; 0]; 0]);
        assert_eq!(groups(&mut gather, 148), [(0..7).collect::<Vec<_>>()]);
        assert_eq!(gather.next(), Some(us(172)), "nothing comes after 9, so it waits for nothing");
        assert_eq!(groups(&mut gather, 172), [[7, 8, 9]]);
        assert_eq!(gather.next(), None);
    }

    #[test]
    fn a_lost_segment_and_another_super_packet_part_groups() {
        let mut gather = Gather::new(QUANTUM);
        let (first, second) = (parcels(4), parcels(2));
        for parcel in [&first[0], &first[1], &first[3], &second[0], &second[1]] {
            add(&mut gather, parcel, 5);
        }
        assert_eq!(groups(&mut gather, 5), [vec![0, 1], vec![3], vec![0, 1]]);
    }

    #[test]
    fn a_group_that_may_grow_waits_until_its_quantum_is_known() {
        let mut gather = Gather::new(QUANTUM);
        let parcels = parcels(3);
        add(&mut gather, &parcels[0], 100);
        gather.know(us(120));
        assert_eq!((gather.next(), groups(&mut gather, 100)), (Some(us(100)), vec![]), "look again");
        // The next one is not due within the quantum.
        gather.know(us(150));
        assert_eq!((gather.next(), groups(&mut gather, 100)), (Some(us(100)), vec![vec![0]]));
    }

    #[test]
    fn without_a_quantum_every_packet_leaves_alone() {
        let mut gather = Gather::new(Duration::ZERO);
        for parcel in &parcels(2) {
            add(&mut gather, parcel, 5);
        }
        assert_eq!(groups(&mut gather, 5), [[0], [1]]);
    }
}
