//! Any bytes are page specs or errors that name their place, and what is read can be loaded.
//!
//! Specs are measured elsewhere and handed from machine to machine.
#![no_main]

use headstart_lab::page::spec;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let (pages, broken) = spec::parse(bytes, Path::new("specs.jsonl"));
    assert!(pages.iter().all(|page| page.check().is_ok()), "a page that nobody could load");
    assert!(broken.iter().all(|e| e.to_string().starts_with("specs.jsonl, byte ")), "an error without its place");
});
