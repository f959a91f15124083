//! `headstart lab fleet`: what the hosts of a fleet wrote (telemetry), as a report; and a fleet that never was, to try it with.
//!
//! DuckDB reads the batches. An event that came twice counts once; a line that is none is counted and left out.

use super::campaign::query;
use crate::exit::{self, Usage};
use crate::output;
use headstart_lab::bucket::is_bucket;
use headstart_lab::fleet::{self, Size};
use headstart_lab::report::{ColumnStyle, Table};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Version of the JSON.
const VERSION: u32 = 1;

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Report on telemetry: connect times, where IPv6 hurts, what headstart saves (DuckDB).
    Report(Report),
    /// Pack batches by days, as Parquet, into a folder or an S3-compatible bucket.
    Pack(Pack),
    /// Write telemetry of simulated hosts, made in virtual time.
    Simulate(Simulate),
}

/// Arguments of `headstart lab fleet report`.
#[derive(Debug, clap::Args)]
pub struct Report {
    /// Folder with batches (*.jsonl), as hosts wrote them or as they were collected, or with packed days, or s3://BUCKET/PREFIX.
    folder: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Arguments of `headstart lab fleet pack`.
#[derive(Debug, clap::Args)]
pub struct Pack {
    /// Folder with batches.
    folder: PathBuf,
    /// Folder for `day=YYYY-MM-DD/NAME.parquet`, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Delete batches that were packed.
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    format: output::Format,
}

/// Arguments of `headstart lab fleet simulate`.
#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// Folder for the batches.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Hosts; every fifth is a control without headstart.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    hosts: u64,
    /// Days.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=366))]
    days: u64,
    /// Seed; the same seed gives the same bytes.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = super::asked::seed())]
    seed: u64,
    #[command(flatten)]
    format: output::Format,
}

/// Does it.
pub fn run(verb: &Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::Report(args) => report(args),
        Verb::Pack(args) => pack(args),
        Verb::Simulate(Simulate { out, hosts, days, seed, format }) => {
            super::prepare(out)?;
            let events = fleet::simulate(Size { hosts: *hosts, days: *days, seed: *seed }, out)?;
            if format.json {
                let told =
                    serde_json::json!({ "events": events, "hosts": hosts, "days": days, "seed": seed, "folder": out });
                output::document(1, told);
                return Ok(exit::OK);
            }
            crate::say!("{events} events of {hosts} hosts in {} (simulated, seed {seed})", out.display());
            Ok(exit::OK)
        }
    }
}

/// A part of the report.
struct Question {
    name: &'static str,
    title: &'static str,
    /// Columns, in their order; those of words first.
    words: &'static [&'static str],
    numbers: &'static [&'static str],
    sql: &'static str,
}

