//! A message of the workload: which one it is, of how many, and when it was made.

use std::time::{Duration, SystemTime};

/// Bytes of what a message says; the rest is padding.
pub const LEAST: usize = 20;
/// 50 bytes: paper 4, section 6.
pub const BYTES: usize = 50;
/// 60 messages a stream: paper 4, section 6.
pub const MESSAGES: u32 = 60;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its stream, from zero.
    pub stream: u32,
    /// Its number in the stream, from zero.
    pub number: u32,
    /// Messages of each stream.
    pub of: u32,
    /// Nanoseconds since the Unix epoch, by the sender's clock.
    pub made: u64,
}

impl Event {
    /// The message, `length` bytes long (at least [`LEAST`]).
    pub fn encode(&self, length: usize, into: &mut Vec<u8>) {
        into.clear();
        for word in [self.stream, self.number, self.of] {
            into.extend_from_slice(&word.to_be_bytes());
        }
        into.extend_from_slice(&self.made.to_be_bytes());
        into.resize(length.max(LEAST), 0);
    }

    /// Reads one; `None` if it is something else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let made = u64::from_be_bytes(*bytes.get(12..)?.first_chunk()?);
        let event = Self { stream: word(0)?, number: word(4)?, of: word(8)?, made };
        (event.number < event.of).then_some(event)
    }
}

/// Now, as messages have it.
pub fn now() -> u64 {
    let since = headstart_io::clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_whatever_its_length_and_others_are_none() {
        let event = Event { stream: 3, number: 59, of: 60, made: u64::MAX - 1 };
        let mut bytes = Vec::new();
        for length in [0, LEAST, 50, 1000] {
            event.encode(length, &mut bytes);
            assert_eq!((Event::decode(&bytes), bytes.len()), (Some(event), length.max(LEAST)));
        }
        assert_eq!(Event::decode(&bytes[..LEAST - 1]), None);
        assert_eq!(Event::decode(&[0; 50]), None, "none of none");
    }
}
