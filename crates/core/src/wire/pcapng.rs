//! Packets as a capture file that other programs open: blocks of pcapng (draft-ietf-opsawg-pcapng), written only.
//!
//! One section, an interface for each direction or side, packets of IP without a link layer; a comment on each packet says whose
//! it is. All numbers are in the byte order of this host, which the section's header tells.

use crate::time::Duration;

/// The magic number by which a reader finds the byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// LINKTYPE_RAW: packets begin with their IP header.
const RAW_IP: u16 = 101;
/// Options: end, comment, and of an interface its name and the unit of time.
const END: u16 = 0;
const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// if_tsresol: a thousand millionth of a second.
const NANOSECONDS: u8 = 9;

/// The header of a file, written by `application`, with these interfaces.
pub fn header(application: &str, interfaces: &[&str]) -> Vec<u8> {
    /// shb_userappl.
    const APPLICATION: u16 = 4;
    let mut body = BYTE_ORDER.to_ne_bytes().to_vec();
    body.extend(1u16.to_ne_bytes());
    body.extend(0u16.to_ne_bytes());
    // Length of the section: not known.
    body.extend(u64::MAX.to_ne_bytes());
    options(&mut body, &[(APPLICATION, application.as_bytes())]);
    let mut file = block(SECTION, &body);
    for name in interfaces {
        let mut body = RAW_IP.to_ne_bytes().to_vec();
        body.extend([0; 2]);
        // As many bytes of each packet as there are.
        body.extend(0u32.to_ne_bytes());
        options(&mut body, &[(IF_NAME, name.as_bytes()), (IF_TSRESOL, &[NANOSECONDS])]);
        file.extend(block(INTERFACE, &body));
    }
    file
}

/// A packet that was seen on an interface (by its place in the header) at a time since the Unix epoch. At most `most` bytes of it
/// are kept. An empty comment is none.
pub fn packet(interface: u32, at: Duration, packet: &[u8], most: usize, comment: &str) -> Vec<u8> {
    let kept = &packet[..packet.len().min(most)];
    let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let mut body = interface.to_ne_bytes().to_vec();
    body.extend(((nanos >> 32) as u32).to_ne_bytes());
    body.extend((nanos as u32).to_ne_bytes());
    body.extend((kept.len() as u32).to_ne_bytes());
    body.extend((packet.len() as u32).to_ne_bytes());
    body.extend(kept);
    body.resize(body.len().next_multiple_of(4), 0);
    if !comment.is_empty() {
        options(&mut body, &[(COMMENT, comment.as_bytes())]);
    }
    block(PACKET, &body)
}

/// Appends options and their end. What is longer than a length can say is cut.
fn options(body: &mut Vec<u8>, options: &[(u16, &[u8])]) {
    for (code, value) in options {
        let len = value.len().min(usize::from(u16::MAX));
        body.extend(code.to_ne_bytes());
        body.extend((len as u16).to_ne_bytes());
        body.extend(&value[..len]);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body.extend(END.to_ne_bytes());
    body.extend(0u16.to_ne_bytes());
}

/// A block: its type and length, its body, its length again.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = ((body.len() + 12) as u32).to_ne_bytes();
    [&kind.to_ne_bytes()[..], &len, body, &len].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types, lengths and bodies of the blocks of a file.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8]| u32::from_ne_bytes(bytes[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = word(&file[4..]) as usize;
            assert_eq!((len % 4, word(&file[len - 4..]) as usize), (0, len), "the length stands at both ends");
            blocks.push((word(file), file[8..len - 4].to_vec()));
            file = &file[len..];
        }
        blocks
    }

    #[test]
    fn a_file_is_a_section_its_interfaces_and_packets() {
        let mut file = header("headstart", &["program", "peer"]);
        file.extend(packet(1, Duration::from_nanos((7 << 32) + 5), b"12345", 3, "app=curl"));
        let blocks = blocks(&file);
        assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [SECTION, INTERFACE, INTERFACE, PACKET]);
        let body = &blocks[3].1;
        let words: Vec<u32> = body[..20].chunks(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words, [1, 7, 5, 3, 5], "interface, time in two words, kept, long");
        assert_eq!(&body[20..24], b"123\0");
        assert_eq!(&body[28..36], b"app=curl");
    }
}
