//! Any packets and any events in any order: nothing panics, nothing grows without bound, nothing is sent that was not said.

use super::*;
use crate::forward::MappingId;
use crate::wire::ip::icmp::Trouble;
use proptest::prelude::*;

fn events() -> impl Strategy<Value = Vec<(u8, u32, u32, Vec<u8>)>> {
    let event = (any::<u8>(), any::<u32>(), 0..3000_u32, proptest::collection::vec(any::<u8>(), 0..60));
    proptest::collection::vec(event, 0..80)
}

proptest! {
    #[test]
    fn any_bytes_are_taken(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..20)) {
        let mut rig = Rig::new();
        for mut bytes in packets {
            rig.input(Input::Packet { bytes: bytes.clone(), segment: Some(3) });
            // And with a header that is one.
            if bytes.len() > 40 {
                bytes[0] = 0x45;
                let len = (bytes.len() as u16).to_be_bytes();
                bytes[2..4].copy_from_slice(&len);
                bytes[6..8].fill(0);
                bytes[9] = [6, 17, 1][usize::from(bytes[1]) % 3];
                bytes[32] = 0x50;
                rig.input(Input::Packet { bytes, segment: None });
            }
        }
        rig.pass(Duration::from_secs(1000));
    }

    #[test]
    fn any_events_are_taken_and_what_is_sent_was_said(events in events()) {
        let mut rig = Rig::open();
        let first = rig.first();
        for (kind, number, offset, data) in events {
            let flow = FlowId(u64::from(number % 3));
            match kind % 16 {
                0..6 => {
                    let flags = Flags(Flags::ACK.0 | (number as u8 & (Flags::FIN.0 | Flags::URG.0)));
                    // Data that is what the place says.
                    let data = &text(4000)[offset as usize..][..data.len()];
                    let segment = rig.segment(flags, 1 + offset, first.wrapping_add(number % 5));
                    rig.tell(&Segment { urgent: number as u16 % 9, ..segment }, data);
                }
                6 => rig.app(Flags(number as u8), offset, number, &data),
                7 => rig.input(Input::Received { flow, bytes: [vec![0; HEADROOM], data].concat(), urgent: number % 2 == 0 }),
                8 => rig.input(Input::Ended { flow }),
                9 => rig.takes = number as usize % 500,
                10 => rig.input(Input::Writable { flow }),
                11 => rig.pass(Duration::from_millis(u64::from(number % 5000))),
                12 if number % 8 == 0 => rig.input(Input::Failed { flow, why: Failure::Reset }),
                13 => _ = rig.forwarder.room(rig.now, flow),
                14 => rig.input(Input::Connected { flow, mss: None }),
                _ => rig.input(Input::DatagramFailed {
                    mapping: MappingId(0),
                    to: rig.peer,
                    reporter: None,
                    trouble: Trouble::NoRoute,
                    data: vec![7; 9],
                    hop_limit: number as u8,
                }),
            }
            prop_assert!(rig.forwarder.waiting() <= 2 * crate::forward::WINDOW);
        }
        let said = text(4000);
        // A hostile segment may have said something else at its place; those that are what the place says come first or not.
        prop_assert!(rig.sent.len() <= said.len() + 60);
        rig.pass(Duration::from_secs(2000));
    }
}

#[test]
fn a_flood_of_syns_takes_bounded_room() {
    let mut rig = Rig::with(Settings { most_flows: 100, ..Settings::default() });
    for n in 0..5000_u32 {
        rig.app.set_port((n % 60_000) as u16 + 1);
        rig.syn();
    }
    let (open, tally) = (rig.forwarder.open().len() as u64, rig.forwarder.tally());
    assert!(open <= 100, "{open}");
    assert_eq!((tally.flows, tally.flows - tally.refused), (5000, open), "the latest have places");
}
