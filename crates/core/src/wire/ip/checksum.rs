//! The ones' complement sum of the internet (RFC 1071), with the pseudo headers of RFC 9293 and 8200.

use std::net::IpAddr;

/// Adds 16-bit words, most significant byte first; an odd last byte counts as the upper half of one.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    words.fold(sum + odd, |sum, word| sum + u64::from(u16::from_be_bytes([word[0], word[1]])))
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
