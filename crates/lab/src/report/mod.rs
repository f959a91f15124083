//! Reports: a results folder with `result.json`, `rows.csv`, `report.md` and one self-contained `report.html`.
//!
//! Reads outcomes, never measures. The page needs no server, no script and fetches nothing; it forbids itself to.
//! One file a format; what the formats say is decided once, in `summary`.

mod csv;
mod escape;
pub mod headline;
mod html;
mod layout;
pub mod ledger;
mod markdown;
mod number;
pub mod picture;
pub mod plot;
mod summary;
mod table;
mod tour;

pub use html::page;
pub use layout::ColumnStyle;
pub use markdown::markdown;
pub use number::{change, figure, ratio, with_unit};
pub use table::Table;

use crate::experiment::{Claims, Outcome, OutcomeError, Row};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The outcome breaks its contract.
    #[error(transparent)]
    Outcome(#[from] OutcomeError),
    /// A file or folder could not be written.
    #[error("cannot write {path}: {source}; give a results folder that you may write to", path = path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Makes the results folder, and tries to write into it, so that a run does not fail after an hour because it cannot be written to.
pub fn prepare(dir: &Path) -> Result<(), ReportError> {
    // Many workers may try the same folder at once, on several hosts.
    let trial = dir.join(format!(".writable-{}.part", std::process::id()));
    let remove = |file: &Path| match fs::remove_file(file) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&trial, []))
        .and_then(|()| remove(&trial))
        .map_err(|source| ReportError::Write { path: dir.to_owned(), source })
}

/// Writes the results folder of one experiment; creates `dir` and replaces what an earlier run left there. Returns the
/// path of the page.
pub fn write(dir: &Path, outcome: &Outcome, claims: &Claims) -> Result<PathBuf, ReportError> {
    outcome.check()?;
    let json = serde_json::to_string_pretty(outcome).expect("an outcome is made of strings, numbers and lists");
    put(dir, "result.json", &(json + "\n"))?;
    write_readable(dir, std::slice::from_ref(outcome), claims)
}

/// Writes `rows.csv`, `report.md` and `report.html` about several experiments into `dir`, in this order. Returns the path
/// of the page.
pub fn write_readable(dir: &Path, outcomes: &[Outcome], claims: &Claims) -> Result<PathBuf, ReportError> {
    for outcome in outcomes {
        outcome.check()?;
    }
    put(dir, "rows.csv", &csv::rows(outcomes))?;
    put(dir, "report.md", &markdown(outcomes, claims))?;
    put(dir, "report.html", &page(outcomes, claims))
}

/// Writes `report.html`, the page of `headstart demo`, into `dir`; returns its path. The outcomes' own folders are beside it.
pub fn write_tour(dir: &Path, outcomes: &[&Outcome]) -> Result<PathBuf, ReportError> {
    put(dir, "report.html", &tour::page(outcomes))
}

/// What a terminal of `width` characters shows of an outcome: the headline, the medians, the comparisons with the paper;
/// all comparisons where there is neither. The rest is in the report.
pub fn terminal(outcome: &Outcome, width: usize, colour: bool) -> String {
    let mut out = String::new();
    for line in headlines_with_validity(outcome) {
        out += &layout::paragraph(&line, width);
    }
    let claimed: Vec<Row> = outcome.rows.iter().filter(|r| r.claim.is_some()).cloned().collect();
    let medians = summary::medians(outcome);
    let shown = if claimed.is_empty() && medians.is_none() { &outcome.rows } else { &claimed };
    for table in medians.into_iter().chain(summary::grouped(shown)) {
        out.push('\n');
        out += &table.to_text(width, colour);
    }
    out
}

/// The headline of an outcome; reasons why the run is not valid come first.
fn headlines_with_validity(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if !outcome.valid {
        lines.push(format!("Not valid: {}.", outcome.why_invalid.join("; ")));
    }
    lines.extend(summary::headlines(outcome));
    lines
}

/// The title of an outcome: what its registry entry says it shows, else its name.
fn title(outcome: &Outcome) -> &str {
    crate::experiment::find(&outcome.experiment).map_or(&outcome.experiment, |e| e.shows)
}

/// Writes a file whole or not at all: a reader never sees half of a report.
fn put(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ReportError> {
    let path = dir.join(name);
    let unfinished = dir.join(format!(".{name}.part"));
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&unfinished, text))
        .and_then(|()| fs::rename(&unfinished, &path))
        .map_err(|source| ReportError::Write { path: path.clone(), source })?;
    Ok(path)
}

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_to_is_refused_before_and_one_that_can_is_made_and_left_empty() {
        let dir = tempfile::tempdir().unwrap();
        let (file, new) = (dir.path().join("file"), dir.path().join("new/folder"));
        fs::write(&file, "").unwrap();
        let refused = prepare(&file.join("folder")).unwrap_err().to_string();
        assert!(refused.contains("file/folder") && refused.contains("may write to"), "{refused}");
        prepare(&new).unwrap();
        assert_eq!(fs::read_dir(new).unwrap().count(), 0);
    }

    #[test]
    fn a_results_folder_holds_four_files_and_the_json_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let (outcome, claims) = (sample::outcome(), Claims::built_in().unwrap());
        let page = write(&dir.path().join("new/folder"), &outcome, &claims).unwrap();
        let folder = page.parent().unwrap();
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["report.html", "report.md", "result.json", "rows.csv"]);
        let json = fs::read_to_string(folder.join("result.json")).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
        write(folder, &outcome, &claims).expect("a second run replaces the first");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = write(&dir.path().join("file"), &sample::outcome(), &Claims::built_in().unwrap()).unwrap_err();
        assert!(error.to_string().contains("file/result.json"), "{error}");
    }

    #[test]
    fn a_contradiction_is_never_written() {
        let dir = tempfile::tempdir().unwrap();
        let bad = Outcome { valid: false, ..Outcome::new("probe", 1) };
        assert!(matches!(write(dir.path(), &bad, &Claims::built_in().unwrap()), Err(ReportError::Outcome(_))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_terminal_gets_lines_that_fit() {
        for width in [40, 60, 80, 120] {
            let text = terminal(&sample::outcome(), width, false);
            assert!(text.lines().all(|l| l.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("reproduced") && !text.contains('\u{1b}'));
        }
    }

    #[test]
    fn the_terminal_says_first_that_a_run_is_not_valid() {
        let mut outcome = sample::outcome();
        outcome.invalidate("the host was busy");
        assert!(terminal(&outcome, 80, false).starts_with("Not valid: the host was busy.\n"));
    }
}
