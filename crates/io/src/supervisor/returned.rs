//! Addresses that were returned to programs, as a filter that every thread may ask: the connector knows nothing of others.

use headstart_core::wire::shim::{FILTER_BYTES, filter_bit};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

/// The filter: one bit of [`filter_bit`] an address.
#[derive(Debug)]
pub(super) struct Addresses(Box<[AtomicU8]>);

impl Default for Addresses {
    fn default() -> Self {
        Self((0..FILTER_BYTES).map(|_| AtomicU8::new(0)).collect())
    }
}

impl Addresses {
    /// Adds one: to be called before a program can know it.
    pub fn add(&self, addr: IpAddr) {
        let bit = filter_bit(addr);
        self.0[bit / 8].fetch_or(1 << (bit % 8), Ordering::Release);
    }

    /// Whether `addr` may have been added. If not, it has not.
    pub fn may_have(&self, addr: IpAddr) -> bool {
        let bit = filter_bit(addr);
        self.0[bit / 8].load(Ordering::Acquire) & (1 << (bit % 8)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_address_that_was_added_is_known_and_most_others_are_not() {
        let addresses = Addresses::default();
        let some = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n));
        (0..100).for_each(|n| addresses.add(some(n)));
        assert!((0..100).all(|n| addresses.may_have(some(n))));
        assert!((100..10_100).filter(|n| addresses.may_have(some(*n))).count() < 100);
    }
}
