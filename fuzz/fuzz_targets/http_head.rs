//! Any bytes are the head of an HTTP/1.1 message or an error, and a body in chunks ends where it ends, however it is cut.
//!
//! Recorder and replay read what programs and foreign servers send.
#![no_main]

use headstart_lab::server::head::{self, Chunks};
use libfuzzer_sys::fuzz_target;

/// How much of `bytes` is one body in chunks, what it holds and whether it has ended, told in pieces of `cut` bytes.
fn body(bytes: &[u8], cut: usize) -> Option<(usize, Vec<u8>, bool)> {
    let (mut chunks, mut content, mut taken) = (Chunks::default(), Vec::new(), 0);
    for piece in bytes.chunks(cut) {
        let now = chunks.take(piece, |b| content.extend_from_slice(b)).ok()?;
        assert!(now <= piece.len(), "more than there is");
        taken += now;
        if now < piece.len() {
            break;
        }
    }
    Some((taken, content, chunks.done()))
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(end) = head::end(bytes) {
        assert!(end <= bytes.len(), "a head beyond its bytes");
    }
    if let Ok(message) = head::parse(bytes) {
        let _ = (head::of_request(&message), head::of_response(&message, b"GET"), head::closes(&message));
    }
    // An error may come earlier or later, as the pieces have it; what is no error is the same.
    if let (Some(whole), Some(byte_by_byte)) = (body(bytes, bytes.len().max(1)), body(bytes, 1)) {
        assert_eq!(whole, byte_by_byte);
    }
});
