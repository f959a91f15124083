//! The frames of a session: what one write, and so one segment, carries.
//!
//! A frame is three numbers and a payload: tag, sequence, length (LEB128 varints; a message of a `Latest` lane has its key
//! before the length). The tag is the lane times four plus its kind; kind 0 is a control frame, whose lane says which.
//! Any host that reaches the port can send frames, so they are read as foreign bytes: anything parses or is an error, nothing
//! panics, and nothing is allocated by what a length claims.

use super::lane::{Kind, LaneId, MAX_LANES};

/// Longest payload of a message, in bytes. Small messages are what this is for; what is longer belongs into a stream.
pub const MAX_MESSAGE: usize = 16 * 1024;
/// Longest header: tag, sequence, key and length, each a varint of at most ten bytes.
pub const MAX_HEADER: usize = 40;
/// Version of the frames; a peer of another version is refused by its first frame; the refusal names the version of this side.
pub const VERSION: u8 = 2;
/// Longest name of a technique on the wire, in bytes.
pub const MAX_TECHNIQUE: usize = 64;
/// Connections that one acknowledgement tells of at most.
pub const MAX_COUNTS: usize = 16;

/// Names a session on all of its connections; drawn by the side that connects, unguessable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SessionId(pub [u8; 16]);

/// The first frame of a connection, from the side that opened it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The session that this connection is for.
    pub session: SessionId,
    /// Number of this connection in its session; never used twice.
    pub connection: u32,
    /// Expected time between two messages in microseconds; zero if it is not known.
    pub interval_micros: u32,
    /// The technique by its name in the registry, so that both sides work alike.
    pub technique: &'a str,
    /// The peer has answered in this session before: one that does not know it must not begin it anew.
    pub goes_on: bool,
}

/// What only a peer can say that has read this connection's [`Hello`] and speaks this protocol: numbers made of the session and of the
/// connection, another one in each answer. An echo has none of them, nor has what answered another connection. It proves no identity:
/// that is for TLS, or a relay's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(pub u64);

impl Proof {
    /// Of a peer that has the session.
    pub fn welcome(session: SessionId, connection: u32) -> Self {
        Self::of(session, connection, WELCOME)
    }

    /// Of a peer that does not have it.
    pub fn gone(session: SessionId, connection: u32) -> Self {
        Self::of(session, connection, GONE)
    }

    /// By the finalizer of SplitMix64 (Steele et al., OOPSLA 2014), once for each word.
    fn of(session: SessionId, connection: u32, answer: u64) -> Self {
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| session.0[at + i]));
        let mix = |seed: u64, word: u64| {
            let mut z = (seed ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self([word(0), word(8), u64::from(connection)].into_iter().fold(answer, mix))
    }
}

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
// Read, dealt with and dropped, one after the other: to box the larger would allocate for each.
#[allow(clippy::large_enum_variant)]
pub enum Frame<'a> {
    /// First on each connection.
    Hello(Hello<'a>),
    /// The answer of a headstart peer to [`Frame::Hello`]: first on each connection the other way.
    Welcome(Proof),
    /// Its answer where it does not know the session that goes on: it was restarted, or has given it up.
    Gone(Proof),
    /// How many messages have come over which connections.
    Ack(Counts),
    /// The receiver misses messages (paper 4: Trigger).
    Notice,
    /// A tiny segment that carries nothing (paper 4: Trigger).
    Filler,
    /// Something back, so that an acknowledgement of TCP leaves with it (paper 4: Return).
    Echo,
    /// The peer leaves for good, and will not come back for what it has not.
    Bye {
        /// Messages that it has acknowledged and that its program did not take, of `Event` and `Ordered` lanes.
        untaken: u64,
    },
    /// A message.
    Message {
        /// Its lane.
        lane: LaneId,
        /// The kind of that lane.
        kind: Kind,
        /// Its number in the lane.
        seq: u64,
        /// What it is the newest value of, in a [`Kind::Latest`] lane; zero in others.
        key: u64,
        /// The message.
        payload: &'a [u8],
    },
}

