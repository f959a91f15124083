//! The results of a campaign as Parquet: `TABLE/experiment=NAME/part-0.parquet`, compressed by zstd.
//!
//! The layout is Hive's, which DuckDB, Arrow and Spark read: `experiment` is a column of the path. [`SCHEMA`] is the one description of
//! the columns; the guide prints it. It changes only together with [`SCHEMA_VERSION`], which stands in the metadata of each file.

use super::Counted;
use crate::columns::{Cell, Column, Table, Writing, count, maybe, number, text, truth, word};
use crate::experiment::Row;
use anyhow::Context as _;
use parquet::data_type::ByteArray;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the schema, in the metadata `headstart.schema` of each file.
pub const SCHEMA_VERSION: u32 = 1;

/// Rows that are kept in memory before they are written.
const ROW_GROUP: usize = 100_000;

const TASK: Column = text("task", "id of the task");
const SEED: Column = count("seed", "seed of the task");
const SPEED: Column = text("speed", "`sim` or `netns`");
const VALID: Column = truth("valid", "whether the machine was quiet enough; other rows are not judged");

/// The tables.
pub const SCHEMA: [Table; 3] = [
    Table {
        name: "rows",
        what: "a comparison of two arms within one task, as in `result.json`",
        columns: &[
            TASK,
            SEED,
            SPEED,
            VALID,
            text("claim", "claim of a paper that it tests"),
            text("condition", "network and workload"),
            text("metric", "what was measured, with the statistic"),
            text("unit", "unit of `ours` and `baseline`"),
            text("arm", "the way of doing the work"),
            text("baseline_arm", "what it is compared with"),
            number("ours", "value of the arm"),
            number("baseline", "value of the baseline"),
            number("ratio", "`ours` / `baseline`"),
            number("interval_lo", "lower end of the ratio's 95 % interval"),
            number("interval_hi", "upper end of that interval"),
            number("paper", "the ratio in the paper"),
            text("verdict", "verdict on the claim"),
        ],
    },
    Table {
        name: "samples",
        what: "one trial of one arm; the same `trial` of two arms of one task is a pair",
        columns: &[
            TASK,
            SEED,
            SPEED,
            VALID,
            text("condition", "network and workload"),
            text("metric", "what was measured"),
            text("unit", "unit of `value`"),
            text("arm", "the way of doing the work"),
            count("trial", "number of the trial, from 0"),
            number("value", "what was measured; null for a trial that failed"),
        ],
    },
    Table {
        name: "devices",
        what: "one task: how it was run, and the state of the machine",
        columns: &[
            TASK,
            SEED,
            SPEED,
            VALID,
            text("planned_condition", "condition that the task asked for"),
            truth("quick", "fewer trials"),
            text("pages", "SHA-256 of the pages, if given"),
            text("build", "SHA-256 of the programs"),
            text("why_invalid", "why the run is not valid"),
            text("host", "name of the host"),
            count("runs", "number of runs until this result"),
            number("seconds", "how long it took"),
            text("date", "when it began, by the host's clock: UTC, ISO 8601"),
            text("program", "version of headstart"),
            text("commit", "commit that it was built from"),
            text("kernel", "kernel release"),
            text("cpu", "model of the processor"),
            count("cpus", "processors online"),
            text("governor", "frequency governor"),
            number("load_before", "one-minute load average before"),
            number("load_after", "the same after"),
            number("idle_before_percent", "idle just before"),
            number("idle_percent", "idle meanwhile"),
            number("steal_percent", "taken by the hypervisor meanwhile"),
            number("pressure_percent", "time in which some task waited for a processor"),
            number("temperature_c", "hottest thermal zone"),
            text("congestion_control", "the host's default"),
        ],
    },
];

/// The files while they are being written.
pub struct Tables {
    folder: PathBuf,
    files: BTreeMap<(usize, String), Writing>,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("folder", &self.folder).field("files", &self.files.len()).finish()
    }
}

