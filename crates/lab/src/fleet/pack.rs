//! Batches of telemetry by days, as Parquet: `day=YYYY-MM-DD/NAME.parquet` in a folder or a bucket.
//!
//! The name of a file is made of the ids of its events, so that the same batches give the same file, which is written once. Batches are deleted
//! when all that they hold is where it should be; what was packed twice all the same is told apart by its ids, as everywhere.

use crate::bucket::{self, Bucket};
use crate::columns::{Cell, Column, ColumnType, Table, Writing, count, number, text, truth};
use crate::program::Folder;
use anyhow::Context as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Version of the schema, in the metadata `headstart.schema` of each file.
pub const EVENTS_VERSION: u32 = 1;

/// Bytes of batches that are in memory at once.
const ROUND: u64 = 32 << 20;
const DAY: u64 = 86_400;
/// 9999-12-31: a later second is no date.
const LAST: u64 = 253_402_300_799;

/// The table of events; `day` comes from the path.
pub const EVENTS: Table = Table {
    name: "events",
    what: "an event of a host",
    columns: &[
        count("version", "version of the event"),
        text("kind", "`run`, `flow`, `lookup` or `missing`"),
        text("id", "no other event has it"),
        text("host", "pseudonym of the host"),
        text("label", "setting `telemetry.label`"),
        count("time_s", "seconds since 1970"),
        text("app", "program, hashed"),
        text("peer", "address, hashed"),
        text("name", "name that was looked up, hashed"),
        count("family", "4 or 6"),
        truth("accelerated", "whether headstart made the connection"),
        number("connect_ms", "how long the program waited for it"),
        number("failed_after_ms", "how long the program waited for nothing"),
        number("rtt_ms", "round-trip time at the end"),
        count("up_bytes", "bytes of the program"),
        count("down_bytes", "bytes of the peer"),
        text("end", "how it ended"),
        number("took_ms", "how long a lookup took"),
        count("resolved", "lookups of a run that had an answer"),
        count("unresolved", "lookups that had none"),
        count("cache_hits", "answered by the cache"),
        count("cache_misses", "not answered by the cache"),
        count("attempts", "connections that were begun"),
        count("handed_over", "connections that programs got"),
        count("at_once", "connections that were open before they were asked for"),
        count("failed", "connections that failed"),
        count("unused", "connections that were not used"),
        count("spares", "connections that were opened ahead of time"),
        count("spares_taken", "of these, those that were used"),
        number("lookup_wait_ms", "how long the run waited for lookups"),
        number("connect_wait_ms", "how long it waited for connections"),
        number("handshakes_ms", "how long handshakes took"),
        count("count", "events that are missing"),
    ],
};

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Batches that were read.
    pub batches: u64,
    /// Events, each once.
    pub events: u64,
    /// Events that were there more than once.
    pub twice: u64,
    /// Lines that are no events.
    pub damaged: u64,
    /// Batches that are still being written, which were left alone.
    pub growing: u64,
}

/// Events of one day by their ids.
type Day = BTreeMap<String, Value>;

/// Packs the batches in `folder` into files at `to`, a folder or a place in a bucket; `delete` deletes them then.
pub fn pack(folder: &Path, to: &Path, delete: bool) -> anyhow::Result<Packed> {
    let mut packed = Packed::default();
    let (mut batches, mut growing) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            // The one that grows has the name of its host alone.
            let is_whole = path.file_name().is_some_and(|name| name.as_encoded_bytes().contains(&b'-'));
            if is_whole { batches.push(path) } else { growing += 1 }
        }
    }
    batches.sort();
    packed.growing = growing;
    let depot = Depot::at(to)?;
    while !batches.is_empty() {
        let (mut round, mut bytes) = (Vec::new(), 0);
        while bytes < ROUND
            && let Some(batch) = batches.pop()
        {
            bytes += fs::metadata(&batch).map_or(0, |about| about.len());
            round.push(batch);
        }
        let mut days: BTreeMap<String, Day> = BTreeMap::new();
        for batch in &round {
            read(batch, &mut days, &mut packed)?;
        }
        for (day, events) in &days {
            depot.put(day, events)?;
        }
        if delete {
            round.iter().try_for_each(|batch| remove(batch))?;
        }
    }
    Ok(packed)
}

