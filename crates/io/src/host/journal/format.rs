//! What is in a journal: a line a record, each with a checksum, the same lines in two files.
//!
//! A line is sixteen hexadecimal digits, a space and JSON. The first is the head, which names the boot and the network namespace;
//! the others are `{"n":1,"will":CHANGE}` and `{"n":1,"undone":true}`. A checksum covers boot and namespace too (SipHash, siphasher), so
//! that a line by itself says whose it is. What one file has lost the other still says: a record counts if either has it whole.
//! Version 1, one file without checksums, is read and never written. Nothing here panics on any bytes.

use super::super::change::Change;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;

/// Version of the format.
const VERSION: u32 = 2;
/// The version without checksums and without a second file.
const PLAIN: u32 = 1;
/// Digits of a checksum.
const DIGITS: usize = 16;

/// Whose changes: those of a boot and a network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// The kernel's name for this boot (/proc/sys/kernel/random/boot_id).
    pub boot: String,
    /// The kernel's number of the network namespace; never used twice in a boot.
    pub netns: u64,
}

#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    #[serde(flatten)]
    here: Here,
}

#[derive(Serialize, Deserialize)]
struct Record {
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    will: Option<Change>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    undone: bool,
}

/// What a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Whether it is of another boot or namespace: what it names is gone.
    pub elsewhere: bool,
    /// The changes that are not undone, by number.
    pub live: BTreeMap<u64, Change>,
    /// Whether neither file is as it was written: there may have been changes that neither names.
    pub lost: bool,
    /// The number of the next change.
    pub(super) next: u64,
}

impl Contents {
    /// Those of a journal that begins.
    pub(super) fn none() -> Self {
        Self { elsewhere: false, live: BTreeMap::new(), lost: false, next: 1 }
    }

    /// Reads both files, of which one may be missing; none if either is of a later version.
    pub fn read(copies: [Option<&[u8]>; 2], own: &Here) -> Option<Self> {
        let mut copies: Vec<_> = copies.into_iter().flatten().map(|bytes| Copy::read(bytes, own)).collect();
        if copies.iter().any(|copy| copy.is_later) {
            return None;
        }
        let mut contents = Self::none();
        let known = copies.iter().filter_map(|copy| copy.of.as_ref()).count();
        copies.retain(|copy| copy.of.as_ref().is_none_or(|of| of == own));
        contents.elsewhere = known > 0 && copies.iter().all(|copy| copy.of.is_none() && copy.will.is_empty());
        contents.lost = !contents.elsewhere && !copies.iter().any(|copy| copy.is_sound);
        let undone: BTreeSet<u64> = copies.iter().flat_map(|copy| copy.undone.clone()).collect();
        contents.live.extend(copies.into_iter().flat_map(|copy| copy.will));
        contents.next = contents.live.keys().chain(&undone).max().map_or(1, |n| n.saturating_add(1));
        contents.live.retain(|n, _| !undone.contains(n));
        Some(contents)
    }

    /// The lines of a journal that says this.
    pub(super) fn written(&self, here: &Here) -> serde_json::Result<String> {
        let mut lines = sealed(here, &serde_json::to_string(&Head { version: VERSION, here: here.clone() })?);
        for (n, change) in &self.live {
            lines += &intended(here, *n, change)?;
        }
        Ok(lines)
    }
}

/// The line that says that a change will be made.
pub(super) fn intended(here: &Here, n: u64, change: &Change) -> serde_json::Result<String> {
    let record = Record { n, will: Some(change.clone()), undone: false };
    Ok(sealed(here, &serde_json::to_string(&record)?))
}

/// The line that says that a change is undone.
pub(super) fn undone(here: &Here, n: u64) -> serde_json::Result<String> {
    Ok(sealed(here, &serde_json::to_string(&Record { n, will: None, undone: true })?))
}

/// Whether these are of version 1: nothing may be added to them.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'{')
}

fn sealed(here: &Here, text: &str) -> String {
    format!("{:0DIGITS$x} {text}\n", sum(here, text.as_bytes()))
}

/// The text of a line that is as it was written, in the boot and namespace of `here`.
fn unsealed<'a>(here: &Here, line: &'a [u8]) -> Option<&'a [u8]> {
    let (digits, text) = parted(line)?;
    (digits == format!("{:0DIGITS$x}", sum(here, text)).as_bytes()).then_some(text)
}

fn parted(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (digits, rest) = line.split_at_checked(DIGITS)?;
    Some((digits, rest.strip_prefix(b" ")?))
}

fn sum(here: &Here, text: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(here.boot.as_bytes());
    hasher.write(&here.netns.to_le_bytes());
    hasher.write(text);
    hasher.finish()
}

