//! How many packets of a channel never arrive: what was sent beside what the other end has counted.
//!
//! An echo says how many packets of its channel had come when it was answered. A channel keeps its order, so whatever was sent
//! before the probe and is not in that number is lost. What never happens here: a count above what could have been
//! sent is accepted.

/// Packets after which an older one counts for a third: some seconds of a page, or a minute of a call. Ours.
const MEMORY: f64 = 2_000.0;
/// What is assumed of a channel of which nothing is known, and the packets that it takes to think otherwise. Ours: a link that
/// loses more is felt, and one that loses less is not.
const ASSUMED: (f64, f64) = (0.005, 200.0);

/// The share of packets that a channel loses in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    /// Recent packets, and how many of them were lost; at first assumed ones, which were never sent.
    sent: f64,
    lost: f64,
    /// Packets sent before the last probe that came back, and how many of them had come, in 16 bits.
    known: Option<(u64, u16)>,
    share: f64,
}

impl Loss {
    /// For a channel with this configured loss.
    pub fn new(configured: Option<f64>) -> Self {
        let share = configured.filter(|share| (0.0..=1.0).contains(share)).unwrap_or(ASSUMED.0);
        Self { sent: ASSUMED.1, lost: share * ASSUMED.1, known: None, share }
    }

    /// An echo was received: before its probe `sent` packets were sent, of which `come` arrived (the other end's count, in 16 bits).
    pub fn on_echo(&mut self, sent: u64, come: u16) {
        let Some((sent_before, come_before)) = self.known.replace((sent, come)) else { return };
        let sent = sent.saturating_sub(sent_before);
        let come = u64::from(come.wrapping_sub(come_before));
        // The other end has begun anew, or counts otherwise than we do.
        let Some(lost) = sent.checked_sub(come) else { return };
        let keeps = (-(sent as f64) / MEMORY).exp();
        self.sent = self.sent * keeps + sent as f64;
        self.lost = self.lost * keeps + lost as f64;
        self.share = self.lost / self.sent;
    }

    /// The share that is lost.
    pub fn share(&self) -> f64 {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After probes behind each 50 packets of which one in `lost` is lost.
    fn after(probes: u64, lost: u64, configured: Option<f64>) -> Loss {
        let mut loss = Loss::new(configured);
        for n in 0..=probes {
            let sent = 50 * n;
            loss.on_echo(sent, (sent - sent / lost) as u16);
        }
        loss
    }

    #[test]
    fn what_is_missing_at_the_other_end_is_lost_and_numbers_go_round() {
        assert!((after(5_000, 100, None).share() - 0.01).abs() < 0.001);
        assert!(after(5_000, u64::MAX, None).share() < 0.0006);
        assert!((after(100, 2, None).share() - 0.5).abs() < 0.1);
    }

    #[test]
    fn little_is_thought_of_a_few_packets_and_what_was_told_is_forgotten() {
        assert_eq!(after(0, 2, None).share(), ASSUMED.0);
        assert_eq!(after(0, 2, Some(0.0)).share(), 0.0);
        assert!((0.005..0.01).contains(&after(1, 50, None).share()));
        assert!((after(5_000, 100, Some(0.3)).share() - 0.01).abs() < 0.001);
        // No share at all.
        assert_eq!(Loss::new(Some(f64::NAN)).share(), ASSUMED.0);
    }

    #[test]
    fn who_says_that_more_has_come_than_was_sent_is_not_believed() {
        let mut loss = after(100, u64::MAX, None);
        let before = loss.share();
        loss.on_echo(5_100, 60_000);
        assert_eq!(loss.share(), before);
        // It is counted from there on.
        loss.on_echo(5_200, 60_000 + 50);
        assert!(loss.share() > before);
    }
}
