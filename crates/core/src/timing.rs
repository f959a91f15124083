//! How long things took, as histograms: by program, address family and outcome. Counted where it happens, read by whatever
//! shows it; nothing is decided by it.
//!
//! Memory is bounded: programs beyond [`MAX_PROGRAMS`] share the name [`OTHERS`]. A program that has its own name keeps it,
//! so that no count ever goes down.

use crate::path::Family;
use crate::time::Duration;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Programs that are distinguished.
pub const MAX_PROGRAMS: usize = 50;
/// The name of all further ones.
pub const OTHERS: &str = "(others)";
/// Upper bounds of buckets, in seconds: from a cache's answer to what people give up on, each about twice the one before.
pub const BOUNDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Fine buckets are powers of 2^(1/8), 9 % apart: schema 3 of Prometheus's native histograms. Bucket `n` has what is above
/// 2^((n-1)/8) seconds and not above 2^(n/8).
pub const SCHEMA: i32 = 3;
/// The first and the last of them: 61 us, below which all is [`BELOW`], to 512 s, above which all is in the last.
const FINE: [i16; 2] = [-111, 72];
/// The number of the bucket for what is shorter than all others.
pub const BELOW: i16 = FINE[0] - 1;
/// Its upper bound in seconds.
pub const BELOW_BOUND: f64 = 1.0 / 16_384.0;

/// The fine bucket of a duration in seconds.
fn fine(seconds: f64) -> i16 {
    let bound = |n: i16| (f64::from(n) / 8.0).exp2();
    if seconds <= BELOW_BOUND {
        return BELOW;
    }
    // The logarithm may be off by a bucket where it is nearly whole.
    let least = ((seconds.log2() * 8.0).ceil() - 1.0).clamp(f64::from(FINE[0]), f64::from(FINE[1])) as i16;
    (least..FINE[1]).find(|n| seconds <= bound(*n)).unwrap_or(FINE[1])
}

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum What {
    /// A program waited for addresses (getaddrinfo).
    Lookup,
    /// A program waited for a connection.
    Connect,
    /// The handshake of a connection, waited for or not.
    Handshake,
    /// A DNS exchange of a measured program.
    MeasuredLookup,
    /// A connection of a measured program, from its SYN to the answer or the failure.
    MeasuredConnect,
    /// From the last byte of a measured program's request to its acknowledgement.
    MeasuredRequest,
}

/// What a histogram is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Key {
    /// What was timed.
    pub what: What,
    /// The program.
    pub program: String,
    /// The address family; `None` where there is none.
    pub family: Option<Cow<'static, str>>,
    /// How it ended: `ok`, or a word for what it came to instead.
    pub outcome: Cow<'static, str>,
}

/// Durations, counted by bucket.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Histogram {
    /// Durations of each bucket; the last one is for those above every bound.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
    /// The same durations in fine buckets (see [`SCHEMA`]), those that have any; one of an older process has none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub fine: BTreeMap<i16, u64>,
}

impl Histogram {
    /// Counts a duration.
    pub fn note(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.buckets[BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len())] += 1;
        self.sum += took;
        *self.fine.entry(fine(seconds)).or_default() += 1;
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum += other.sum;
        other.fine.iter().for_each(|(n, count)| *self.fine.entry(*n).or_default() += count);
    }
}

/// A histogram and what it is about, to be handed on.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timed {
    /// What it is about.
    pub key: Key,
    /// The durations.
    pub histogram: Histogram,
}

/// Histograms and counts of programs.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    programs: BTreeSet<String>,
    histograms: BTreeMap<Key, Histogram>,
    counts: BTreeMap<(String, String), u64>,
}

impl Timings {
    /// Counts how long something took.
    pub fn note(&mut self, what: What, program: &str, family: Option<Family>, outcome: &'static str, took: Duration) {
        let program = self.program(program);
        let family = family.map(|family| {
            Cow::Borrowed(match family {
                Family::V4 => "IPv4",
                Family::V6 => "IPv6",
            })
        });
        self.histograms.entry(Key { what, program, family, outcome: Cow::Borrowed(outcome) }).or_default().note(took);
    }

