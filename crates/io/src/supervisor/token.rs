//! Tokens of the event loop and ids of requests: the kind in the upper byte, a number in the lower seven.
//!
//! Requests of a front end carry its kind, so that what the connector tells finds its way back.

/// The control descriptor that ends the loop.
pub(super) const STOP: u64 = 1;
/// The socket on which preloaded libraries connect.
pub(super) const LISTENER: u64 = 2;
/// A program that waits for a reply to its preloaded library.
pub(super) const CALLER: u64 = 1 << SHIFT;
/// A socket of a DNS query.
pub(super) const EXCHANGE: u64 = 2 << SHIFT;
/// A connection attempt.
pub(super) const ATTEMPT: u64 = 3 << SHIFT;
/// A listener of system calls.
pub(super) const HEARD: u64 = 4 << SHIFT;
/// A system call that waits for its answer.
pub(super) const HELD: u64 = 5 << SHIFT;

const SHIFT: u32 = 56;

/// The kind and the number of a token.
pub(super) fn split(token: u64) -> (u64, u64) {
    let kind = token & (0xff << SHIFT);
    (kind, token & !kind)
}
