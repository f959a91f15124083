//! `headstart lab query`: SQL over the tables of a campaign, by DuckDB: its program or its Python package, whichever is installed.

use super::collect::ACCOUNT;
use crate::exit;
use anyhow::Context as _;
use headstart_lab::campaign::SCHEMA;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs SQL by the Python package: the views, then the question; prints a table, or lines of JSON.
const DRIVER: &str = r#"
import json, sys
import duckdb
views, question, form = sys.argv[1:]
base = duckdb.connect()
try:
    base.execute(views)
    if form == "table":
        answer = base.sql(question)
        if answer is not None:
            answer.show(max_rows=1000000, max_width=250)
    else:
        cursor = base.execute(question)
        names = [column[0] for column in cursor.description or ()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            sys.exit(f"headstart: two columns are called {twice[0]}: give one another name by AS")
        for line in cursor.fetchall():
            print(json.dumps(dict(zip(names, line)), default=str))
except duckdb.Error as why:
    sys.exit(f"headstart: {why}")
"#;

/// Arguments of `headstart lab query`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Query in SQL; the tables are rows, samples and devices (docs/guide/campaigns.md).
    sql: String,
    /// Campaign of `headstart lab collect`.
    campaign: PathBuf,
    /// Print a JSON object for each line of the answer.
    #[arg(long)]
    json: bool,
}

/// Asks.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let views = views(&args.campaign)?;
    let python = std::env::var_os("HEADSTART_PYTHON").unwrap_or_else(|| "python3".into());
    let form = if args.json { "json" } else { "table" };
    let has_package = Command::new(&python).args(["-c", "import duckdb"]).output().is_ok_and(|o| o.status.success());
    let mut command = if has_package {
        let mut command = Command::new(&python);
        command.args(["-c", DRIVER, &views, &args.sql, form]);
        command
    } else {
        let mut command = Command::new("duckdb");
        command.arg(if args.json { "-jsonlines" } else { "-box" }).args(["-c", &views, "-c", &args.sql]);
        command
    };
    match command.status() {
        Ok(status) => Ok(exit::of_child(status)),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            let why = "DuckDB is not installed: `pip install duckdb` (HEADSTART_PYTHON names the Python that has it), or its program `duckdb`";
            Err(exit::Coded(exit::NOT_FOUND, why.into()).into())
        }
        Err(why) => Err(why).context("running DuckDB"),
    }
}

/// The statements that give the tables their names.
fn views(campaign: &Path) -> anyhow::Result<String> {
    if !campaign.join(ACCOUNT).is_file() {
        let none = campaign.display();
        return Err(exit::Usage(format!("{none} is no campaign: make one with `headstart lab collect`")).into());
    }
    let mut views = String::new();
    for table in SCHEMA {
        let folder = campaign.join(table.name);
        if !folder.is_dir() {
            // A table without a line has no files: no experiment of the campaign keeps samples, say.
            continue;
        }
        let files = format!("{}/*/*.parquet", folder.display()).replace('\'', "''");
        views += &format!("CREATE VIEW {} AS FROM read_parquet('{files}', hive_partitioning = true);\n", table.name);
    }
    Ok(views)
}