    /// Adds to a count of a program.
    pub fn count(&mut self, program: &str, what: &str, n: u64) {
        let program = self.program(program);
        *self.counts.entry((program, what.to_owned())).or_default() += n;
    }

    /// Adds what was handed on.
    pub fn add(&mut self, timed: &Timed) {
        let program = self.program(&timed.key.program);
        self.histograms.entry(Key { program, ..timed.key.clone() }).or_default().add(&timed.histogram);
    }

    /// The name under which a program is counted.
    fn program(&mut self, name: &str) -> String {
        if !self.programs.contains(name) {
            if self.programs.len() >= MAX_PROGRAMS {
                return OTHERS.to_owned();
            }
            self.programs.insert(name.to_owned());
        }
        name.to_owned()
    }

    /// All histograms, in the order of their keys.
    pub fn snapshot(&self) -> Vec<Timed> {
        let all = self.histograms.iter();
        all.map(|(key, histogram)| Timed { key: key.clone(), histogram: histogram.clone() }).collect()
    }

    /// All counts: the program, what was counted, how many.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.counts.iter().map(|((program, what), n)| (program.as_str(), what.as_str(), *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::default();
        [0, 1, 2, 30_000, 30_001].map(Duration::from_millis).into_iter().for_each(|took| histogram.note(took));
        assert_eq!(histogram.buckets[..2], [2, 1]);
        assert_eq!(histogram.buckets[BOUNDS.len() - 1..], [1, 1]);
        assert_eq!((histogram.count(), histogram.sum), (5, Duration::from_millis(60_004)));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.count(), twice.buckets[0], twice.sum), (10, 4, 2 * histogram.sum));
    }

    #[test]
    fn a_fine_bucket_holds_what_is_above_the_one_before_and_not_above_its_own_bound() {
        for n in FINE[0]..FINE[1] {
            let bound = (f64::from(n) / 8.0).exp2();
            assert_eq!((fine(bound), fine(bound * 1.000_001)), (n, n + 1), "{n}");
        }
        assert_eq!([0.0, 1e-9, BELOW_BOUND].map(fine), [BELOW; 3]);
        assert_eq!([512.0, 1e9].map(fine), [FINE[1]; 2]);
        let mut histogram = Histogram::default();
        [0, 10, 10, 20].map(Duration::from_millis).into_iter().for_each(|took| histogram.note(took));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(twice.fine.values().sum::<u64>(), twice.count());
        // 10 ms and 20 ms are a factor of two, eight buckets, apart.
        let [below, ten, twenty] = twice.fine.iter().collect::<Vec<_>>()[..] else { panic!("{twice:?}") };
        assert_eq!([(*below.0, *below.1), (*twenty.0, *twenty.1)], [(BELOW, 2), (ten.0 + 8, 2)]);
        assert_eq!(*ten.1, 4);
    }

    #[test]
    fn programs_beyond_the_bound_share_a_name_and_those_within_keep_theirs() {
        let mut timings = Timings::default();
        for n in 0..MAX_PROGRAMS + 20 {
            timings.note(What::Connect, &format!("app{n}"), Some(Family::V6), "ok", Duration::ZERO);
            timings.count(&format!("app{n}"), "bytes", 3);
        }
        timings.note(What::Connect, "app0", Some(Family::V6), "ok", Duration::ZERO);
        let key = Key { what: What::Lookup, program: "app80".into(), family: None, outcome: "ok".into() };
        let mut histogram = Histogram::default();
        histogram.note(Duration::ZERO);
        timings.add(&Timed { key, histogram });
        let told = timings.snapshot();
        let count =
            |name: &str| told.iter().find(|timed| timed.key.program == name).map(|timed| timed.histogram.count());
        assert_eq!((count("app0"), count(OTHERS), count("app60")), (Some(2), Some(1), None));
        let connects = told.iter().find(|timed| timed.key.what == What::Connect && timed.key.program == OTHERS);
        assert_eq!(connects.map(|timed| timed.histogram.count()), Some(20));
        assert_eq!(told.len(), MAX_PROGRAMS + 2);
        assert_eq!(timings.counts().map(|(_, _, n)| n).sum::<u64>(), 3 * (MAX_PROGRAMS as u64 + 20));
    }
}
