//! What was seen while a page was open, as a time series: every second of the last hour, every ten of the last half day, every minute
//! of the last three days, every ten minutes of the last thirty (docs/decisions/0098).
//!
//! It is fed with the looks that pages ask for, so that nothing wakes up for it: where no page was open there is a gap. Counts are
//! differences between two looks, and what a supervisor had counted before the first one is left out.

use crate::observe::Sources;
use headstart_core::time::Instant;
use headstart_core::timing::{BOUNDS, What};
use headstart_io::clock::{Clock, wall};
use headstart_io::store::Series;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

/// Seconds that a summary covers, and how many are kept.
const LEVELS: [(u64, u64); 4] = [(1, 3600), (10, 4320), (60, 4320), (600, 4320)];
/// Summaries that an answer has at most, more or less.
const MOST_POINTS: u64 = 1500;
/// Bytes of a summary on the disk, more or less, and of these what is left for programs that share a line. With all summaries there, this
/// bounds the file.
const MOST_BYTES: usize = 800;
const OF_OTHERS: usize = 400;
/// What programs are called that share a line.
const OTHERS: &str = "(others)";
/// Between two times that something is written.
const EVERY: Duration = Duration::from_secs(10);

/// Of a second, or of more: sums, which can be added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Summary {
    /// Lookups, connections, of these ready at once; connections that failed.
    #[serde(rename = "c", default)]
    counts: [u64; 4],
    /// Sums and numbers of readings, by what was read.
    #[serde(rename = "g", default)]
    gauges: BTreeMap<String, (f64, u32)>,
    #[serde(rename = "p", default)]
    programs: BTreeMap<String, Program>,
    /// The network that the host was on last.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    network: Option<String>,
}

/// What a program did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Program {
    /// Durations by bucket, of what was timed by number; empty ones at the end are left out.
    #[serde(rename = "t", default)]
    timed: BTreeMap<u8, Vec<u64>>,
    /// Bytes down and up, and retransmitted segments.
    #[serde(rename = "b", default)]
    bytes: [u64; 3],
}

/// What is timed, by number. Numbers are on disks: they stay.
const TIMED: [(What, &str); 5] = [
    (What::Lookup, "lookup"),
    (What::Connect, "connect"),
    (What::Handshake, "handshake"),
    (What::MeasuredConnect, "measured_connect"),
    (What::MeasuredLookup, "measured_lookup"),
];
const BYTES: [&str; 3] = ["down_bytes", "up_bytes", "retransmissions"];
const COUNTS: [&str; 4] = ["lookups", "connections", "at_once", "failed"];

/// Counts as they were at a look.
#[derive(Clone, Debug, Default)]
struct Totals {
    supervisor: Option<u32>,
    counts: [u64; 4],
    timed: BTreeMap<(String, u8), Vec<u64>>,
    measured: BTreeMap<(String, u8), Vec<u64>>,
    bytes: BTreeMap<(String, usize), u64>,
}

/// The series. See the module.
#[derive(Debug)]
pub struct Past {
    levels: [BTreeMap<u64, Summary>; LEVELS.len()],
    /// What is not on the disk yet.
    dirty: BTreeSet<(u8, u64)>,
    before: Option<Totals>,
    looked: Option<Instant>,
    store: Option<Series>,
    clock: Clock,
    written: Instant,
    notes: Vec<String>,
}

impl Past {
    /// With what is kept in `store`.
    pub fn new(mut store: Option<Series>) -> Self {
        let mut levels: [BTreeMap<u64, Summary>; LEVELS.len()] = Default::default();
        let mut notes = Vec::new();
        if let Some(store) = &mut store {
            store.lock();
            for ((level, start), bytes) in store.load() {
                if let (Some(level), Ok(summary)) = (levels.get_mut(usize::from(level)), serde_json::from_slice(&bytes))
                {
                    level.insert(start, summary);
                }
            }
            notes = store.notes();
        }
        let clock = Clock::new();
        let written = clock.now();
        Self { levels, dirty: BTreeSet::new(), before: None, looked: None, store, clock, written, notes }
    }

    /// Something was seen.
    pub fn take(&mut self, sources: &Sources) {
        // Pages at the same time share a look.
        if self.looked == Some(sources.at) {
            return;
        }
        self.looked = Some(sources.at);
        let now = wall().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let totals = Totals::of(sources);
        if let Some(before) = self.before.replace(totals.clone()) {
            self.put(now, &seen(sources, &before, &totals));
        }
        if self.clock.now().since(self.written) >= EVERY {
            self.write();
        }
    }