/// Messages received so far, by connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    list: [(u32, u64); MAX_COUNTS],
    len: usize,
}

impl Counts {
    /// Adds a connection; whether there was room for it.
    pub fn push(&mut self, connection: u32, count: u64) -> bool {
        let room = self.len < MAX_COUNTS;
        if room {
            self.list[self.len] = (connection, count);
            self.len += 1;
        }
        room
    }

    /// The connections and their counts.
    pub fn as_slice(&self) -> &[(u32, u64)] {
        &self.list[..self.len]
    }
}

/// Why bytes are not a frame. The connection that they came over is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
// Read, dealt with and dropped, one after the other: to box the larger would allocate for each.
#[allow(clippy::large_enum_variant)]
pub enum FrameError {
    /// A number longer than 64 bits.
    #[error("a number in a frame is longer than 64 bits: the peer does not speak this protocol")]
    Number,
    /// A payload beyond the limit.
    #[error("a frame of {0} bytes, at most {MAX_MESSAGE}: the peer does not speak this protocol, or sends streams")]
    TooLong(u64),
    /// A lane beyond the limit.
    #[error("lane {0} of {MAX_LANES}: the peer does not speak this protocol")]
    Lane(u64),
    /// A control frame that does not exist, or does not read.
    #[error("control frame {0} is unknown or malformed: the peer may be newer than this side")]
    Control(u64),
    /// A peer of another version.
    #[error("the peer speaks version {0}, this side {VERSION}: update the older of the two")]
    Version(u8),
    /// A lane that was of another kind before.
    #[error("lane {0} had another kind before: each lane keeps one kind for the whole session")]
    KindChanged(u8),
    /// The peer does not know the session.
    #[error("the peer no longer knows the session: it was restarted, or the session expired")]
    Gone,
    /// The peer is none: it sends back what it is sent.
    #[error("the peer returns what it receives: it is an echo server, or this side itself")]
    Echoed,
    /// A message or an acknowledgement that cannot be.
    #[error("{0}: the peer violates the protocol")]
    Impossible(&'static str),
}

const HELLO: u64 = 1;
const WELCOME: u64 = 2;
const ACK: u64 = 3;
const NOTICE: u64 = 4;
const FILLER: u64 = 5;
const ECHO: u64 = 6;
const BYE: u64 = 7;
const GONE: u64 = 8;

/// Appends `value` as a LEB128 varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that `value` takes as a varint.
pub const fn varint_length(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Bytes of a message's frame before its payload of `length` bytes.
pub fn header_length(lane: LaneId, kind: Kind, seq: u64, key: u64, length: usize) -> usize {
    let key = if kind == Kind::Latest { varint_length(key) } else { 0 };
    varint_length(u64::from(lane.0) << 2 | kind.code()) + varint_length(seq) + key + varint_length(length as u64)
}

/// Reads a varint: its value and its length, `None` if there is not enough of it.
pub fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, FrameError> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        let shift = 7 * at as u32;
        if shift == 63 && part > 1 {
            return Err(FrameError::Number);
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    if bytes.len() >= 10 { Err(FrameError::Number) } else { Ok(None) }
}

impl Frame<'_> {
    /// Appends the frame to `out`. A message longer than [`MAX_MESSAGE`] is the caller's to refuse.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let empty = |out: &mut Vec<u8>, control: u64| {
            put_varint(out, control << 2);
            out.extend_from_slice(&[0, 0]);
        };
        let proven = |out: &mut Vec<u8>, control: u64, proof: Proof| {
            put_varint(out, control << 2);
            out.extend_from_slice(&[0, 1 + 8, VERSION]);
            out.extend_from_slice(&proof.0.to_be_bytes());
        };
        match self {
            Self::Welcome(proof) => proven(out, WELCOME, *proof),
            Self::Gone(proof) => proven(out, GONE, *proof),
            Self::Notice => empty(out, NOTICE),
            Self::Filler => empty(out, FILLER),
            Self::Echo => empty(out, ECHO),
            Self::Bye { untaken } => {
                put_varint(out, BYE << 2);
                out.extend_from_slice(&[0, varint_length(*untaken) as u8]);
                put_varint(out, *untaken);
            }
            Self::Hello(hello) => {
                let name = &hello.technique.as_bytes()[..hello.technique.len().min(MAX_TECHNIQUE)];
                put_varint(out, HELLO << 2);
                out.push(0);
                put_varint(out, (1 + 1 + 16 + 4 + 4 + name.len()) as u64);
                out.extend_from_slice(&[VERSION, u8::from(hello.goes_on)]);
                out.extend_from_slice(&hello.session.0);
                out.extend_from_slice(&hello.connection.to_be_bytes());
                out.extend_from_slice(&hello.interval_micros.to_be_bytes());
                out.extend_from_slice(name);
            }
            Self::Ack(counts) => {
                put_varint(out, ACK << 2);
                out.push(0);
                let each = |(c, n): &(u32, u64)| varint_length(u64::from(*c)) + varint_length(*n);
                let bytes: usize = counts.as_slice().iter().map(each).sum();
                put_varint(out, bytes as u64);
                for (connection, count) in counts.as_slice() {
                    put_varint(out, u64::from(*connection));
                    put_varint(out, *count);
                }
            }
            Self::Message { lane, kind, seq, key, payload } => {
                put_varint(out, u64::from(lane.0) << 2 | kind.code());
                put_varint(out, *seq);
                if *kind == Kind::Latest {
                    put_varint(out, *key);
                }
                put_varint(out, payload.len() as u64);
                out.extend_from_slice(payload);
            }
        }
    }

    /// Reads the first frame of `bytes` and its length; `None` if it is not complete.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
        let mut at = 0;
        let mut number = || -> Result<Option<u64>, FrameError> {
            Ok(varint(&bytes[at..])?.map(|(value, len)| {
                at += len;
                value
            }))
        };
        let Some(tag) = number()? else { return Ok(None) };
        let kind = Kind::of_code(tag & 3);
        let lane = tag >> 2;
        if kind.is_some() && lane >= u64::from(MAX_LANES) {
            return Err(FrameError::Lane(lane));
        }
        let Some(seq) = number()? else { return Ok(None) };
        let key = match kind {
            Some(Kind::Latest) => match number()? {
                Some(key) => key,
                None => return Ok(None),
            },
            _ => 0,
        };
        let Some(len) = number()? else { return Ok(None) };
        if len > MAX_MESSAGE as u64 {
            return Err(FrameError::TooLong(len));
        }
        let Some(payload) = bytes[at..].get(..len as usize) else { return Ok(None) };
        let end = at + len as usize;
        let frame = match kind {
            Some(kind) => Frame::Message { lane: LaneId(lane as u8), kind, seq, key, payload },
            None => control(lane, payload)?,
        };
        Ok(Some((frame, end)))
    }
}

