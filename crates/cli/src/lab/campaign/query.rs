//! `headstart lab query`: SQL over the tables of a campaign, by DuckDB: its program or its Python package, whichever is installed.

use super::collect::ACCOUNT;
use crate::exit;
use headstart_lab::campaign::SCHEMA;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs SQL by the Python package: the views, then the question; prints a table, or lines of JSON.
const DRIVER: &str = r#"
import json, sys
import duckdb
views, question, form = sys.argv[1:]
base = duckdb.connect()
base.execute("SET enable_progress_bar = false")
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

/// Runs several questions by the Python package; prints the answers as one JSON array.
const DRIVER_OF_MANY: &str = r#"
import json, sys
import duckdb
views, *questions = sys.argv[1:]
base = duckdb.connect()
base.execute("SET enable_progress_bar = false")
answers = []
try:
    base.execute(views)
    for question in questions:
        cursor = base.execute(question)
        names = [column[0] for column in cursor.description]
        answers.append([dict(zip(names, line)) for line in cursor.fetchall()])
except duckdb.Error as why:
    sys.exit(f"headstart: {why}")
print(json.dumps(answers, default=str))
"#;

/// Arguments of `headstart lab query`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Query in SQL; the tables are rows, samples and devices (docs/guide/campaigns.md).
    sql: String,
    /// Campaign of `headstart lab collect`.
    campaign: PathBuf,
    /// Print one JSON object per row.
    #[arg(long)]
    json: bool,
}

/// Asks.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let views = views(&args.campaign)?;
    let form = if args.json { "json" } else { "table" };
    let mut command = if let Some(python) = python() {
        let mut command = Command::new(&python);
        command.args(["-c", DRIVER, &views, &args.sql, form]);
        command
    } else {
        program(if args.json { "-jsonlines" } else { "-box" }, &views, &args.sql)
    };
    Ok(exit::of_child(command.status().map_err(not_run)?))
}

/// The answers to several questions over the same tables, a value a line.
pub fn answers(views: &str, questions: &[&str]) -> anyhow::Result<Vec<Vec<Value>>> {
    if let Some(python) = python() {
        let mut command = Command::new(python);
        let output = run_output(command.args(["-c", DRIVER_OF_MANY, views]).args(questions))?;
        return Ok(serde_json::from_slice(&output)?);
    }
    let ask = |question: &&str| -> anyhow::Result<Vec<Value>> {
        let output = run_output(&mut program("-jsonlines", views, question))?;
        Ok(serde_json::Deserializer::from_slice(&output).into_iter().collect::<Result<_, _>>()?)
    };
    questions.iter().map(ask).collect()
}

fn run_output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(not_run)?;
    anyhow::ensure!(output.status.success(), "DuckDB has failed");
    Ok(output.stdout)
}

/// The Python that has the package, if one is there.
fn python() -> Option<OsString> {
    let python = std::env::var_os("HEADSTART_PYTHON").unwrap_or_else(|| "python3".into());
    let has_package = Command::new(&python).args(["-c", "import duckdb"]).output().is_ok_and(|o| o.status.success());
    has_package.then_some(python)
}

fn program(form: &str, views: &str, question: &str) -> Command {
    let mut command = Command::new("duckdb");
    command.args([form, "-c", views, "-c", question]);
    command
}

fn not_run(why: std::io::Error) -> anyhow::Error {
    if why.kind() == std::io::ErrorKind::NotFound {
        let why = "DuckDB is not installed: `pip install duckdb` (HEADSTART_PYTHON names the Python that has it), or its program `duckdb`";
        return exit::Coded(exit::NOT_FOUND, why.into()).into();
    }
    anyhow::Error::from(why).context("running DuckDB")
}

/// The statements that give the tables their names.
fn views(campaign: &Path) -> anyhow::Result<String> {
    if !campaign.join(ACCOUNT).is_file() {
        let none = campaign.display();
        return Err(exit::Usage(format!("{none} is not a campaign: make one with `headstart lab collect`")).into());
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
