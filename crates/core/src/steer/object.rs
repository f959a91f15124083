//! What is known of an object before it is asked for: how large it was before, and how urgent its request says it is.
//!
//! For policies that choose by objects ([`super::policy::Policy::object`]). Sizes are those of answers that have come; the urgency
//! is read from the request's own words (RFC 9218, section 4.1). What never happens here: a body is looked into.

use std::collections::HashMap;

/// The urgency of a request that says nothing: RFC 9218, section 4.1.
pub const URGENCY: u8 = 3;
/// The least urgent one.
const LEAST_URGENT: u8 = 7;
/// Objects of a generation; two of them are kept. Ours: some 200 bytes each at most, far less than a browser's cache.
const GENERATION: usize = 16_384;

/// Sizes of objects that have come, by a key that the caller chooses; of a bounded number of objects.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
}

impl Sizes {
    /// What an object is expected to have: none if it has never come.
    pub fn expect(&self, key: u64) -> Option<u64> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    /// An object came with so many bytes. What is expected rises at once and falls by halves: an object that is larger than
    /// expected costs a thin channel more than a smaller one gains.
    pub fn learn(&mut self, key: u64, bytes: u64) {
        let known = self.expect(key).unwrap_or(bytes);
        let expected = if bytes >= known { bytes } else { known - (known - bytes).div_ceil(2) };
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, expected);
    }

    /// What another run has learned: known as long as nothing newer is, and as there is room.
    pub fn recall(&mut self, key: u64, bytes: u64) {
        if self.old.len() < GENERATION && self.expect(key).is_none() {
            self.old.insert(key, bytes);
        }
    }

    /// What every object is expected to have, by its key; those that came last first, else in no order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.young.iter().chain(&self.old).map(|(key, bytes)| (*key, *bytes))
    }

    /// Objects that are known.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// No object is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The urgency in a `Priority` header, 0 (first) to 7; none if it names none. What it says besides is ignored, and so is the whole
/// of it if the urgency is none (RFC 9218, section 4): a dictionary of RFC 8941 whose last `u` counts.
pub fn urgency(priority: &[u8]) -> Option<u8> {
    let mut last = None;
    for member in split_outside_strings(priority) {
        let member = member.trim_ascii();
        let Some(value) = member.strip_prefix(b"u") else { continue };
        // Parameters of the member say nothing to us.
        let value = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
        match value {
            [b'=', digit @ b'0'..=b'9'] => last = Some(digit - b'0').filter(|u| *u <= LEAST_URGENT),
            [] | [b'=', ..] => last = None,
            // Another key that begins alike.
            _ => {}
        }
    }
    last
}

/// Members of a dictionary: what stands between commas that are in no string.
fn split_outside_strings(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |byte| {
        match (quoted, escaped, *byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, _, b'"') => quoted = !quoted,
            _ => {}
        }
        !quoted && *byte == b','
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_is_expected_to_be_as_large_as_it_was_and_a_smaller_one_is_believed_slowly() {
        let mut sizes = Sizes::default();
        assert_eq!((sizes.expect(1), sizes.is_empty()), (None, true));
        sizes.learn(1, 2_000);
        assert_eq!((sizes.expect(1), sizes.expect(2), sizes.is_empty()), (Some(2_000), None, false));
        sizes.learn(1, 50_000);
        assert_eq!(sizes.expect(1), Some(50_000));
        sizes.learn(1, 2_000);
        assert_eq!(sizes.expect(1), Some(26_000));
        for _ in 0..20 {
            sizes.learn(1, 2_000);
        }
        assert_eq!(sizes.expect(1), Some(2_000));
    }

    #[test]
    fn a_million_objects_take_bounded_room_and_who_comes_again_stays() {
        let mut sizes = Sizes::default();
        sizes.learn(u64::MAX, 7);
        for key in 0..1_000_000 {
            sizes.learn(key, key);
            if key % 10_000 == 0 {
                sizes.learn(u64::MAX, 7);
            }
        }
        assert!(sizes.len() <= 2 * GENERATION, "{}", sizes.len());
        assert_eq!((sizes.expect(u64::MAX), sizes.expect(999_999), sizes.expect(3)), (Some(7), Some(999_999), None));
    }

    #[test]
    fn what_another_run_has_learned_is_known_and_gives_way_to_what_comes() {
        let mut before = Sizes::default();
        before.learn(1, 700);
        before.learn(2, 9_000);
        let mut sizes = Sizes::default();
        sizes.learn(2, 100);
        before.entries().for_each(|(key, bytes)| sizes.recall(key, bytes));
        assert_eq!((sizes.expect(1), sizes.expect(2), sizes.len()), (Some(700), Some(100), 2));
        (0..1_000_000).for_each(|key| sizes.recall(key, 1));
        assert!(sizes.len() <= GENERATION + 1);
    }

    #[test]
    fn the_urgency_is_read_and_what_is_none_is_none() {
        let said = [
            ("u=0", Some(0)),
            ("u=5, i", Some(5)),
            (" i , u=1;q=2 ", Some(1)),
            ("u=1, u=6", Some(6)),
            ("x=\"u=0, \\\" u=0\", u=4", Some(4)),
            ("u=2, x=\"a, u=5\"", Some(2)),
            ("", None),
            ("i", None),
            ("u", None),
            ("u=8", None),
            ("u=12", None),
            ("u=-1", None),
            ("u=\"1\"", None),
            ("urgent=1", None),
            ("u=1, u=high", None),
        ];
        for (text, urgent) in said {
            assert_eq!(urgency(text.as_bytes()), urgent, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_urgency_of_eight_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(urgency(&bytes).is_none_or(|u| u <= LEAST_URGENT));
        }
    }
}