const QUESTIONS: [Question; 5] = [
    Question {
        name: "account",
        title: "Overview",
        words: &["first_day", "last_day"],
        numbers: &["hosts", "events", "twice", "damaged_lines", "missing"],
        sql: "SELECT count(DISTINCT host) AS hosts, count(*) AS events, strftime(make_timestamp(min(time_s) * 1000000), '%Y-%m-%d') AS first_day, \
              strftime(make_timestamp(max(time_s) * 1000000), '%Y-%m-%d') AS last_day, (SELECT count(*) FILTER (id IS NOT NULL) - count(DISTINCT id) FROM lines) AS twice, \
              (SELECT count(*) FILTER (id IS NULL) FROM lines) AS damaged_lines, \
              CAST(coalesce(sum(count) FILTER (kind = 'missing'), 0) AS BIGINT) AS missing FROM events",
    },
    Question {
        name: "connect",
        title: "Connect times by operator, family and app (ms)",
        words: &["label", "family", "app", "accelerated"],
        numbers: &["connections", "failed_percent", "median_ms", "p95_ms"],
        sql: "SELECT label, 'IPv' || family AS family, app, accelerated, count(*) AS connections, 100.0 * count(failed_after_ms) / count(*) AS failed_percent, \
              median(connect_ms) AS median_ms, quantile_cont(connect_ms, 0.95) AS p95_ms \
              FROM events WHERE kind = 'flow' GROUP BY ALL ORDER BY ALL",
    },
    Question {
        name: "lookups",
        title: "Time for a lookup (ms)",
        words: &["label", "app"],
        numbers: &["lookups", "median_ms", "p95_ms"],
        sql: "SELECT label, app, count(*) AS lookups, median(took_ms) AS median_ms, quantile_cont(took_ms, 0.95) AS p95_ms \
              FROM events WHERE kind = 'lookup' GROUP BY ALL ORDER BY ALL",
    },
    Question {
        name: "ipv6",
        title: "Where IPv6 hurts without headstart (fails: 1 % or more; slower: 20 % above IPv4)",
        words: &["label", "verdict"],
        numbers: &[
            "ipv6_connections",
            "ipv6_failed_percent",
            "ipv6_failed_after_ms",
            "ipv4_median_ms",
            "ipv6_median_ms",
        ],
        sql: "SELECT label, count(*) FILTER (family = 6 AND NOT accelerated) AS ipv6_connections, \
              100.0 * count(failed_after_ms) FILTER (family = 6 AND NOT accelerated) / ipv6_connections AS ipv6_failed_percent, \
              median(failed_after_ms) FILTER (family = 6 AND NOT accelerated) AS ipv6_failed_after_ms, \
              median(connect_ms) FILTER (family = 4) AS ipv4_median_ms, \
              median(connect_ms) FILTER (family = 6 AND NOT accelerated) AS ipv6_median_ms, \
              CASE WHEN ipv6_failed_percent >= 1 THEN 'fails' WHEN ipv6_median_ms > 1.2 * ipv4_median_ms THEN 'slower' ELSE 'well' END AS verdict \
              FROM events WHERE kind = 'flow' GROUP BY label HAVING ipv6_connections > 0 ORDER BY label",
    },
    Question {
        name: "saved",
        title: "What headstart saves: mean wait for a connection, failed attempts included (ms)",
        words: &["label"],
        numbers: &["connections", "without_ms", "with_ms", "saved_ms", "saved_hours"],
        sql: "SELECT label, count(connect_ms) FILTER (accelerated) AS connections, \
              sum(coalesce(connect_ms, 0) + coalesce(failed_after_ms, 0)) FILTER (NOT accelerated) / count(connect_ms) FILTER (NOT accelerated) AS without_ms, \
              sum(coalesce(connect_ms, 0) + coalesce(failed_after_ms, 0)) FILTER (accelerated) / count(connect_ms) FILTER (accelerated) AS with_ms, \
              without_ms - with_ms AS saved_ms, saved_ms * connections / 3600000.0 AS saved_hours \
              FROM events WHERE kind = 'flow' GROUP BY label HAVING connections > 0 AND without_ms IS NOT NULL ORDER BY label",
    },
];

fn pack(args: &Pack) -> anyhow::Result<u8> {
    let fleet::Packed { batches, events, twice, damaged, growing } = fleet::pack(&args.folder, &args.to, args.delete)?;
    if args.format.json {
        let told = serde_json::json!({ "batches": batches, "events": events, "twice": twice, "damaged_lines": damaged, "growing": growing });
        output::document(1, told);
        return Ok(exit::OK);
    }
    crate::say!("{} in {}", output::plural(events, "event"), args.to.display());
    for (what, count) in [
        ("duplicate events, left out", twice),
        ("damaged lines, left out", damaged),
        ("batches still being written", growing),
    ] {
        if count > 0 {
            crate::complain!("{count} {what}");
        }
    }
    Ok(exit::OK)
}

fn report(args: &Report) -> anyhow::Result<u8> {
    let copies = is_bucket(&args.folder).then(|| fleet::days(&args.folder)).transpose()?;
    let views = views(copies.as_ref().map_or(&args.folder, |copies| copies.path()), &args.folder)?;
    let asked: Vec<&str> = QUESTIONS.iter().map(|question| question.sql).collect();
    let answers = query::answers(&views, &asked)?;
    if args.json {
        let parts = QUESTIONS.iter().zip(answers).map(|(question, lines)| (question.name.to_owned(), lines.into()));
        output::document(VERSION, Value::Object(parts.collect()));
        return Ok(exit::OK);
    }
    let tables: Vec<String> = QUESTIONS
        .iter()
        .zip(&answers)
        .map(|(question, lines)| question.table(lines))
        .filter(|t| !t.is_empty())
        .collect();
    crate::say!("{}", tables.join("\n"));
    Ok(exit::OK)
}

