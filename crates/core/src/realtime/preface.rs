//! What a client of a relay sends first on each connection, and the answer: before any frame, inside TLS.
//!
//! A request is its kind, a length in two bytes, and its text; the answer is one byte. `Through` asks for a stream to a
//! destination, whatever goes over it; a session of messages then has its two ends beyond the relay, which therefore may die
//! and come back without a message lost. `Open` asks for a stream that is carried over a session with the relay itself, and
//! `Join` brings one more connection to such a session.

use super::access::{Destination, MAX_NAME};
use super::frame::SessionId;

/// Longest text of a request: a session's id, a name, its port.
const MAX_TEXT: usize = 16 + MAX_NAME + ":65535".len();
/// Bytes before the text of a request, which say how long that is.
pub const HEADER: usize = 3;
/// Bytes that a request never exceeds.
pub const MAX_REQUEST: usize = HEADER + MAX_TEXT;

const THROUGH: u8 = 0xa1;
const OPEN: u8 = 0xa2;
const JOIN: u8 = 0xa3;

/// What a client asks of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A stream to there.
    Through(Destination),
    /// A stream to there, carried over the session that is begun here.
    Open(SessionId, Destination),
    /// One more connection of a session.
    Join(SessionId),
}

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a request to a relay: the client may be newer than this relay, or not headstart")]
pub struct NotARequest;

/// The length of the text that follows a request's header.
pub fn text_length(header: [u8; HEADER]) -> Result<usize, NotARequest> {
    let length = usize::from(u16::from_be_bytes([header[1], header[2]]));
    if [THROUGH, OPEN, JOIN].contains(&header[0]) && length <= MAX_TEXT { Ok(length) } else { Err(NotARequest) }
}

impl Request {
    /// Appends the request to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, mut text) = match self {
            Self::Through(_) => (THROUGH, Vec::new()),
            Self::Open(id, _) => (OPEN, id.0.to_vec()),
            Self::Join(id) => (JOIN, id.0.to_vec()),
        };
        if let Self::Through(to) | Self::Open(_, to) = self {
            text.extend_from_slice(to.to_string().as_bytes());
        }
        out.push(kind);
        // A destination is never longer than `MAX_TEXT`: its name was checked when it was read.
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(&text);
    }

    /// Reads the request that `bytes` begin with and its length; `None` if it is not complete.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, NotARequest> {
        let Some(kind) = bytes.first() else { return Ok(None) };
        if ![THROUGH, OPEN, JOIN].contains(kind) {
            return Err(NotARequest);
        }
        let Some(header) = bytes.first_chunk() else { return Ok(None) };
        let length = text_length(*header)?;
        let Some(text) = bytes.get(HEADER..HEADER + length) else { return Ok(None) };
        let id = || text.first_chunk().map(|id| SessionId(*id)).ok_or(NotARequest);
        let destination = |text: &[u8]| {
            let text = std::str::from_utf8(text).map_err(|_| NotARequest)?;
            text.parse().map_err(|_| NotARequest)
        };
        let request = match *kind {
            THROUGH => Self::Through(destination(text)?),
            OPEN => Self::Open(id()?, destination(&text[16..])?),
            _ if length == 16 => Self::Join(id()?),
            _ => return Err(NotARequest),
        };
        Ok(Some((request, HEADER + length)))
    }
}

/// What a relay answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What follows is the stream, or frames of the session.
    Granted,
    /// The relay's list does not allow the destination.
    Refused,
    /// The destination could not be reached.
    Unreachable,
    /// The session is not known: the relay was restarted, or has given it up.
    Gone,
    /// The relay has as much to do as it may.
    Busy,
}

impl Answer {
    /// Every answer.
    pub const ALL: [Self; 5] = [Self::Granted, Self::Refused, Self::Unreachable, Self::Gone, Self::Busy];

    /// Its byte.
    pub const fn code(self) -> u8 {
        match self {
            Self::Granted => 0,
            Self::Refused => 1,
            Self::Unreachable => 2,
            Self::Gone => 3,
            Self::Busy => 4,
        }
    }

    /// The answer of that byte.
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn longest() -> Destination {
        let label = "a".repeat(63);
        format!("{label}.{label}.{label}.{}:65535", "a".repeat(61)).parse().unwrap()
    }

    #[test]
    fn requests_read_back_and_half_of_one_is_none() {
        let id = SessionId([9; 16]);
        for request in [
            Request::Through(longest()),
            Request::Open(id, longest()),
            Request::Open(id, "[::1]:22".parse().unwrap()),
            Request::Join(id),
        ] {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert!(bytes.len() <= MAX_REQUEST);
            for half in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..half]), Ok(None));
            }
            let len = bytes.len();
            bytes.extend_from_slice(b"what follows");
            assert_eq!(Request::decode(&bytes), Ok(Some((request, len))));
        }
    }

    #[test]
    fn what_is_no_request_is_told_by_its_first_byte_or_its_length() {
        assert_eq!(Request::decode(b"GET / HTTP/1.1"), Err(NotARequest));
        assert_eq!(Request::decode(&[THROUGH, 0xff, 0xff]), Err(NotARequest));
        assert_eq!(Request::decode(&[OPEN, 0, 2, 0, 0]), Err(NotARequest));
        assert_eq!(Request::decode(&[JOIN, 0, 1, 0]), Err(NotARequest));
        assert_eq!(Request::decode(&[&[JOIN, 0, 17][..], &[9; 17]].concat()), Err(NotARequest));
    }

    #[test]
    fn every_answer_has_a_byte_of_its_own() {
        for answer in Answer::ALL {
            assert_eq!(Answer::of_code(answer.code()), Some(answer));
        }
        assert_eq!(Answer::of_code(99), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_that_reads_back_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40),
                                                           kind in prop_oneof![Just(THROUGH), Just(OPEN), Just(JOIN)]) {
            let mut bytes = bytes;
            let length = bytes.len() as u16;
            bytes.splice(0..0, [kind, (length >> 8) as u8, length as u8]);
            if let Ok(Some((request, _))) = Request::decode(&bytes) {
                let mut again = Vec::new();
                request.encode(&mut again);
                prop_assert_eq!(Request::decode(&again).unwrap().unwrap().0, request);
            }
        }
    }
}
