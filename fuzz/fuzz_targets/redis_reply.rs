//! Any bytes are a reply of Redis or none, and one is never longer than the bytes.
#![no_main]

use headstart_core::wire::resp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((reply, length))) = resp::reply(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(resp::reply(&bytes[..length]), Ok(Some((reply, length))));
    }
});
