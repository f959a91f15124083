//! `headstart lab submit`: writes what a scheduler needs, and submits it where its client is there.

use crate::exit;
use anyhow::Context as _;
use headstart_lab::bucket::is_bucket;
use headstart_lab::campaign::Extent;
use headstart_lab::campaign::engine::{self, Engine, Submission};
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

/// Slurm takes no larger array by default (MaxArraySize); more shards than this help no engine.
const MOST_SHARDS: usize = 1000;

/// Arguments of `headstart lab submit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `headstart lab plan`.
    plan: PathBuf,
    /// Scheduler: slurm, parallel, snakemake, ray, kubernetes.
    #[arg(long, value_name = "NAME")]
    engine: String,
    /// Folder of results, the same on all nodes, or s3://BUCKET/PREFIX; finished tasks are not submitted.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Divide the plan into N shards [default: one per task, at most 1000].
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Program headstart-lab on the nodes [default: this one].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Container image (kubernetes).
    #[arg(long, default_value = "headstart-lab:latest")]
    image: String,
    /// Folder for the file that is written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,
    /// Submit it.
    #[arg(long)]
    go: bool,
}

/// Writes the file; says or does what submits it.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let engine = find(&args.engine)?;
    let plan = super::read(&args.plan)?;
    let most = plan.tasks.len().min(MOST_SHARDS);
    let of = args.shards.unwrap_or(most);
    if !(1..=plan.tasks.len()).contains(&of) {
        return Err(exit::Usage(format!("--shards: must be from 1 to {} (got {of})", plan.tasks.len())).into());
    }
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("finding this program")?,
    };
    let (out, beside) = if is_bucket(&args.out) {
        (args.out.clone(), absolute(args.to.join("results"))?)
    } else {
        (absolute(&args.out)?, absolute(&args.out)?)
    };
    crate::lab::prepare(&beside)?;
    let results = super::folders(std::slice::from_ref(&out), Extent::Records, &plan.tasks)?;
    let paths = [program, absolute(&args.plan)?, out, beside];
    let submission = Submission::new(&plan, paths, of, |task| super::is_there(task, &results));
    if submission.shards.is_empty() {
        crate::complain!("all {} are done", crate::output::plural(plan.tasks.len() as u64, "task"));
        return Ok(exit::OK);
    }
    let file = args.to.join(engine.file);
    crate::input::check_writable(&file)?;
    let text = (engine.text)(&Submission { image: args.image.clone(), ..submission });
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    crate::say!("{}", file.display());
    if args.go {
        go(engine, &file)
    } else {
        crate::complain!("submit it: {} {}", engine.submit.join(" "), file.display());
        Ok(exit::OK)
    }
}

fn find(name: &str) -> anyhow::Result<&'static Engine> {
    engine::ALL.iter().find(|engine| engine.name == name).ok_or_else(|| {
        let known: Vec<String> = engine::ALL.iter().map(|e| format!("{} ({})", e.name, e.what)).collect();
        exit::Usage(format!("--engine: unknown engine `{name}`; choose one of {}", known.join(", "))).into()
    })
}

fn go(engine: &Engine, file: &Path) -> anyhow::Result<u8> {
    let (client, words) = engine.submit.split_first().context("an engine without a client")?;
    match Command::new(client).args(words).arg(file).status() {
        Ok(status) => Ok(exit::of_child(status)),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            let why = format!("--go: `{client}` is not installed here; copy {} to where it is", file.display());
            Err(exit::Coded(exit::NOT_FOUND, why).into())
        }
        Err(why) => Err(why).with_context(|| format!("running {client}")),
    }
}
