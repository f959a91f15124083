//! What may happen to a packet on the way besides loss: it overtakes others, comes twice, or comes with a flipped bit.
//!
//! Each happens to a share of the packets, independently, after the rate (or the medium) has let the packet go. A share of zero draws
//! nothing, so that links without mishaps release what they released before there were any.

/// Shares of packets, each between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mishaps {
    /// These skip the delay, and so overtake all that is under way (netem's `reorder`).
    pub reorder: f64,
    /// These come twice; the copy right behind the packet, and without a turn of its own at the rate (netem's `duplicate`).
    pub duplicate: f64,
    /// One random bit of these is flipped (netem's `corrupt`). See [`Packet::damaged`](crate::Packet::damaged).
    pub corrupt: f64,
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub overtakes: bool,
    pub copied: bool,
    /// Which bit is flipped: to be taken modulo their number.
    pub damage: Option<u64>,
}

impl Mishaps {
    /// What happens to the next packet.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> Fate {
        if *self == Self::default() {
            return Fate::default();
        }
        let mut happens = |share: f64| share > 0.0 && rng.f64() < share;
        let (overtakes, copied, damaged) = (happens(self.reorder), happens(self.duplicate), happens(self.corrupt));
        Fate { overtakes, copied, damage: damaged.then(|| rng.u64(..)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dropped, Link, Outcome, Packet, parse};
    use headstart_core::time::Instant;

    const PACKETS: u64 = 20_000;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// What comes out of 20,000 numbered packets, one each millisecond, by their release.
    fn out(text: &str) -> Vec<(Instant, Vec<u8>)> {
        let mut link = Link::new(&parse(text).unwrap().0, 7);
        let mut out = Vec::new();
        for n in 0..PACKETS {
            out.extend(std::iter::from_fn(|| link.poll(ms(n))));
            // An error is a packet that is lost.
            let _ = link.push(ms(n), n.to_be_bytes().to_vec());
        }
        out.extend(std::iter::from_fn(|| link.poll(ms(10 * PACKETS))));
        let counters = link.counters();
        assert_eq!((counters.packets_out, counters.packets_held()), (out.len() as u64, 0));
        assert!(out.is_sorted_by_key(|(at, _)| *at));
        out
    }

    fn number(packet: &[u8]) -> u64 {
        u64::from_be_bytes(packet.try_into().unwrap())
    }

    /// Whether `count` of all packets is a share within four standard deviations.
    fn is_share(count: usize, share: f64) {
        let (mean, sd) = (PACKETS as f64 * share, (PACKETS as f64 * share * (1.0 - share)).sqrt());
        assert!((count as f64 - mean).abs() < 4.0 * sd, "{count}, not {mean}");
    }

    #[test]
    fn a_share_of_packets_skips_the_delay_and_the_others_keep_their_order() {
        let out = out("delay=20ms,reorder=25%");
        let (early, on_time): (Vec<_>, Vec<_>) = out.iter().partition(|(at, packet)| *at == ms(number(packet)));
        is_share(early.len(), 0.25);
        assert!(on_time.iter().all(|(at, packet)| *at == ms(number(packet) + 20)));
        assert_eq!(out.len() as u64, PACKETS);
    }

    #[test]
    fn a_share_of_packets_comes_twice_at_one_moment() {
        let out = out("delay=20ms,duplicate=1%");
        let twice = out.windows(2).filter(|pair| pair[0] == pair[1]).count();
        is_share(twice, 0.01);
        assert_eq!(out.len() as u64, PACKETS + twice as u64);
    }

    #[test]
    fn one_bit_of_a_share_of_packets_is_flipped() {
        let out = out("corrupt=5%");
        let wrong: Vec<_> =
            out.iter().map(|(at, packet)| ((at.as_nanos() / 1_000_000) ^ number(packet)).count_ones()).collect();
        assert_eq!(wrong.iter().max(), Some(&1), "no packet has two");
        is_share(wrong.iter().filter(|bits| **bits == 1).count(), 0.05);
    }

    /// A packet without bytes: only its size is known.
    #[derive(Clone)]
    struct Size;

    impl Packet for Size {
        fn wire_len(&self) -> usize {
            1000
        }
    }

    #[test]
    fn a_packet_without_bytes_is_lost_if_one_of_them_would_be_wrong() {
        let mut link = Link::new(&parse("delay=5ms,corrupt=100%").unwrap().0, 1);
        link.push(ms(1), Size).unwrap();
        let Some(Outcome::Dropped(at, Dropped::Lost, _)) = link.poll_outcome(ms(9)) else { panic!("not lost") };
        assert_eq!((at, link.counters().packets_lost), (ms(1), 1));
    }

    #[test]
    fn a_share_of_nothing_changes_no_draw() {
        let plain = "rate=10mbit,delay=normal:20ms:5ms,loss=1%";
        assert_eq!(out(plain), out(&format!("{plain},reorder=0,duplicate=0%,corrupt=0")));
    }
}
