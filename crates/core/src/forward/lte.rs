//! What a resource block of LTE carries (paper 3, section 6; Equations 1 and 2, Table 2; 3GPP TS 36.213, table 7.2.3-1).
//!
//! A resource block has 168 resource elements in a millisecond, of which mostly 120 carry data. Equation 2 is printed with
//! the bits of an element (RE_bits) under the line, where only those of a block give a number of blocks: the latter is
//! what is computed here.

/// Resource elements of a block in 1 ms that carry data (paper 3, section 6).
pub const USABLE: u32 = 120;

/// How bits become symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modulation {
    /// 2 bits a symbol.
    Qpsk,
    /// 4 bits a symbol.
    Qam16,
    /// 6 bits a symbol.
    Qam64,
}

impl Modulation {
    /// Bits of a symbol, code included.
    pub fn bits(self) -> u32 {
        match self {
            Self::Qpsk => 2,
            Self::Qam16 => 4,
            Self::Qam64 => 6,
        }
    }

    /// As the standard writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qpsk => "QPSK",
            Self::Qam16 => "16QAM",
            Self::Qam64 => "64QAM",
        }
    }
}

/// A channel quality: what a device says that it can receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Channel quality indicator, 1 to 15.
    pub cqi: u8,
    /// Its modulation.
    pub modulation: Modulation,
    /// Of 1024 bits, how many are no code.
    pub real_bits: u32,
}

const fn quality(cqi: u8, modulation: Modulation, real_bits: u32) -> Quality {
    Quality { cqi, modulation, real_bits }
}

/// Every quality.
pub const ALL: [Quality; 15] = [
    quality(1, Modulation::Qpsk, 78),
    quality(2, Modulation::Qpsk, 120),
    quality(3, Modulation::Qpsk, 193),
    quality(4, Modulation::Qpsk, 308),
    quality(5, Modulation::Qpsk, 449),
    quality(6, Modulation::Qpsk, 602),
    quality(7, Modulation::Qam16, 378),
    quality(8, Modulation::Qam16, 490),
    quality(9, Modulation::Qam16, 616),
    quality(10, Modulation::Qam64, 466),
    quality(11, Modulation::Qam64, 567),
    quality(12, Modulation::Qam64, 666),
    quality(13, Modulation::Qam64, 772),
    quality(14, Modulation::Qam64, 873),
    quality(15, Modulation::Qam64, 948),
];

/// The quality with this indicator.
pub fn find(cqi: u8) -> Option<&'static Quality> {
    ALL.iter().find(|quality| quality.cqi == cqi)
}

impl Quality {
    /// The share of bits that are no code.
    pub fn code_rate(&self) -> f64 {
        f64::from(self.real_bits) / 1024.0
    }

    /// Bits that a resource element carries.
    pub fn element_bits(&self) -> f64 {
        self.code_rate() * f64::from(self.modulation.bits())
    }

    /// Equation 1: whole bits that a block of `usable` elements carries in 1 ms.
    pub fn block_bits(&self, usable: u32) -> u32 {
        (self.element_bits() * f64::from(usable)) as u32
    }

    /// Equation 2: blocks for a packet, the headers of RLC and MAC included. None if a block carries nothing.
    pub fn blocks(&self, packet_bits: u32, header_bits: u32, usable: u32) -> Option<u32> {
        let block = self.block_bits(usable);
        (block > 0).then(|| packet_bits.saturating_add(header_bits).div_ceil(block))
    }

    /// Bits a second of `blocks` blocks each millisecond.
    pub fn rate(&self, blocks: u32, usable: u32) -> f64 {
        f64::from(self.block_bits(usable)) * f64::from(blocks) * 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_quality_11_carries_398_bits() {
        let quality = find(11).unwrap();
        assert_eq!(quality.modulation, Modulation::Qam64);
        assert_eq!(quality.block_bits(USABLE), 398);
        assert!((quality.element_bits() - 3.32).abs() < 0.005 && (quality.code_rate() - 0.5537).abs() < 1e-4);
    }

    #[test]
    fn a_packet_takes_whole_blocks_and_better_channels_take_fewer() {
        let blocks: Vec<u32> = ALL.iter().map(|q| q.blocks(1500 * 8, 0, USABLE).unwrap()).collect();
        assert!(blocks.is_sorted_by(|a, b| a >= b), "{blocks:?}");
        assert_eq!(find(11).unwrap().blocks(398, 0, USABLE), Some(1));
        assert_eq!(find(11).unwrap().blocks(398, 1, USABLE), Some(2), "a header counts");
        assert_eq!(find(1).unwrap().blocks(100, 0, 0), None);
        assert_eq!((find(0), find(16)), (None, None));
    }

    #[test]
    fn the_observed_download_of_48_blocks_was_98_percent_of_what_they_carry() {
        let rate = find(11).unwrap().rate(48, USABLE);
        assert_eq!(rate, 19_104_000.0);
    }

    #[test]
    fn a_modulation_is_named_by_how_many_symbols_it_has() {
        for quality in ALL.iter().filter(|quality| quality.modulation != Modulation::Qpsk) {
            let symbols = 1 << quality.modulation.bits();
            assert_eq!(quality.modulation.name(), format!("{symbols}QAM"));
        }
    }
}
