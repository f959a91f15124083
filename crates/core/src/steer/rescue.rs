//! What is resent over the other channel when one is lost: the last unacknowledged packet of each flow.
//!
//! A sender of TCP probes for a lost tail two round trips after it (RFC 8985, section 7), before the loss of the channel is known,
//! and then waits for its timer, 200 ms and more. A receiver of its *last* segment tells it of all the holes before, and it
//! fills them at once. So a segment a flow is enough, and a thin channel has room for it; it is a copy, which the other end
//! drops if the first one has arrived after all (docs/decisions/0044). What never happens here: a packet is copied.

use super::channel::Channel;
use super::packet::{Facts, Kind};
use crate::time::{Duration, Instant};

/// Flows of which the last packet is kept, for each channel. Ours: a flow that has been quiet for a round trip waits for nothing.
const FLOWS: usize = 64;
/// Packets older than this have been retransmitted by their sender, or given up.
const OF_USE: Duration = Duration::from_millis(1_000);

/// A packet that was sent.
#[derive(Debug)]
pub(super) struct Kept<P> {
    /// Its number on its channel.
    pub number: u64,
    pub facts: Facts,
    pub packet: P,
    at: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rescue<P> {
    slots: [Box<[Option<Kept<P>>]>; 2],
    /// What a channel was given up to here has arrived, or was lost as packets are.
    delivered: [u64; 2],
}

impl<P> Rescue<P> {
    pub fn new() -> Self {
        Self { slots: [0, 1].map(|_| (0..FLOWS).map(|_| None).collect()), delivered: [0; 2] }
    }

    /// Whether a packet is waited for beyond the time in which the loss of its channel is found out. Those of calls are not.
    pub fn is_worth_keeping(kind: Kind) -> bool {
        matches!(kind, Kind::Data | Kind::Open | Kind::Dns)
    }

    /// A packet was given to `channel`; what is not kept any more, or never was.
    pub fn keep(&mut self, now: Instant, channel: Channel, number: u64, facts: Facts, packet: P) -> Option<P> {
        if !Self::is_worth_keeping(facts.kind) {
            return Some(packet);
        }
        let place = facts.flow.0 as usize % FLOWS;
        let before = self.slots[channel.index()][place].replace(Kept { number, facts, packet, at: now });
        before.map(|kept| kept.packet)
    }

    /// The other end has had its chance with the first `sent` packets of `channel`.
    pub fn delivered(&mut self, channel: Channel, sent: u64) {
        let delivered = &mut self.delivered[channel.index()];
        *delivered = sent.max(*delivered);
    }

    /// What `channel` has lost, the smallest first: names and requests before full segments.
    pub fn take(&mut self, now: Instant, channel: Channel) -> Vec<Kept<P>> {
        let delivered = self.delivered[channel.index()];
        let all = self.slots[channel.index()].iter_mut().filter_map(Option::take);
        let of_use = |kept: &Kept<P>| kept.number > delivered && now.since(kept.at) < OF_USE;
        let mut lost: Vec<Kept<P>> = all.filter(of_use).collect();
        lost.sort_by_key(|kept| (kept.facts.len, kept.number));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::FlowKey;
    use super::*;

    fn keep(rescue: &mut Rescue<u32>, at: u64, number: u64, flow: u64, kind: Kind, len: usize) -> Option<u32> {
        let facts = Facts { len, ..Facts::of(FlowKey(flow), kind) };
        rescue.keep(Instant::from_millis(at), Channel::Fat, number, facts, number as u32)
    }

    fn take(rescue: &mut Rescue<u32>, at: u64) -> Vec<u32> {
        rescue.take(Instant::from_millis(at), Channel::Fat).into_iter().map(|kept| kept.packet).collect()
    }

    #[test]
    fn the_last_of_each_flow_is_kept_and_nothing_twice() {
        let mut rescue = Rescue::new();
        assert_eq!(keep(&mut rescue, 0, 1, 1, Kind::Data, 1_400), None);
        assert_eq!(keep(&mut rescue, 0, 2, 1, Kind::Data, 1_400), Some(1));
        assert_eq!(keep(&mut rescue, 0, 3, 2, Kind::Open, 60), None);
        // A packet of a call is useless so late, and the next acknowledgement says the same.
        assert_eq!(keep(&mut rescue, 0, 4, 3, Kind::Datagram, 200), Some(4));
        assert_eq!(keep(&mut rescue, 0, 5, 3, Kind::Ack, 52), Some(5));
        assert_eq!(take(&mut rescue, 10), [3, 2]);
        assert_eq!(take(&mut rescue, 10), []);
    }

    #[test]
    fn what_has_arrived_or_is_old_is_not_sent_again() {
        let mut rescue = Rescue::new();
        for n in 1..=4 {
            keep(&mut rescue, 300 * n, n, n, Kind::Data, 100);
        }
        rescue.delivered(Channel::Fat, 3);
        rescue.delivered(Channel::Fat, 2);
        assert_eq!(take(&mut rescue, 1_250), [4]);
        for n in 1..=4 {
            keep(&mut rescue, 300 * n, n + 4, n, Kind::Data, 100);
        }
        assert_eq!(take(&mut rescue, 1_650), [7, 8]);
    }
}
