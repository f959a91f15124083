//! Any bytes are a file of a Mahimahi recording or an error with its place, and what is read survives being written.
//!
//! Recordings are made on other machines and handed on.
#![no_main]

use headstart_lab::page::Protocol;
use headstart_lab::page::recording::{self, wire};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match wire::decode(bytes) {
    Err(bad) => assert!(bad.offset <= bytes.len(), "an error beyond the file"),
    Ok(exchange) => {
        assert_eq!(wire::decode(&wire::encode(&exchange)).as_ref(), Ok(&exchange), "it reads back as another");
        let root = format!("http://{}{}", exchange.host(), String::from_utf8_lossy(exchange.target()));
        if let Some(page) = recording::page("fuzz", &[exchange.clone(), exchange], &root, Protocol::Http1) {
            assert!(page.check().is_ok(), "a page that nobody could load");
        }
    }
});