    /// What went wrong with the disk so far.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn put(&mut self, now: u64, summary: &Summary) {
        if *summary == Summary::default() {
            return;
        }
        for (n, (width, _)) in LEVELS.iter().enumerate() {
            let start = now - now % width;
            self.levels[n].entry(start).or_default().add(summary);
            self.dirty.insert((n as u8, start));
        }
        for (n, (width, kept)) in LEVELS.iter().enumerate() {
            // A clock that is set back makes no summary old.
            while let Some(first) = self.levels[n].first_entry().filter(|first| first.key() + width * kept <= now) {
                self.dirty.insert((n as u8, first.remove_entry().0));
            }
        }
    }

    /// Writes what is not on the disk yet.
    pub fn write(&mut self) {
        self.written = self.clock.now();
        let Some(store) = &mut self.store else { return };
        let changes: Vec<_> = self
            .dirty
            .iter()
            .map(|(level, start)| {
                let summary = self.levels[usize::from(*level)].get(start);
                ((*level, *start), summary.map(Summary::encode))
            })
            .collect();
        if changes.is_empty() {
            return;
        }
        if store.save(&changes) {
            self.dirty.clear();
        }
        for note in store.notes() {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        // What cannot be written is in memory all the same, which holds no more than the disk would.
        self.dirty.retain(|(level, start)| {
            LEVELS.get(usize::from(*level)).is_some() && self.levels[usize::from(*level)].contains_key(start)
        });
    }

    /// What was seen between two seconds of the Unix epoch, of all programs or of one.
    pub fn between(&self, from: u64, to: u64, program: Option<&str>) -> Value {
        let (from, to) = (from, to.max(from));
        let now = wall().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let fits = |(width, kept): &(u64, u64)| from + width * kept >= now && (to - from) / width <= MOST_POINTS;
        let n = LEVELS.iter().position(fits).unwrap_or(LEVELS.len() - 1);
        let (width, _) = LEVELS[n];
        let mut lines = Lines::default();
        let mut networks: Vec<(u64, &str)> = Vec::new();
        let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
        let mut last: Option<u64> = None;
        for (start, summary) in self.levels[n].range(from - from.min(from % width)..=to) {
            if last.is_some_and(|last| last + width < *start) {
                lines.gap(last.unwrap_or_default() + width);
            }
            last = Some(*start);
            lines.point(*start, summary, program, width);
            if let Some(network) = &summary.network
                && networks.last().is_none_or(|(_, before)| before != network)
            {
                networks.push((*start, network));
            }
            summary.programs.iter().for_each(|(name, did)| *programs.entry(name).or_default() += did.events());
        }
        let mut programs: Vec<_> = programs.into_iter().collect();
        programs.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
        let names: Vec<_> = programs.into_iter().map(|(name, _)| name).collect();
        json!({ "width_s": width, "at": lines.at, "lines": lines.lines, "networks": networks, "programs": names, "notes": self.notes })
    }
}

/// Columns of an answer; all as long as `at`.
#[derive(Default)]
struct Lines {
    at: Vec<u64>,
    lines: BTreeMap<String, Vec<Option<f64>>>,
}

impl Lines {
    fn gap(&mut self, at: u64) {
        self.at.push(at);
    }

    fn set(&mut self, name: &str, value: Option<f64>) {
        let Some(value) = value else { return };
        let line = self.lines.entry(name.to_owned()).or_default();
        line.resize(self.at.len().saturating_sub(1), None);
        line.push(Some(value));
    }

    fn point(&mut self, start: u64, summary: &Summary, program: Option<&str>, width: u64) {
        self.at.push(start);
        for (name, count) in COUNTS.iter().zip(summary.counts) {
            self.set(name, Some(count as f64 / width as f64));
        }
        for (name, (sum, n)) in &summary.gauges {
            self.set(name, Some(sum / f64::from((*n).max(1))));
        }
        let mut all = Program::default();
        let chosen = summary.programs.iter().filter(|(name, _)| program.is_none_or(|wanted| wanted == *name));
        chosen.for_each(|(_, did)| all.add(did));
        for (n, (_, name)) in TIMED.iter().enumerate() {
            let buckets = all.timed.get(&(n as u8)).map(Vec::as_slice).unwrap_or_default();
            for (share, of) in [(0.5, "median"), (0.9, "p90")] {
                self.set(&format!("{name}_{of}"), quantile(buckets, share));
            }
        }
        for (name, bytes) in BYTES.iter().zip(all.bytes) {
            self.set(name, (bytes > 0).then_some(bytes as f64 / width as f64));
        }
    }
}

