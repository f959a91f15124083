//! What another host has learned, for paths on which this one has no experience. Ours; RFC 9959 knows the experience of one host alone.
//!
//! Its names are made with its own secret, which comes with it. What never happens here: a record outlives its lifetime, or is
//! looked at while this host knows the address or its neighbours itself.

use super::key::Secret;
use super::slots::AsIs;
use super::{Key, Record, Settings};
use crate::path::NetworkId;
use crate::time::Instant;
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

/// What one other host has learned.
pub struct Prior {
    secret: Secret,
    records: HashMap<Key, Record, BuildHasherDefault<AsIs>>,
}

impl Prior {
    /// Of `records`, whose names were made with `secret`.
    pub fn new(secret: [u8; 16], records: impl IntoIterator<Item = (Key, Record)>) -> Self {
        let records = records.into_iter().map(|(key, record)| (key, Record { prior: true, ..record }));
        Self { secret: Secret::new(secret), records: records.collect() }
    }

    /// Records in it, expired ones included.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What it says of `remote`, and whether of that very address and not of its prefix.
    pub(super) fn find(
        &self,
        now: Instant,
        network: NetworkId,
        remote: IpAddr,
        settings: &Settings,
    ) -> Option<(Record, bool)> {
        let keys = self.secret.keys(network, remote);
        let fresh = |record: &&Record| record.at <= now && now.since(record.at) <= settings.lifetime(record.medium);
        let of = |key: Key| self.records.get(&key).filter(fresh).copied();
        of(keys.exact).map(|record| (record, true)).or_else(|| Some((of(keys.prefix)?, false)))
    }

    /// It has misled about `remote`.
    pub(super) fn refute(&mut self, network: NetworkId, remote: IpAddr) {
        let keys = self.secret.keys(network, remote);
        self.records.remove(&keys.exact);
        self.records.remove(&keys.prefix);
    }
}

impl fmt::Debug for Prior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prior({} records)", self.len())
    }
}
