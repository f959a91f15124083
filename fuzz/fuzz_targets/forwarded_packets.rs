//! Any packets of a program are forwarded or left out; whatever goes back is a packet.
#![no_main]

use headstart_core::forward::{Forwarder, Input, Output, Settings, advance};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::ip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packets: Vec<(u16, Vec<u8>)>| {
    let settings = Settings { most_flows: 8, most_mappings: 8, long_segments: true, ..Settings::default() };
    let mut forwarder = Forwarder::new(settings);
    let mut now = Instant::ZERO;
    for (millis, bytes) in packets {
        now += headstart_core::time::Duration::from_millis(millis.into());
        forwarder.handle_timeout(now);
        forwarder.handle_input(now, if millis & 1 == 0 { Input::Batch } else { Input::BatchEnd });
        forwarder.handle_input(now, if millis & 2 == 0 { Input::Row } else { Input::RowEnd });
        forwarder.handle_input(now, Input::Packet { bytes, segment: Some(millis) });
        while let Some(output) = forwarder.poll_output() {
            match output {
                Output::Packet(packet) => assert!(ip::parse(packet.as_slice()).is_some()),
                Output::Connect { flow, .. } => {
                    forwarder.handle_input(now, Input::Connected { flow, mss: Some(1448) });
                }
                Output::Send { flow, mut pieces, .. } => {
                    advance(&mut pieces, millis.into(), drop);
                    forwarder.handle_input(now, Input::Sent { flow, pieces });
                }
                Output::Close { flow, .. } => forwarder.handle_input(now, Input::Closed { flow, facts: None }),
                _ => {}
            }
        }
        assert!(forwarder.open().len() <= 8 && forwarder.mappings() <= 8);
    }
});
