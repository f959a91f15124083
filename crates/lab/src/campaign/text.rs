//! `campaign.toml`: sets of experiments, conditions, seeds and speeds.
//!
//! A set stands for the product of what it names. The arms of an experiment are never split: they are paired, and compared within one
//! task.

use super::task::{Builds, Pages, Task, digest_of_pages};
use crate::experiment::{self, Entry, ExperimentError, Speeds};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// More tasks than this are a slip of the keyboard.
const MOST_TASKS: u64 = 1_000_000;

/// A campaign as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// Its sets, in the order of the file.
    #[serde(rename = "set")]
    pub sets: Vec<Set>,
}

/// One experiment in several conditions, with several seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Name of the experiment.
    pub experiment: String,
    /// The conditions; all of the experiment's if empty.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// The seeds.
    #[serde(default)]
    pub seeds: Seeds,
    /// The speeds; virtual time if empty, real packets where the experiment has no other.
    #[serde(default)]
    pub speeds: Vec<Speeds>,
    /// Fewer trials a task.
    #[serde(default)]
    pub quick: bool,
    /// Pages to load in place of the built-in ones: a task for each.
    #[serde(default)]
    pub pages: Vec<PathBuf>,
}

/// Seeds: how many from 1 on, a list, or from one to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Seeds {
    /// 1, 2, … up to this.
    Count(u64),
    /// These.
    List(Vec<u64>),
    /// From one to another, both included.
    Range {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
}

impl Default for Seeds {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Seeds {
    fn all(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Count(n) => Box::new(1..=*n),
            Self::List(list) => Box::new(list.iter().copied()),
            Self::Range { from, to } => Box::new(*from..=*to),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Count(n) => *n,
            Self::List(list) => list.len() as u64,
            Self::Range { from, to } => to.saturating_sub(*from).saturating_add(u64::from(to >= from)),
        }
    }
}

impl Campaign {
    /// Reads a campaign; `text` is that of the file.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The tasks, set by set, and in each by speed, pages, seed and condition. Pages are found from `base` on.
    ///
    /// Refuses what does not exist, and tasks that are there twice.
    pub fn tasks(&self, base: &Path, builds: &Builds) -> anyhow::Result<Vec<Task>> {
        let mut tasks: Vec<Task> = Vec::new();
        for set in &self.sets {
            let entry = experiment::find(&set.experiment)?;
            set.add(entry, base, builds, &mut tasks)
                .with_context(|| format!("set of experiment {:?}", set.experiment))?;
        }
        if tasks.is_empty() {
            bail!("it has no task: give at least one [[set]] with a seed");
        }
        let mut ids = std::collections::HashSet::new();
        if let Some(twice) = tasks.iter().find(|task| !ids.insert(&task.id)) {
            bail!("two sets have the same task: {}", twice.name());
        }
        Ok(tasks)
    }
}

