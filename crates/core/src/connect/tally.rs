//! What was gained and what it cost, counted, for each account apart.

use super::pool_miss::PoolMiss;
use crate::time::Duration;
use crate::wire::shim::Pass;
use std::collections::BTreeMap;

/// What can be counted up, and down to what it was at an earlier reading.
trait Counter {
    fn add(&mut self, more: &Self);
    fn since(&self, earlier: &Self) -> Self;
}

impl Counter for u64 {
    fn add(&mut self, more: &Self) {
        *self += more;
    }
    fn since(&self, earlier: &Self) -> Self {
        self - earlier
    }
}

impl Counter for Duration {
    fn add(&mut self, more: &Self) {
        *self += *more;
    }
    fn since(&self, earlier: &Self) -> Self {
        *self - *earlier
    }
}

impl<K: Copy + Ord> Counter for BTreeMap<K, u64> {
    fn add(&mut self, more: &Self) {
        more.iter().for_each(|(key, n)| *self.entry(*key).or_default() += n);
    }
    fn since(&self, earlier: &Self) -> Self {
        self.iter().map(|(key, n)| (*key, n - earlier.get(key).copied().unwrap_or_default())).collect()
    }
}

/// A struct of counters that are added and compared field by field.
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// What has been counted since `earlier`, which is an earlier reading of the same counters.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.since(&earlier.$field),)* }
            }

            fn add(&mut self, more: &Self) {
                $(self.$field.add(&more.$field);)*
            }
        }
    };
}

counters! {
    /// Counters of a [`Connector`](super::Connector) since it began. The price of every race is read from here.
    #[derive(Clone, Debug, Default, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct Tally {
        /// getaddrinfo calls answered with addresses.
        pub resolved: u64,
        /// getaddrinfo calls answered with an error.
        pub unresolved: u64,
        /// Questions that programs asked over DNS themselves and that were answered here.
        pub asked: u64,
        /// Of these, answered as empty because the other family had addresses.
        pub not_waited_for: u64,
        /// Lookups of one family that the cache answered.
        pub cache_hits: u64,
        /// Lookups of one family that went to a server.
        pub cache_misses: u64,
        /// Queries sent, retries included.
        pub queries: u64,
        /// Connection attempts begun (SYNs, without the kernel's retransmissions).
        pub attempts: u64,
        /// Attempts begun only to learn (see `race::adaptive`); contained in `attempts`.
        pub explorations: u64,
        /// Connections handed over complete.
        pub handed_over: u64,
        /// Connections handed over under way.
        pub handed_over_in_progress: u64,
        /// Races in which every attempt failed.
        pub failed: u64,
        /// Connections that were opened and that no program used.
        pub unused: u64,
        /// Connections handed over that were complete when the program asked: it did not wait; contained in `handed_over`.
        pub at_once: u64,
        /// Queries sent before a program asked for the name; contained in `queries`.
        pub queries_ahead: u64,
        /// Spare connections that were begun before a program asked for the name.
        pub spares: u64,
        /// Of these, given to a program.
        pub spares_taken: u64,
        /// Connection attempts to addresses of answers that held no more; contained in `attempts`.
        pub optimistic: u64,
        /// Connections that were not there when a program wanted them, although connections are opened ahead, by reason.
        pub missed: BTreeMap<PoolMiss, u64>,
        /// Calls left alone, by reason.
        pub passed: BTreeMap<Pass, u64>,
        /// Time that programs waited for answers to getaddrinfo.
        pub lookup_wait: Duration,
        /// Time that programs waited for connections that were handed over complete.
        pub connect_wait: Duration,
        /// Time that the handshakes of those connections took; more than `connect_wait` where they began ahead of time.
        pub handshakes: Duration,
    }
}

impl Tally {
    /// Connections handed over.
    pub fn connections(&self) -> u64 {
        self.handed_over + self.handed_over_in_progress
    }
}

/// The tallies of all accounts. What is done for no program in particular is on account 0.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    open: BTreeMap<u32, Tally>,
    closed: Tally,
}

impl Tallies {
    /// The tally of `account`, to be counted on.
    pub fn of(&mut self, account: u32) -> &mut Tally {
        self.open.entry(account).or_default()
    }

    /// The tally of `account` so far.
    pub fn read(&self, account: u32) -> Tally {
        self.open.get(&account).cloned().unwrap_or_default()
    }

    /// All that was ever counted.
    pub fn total(&self) -> Tally {
        let mut total = self.closed.clone();
        self.open.values().for_each(|tally| total.add(tally));
        total
    }

    /// `account` is not asked about any more; what it counted stays in the total.
    pub fn close(&mut self, account: u32) {
        if let Some(tally) = self.open.remove(&account) {
            self.closed.add(&tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_counted_apart_and_all_are_in_the_total_after_their_end_too() {
        let mut tallies = Tallies::default();
        tallies.of(1).queries += 2;
        tallies.of(2).queries += 3;
        *tallies.of(2).passed.entry(Pass::LocalName).or_default() += 1;
        assert_eq!((tallies.read(1).queries, tallies.read(2).queries, tallies.read(3).queries), (2, 3, 0));
        let before = tallies.total();
        tallies.of(1).queries += 4;
        *tallies.of(2).passed.entry(Pass::LocalName).or_default() += 2;
        let since = tallies.total().since(&before);
        assert_eq!((since.queries, since.passed[&Pass::LocalName], since.resolved), (4, 2, 0));
        (tallies.of(1).queries, *tallies.of(2).passed.entry(Pass::LocalName).or_default()) = (2, 1);
        tallies.close(2);
        assert_eq!((tallies.read(2), tallies.total().queries), (Tally::default(), 5));
        assert_eq!(tallies.total().passed[&Pass::LocalName], 1);
    }

    #[test]
    fn times_and_numbers_are_added_and_compared_each_by_itself() {
        let (ms, mut tally) = (Duration::from_millis, Tally::default());
        (tally.failed, tally.lookup_wait, tally.handshakes) = (2, ms(5), ms(7));
        let mut sum = tally.clone();
        sum.add(&Tally { failed: 1, handshakes: ms(3), ..Tally::default() });
        assert_eq!((sum.failed, sum.lookup_wait, sum.handshakes, sum.connect_wait), (3, ms(5), ms(10), ms(0)));
        assert_eq!(sum.since(&tally), Tally { failed: 1, handshakes: ms(3), ..Tally::default() });
    }

    #[test]
    fn connections_are_those_that_were_handed_over_in_either_state() {
        assert_eq!(Tally { handed_over: 4, handed_over_in_progress: 2, ..Tally::default() }.connections(), 6);
    }
}
