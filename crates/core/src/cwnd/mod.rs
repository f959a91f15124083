//! The column of the congestion window (paper 2): what a connection starts with, out of what is remembered of its path.
//!
//! [`history`] remembers paths, [`start`] holds the rules by which a connection starts from a memory, [`controller`] the
//! congestion controllers that go on from there. A [`sender::Sender`] puts one rule and one controller together; it knows
//! bytes, moments and round-trip times, and nothing of any transport. [`initcwnd`] is the same for the kernel's own TCP.

pub mod controller;
pub mod history;
pub mod initcwnd;
pub mod rounds;
pub mod sender;
pub mod start;

/// The initial window in bytes of a transport whose packets have `packet` bytes: RFC 9002, section 7.2.
pub fn initial_window(packet: u64) -> u64 {
    (10 * packet).min((2 * packet).max(14_720))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_is_ten_packets_within_the_bounds_of_the_standard() {
        assert_eq!([1200, 1472, 4000, 9000].map(initial_window), [12_000, 14_720, 14_720, 18_000]);
    }
}
