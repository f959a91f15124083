//! UDP datagrams (RFC 768): headers to meaning and back.

/// Bytes of a header.
pub const HEADER: usize = 8;
/// Where in the header its checksum is.
pub const CHECKSUM_AT: u16 = 6;

/// The ports of a datagram, source and destination, and its payload.
pub fn parse(bytes: &[u8]) -> Option<(u16, u16, &[u8])> {
    let head = bytes.first_chunk::<HEADER>()?;
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let payload = bytes.get(HEADER..len.max(HEADER))?;
    Some((u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]), payload))
}

/// Writes the header of a datagram with `payload` bytes behind it, with a checksum of zero.
pub fn write(source: u16, destination: u16, payload: usize, into: &mut [u8]) {
    let len = u16::try_from(HEADER + payload).unwrap_or(u16::MAX);
    into[0..2].copy_from_slice(&source.to_be_bytes());
    into[2..4].copy_from_slice(&destination.to_be_bytes());
    into[4..6].copy_from_slice(&len.to_be_bytes());
    into[6..8].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_reads_back_without_what_is_behind_it() {
        let mut bytes = vec![1; HEADER + 5];
        write(5353, 53, 4, &mut bytes);
        assert_eq!(parse(&bytes), Some((5353, 53, &[1_u8; 4][..])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_datagram_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some((_, _, payload)) = parse(&bytes) {
                prop_assert!(payload.len() + HEADER <= bytes.len());
            }
        }
    }
}