fn remove(batch: &Path) -> anyhow::Result<()> {
    match fs::remove_file(batch) {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("deleting {}", batch.display()))
        }
        _ => Ok(()),
    }
}

fn read(batch: &Path, days: &mut BTreeMap<String, Day>, packed: &mut Packed) -> anyhow::Result<()> {
    let bytes = match fs::read(batch) {
        // Another took it away.
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        bytes => bytes.with_context(|| format!("reading {}", batch.display()))?,
    };
    packed.batches += 1;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Option<Value> = serde_json::from_slice(line).ok();
        let of =
            event.as_ref().and_then(|event| Some((event["id"].as_str()?.to_owned(), day(event["time_s"].as_u64()?)?)));
        let Some((event, (id, day))) = event.zip(of) else {
            packed.damaged += 1;
            continue;
        };
        match days.entry(day).or_default().insert(id, event) {
            None => packed.events += 1,
            Some(_) => packed.twice += 1,
        }
    }
    Ok(())
}

/// The day of a second since 1970, in UTC; none for a clock that is centuries wrong.
fn day(second: u64) -> Option<String> {
    // Days of the civil calendar, counted from 1 March of year 0 (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let days = (second <= LAST).then_some(second / DAY + 719_468)?;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{date:02}"))
}

/// Where files go.
enum Depot {
    Folder(PathBuf),
    Bucket(Bucket, Folder),
}

impl Depot {
    fn at(to: &Path) -> anyhow::Result<Self> {
        if bucket::is_bucket(to) {
            return Ok(Self::Bucket(Bucket::open(to)?, Folder::new()?));
        }
        fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
        Ok(Self::Folder(to.to_owned()))
    }

    fn put(&self, day: &str, events: &Day) -> anyhow::Result<()> {
        let ids: Vec<&str> = events.keys().map(String::as_str).collect();
        let digest = ring::digest::digest(&ring::digest::SHA256, ids.join(" ").as_bytes());
        let name = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>() + ".parquet";
        let level = format!("day={day}");
        match self {
            Self::Folder(folder) => {
                let place = folder.join(level).join(name);
                if place.exists() { Ok(()) } else { write(&place, events) }
            }
            Self::Bucket(bucket, scratch) => {
                let file = scratch.path().join(&name);
                write(&file, events)?;
                let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
                fs::remove_file(&file).with_context(|| format!("deleting {}", file.display()))?;
                // One that is there already has the same events.
                bucket.write(&[&level, &name], bytes, false)
            }
        }
    }
}

fn write(place: &Path, events: &Day) -> anyhow::Result<()> {
    let mut file = Writing::new(&EVENTS, EVENTS_VERSION, place)?;
    file.lines =
        events.values().map(|event| EVENTS.columns.iter().map(|column| cell(event, column)).collect()).collect();
    file.close(&EVENTS)
}

fn cell(event: &Value, column: &Column) -> Cell {
    let value = &event[column.name];
    match column.kind {
        ColumnType::Text => Cell::Text(value.as_str().map(Into::into)),
        ColumnType::Number => Cell::Number(value.as_f64()),
        ColumnType::Count => Cell::Count(value.as_u64()),
        ColumnType::Truth => Cell::Truth(value.as_bool()),
    }
}

/// Copies of the files of all days in a bucket, in a private folder that is gone when it is dropped.
pub fn days(place: &Path) -> anyhow::Result<Folder> {
    bring(&Bucket::open(place)?)
}

