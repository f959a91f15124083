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
    /// Times that a channel was given up.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_bytes_are_counted_by_word_and_channel_wherever_the_word_stands() {
        let mut tally = Tally::default();
        let mut count = |why, channel, bytes| tally.count(why, channel, bytes, Duration::from_millis(2));
        count("opening", Channel::Fast, 60);
        count("opening", Channel::Fat, 70);
        count("opening", Channel::Fast, 80);
        count("asking", Channel::Fast, 500);
        // The same words in another place, the second one not the first of its channel.
        let again: &'static str = Box::leak(String::from("asking").into_boxed_str());
        count(again, Channel::Fast, 700);
        count(again, Channel::Fat, 900);
        let of = |r: &Reason| (r.why, r.channel, r.packets, r.bytes, r.gained.as_millis());
        assert_eq!(
            tally.reasons.iter().map(of).collect::<Vec<_>>(),
            [
                ("opening", Channel::Fast, 2, 140, 4),
                ("opening", Channel::Fat, 1, 70, 2),
                ("asking", Channel::Fast, 2, 1_200, 4),
                ("asking", Channel::Fat, 1, 900, 2),
            ]
        );
        assert_eq!(Channel::ALL.map(|channel| tally.packets(channel)), [2, 4]);
        assert_eq!(Channel::ALL.map(|channel| tally.bytes(channel)), [970, 1_340]);
    }
}
