//! `headstart lab reproduce`: every claim of the papers measured, one experiment after the other, and a ledger of the verdicts.
//!
//! Each experiment is a run of `headstart lab run` in a process of its own, with a results folder of its own. What is there
//! already, from this program and with the same arguments, is not run again: an interrupted reproduction goes on where
//! it was.

mod how;

use super::asked::CommonArgs;
use crate::{exit, output};
use anyhow::{Context as _, bail};
use headstart_io::sys::signal;
use headstart_lab::experiment::{ALL, Claims, Entry, Outcome, Speeds};
use headstart_lab::report::{self, headline, ledger};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// What the results in a folder were asked for, beside them.
const ASKED: &str = "asked.json";

/// Arguments of `headstart lab reproduce`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    asked: CommonArgs,
    /// Run only this claim or experiment; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run experiments again that already have results.
    #[arg(long)]
    again: bool,
    /// Run nothing: write the tables anew from the results that are there.
    #[arg(long, conflicts_with = "again")]
    judge: bool,
    /// Folder for the results, one subfolder per experiment.
    #[arg(long, value_name = "DIR", default_value = "headstart-results/reproduce")]
    out: PathBuf,
    /// Also write the verdicts into `docs/results` of this checkout.
    #[arg(long, value_name = "CHECKOUT")]
    docs: Option<PathBuf>,
}

/// Runs what has no result yet, then writes the ledger of all.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let speeds = args.asked.speeds()?;
    let claims = Claims::built_in()?;
    let chosen = chosen(args, speeds)?;
    // Before hours of work whose ledger could not be stored.
    let documents = args.docs.as_deref().map(of_checkout).transpose()?;
    documents.iter().chain([&args.out]).try_for_each(|folder| crate::lab::prepare(folder))?;
    let (mut outcomes, failed) =
        if args.judge { (there(args, &chosen)?, Vec::new()) } else { all(args, speeds, &chosen)? };
    // What was measured here before, at another speed say, is told of too.
    let others = ALL.iter().filter(|e| !e.claims.is_empty() && !chosen.iter().any(|c| c.name == e.name));
    let earlier: Vec<Outcome> = others.filter_map(|e| super::report::read(&args.out.join(e.name)).ok()).collect();
    let how = how::how(args, &outcomes, &earlier);
    outcomes.extend(earlier);
    let (headlines, accounts) = (headline::lines(&claims, &outcomes), ledger::accounts(&claims, &outcomes));
    let page = report::write_readable(&args.out, &outcomes, &claims)?;
    let markdown = ledger::markdown(&headlines, &accounts, &how);
    let object = ledger::json(&headlines, &accounts, &how);
    put(&args.out, &[("claims.md", &markdown), ("claims.json", &(serde_json::to_string_pretty(&object)? + "\n"))])?;
    if let Some(results) = &documents {
        put(results, &[("claims.md", &markdown), ("verdicts.toml", &ledger::verdicts(&accounts, &how))])?;
    }
    if args.asked.json {
        crate::complain!("report: {}", page.display());
        crate::say!("{object}");
    } else {
        let (width, colour) = (output::width(), std::io::stdout().is_terminal() && output::colour());
        let [headlines, claims] =
            [headline::table(&headlines), ledger::table(&accounts)].map(|t| t.to_text(width, colour));
        crate::say!("{headlines}\n{claims}\n{how}\nreport: {}", page.display());
    }
    if !failed.is_empty() {
        bail!("no result for {}; run the same command again to retry", failed.join(", "));
    }
    Ok(if outcomes.iter().all(|o| o.valid) { exit::OK } else { exit::INVALID })
}