fn bring(bucket: &Bucket) -> anyhow::Result<Folder> {
    let folder = Folder::new()?;
    for level in bucket.list(&[])?.levels.iter().filter(|level| level.starts_with("day=")) {
        let into = folder.of(level)?;
        let names = bucket.list(&[level])?.objects.into_iter().map(|(name, _)| name);
        let names = names.filter(|name| name.ends_with(".parquet")).collect();
        bucket.read_all(&[level], names, None, |name, object| {
            // A report without it would be wrong.
            let object = object
                .with_context(|| format!("{} was listed and is not there", bucket.place(&[level, name]).display()))?;
            fs::write(into.join(name), object).with_context(|| format!("writing {}", into.display()))
        })?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::super::{Size, simulate};
    use super::*;
    use crate::bucket::fake::{Fault, Store};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use std::collections::BTreeSet;

    fn fleet(folder: &Path) -> BTreeSet<String> {
        simulate(Size { hosts: 6, days: 3, seed: 7 }, folder).unwrap();
        let texts = fs::read_dir(folder).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
        texts.flat_map(|text| text.lines().map(id).collect::<Vec<_>>()).collect()
    }

    /// Ids and days of all events below a folder.
    fn packed(folder: &Path) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for level in fs::read_dir(folder).unwrap() {
            let level = level.unwrap();
            let day = level.file_name().to_str().unwrap().strip_prefix("day=").unwrap().to_owned();
            for file in fs::read_dir(level.path()).unwrap() {
                let reader = SerializedFileReader::new(fs::File::open(file.unwrap().path()).unwrap()).unwrap();
                for row in reader.get_row_iter(None).unwrap() {
                    let row = row.unwrap();
                    assert_eq!(super::day(row.get_ulong(5).unwrap()).as_deref(), Some(day.as_str()));
                    all.push((row.get_string(2).unwrap().clone(), day.clone()));
                }
            }
        }
        all.sort();
        all
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (second, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_793_491_200, "2026-11-01"),
            (1_793_491_199, "2026-10-31"),
            (4_107_542_400, "2100-03-01"),
            (LAST, "9999-12-31"),
        ] {
            assert_eq!(day(second).as_deref(), Some(expected));
        }
        assert_eq!(day(LAST + 1), None);
    }

    #[test]
    fn every_event_is_packed_once_under_its_day_and_batches_go_when_it_is() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ids = fleet(from.path());
        let one = fs::read_dir(from.path()).unwrap().next().unwrap().unwrap().path();
        let text = fs::read_to_string(&one).unwrap();
        fs::write(from.path().join("again-1.jsonl"), format!("{text}{{\"kind\":\n{{\"id\":\"x\",\"time_s\":1e300}}\n"))
            .unwrap();
        fs::write(from.path().join("growing.jsonl"), &text).unwrap();
        let came = pack(from.path(), to.path(), false).unwrap();
        let twice = text.lines().count() as u64;
        assert_eq!(came, Packed { batches: 7, events: ids.len() as u64, twice, damaged: 2, growing: 1 });
        let first = packed(to.path());
        assert_eq!(first.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids.into_iter().collect::<Vec<_>>());
        assert_eq!(first.iter().map(|(_, day)| day).collect::<BTreeSet<_>>().len(), 3);
        // The same again gives the same files.
        pack(from.path(), to.path(), true).unwrap();
        assert!(packed(to.path()) == first);
        assert_eq!(fs::read_dir(from.path()).unwrap().count(), 1, "the growing one is left");
    }

    #[test]
    fn a_bucket_that_is_away_costs_no_event_and_one_that_has_lost_a_file_is_named() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fleet(from.path());
        pack(from.path(), to.path(), false).unwrap();
        let store = Store::new();
        let depot = Depot::Bucket(store.open(1), Folder::new().unwrap());
        let (mut days, mut count) = (BTreeMap::new(), Packed::default());
        for entry in fs::read_dir(from.path()).unwrap() {
            read(&entry.unwrap().path(), &mut days, &mut count).unwrap();
        }
        store.will("PUT", Fault::Busy, 2);
        let put = || days.iter().try_for_each(|(day, events)| depot.put(day, events));
        assert!(format!("{:#}", put().unwrap_err()).contains("503"));
        put().unwrap();
        put().unwrap();
        let copies = bring(&store.open(1)).unwrap();
        assert!(packed(copies.path()) == packed(to.path()));
        store.will("GET", Fault::Lost, 1);
        let why = format!("{:#}", bring(&store.open(1)).unwrap_err());
        assert!(why.contains("s3://bucket/some/results/day=2026-11-0") && why.contains("not there"), "{why}");
    }
}
