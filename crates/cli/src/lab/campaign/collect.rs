//! `headstart lab collect`: every task exactly once, then tables, pooled results and one report.

use crate::{exit, output};
use anyhow::Context as _;
use headstart_lab::bucket::is_bucket;
use headstart_lab::campaign::{Account, Agreement, Discrepancy, Extent, Pooled, SCHEMA, Tables, collect};
use headstart_lab::experiment::{Claims, Outcome};
use headstart_lab::report::{self, ColumnStyle, Table, headline, ledger};
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the pooled results, one for each experiment.
pub const POOLED: &str = "pooled";
/// Where every task is accounted for.
pub const ACCOUNT: &str = "account.json";
/// Where a collection is not finished yet: it was killed, or the disk is full. The next one goes on in its place.
const UNFINISHED: &str = ".collecting";
/// Tasks of one kind of trouble that are printed; `account.json` has all.
const MOST_LINES: usize = 10;
/// Rows of the table of agreement.
const MOST_ROWS: usize = 60;

/// Arguments of `headstart lab collect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `headstart lab plan`.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Folders of results, or s3://BUCKET/PREFIX.
    #[arg(required = true, value_name = "DIR")]
    results: Vec<PathBuf>,
    /// Folder for tables and report.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    format: output::Format,
}

/// Collects; fails where the plan is not accounted for exactly once.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = super::read(&args.plan)?;
    if is_bucket(&args.out) {
        return Err(exit::Usage("--out: must be a local folder; copy it to the bucket afterwards".into()).into());
    }
    let folders = super::folders(&args.results, Extent::Whole, &plan.tasks)?;
    let claims = Claims::built_in()?;
    not_of_others(&args.out)?;
    crate::lab::prepare(&args.out)?;
    begin(&args.out)?;
    let (mut tables, mut pooled) = (Tables::new(&args.out)?, Pooled::default());
    let of_tables = || format!("writing tables into {}", args.out.display());
    let account = collect(&plan, &folders, |counted| {
        pooled.add(&counted);
        tables.add(&counted).with_context(of_tables)
    })?;
    tables.finish().with_context(of_tables)?;
    let (outcomes, agreements): (Vec<_>, Vec<_>) = pooled.finish(&claims).into_iter().unzip();
    let agreements: Vec<Agreement> = agreements.into_iter().flatten().collect();
    write(&args.out, &account, &outcomes, &agreements, &claims)?;
    let unfinished = args.out.join(UNFINISHED);
    fs::remove_file(&unfinished).with_context(|| format!("deleting {}", unfinished.display()))?;
    for (what, places) in account.troubles() {
        tell(what, places);
    }
    if args.format.json {
        output::document(1, serde_json::to_value(&account)?);
    } else {
        let hosts = output::plural(account.hosts.len() as u64, "host");
        crate::say!(
            "{} of {} tasks, {} invalid, {hosts}\nreport: {}",
            account.counted,
            account.planned,
            account.invalid,
            args.out.join("report.html").display()
        );
    }
    Ok(match (account.is_whole(), account.invalid) {
        (false, _) => exit::FAILURE,
        (true, 0) => exit::OK,
        (true, _) => exit::INVALID,
    })
}

/// Marks `out` as unfinished; an account of earlier is no longer one of what is there.
fn begin(out: &Path) -> anyhow::Result<()> {
    let unfinished = out.join(UNFINISHED);
    fs::write(&unfinished, "").with_context(|| format!("writing {}", unfinished.display()))?;
    match fs::remove_file(out.join(ACCOUNT)) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(why).context("deleting the earlier account"),
        _ => Ok(()),
    }
}

/// Whether what a collection deletes in `out` is an earlier collection's.
fn not_of_others(out: &Path) -> Result<(), exit::Usage> {
    let mut ours = SCHEMA.iter().map(|table| table.name).chain([POOLED]);
    let is_ours = [ACCOUNT, UNFINISHED].iter().any(|name| out.join(name).exists());
    match ours.find(|name| out.join(name).exists()).filter(|_| !is_ours) {
        None => Ok(()),
        Some(name) => Err(exit::Usage(format!(
            "--out: {} has a folder {name} and no {ACCOUNT}, so it is not an earlier collection, and {name} would be deleted: \
             give another folder",
            out.display()
        ))),
    }
}

fn tell(what: &str, places: &[Discrepancy]) {
    for Discrepancy { id, task, folders, why } in places.iter().take(MOST_LINES) {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let at = if folders.is_empty() { String::new() } else { format!(" in {}", folders.join(", ")) };
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        crate::complain!("{what}: {task} ({id:.12}){at}{why}");
    }
    if let Some(more @ 1..) = places.len().checked_sub(MOST_LINES) {
        crate::complain!("{what}: {more} more, see account.json");
    }
}

