//! What was seen of the requests for an echo of one asker to one peer, and of the replies.

use super::observed::Trips;
use crate::time::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Requests of an asker that wait for their replies. 64: a minute's, at one a second.
const MOST_WAITING: usize = 64;

/// Requests of one asker to one peer, and the replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EchoFlow {
    /// The program that asks.
    pub app: IpAddr,
    /// The peer that is asked.
    pub peer: IpAddr,
    /// The number of the asker.
    pub id: u16,
    /// When the first request came by.
    pub began: Instant,
    /// When the last one did.
    pub last: Instant,
    /// Requests.
    pub requests: u64,
    /// Replies.
    pub replies: u64,
    /// From request to reply.
    pub trips: Trips,
    /// Messages of ICMP that say that a request has not arrived.
    pub icmp_errors: u32,
    waiting: VecDeque<(u16, Instant)>,
}

/// The number of a message among those of its asker (RFC 792, RFC 4443).
fn sequence(message: &[u8]) -> Option<u16> {
    message.get(6..8).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

impl EchoFlow {
    pub(super) fn new(now: Instant, app: IpAddr, peer: IpAddr, id: u16) -> Self {
        let (trips, waiting) = (Trips::default(), VecDeque::new());
        Self { app, peer, id, began: now, last: now, requests: 0, replies: 0, trips, icmp_errors: 0, waiting }
    }

    pub(super) fn requested(&mut self, now: Instant, message: &[u8]) {
        (self.last, self.requests) = (now, self.requests + 1);
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.extend(sequence(message).map(|number| (number, now)));
    }

    pub(super) fn replied(&mut self, now: Instant, message: &[u8]) {
        self.replies += 1;
        let place = self.waiting.iter().position(|(number, _)| Some(*number) == sequence(message));
        if let Some((_, asked)) = place.and_then(|place| self.waiting.remove(place)) {
            self.trips.trip(now.since(asked));
        }
    }
}
