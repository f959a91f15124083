//! Ray: a driver in Python that starts a remote task a shard; Ray starts those of a lost node again. Where packets are real, a shard
//! takes the resource [`QUIET`] of a node, which has one; a cluster without it is refused, as its tasks would wait for ever.

use super::{Engine, Submission, literal};

/// What nodes have one of: `ray start --resources '{"headstart_quiet": 1}'`.
const QUIET: &str = "headstart_quiet";

/// The engine.
pub const ENGINE: Engine = Engine {
    name: "ray",
    what: "a driver in Python for a Ray cluster (RAY_ADDRESS)",
    file: "campaign_ray.py",
    submit: &["python3"],
    text,
};

fn text(job: &Submission) -> String {
    let [program, plan, out] = [&job.program, &job.plan, &job.out].map(|path| literal(&path.to_string_lossy()));
    let shards = job.shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (of, cores) = (job.of, job.cores);
    let (exclusive, connect) = if job.quiet {
        let connect = format!(
            "    try:\n        ray.init(address=\"auto\")\n    except ConnectionError:\n        \
             ray.init(resources={{\"{QUIET}\": 1}})\n    if not ray.cluster_resources().get(\"{QUIET}\"):\n        \
             sys.exit('real packets need nodes of their own: ray start --resources \\'{{\"{QUIET}\": 1}}\\' ...')\n"
        );
        (format!(", resources={{\"{QUIET}\": 1}}"), connect)
    } else {
        (String::new(), "    ray.init()\n".to_owned())
    };
    format!(
        "\"\"\"Works through a plan of headstart on a Ray cluster; every node sees the same paths.\"\"\"\n\
         import subprocess\nimport sys\n\nimport ray\n\nPROGRAM, PLAN, OUT = {program}, {plan}, {out}\nSHARDS = [{shards}]\n\n\n\
         @ray.remote(num_cpus={cores}, max_retries=3, retry_exceptions=True{exclusive})\ndef work(shard):\n    \
         words = [PROGRAM, \"lab\", \"work\", \"--plan\", PLAN, \"--shard\", f\"{{shard}}/{of}\", \"--jobs\", \"{cores}\", \"--out\", OUT]\n    \
         done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)\n    \
         if done.returncode != 0:\n        raise RuntimeError(f\"shard {{shard}}: {{done.stderr[-2000:]}}\")\n    return shard\n\n\n\
         if __name__ == \"__main__\":\n{connect}    waiting, failed = [work.remote(shard) for shard in SHARDS], 0\n    \
         while waiting:\n        done, waiting = ray.wait(waiting)\n        try:\n            \
         print(\"done: shard\", ray.get(done[0]), flush=True)\n        except Exception as why:\n            failed += 1\n            \
         print(why, file=sys.stderr, flush=True)\n    sys.exit(1 if failed else 0)\n"
    )
}