/// In milliseconds, by interpolation within a bucket.
fn quantile(buckets: &[u64], share: f64) -> Option<f64> {
    let mut left = share * buckets.iter().sum::<u64>() as f64;
    for (n, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        if left <= *count as f64 {
            let low = if n == 0 { 0.0 } else { BOUNDS[n - 1] };
            let high = BOUNDS.get(n).copied().unwrap_or(low);
            return Some(1e3 * (low + (high - low) * left / *count as f64));
        }
        left -= *count as f64;
    }
    None
}

impl Summary {
    fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        for (name, (sum, n)) in &other.gauges {
            let mine = self.gauges.entry(name.clone()).or_default();
            *mine = (mine.0 + sum, mine.1 + n);
        }
        other.programs.iter().for_each(|(name, did)| self.programs.entry(name.clone()).or_default().add(did));
        self.network = other.network.clone().or(self.network.take());
    }

    /// As it is written: with the busiest programs that it has room for, and a line for the rest.
    fn encode(&self) -> Vec<u8> {
        let whole = serde_json::to_vec(self).unwrap_or_default();
        if whole.len() <= MOST_BYTES {
            return whole;
        }
        let mut all = Self { programs: BTreeMap::new(), ..self.clone() };
        let length = |value: &Self| serde_json::to_vec(value).map_or(0, |bytes| bytes.len());
        let mut room = MOST_BYTES.saturating_sub(length(&all) + OF_OTHERS);
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by_key(|(_, did)| std::cmp::Reverse(did.events()));
        for (name, did) in programs {
            let needs = name.len() + serde_json::to_vec(did).map_or(0, |bytes| bytes.len()) + 4;
            let fits = needs <= room && name != OTHERS;
            room -= if fits { needs } else { 0 };
            let line = if fits { name.as_str() } else { OTHERS };
            all.programs.entry(line.to_owned()).or_default().add(did);
        }
        serde_json::to_vec(&all).unwrap_or_default()
    }
}

impl Program {
    fn events(&self) -> u64 {
        self.timed.values().flatten().sum::<u64>() + u64::from(self.bytes != [0; 3])
    }

