//! Any bytes are a request to the daemon or refused: any local user may send them. An answer reads back as it was written.
#![no_main]

use headstart_io::daemon::message::{Answer, MOST_ANSWER, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Request::decode(bytes);
    if let Ok(answer) = Answer::decode(bytes) {
        assert!(answer.encode().len() <= MOST_ANSWER, "an answer is too long to be sent");
    }
});
