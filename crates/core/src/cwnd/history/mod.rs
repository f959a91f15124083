//! What is remembered of paths: one [`Record`] for each (network, remote), exact address first, then its prefix at lower
//! trust.
//!
//! RFC 9959, sections 3.1 and 4: one record a remote, with a lifetime, used by one connection at a time (a [`Lease`]), and
//! deleted when it has misled. Keys are hashed with a secret of the installation, so that the memory names no host. Bounded
//! whatever peers do: a quota over all, a quota for the addresses of one prefix; the least recently used goes first.
//!
//! What other hosts have learned ([`Prior`]) fills gaps: a path of which this host knows nothing may begin from theirs, at half the
//! window, until this host has learned of it. It is never among the records that are kept or passed on.
//!
//! Pure: moments come in. For records that a store keeps ([`Record::encode`]) they count from 1970: what the wall clock said
//! when the process began, and a steady clock since. A record from the future (the clock was set back) is refused.

mod key;
mod prior;
mod record;
mod slots;

pub use key::{Key, Keys, PREFIX_V4, PREFIX_V6, Secret};
pub use prior::Prior;
pub use record::{Damaged, LENGTH, Medium, Outcome, Record, Sample};

use crate::path::NetworkId;
use crate::time::{Duration, Instant};
use slots::Slots;
use std::net::IpAddr;

/// Bounds of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a record of a wireless path may be used. RFC 9959, section 4.2.1: minutes for paths that change.
    pub wireless: Duration,
    /// How long a record of any other path may be used. As gQUIC, which kept them for an hour.
    pub wired: Duration,
    /// Records, of addresses and of prefixes together.
    pub quota: usize,
    /// Addresses of one prefix that have a record of their own.
    pub of_prefix: u16,
    /// How long a lease holds that is not given back.
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wireless: Duration::from_secs(600),
            wired: Duration::from_secs(3600),
            quota: 65_536,
            of_prefix: 64,
            lease: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// How long a record of `medium` may be used.
    pub fn lifetime(&self, medium: Medium) -> Duration {
        match medium {
            Medium::Wired => self.wired,
            Medium::Wireless => self.wireless,
        }
    }
}

/// How near what is remembered is to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Of this very address.
    Exact,
    /// Of its prefix (/24, /56): likely the same way, perhaps another last mile.
    Prefix,
    /// Of this very address, as another host knows it.
    Fleet,
    /// Of its prefix, as another host knows it.
    FleetPrefix,
}

impl Trust {
    /// What of a window is left that is trusted so far: halved for a neighbour's, and for another host's.
    pub fn of(self, window: u64) -> u64 {
        match self {
            Self::Exact => window,
            Self::Prefix | Self::Fleet => window / 2,
            Self::FleetPrefix => window / 4,
        }
    }
}

/// The input of a start rule: the history of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Bytes that the path carried in a round trip: saved_cwnd of RFC 9959.
    pub window: u64,
    /// That is what the path carries, and not only what was asked of it.
    pub found: bool,
    /// The average window of connections at their end, in bytes: paper 2's.
    pub average: u64,
    /// The shortest round-trip time: saved_rtt.
    pub rtt: Duration,
    /// The shortest of all connections: what is longer now waits behind others.
    pub least: Duration,
    /// The best rate in bytes per second.
    pub rate: u64,
    /// How long ago it was learned.
    pub age: Duration,
    /// Whose memory it is.
    pub trust: Trust,
}

/// The right to use a record, until it is given back ([`History::release`]).
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    key: Key,
    serial: u64,
}

/// The memory. See the module.
#[derive(Debug)]
pub struct History {
    settings: Settings,
    secret: Secret,
    slots: Slots,
    priors: Vec<Prior>,
    serial: u64,
    /// When what has expired was last deleted.
    swept: Instant,
}

/// What has expired is deleted once in this time, by what is learned meanwhile: a thousandth of a second for a full memory.
const SWEEP: Duration = Duration::from_secs(60);

impl History {
    /// An empty memory. `secret`: 16 random bytes that the installation keeps to itself.
    pub fn new(settings: Settings, secret: [u8; 16]) -> Self {
        let (secret, slots) = (Secret::new(secret), Slots::default());
        Self { settings, secret, slots, priors: Vec::new(), serial: 0, swept: Instant::ZERO }
    }