fn control(which: u64, payload: &[u8]) -> Result<Frame<'_>, FrameError> {
    let bad = FrameError::Control(which);
    match (which, payload) {
        // What version 1 answers has nothing in it.
        (WELCOME, []) => Err(FrameError::Version(1)),
        (HELLO | WELCOME | GONE, [version, ..]) if *version != VERSION => Err(FrameError::Version(*version)),
        (WELCOME | GONE, [_, rest @ ..]) => {
            let proof = Proof(u64::from_be_bytes(rest.try_into().map_err(|_| bad)?));
            Ok(if which == WELCOME { Frame::Welcome(proof) } else { Frame::Gone(proof) })
        }
        (HELLO, [_, goes_on @ (0 | 1), rest @ ..]) => {
            let (Some(session), Some(words), Some(name)) = (rest.get(..16), rest.get(16..24), rest.get(24..)) else {
                return Err(bad);
            };
            let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| words[at + i]));
            let name = std::str::from_utf8(name).ok().filter(|n| n.len() <= MAX_TECHNIQUE).ok_or(bad)?;
            let mut id = SessionId::default();
            id.0.copy_from_slice(session);
            let goes_on = *goes_on == 1;
            Ok(Frame::Hello(Hello {
                session: id,
                connection: word(0),
                interval_micros: word(4),
                technique: name,
                goes_on,
            }))
        }
        (ACK, _) => {
            let mut counts = Counts::default();
            let mut rest = payload;
            while !rest.is_empty() {
                let mut next = || -> Result<u64, FrameError> {
                    let (value, len) = varint(rest)?.ok_or(bad)?;
                    rest = &rest[len..];
                    Ok(value)
                };
                let connection = u32::try_from(next()?).map_err(|_| bad)?;
                let count = next()?;
                if !counts.push(connection, count) {
                    return Err(bad);
                }
            }
            Ok(Frame::Ack(counts))
        }
        (NOTICE, []) => Ok(Frame::Notice),
        (FILLER, []) => Ok(Frame::Filler),
        (ECHO, []) => Ok(Frame::Echo),
        (BYE, _) => match varint(payload)? {
            Some((untaken, length)) if length == payload.len() => Ok(Frame::Bye { untaken }),
            _ => Err(bad),
        },
        _ => Err(bad),
    }
}

