//! A folder of results: `ID/result.json` and `ID/task.json` for each task that was done, whole or not there.
//!
//! Any number of workers on any number of hosts may share one. A worker writes below `.part/ID/WORKER` and renames; of two workers
//! that do the same task the first rename wins, and the other's work is deleted. Nothing depends on a clock. A task that failed leaves
//! `.failed/ID` with the reason, until it is done. Results in a bucket ([`super::bucket`]) have copies in such a folder.

use super::bucket::{Committed, Extent, Remote};
use super::{Task, VERSION, sha256};
use crate::bucket::{self, Bucket};
use crate::experiment::Outcome;
use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of a result; the largest of ours has 7 MiB.
const MOST_BYTES: u64 = 256 << 20;
/// Of what failed, that much is kept.
const MOST_REASON: usize = 4096;

/// A folder of results, or a bucket.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
    /// Where the results are, if the folder has copies.
    bucket: Option<Arc<Remote>>,
}

/// What stands beside a result: the task, and how it was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// [`VERSION`].
    pub version: u32,
    /// The task, as the plan has it.
    pub task: Task,
    /// Name of the host that did it.
    pub host: String,
    /// How often it was run until this result: more than once where the machine was too busy.
    pub runs: u32,
    /// SHA-256 of `result.json`: a file that was cut or written to later gives itself away.
    pub sha256: String,
    /// Its bytes, and whether it is valid: what is asked of many results without reading them. Earlier programs noted neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Brief>,
}

/// What is known of a result without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// Length of `result.json`.
    pub bytes: u64,
    /// Whether the result is valid.
    pub valid: bool,
}

/// What there is of a task, by its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glance {
    /// Nothing.
    Missing,
    /// A result of the length that it should have, and whether it is valid.
    Done {
        /// Whether it is valid.
        valid: bool,
    },
    /// A folder that is not whole, and why.
    Damaged(String),
}

/// What there is of a task.
#[derive(Debug)]
pub enum Look {
    /// Nothing.
    Missing,
    /// A result.
    Done(Box<(Provenance, Outcome)>),
    /// A folder that is not whole, and why.
    Damaged(String),
}

/// A task that a worker does now.
#[derive(Debug)]
pub struct Part {
    /// Where to write.
    pub folder: PathBuf,
    task: Task,
}

