//! Where records lie: one array, an index by key, and a list in the order of their last use. A lookup is one probe.

use super::record::Record;
use super::{Key, Settings};
use crate::time::Instant;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// No slot.
const NONE: u32 = u32::MAX;

/// Keys are hashes already, by a secret: they need no second one.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[derive(Debug)]
struct Slot {
    key: Key,
    /// The prefix that an address belongs to; its own key for a prefix.
    of: Key,
    record: Record,
    /// Neighbours in the order of use, toward newer and older.
    newer: u32,
    older: u32,
}

/// The records. See the module.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    index: HashMap<Key, u32, BuildHasherDefault<AsIs>>,
    /// Which connection leases which record, and until when. Leases are few, however many records there are.
    leases: HashMap<Key, (u64, Instant), BuildHasherDefault<AsIs>>,
    /// Addresses of a prefix that have slots, whether the prefix has one or not.
    members: HashMap<Key, u16, BuildHasherDefault<AsIs>>,
    newest: u32,
    oldest: u32,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            index: HashMap::default(),
            leases: HashMap::default(),
            members: HashMap::default(),
            newest: NONE,
            oldest: NONE,
        }
    }
}

impl Slots {
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes on the heap: hashbrown keeps a control byte an entry, and an eighth free.
    pub fn bytes(&self) -> usize {
        let entries = |capacity: usize, size: usize| (capacity * 8 / 7).next_power_of_two() * (size + 1);
        self.slots.capacity() * size_of::<Slot>()
            + entries(self.index.capacity(), size_of::<(Key, u32)>())
            + entries(self.members.capacity(), size_of::<(Key, u16)>())
            + entries(self.leases.capacity(), size_of::<(Key, (u64, Instant))>())
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&Record> {
        self.slots.get(*self.index.get(&key)? as usize).map(|slot| &slot.record)
    }

    /// Puts a record in and makes it the newest. `of`: the prefix, for an address; without it, the key is a prefix. What
    /// finds no place within the quotas is not kept.
    pub fn put(&mut self, key: Key, of: Option<Key>, record: Record, settings: &Settings) {
        if let Some(&at) = self.index.get(&key) {
            self.slots[at as usize].record = record;
            self.touch(at);
            return;
        }
        // A prefix has so many members at most: one site cannot push out the world.
        if of.is_some_and(|of| self.members(of) >= settings.of_prefix) {
            return;
        }
        let quota = settings.quota.min(NONE as usize - 1);
        if quota == 0 {
            return;
        }
        while self.slots.len() >= quota {
            let Some(oldest) = self.slots.get(self.oldest as usize).map(|slot| slot.key) else { return };
            self.remove(oldest);
        }
        let at = self.slots.len() as u32;
        // Doubling beyond what is needed would waste half of the memory at the quota.
        if self.slots.len() == self.slots.capacity() {
            let more = (self.slots.len() / 4).clamp(64, quota.saturating_sub(self.slots.len()).max(64));
            self.slots.reserve_exact(more);
        }
        if let Some(of) = of {
            *self.members.entry(of).or_default() += 1;
        }
        self.slots.push(Slot { key, of: of.unwrap_or(key), record, newer: NONE, older: NONE });
        self.index.insert(key, at);
        self.link(at);
    }

    pub fn remove(&mut self, key: Key) {
        let Some(at) = self.index.remove(&key) else { return };
        self.leases.remove(&key);
        self.unlink(at);
        let gone = self.slots.swap_remove(at as usize);
        if gone.of != key
            && let Some(members) = self.members.get_mut(&gone.of)
        {
            *members -= 1;
            if *members == 0 {
                self.members.remove(&gone.of);
            }
        }
        // The last has moved into the gap.
        if let Some(moved) = self.slots.get(at as usize) {
            let (key, newer, older) = (moved.key, moved.newer, moved.older);
            self.index.insert(key, at);
            match self.slots.get_mut(newer as usize) {
                Some(newer) => newer.older = at,
                None => self.newest = at,
            }
            match self.slots.get_mut(older as usize) {
                Some(older) => older.newer = at,
                None => self.oldest = at,
            }
        }
    }

    /// Leases the record of `key` to `serial`, if no connection holds it at `now`.
    pub fn lease(&mut self, key: Key, now: Instant, until: Instant, serial: u64) -> bool {
        if !self.index.contains_key(&key) || self.leases.get(&key).is_some_and(|(_, until)| now < *until) {
            return false;
        }
        self.leases.insert(key, (serial, until));
        true
    }

    pub fn release(&mut self, key: Key, serial: u64) {
        if self.leases.get(&key).is_some_and(|(holder, _)| *holder == serial) {
            self.leases.remove(&key);
        }
    }

    /// Keeps what `wanted` says; how many went.
    pub fn retain(&mut self, wanted: impl Fn(&Record) -> bool) -> usize {
        let gone: Vec<Key> = self.slots.iter().filter(|slot| !wanted(&slot.record)).map(|slot| slot.key).collect();
        for key in &gone {
            self.remove(*key);
        }
        gone.len()
    }

    /// Addresses of the prefix `of` that have slots.
    pub fn members(&self, of: Key) -> u16 {
        self.members.get(&of).copied().unwrap_or(0)
    }

    /// The oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Option<Key>, &Record)> + '_ {
        std::iter::successors(self.slots.get(self.oldest as usize), |slot| self.slots.get(slot.newer as usize))
            .map(|slot| (slot.key, (slot.of != slot.key).then_some(slot.of), &slot.record))
    }

    /// Makes the record of `key` the newest.
    pub fn touch_key(&mut self, key: Key) {
        if let Some(&at) = self.index.get(&key) {
            self.touch(at);
        }
    }

    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.newer, slot.older) = (NONE, older);
        }
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some((newer, older)) = self.slots.get(at as usize).map(|slot| (slot.newer, slot.older)) else { return };
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Medium, Outcome, Sample};
    use super::*;
    use crate::time::Duration;

    fn record() -> Record {
        let sample = Sample {
            window: 1,
            carried: 1,
            rtt: Duration::from_millis(1),
            rate: 1,
            loss: 0.0,
            limited: false,
            shared: false,
            outcome: Outcome::Clean,
            medium: Medium::Wired,
        };
        Record::first(Instant::ZERO, &sample)
    }

    /// Numbers that lie apart from each other as hashes do.
    fn key(n: u64) -> Key {
        Key(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn what_a_thousand_addresses_take_is_counted_to_the_byte() {
        let (mut slots, settings) = (Slots::default(), Settings::default());
        for n in 1..=1000 {
            slots.put(key(n), Some(key(10_000 + n % 20)), record(), &settings);
        }
        (1..=10).for_each(|n| assert!(slots.lease(key(n), Instant::ZERO, Instant::FAR_FUTURE, n)));
        assert_eq!((slots.len(), slots.members(key(10_001))), (1000, 50));
        // 2048, 32 and 16 places of 16, 16 and 24 bytes, each with a byte that says what is in it.
        let tables = 2048 * 17 + 32 * 17 + 16 * 25;
        assert_eq!(slots.bytes() - tables, slots.slots.capacity() * size_of::<Slot>());
        assert!((1000..=1250).contains(&slots.slots.capacity()), "{}", slots.slots.capacity());
    }

    #[test]
    fn names_that_differ_in_any_byte_differ() {
        let hash = |bytes: &[u8]| {
            let mut hasher = AsIs::default();
            hasher.write(bytes);
            hasher.finish()
        };
        for at in 0..9 {
            let mut other = [1; 9];
            other[at] = 0;
            assert_ne!(hash(&[1; 9]), hash(&other), "{at}");
        }
    }
}
