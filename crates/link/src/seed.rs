//! One seed in, one independent generator a stage out.
//!
//! Each stage of a link draws from a generator of its own, so that an extra draw in one (another loss model, say) leaves
//! the others as they were. The mixing is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Never seeded by the system.

/// The generator of stage number `stage` of whatever was given `seed`.
pub(crate) fn stage(seed: u64, stage: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(mix(seed, stage))
}

/// A seed that differs from that of every neighbouring `seed` and `part`.
pub(crate) fn mix(seed: u64, part: u64) -> u64 {
    let mut z = seed.wrapping_add(part.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixing_is_splitmix64() {
        // The first numbers of the generator's published implementation (Vigna, splitmix64.c) from two seeds.
        assert_eq!(
            [0, 1, 2].map(|part| mix(0, part)),
            [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]
        );
        assert_eq!([0, 1].map(|part| mix(1_234_567, part)), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert_eq!(stage(7, 3).u64(..), fastrand::Rng::with_seed(mix(7, 3)).u64(..));
        assert_ne!(stage(7, 3).u64(..), stage(7, 2).u64(..));
    }
}
