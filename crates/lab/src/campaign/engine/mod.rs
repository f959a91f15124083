//! What schedulers are given: one file an engine, which starts `headstart-lab work` once for each shard of a plan.
//!
//! None of them is asked for more than that: a shard may be started twice, killed and started again, and the results are the same.
//! Writes text, starts nothing.

mod kubernetes;
mod parallel;
mod ray;
mod slurm;
mod snakemake;

use super::{Plan, Shard};
use std::path::PathBuf;

/// The longest time limit, a year: that of a shard of the longest tasks is of no use to a scheduler, and may be more than it can count.
const MOST_MINUTES: u64 = 365 * 24 * 60;

/// Every engine.
pub const ALL: &[Engine] = &[slurm::ENGINE, parallel::ENGINE, snakemake::ENGINE, ray::ENGINE, kubernetes::ENGINE];

/// A scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for, one sentence without a full stop.
    pub what: &'static str,
    /// The file that is written for it.
    pub file: &'static str,
    /// The program and the words that submit the file, which comes last.
    pub submit: &'static [&'static str],
    /// The text of the file.
    pub text: fn(&Submission) -> String,
}

/// What is to be handed out.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The program `headstart-lab`, as nodes find it.
    pub program: PathBuf,
    /// The plan, as nodes find it.
    pub plan: PathBuf,
    /// The folder of results, which all nodes share, or a place in a bucket.
    pub out: PathBuf,
    /// The folder of what the engine itself writes, which all nodes share: that of results if it is a folder.
    pub beside: PathBuf,
    /// How many shards the plan is divided into.
    pub of: usize,
    /// The shards that have something to do, in their order.
    pub shards: Vec<usize>,
    /// Processors for one shard.
    pub cores: u32,
    /// Whether nothing else may run beside a shard.
    pub quiet: bool,
    /// Whether network namespaces are needed.
    pub namespaces: bool,
    /// Seconds that the longest shard takes; none if not known.
    pub seconds: Option<f64>,
    /// Container image, for engines of containers.
    pub image: String,
}

impl Submission {
    /// A plan in `of` shards, of which those are left out that have nothing to do by `is_done`.
    pub fn new(plan: &Plan, paths: [PathBuf; 4], of: usize, is_done: impl Fn(&super::Task) -> bool) -> Self {
        let [program, file, out, beside] = paths;
        let (mut shards, mut seconds) = (Vec::new(), Some(0.0f64));
        for index in 0..of {
            let left: Vec<_> = plan.shard(Shard { index, of }).filter(|task| !is_done(task)).collect();
            if !left.is_empty() {
                shards.push(index);
                let all: Option<f64> = left.iter().map(|task| task.seconds).sum();
                seconds = seconds.zip(all).map(|(most, all)| most.max(all));
            }
        }
        Self {
            program,
            plan: file,
            out,
            beside,
            of,
            shards,
            cores: plan.tasks.iter().map(|task| task.needs.cores).max().unwrap_or(1),
            quiet: plan.tasks.iter().any(|task| task.needs.quiet),
            namespaces: plan.tasks.iter().any(|task| task.needs.namespaces),
            seconds,
            image: "headstart-lab:latest".into(),
        }
    }

    /// The words that run one shard, quoted for a shell; `shard` is what stands for its number there.
    fn words(&self, shard: &str) -> String {
        let [program, plan, out] = [&self.program, &self.plan, &self.out].map(|path| quoted(&path.to_string_lossy()));
        format!("{program} lab work --plan {plan} --shard {shard}/{} --jobs {} --out {out}", self.of, self.cores)
    }

    /// `0-9,12`: the shards as ranges.
    fn ranges(&self) -> String {
        let mut parts: Vec<(usize, usize)> = Vec::new();
        for shard in &self.shards {
            match parts.last_mut() {
                Some((_, to)) if *to + 1 == *shard => *to = *shard,
                _ => parts.push((*shard, *shard)),
            }
        }
        let part = |(from, to): &(usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
        parts.iter().map(part).collect::<Vec<_>>().join(",")
    }

    /// Twice the estimate and five minutes, in whole minutes, [`MOST_MINUTES`] at most; none without an estimate.
    fn minutes(&self) -> Option<u64> {
        self.seconds.map(|seconds| ((seconds * 2.0 / 60.0).ceil() as u64).saturating_add(5).min(MOST_MINUTES))
    }
}

/// A word for sh.
fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+=:,".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A string of JSON, which is one of Python and YAML as well.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::task;
    use super::*;

