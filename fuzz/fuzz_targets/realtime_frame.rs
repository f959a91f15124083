//! Any bytes are frames of a session or an error, frames survive being written, and a messenger takes whatever it is sent.
//!
//! Whoever reaches the port of a relay sends these.
#![no_main]

use headstart_core::machine::Machine;
use headstart_core::realtime::frame::{Frame, Proof};
use headstart_core::realtime::{Connection, Hello, Input, Messenger, SessionId, Settings};
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
    let session = SessionId::default();
    let hello = Hello { session, connection: 0, interval_micros: 0, technique: "auto", goes_on: false };
    // From the first byte on, and after a greeting of either side.
    bear(false, None, bytes);
    bear(false, Some(Frame::Hello(hello)), bytes);
    bear(true, Some(Frame::Welcome(Proof::welcome(session, 0))), bytes);
});

fn bear(introduce: bool, greeting: Option<Frame<'_>>, bytes: &[u8]) {
    let Ok(settings) = Settings::new("auto") else { return };
    let mut messenger = Messenger::new(SessionId::default(), settings);
    let connection = Connection(0);
    messenger.handle_input(Instant::ZERO, Input::Opened { connection, rtt: None, introduce });
    let mut out = Vec::new();
    if let Some(greeting) = greeting {
        greeting.encode(&mut out);
        let greeted = messenger.received(Instant::ZERO, connection, &out);
        assert!(greeted.is_ok(), "a greeting is refused: {greeted:?}");
        out.clear();
    }
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
}
