//! `plan.jsonl`: a task a line, in an order that stays. Shards and indices count in it.

use super::Task;
use crate::experiment::is_plausible;
use crate::stats::Statistic;
use anyhow::{Context as _, bail};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The tasks of a campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In the order of the file.
    pub tasks: Vec<Task>,
}

/// Some of a plan: every `of`-th task, the first of which is number `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0 on.
    pub index: usize,
    /// How many shards there are.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (index, of) = text.split_once('/')?;
            Some((index.parse().ok()?, of.parse().ok()?))
        };
        match read() {
            Some((index, of)) if index < of => Ok(Self { index, of }),
            _ => Err("must be I/N with I from 0 to N-1, such as 0/8".into()),
        }
    }
}

impl Plan {
    /// Reads the lines of a plan. Refuses a line that was changed by hand, a task that is there twice, and a time that nothing takes.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut tasks: Vec<Task> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let task: Task = serde_json::from_str(line).with_context(|| format!("line {}", n + 1))?;
            if task.version != super::VERSION {
                bail!("line {}: version {} is not known to this program ({})", n + 1, task.version, super::VERSION);
            }
            if task.identity() != task.id {
                bail!("line {}: its id does not match its contents; write plans with `headstart lab plan`", n + 1);
            }
            if let Some(seconds) = task.seconds.filter(|seconds| !is_plausible(*seconds)) {
                bail!("line {}: seconds: must be from 0 to 30 days (got {seconds})", n + 1);
            }
            if let Some(first) = lines.insert(task.id.clone(), n + 1) {
                bail!("line {}: the same task as in line {first}", n + 1);
            }
            tasks.push(task);
        }
        if tasks.is_empty() {
            bail!("it has no task");
        }
        Ok(Self { tasks })
    }

    /// The lines of the plan.
    pub fn text(&self) -> String {
        self.tasks.iter().fold(String::new(), |mut text, task| {
            let line = serde_json::to_string(task).expect("strings, numbers and booleans always have a JSON form");
            let _ = writeln!(text, "{line}");
            text
        })
    }

    /// The tasks of one shard.
    pub fn shard(&self, shard: Shard) -> impl Iterator<Item = &Task> {
        self.tasks.iter().skip(shard.index).step_by(shard.of)
    }

    /// Takes how long tasks take from `seen`: the median of those like it, which one that hung does not move.
    pub fn estimate(&mut self, seen: impl Fn(&Task) -> Vec<f64>) {
        let mut known: Vec<(Task, Option<f64>)> = Vec::new();
        for task in &mut self.tasks {
            task.seconds = match known.iter().find(|(other, _)| other.is_like(task)) {
                Some((_, seconds)) => *seconds,
                None => {
                    let all = seen(task);
                    let median = Statistic::Median.of(&all).ok().map(|seconds| (seconds * 1e3).round() / 1e3);
                    known.push((task.clone(), median));
                    median
                }
            };
        }
    }

    /// Seconds that all tasks take one after the other, and how many tasks this is not known of.
    pub fn seconds(&self) -> (f64, usize) {
        let known = self.tasks.iter().filter_map(|task| task.seconds).sum();
        (known, self.tasks.iter().filter(|task| task.seconds.is_none()).count())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Builds, Campaign};
    use super::*;
    use std::path::Path;

    fn plan(seeds: u32) -> Plan {
        let text = format!("[[set]]\nexperiment = \"connect-model\"\nseeds = {seeds}");
        let builds = Builds { lab: "x".into(), headstart: None };
        Plan { tasks: Campaign::parse(&text).unwrap().tasks(Path::new("."), &builds).unwrap() }
    }

    #[test]
    fn a_plan_reads_back_and_is_the_same_text_each_time() {
        let one = plan(5);
        assert_eq!(Plan::parse(&one.text()).unwrap(), one);
        assert_eq!(plan(5).text(), one.text());
    }

    #[test]
    fn a_line_that_was_changed_or_is_there_twice_is_named() {
        let text = plan(3).text();
        let changed = text.replacen("\"seed\":2", "\"seed\":9", 1);
        assert!(Plan::parse(&changed).unwrap_err().to_string().contains("its id does not match"));
        for (seconds, is_read) in [("0", true), ("1e300", false), ("-500", false), ("2592000.5", false)] {
            let timed = text.replacen("\"seconds\":null", &format!("\"seconds\":{seconds}"), 1);
            let read = Plan::parse(&timed).map_err(|why| why.to_string());
            assert!(read.is_ok() == is_read, "{seconds}: {read:?}");
            assert!(is_read || read.unwrap_err().contains("line 1: seconds: must be from 0 to 30 days"));
        }
        let twice = format!("{text}{text}");
        let why = Plan::parse(&twice).unwrap_err().to_string();
        assert!(why.contains("the same task as in line 1"), "{why}");
        let cut = &text[..text.len() - 20];
        assert!(format!("{:#}", Plan::parse(cut).unwrap_err()).contains("line "));
        assert!(Plan::parse("").is_err());
    }

    #[test]
    fn shards_have_every_task_once() {
        let plan = plan(7);
        let mut ids: Vec<&str> = Vec::new();
        for index in 0..3 {
            ids.extend(plan.shard(Shard { index, of: 3 }).map(|task| task.id.as_str()));
        }
        let mut all: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
        ids.sort_unstable();
        all.sort_unstable();
        assert_eq!(ids, all);
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        assert!(["3/3", "1", "-1/2", "a/b", "1/0"].iter().all(|text| text.parse::<Shard>().is_err()));
    }

    #[test]
    fn an_estimate_is_the_median_of_those_like_it() {
        let mut plan = plan(3);
        let first = plan.tasks[0].condition.clone();
        plan.estimate(|task| if task.condition == first { vec![1.0, 2.0, 1e6] } else { Vec::new() });
        let (known, unknown) = plan.seconds();
        let of_first = plan.tasks.iter().filter(|task| task.condition == first).count();
        assert_eq!((known, unknown), (2.0 * of_first as f64, plan.tasks.len() - of_first));
    }
}
