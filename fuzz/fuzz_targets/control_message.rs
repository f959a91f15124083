//! Any bytes are a message of the control connection or none, and a message survives being written.
//!
//! The supervisor reads requests of arbitrary programs of the same user.
#![no_main]

use headstart_io::control::{Request, VERSION, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The version is in front of every message; without it there would be nothing to read.
    let message = [VERSION.as_bytes(), b"\n", bytes].concat();
    for bytes in [bytes, &message] {
        if let Ok(request) = decode::<Request>(bytes)
            && let Ok(written) = encode(&request)
        {
            assert_eq!(decode::<Request>(&written).ok(), Some(request), "a request reads back as another");
        }
    }
});
