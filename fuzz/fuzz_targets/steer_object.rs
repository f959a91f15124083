//! Any bytes of a `Priority` header have an urgency of 0 to 7, or none.
#![no_main]

use headstart_core::steer::object::urgency;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|header: &[u8]| {
    assert!(urgency(header).is_none_or(|urgency| urgency <= 7));
});
