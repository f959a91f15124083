//! Any bytes are a question that may be answered here or are left to the server; any bytes of a server make an answer to it that
//! fits, or none.
//!
//! Questions come from programs, replies from whoever can reach a port of ours. Every other run puts the right header and
//! question in front of the reply, so that its records are read too.
#![no_main]

use headstart_core::time::Duration;
use headstart_core::wire::relay::{Question, is_reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], bool, u32, &[u8])| {
    let (query, framed, age, raw) = input;
    let _ = is_reply(raw, query);
    let Some(question) = Question::read(query) else { return };
    let mut reply = Vec::new();
    if framed {
        // The header, the name as labels with their lengths and the root, type and class.
        reply.extend_from_slice(&query[..12 + question.name.len() + 2 + 4]);
        reply[2] |= 0x80;
        // Two of each kind, whatever follows.
        reply[6..12].copy_from_slice(&[0, 2, 0, 2, 0, 2]);
    }
    reply.extend_from_slice(raw);
    for answer in
        [question.answer_from(&reply, Duration::from_secs(age.into())), Some(question.empty()), Some(question.failed())]
    {
        let Some(answer) = answer else { continue };
        assert!(is_reply(&answer, query), "an answer is a reply to its question");
        assert!(answer.len() <= usize::from(u16::MAX), "no answer is larger than a datagram");
    }
});
