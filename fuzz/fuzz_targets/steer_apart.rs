//! A packet of others is parted into what it says and what it acknowledges, or stays as it is: nothing but that changes, and a
//! checksum that was right stays right.
#![no_main]

use headstart_core::steer::{Facts, Kind, apart};
use headstart_core::wire::ip::checksum;
use libfuzzer_sys::fuzz_target;

/// Whether the checksums of a packet of TCP that [`Facts`] has read are right: of its IPv4 header, and over its segment.
fn is_right(packet: &[u8]) -> bool {
    let v4 = packet[0] >> 4 == 4;
    let (tcp, addresses) = if v4 { (usize::from(packet[0] & 15) * 4, 12..20) } else { (40, 8..40) };
    let pseudo = checksum::add(6 + (packet.len() - tcp) as u64, &packet[addresses]);
    let header = !v4 || checksum::fold(checksum::add(0, &packet[..tcp])) == 0xffff;
    header && checksum::fold(checksum::add(pseudo, &packet[tcp..])) == 0xffff
}

fuzz_target!(|bytes: &[u8]| {
    let Some((ack, packet)) = bytes.split_first_chunk() else { return };
    let ack = u32::from_be_bytes(*ack);
    let (mut rest, mut back) = (vec![7; 3], packet.to_vec());
    let is_tcp = apart::alone(packet, &mut rest);
    apart::set_back(&mut back, ack);
    assert_eq!(back.len(), packet.len());
    assert!(is_tcp || back == packet);
    // The number and the checksum.
    let changed = back.iter().zip(packet).filter(|(a, b)| a != b).count();
    assert!(changed <= 6);
    let Some(facts) = Facts::parse(packet, (1, 2)).filter(|facts| facts.plain && facts.ack.is_some()) else { return };
    assert!(is_tcp, "what a steerer takes apart can be taken apart");
    assert_eq!(Facts::parse(&back, (1, 2)), Some(Facts { ack: Some(ack), ..facts }));
    let says = Facts::parse(&rest, (1, 2)).expect("a packet of its own length");
    assert_eq!((says.payload, says.ack, says.flow), (0, facts.ack, facts.flow));
    assert!(matches!(says.kind, Kind::Ack | Kind::Open | Kind::Close));
    if is_right(packet) {
        assert!(is_right(&back));
    }
    // What is made anew is right whatever was.
    assert!(is_right(&rest));
});
