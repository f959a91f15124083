//! Every task of a plan exactly once: what is counted, and what is missing, double, differing, damaged or of no task.

use super::folder::Look;
use super::{Plan, Provenance, Results, Task, identity};
use crate::experiment::Outcome;
use anyhow::Context as _;
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

/// A task of which there is not exactly one result, and where the results are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Discrepancy {
    /// Its id.
    pub id: String,
    /// What it is, for people.
    pub task: String,
    /// The folders, as they were given.
    pub folders: Vec<PathBuf>,
    /// What is wrong, or empty where the heading says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// [`super::VERSION`].
    pub version: u32,
    /// Tasks of the plan.
    pub planned: usize,
    /// Tasks with exactly one result that is counted.
    pub counted: usize,
    /// Of those, results that the machine was too busy for; they are kept and not pooled.
    pub invalid: usize,
    /// Tasks without a result.
    pub missing: Vec<Discrepancy>,
    /// Tasks with several; the first is counted.
    pub double: Vec<Discrepancy>,
    /// Tasks in virtual time with results that are not the same bits; none is counted.
    pub differing: Vec<Discrepancy>,
    /// Folders that are not whole.
    pub damaged: Vec<Discrepancy>,
    /// Results of no task of the plan.
    pub foreign: Vec<Discrepancy>,
    /// Hosts that did the tasks, in their order.
    pub hosts: BTreeSet<String>,
}

impl Account {
    /// Whether there is exactly one result of every task, and nothing else.
    pub fn is_whole(&self) -> bool {
        [&self.missing, &self.double, &self.differing, &self.damaged, &self.foreign].iter().all(|all| all.is_empty())
    }

    /// The kinds of trouble with their names, in the order in which they are told.
    pub fn troubles(&self) -> [(&'static str, &[Discrepancy]); 5] {
        [
            ("missing", &self.missing),
            ("damaged", &self.damaged),
            ("differing", &self.differing),
            ("double", &self.double),
            ("of no task of the plan", &self.foreign),
        ]
    }
}

/// A result that counts.
#[derive(Debug)]
pub struct Counted {
    /// The task, and how it was done.
    pub record: Provenance,
    /// The result.
    pub outcome: Outcome,
}

/// Goes through the plan and hands each result that counts to `each`, in the order of the plan.
pub fn collect(
    plan: &Plan,
    folders: &[Results],
    mut each: impl FnMut(Counted) -> anyhow::Result<()>,
) -> anyhow::Result<Account> {
    let mut account = Account { version: super::VERSION, planned: plan.tasks.len(), ..Account::default() };
    for task in &plan.tasks {
        if let Some(counted) = account.take(task, folders) {
            account.counted += 1;
            account.invalid += usize::from(!counted.outcome.valid);
            account.hosts.insert(counted.record.host.clone());
            each(counted)?;
        }
    }
    let planned: HashSet<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    for results in folders {
        let ids = results.ids().with_context(|| format!("reading {}", results.place().display()))?;
        for id in ids.into_iter().filter(|id| !planned.contains(id.as_str())) {
            let task = results.record(&id).map_or_else(|| "unknown".into(), |record| record.task.name());
            account.foreign.push(Discrepancy { id, task, folders: vec![results.place().into()], why: String::new() });
        }
    }
    Ok(account)
}

impl Account {
    /// The result of `task` that counts, if there is one.
    fn take(&mut self, task: &Task, folders: &[Results]) -> Option<Counted> {
        let discrepancy =
            |folders: Vec<PathBuf>, why: String| Discrepancy { id: task.id.clone(), task: task.name(), folders, why };
        let (mut found, mut places): (Vec<Counted>, Vec<PathBuf>) = (Vec::new(), Vec::new());
        let mut damaged = false;
        for results in folders {
            match results.look(&task.id) {
                Look::Missing => {}
                Look::Damaged(why) => {
                    damaged = true;
                    self.damaged.push(discrepancy(vec![results.place().into()], why));
                }
                Look::Done(done) => {
                    let (record, outcome) = *done;
                    places.push(results.place().into());
                    found.push(Counted { record, outcome });
                }
            }
        }
        if found.len() > 1 {
            let same = found.windows(2).all(|pair| identity(&pair[0].outcome) == identity(&pair[1].outcome));
            if !same && !task.speed.in_namespaces() {
                self.differing.push(discrepancy(places, String::new()));
                return None;
            }
            self.double.push(discrepancy(places, String::new()));
        } else if found.is_empty() && !damaged {
            let why = folders.iter().find_map(|results| results.failure(&task.id)).unwrap_or_default();
            self.missing.push(discrepancy(Vec::new(), why));
        }
        found.into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::{done, outcome, task};
    use super::*;
    use std::fs;

    fn plan(seeds: u64) -> Plan {
        Plan { tasks: (1..=seeds).map(task).collect() }
    }

    fn seeds(plan: &Plan, folders: &[Results]) -> (Vec<u64>, Account) {
        let mut seen = Vec::new();
        let account = collect(plan, folders, |counted| {
            seen.push(counted.outcome.seed);
            Ok(())
        });
        (seen, account.unwrap())
    }

    #[test]
    fn a_whole_campaign_in_two_folders_is_whole() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [Results::at(a.path()), Results::at(b.path())];
        for seed in 1..=6 {
            done(&folders[usize::from(seed % 3 == 0)], seed, if seed % 3 == 0 { "b" } else { "a" });
        }
        let (seen, account) = seeds(&plan(6), &folders);
        assert_eq!((seen, account.counted, account.hosts.len()), ((1..=6).collect(), 6, 2));
        assert!(account.is_whole());
    }

    #[test]
    fn what_is_missing_double_differing_damaged_or_foreign_is_named_and_nothing_counts_twice() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [Results::at(a.path()), Results::at(b.path())];
        for seed in [1, 2, 3, 4, 9] {
            done(&folders[0], seed, "a");
        }
        done(&folders[1], 2, "b");
        let part = folders[1].begin(&task(3), "b").unwrap();
        folders[1].commit(part, &Outcome { notes: vec!["other".into()], ..outcome(3) }, "b", 1).unwrap();
        fs::write(a.path().join(&task(4).id).join("result.json"), "").unwrap();
        folders[0].fail(folders[0].begin(&task(5), "a").unwrap(), "no Chromium").unwrap();

        let (seen, account) = seeds(&plan(5), &folders);
        assert_eq!(seen, [1, 2]);
        let ids = |places: &[Discrepancy]| places.iter().map(|place| place.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&account.double), [task(2).id]);
        assert_eq!(ids(&account.differing), [task(3).id]);
        assert_eq!(ids(&account.damaged), [task(4).id]);
        assert_eq!(ids(&account.missing), [task(5).id]);
        assert_eq!(account.missing[0].why, "no Chromium");
        assert_eq!((ids(&account.foreign), account.foreign[0].task.contains("seed 9")), (vec![task(9).id], true));
        assert!(!account.is_whole());
    }

    #[test]
    fn the_machine_and_the_time_are_no_part_of_what_must_be_the_same_bits() {
        let other = Outcome { device: Some(crate::device::DeviceState::default()), ..outcome(1) };
        assert_eq!(identity(&outcome(1)), identity(&other));
        assert_ne!(identity(&outcome(1)), identity(&Outcome { notes: vec!["x".into()], ..outcome(1) }));
    }
}
