//! Campaigns: `headstart lab plan`, `work`, `status`, `collect`, `submit`, and `query` for what was collected.

pub mod collect;
pub mod plan;
pub mod query;
pub mod status;
pub mod submit;
pub mod work;

use crate::exit;
use anyhow::Context as _;
use headstart_lab::bucket::is_bucket;
use headstart_lab::campaign::{Builds, Extent, Glance, Plan, Results, Task, digest_of_file};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Of a plan: a million tasks have 600 MB.
const MOST: u64 = 1 << 30;

/// The programs that work here.
fn builds() -> anyhow::Result<Builds> {
    let this = std::env::current_exe().context("finding this program")?;
    let lab = digest_of_file(&this).with_context(|| format!("reading {}", this.display()))?;
    let headstart = headstart_lab::program::headstart().ok().and_then(|program| digest_of_file(&program).ok());
    Ok(Builds { lab, headstart })
}

/// Reads a plan.
fn read(file: &Path) -> anyhow::Result<Plan> {
    let text = crate::input::text(file, MOST).map_err(|why| exit::Usage::unreadable(file, why))?;
    Plan::parse(&text).map_err(|why| exit::Usage(format!("{}: {}", file.display(), exit::one_line(&why))).into())
}

/// The folders of results, which must be there; of buckets, what is there of these tasks is read.
fn folders(paths: &[PathBuf], extent: Extent, tasks: &[Task]) -> anyhow::Result<Vec<Results>> {
    if let Some(none) = paths.iter().find(|path| !is_bucket(path) && !path.is_dir()) {
        return Err(exit::Usage(format!("{} is not a folder of results", none.display())).into());
    }
    let ids: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    paths.iter().map(|path| Results::open(path, extent, |id| ids.contains(id))).collect()
}

/// Whether one of `folders` has a result of `task`, by its record: workers and `collect` read it whole.
fn is_there(task: &Task, folders: &[Results]) -> bool {
    folders.iter().any(|results| matches!(results.glance(&task.id), Glance::Done { .. }))
}

/// `seconds` in the unit that says most: "40 s", "12 min", "3.5 h".
fn long(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_have_a_unit_that_fits() {
        assert_eq!([40.4, 720.0, 12_600.0].map(super::long), ["40 s", "12 min", "3.5 h"]);
    }
}
