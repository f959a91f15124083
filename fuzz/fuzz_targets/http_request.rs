//! Any bytes are a path or a range of HTTP, or none; a path never leads out of its folder, a range never out of its file.
#![no_main]

use headstart_core::wire::{range, target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = target::parse(bytes) {
        for name in &found.names {
            assert!(!name.is_empty() && name[0] != b'.' && !name.contains(&b'/') && !name.contains(&0));
        }
        let written: String = found.names.iter().map(|name| format!("/{}", target::encode(name))).collect();
        if !found.names.is_empty() {
            assert_eq!(target::parse(written.as_bytes()).unwrap().names, found.names);
        }
    }
    for length in [0, 1, 1000, u64::MAX] {
        if let range::Selection::Part { first, last } = range::select(bytes, length) {
            assert!(first <= last && last < length);
        }
    }
    if let Some(range) = range::ContentRange::parse(bytes) {
        assert_eq!(range::ContentRange::parse(range.to_string().as_bytes()), Some(range));
    }
});
