//! Tokens of the event loop and ids of requests: the kind in the upper byte; below it the run in three bytes, where it
//! is about one; and a number.
//!
//! Requests of a front end carry its kind and its run, so that what the connector tells finds its way back.
//! `RequestId::account` reads the run.

/// The descriptors that end the loop.
pub(super) const STOP: u64 = 1;
/// The socket on which runs connect.
pub(super) const DOOR: u64 = 2;
/// What the kernel tells of the host's network.
pub(super) const PLACE: u64 = 3;
/// Something has been done to the store.
pub(super) const KEEPER: u64 = 4;
/// The room of the stub has been made.
pub(super) const ROOM: u64 = 5;
/// A program that waits for a reply to its preloaded library.
pub(super) const CALLER: u64 = 1 << SHIFT;
/// A socket of a DNS query.
pub(super) const EXCHANGE: u64 = 2 << SHIFT;
/// A connection attempt.
pub(super) const ATTEMPT: u64 = 3 << SHIFT;
/// The socket on which the preloaded libraries of a run connect.
pub(super) const LISTENER: u64 = 4 << SHIFT;
/// A control connection.
pub(super) const CONTROL: u64 = 5 << SHIFT;
/// The program of a run.
pub(super) const PROGRAM: u64 = 6 << SHIFT;
/// Where system calls of a run arrive.
pub(super) const HEARD: u64 = 7 << SHIFT;
/// A system call that waits for its answer.
pub(super) const HELD: u64 = 8 << SHIFT;

/// A post of the stub.
pub(super) const POST: u64 = 0x10 << SHIFT;
/// A question that was asked at one.
pub(super) const QUESTION: u64 = 0x11 << SHIFT;
/// A question that is taken to its server as it is.
pub(super) const FORWARD: u64 = 0x12 << SHIFT;

/// What programs send to others than servers from a socket that leads to the stub.
pub(super) const STRAY: u64 = 0x13 << SHIFT;

const SHIFT: u32 = 56;
const RUN_SHIFT: u32 = 32;
/// The highest number of a run.
pub(super) const MAX_RUN: u32 = 0x00ff_ffff;

/// The kind and the number of a token, the run included.
pub(super) fn split(token: u64) -> (u64, u64) {
    let kind = token & (0xff << SHIFT);
    (kind, token & !kind)
}

/// The place of a run in tokens.
pub(super) fn of_run(run: u32) -> u64 {
    u64::from(run & MAX_RUN) << RUN_SHIFT
}

/// The run that the number of a token is about.
pub(super) fn run_of(n: u64) -> u32 {
    (n >> RUN_SHIFT) as u32 & MAX_RUN
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::RequestId;

    #[test]
    fn kind_run_and_number_are_found_again_and_the_run_is_the_connectors_account() {
        let token = CALLER | of_run(0x00ab_cdef) | 0xffff_ffff;
        let (kind, n) = split(token);
        assert_eq!((kind, run_of(n), n & 0xffff_ffff), (CALLER, 0x00ab_cdef, 0xffff_ffff));
        assert_eq!(RequestId(token).account(), 0x00ab_cdef);
    }
}