/// Measures what has no result yet. What has one now, and the experiments that failed.
fn all(args: &Args, speeds: Speeds, chosen: &[&'static Entry]) -> anyhow::Result<(Vec<Outcome>, Vec<&'static str>)> {
    let asked = asked(&args.asked)?;
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    let kept = |entry: &Entry| kept(&args.out.join(entry.name), &asked).filter(|_| !args.again);
    let before = |entry: &Entry| super::report::read(&args.out.join(entry.name)).ok();
    let missing = chosen.iter().filter(|entry| kept(entry).is_none()).map(|entry| (*entry, before(entry)));
    crate::complain!("{}", how::plan(args, speeds, chosen.len(), &missing.collect::<Vec<_>>()));
    for (n, entry) in chosen.iter().enumerate() {
        let folder = args.out.join(entry.name);
        let outcome = match kept(entry) {
            Some(outcome) => {
                crate::complain!("{}/{} {}: already measured", n + 1, chosen.len(), entry.name);
                Ok(outcome)
            }
            None => {
                crate::complain!("{}/{} {}", n + 1, chosen.len(), entry.name);
                measured(entry, args, &folder, &asked)
            }
        };
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(why) if why.is::<exit::Coded>() => return Err(why),
            Err(why) => {
                crate::complain!("headstart: {}: {}; continuing with the others", entry.name, exit::one_line(&why));
                failed.push(entry.name);
            }
        }
    }
    Ok((outcomes, failed))
}

/// The results that are there, whichever program wrote them.
fn there(args: &Args, chosen: &[&'static Entry]) -> anyhow::Result<Vec<Outcome>> {
    let measured = |entry: &&&Entry| args.out.join(entry.name).join("result.json").is_file();
    chosen.iter().filter(measured).map(|entry| super::report::read(&args.out.join(entry.name))).collect()
}

/// The experiments that measure a claim, or those asked for.
fn chosen(args: &Args, speeds: Speeds) -> anyhow::Result<Vec<&'static Entry>> {
    let named = |entry: &Entry, name: &str| entry.name == name || entry.claims.contains(&name);
    let all: Vec<_> = ALL.iter().filter(|entry| !entry.claims.is_empty()).collect();
    if let Some(unknown) = args.only.iter().find(|name| !all.iter().any(|entry| named(entry, name))) {
        let known: Vec<_> = all.iter().map(|entry| format!("{} ({})", entry.name, entry.claims.join(", "))).collect();
        return Err(exit::Usage(format!(
            "unknown claim or experiment `{unknown}`; choose one of {}",
            known.join(", ")
        ))
        .into());
    }
    let wanted = |entry: &&Entry| args.only.is_empty() || args.only.iter().any(|name| named(entry, name));
    let possible = |entry: &&Entry| entry.speeds(speeds).is_ok();
    Ok(all.into_iter().filter(wanted).filter(possible).collect())
}

/// What the results depend on: the arguments, and which program it is.
fn asked(args: &CommonArgs) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("finding this program")?;
    let file = fs::metadata(&program).with_context(|| format!("reading {}", program.display()))?;
    let built = file.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(serde_json::json!({
        "quick": args.quick, "seed": args.seed, "speed": args.speed,
        "size": file.len(), "built": built.map(|at| at.as_secs()),
    })
    .to_string())
}

/// The result that is there already, if it is valid, and of this program and what was asked for.
fn kept(folder: &Path, asked: &str) -> Option<Outcome> {
    let same = fs::read_to_string(folder.join(ASKED)).is_ok_and(|before| before == asked);
    super::report::read(folder).ok().filter(|outcome| same && outcome.valid)
}

/// Runs one experiment.
fn measured(entry: &Entry, args: &Args, folder: &Path, asked: &str) -> anyhow::Result<Outcome> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // A result without this note is not reused.
    let note = folder.join(ASKED);
    let _ = fs::remove_file(&note);
    // Who ends this process ends the experiment too: it has namespaces and programs of its own.
    signal::pass_on_to(0).context("handling signals")?;
    let mut child = super::child::start(entry.name, &args.asked.words(), folder)?;
    signal::pass_on_to(i32::try_from(child.id())?).context("handling signals")?;
    let status = child.wait().context("waiting for its process")?;
    signal::pass_on_to(0).context("handling signals")?;
    let Some(outcome) = super::child::result(entry.name, status, folder)? else {
        let why = "interrupted; run the same command again to continue".to_owned();
        return Err(exit::Coded(exit::FAILURE, why).into());
    };
    fs::write(&note, asked).with_context(|| format!("writing {}", note.display()))?;
    Ok(outcome)
}

/// Writes files into `folder`.
fn put(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// The folder of a checkout for the ledger.
fn of_checkout(checkout: &Path) -> Result<PathBuf, exit::Usage> {
    if checkout.join("docs/claims.toml").is_file() {
        return Ok(checkout.join("docs/results"));
    }
    let why = format!("--docs {} is not a checkout of headstart: it has no docs/claims.toml", checkout.display());
    Err(exit::Usage(why))
}