/// Whether a connection of a headstart peer may begin with this byte: every other one is distinguished at once.
pub fn begins_a_connection(first: u8) -> bool {
    [HELLO << 2, WELCOME << 2, GONE << 2].contains(&u64::from(first))
}

/// Bytes of a connection on their way to frames. Keeps at most one frame that is not complete, and what came with it.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Takes in what the connection brought.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        match Frame::decode(&self.bytes[self.read..])? {
            Some((frame, len)) => {
                self.read += len;
                Ok(Some(frame))
            }
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Frame<'static> {
        Frame::Hello(Hello {
            session: SessionId([7; 16]),
            connection: 3,
            interval_micros: 30_000,
            technique: "reduction-50+trigger",
            goes_on: true,
        })
    }

    fn written(frame: &Frame<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        frame.encode(&mut out);
        out
    }

    #[test]
    fn a_header_is_as_long_as_it_is_said_to_be() {
        for kind in Kind::ALL {
            for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_length(value), "{value}");
                let (lane, payload) = (LaneId((value % 64) as u8), [0; 200]);
                let mut out = Vec::new();
                Frame::Message { lane, kind, seq: value, key: value, payload: &payload }.encode(&mut out);
                assert_eq!(out.len() - 200, header_length(lane, kind, value, value, 200), "{kind:?} {value}");
            }
        }
    }

    #[test]
    fn a_touch_event_of_the_paper_has_three_bytes_of_header() {
        let payload = [1; 50];
        let frame = Frame::Message { lane: LaneId(0), kind: Kind::Event, seq: 59, key: 0, payload: &payload };
        assert_eq!(written(&frame).len(), 53);
        assert_eq!(written(&Frame::Echo).len(), 3);
    }

    #[test]
    fn every_control_frame_reads_back() {
        let mut counts = Counts::default();
        assert!(counts.push(1, 500) && counts.push(700, u64::MAX));
        for frame in [
            hello(),
            Frame::Welcome(Proof(u64::MAX)),
            Frame::Gone(Proof(3)),
            Frame::Ack(counts),
            Frame::Notice,
            Frame::Filler,
            Frame::Echo,
            Frame::Bye { untaken: 300 },
        ] {
            let bytes = written(&frame);
            assert_eq!(Frame::decode(&bytes), Ok(Some((frame, bytes.len()))));
        }
    }

    #[test]
    fn a_cut_frame_waits_for_the_rest_at_every_length() {
        let bytes = written(&hello());
        for cut in 0..bytes.len() {
            assert_eq!(Frame::decode(&bytes[..cut]), Ok(None), "{cut}");
        }
        let mut decoder = Decoder::default();
        for byte in &bytes[..bytes.len() - 1] {
            decoder.push(&[*byte]);
            assert_eq!(decoder.next_frame(), Ok(None));
        }
        decoder.push(&bytes[bytes.len() - 1..]);
        assert_eq!(decoder.next_frame(), Ok(Some(hello())));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_kept_for_it() {
        let mut bytes = vec![2, 0];
        put_varint(&mut bytes, 1 << 40);
        assert_eq!(Frame::decode(&bytes), Err(FrameError::TooLong(1 << 40)));
        let mut longest = vec![2, 0];
        put_varint(&mut longest, MAX_MESSAGE as u64);
        assert_eq!(Frame::decode(&longest), Ok(None), "it waits for the rest");
    }

    #[test]
    fn what_is_too_large_or_too_long_is_refused() {
        let number = |last: u8| varint(&[[0xff; 9].as_slice(), &[last]].concat());
        assert_eq!((number(1), number(2)), (Ok(Some((u64::MAX, 10))), Err(FrameError::Number)));
        assert_eq!(varint(&[0x80; 10]), Err(FrameError::Number));
        let mut bye = written(&Frame::Bye { untaken: 1 });
        *bye.iter_mut().rev().nth(1).unwrap() += 1;
        bye.push(0);
        assert!(Frame::decode(&bye).is_err());
        let mut counts = Counts::default();
        assert!((0..MAX_COUNTS as u32).all(|connection| counts.push(connection, 1)) && !counts.push(99, 1));
        assert_eq!(counts.as_slice().len(), MAX_COUNTS);
    }

    #[test]
    fn what_was_read_is_not_kept() {
        let mut decoder = Decoder::default();
        for _ in 0..100 {
            decoder.push(&written(&Frame::Echo));
            assert_eq!(decoder.next_frame(), Ok(Some(Frame::Echo)));
        }
        assert!(decoder.bytes.len() <= 3, "{}", decoder.bytes.len());
    }

    #[test]
    fn proofs_are_those_that_other_releases_compute() {
        // From the words of the documentation, by another program.
        let session = SessionId(std::array::from_fn(|k| k as u8));
        let proofs = [Proof::welcome(session, 3), Proof::gone(session, 3)];
        assert_eq!(proofs, [Proof(0x8dd3_22e5_4bcb_6c1c), Proof(0xf156_619a_55f7_e6e7)]);
    }

    #[test]
    fn a_web_browser_on_the_port_is_told_apart_by_its_first_byte() {
        assert!(!begins_a_connection(b'G'));
        for frame in [hello(), Frame::Welcome(Proof(1)), Frame::Gone(Proof(1))] {
            assert!(begins_a_connection(written(&frame)[0]));
        }
    }

    #[test]
    fn a_newer_peer_is_named_as_such() {
        let mut bytes = written(&hello());
        bytes[3] = 9;
        assert_eq!(Frame::decode(&bytes), Err(FrameError::Version(9)));
        // As version 1 answered.
        assert_eq!(Frame::decode(&[(WELCOME << 2) as u8, 0, 0]), Err(FrameError::Version(1)));
    }

    #[test]
    fn each_answer_on_each_connection_of_each_session_has_a_proof_of_its_own() {
        let ids = [0, 1].map(|last| SessionId(std::array::from_fn(|k| if k == 15 { last } else { 7 })));
        let mut all: Vec<u64> = Vec::new();
        for id in ids {
            for connection in 0..6 {
                all.extend([Proof::welcome(id, connection).0, Proof::gone(id, connection).0]);
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    proptest! {
        #[test]
        fn any_message_reads_back(lane in 0u8..MAX_LANES, code in 1u64..4, seq: u64, key: u64,
                                  payload in proptest::collection::vec(any::<u8>(), 0..300)) {
            let kind = Kind::of_code(code).unwrap();
            let key = if kind == Kind::Latest { key } else { 0 };
            let frame = Frame::Message { lane: LaneId(lane), kind, seq, key, payload: &payload };
            let bytes = written(&frame);
            prop_assert!(bytes.len() <= payload.len() + MAX_HEADER);
            prop_assert_eq!(Frame::decode(&bytes), Ok(Some((frame, bytes.len()))));
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            for part in bytes.chunks(7) {
                decoder.push(part);
                loop {
                    match decoder.next_frame() {
                        Ok(Some(frame)) => {
                            let again = written(&frame);
                            prop_assert_eq!(Frame::decode(&again), Ok(Some((frame, again.len()))));
                        }
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }
}
