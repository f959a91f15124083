//! What QUIC shows on the path: the invariants of headers (RFC 8999), types of packets of versions 1 and 2 (RFC 9000,
//! section 17, and RFC 9369), the spin bit. Never decrypts anything.

/// The longest connection id of the versions that are known (RFC 9000, section 17.2).
const LONGEST_ID: usize = 20;
/// A client's first datagram is this long at least (RFC 9000, section 14.1).
const LEAST_INITIAL: usize = 1200;
/// Version 2 (RFC 9369), whose types of packets have other numbers.
const V2: u32 = 0x6b33_43cf;

/// The beginning of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header<'a> {
    /// A long header: before keys are known, or a negotiation of versions (version 0).
    Long {
        /// The version.
        version: u32,
        /// The two bits that say the type, by version.
        kind: u8,
        /// The destination connection ID.
        destination: &'a [u8],
        /// The source connection ID.
        source: &'a [u8],
    },
    /// A short header.
    Short {
        /// The spin bit (RFC 9000, section 17.4).
        spin: bool,
    },
}

/// Reads the beginning of a datagram that is known, or thought, to be QUIC's.
pub fn parse(datagram: &[u8]) -> Option<Header<'_>> {
    let (first, rest) = datagram.split_first()?;
    if first & 0x80 == 0 {
        // The fixed bit.
        return (first & 0x40 != 0).then_some(Header::Short { spin: first & 0x20 != 0 });
    }
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let id = |rest: &'_ [u8]| -> Option<usize> {
        let len = usize::from(*rest.first()?);
        (len <= LONGEST_ID && rest.len() > len).then_some(len)
    };
    let len = id(rest)?;
    let (destination, rest) = rest[1..].split_at(len);
    let len = id(rest)?;
    let source = &rest[1..=len];
    Some(Header::Long { version: u32::from_be_bytes(*version), kind: first >> 4 & 3, destination, source })
}

/// The version of a client's first datagram, and the client's connection id: a long header with the fixed bit, of the type Initial, that
/// is as long as such must be.
pub fn initial(datagram: &[u8]) -> Option<(u32, &[u8])> {
    let Header::Long { version, kind, source, .. } = parse(datagram)? else { return None };
    let is_initial = kind == u8::from(version == V2);
    // Versions of RFCs, and those of drafts (RFC 9000, section 15).
    let is_known = matches!(version, 1 | V2) || version >> 8 == 0x00ff_0000;
    (is_known && is_initial && datagram[0] & 0x40 != 0 && datagram.len() >= LEAST_INITIAL).then_some((version, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(first: u8, version: u32) -> Vec<u8> {
        let mut datagram = vec![first];
        datagram.extend(version.to_be_bytes());
        datagram.extend([2, 0xaa, 0xbb, 3, 1, 2, 3]);
        datagram.resize(1200, 0);
        datagram
    }

    #[test]
    fn a_clients_first_datagram_is_known_by_version_type_and_length() {
        let of_v1 = long(0xc3, 1);
        let source = &[1, 2, 3][..];
        assert_eq!(initial(&of_v1), Some((1, source)));
        assert_eq!(initial(&long(0xd3, V2)), Some((V2, source)));
        assert_eq!(initial(&long(0xc3, V2)), None, "that is a Retry");
        assert_eq!(initial(&long(0xe3, 1)), None, "a Handshake");
        assert_eq!(initial(&long(0x83, 1)), None, "without the bit that is always set");
        assert_eq!(initial(&long(0xc3, 0xff00_001d)), Some((0xff00_001d, source)));
        assert_eq!(initial(&long(0xc3, 0x1234_5678)), None, "something else's");
        assert_eq!(initial(&of_v1[..1199]), None);
        let destination = &[0xaa, 0xbb][..];
        assert_eq!(parse(&of_v1), Some(Header::Long { version: 1, kind: 0, destination, source }));
    }

    #[test]
    fn short_headers_tell_the_spin_bit_and_what_is_cut_tells_nothing() {
        assert_eq!(parse(&[0x60, 1]), Some(Header::Short { spin: true }));
        assert_eq!(parse(&[0x40]), Some(Header::Short { spin: false }));
        assert_eq!(parse(&[0x20]), None);
        let whole = long(0xc3, 1);
        (0..12).for_each(|len| assert_eq!(parse(&whole[..len]), None, "{len}"));
        let mut too_long = whole;
        too_long[5] = 21;
        assert_eq!(parse(&too_long), None);
    }
}