/// What one file says.
struct Copy {
    /// Whose it is; none if its head is damaged.
    of: Option<Here>,
    is_later: bool,
    /// Whether every byte of it is as it was written.
    is_sound: bool,
    will: BTreeMap<u64, Change>,
    undone: BTreeSet<u64>,
}

impl Copy {
    fn read(bytes: &[u8], own: &Here) -> Self {
        let (mut of, mut is_later) = (None, false);
        // What follows the last end of a line was cut: in version 1 it belongs to a change that was never made.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let plain = is_plain(bytes);
        let mut lines = bytes[..end].split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1]);
        let first = lines.next().unwrap_or_default();
        let text = if plain { Some(first) } else { parted(first).map(|(_, text)| text) };
        if let Some(head) = text.and_then(|text| serde_json::from_slice::<Head>(text).ok()) {
            let whole = plain || unsealed(&head.here, first).is_some();
            is_later = whole && head.version > VERSION;
            of = (whole && head.version == if plain { PLAIN } else { VERSION }).then_some(head.here);
        }
        let mut is_sound = of.is_some() && (plain || end == bytes.len());
        let (mut will, mut undone) = (BTreeMap::new(), BTreeSet::new());
        let key = of.as_ref().unwrap_or(own);
        for line in lines {
            // Without its head nothing vouches for a line of version 1.
            let text = if plain { of.as_ref().map(|_| line) } else { unsealed(key, line) };
            match text.and_then(|text| serde_json::from_slice::<Record>(text).ok()) {
                Some(Record { n, will: Some(change), undone: false }) => _ = will.insert(n, change),
                Some(Record { n, will: None, undone: true }) => _ = undone.insert(n),
                _ => is_sound = false,
            }
        }
        Self { of, is_later, is_sound, will, undone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Numbers;
    use crate::host::change::{rule::Rule, sysctl::Sysctl};
    use proptest::prelude::*;

    fn here() -> Here {
        Here { boot: "b".into(), netns: 7 }
    }

    fn rule(family: u8) -> Change {
        Change::Rule(Rule::new(family, Numbers { table: 18515, priority: 32765 }))
    }

    /// A journal of four changes, of which one is undone.
    fn journal() -> (Vec<u8>, BTreeMap<u64, Change>) {
        let value = Change::Sysctl(Sysctl::new("net/ipv4/ip_forward", "1"));
        let mut text = Contents::none().written(&here()).unwrap();
        let all = [(1, rule(2)), (2, value.clone()), (3, rule(10)), (4, value)];
        for (n, change) in &all {
            text += &intended(&here(), *n, change).unwrap();
        }
        text += &undone(&here(), 3).unwrap();
        (text.into(), all.into_iter().filter(|(n, _)| *n != 3).collect())
    }

    fn read(one: Option<&[u8]>, other: Option<&[u8]>) -> Contents {
        Contents::read([one, other], &here()).unwrap()
    }

    /// Whatever happened to one file, in either place, the other says everything.
    fn must_be_made_good(damaged: Option<&[u8]>, what: &str) {
        let (whole, live) = journal();
        for (one, other) in [(damaged, Some(&*whole)), (Some(&*whole), damaged)] {
            let contents = read(one, other);
            assert_eq!(contents.live, live, "{what}");
            assert!(!contents.lost && !contents.elsewhere, "{what}");
        }
    }

    #[test]
    fn any_byte_of_either_file_may_be_damaged_or_lost() {
        let (whole, _) = journal();
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                must_be_made_good(Some(&damaged), &format!("byte {at} is {byte}"));
            }
            must_be_made_good(Some(&whole[..at]), &format!("cut at {at}"));
            let without = [&whole[..at], &whole[at + 1..]].concat();
            must_be_made_good(Some(&without), &format!("without byte {at}"));
            let zeroed = [&whole[..at], &vec![0; whole.len() - at]].concat();
            must_be_made_good(Some(&zeroed), &format!("zeroed from {at}"));
        }
        must_be_made_good(None, "removed");
    }

    #[test]
    fn with_one_file_alone_every_damage_is_seen_and_no_whole_line_is_lost() {
        let (whole, live) = journal();
        assert_eq!(read(Some(&whole), None), Contents { live: live.clone(), next: 5, ..Contents::none() });
        for at in 0..whole.len() {
            for flip in [1, 0x20, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                let contents = read(Some(&damaged), None);
                assert!(contents.lost, "byte {at} ^ {flip}");
                // The line that is hit, and the next one if its end is hit, are all that is missing.
                assert!(live.keys().filter(|n| !contents.live.contains_key(n)).count() <= 2, "byte {at} ^ {flip}");
            }
            let cut = read(Some(&whole[..at]), None);
            assert_eq!(cut.lost, at == 0 || whole[at - 1] != b'\n', "cut at {at}");
        }
        for nothing in [&[][..], &[0; 500], b"\n", b"hello\n", b"{}\n"] {
            let contents = read(Some(nothing), None);
            assert!(contents.lost && contents.live.is_empty() && !contents.elsewhere, "{nothing:?}");
        }
    }

    #[test]
    fn what_both_files_have_lost_is_known_to_be_lost() {
        let (whole, live) = journal();
        let last = whole.len() - 2;
        let (mut one, mut other) = (whole.clone(), whole);
        (one[3], other[last]) = (0, 0);
        let contents = read(Some(&one), Some(&other));
        assert!(contents.lost && contents.live == live, "each makes good for the other, but nothing vouches for both");
        let mut heads = [one.clone(), one];
        heads[1][40] ^= 1;
        let contents = read(Some(&heads[0]), Some(&heads[1]));
        assert!(contents.live == live && contents.lost, "lines say whose they are without a head");
    }

    #[test]
    fn what_is_of_another_boot_is_not_undone_and_a_later_version_is_not_guessed() {
        let (whole, live) = journal();
        let other = Here { boot: "c".into(), netns: 7 };
        let old = Contents::read([Some(&whole), None], &other).unwrap();
        assert!(old.elsewhere && old.live.is_empty() && !old.lost);
        // A new journal beside the rest of an old one.
        let mut fresh = Contents::none();
        fresh.live.insert(1, rule(2));
        let fresh = fresh.written(&other).unwrap();
        for copies in [[Some(&*whole), Some(fresh.as_bytes())], [Some(fresh.as_bytes()), Some(&*whole)]] {
            let contents = Contents::read(copies, &other).unwrap();
            assert!(!contents.elsewhere && !contents.lost && contents.live == [(1, rule(2))].into());
        }
        // Without a head, nothing of another boot is taken for this one's.
        let mut headless = whole.clone();
        headless[3] = 0;
        let contents = Contents::read([Some(&headless), None], &other).unwrap();
        assert!(contents.lost && contents.live.is_empty());
        let later = sealed(&here(), "{\"version\":3,\"boot\":\"b\",\"netns\":7}");
        assert_eq!(Contents::read([Some(&whole), Some(later.as_bytes())], &here()), None);
        assert_eq!(Contents::read([Some(b"{\"version\":9,\"boot\":\"b\",\"netns\":7}\n"), None], &here()), None);
        assert_eq!(read(Some(&whole), None).live, live);
    }

    #[test]
    fn a_journal_of_version_one_is_read() {
        let rule = "{\"n\":1,\"will\":{\"kind\":\"rule\",\"family\":2,\"table\":18515,\"priority\":32765}}\n";
        let text = format!(
            "{{\"version\":1,\"boot\":\"b\",\"netns\":7}}\n{rule}{}{{\"n\":2,\"undone\":true}}\n{{\"n\":3,\"wi",
            rule.replacen('1', "2", 1)
        );
        let contents = read(Some(text.as_bytes()), None);
        assert_eq!((contents.live.len(), contents.lost, contents.next), (1, false, 3), "a cut end is no damage there");
        let damaged = text.replacen("undone", "undome", 1);
        let contents = read(Some(damaged.as_bytes()), None);
        assert_eq!((contents.live.len(), contents.lost), (2, true));
        let headless = text.replacen("version", "versiom", 1);
        assert!(read(Some(headless.as_bytes()), None).lost);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_journal_or_none(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            text in ".{0,300}",
            cut in 0usize..400,
        ) {
            let good = Contents::none().written(&here()).unwrap() + &text + "\n";
            let copies = [bytes.as_slice(), text.as_bytes(), &good.as_bytes()[..cut.min(good.len())]];
            for one in copies {
                for other in copies {
                    let _ = Contents::read([Some(one), Some(other)], &here());
                }
            }
        }

        #[test]
        fn damage_anywhere_in_both_never_undoes_what_was_not_written(hits in proptest::collection::vec((0usize..700, any::<u8>()), 1..40)) {
            let (whole, live) = journal();
            let mut copies = [whole.clone(), whole];
            for (n, (at, byte)) in hits.into_iter().enumerate() {
                let copy = &mut copies[n % 2];
                let length = copy.len();
                copy[at % length] = byte;
            }
            let contents = read(Some(&copies[0]), Some(&copies[1]));
            // The note that the third is undone may be lost; it is then undone once more.
            prop_assert!(contents.live.iter().all(|(n, change)| *n == 3 || live.get(n) == Some(change)));
            prop_assert!(contents.lost || live.keys().all(|n| contents.live.contains_key(n)));
        }
    }
}
