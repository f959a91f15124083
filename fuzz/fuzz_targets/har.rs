//! Any bytes are an HTTP archive or an error that names its place, and the page in it can be loaded.
//!
//! Archives come out of other people's browsers.
#![no_main]

use headstart_lab::page::har;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| match har::parse(bytes, Path::new("a.har")) {
    Err(e) => assert!(e.to_string().starts_with("a.har"), "an error without its place"),
    Ok(page) => assert!(page.check().is_ok(), "a page that nobody could load"),
});
