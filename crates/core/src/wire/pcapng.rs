//! Packets as a capture file that other programs open: blocks of pcapng (draft-ietf-opsawg-pcapng), written only.
//!
//! One section, an interface for each direction or side, packets of IP without a link layer; a comment on each packet says whose
//! it is. The standard has no block for processes: what there is is Darwin's (its libpcap's pcap-ng.h; Wireshark shows it), a local
//! block for each process, which packets name by its place among them. All numbers are in the byte order of this host, which the section's header tells.

use crate::time::Duration;

/// The magic number by which a reader finds the byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Darwin Process Event Block: a local one (its first bit says so), which readers that do not know it leave out.
const PROCESS: u32 = 0x8000_0001;
/// Its option for the name, and the option of a packet that says whose it is (dpeb_id).
const PROCESS_NAME: u16 = 2;
const OF_PROCESS: u16 = 0x8001;
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

/// A process, to stand before its first packet. The first in a file is number 0, the next 1 and so on.
pub fn process(pid: u32, name: &str) -> Vec<u8> {
    let mut body = pid.to_ne_bytes().to_vec();
    options(&mut body, &[(PROCESS_NAME, name.as_bytes())]);
    block(PROCESS, &body)
}

/// A packet that was seen on an interface (by its place in the header) at a time since the Unix epoch. At most `most` bytes of it
/// are kept. An empty comment is none. `of`: the number of the [`process`] whose it is.
pub fn packet(interface: u32, at: Duration, packet: &[u8], most: usize, (comment, of): (&str, Option<u32>)) -> Vec<u8> {
    let kept = &packet[..packet.len().min(most)];
    let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let mut body = interface.to_ne_bytes().to_vec();
    body.extend(((nanos >> 32) as u32).to_ne_bytes());
    body.extend((nanos as u32).to_ne_bytes());
    body.extend((kept.len() as u32).to_ne_bytes());
    body.extend((packet.len() as u32).to_ne_bytes());
    body.extend(kept);
    body.resize(body.len().next_multiple_of(4), 0);
    let number = of.map(u32::to_ne_bytes);
    let comment = Some((COMMENT, comment.as_bytes())).filter(|(_, comment)| !comment.is_empty());
    let said: Vec<_> = comment.into_iter().chain(number.iter().map(|number| (OF_PROCESS, &number[..]))).collect();
    if !said.is_empty() {
        options(&mut body, &said);
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
        file.extend(process(77, "curl"));
        file.extend(packet(1, Duration::from_nanos((7 << 32) + 5), b"12345", 3, ("app=curl", Some(0))));
        let blocks = blocks(&file);
        let kinds = [SECTION, INTERFACE, INTERFACE, PROCESS, PACKET];
        assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), kinds);
        assert_eq!((&blocks[3].1[..4], &blocks[3].1[8..12]), (&77_u32.to_ne_bytes()[..], &b"curl"[..]));
        let body = &blocks[4].1;
        let words: Vec<u32> = body[..20].chunks(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words, [1, 7, 5, 3, 5], "interface, time in two words, kept, long");
        assert_eq!(&body[20..24], b"123\0");
        assert_eq!(&body[28..36], b"app=curl");
        let option = [&OF_PROCESS.to_ne_bytes()[..], &4_u16.to_ne_bytes(), &0_u32.to_ne_bytes(), &[0; 4]].concat();
        assert_eq!(body[36..], option);
        let bare = packet(0, Duration::ZERO, b"1234", 9, ("", None));
        assert_eq!(bare.len(), 12 + 20 + 4, "nothing that is not known");
    }
}
