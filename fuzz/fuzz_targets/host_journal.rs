//! Any bytes are a copy of a journal of changes or none, alone and beside another; what is read of them never panics.
#![no_main]

use headstart_io::host::journal::{Contents, Here};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let own = Here { boot: "b".into(), netns: 7 };
    let headed = [b"{\"version\":1,\"boot\":\"b\",\"netns\":7}\n", bytes].concat();
    let (one, other) = bytes.split_at(bytes.len() / 2);
    for copies in [[Some(bytes), None], [Some(&headed), Some(bytes)], [Some(one), Some(other)]] {
        for change in Contents::read(copies, &own).iter().flat_map(|contents| contents.live.values()) {
            // What people are told of it.
            let _ = (change.kind(), change.to_string());
        }
    }
});
