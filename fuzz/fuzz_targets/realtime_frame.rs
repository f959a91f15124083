//! Any bytes are frames of a session or an error, frames survive being written, and a messenger takes whatever it is sent.
//!
//! Whoever reaches the port of a relay sends these.
#![no_main]

use headstart_core::machine::Machine;
use headstart_core::realtime::frame::Frame;
use headstart_core::realtime::{Connection, Input, Messenger, SessionId, Settings};
use headstart_core::time::Instant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((frame, len))) = Frame::decode(rest) {
        let mut written = Vec::new();
        frame.encode(&mut written);
        assert_eq!(Frame::decode(&written), Ok(Some((frame, written.len()))), "a frame reads back as another");
        rest = &rest[len..];
    }
    let Ok(settings) = Settings::new("auto") else { return };
    let mut messenger = Messenger::new(SessionId::default(), settings);
    let connection = Connection(0);
    messenger.handle_input(Instant::ZERO, Input::Opened { connection, rtt: None, introduce: false });
    let mut out = Vec::new();
    for (millis, part) in (0..).zip(bytes.chunks(64)) {
        let now = Instant::from_millis(millis);
        if messenger.received(now, connection, part).is_err() {
            return;
        }
        messenger.handle_timeout(now);
        while messenger.receive(&mut out).is_some() {}
        out.clear();
        while messenger.transmit(now, connection, &mut out) {}
        while messenger.poll_output().is_some() {}
    }
});
