//! What servers said, as it came: kept by query, so that it can be passed on to programs that speak DNS themselves.
//! Bounded by bytes; what is not there any more is asked for again.

use headstart_core::connect::QueryId;
use std::collections::BTreeMap;

/// Bytes kept in all: answers for some thousand names.
const MAX_BYTES: usize = 1 << 20;
/// What one entry costs beside its bytes, about.
const OVERHEAD: usize = 64;

/// Replies by query; the oldest queries are forgotten first.
#[derive(Debug, Default)]
pub struct Replies {
    kept: BTreeMap<QueryId, Box<[u8]>>,
    bytes: usize,
}

impl Replies {
    /// Keeps the reply to `query`, instead of any before.
    pub fn keep(&mut self, query: QueryId, reply: &[u8]) {
        if let Some(before) = self.kept.insert(query, reply.into()) {
            self.bytes -= before.len() + OVERHEAD;
        }
        self.bytes += reply.len() + OVERHEAD;
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.kept.pop_first()
        {
            self.bytes -= oldest.len() + OVERHEAD;
        }
    }

    /// The reply to `query`, if it is still there.
    pub fn get(&self, query: QueryId) -> Option<&[u8]> {
        self.kept.get(&query).map(|reply| &**reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_replies_make_room_and_the_latest_to_a_query_counts() {
        let mut replies = Replies::default();
        replies.keep(QueryId(0), b"refused");
        replies.keep(QueryId(0), b"answer");
        assert_eq!(replies.get(QueryId(0)), Some(&b"answer"[..]));
        for n in 1..=MAX_BYTES as u64 / 1000 {
            replies.keep(QueryId(n), &[7; 1000]);
        }
        assert_eq!(replies.get(QueryId(0)), None);
        assert!(replies.bytes <= MAX_BYTES && replies.kept.len() > 900);
        assert_eq!(replies.bytes, replies.kept.values().map(|r| r.len() + OVERHEAD).sum::<usize>());
    }
}