    fn submission(of: usize, done: &[u64]) -> Submission {
        let mut plan = Plan { tasks: (0..10).map(task).collect() };
        plan.estimate(|_| vec![60.0]);
        let paths = ["/opt/headstart-lab", "/nfs/my plan.jsonl", "/nfs/out", "/nfs/out"].map(PathBuf::from);
        Submission::new(&plan, paths, of, |task| done.contains(&task.seed))
    }

    #[test]
    fn every_engine_is_told_program_plan_results_and_shards() {
        for engine in ALL {
            let text = (engine.text)(&submission(4, &[]));
            for part in ["/opt/headstart-lab", "/nfs/my plan.jsonl", "/nfs/out", "4", "work"] {
                assert!(text.contains(part), "{}: no {part}\n{text}", engine.name);
            }
            assert!(text.lines().all(|line| !line.ends_with(' ')), "{}", engine.name);
        }
    }

    #[test]
    fn what_is_done_is_not_submitted_again() {
        let some = submission(10, &[0, 1, 2, 5]);
        assert_eq!((some.ranges().as_str(), some.shards.len()), ("3-4,6-9", 6));
        let text = (ALL[0].text)(&some);
        assert!(text.contains("#SBATCH --array=3-4,6-9\n") && text.contains("#SBATCH --time=7\n"), "{text}");
        assert!(text.contains("--requeue") && !text.contains("--exclusive"));
        let quiet = Submission { quiet: true, seconds: None, ..some };
        let text = (ALL[0].text)(&quiet);
        assert!(text.contains("#SBATCH --exclusive\n") && !text.contains("--time"), "{text}");
    }

    #[test]
    fn what_an_engine_writes_itself_never_goes_to_a_bucket() {
        for engine in ALL {
            let bucket = Submission { out: "s3://bucket/out".into(), ..submission(4, &[]) };
            let text = (engine.text)(&bucket);
            let parts: Vec<&str> = text.match_indices("s3://bucket/out").map(|(at, _)| &text[at + 15..]).collect();
            assert!(!parts.is_empty() && parts.iter().all(|rest| !rest.starts_with('/')), "{}\n{text}", engine.name);
            let own = text.contains("/nfs");
            assert!(own && !text.contains("mkdir -p s3:"), "{}\n{text}", engine.name);
        }
    }

    #[test]
    fn no_estimate_overflows_a_time_limit() {
        for (seconds, minutes) in [(0.0, 5), (60.0, 7), (1e300, MOST_MINUTES), (f64::INFINITY, MOST_MINUTES)] {
            let long = Submission { seconds: Some(seconds), ..submission(4, &[]) };
            assert_eq!(long.minutes(), Some(minutes), "{seconds} s");
        }
    }

    #[test]
    fn real_packets_have_a_node_for_themselves_on_every_engine() {
        for (engine, exclusive) in [
            ("slurm", "#SBATCH --exclusive\n"),
            ("parallel", "--jobs 1 --retries"),
            ("snakemake", "threads: workflow.cores\n"),
            ("ray", "resources={\"headstart_quiet\": 1})\ndef work"),
            ("kubernetes", "topologyKey: kubernetes.io/hostname\n"),
        ] {
            let engine = ALL.iter().find(|one| one.name == engine).unwrap();
            let quiet = Submission { quiet: true, ..submission(4, &[]) };
            let (simulated, real) = ((engine.text)(&submission(4, &[])), (engine.text)(&quiet));
            assert!(real.contains(exclusive) && !simulated.contains(exclusive), "{}\n{real}", engine.name);
        }
        assert_eq!(ALL.len(), 5);
    }

    #[test]
    fn words_of_a_shell_stay_what_they_are() {
        assert_eq!(quoted("/plain/path-1.0"), "/plain/path-1.0");
        assert_eq!(quoted("it's a $HOME"), r"'it'\''s a $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
