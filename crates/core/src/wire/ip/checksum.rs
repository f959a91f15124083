//! The ones' complement sum of the internet (RFC 1071), with the pseudo headers of RFC 9293 and 8200.

use std::net::IpAddr;

/// Adds 16-bit words, most significant byte first; an odd last byte counts as the upper half of one.
///
/// Two words at a time and in the machine's own order, which only turns the sum round (RFC 1071, section 2 (B) and (C)): a compiler makes
/// vectors of it.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<4>();
    let own = pairs.iter().fold(0, |own, pair| own + u64::from(u32::from_ne_bytes(*pair)));
    let (words, odd) = rest.as_chunks::<2>();
    let rest: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    let odd = odd.first().map_or(0, |byte| u64::from(*byte) << 8);
    sum + u64::from(u16::from_be(fold(own))) + rest + odd
}

/// The sum in 16 bits.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over the pseudo header of a transport of `len` bytes, header included.
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> u64 {
    let of = |sum, ip| match ip {
        IpAddr::V4(ip) => add(sum, &ip.octets()),
        IpAddr::V6(ip) => add(sum, &ip.octets()),
    };
    let len = len as u64;
    of(of(u64::from(protocol) + (len >> 16) + (len & 0xffff), source), destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_of_words_sum_up_to_what_words_do(bytes in proptest::collection::vec(any::<u8>(), 0..1_500), sum in 0u64..1 << 40) {
            let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low)));
            prop_assert_eq!(fold(add(sum, &bytes)), fold(words.sum::<u64>() + sum));
        }
    }

    #[test]
    fn nothing_but_zeros_is_zero_and_nothing_else() {
        for (bytes, sum) in [([0; 8], 0), ([0xff; 8], 0xffff), ([0, 1, 0xff, 0xfe, 0, 0, 0, 0], 0xffff)] {
            assert_eq!(fold(add(0, &bytes)), sum);
        }
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add(0, &bytes)), 0xddf2);
        assert_eq!(fold(add(0, &[1, 2, 3])), 0x0402, "an odd byte is followed by nothing");
    }

    #[test]
    fn both_families_have_a_pseudo_header() {
        let v4 = pseudo_header([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), 6, 20);
        assert_eq!(fold(v4), fold(0xc000 + 0x0201 + 0xc000 + 0x0202 + 6 + 20));
        let v6 = pseudo_header("::1".parse().unwrap(), "::2".parse().unwrap(), 17, 8);
        assert_eq!(fold(v6), 1 + 2 + 17 + 8);
    }
}
