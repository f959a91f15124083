//! The eight bytes before each packet in a tunnel.
//!
//! ```text
//!  0       1       2       3       4       5       6       7
//! | 4 kind | flags | length        | number        | after         |
//! ```
//!
//! The first half byte is 4; flags are two bits, and six of an epoch: an end that starts its numbers again draws another one.
//! The length counts the whole frame from the third byte on, so that a WireGuard implementation that looks for IPv4 in what it
//! carries finds a packet of it; frames have at least twenty bytes for the same reason, filled with zeros behind their length.
//! Number and after are those of [`super::Order`], their last 16 bits; an echo's after is how many packets of its channel had
//! come, a copy's the number of what it is a copy of.
//! All of it is inside the encryption; it is checked all the same, since a peer may be wrong. Nothing here allocates.

use super::channel::Channel;
use std::fmt;

/// Bytes before a packet.
pub const HEADER: usize = 8;
/// Bytes of a frame at least.
pub const LEAST: usize = 20;
/// Bytes of a frame at most: as many as its length can say.
pub const MOST: usize = u16::MAX as usize;

const VERSION: u8 = 0x40;
const HAS_AFTER: u8 = 1;
const IS_FAST: u8 = 2;
/// Bits of the flags that the epoch is left of.
const EPOCH: u32 = 2;
/// Epochs there are.
pub const EPOCHS: u8 = 64;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Content {
    /// A packet of IP as it is.
    Whole = 0,
    /// A packet of IP that begins a context of [`super::compress`].
    Context = 1,
    /// A packet of IP compressed in a context.
    Compressed = 2,
    /// A probe of the channel; its number is to come back.
    Probe = 3,
    /// A probe that comes back.
    Echo = 4,
    /// A context of compression is not known at the other end: its number is the frame's.
    Forget = 5,
    /// A packet of IP as it is, which took the other channel too: its number there is in the place of after.
    Copy = 6,
}

impl Content {
    const ALL: [Self; 7] =
        [Self::Whole, Self::Context, Self::Compressed, Self::Probe, Self::Echo, Self::Forget, Self::Copy];

    /// It holds a packet.
    pub fn is_packet(self) -> bool {
        !matches!(self, Self::Probe | Self::Echo | Self::Forget)
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What is behind it.
    pub content: Content,
    /// The channel that it was sent over.
    pub channel: Channel,
    /// The sender's beginning, below [`EPOCHS`].
    pub epoch: u8,
    /// The packet's number on its channel, or the probe's.
    pub number: u16,
    /// The number of the packet of the other channel that this one must not overtake, or, of a copy, that says the same; of an
    /// echo, how many packets of its channel had come when it was sent.
    pub after: Option<u16>,
}

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FrameError {
    /// It ends before its header does, or before its length says.
    #[error("the frame ends early")]
    Short,
    /// It does not begin as frames do, or holds what is not known.
    #[error("the frame has another version or kind: both ends must run the same release")]
    Unknown,
    /// Bits that must be zero are not.
    #[error("the frame has reserved bits set")]
    Reserved,
    /// It says that it was sent over the other channel.
    #[error("the frame arrived over a different channel from the one it was sent over")]
    CrossChannel,
    /// It holds nothing, or a probe holds something.
    #[error("the frame's length does not match its contents")]
    Length,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Whole => "whole",
            Self::Context => "context",
            Self::Compressed => "compressed",
            Self::Probe => "probe",
            Self::Echo => "echo",
            Self::Forget => "forget",
            Self::Copy => "copy",
        })
    }
}

impl Header {
    /// Writes a frame with `body` into `to`, in the place of what is there. `false`, and nothing written, if the body is
    /// longer than a frame can be.
    #[must_use]
    pub fn write(&self, body: &[u8], to: &mut Vec<u8>) -> bool {
        let Ok(length) = u16::try_from(HEADER + body.len()) else { return false };
        to.clear();
        let mut flags = self.epoch << EPOCH;
        if self.after.is_some() {
            flags |= HAS_AFTER;
        }
        if self.channel == Channel::Fast {
            flags |= IS_FAST;
        }
        // An empty body is a probe's; its length is that of the least frame, as IPv4's would be.
        let length = length.max(LEAST as u16);
        to.extend_from_slice(&[VERSION | self.content as u8, flags]);
        to.extend_from_slice(&length.to_be_bytes());
        to.extend_from_slice(&self.number.to_be_bytes());
        to.extend_from_slice(&self.after.unwrap_or(0).to_be_bytes());
        to.extend_from_slice(body);
        if to.len() < LEAST {
            to.resize(LEAST, 0);
        }
        true
    }

