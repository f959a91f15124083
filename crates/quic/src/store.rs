//! With what a history begins: a clock, a secret, and records that were kept. Where bytes are kept is the program's business.

use crate::{CarefulResume, Clock};
use headstart_core::cwnd::history::{Key, LENGTH, Record};
use headstart_core::time::Duration;
use quinn::{Runtime as _, TokioRuntime};
use std::hash::{BuildHasher as _, RandomState};

/// The first bytes of a store.
const MAGIC: &[u8; 8] = b"hsquic01";
/// Bytes of the secret.
const SECRET: usize = 16;
/// Bytes of a record with its key and that of its prefix; a prefix has its own key twice.
const KEPT: usize = 8 + 8 + LENGTH;

/// Bytes that are no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAStore;

impl std::fmt::Display for NotAStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a store of paths: start with Store::memory()")
    }
}

impl std::error::Error for NotAStore {}

/// With what a history begins.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) clock: Clock,
    pub(crate) secret: [u8; SECRET],
    pub(crate) records: Vec<(Key, Option<Key>, Record)>,
}

impl Store {
    /// Nothing yet, for as long as the process lives.
    pub fn memory() -> Self {
        Self::new(Clock::new(TokioRuntime.now(), Duration::ZERO), random())
    }

    /// Nothing yet, by this clock and this secret: 16 random bytes that the installation keeps to itself.
    pub fn new(clock: Clock, secret: [u8; SECRET]) -> Self {
        Self { clock, secret, records: Vec::new() }
    }

    /// What [`CarefulResume::to_bytes`] made earlier; nothing yet if there are no bytes. `since_1970` is what the wall clock says
    /// now: records age between processes. Records that cannot be used are left out.
    pub fn from_bytes(kept: &[u8], since_1970: Duration) -> Result<Self, NotAStore> {
        let clock = Clock::new(TokioRuntime.now(), since_1970);
        if kept.is_empty() {
            return Ok(Self::new(clock, random()));
        }
        let kept = kept.strip_prefix(MAGIC).ok_or(NotAStore)?;
        let (secret, kept) = kept.split_first_chunk().ok_or(NotAStore)?;
        if kept.len() % KEPT != 0 {
            return Err(NotAStore);
        }
        let now = clock.moment(TokioRuntime.now());
        let word = |bytes: &[u8], at: usize| Key(u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k])));
        let records = kept.chunks_exact(KEPT).filter_map(|bytes| {
            let (key, of) = (word(bytes, 0), word(bytes, 8));
            Some((key, (of != key).then_some(of), Record::decode(&bytes[16..], now).ok()?))
        });
        Ok(Self { records: records.collect(), ..Self::new(clock, *secret) })
    }
}

/// Two keyed hashes: the standard library draws its keys from the system.
fn random() -> [u8; SECRET] {
    let state = RandomState::new();
    let words = [state.hash_one(0u8), state.hash_one(1u8)].map(u64::to_le_bytes);
    std::array::from_fn(|k| words[k / 8][k % 8])
}

impl CarefulResume {
    /// The history as bytes, to be kept as private as a key: for [`Store::from_bytes`]. Its clock must be one of
    /// [`Store::from_bytes`], too.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &self.secret()].concat();
        self.with(|history| {
            for (key, of, record) in history.records() {
                bytes.extend(key.0.to_le_bytes());
                bytes.extend(of.unwrap_or(key).0.to_le_bytes());
                bytes.extend(record.encode());
            }
        });
        bytes
    }
}
