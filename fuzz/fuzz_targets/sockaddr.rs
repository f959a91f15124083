//! Any bytes are a socket address or none.
//!
//! The supervisor reads them out of the memory of arbitrary programs.
#![no_main]

use headstart_core::wire::sockaddr::destination;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(to) = destination(bytes) {
        assert_eq!(to.ip(), to.ip().to_canonical(), "a v4-mapped address was not unwrapped");
    }
});
