//! Any bytes are messages of the kernel's packet queue or none, and what they hold lies inside them.
#![no_main]

use headstart_core::wire::nfqueue::{Message, messages};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for message in messages(bytes) {
        if let Message::Packet { payload, .. } = message {
            assert!(payload.len() < bytes.len());
        }
    }
});
