//! Any bytes are a message of the shim or none, and a message survives being written.
//!
//! The supervisor reads requests of arbitrary programs of the same user; the library reads replies inside a program that
//! must not crash.
#![no_main]

use headstart_core::wire::shim::{MAX_MESSAGE, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(request) = Request::decode(bytes) {
        let written = request.encode();
        assert!(written.as_ref().len() <= MAX_MESSAGE, "{request:?} is too long to be sent");
        assert_eq!(Request::decode(written.as_ref()), Some(request), "a request reads back as another");
    }
    if let Some(reply) = Reply::decode(bytes) {
        let written = reply.encode();
        assert!(written.as_ref().len() <= MAX_MESSAGE, "{reply:?} is too long to be sent");
        assert_eq!(Reply::decode(written.as_ref()), Some(reply), "a reply reads back as another");
    }
});