    /// Reads a frame that came over `channel`; its header, and what is behind it. Bytes behind its length are padding of the
    /// carrier, and ignored.
    pub fn read(frame: &[u8], channel: Channel) -> Result<(Self, &[u8]), FrameError> {
        let header = frame.get(..HEADER).ok_or(FrameError::Short)?;
        let content = Content::ALL.into_iter().find(|c| header[0] == VERSION | *c as u8).ok_or(FrameError::Unknown)?;
        let sent_over = if header[1] & IS_FAST != 0 { Channel::Fast } else { Channel::Fat };
        if sent_over != channel {
            return Err(FrameError::CrossChannel);
        }
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let body = frame.get(HEADER..length).ok_or(FrameError::Short)?;
        let after = u16::from_be_bytes([header[6], header[7]]);
        let has_after = header[1] & HAS_AFTER != 0;
        if !has_after && after != 0 || has_after && !(content.is_packet() || content == Content::Echo) {
            return Err(FrameError::Reserved);
        }
        if content == Content::Copy && !has_after {
            return Err(FrameError::Reserved);
        }
        if length < LEAST || !content.is_packet() && length != LEAST {
            return Err(FrameError::Length);
        }
        let number = u16::from_be_bytes([header[4], header[5]]);
        let epoch = header[1] >> EPOCH;
        Ok((Self { content, channel, epoch, number, after: has_after.then_some(after) }, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: Header =
        Header { content: Content::Whole, channel: Channel::Fast, epoch: 63, number: 7, after: Some(9) };

    fn frame(header: Header, body: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        assert!(header.write(body, &mut to));
        to
    }

    #[test]
    fn a_frame_reads_as_it_was_written_and_looks_like_ipv4_to_whoever_carries_it() {
        let bytes = frame(PACKET, &[5; 60]);
        assert_eq!(Header::read(&bytes, Channel::Fast), Ok((PACKET, &[5; 60][..])));
        assert_eq!((bytes[0] >> 4, u16::from_be_bytes([bytes[2], bytes[3]])), (4, 68));
        let probe = Header { content: Content::Probe, channel: Channel::Fat, epoch: 0, number: 65_535, after: None };
        let bytes = frame(probe, &[]);
        assert_eq!((bytes.len(), Header::read(&bytes, Channel::Fat).map(|(h, _)| h)), (LEAST, Ok(probe)));
        let echo = Header { content: Content::Echo, after: Some(3), ..probe };
        assert_eq!(Header::read(&frame(echo, &[]), Channel::Fat).map(|(h, _)| h), Ok(echo));
        assert_eq!(
            Header::read(&frame(Header { after: Some(3), ..probe }, &[]), Channel::Fat),
            Err(FrameError::Reserved)
        );
        let copy = Header { content: Content::Copy, ..PACKET };
        assert_eq!(Header::read(&frame(copy, &[5; 60]), Channel::Fast).map(|(h, _)| h), Ok(copy));
        let of_nothing = frame(Header { after: None, ..copy }, &[5; 60]);
        assert_eq!(Header::read(&of_nothing, Channel::Fast), Err(FrameError::Reserved));
        // Padding of the carrier is no part of it.
        assert_eq!(Header::read(&[&bytes[..], &[0; 12]].concat(), Channel::Fat).map(|(h, _)| h), Ok(probe));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = frame(PACKET, &[5; 60]);
        let with = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            Header::read(&bad, Channel::Fast).unwrap_err()
        };
        assert_eq!(Header::read(&good, Channel::Fat), Err(FrameError::CrossChannel));
        assert_eq!(Header::read(&good[..good.len() - 1], Channel::Fast), Err(FrameError::Short));
        assert_eq!(Header::read(&good[..7], Channel::Fast), Err(FrameError::Short));
        assert_eq!([with(0, 0x60), with(0, 0x4f)], [FrameError::Unknown; 2]);
        assert_eq!((with(1, IS_FAST), with(1, HAS_AFTER)), (FrameError::Reserved, FrameError::CrossChannel));
        assert_eq!([with(3, 255), with(3, 3), with(3, 12)], [FrameError::Short, FrameError::Short, FrameError::Length]);
        assert_eq!(with(0, VERSION | 3), FrameError::Reserved);
        assert!(!PACKET.write(&vec![0; MOST], &mut Vec::new()));
        assert_eq!(format!("{:>11}", Content::Compressed), " compressed");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80), fast: bool) {
            let channel = if fast { Channel::Fast } else { Channel::Fat };
            if let Ok((header, body)) = Header::read(&bytes, channel) {
                let again = frame(header, body);
                prop_assert_eq!(Header::read(&again, channel), Ok((header, body)));
            }
        }

        #[test]
        fn every_packet_comes_back(body in proptest::collection::vec(any::<u8>(), 20..200), number: u16, after: Option<u16>,
                                   epoch in 0..EPOCHS) {
            let header = Header { content: Content::Context, channel: Channel::Fat, epoch, number, after };
            let bytes = frame(header, &body);
            prop_assert_eq!(Header::read(&bytes, Channel::Fat), Ok((header, &body[..])));
        }
    }
}
