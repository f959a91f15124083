//! Any bytes are a journal of changes or none; what is read of one never panics, and never names anything twice.
#![no_main]

use headstart_io::host::journal::Contents;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(contents) = Contents::read(bytes) {
        for change in contents.live.values() {
            // What people are told of it.
            let _ = (change.kind(), change.to_string());
        }
    }
    let head = b"{\"version\":1,\"boot\":\"b\",\"netns\":7}\n";
    let _ = Contents::read(&[head.as_slice(), bytes].concat());
});
