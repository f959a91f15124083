//! Any bytes are a TCP packet or none; what is bundled still reads as one of the same stream.
#![no_main]

use headstart_core::realtime::bundle::Bundler;
use headstart_core::realtime::bundle::packet::Segment;
use headstart_core::time::Instant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packets: Vec<Vec<u8>>| {
    let mut bundler = Bundler::new();
    for (millis, packet) in (0..).zip(packets) {
        let now = Instant::from_millis(millis);
        let before = Segment::parse(&packet);
        bundler.incoming(now, &packet);
        let mut sent = packet.clone();
        if bundler.outgoing(now, &mut sent, 1500) {
            let after = Segment::parse(&sent).expect("a bundled packet is a packet");
            assert_eq!(Some(after.flow), before.map(|b| b.flow));
            assert!(sent.len() <= 1500);
        } else {
            assert_eq!(sent, packet);
        }
    }
});
