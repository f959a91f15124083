//! Frames of the engine's protocol: four bytes of length, the first the highest, then so many bytes of JSON. Pure: bytes come in, bodies go out.

/// Bytes of a body at most.
pub const LONGEST: usize = 64 * 1024;
/// Bytes before a body.
const HEADER: usize = 4;

/// What came is no frame. Nothing behind it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It says that it is longer than a frame may be.
    #[error("a frame of {0} bytes: at most {LONGEST} are allowed")]
    TooLong(u32),
    /// It says that it has no body.
    #[error("a frame without a body")]
    Empty,
}

/// A body as a frame; none if it is too long, or empty.
pub fn encode(body: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(body.len()).ok().filter(|_| (1..=LONGEST).contains(&body.len()))?;
    let mut frame = Vec::with_capacity(HEADER + body.len());
    frame.extend(length.to_be_bytes());
    frame.extend(body);
    Some(frame)
}

/// Bytes that have come, until a frame is whole.
#[derive(Clone, Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// These bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// The body of the next frame, if it is whole.
    pub fn next_body(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(length) = self.0.first_chunk::<HEADER>().map(|bytes| u32::from_be_bytes(*bytes)) else {
            return Ok(None);
        };
        match length as usize {
            0 => Err(FrameError::Empty),
            LONGEST.. if length as usize > LONGEST => Err(FrameError::TooLong(length)),
            length if self.0.len() < HEADER + length => Ok(None),
            length => {
                let body = self.0[HEADER..HEADER + length].to_vec();
                self.0.drain(..HEADER + length);
                Ok(Some(body))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(frames: &mut Frames) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| frames.next_body().unwrap()).collect()
    }

    #[test]
    fn the_longest_frame_is_read_and_a_longer_one_is_refused_by_its_header_alone() {
        let longest = vec![b'x'; LONGEST];
        let mut frames = Frames::default();
        frames.push(&encode(&longest).unwrap());
        assert_eq!((read(&mut frames), encode(&[&longest[..], b"x"].concat())), (vec![longest], None));
        frames.push(&(LONGEST as u32 + 1).to_be_bytes());
        assert_eq!(frames.next_body(), Err(FrameError::TooLong(LONGEST as u32 + 1)));
        assert_eq!(Frames(vec![0; 4]).next_body(), Err(FrameError::Empty));
        assert_eq!(encode(b""), None);
    }

    proptest! {
        #[test]
        fn bodies_come_out_as_they_went_in_however_the_bytes_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..20),
        ) {
            let bytes: Vec<u8> = bodies.iter().flat_map(|body| encode(body).unwrap()).collect();
            let (mut frames, mut heard, mut rest) = (Frames::default(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                frames.push(now);
                heard.extend(read(&mut frames));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(heard, bodies);
            prop_assert!(frames.0.is_empty());
        }
    }
}