impl Tables {
    /// Tables below `folder`. What an earlier collection left there is deleted.
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        for table in SCHEMA {
            let old = folder.join(table.name);
            if old.exists() {
                fs::remove_dir_all(&old).with_context(|| format!("deleting {}", old.display()))?;
            }
        }
        Ok(Self { folder: folder.to_owned(), files: BTreeMap::new() })
    }

    /// Adds the lines of a result.
    pub fn add(&mut self, counted: &Counted) -> anyhow::Result<()> {
        let task = &counted.record.task;
        let (id, speed) = (ByteArray::from(task.id.as_str()), ByteArray::from(task.speed.to_string().as_str()));
        let valid = counted.outcome.valid;
        let start = || {
            let (id, speed) = (Cell::Text(Some(id.clone())), Cell::Text(Some(speed.clone())));
            vec![id, Cell::Count(Some(task.seed)), speed, Cell::Truth(Some(valid))]
        };
        for row in &counted.outcome.rows {
            self.put(0, &task.experiment, row_cells(start(), row))?;
        }
        for series in &counted.outcome.samples {
            let same = [&series.condition, &series.metric, &series.unit, &series.arm];
            let same = same.map(|text| ByteArray::from(text.as_str()));
            for (trial, value) in series.values.iter().enumerate() {
                let mut cells = start();
                cells.extend(same.iter().map(|text| Cell::Text(Some(text.clone()))));
                cells.extend([Cell::Count(Some(trial as u64)), Cell::Number(*value)]);
                self.put(1, &task.experiment, cells)?;
            }
        }
        self.put(2, &task.experiment, device_cells(start(), counted))
    }

    fn put(&mut self, table: usize, experiment: &str, cells: Vec<Cell>) -> anyhow::Result<()> {
        let key = (table, experiment.to_owned());
        if !self.files.contains_key(&key) {
            let folder = self.folder.join(SCHEMA[table].name).join(format!("experiment={experiment}"));
            self.files
                .insert(key.clone(), Writing::new(&SCHEMA[table], SCHEMA_VERSION, &folder.join("part-0.parquet"))?);
        }
        let file = self.files.get_mut(&key).expect("it was just made");
        file.lines.push(cells);
        if file.lines.len() >= ROW_GROUP { file.flush(&SCHEMA[table]) } else { Ok(()) }
    }

    /// Writes what is left, and gives the files their names.
    pub fn finish(self) -> anyhow::Result<()> {
        for ((table, _), file) in self.files {
            file.close(&SCHEMA[table])?;
        }
        Ok(())
    }
}

fn row_cells(mut cells: Vec<Cell>, row: &Row) -> Vec<Cell> {
    let verdict = row.verdict.map(|verdict| verdict.to_string());
    cells.extend([
        maybe(row.claim.as_ref()),
        word(&row.condition),
        word(&row.metric),
        word(&row.unit),
        word(&row.arm),
        maybe(row.baseline_arm.as_ref()),
        Cell::Number(Some(row.ours)),
        Cell::Number(row.baseline),
        Cell::Number(row.ratio),
        Cell::Number(row.interval.map(|interval| interval.lo)),
        Cell::Number(row.interval.map(|interval| interval.hi)),
        Cell::Number(row.paper),
        maybe(verdict.as_ref()),
    ]);
    cells
}

fn device_cells(mut cells: Vec<Cell>, counted: &Counted) -> Vec<Cell> {
    let (record, outcome) = (&counted.record, &counted.outcome);
    let why = (!outcome.valid).then(|| outcome.why_invalid.join("; "));
    let d = outcome.device.clone().unwrap_or_default();
    let known = outcome.device.is_some();
    cells.extend([
        word(&record.task.condition),
        Cell::Truth(Some(record.task.quick)),
        maybe(record.task.pages.as_ref().map(|pages| &pages.sha256)),
        word(&record.task.build),
        maybe(why.as_ref()),
        word(&record.host),
        Cell::Count(Some(record.runs.into())),
        Cell::Number(outcome.extent.as_ref().map(|extent| extent.seconds)),
        maybe(known.then_some(&d.date)),
        maybe(known.then_some(&d.program)),
        maybe(d.commit.as_ref()),
        maybe(d.kernel.as_ref()),
        maybe(d.cpu.as_ref()),
        Cell::Count(d.cpus.map(u64::from)),
        maybe(d.governor.as_ref()),
        Cell::Number(d.load_before),
        Cell::Number(d.load_after),
        Cell::Number(d.idle_before_percent),
        Cell::Number(d.idle_percent),
        Cell::Number(d.steal_percent),
        Cell::Number(d.pressure_percent),
        Cell::Number(d.temperature_c),
        maybe(d.congestion_control.as_ref()),
    ]);
    cells
}

