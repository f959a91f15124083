//! A program's content, bare and under each front end, and whether headstart had a part in it.

use super::trial::Trial;
use crate::netns::Network;
use crate::program::{Folder, Program};
use crate::server::suite::{Content, Suite};
use anyhow::Context as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is fetched, and where: a dual-stack name, one with IPv4 only and one with IPv6 only.
const VISITS: [(Content, &str); 3] =
    [(Content::Page, "www.lab.example"), (Content::Large, "v4.lab.example"), (Content::Upload, "v6.lab.example")];

/// Counters of `headstart run --summary`, of which one above zero means that headstart had a part in what a program did:
/// it answered a lookup (of the C library, or of a program that speaks DNS itself), or handed a connection over.
const PARTS: [&str; 5] = ["resolved", "cache_hits", "cache_misses", "handed_over", "handed_over_in_progress"];

/// Where programs are run.
pub struct Scene<'a> {
    /// The network.
    pub network: &'a Network,
    /// Its servers.
    pub suite: &'a Suite,
    /// The program `headstart`.
    pub headstart: &'a Path,
    /// For files of the programs.
    pub folder: &'a Folder,
}

/// A program under one front end, beside the same program bare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Whether headstart had a part in every visit.
    pub covered: bool,
    /// What was not as it is without headstart; nothing if all is, byte for byte.
    pub differences: Vec<String>,
    /// What headstart said of visits that it had no part in, each remark once.
    pub remarks: Vec<String>,
    /// The counters of all visits, added up: what headstart did.
    pub counts: BTreeMap<String, u64>,
}

/// The counters of a summary; whatever else is in it is left out.
#[derive(Deserialize)]
#[serde(transparent)]
struct Summary(BTreeMap<String, serde_json::Value>);

/// A visit, with what the bare program printed.
struct Visit {
    content: Content,
    host: &'static str,
    bare: Vec<u8>,
}

impl Scene<'_> {
    /// Runs `program` bare and under each of `front_ends`, one after the other.
    ///
    /// `Ok(Err(_))` says why the bare program could not do what it was asked for, so that nothing can be compared.
    pub fn compare(
        &self,
        program: &Program,
        front_ends: &[&'static str],
    ) -> anyhow::Result<Result<Vec<(&'static str, Compared)>, String>> {
        let mut visits = Vec::new();
        for (content, host) in self.visits(program) {
            let described = format!("{} of {host}", content.what());
            let bare = self.visit(program, content, host, None)?.trial;
            if let Some(fault) = bare.fault {
                return Ok(Err(format!("{} alone, {described}: {fault}", program.entry.name)));
            }
            if program.entry.prints_page && bare.out != self.suite.expected(program.entry, content)? {
                return Ok(Err(format!(
                    "{} alone, {described}: its content differs from the server's",
                    program.entry.name
                )));
            }
            visits.push(Visit { content, host, bare: bare.out });
        }
        if visits.is_empty() {
            return Ok(Err(self
                .suite
                .without_ssh()
                .unwrap_or("it has no protocol in common with the servers")
                .to_owned()));
        }
        let under = |front_end: &&'static str| Ok((*front_end, self.under(program, front_end, &visits)?));
        front_ends.iter().map(under).collect::<anyhow::Result<_>>().map(Ok)
    }

    /// Every content once, each at a host of other families; the page twice for a program that sends nothing.
    fn visits(&self, program: &Program) -> Vec<(Content, &'static str)> {
        let possible = |(content, host)| match content {
            Content::Upload if !program.entry.sends => (Content::Page, host),
            content => (content, host),
        };
        let asked = VISITS.map(possible);
        asked.into_iter().filter(|(content, host)| self.suite.url(program.entry, *content, host).is_some()).collect()
    }

    fn under(&self, program: &Program, front_end: &str, visits: &[Visit]) -> anyhow::Result<Compared> {
        let mut compared = Compared { covered: true, ..Compared::default() };
        for visit in visits {
            let Ended { trial, summary } = self.visit(program, visit.content, visit.host, Some(front_end))?;
            let described = format!("{} of {}", visit.content.what(), visit.host);
            compared.differences.extend(match trial.fault {
                Some(fault) => Some(format!("{described}: {fault}")),
                None => difference(&visit.bare, &trial.out).map(|difference| format!("{described}: {difference}")),
            });
            let counts = counters(summary.as_deref().unwrap_or(b"{}"))?;
            let had_a_part = PARTS.iter().any(|part| counts.get(*part).is_some_and(|n| *n > 0));
            compared.covered &= had_a_part;
            if let Some(remark) = trial.remark.filter(|r| !had_a_part && !compared.remarks.contains(r)) {
                compared.remarks.push(remark);
            }
            for (name, n) in counts {
                *compared.counts.entry(name).or_default() += n;
            }
        }
        Ok(compared)
    }

    fn visit(&self, program: &Program, content: Content, host: &str, front_end: Option<&str>) -> anyhow::Result<Ended> {
        let program = self.suite.introduce(program.clone(), content);
        let url = self.suite.url(program.entry, content, host).context("content that no server can provide")?;
        let home = self.folder.of("home")?;
        let (command, summary) = match front_end {
            None => (program.command(&url), None),
            Some(front_end) => {
                let summary: PathBuf = home.join("summary.json");
                let mut run = Command::new(self.headstart);
                run.args(["run", "--via", front_end, "--summary"]).arg(&summary).arg("--");
                (program.command_behind(run, &url), Some(summary))
            }
        };
        let trial = Trial::run(self.network, &home, command)?;
        let said = summary.as_deref().and_then(|file| fs::read(file).ok());
        // Nothing that this visit leaves is found by the next.
        fs::remove_dir_all(&home).with_context(|| format!("removing {}", home.display()))?;
        Ok(Ended { trial, summary: said })
    }
}

struct Ended {
    trial: Trial,
    /// What headstart wrote; none if it had no part.
    summary: Option<Vec<u8>>,
}

fn counters(summary: &[u8]) -> anyhow::Result<BTreeMap<String, u64>> {
    let Summary(all) = serde_json::from_slice(summary).context("reading headstart's summary")?;
    Ok(all
        .into_iter()
        .filter(|(name, _)| name != "version")
        .filter_map(|(name, n)| Some((name, n.as_u64()?)))
        .collect())
}

fn difference(bare: &[u8], ours: &[u8]) -> Option<String> {
    if bare == ours {
        return None;
    }
    let same = bare.iter().zip(ours).take_while(|(a, b)| a == b).count();
    Some(format!("{} bytes instead of {}, other from byte {same} on", ours.len(), bare.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_everything_else_in_a_summary_is_left_out() {
        let text = br#"{"version":1,"resolved":2,"passed":{"a":1},"lookup_wait_ms":1.5,"via":"preload"}"#;
        assert_eq!(counters(text).unwrap(), BTreeMap::from([("resolved".to_owned(), 2)]));
        assert!(counters(b"{").is_err() && counters(b"{}").unwrap().is_empty());
    }

    #[test]
    fn a_difference_says_where_it_begins() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert_eq!(difference(b"abc", b"abx").unwrap(), "3 bytes instead of 3, other from byte 2 on");
        assert_eq!(difference(b"abc", b"ab").unwrap(), "2 bytes instead of 3, other from byte 2 on");
    }
}