    /// Its bounds.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Records in it, those included that have expired within the last minute.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes, allocated but unused ones included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.slots.bytes()
    }

    /// The names that a peer has here.
    pub fn keys(&self, network: NetworkId, remote: IpAddr) -> Keys {
        self.secret.keys(network, remote)
    }

    /// What is remembered of `remote`, if it has not expired. Leased or not: what is used of it without a lease must not add
    /// load (a round-trip time, say).
    pub fn recall(&self, now: Instant, network: NetworkId, remote: IpAddr) -> Option<Remembered> {
        let keys = self.keys(network, remote);
        let known = self.find(now, &keys).map(|(_, record, trust)| record.remembered(now, trust));
        known.or_else(|| {
            let (record, is_exact) = self.find_prior(now, network, remote)?;
            Some(record.remembered(now, if is_exact { Trust::Fleet } else { Trust::FleetPrefix }))
        })
    }

    /// As [`History::recall`], with the right to use it if no other connection does.
    pub fn lease(&mut self, now: Instant, network: NetworkId, remote: IpAddr) -> Option<(Lease, Remembered)> {
        let keys = self.keys(network, remote);
        // RFC 9959, section 3.2: what has expired is deleted.
        for key in [keys.exact, keys.prefix] {
            if self.slots.get(key).is_some_and(|record| self.has_expired(now, record)) {
                self.slots.remove(key);
            }
        }
        // Among the slots, another host's record can be leased, expire and be refuted as an own one.
        if self.find(now, &keys).is_none()
            && let Some((record, is_exact)) = self.find_prior(now, network, remote)
        {
            let (key, of) = if is_exact { (keys.exact, Some(keys.prefix)) } else { (keys.prefix, None) };
            self.slots.put(key, of, record, &self.settings);
        }
        let (key, record, trust) = self.find(now, &keys)?;
        let remembered = record.remembered(now, trust);
        let until = now + self.settings.lease;
        self.serial += 1;
        let serial = self.serial;
        if !self.slots.lease(key, now, until, serial) {
            return None;
        }
        [keys.prefix, key].into_iter().for_each(|used| self.slots.touch_key(used));
        Some((Lease { key, serial }, remembered))
    }

    /// Gives a lease back. One that has run out, and was given to another since, changes nothing.
    pub fn release(&mut self, lease: Lease) {
        self.slots.release(lease.key, lease.serial);
    }

    /// The memory has misled the holder of `lease`: it is deleted (RFC 9959, section 3.5), the prefix's with the address's.
    pub fn refute(&mut self, lease: &Lease, network: NetworkId, remote: IpAddr) {
        let keys = self.keys(network, remote);
        for key in [lease.key, keys.exact, keys.prefix] {
            self.slots.remove(key);
        }
        self.priors.iter_mut().for_each(|prior| prior.refute(network, remote));
    }

    /// Takes in what other hosts have learned, the most trusted first; what was taken in before is dropped.
    pub fn set_priors(&mut self, priors: Vec<Prior>) {
        self.priors = priors;
    }

    /// Takes in what a connection to `remote` showed. Only of connections whose handshake is done: until then an address may
    /// be forged.
    pub fn learn(&mut self, now: Instant, network: NetworkId, remote: IpAddr, sample: &Sample) {
        // A clock that was set back has not swept yet.
        if now < self.swept || now.since(self.swept) >= SWEEP {
            self.sweep(now);
        }
        let keys = self.keys(network, remote);
        for key in [keys.prefix, keys.exact] {
            let lifetime = self.settings.lifetime(sample.medium);
            let known = self.slots.get(key).copied();
            let record = match known {
                Some(record) => record.learned(now, sample, lifetime),
                None => Record::first(now, sample),
            };
            let of = (key == keys.exact).then_some(keys.prefix);
            self.slots.put(key, of, record, &self.settings);
        }
    }

    /// Takes a record out of a store in, if what is known is not newer.
    pub fn import(&mut self, key: Key, of_prefix: Option<Key>, record: Record) {
        if self.slots.get(key).is_none_or(|known| known.at < record.at) {
            self.slots.put(key, of_prefix, record, &self.settings);
        }
    }

    /// Every record of this host's own with its key, and that of its prefix for one of an address; the one used last comes last, so
    /// that [`History::import`] in this order keeps it.
    pub fn records(&self) -> impl Iterator<Item = (Key, Option<Key>, &Record)> + '_ {
        self.slots.iter().filter(|(_, _, record)| !record.prior)
    }

    /// This host's own record of `key`, expired or not.
    pub fn record(&self, key: Key) -> Option<&Record> {
        self.slots.get(key).filter(|record| !record.prior)
    }

    /// Deletes what has expired; how many that were. Learning does it once a minute.
    pub fn sweep(&mut self, now: Instant) -> usize {
        self.swept = now;
        let settings = self.settings;
        self.slots.retain(|record| now.since(record.at) <= settings.lifetime(record.medium))
    }

    fn has_expired(&self, now: Instant, record: &Record) -> bool {
        now.since(record.at) > self.settings.lifetime(record.medium)
    }

    /// Deletes everything (RFC 9959, section 4.2.1: it must be possible). Leases end with the records.
    pub fn flush(&mut self) {
        self.slots = Slots::default();
        self.priors.clear();
    }

    fn find(&self, now: Instant, keys: &Keys) -> Option<(Key, &Record, Trust)> {
        let fresh = |key: Key| {
            let record = self.slots.get(key)?;
            // What comes from the future has no age: the clock was set back.
            (record.at <= now && !self.has_expired(now, record)).then_some(record)
        };
        let as_known = |key: Key, own: Trust, fleet: Trust| {
            fresh(key).map(|record| (key, record, if record.prior { fleet } else { own }))
        };
        let known = [
            as_known(keys.exact, Trust::Exact, Trust::Fleet),
            as_known(keys.prefix, Trust::Prefix, Trust::FleetPrefix),
        ];
        // The neighbour's before another host's.
        known.into_iter().flatten().min_by_key(|(_, record, _)| record.prior)
    }

    fn find_prior(&self, now: Instant, network: NetworkId, remote: IpAddr) -> Option<(Record, bool)> {
        let found = self.priors.iter().filter_map(|prior| prior.find(now, network, remote, &self.settings));
        // One that knows the address before one that knows its neighbours.
        found.reduce(|a, b| if b.1 && !a.1 { b } else { a })
    }
}

#[cfg(test)]
mod tests;