impl Question {
    fn table(&self, lines: &[Value]) -> String {
        let kinds = self.words.iter().map(|name| (*name, ColumnStyle::Text));
        let columns: Vec<_> = kinds.chain(self.numbers.iter().map(|name| (*name, ColumnStyle::Number))).collect();
        let shown: Vec<(String, ColumnStyle)> = columns.iter().map(|(name, kind)| (heading(name), *kind)).collect();
        let shown: Vec<(&str, ColumnStyle)> = shown.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let mut table = Table::new(self.title, &shown);
        for line in lines {
            table.push(columns.iter().map(|(name, _)| cell(&line[*name])));
        }
        if table.is_empty() {
            String::new()
        } else {
            table.to_text(output::width(), std::io::stdout().is_terminal() && output::colour())
        }
    }
}

/// A column's name, as a person reads it.
fn heading(name: &str) -> String {
    match name {
        "accelerated" => "with headstart".into(),
        "twice" => "duplicates".into(),
        name => name.replace('_', " "),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => text.clone(),
        number => match number.as_f64() {
            Some(_) if number.is_u64() || number.is_i64() => number.to_string(),
            // Half a minute is a hundredth of an hour.
            Some(value) if value.abs() < 1.0 => format!("{value:.2}"),
            Some(value) => format!("{value:.1}"),
            None => number.to_string(),
        },
    }
}

/// What reports read of an event, and its type.
const COLUMNS: [(&str, &str); 13] = [
    ("version", "UBIGINT"),
    ("kind", "VARCHAR"),
    ("id", "VARCHAR"),
    ("host", "VARCHAR"),
    ("label", "VARCHAR"),
    ("time_s", "BIGINT"),
    ("app", "VARCHAR"),
    ("family", "UTINYINT"),
    ("accelerated", "BOOLEAN"),
    ("connect_ms", "DOUBLE"),
    ("failed_after_ms", "DOUBLE"),
    ("took_ms", "DOUBLE"),
    ("count", "UBIGINT"),
];

/// `lines`: what is in the files below `folder`, which the user calls `named`; `events`: each once.
fn views(folder: &Path, named: &Path) -> anyhow::Result<String> {
    let found = std::fs::read_dir(folder).map_err(|why| Usage(format!("{}: {why}", named.display())))?;
    let (mut batches, mut days) = (false, false);
    for entry in found.flatten() {
        batches |= entry.path().extension().is_some_and(|ending| ending == "jsonl");
        days |= entry.file_name().as_encoded_bytes().starts_with(b"day=");
    }
    let place = folder.display().to_string().replace('\'', "''");
    let types = COLUMNS.map(|(name, kind)| format!("{name}: '{kind}'")).join(", ");
    let cast = COLUMNS.map(|(name, kind)| format!("CAST({name} AS {kind}) AS {name}")).join(", ");
    let batches = batches.then(|| {
        format!("FROM read_json('{place}/*.jsonl', format = 'newline_delimited', ignore_errors = true, columns = {{{types}}})")
    });
    let days = days.then(|| format!("SELECT {cast} FROM read_parquet('{place}/day=*/*.parquet')"));
    let all: Vec<String> = batches.into_iter().chain(days).collect();
    if all.is_empty() {
        return Err(Usage(format!("{} holds no telemetry (*.jsonl, day=*/*.parquet)", named.display())).into());
    }
    Ok(format!(
        "CREATE TABLE lines AS {};\n\
         CREATE TABLE events AS SELECT DISTINCT ON (id) * FROM lines WHERE id IS NOT NULL AND version = 1;\n",
        all.join(" UNION ALL BY NAME ")
    ))
}
