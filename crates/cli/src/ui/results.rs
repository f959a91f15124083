//! Results of the lab for the page: `result.json` files below folders that the user has named, read as plain JSON, since this program
//! does not have the lab. What cannot be read is listed with the reason.
//!
//! Never read: anything outside these folders, links to other places, more or larger files than the bounds below.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where `headstart lab` writes by itself.
pub const DEFAULT: &str = "headstart-results";
/// Version of the format that is known: `FORMAT_VERSION` of the lab.
const VERSION: u32 = 1;
/// Results that are listed.
const MOST_RESULTS: usize = 500;
/// Folders below a named one that are looked into, and how deep they may be.
const MOST_FOLDERS: usize = 5000;
const DEEPEST: usize = 4;
/// Bytes of a file; the largest of the project has 7 MB.
const MOST_BYTES: u64 = 64 << 20;
/// Rows of a result that are shown.
const MOST_ROWS: usize = 2000;

/// The folders, and what has been read of them.
#[derive(Debug)]
pub struct Results {
    folders: Vec<PathBuf>,
    /// By file: when it was written and its length, and what it says in short.
    read: Mutex<HashMap<PathBuf, (Stamp, Value)>>,
}

type Stamp = (Option<SystemTime>, u64);

/// A file, and how the page names it: the number of the folder and the path below it.
#[derive(Debug)]
struct Found {
    id: String,
    name: String,
    file: PathBuf,
    stamp: Stamp,
}