impl Results {
    /// The results below `folder`, which need not exist.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), bucket: None }
    }

    /// The results at `place`, a folder, which need not exist, or in a bucket (`s3://…`), of which those that are `wanted` are read.
    pub fn open(place: &Path, extent: Extent, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Self> {
        if !bucket::is_bucket(place) {
            return Ok(Self::at(place));
        }
        let remote = Remote::new(Bucket::open(place)?)?;
        remote.bring(extent, wanted)?;
        Ok(Self::of(remote))
    }

    /// The results in a bucket, as far as they were read.
    pub(super) fn of(remote: Remote) -> Self {
        Self { folder: remote.copies().to_owned(), bucket: Some(Arc::new(remote)) }
    }

    /// Where copies of what is in a bucket are.
    #[cfg(test)]
    pub(super) fn bucket_copies(&self) -> PathBuf {
        self.folder.clone()
    }

    /// Where they are, as it was given.
    pub fn place(&self) -> &Path {
        self.bucket.as_ref().map_or(&self.folder, |bucket| bucket.name())
    }

    /// Whether there is something under the id of `task`, whole or not.
    pub fn has(&self, task: &Task) -> bool {
        self.folder.join(&task.id).exists()
    }

    /// The ids under which there is something, in their order.
    pub fn ids(&self) -> io::Result<Vec<String>> {
        if let Some(bucket) = &self.bucket {
            return Ok(bucket.ids());
        }
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if super::is_id(&name) {
                ids.push(name);
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// What there is of the task `id`.
    pub fn look(&self, id: &str) -> Look {
        if let Some(why) = self.lost(id) {
            return Look::Damaged(why);
        }
        let folder = self.folder.join(id);
        if !folder.exists() {
            return Look::Missing;
        }
        match read(&folder, id) {
            Ok(found) => Look::Done(Box::new(found)),
            Err(why) => Look::Damaged(format!("{why:#}")),
        }
    }

    /// What there is of the task `id`, for what asks for thousands: its result is not read, so only its length tells that it is damaged.
    pub fn glance(&self, id: &str) -> Glance {
        if let Some(why) = self.lost(id) {
            return Glance::Damaged(why);
        }
        let folder = self.folder.join(id);
        if !folder.exists() {
            return Glance::Missing;
        }
        let brief = record(&folder, id).map(|record| record.brief);
        let length = match &self.bucket {
            Some(bucket) => bucket.length(id).ok_or(io::ErrorKind::NotFound.into()),
            None => fs::metadata(folder.join("result.json")).map(|about| about.len()),
        };
        match (brief, length) {
            (Ok(Some(brief)), Ok(length)) if length == brief.bytes => Glance::Done { valid: brief.valid },
            (Ok(Some(brief)), Ok(length)) => {
                Glance::Damaged(format!("result.json has {length} bytes, not {}", brief.bytes))
            }
            // Of an earlier program, or not to be read: all of it is looked at.
            _ => match self.look(id) {
                Look::Missing => Glance::Missing,
                Look::Done(done) => Glance::Done { valid: done.1.valid },
                Look::Damaged(why) => Glance::Damaged(why),
            },
        }
    }

    /// Why a result cannot be read, though it is in the list of a bucket.
    fn lost(&self, id: &str) -> Option<String> {
        self.bucket.as_ref()?.lost(id)
    }

    /// The record of a task that was done, without its result: for what needs many and quickly.
    pub fn record(&self, id: &str) -> Option<Provenance> {
        record(&self.folder.join(id), id).ok()
    }

    /// Begins a task: a folder to write into, for `worker`, a name that no other worker has.
    pub fn begin(&self, task: &Task, worker: &str) -> io::Result<Part> {
        let folder = self.parts(&task.id).join(worker);
        match fs::create_dir_all(&folder) {
            // Another worker has ended the same task, and removed the folder around it meanwhile.
            Err(why) if why.kind() == io::ErrorKind::NotFound => fs::create_dir_all(&folder)?,
            made => made?,
        }
        Ok(Part { folder, task: task.clone() })
    }

    /// Ends a task that was begun, with its result.
    pub fn commit(&self, part: Part, outcome: &Outcome, host: &str, runs: u32) -> anyhow::Result<Committed> {
        match self.commit_in(&part, outcome, host, runs) {
            Err(why) if !self.has(&part.task) => {
                self.give_back(part);
                Err(why)
            }
            done => {
                // Where another worker was first, it has deleted what was begun here, and writing may have failed for that.
                let _ = fs::remove_file(self.reason(&part.task.id));
                self.clean(&part.task.id);
                Ok(done.unwrap_or(Committed::Another))
            }
        }
    }

    fn commit_in(&self, part: &Part, outcome: &Outcome, host: &str, runs: u32) -> anyhow::Result<Committed> {
        outcome.check()?;
        let result = serde_json::to_vec(outcome).expect("an outcome is made of strings, numbers and lists");
        let (task, host, sha256) = (part.task.clone(), host.to_owned(), sha256(&result));
        let brief = Some(Brief { bytes: result.len() as u64, valid: outcome.valid });
        let record = Provenance { version: VERSION, task, host, runs, sha256, brief };
        let record = serde_json::to_vec(&record).expect("a record is made of strings and numbers");
        // What `lab run` may have left beside is not of the task's result.
        clear(&part.folder)?;
        for (name, bytes) in [("result.json", &result), ("task.json", &record)] {
            let file = part.folder.join(name);
            let written = File::create(&file).and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()));
            written.with_context(|| format!("writing {}", file.display()))?;
        }
        let place = self.folder.join(&part.task.id);
        match fs::rename(&part.folder, &place) {
            Ok(()) => self.upload(&part.task.id, &record, &result),
            Err(_) if place.exists() => Ok(Committed::Another),
            Err(why) => Err(why).with_context(|| format!("renaming to {}", place.display())),
        }
    }

    /// Where the results are in a bucket, puts a copy there, or takes the copy of another's.
    fn upload(&self, id: &str, record: &[u8], result: &[u8]) -> anyhow::Result<Committed> {
        let Some(bucket) = &self.bucket else { return Ok(Committed::First) };
        let put = bucket.put(id, record, result);
        if put.is_err() {
            // It would pass for a result.
            let _ = fs::remove_dir_all(self.folder.join(id));
        }
        put
    }

    /// Deletes what was begun of a task.
    pub fn give_back(&self, part: Part) {
        let _ = fs::remove_dir_all(&part.folder);
        // Only if no other worker does it.
        let _ = fs::remove_dir(self.parts(&part.task.id));
    }

    /// Deletes all that `worker` has begun.
    pub fn abandon(&self, worker: &str) {
        for task in fs::read_dir(self.folder.join(".part")).into_iter().flatten().flatten() {
            let _ = fs::remove_dir_all(task.path().join(worker));
            let _ = fs::remove_dir(task.path());
        }
    }

    /// Ends a task that was begun, without a result, and notes why.
    pub fn fail(&self, part: Part, why: &str) -> anyhow::Result<()> {
        let id = part.task.id.clone();
        self.give_back(part);
        self.note(&id, why)
    }

    /// Notes why a task has no result.
    pub fn note(&self, id: &str, why: &str) -> anyhow::Result<()> {
        let why: String = why.chars().take(MOST_REASON).collect();
        if let Some(bucket) = &self.bucket {
            return bucket.note(id, &why);
        }
        fs::create_dir_all(self.folder.join(".failed"))?;
        Ok(fs::write(self.reason(id), why)?)
    }

    /// Deletes what was begun of a task that is done: a worker may have been killed between its result and this.
    pub fn clean(&self, id: &str) {
        let _ = fs::remove_dir_all(self.parts(id));
    }

    /// Why a task has no result, if it was tried.
    pub fn failure(&self, id: &str) -> Option<String> {
        if let Some(bucket) = &self.bucket {
            return bucket.failure(id);
        }
        fs::read_to_string(self.reason(id)).ok()
    }

    /// Whether a worker has begun a task, or was killed in it.
    pub fn is_begun(&self, id: &str) -> bool {
        self.parts(id).exists()
    }

    /// Moves a damaged folder out of the way, where it stays to be looked at; where it is now.
    pub fn set_aside(&self, id: &str, worker: &str) -> anyhow::Result<PathBuf> {
        if let Some(bucket) = &self.bucket {
            return bucket.set_aside(id, worker);
        }
        let aside = self.folder.join(".damaged");
        fs::create_dir_all(&aside)?;
        let place = (0..).map(|n| aside.join(format!("{id}-{worker}-{n}"))).find(|place| !place.exists());
        let place = place.expect("numbers do not run out");
        fs::rename(self.folder.join(id), &place)?;
        Ok(place)
    }

    fn parts(&self, id: &str) -> PathBuf {
        self.folder.join(".part").join(id)
    }

    fn reason(&self, id: &str) -> PathBuf {
        self.folder.join(".failed").join(id)
    }
}

