//! Messages of DNS in a stream of TCP (RFC 1035, section 4.2.2: each behind its length), out of segments of which only the beginnings are
//! there. Of a message what is kept is what a datagram of the old size holds. Where a segment is missing, or a length lies in what is not
//! there, nothing more is read.

/// What is kept of a message.
const MOST: usize = 512;

/// One direction of a stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the next byte, once something has come.
    next: Option<u32>,
    broken: bool,
    /// What there is of the length.
    length: Vec<u8>,
    /// Bytes of the message that have not come, and those that have.
    missing: usize,
    message: Vec<u8>,
}

impl Stream {
    /// A segment of `len` bytes from `sequence` on, of which these are there: the messages that it ends.
    pub fn take(&mut self, sequence: u32, len: u32, mut there: &[u8]) -> Vec<Vec<u8>> {
        self.broken |= self.next.is_some_and(|next| next != sequence);
        self.next = Some(sequence.wrapping_add(len));
        let (mut left, mut messages) = (len as usize, Vec::new());
        while left > 0 && !self.broken {
            if self.length.len() < 2 {
                let Some((byte, rest)) = there.split_first() else {
                    self.broken = true;
                    break;
                };
                self.length.push(*byte);
                (there, left) = (rest, left - 1);
                self.missing = self.length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            } else {
                let came = self.missing.min(left);
                let (known, rest) = there.split_at(came.min(there.len()));
                self.message.extend(known.iter().take(MOST - self.message.len()));
                (there, left) = (rest, left - came);
                self.missing -= came;
            }
            if self.length.len() == 2 && self.missing == 0 {
                self.length.clear();
                messages.push(std::mem::take(&mut self.message));
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(lengths: &[usize]) -> Vec<u8> {
        let message = |len: &usize| [&(*len as u16).to_be_bytes()[..], &vec![*len as u8; *len]].concat();
        lengths.iter().flat_map(message).collect()
    }

    #[test]
    fn messages_are_the_same_however_they_are_cut_into_segments() {
        let all = stream(&[30, 1, 0, 300]);
        for size in 1..all.len() {
            let (mut read, mut messages) = (Stream::default(), Vec::new());
            let mut sequence = u32::MAX - 20;
            for segment in all.chunks(size) {
                messages.extend(read.take(sequence, segment.len() as u32, segment));
                sequence = sequence.wrapping_add(segment.len() as u32);
            }
            let lengths: Vec<_> = messages.iter().map(Vec::len).collect();
            assert_eq!(lengths, [30, 1, 0, 300], "{size}");
            assert!(messages.iter().all(|message| message.iter().all(|byte| *byte == message.len() as u8)));
        }
    }

    #[test]
    fn of_a_long_message_the_beginning_is_kept_and_what_follows_it_is_read() {
        let all = stream(&[4000, 20]);
        let mut read = Stream::default();
        assert!(read.take(7, 1000, &all[..512]).is_empty());
        let rest = &all[1000..];
        let messages = read.take(1007, rest.len() as u32, rest);
        assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [512, 20]);
    }

    #[test]
    fn nothing_is_read_behind_what_is_missing() {
        let all = stream(&[30, 30]);
        let mut read = Stream::default();
        assert_eq!(read.take(0, 32, &all[..32]).len(), 1);
        assert!(read.take(40, 24, &all[40..]).is_empty(), "a segment has not come");
        assert!(read.take(64, 64, &all).is_empty());
        let mut read = Stream::default();
        let messages = read.take(0, 64, &all[..31]);
        assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [29], "the second length is not there");
        assert!(read.take(64, 64, &all).is_empty());
    }
}