/// The part of a result that is shown. The samples, which are most of a file, are skipped.
#[derive(Debug, Deserialize, Serialize)]
struct Outcome {
    version: u32,
    experiment: String,
    valid: bool,
    why_invalid: Vec<String>,
    /// As text to the page, whose numbers have 53 bits.
    #[serde(serialize_with = "as_text")]
    seed: u64,
    #[serde(default)]
    extent: Option<Extent>,
    rows: Vec<Row>,
    #[serde(default)]
    prices: Vec<Price>,
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Extent {
    quick: bool,
    speeds: String,
    #[serde(default)]
    conditions: Option<Vec<String>>,
    #[serde(default)]
    pages: Option<String>,
    seconds: f64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Row {
    claim: Option<String>,
    condition: String,
    metric: String,
    unit: String,
    arm: String,
    baseline_arm: Option<String>,
    ours: f64,
    baseline: Option<f64>,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    paper: Option<f64>,
    #[serde(default)]
    verdict: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Price {
    condition: String,
    arm: String,
    what: String,
    unit: String,
    amount: f64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Condition {
    name: String,
    about: String,
}

/// What `headstart lab collect` says of a campaign.
#[derive(Deserialize)]
struct Account {
    planned: usize,
    counted: usize,
    invalid: usize,
    missing: Vec<Value>,
}

fn as_text<S: serde::Serializer>(n: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(n)
}

impl Results {
    /// Of these folders.
    pub fn of(folders: Vec<PathBuf>) -> Self {
        Self { folders, read: Mutex::default() }
    }

    /// All results, the latest first, and the campaigns.
    pub fn list(&self) -> Value {
        let (mut found, mut campaigns, mut omitted) = (Vec::new(), Vec::new(), false);
        for (n, folder) in self.folders.iter().enumerate() {
            omitted |= walk(n, folder, &mut found, &mut campaigns);
        }
        found.sort_by(|a, b| (b.stamp.0, &a.id).cmp(&(a.stamp.0, &b.id)));
        let left_out = found.len().saturating_sub(MOST_RESULTS);
        found.truncate(MOST_RESULTS);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|file, _| found.iter().any(|one| &one.file == file));
        let results: Vec<Value> = found
            .iter()
            .map(|one| {
                let known = read.get(&one.file).filter(|(stamp, _)| *stamp == one.stamp);
                let said = known.map_or_else(|| in_short(&one.file), |(_, said)| said.clone());
                read.insert(one.file.clone(), (one.stamp, said.clone()));
                let written = one.stamp.0.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| at.as_secs());
                json!({ "id": one.id, "name": one.name, "written_s": written, "said": said })
            })
            .collect();
        let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
        json!({ "folders": folders, "results": results, "campaigns": campaigns, "left_out": left_out, "more": omitted })
    }

    /// The result that the list calls `id`, or why it cannot be read. What is asked for is compared with what was found, never opened.
    pub fn get(&self, id: &str) -> Result<Value, String> {
        let mut found = Vec::new();
        if let Some((n, folder)) = self.folders.iter().enumerate().find(|(n, _)| id.starts_with(&format!("{n}/"))) {
            walk(n, folder, &mut found, &mut Vec::new());
        }
        let one = found.iter().find(|one| one.id == id).ok_or("no such result")?;
        let mut outcome = read(&one.file)?;
        let left_out = outcome.rows.len().saturating_sub(MOST_ROWS);
        outcome.rows.truncate(MOST_ROWS);
        Ok(json!({ "id": one.id, "name": one.name, "result": outcome, "rows_left_out": left_out }))
    }
}

/// Notes the results and campaigns below a folder; whether there were more folders than are looked into.
fn walk(number: usize, root: &Path, found: &mut Vec<Found>, campaigns: &mut Vec<Value>) -> bool {
    let mut waiting = vec![(root.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = waiting.pop() {
        seen += 1;
        if seen > MOST_FOLDERS {
            return true;
        }
        let below = folder.strip_prefix(root).unwrap_or(Path::new("")).display().to_string();
        let name = match below.as_str() {
            "" => root.display().to_string(),
            below => below.to_owned(),
        };
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            // Of the entry itself: a link leads nowhere.
            let (Ok(kind), file) = (entry.file_type(), entry.file_name()) else { continue };
            let path = entry.path();
            if kind.is_dir() && depth < DEEPEST && !file.to_string_lossy().starts_with('.') {
                waiting.push((path, depth + 1));
            } else if kind.is_file() && file == "result.json" {
                let stamp = entry.metadata().map_or((None, 0), |about| (about.modified().ok(), about.len()));
                found.push(Found { id: format!("{number}/{below}"), name: name.clone(), file: path, stamp });
            } else if kind.is_file() && file == "account.json" {
                campaigns.extend(account(&path, &name));
            }
        }
    }
    false
}

fn account(file: &Path, name: &str) -> Option<Value> {
    let account: Account = serde_json::from_slice(&bytes(file).ok()?).ok()?;
    let Account { planned, counted, invalid, missing } = account;
    Some(json!({ "name": name, "planned": planned, "counted": counted, "invalid": invalid, "missing": missing.len() }))
}

/// What the list says of a result, or why it cannot be read.
fn in_short(file: &Path) -> Value {
    let outcome = match read(file) {
        Ok(outcome) => outcome,
        Err(why) => return json!({ "problem": why }),
    };
    let mut verdicts: BTreeMap<&str, u32> = BTreeMap::new();
    outcome.rows.iter().filter_map(|row| row.verdict.as_deref()).for_each(|v| *verdicts.entry(v).or_default() += 1);
    json!({
        "experiment": outcome.experiment, "valid": outcome.valid, "seed": outcome.seed.to_string(),
        "extent": outcome.extent, "rows": outcome.rows.len(), "verdicts": verdicts,
    })
}

fn read(file: &Path) -> Result<Outcome, String> {
    let outcome: Outcome = serde_json::from_slice(&bytes(file)?).map_err(|why| format!("damaged: {why}"))?;
    match outcome.version {
        VERSION => Ok(outcome),
        other => Err(format!("version {other} of the format; this program reads version {VERSION}")),
    }
}

fn bytes(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|why| why.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("larger than {} MB", MOST_BYTES >> 20));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_lab::experiment::{self, Claims, Row as LabRow, Series};
    use headstart_lab::report;
    use headstart_lab::stats::{Pairing, Statistic};
    use std::os::unix::fs::symlink;

    /// A result as the lab writes it.
    fn written(folder: &Path, seed: u64) {
        let base: Vec<f64> = (0..20).map(|i| 50.0 + f64::from(i)).collect();
        let ours = Series::new("healthy", "connect time", "ms", "adaptive", base.iter().map(|v| v * 0.8));
        let base = Series::new("healthy", "connect time", "ms", "sequential", base);
        let mut outcome = experiment::Outcome::new("connect-model", seed);
        outcome.rows.push(LabRow::compare(&ours, &base, Statistic::Median, Pairing::Paired, seed).unwrap());
        outcome.samples = vec![ours, base];
        report::write(folder, &outcome, &Claims::built_in().unwrap()).unwrap();
    }

    #[test]
    fn results_of_the_lab_are_listed_and_read_and_damaged_ones_say_so() {
        let scratch = tempfile::tempdir().unwrap();
        written(&scratch.path().join("one"), u64::MAX);
        written(&scratch.path().join("campaign/pooled/connect-model"), 2);
        let account = r#"{"version":1,"planned":3,"counted":2,"invalid":1,"missing":["x"],"hosts":[]}"#;
        fs::write(scratch.path().join("campaign/account.json"), account).unwrap();
        for (name, text) in [("cut", "{"), ("newer", r#"{"version":9}"#)] {
            fs::create_dir(scratch.path().join(name)).unwrap();
            fs::write(scratch.path().join(name).join("result.json"), text).unwrap();
        }
        let results = Results::of(vec![scratch.path().to_owned()]);
        let list = results.list();
        let all = list["results"].as_array().unwrap();
        let of =
            |id: &str| all.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{list:#}"))["said"].clone();
        assert_eq!((all.len(), of("0/one")["seed"].as_str()), (4, Some("18446744073709551615")));
        assert_eq!(of("0/campaign/pooled/connect-model")["rows"], 1);
        assert!(of("0/cut")["problem"].as_str().unwrap().starts_with("damaged"), "{list:#}");
        assert!(of("0/newer")["problem"].is_string(), "{list:#}");
        assert_eq!(list["campaigns"][0]["missing"], 1);
        let one = results.get("0/one").unwrap();
        let row = &one["result"]["rows"][0];
        assert_eq!((row["arm"].as_str(), row["ratio"].as_f64()), (Some("adaptive"), Some(0.8)));
        assert!(row["interval"][1].as_f64().unwrap() < 1.0 && one["result"].get("samples").is_none(), "{one:#}");

        // What is written later is read later.
        written(&scratch.path().join("cut"), 3);
        let list = results.list();
        let said = list["results"].as_array().unwrap().iter().find(|one| one["id"] == "0/cut").unwrap();
        assert_eq!(said["said"]["seed"], "3", "{list:#}");
    }

    #[test]
    fn nothing_outside_the_named_folders_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("inside"), scratch.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        written(&outside, 1);
        symlink(&outside, inside.join("folder")).unwrap();
        fs::create_dir(inside.join("file")).unwrap();
        symlink(outside.join("result.json"), inside.join("file/result.json")).unwrap();
        let results = Results::of(vec![inside]);
        assert_eq!(results.list()["results"].as_array().unwrap().len(), 0);
        for id in ["0/../outside", "0/folder", "0/file", "1/", "0/", "", "/etc", "0//etc"] {
            assert_eq!(results.get(id).unwrap_err(), "no such result", "{id}");
        }
    }
}
