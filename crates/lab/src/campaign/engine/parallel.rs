//! GNU parallel: the shards over the hosts of an SSH login file, or over this one. A host that is lost gives its shards to others.

use super::{Engine, Submission, quoted};

/// The engine.
pub const ENGINE: Engine = Engine {
    name: "parallel",
    what: "a script for GNU parallel, over SSH where HOSTS names a login file",
    file: "campaign.sh",
    submit: &["sh"],
    text,
};

fn text(job: &Submission) -> String {
    let jobs = if job.quiet { "1" } else { "100%" };
    let log = quoted(&job.beside.join("parallel.log").to_string_lossy());
    let shards = job.shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    format!(
        "#!/bin/sh\n# HOSTS=FILE runs it on the hosts in FILE (parallel --sshloginfile), which share the paths below.\n\
         mkdir -p {out} &&\nexec parallel ${{HOSTS:+--sshloginfile \"$HOSTS\"}} --jobs {jobs} --retries 4 --joblog {log} \\\n  \
         {words} \\\n  ::: {shards}\n",
        out = quoted(&job.beside.to_string_lossy()),
        words = quoted(&job.words("{}")),
    )
}
