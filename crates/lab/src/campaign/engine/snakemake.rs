//! Snakemake: a rule a shard, then one that collects; tried again by its own means.

use super::{Engine, Submission, literal};

/// The engine.
pub const ENGINE: Engine = Engine {
    name: "snakemake",
    what: "a Snakefile that works and collects",
    file: "Snakefile",
    // Workers know by the results what is done; Snakemake's own marks may be of an earlier plan.
    submit: &["snakemake", "--forceall", "--cores", "all", "--snakefile"],
    text,
};

fn text(job: &Submission) -> String {
    let [program, plan, out, beside] =
        [&job.program, &job.plan, &job.out, &job.beside].map(|path| literal(&path.to_string_lossy()));
    let minutes = job.minutes().map_or_else(String::new, |minutes| format!("    resources: runtime={minutes}\n"));
    let threads = if job.quiet { "workflow.cores".to_owned() } else { job.cores.to_string() };
    format!(
        "import os\n\nPROGRAM, PLAN, OUT, BESIDE = {program}, {plan}, {out}, {beside}\nCAMPAIGN = BESIDE.rstrip(\"/\") + \"-collected\"\n\
         SHARDS = [{shards}]\n\nrule all:\n    input: os.path.join(CAMPAIGN, \"account.json\")\n\nrule shard:\n    \
         output: touch(os.path.join(BESIDE, \".shard\", \"{{shard}}\"))\n    retries: 3\n    threads: {threads}\n{minutes}    \
         shell: \"{{PROGRAM:q}} lab work --plan {{PLAN:q}} --shard {{wildcards.shard}}/{of} --jobs {cores} --out {{OUT:q}}\"\n\n\
         rule collect:\n    input: expand(os.path.join(BESIDE, \".shard\", \"{{shard}}\"), shard=SHARDS)\n    \
         output: os.path.join(CAMPAIGN, \"account.json\")\n    \
         shell: \"{{PROGRAM:q}} lab collect --plan {{PLAN:q}} {{OUT:q}} --out {{CAMPAIGN:q}}\"\n",
        shards = job.shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        of = job.of,
        cores = job.cores,
    )
}