/// Deletes all that is in a folder; makes it where it is not there.
fn clear(folder: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

fn record(folder: &Path, id: &str) -> anyhow::Result<Provenance> {
    let record: Provenance = serde_json::from_slice(&bytes(&folder.join("task.json"))?).context("task.json")?;
    ensure!(record.version == VERSION, "task.json has version {}, unknown to this program", record.version);
    ensure!(record.task.id == id && record.task.identity() == id, "task.json belongs to another task");
    Ok(record)
}

/// The result in a folder, if record and result agree.
fn read(folder: &Path, id: &str) -> anyhow::Result<(Provenance, Outcome)> {
    let record = record(folder, id)?;
    let result = bytes(&folder.join("result.json"))?;
    ensure!(sha256(&result) == record.sha256, "result.json has changed since it was written: its SHA-256 differs");
    let outcome: Outcome = serde_json::from_slice(&result).context("result.json")?;
    outcome.check()?;
    let task = &record.task;
    if outcome.experiment != task.experiment || outcome.seed != task.seed {
        bail!("result.json is of {} with seed {}, not of the task", outcome.experiment, outcome.seed);
    }
    Ok((record, outcome))
}

fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|f| f.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.with_context(|| format!("reading {}", file.display()))?;
    ensure!(bytes.len() as u64 <= MOST_BYTES, "{} is larger than {} MiB", file.display(), MOST_BYTES >> 20);
    Ok(bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Builds;
    use super::*;
    use crate::experiment::{self, Row, Series, Speeds};

    /// Task `seed` of a small experiment in virtual time.
    pub fn task(seed: u64) -> Task {
        let entry = experiment::find("connect-model").unwrap();
        let builds = Builds { lab: "x".into(), headstart: None };
        Task::new(entry, "healthy", seed, Speeds::Virtual, true, None, &builds).unwrap()
    }

    /// A result of it: two paired series and their comparison.
    pub fn outcome(seed: u64) -> Outcome {
        let base: Vec<f64> = (0..10).map(|i| 50.0 + f64::from(i) + seed as f64).collect();
        let ours: Vec<f64> = base.iter().map(|v| v * 0.8).collect();
        let a = Series::new("healthy", "connect time", "ms", "adaptive", ours);
        let b = Series::new("healthy", "connect time", "ms", "sequential", base);
        let mut outcome = Outcome::new("connect-model", seed);
        let (median, paired) = (crate::stats::Statistic::Median, crate::stats::Pairing::Paired);
        outcome.rows.push(Row::compare(&a, &b, median, paired, seed).unwrap());
        outcome.rows.push(Row::measured("healthy", "attempts", "", "adaptive", 1.0 + seed as f64));
        outcome.samples = vec![a, b];
        outcome
    }

    /// Does task `seed` as `host`.
    pub fn done(results: &Results, seed: u64, host: &str) -> Committed {
        let part = results.begin(&task(seed), host).unwrap();
        results.commit(part, &outcome(seed), host, 1).unwrap()
    }

    #[test]
    fn a_result_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::at(folder.path());
        let part = results.begin(&task(1), "a").unwrap();
        fs::write(part.folder.join("report.html"), "of lab run").unwrap();
        assert!(matches!(results.look(&task(1).id), Look::Missing) && results.is_begun(&task(1).id));
        assert_eq!(results.commit(part, &outcome(1), "a", 2).unwrap(), Committed::First);
        let Look::Done(found) = results.look(&task(1).id) else { panic!("not done") };
        assert_eq!((found.0.runs, found.0.host.as_str(), &found.1), (2, "a", &outcome(1)));
        assert!(!results.is_begun(&task(1).id) && results.ids().unwrap() == [task(1).id]);
        assert_eq!(fs::read_dir(folder.path().join(&task(1).id)).unwrap().count(), 2);
    }

    #[test]
    fn of_two_workers_the_first_rename_wins_and_nothing_is_left_of_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::at(folder.path());
        let (first, second) = (results.begin(&task(1), "a").unwrap(), results.begin(&task(1), "b").unwrap());
        assert_eq!(results.commit(first, &outcome(1), "a", 1).unwrap(), Committed::First);
        assert!(!second.folder.exists(), "deleted by the winner");
        let late = results.begin(&task(1), "c").unwrap();
        for (part, host) in [(second, "b"), (late, "c")] {
            assert_eq!(results.commit(part, &outcome(1), host, 1).unwrap(), Committed::Another);
            assert!(!results.is_begun(&task(1).id));
        }
        assert_eq!(results.record(&task(1).id).unwrap().host, "a");
    }

    #[test]
    fn a_failure_is_noted_until_the_task_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::at(folder.path());
        results.fail(results.begin(&task(1), "a").unwrap(), "no room").unwrap();
        assert_eq!(results.failure(&task(1).id).as_deref(), Some("no room"));
        results.note(&task(2).id, "no pages").unwrap();
        assert_eq!(results.failure(&task(2).id).as_deref(), Some("no pages"));
        done(&results, 1, "a");
        assert_eq!(results.failure(&task(1).id), None);
    }

    #[test]
    fn a_damaged_folder_is_named_and_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::at(folder.path());
        let id = task(1).id;
        let file = |name: &str| folder.path().join(&id).join(name);
        let damages: [(&str, &dyn Fn(), &str); 4] = [
            ("cut", &|| fs::write(file("result.json"), "{").unwrap(), "SHA-256 differs"),
            ("lost", &|| fs::remove_file(file("result.json")).unwrap(), "reading"),
            ("no record", &|| fs::write(file("task.json"), "").unwrap(), "task.json"),
            (
                "another's record",
                &|| {
                    done(&results, 2, "a");
                    fs::copy(folder.path().join(&task(2).id).join("task.json"), file("task.json")).unwrap();
                },
                "another task",
            ),
        ];
        for (what, damage, expected) in damages {
            done(&results, 1, "a");
            damage();
            let Look::Damaged(why) = results.look(&id) else { panic!("{what}: not noticed") };
            assert!(why.contains(expected), "{what}: {why}");
            assert!(results.set_aside(&id, "a").unwrap().exists() && !results.has(&task(1)));
        }
    }

    #[test]
    fn a_glance_says_what_a_look_says_but_for_a_change_of_the_same_length() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::at(folder.path());
        let id = task(1).id;
        let file = |name: &str| folder.path().join(&id).join(name);
        assert_eq!(results.glance(&id), Glance::Missing);
        for valid in [true, false] {
            let part = results.begin(&task(1), "a").unwrap();
            let mut outcome = outcome(1);
            if !valid {
                outcome.invalidate("busy");
            }
            results.commit(part, &outcome, "a", 1).unwrap();
            assert_eq!(results.glance(&id), Glance::Done { valid });
            // As earlier programs wrote it.
            let mut record: serde_json::Value = serde_json::from_slice(&fs::read(file("task.json")).unwrap()).unwrap();
            record.as_object_mut().unwrap().remove("brief").unwrap();
            fs::write(file("task.json"), record.to_string()).unwrap();
            assert_eq!(results.glance(&id), Glance::Done { valid });
            results.set_aside(&id, "a").unwrap();
        }
        done(&results, 1, "a");
        let text = fs::read(file("result.json")).unwrap();
        fs::write(file("result.json"), vec![b' '; text.len()]).unwrap();
        assert_eq!(results.glance(&id), Glance::Done { valid: true }, "it was not read");
        fs::write(file("result.json"), &text[1..]).unwrap();
        assert!(matches!(results.glance(&id), Glance::Damaged(why) if why.contains("bytes, not")));
        fs::remove_file(file("result.json")).unwrap();
        assert!(matches!(results.glance(&id), Glance::Damaged(why) if why.contains("reading")));
    }

    #[test]
    fn a_result_that_cannot_be_written_is_an_error_and_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::at(folder.path());
        let part = results.begin(&task(1), "a").unwrap();
        let bad = Outcome { valid: false, ..outcome(1) };
        assert!(results.commit(part, &bad, "a", 1).is_err());
        assert!(matches!(results.look(&task(1).id), Look::Missing) && !results.is_begun(&task(1).id));
    }
}