    fn add(&mut self, other: &Self) {
        for (what, theirs) in &other.timed {
            let mine = self.timed.entry(*what).or_default();
            mine.resize(mine.len().max(theirs.len()), 0);
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.bytes.iter_mut().zip(other.bytes).for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl Totals {
    fn of(sources: &Sources) -> Self {
        let mut all = Self::default();
        if let Some(supervisor) = &sources.supervisor {
            let t = &supervisor.tally;
            all.supervisor = Some(supervisor.pid);
            all.counts = [t.resolved + t.unresolved, t.handed_over + t.handed_over_in_progress, t.at_once, t.failed];
            note(&mut all.timed, supervisor.timings.iter());
        }
        note(&mut all.measured, sources.measured.snapshot().iter());
        for (program, what, n) in sources.measured.counts() {
            if let Some(at) = BYTES.iter().position(|name| *name == what) {
                all.bytes.insert((program.to_owned(), at), n);
            }
        }
        all
    }
}

/// Adds up histograms of what came to be, over families.
fn note<'a>(
    into: &mut BTreeMap<(String, u8), Vec<u64>>,
    timings: impl Iterator<Item = &'a headstart_core::timing::Timed>,
) {
    for timed in timings.filter(|timed| timed.key.outcome == "ok") {
        let Some(n) = TIMED.iter().position(|(what, _)| *what == timed.key.what) else { continue };
        let line = into.entry((timed.key.program.clone(), n as u8)).or_insert_with(|| vec![0; BOUNDS.len() + 1]);
        line.iter_mut().zip(timed.histogram.buckets).for_each(|(sum, count)| *sum += count);
    }
}

/// What came between two looks, and what is read now.
fn seen(sources: &Sources, before: &Totals, now: &Totals) -> Summary {
    let nothing = Totals::default();
    // A supervisor that was not there before has counted everything since.
    let ours = if before.supervisor == now.supervisor { before } else { &nothing };
    let mut all = Summary::default();
    for (n, count) in now.counts.iter().enumerate() {
        all.counts[n] = count.saturating_sub(ours.counts[n]);
    }
    for (now, before) in [(&now.timed, &ours.timed), (&now.measured, &before.measured)] {
        for (key, buckets) in now {
            let earlier = before.get(key).map(Vec::as_slice).unwrap_or_default();
            let mut line: Vec<u64> = buckets.clone();
            line.iter_mut().zip(earlier).for_each(|(now, before)| *now = now.saturating_sub(*before));
            line.truncate(line.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1));
            if !line.is_empty() {
                all.programs.entry(key.0.clone()).or_default().timed.insert(key.1, line);
            }
        }
    }
    for ((program, what), n) in &now.bytes {
        let more = n.saturating_sub(before.bytes.get(&(program.clone(), *what)).copied().unwrap_or(0));
        if more > 0 {
            all.programs.entry(program.clone()).or_default().bytes[*what] = more;
        }
    }
    if let Some(supervisor) = &sources.supervisor {
        for family in &supervisor.families {
            // The share of the time in which the family was avoided.
            let avoided = Some(f64::from(u8::from(family.suspended_ms > 0.0)));
            for (what, value) in [("rtt", family.rtt_ms), ("lookup", family.lookup_ms), ("avoided", avoided)] {
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    all.gauges.insert(format!("{what} {}", family.family), (value, 1));
                }
            }
        }
        let here = supervisor.history.as_ref().and_then(|history| history.here);
        all.network = here.map(|id| format!("{:016x}", id.0));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::Tally;
    use headstart_core::timing::Timings;
    use headstart_io::control::Observation;
    use std::path::Path;

    fn store(folder: &Path) -> Option<Series> {
        Some(Series::in_folder(folder.to_owned()))
    }

    fn now() -> u64 {
        wall().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    /// What a look finds of a supervisor that has served so many connections, of 30 ms each.
    fn look(n: u64, pid: u32, connections: u64) -> Sources {
        let mut timings = Timings::default();
        (0..connections).for_each(|_| timings.note(What::Connect, "curl", None, "ok", Duration::from_millis(30)));
        let tally = Tally { handed_over: connections, ..Tally::default() };
        let supervisor = Observation { pid, tally, timings: timings.snapshot(), ..Observation::default() };
        Sources { supervisor: Some(supervisor), at: Instant::from_millis(n), ..Sources::default() }
    }

    /// Connections in all of an answer, and the medians.
    fn totals(past: &Past) -> (f64, Vec<f64>) {
        let all = past.between(now() - 60, now(), Some("curl"));
        let line = |name: &str| all["lines"][name].as_array().cloned().unwrap_or_default();
        let numbers = |name: &str| line(name).iter().filter_map(Value::as_f64).collect::<Vec<_>>();
        (numbers("connections").iter().sum(), numbers("connect_median"))
    }

    #[test]
    fn differences_between_looks_outlive_the_process_and_nothing_counts_twice() {
        let scratch = tempfile::tempdir().unwrap();
        let mut past = Past::new(store(scratch.path()));
        past.take(&look(1, 7, 100));
        assert_eq!(totals(&past).0, 0.0, "what was there before the first look was not seen");
        past.take(&look(2, 7, 103));
        past.take(&look(2, 7, 103));
        let (connections, medians) = totals(&past);
        assert_eq!(connections, 3.0, "a look that is shared counts once");
        assert!((25.0..50.0).contains(&medians[0]), "{medians:?}");
        past.take(&look(3, 8, 2));
        assert_eq!(totals(&past).0, 5.0, "another supervisor begins at zero");
        past.write();
        drop(past);
        let mut next = Past::new(store(scratch.path()));
        assert_eq!((totals(&next).0, next.notes()), (5.0, &[][..]));
        next.take(&look(4, 8, 9));
        assert_eq!(totals(&next).0, 5.0);
        assert_eq!(next.between(0, now(), None)["programs"], json!(["curl"]));
    }

    #[test]
    fn what_the_disk_does_not_take_is_shown_from_memory_and_that_is_said() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("state"), "in the way").unwrap();
        let mut past = Past::new(store(&scratch.path().join("state/headstart")));
        past.take(&look(1, 7, 1));
        past.take(&look(2, 7, 4));
        past.write();
        assert_eq!(totals(&past).0, 3.0);
        let told = past.between(now() - 60, now(), None);
        assert!(told["notes"][0].as_str().is_some_and(|note| note.contains("only in memory")), "{told}");
    }