/// Writes `account.json`, the pooled results, the report, the ledger and the page `campaign.md`.
fn write(
    out: &Path,
    account: &Account,
    outcomes: &[Outcome],
    agreements: &[Agreement],
    claims: &Claims,
) -> anyhow::Result<()> {
    let put = |name: &str, text: String| {
        let file = out.join(name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    };
    let old = out.join(POOLED);
    if old.exists() {
        fs::remove_dir_all(&old).with_context(|| format!("deleting {}", old.display()))?;
    }
    for outcome in outcomes {
        // A quick campaign beside a full one, or one of other pages, has a folder of its own.
        let place =
            (0..).map(|n| if n == 0 { outcome.experiment.clone() } else { format!("{}-{n}", outcome.experiment) });
        let place = place.map(|name| old.join(name)).find(|place| !place.exists()).context("numbers ran out")?;
        report::write(&place, outcome, claims)?;
    }
    report::write_readable(out, outcomes, claims)?;
    let (headlines, accounts) = (headline::lines(claims, outcomes), ledger::accounts(claims, outcomes));
    let how = how(account, outcomes);
    put("claims.md", ledger::markdown(&headlines, &accounts, &how))?;
    put("claims.json", serde_json::to_string_pretty(&ledger::json(&headlines, &accounts, &how))? + "\n")?;
    put(ACCOUNT, serde_json::to_string_pretty(account)? + "\n")?;
    put("campaign.md", page(account, agreements, &how))
}

/// One paragraph: how much of what, by which hosts.
fn how(account: &Account, outcomes: &[Outcome]) -> String {
    let names = outcomes.iter().map(|o| format!("`{}`", o.experiment)).collect::<Vec<_>>().join(", ");
    let hosts = account.hosts.iter().cloned().collect::<Vec<_>>().join(", ");
    format!(
        "A campaign of {} tasks: {} counted, {} of them invalid and not pooled. Experiments: {names}. Hosts: {hosts}.",
        account.planned, account.counted, account.invalid
    )
}

fn page(account: &Account, agreements: &[Agreement], how: &str) -> String {
    let mut page = format!(
        "# Campaign\n\n{how}\n\nFigures by condition: [report.html](report.html). Every claim: [claims.md](claims.md). \
         Tables: `rows`, `samples` and `devices` (Parquet).\n\n## Account\n\n"
    );
    for (what, places) in account.troubles() {
        page += &format!("- {what}: {}\n", places.len());
    }
    let table = agreement(agreements);
    if !table.is_empty() {
        page += "\n## Agreement\n\nThe smallest and largest ratio of any seed, and I², the share of their variance that chance \
                 does not explain; the same between hosts. Rows that agree least come first.\n\n";
        page += &table.to_markdown();
    }
    page
}

fn agreement(agreements: &[Agreement]) -> Table {
    let mut table = Table::new(
        "Agreement",
        &[
            ("Experiment", ColumnStyle::Text),
            ("Condition", ColumnStyle::Text),
            ("Metric", ColumnStyle::Text),
            ("Arm", ColumnStyle::Text),
            ("Baseline", ColumnStyle::Text),
            ("Ratio", ColumnStyle::Number),
            ("Seeds", ColumnStyle::Number),
            ("From", ColumnStyle::Number),
            ("To", ColumnStyle::Number),
            ("I², seeds", ColumnStyle::Number),
            ("I², hosts", ColumnStyle::Number),
        ],
    );
    let share = |percent: Option<f64>| percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent:.0} %"));
    let mut shown: Vec<&Agreement> = agreements.iter().filter(|a| a.seeds.estimates > 1).collect();
    shown.sort_by(|a, b| {
        b.seeds.i_squared_percent.unwrap_or(-1.0).total_cmp(&a.seeds.i_squared_percent.unwrap_or(-1.0))
    });
    for a in shown.into_iter().take(MOST_ROWS) {
        table.push([
            a.experiment.clone(),
            a.row.condition.clone(),
            a.row.metric.clone(),
            a.row.arm.clone(),
            a.row.baseline_arm.clone().unwrap_or_default(),
            a.row.ratio.map_or_else(|| "–".to_owned(), report::ratio),
            a.seeds.estimates.to_string(),
            report::ratio(a.seeds.least),
            report::ratio(a.seeds.most),
            share(a.seeds.i_squared_percent),
            share(a.hosts.and_then(|hosts| hosts.i_squared_percent)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_others_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        assert!(not_of_others(folder.path()).is_ok() && not_of_others(&folder.path().join("none")).is_ok());
        fs::create_dir(folder.path().join("samples")).unwrap();
        let why = not_of_others(folder.path()).unwrap_err().to_string();
        assert!(why.contains("samples would be deleted"), "{why}");
        fs::write(folder.path().join(ACCOUNT), "{}").unwrap();
        assert!(not_of_others(folder.path()).is_ok(), "an earlier collection");
        begin(folder.path()).unwrap();
        assert!(!folder.path().join(ACCOUNT).exists());
        assert!(not_of_others(folder.path()).is_ok(), "one that was not finished");
    }
}