impl Set {
    fn add(&self, entry: &Entry, base: &Path, builds: &Builds, tasks: &mut Vec<Task>) -> anyhow::Result<()> {
        let conditions: Vec<&str> = if self.conditions.is_empty() {
            entry.conditions.to_vec()
        } else {
            self.conditions.iter().map(String::as_str).collect()
        };
        if let Some(unknown) = conditions.iter().find(|c| !entry.conditions.contains(c)) {
            return Err(ExperimentError::UnknownCondition {
                experiment: entry.name,
                condition: (*unknown).into(),
                known: entry.conditions.join(", "),
            }
            .into());
        }
        if !self.pages.is_empty() && !experiment::LOADS_PAGES.contains(&entry.name) {
            bail!("pages: it does not use them; only {} do", experiment::LOADS_PAGES.join(", "));
        }
        let pages = self.pages.iter().map(|path| {
            let file = base.join(path);
            let sha256 = digest_of_pages(&file).with_context(|| format!("pages {}", file.display()))?;
            Ok(Some(Pages { path: file, sha256 }))
        });
        let mut pages = pages.collect::<anyhow::Result<Vec<_>>>()?;
        if pages.is_empty() {
            pages.push(None);
        }
        let speeds = self.single_speeds(entry)?;
        let more = [conditions.len(), pages.len(), speeds.len()]
            .iter()
            .fold(self.seeds.count(), |n, factor| n.saturating_mul(*factor as u64));
        if more.saturating_add(tasks.len() as u64) > MOST_TASKS {
            bail!("more than {MOST_TASKS} tasks");
        }
        for speed in speeds {
            for pages in &pages {
                for seed in self.seeds.all() {
                    for condition in &conditions {
                        tasks.push(Task::new(entry, condition, seed, speed, self.quick, pages.clone(), builds)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// The speeds, one by one: a task has one.
    fn single_speeds(&self, entry: &Entry) -> Result<Vec<Speeds>, ExperimentError> {
        if self.speeds.is_empty() {
            return Ok(vec![if entry.speeds.in_virtual_time() { Speeds::Virtual } else { Speeds::Namespaces }]);
        }
        let mut single = Vec::new();
        for wanted in &self.speeds {
            let speeds = entry.speeds(*wanted)?;
            let both = [(speeds.in_virtual_time(), Speeds::Virtual), (speeds.in_namespaces(), Speeds::Namespaces)];
            for (_, speed) in both.into_iter().filter(|(has, _)| *has) {
                if !single.contains(&speed) {
                    single.push(speed);
                }
            }
        }
        Ok(single)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builds() -> Builds {
        Builds { lab: "a".repeat(64), headstart: Some("b".repeat(64)) }
    }

    fn tasks(text: &str) -> anyhow::Result<Vec<Task>> {
        Campaign::parse(text)?.tasks(Path::new("."), &builds())
    }

    #[test]
    fn a_set_is_the_product_of_what_it_names() {
        let all = tasks(
            "[[set]]\nexperiment = \"page-load\"\nconditions = [\"lte\", \"3g\"]\nseeds = { from = 5, to = 7 }\nspeeds = [\"both\"]",
        )
        .unwrap();
        assert_eq!(all.len(), 2 * 3 * 2);
        let of = |n: usize| (all[n].speed, all[n].seed, all[n].condition.as_str());
        assert_eq!(
            (of(0), of(1), of(2)),
            ((Speeds::Virtual, 5, "lte"), (Speeds::Virtual, 5, "3g"), (Speeds::Virtual, 6, "lte"))
        );
        assert_eq!(of(11), (Speeds::Namespaces, 7, "3g"));
        assert!(all[11].needs.quiet && all[11].needs.chromium && !all[0].needs.namespaces);
        let listed = tasks("[[set]]\nexperiment = \"connect-model\"\nseeds = [9, 4]").unwrap();
        assert_eq!(listed.iter().map(|t| t.seed).collect::<std::collections::BTreeSet<_>>(), [4, 9].into());
    }

    #[test]
    fn what_does_not_exist_is_refused_by_name() {
        for (text, expected) in [
            ("[[set]]\nexperiment = \"page-lod\"", "`page-lod`"),
            ("[[set]]\nexperiment = \"page-load\"\nconditions = [\"windy\"]", "`windy`"),
            ("[[set]]\nexperiment = \"page-load\"\nseed = 3", "seed"),
            ("[[set]]\nexperiment = \"page-load\"\nseeds = 0", "no task"),
            ("[[set]]\nexperiment = \"page-load\"\nseeds = 999999999999", "more than 1000000 tasks"),
            (
                "[[set]]\nexperiment = \"page-load\"\nseeds = { from = 0, to = 18446744073709551615 }",
                "more than 1000000 tasks",
            ),
            ("[[set]]\nexperiment = \"connect-model\"\npages = [\"x\"]", "only page-load"),
            ("[[set]]\nexperiment = \"page-load\"\npages = [\"/nowhere\"]", "pages /nowhere"),
            ("[[set]]\nexperiment = \"page-load\"\nseeds = [2, 2]", "the same task"),
            ("[[set]]\nexperiment = \"steer-calls\"\nspeeds = [\"netns\"]", "sim or both"),
        ] {
            let why = format!("{:#}", tasks(text).unwrap_err());
            assert!(why.contains(expected), "{text}\n{why}");
        }
    }
}