    #[test]
    fn how_long_a_family_was_avoided_is_kept_as_a_share_of_the_time() {
        let family = |suspended_ms: f64| headstart_core::connect::explain::FamilyReport {
            family: "IPv6".into(),
            has_route: true,
            suspended_ms,
            rtt_ms: None,
            lookup_ms: None,
            unanswered: false,
        };
        let seen = |suspended_ms: f64| {
            let supervisor = Observation { pid: 7, families: vec![family(suspended_ms)], ..Observation::default() };
            super::seen(
                &Sources { supervisor: Some(supervisor), ..Sources::default() },
                &Totals::default(),
                &Totals::default(),
            )
        };
        let (mut past, end) = (Past::new(None), now());
        // A day ago for three seconds of four, in one summary.
        let at = end - 86_400 - (end - 86_400) % 60;
        [9.0, 9.0, 0.0, 9.0].into_iter().zip(at..).for_each(|(ms, second)| past.put(second, &seen(ms)));
        let told = past.between(at - 60, end, None);
        let shares: Vec<_> =
            told["lines"]["avoided IPv6"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!((&told["width_s"], &shares[..]), (&json!(60), &[0.75][..]), "{told}");
    }

    #[test]
    fn from_a_month_to_a_second_the_finest_that_is_kept_is_told_and_gaps_stay_gaps() {
        let mut past = Past::new(None);
        let end = now();
        let one = Summary { counts: [1, 0, 0, 0], ..Summary::default() };
        // Every ten minutes for a month, and every second of the last minute but ten of them.
        (1..4500).rev().for_each(|n| past.put(end - 600 * n, &one));
        (0..60).rev().filter(|n| !(20..30).contains(n)).for_each(|n| past.put(end - n, &one));
        let widths =
            [50, 3600, 86_000, 600_000, 2_500_000].map(|s| past.between(end - s, end, None)["width_s"].clone());
        assert_eq!(widths, [1, 10, 60, 600, 600].map(Value::from));
        let minute = past.between(end - 59, end, None);
        let lookups = minute["lines"]["lookups"].as_array().unwrap();
        assert_eq!(lookups.iter().filter(|n| n.is_null()).count(), 1, "{lookups:?}");
        assert_eq!(lookups.iter().filter_map(Value::as_f64).sum::<f64>(), 50.0);
        assert_eq!(minute["at"].as_array().unwrap().len(), lookups.len());
        // What is older than a month is gone, and no level has more than it keeps.
        for (level, (_, kept)) in past.levels.iter().zip(LEVELS) {
            assert!(level.len() as u64 <= kept + 1, "{}", level.len());
        }
        assert_eq!(past.levels[3].len() as u64, 4320);
    }

    #[test]
    fn with_every_summary_there_and_fifty_busy_programs_the_file_stays_below_50_mb() {
        let scratch = tempfile::tempdir().unwrap();
        let mut past = Past::new(store(scratch.path()));
        let busy = |n: u64| {
            let timed = (0..5).map(|what| (what, vec![1000 + n; 15])).collect::<BTreeMap<u8, _>>();
            let did = Program { timed, bytes: [1 << 40; 3] };
            let programs = (0..50).map(|n| (format!("program-{n}"), did.clone())).collect();
            let gauges = ["rtt IPv4", "rtt IPv6"].map(|name| (name.to_owned(), (123.456_789, 3))).into();
            Summary { counts: [n; 4], gauges, programs, network: Some(format!("{n:016x}")) }
        };
        let end = now();
        for (level, (width, kept)) in LEVELS.iter().enumerate() {
            for n in 0..*kept {
                let start = end - end % width - n * width;
                past.levels[level].insert(start, busy(n));
                past.dirty.insert((level as u8, start));
            }
        }
        past.write();
        // As while a page is open: what is new and what is old, again and again.
        for n in 0..30 {
            (0..10).for_each(|second| past.put(end + 10 * n + second, &busy(n)));
            past.write();
        }
        assert_eq!(past.notes(), &[""; 0]);
        let bytes = past.store.as_ref().unwrap().bytes();
        println!("{bytes} bytes");
        assert!((1 << 20..50_000_000).contains(&bytes), "{bytes}");
    }
}