#[cfg(test)]
mod tests {
    use super::super::Provenance;
    use super::super::folder::tests::{outcome, task};
    use super::*;
    use crate::columns::ColumnType;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::fs::File;

    #[test]
    fn what_is_written_reads_back_with_its_schema_and_version() {
        let folder = tempfile::tempdir().unwrap();
        let mut tables = Tables::new(folder.path()).unwrap();
        for seed in [1, u64::MAX] {
            let mut outcome = outcome(seed.min(9));
            outcome.samples[0].values[1] = None;
            let (task, host, sha256) = (task(seed), "a".into(), String::new());
            let record = Provenance { version: 1, task, host, runs: 1, sha256, brief: None };
            tables.add(&Counted { record, outcome }).unwrap();
        }
        tables.finish().unwrap();
        let mut lines = BTreeMap::new();
        for table in SCHEMA {
            let file = folder.path().join(table.name).join("experiment=connect-model/part-0.parquet");
            let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
            let about = reader.metadata().file_metadata();
            let said = about.key_value_metadata().unwrap();
            assert!(said.iter().any(|kv| kv.key == "headstart.schema" && kv.value.as_deref() == Some("1")));
            let names: Vec<_> = about.schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
            assert_eq!(names, table.columns.iter().map(|c| c.name).collect::<Vec<_>>());
            let line = |row: parquet::record::Row| -> BTreeMap<String, String> {
                row.get_column_iter().map(|(name, field)| (name.clone(), field.to_string())).collect()
            };
            let all: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| line(row.unwrap())).collect();
            lines.insert(table.name, all);
        }
        assert_eq!([lines["rows"].len(), lines["samples"].len(), lines["devices"].len()], [4, 40, 2]);
        assert_eq!([&lines["rows"][0]["arm"], &lines["rows"][0]["valid"]], ["\"adaptive\"", "true"]);
        assert_eq!(lines["devices"][1]["seed"], u64::MAX.to_string());
        assert_eq!([&lines["samples"][1]["trial"], &lines["samples"][1]["value"]], ["1", "null"]);
        assert_eq!(lines["samples"][0]["value"].parse().ok(), outcome(1).samples[0].values[0]);
    }

    /// The tables as the guide prints them.
    fn in_words() -> String {
        let mut text = String::new();
        for table in SCHEMA {
            text += &format!("`{}`: {}.\n\n| column | type | meaning |\n|---|---|---|\n", table.name, table.what);
            for column in table.columns {
                let kind = match column.kind {
                    ColumnType::Text => "text",
                    ColumnType::Number => "double",
                    ColumnType::Count => "unsigned 64",
                    ColumnType::Truth => "boolean",
                };
                text += &format!("| `{}` | {kind} | {} |\n", column.name, column.what);
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn the_guide_prints_the_schema() {
        let guide = include_str!("../../../../docs/guide/campaigns.md");
        assert!(guide.contains(&format!("Schema version {SCHEMA_VERSION} ")));
        assert!(guide.contains(&in_words()), "docs/guide/campaigns.md must have this:\n\n{}", in_words());
    }

    #[test]
    fn columns_have_names_of_their_own() {
        for table in SCHEMA {
            let names: std::collections::BTreeSet<_> = table.columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            assert!(!names.contains("experiment"), "that is of the path");
        }
    }
}
