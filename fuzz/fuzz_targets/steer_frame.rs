//! Any bytes are a frame of the tunnel or an error, and what reads well is written the same again; no bytes spoil the contexts of
//! compression.
#![no_main]

use headstart_core::steer::Channel;
use headstart_core::steer::compress::Decompressor;
use headstart_core::steer::frame::{Content, Header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frames: Vec<(bool, Vec<u8>)>| {
    let mut contexts = Decompressor::default();
    let (mut again, mut packet) = (Vec::new(), Vec::new());
    for (fast, bytes) in frames {
        let channel = if fast { Channel::Fast } else { Channel::Fat };
        let Ok((header, body)) = Header::read(&bytes, channel) else { continue };
        assert!(header.write(body, &mut again));
        assert_eq!(Header::read(&again, channel), Ok((header, body)));
        match header.content {
            Content::Context => {
                let _ = contexts.context(body, &mut packet);
            }
            Content::Compressed => {
                let _ = contexts.decompress(body, &mut packet);
            }
            Content::Whole | Content::Copy | Content::Probe | Content::Echo | Content::Forget => {}
        }
    }
});
