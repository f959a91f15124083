//! Any bytes are frames of the engine's protocol or none, any body a message or none; a message survives being written, however it is cut.
#![no_main]

use headstart_io::engine::frame::{Frames, LONGEST, encode};
use headstart_io::engine::message::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut frames = Frames::default();
    frames.push(bytes);
    while let Ok(Some(body)) = frames.next_body() {
        assert!((1..=LONGEST).contains(&body.len()), "a body of {} bytes", body.len());
        let _ = read(&body);
    }
    if let Ok(body) = read(bytes)
        && let Some(message) = body.message
    {
        let written = message.body();
        assert_eq!(read(&written).ok().and_then(|body| body.message), Some(message), "a message reads back as another");
        let (mut frames, frame) = (Frames::default(), encode(&written).unwrap_or_default());
        let (early, late) = frame.split_at(frame.len() / 2);
        frames.push(early);
        assert_eq!(frames.next_body(), Ok(None), "half a frame is none");
        frames.push(late);
        assert_eq!(frames.next_body().ok().flatten().as_deref(), Some(&written[..]).filter(|_| !frame.is_empty()));
    }
});
