//! Records of paths that clients carry, in the tokens that a QUIC server gives them anyway (NEW_TOKEN; RFC 9000, section 8.1.3): for
//! servers of one site that share a key and no store, and for those that were restarted.
//!
//! quinn lets a program make the key that seals tokens, and nothing of what is in them. So the record is added where they are sealed
//! and taken off where they are opened: a token names the address that it is good for, and so it says whose record is wanted.
//!
//! - Nobody reads or changes a record without the key, and it is only ever used for the address that it was sealed for, and at a quarter for its prefix.
//! - A token is used once: what was opened before brings nothing, and neither does a record that a retreat has deleted (RFC 9959, section
//!   3.5), whatever copies of it are under way.
//! - It is another server's: half of its window counts, and only where this server has no experience of its own.
//! - All tokens are of one length: whether there is a record in one does not show.
//! - A client that does not want to carry any keeps no tokens.

use crate::{CarefulResume, locked};
use headstart_core::cwnd::history::{Keys, LENGTH, Record};
use headstart_core::time::Instant;
use quinn::crypto::{AeadKey, CryptoError, HandshakeTokenKey};
use quinn::{Runtime as _, TokioRuntime};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Bytes that a token is longer: whether there is a record, and the record.
const ADDED: usize = 1 + LENGTH;
/// What quinn's tokens for addresses begin with, then a byte for the family and the address, then when they were made.
const OF_ADDRESS: u8 = 1;
/// Tokens that are known to have been used, and records that are known to have misled: twice as many at most.
const REMEMBERED: usize = 32_768;

/// What a site must not be told again, of the newest [`REMEMBERED`] at least.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    new: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { new: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Copy> Recent<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let known = self.get(&key);
        if self.new.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, value);
        known
    }

    fn get(&self, key: &K) -> Option<V> {
        self.new.get(key).or_else(|| self.old.get(key)).copied()
    }
}

impl CarefulResume {
    /// A key for [`quinn::ServerConfig::token_key`] by which clients carry the record of their path from one server to the next. `key`:
    /// one that all of them have. The record is what earlier connections have taught: the token of a first contact has none.
    ///
    /// Records have ages: the store must be of [`crate::Store::from_bytes`], whose clock says what time it is.
    pub fn carried(&self, key: Arc<dyn HandshakeTokenKey>) -> Arc<dyn HandshakeTokenKey> {
        Arc::new(Carried { memory: self.clone(), key, used: Arc::default() })
    }

    /// The record of this very address, as a token has it.
    fn to_carry(&self, now: Instant, remote: IpAddr) -> Option<[u8; LENGTH]> {
        let network = self.network();
        self.with(|history| {
            let record = *history.record(history.keys(network, remote).exact)?;
            let is_fresh = now.since(record.at) <= history.settings().lifetime(record.medium);
            is_fresh.then(|| record.encode())
        })
    }

    /// Takes in what a client has carried here.
    fn bring(&self, now: Instant, remote: IpAddr, record: &[u8]) {
        let Ok(record) = Record::decode(record, now) else { return };
        let network = self.network();
        self.with(|history| {
            if now.since(record.at) > history.settings().lifetime(record.medium) {
                return;
            }
            let keys = history.keys(network, remote);
            for (key, of) in [(keys.prefix, None), (keys.exact, Some(keys.prefix))] {
                let has_misled = locked(&self.0.refuted).get(&key).is_some_and(|since| record.at <= since);
                // An own one knows better, even if it is older: it is of the way from here.
                if !has_misled && history.record(key).is_none() {
                    history.import(key, of, Record { prior: true, ..record });
                }
            }
        });
    }

    /// A retreat has deleted what was remembered under these names.
    pub(crate) fn has_misled(&self, keys: Keys, now: Instant) {
        let mut refuted = locked(&self.0.refuted);
        for key in [keys.exact, keys.prefix] {
            refuted.insert(key, now);
        }
    }
}

struct Carried {
    memory: CarefulResume,
    key: Arc<dyn HandshakeTokenKey>,
    used: Arc<Mutex<Recent<Vec<u8>, ()>>>,
}

impl HandshakeTokenKey for Carried {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        let key = self.key.aead_from_hkdf(random_bytes);
        Box::new(Sealed { memory: self.memory.clone(), key, name: random_bytes.to_vec(), used: self.used.clone() })
    }
}

/// The key of one token, and its name.
struct Sealed {
    memory: CarefulResume,
    key: Box<dyn AeadKey>,
    name: Vec<u8>,
    used: Arc<Mutex<Recent<Vec<u8>, ()>>>,
}

impl AeadKey for Sealed {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        if let Some((remote, length)) = good_for(data)
            && length == data.len()
        {
            let now = self.memory.clock().moment(TokioRuntime.now());
            let record = self.memory.to_carry(now, remote);
            data.push(record.is_some().into());
            data.extend(record.unwrap_or([0; LENGTH]));
        }
        self.key.seal(data, additional_data)
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let plain = self.key.open(data, additional_data)?;
        let Some((remote, length)) = good_for(plain).filter(|(_, length)| length + ADDED == plain.len()) else {
            // Of a server that has this key and adds nothing, or of a Retry.
            return Ok(plain);
        };
        let (token, added) = plain.split_at_mut(length);
        let is_new = locked(&self.used).insert(self.name.clone(), ()).is_none();
        if is_new && added[0] == 1 {
            self.memory.bring(self.memory.clock().moment(TokioRuntime.now()), remote, &added[1..]);
        }
        Ok(token)
    }
}

/// The address that a token is good for, and its length without a record; `None` for those that quinn makes for other purposes.
fn good_for(token: &[u8]) -> Option<(IpAddr, usize)> {
    const MADE: usize = 8;
    match token {
        [OF_ADDRESS, 0, rest @ ..] => Some((IpAddr::from(*rest.first_chunk::<4>()?), 2 + 4 + MADE)),
        [OF_ADDRESS, 1, rest @ ..] => Some((IpAddr::from(*rest.first_chunk::<16>()?), 2 + 16 + MADE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
