//! `headstart lab report`: one report out of several results folders.

use crate::exit::{self, Usage};
use crate::output;
use anyhow::Context as _;
use headstart_lab::experiment::{Claims, Outcome};
use headstart_lab::report;
use std::path::{Path, PathBuf};

/// Arguments of `headstart lab report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results folders or result.json files.
    #[arg(required = true, value_name = "DIR")]
    results: Vec<PathBuf>,
    /// Folder for the report.
    #[arg(long, value_name = "DIR", default_value = "headstart-results")]
    out: PathBuf,
    #[command(flatten)]
    format: output::Format,
}

/// Writes the report.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let outcomes = args.results.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    super::prepare(&args.out)?;
    let page = report::write_readable(&args.out, &outcomes, &Claims::built_in()?)?;
    if args.format.json {
        output::document(1, serde_json::json!({ "report": page, "results": outcomes.len() }));
    } else {
        crate::say!("{}", page.display());
    }
    Ok(exit::OK)
}

/// Of a result: the project's largest has 7 MiB.
const MOST: u64 = 256 << 20;

/// Reads the result in a folder, or a result file.
pub fn read(path: &Path) -> anyhow::Result<Outcome> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let text = crate::input::bytes(&file, MOST).map_err(|why| Usage::unreadable(&file, why))?;
    let outcome: Outcome = serde_json::from_slice(&text).map_err(|why| {
        Usage::unreadable(&file, format!("not a result of this version: run the experiment again ({why})"))
    })?;
    outcome.check().with_context(|| format!("{} is inconsistent", file.display()))?;
    Ok(outcome)
}
