//! Slurm: a job array, a shard an element. Requeued after a node is lost; exclusive only where packets are real.

use super::{Engine, Submission, quoted};
use std::fmt::Write as _;

/// The engine.
pub const ENGINE: Engine =
    Engine { name: "slurm", what: "a job array for sbatch", file: "campaign.sbatch", submit: &["sbatch"], text };

fn text(job: &Submission) -> String {
    let mut out = format!(
        "#!/bin/sh\n#SBATCH --job-name=headstart\n#SBATCH --array={}\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task={}\n\
         #SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=B:TERM@30\n",
        job.ranges(),
        job.cores
    );
    if job.quiet {
        out += "#SBATCH --exclusive\n";
    }
    if let Some(minutes) = job.minutes() {
        let _ = writeln!(out, "#SBATCH --time={minutes}");
    }
    let log = job.beside.join("slurm-%A_%a.log");
    let _ = writeln!(out, "#SBATCH --output={}", quoted(&log.to_string_lossy()));
    let _ = writeln!(out, "exec {}", job.words("\"$SLURM_ARRAY_TASK_ID\""));
    out
}
