//! How long things take on an 802.11n channel. References are to IEEE 802.11-2012.

use headstart_core::time::Duration;

/// 9 us: a slot of the HT PHY, table 20-25, and of ERP with short slots.
pub const SLOT: Duration = Duration::from_micros(9);
/// 16 us: at 5 GHz (table 20-25); at 2.4 GHz 10 us follow a signal extension of 6 us (section 20.3.2).
pub const SIFS: Duration = Duration::from_micros(16);
/// SIFS and two slots: section 9.3.7. (The best-effort access category of EDCA waits one slot more, table 8-105.)
pub const DIFS: Duration = Duration::from_micros(34);
/// Largest backoff of a first attempt, in slots: aCWmin, table 20-25.
pub const CW_MIN: u32 = 15;
/// Largest backoff of any attempt, in slots: aCWmax, table 20-25.
pub const CW_MAX: u32 = 1023;
/// How often a frame is retransmitted before it is given up: dot11ShortRetryLimit, annex C, default 7.
pub const RETRIES: u32 = 7;
/// Frames in one A-MPDU at most. The standard allows 64; 16 is our choice for a handset of paper 4's time.
pub const MOST_FRAMES: usize = 16;
/// Frames from the first unacknowledged on: the block acknowledgement's bitmap, section 8.3.1.9.3.
pub const WINDOW: usize = 64;
/// Bytes of the longest A-MPDU: section 9.12.2, the largest Maximum A-MPDU Length Exponent of HT.
pub const MOST_BYTES: usize = 65_535;
/// The longest HT-mixed transmission: aPPDUMaxTime, 5.484 ms, which is what a legacy receiver can be told.
pub const LONGEST: Duration = Duration::from_micros(5484);
/// A block acknowledgement: 20 us of legacy preamble and 32 bytes at 24 Mbit/s in symbols of 4 us (section 18.4.3).
pub const BLOCK_ACK: Duration = Duration::from_micros(32);
/// The HT-mixed preamble for one spatial stream: section 20.4.3.
const PREAMBLE: Duration = Duration::from_micros(36);
/// An OFDM symbol with the long guard interval: section 20.3.6.
const SYMBOL_US: u64 = 4;
/// Bits of SERVICE and tail in front of and behind the data: section 20.3.11.
const SERVICE_AND_TAIL_BITS: u64 = 22;
/// Bytes around an IP packet: LLC/SNAP 8, QoS header 26, CCMP 16, checksum 4.
const AROUND: usize = 54;
/// Bytes of the delimiter before each frame; frames are padded to four: section 8.6.1.
const DELIMITER: usize = 4;

/// Bytes that an IP packet takes in an A-MPDU.
fn in_aggregate(packet: usize) -> usize {
    packet.saturating_add(AROUND).div_ceil(4).saturating_mul(4).saturating_add(DELIMITER)
}

/// The air time of an A-MPDU of so many bytes at `bits_per_second`.
fn of_bytes(bytes: usize, bits_per_second: u64) -> Duration {
    let bits = (bytes as u64).saturating_mul(8).saturating_add(SERVICE_AND_TAIL_BITS);
    let symbols = bits.saturating_mul(1_000_000).div_ceil(bits_per_second.max(1) * SYMBOL_US);
    PREAMBLE + Duration::from_micros(symbols.saturating_mul(SYMBOL_US))
}

/// The air time of an A-MPDU of packets of these bytes.
pub fn of_packets(packets: &[usize], bits_per_second: u64) -> Duration {
    of_bytes(packets.iter().map(|&packet| in_aggregate(packet)).fold(0, usize::saturating_add), bits_per_second)
}

/// Bytes of the longest A-MPDU at `bits_per_second`: what [`MOST_BYTES`] and [`LONGEST`] allow.
pub fn most_bytes(bits_per_second: u64) -> usize {
    let symbols = (LONGEST - PREAMBLE).as_micros() as u64 / SYMBOL_US;
    let bits = symbols * SYMBOL_US * (bits_per_second / 1000) / 1000;
    MOST_BYTES.min((bits.saturating_sub(SERVICE_AND_TAIL_BITS) / 8) as usize)
}

/// Whether so many packets of so many bytes together may be one A-MPDU of at most `most_bytes`; a single packet always is.
pub fn fits(packets: usize, bytes: usize, most_bytes: usize) -> bool {
    // Each may need up to 3 bytes of padding.
    let needed = bytes.saturating_add(packets.saturating_mul(AROUND + DELIMITER + 3));
    packets <= 1 || (packets <= MOST_FRAMES && needed <= most_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_at_65_mbit_takes_what_the_standard_says() {
        // 1500 + 54 is 1554, padded 1556, with the delimiter 1560 bytes: 12480 bits and 22 are 48.1 symbols of 260 bits.
        assert_eq!(of_packets(&[1500], 65_000_000), Duration::from_micros(36 + 49 * 4));
        // Sixteen: 199680 bits and 22, 768.1 symbols.
        assert_eq!(of_packets(&[1500; 16], 65_000_000), Duration::from_micros(36 + 769 * 4));
    }

    #[test]
    fn an_aggregate_ends_at_sixteen_frames_or_at_the_longest_transmission() {
        let at = |mbit: u64| most_bytes(mbit * 1_000_000);
        assert!(fits(16, 16 * 1500, at(65)));
        assert!(!fits(17, 17 * 100, at(65)));
        // At 26 Mbit/s 1362 symbols of 104 bits are 141648 bits, 17703 bytes and the 22 bits around them.
        assert_eq!(at(26), 17_703);
        assert!(of_bytes(at(26), 26_000_000) <= LONGEST && of_bytes(at(26) + 1, 26_000_000) > LONGEST);
        assert!(fits(11, 11 * 1500, at(26)));
        assert!(!fits(12, 12 * 1500, at(26)));
        // Each has 54 bytes around it, a delimiter of 4, and up to 3 of padding.
        assert!(fits(11, 17_703 - 11 * 61, at(26)) && !fits(11, 17_704 - 11 * 61, at(26)));
        assert_eq!(at(600), MOST_BYTES);
        assert!(fits(1, 1 << 40, most_bytes(6_500_000)));
    }

    #[test]
    fn no_size_overflows() {
        assert!(of_packets(&[usize::MAX, usize::MAX], 1) > Duration::from_secs(1));
    }
}
