//! What was decided, counted by reason: the account of a steerer. Nothing is decided by it.

use super::channel::Channel;
use crate::time::Duration;

/// Packets of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The policy's, or the mechanism's, word for it.
    pub why: &'static str,
    /// Where they were sent.
    pub channel: Channel,
    /// How many.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
    /// How much sooner than over the other channel they arrived, as predicted; all together.
    pub gained: Duration,
}

/// What a steerer has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By reason, in the order in which they first came up.
    pub reasons: Vec<Reason>,
    /// Acknowledgements that a newer one has replaced before they left.
    pub replaced: u64,
    /// Packets that left the queue of the fast channel for the fat one, because they would arrive sooner over it.
    pub moved: u64,
    /// Acknowledgements that were sent over the fat channel apart from the data that they came with.
    pub apart: u64,
    /// Packets that were sent over both channels.
    pub twice: u64,
    /// Packets of a lost channel that were resent over the other one.
    pub again: u64,
    /// Packets refused because a queue was full, or because there was nothing but the fast channel and it was too slow for them.
    pub dropped: u64,
    /// Packets refused because neither channel may be used.
    pub forbidden: u64,
    /// Times that a channel was given up, and times that one came back.
    pub lost_channels: u64,
    /// Probes sent.
    pub probes: u64,
}

impl Tally {
    pub(super) fn count(&mut self, why: &'static str, channel: Channel, bytes: usize, gained: Duration) {
        // Words are few and constant: the same one is mostly in the same place.
        let is = |r: &Reason| r.channel == channel && std::ptr::eq(r.why, why);
        let known = self.reasons.iter().position(is);
        let known = known.or_else(|| self.reasons.iter().position(|r| r.channel == channel && r.why == why));
        let at = known.unwrap_or_else(|| {
            self.reasons.push(Reason { why, channel, packets: 0, bytes: 0, gained: Duration::ZERO });
            self.reasons.len() - 1
        });
        let reason = &mut self.reasons[at];
        reason.packets += 1;
        reason.bytes += bytes as u64;
        reason.gained += gained;
    }

    /// Bytes of IP over `channel`.
    pub fn bytes(&self, channel: Channel) -> u64 {
        self.reasons.iter().filter(|r| r.channel == channel).map(|r| r.bytes).sum()
    }

    /// Packets over `channel`.
    pub fn packets(&self, channel: Channel) -> u64 {
        self.reasons.iter().filter(|r| r.channel == channel).map(|r| r.packets).sum()
    }
}
