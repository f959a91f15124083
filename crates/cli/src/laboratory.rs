//! The command `headstart-lab`: the lab's verbs as `headstart` has them (`lab run`, `demo`, ...), and those of `lab` without that word
//! (`headstart-lab run NAME`). Also all that is told of both programs together: lists, man pages, completions.

use crate::{demo, exit, help, lab, list, manual, probe};
use clap::{Command, CommandFactory as _, FromArgMatches, Parser, Subcommand};
use headstart_lab::netns;
use std::ffi::OsString;

/// Emulates networks and runs experiments on them.
#[derive(Debug, Parser)]
#[command(name = "headstart", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Emulate networks and run experiments
    #[command(subcommand)]
    Lab(lab::Verb),
    /// Compare programs with and without headstart (25 s)
    ///
    /// Runs real programs on an emulated network; needs no root and no internet.
    Demo(demo::Args),
    /// The lists of both programs.
    #[command(hide = true)]
    Lists(list::Args),
    /// Print a completion script for your shell
    Completions(manual::Completions),
    /// Print or write the man pages
    Man(manual::Man),
    /// Run a small workload and print what it saw (for measurements).
    #[command(hide = true)]
    Probe(probe::Args),
}

/// The words of `headstart` that do what these words of `headstart-lab` ask for.
fn as_headstart(mut words: Vec<OsString>) -> Vec<OsString> {
    const WHOLE: [&str; 7] = ["lab", "demo", "lists", "completions", "man", "probe", "--version"];
    if !words.first().is_some_and(|word| WHOLE.iter().any(|whole| word == whole)) {
        words.insert(0, "lab".into());
    }
    words
}

/// The command `headstart` with the verbs of `headstart-lab` in full.
pub fn whole() -> Command {
    let lab = Verb::augment_subcommands(Command::new("headstart"));
    let (plain, own) = (crate::Cli::command(), |name: &str| lab.find_subcommand(name).cloned());
    let more: Vec<_> = lab.get_subcommands().filter(|verb| plain.find_subcommand(verb.get_name()).is_none()).collect();
    let plain = plain.clone().subcommands(more.into_iter().cloned());
    help::finished(plain.mut_subcommands(|verb| own(verb.get_name()).unwrap_or(verb)), help::COLUMNS)
}

/// Does what the words of this process say; what it ends with.
pub fn run() -> anyhow::Result<u8> {
    let words = as_headstart(std::env::args_os().skip(1).collect());
    if words[0] == "--version" {
        crate::say!("{} {}", crate::beside::LAB, env!("CARGO_PKG_VERSION"));
        return Ok(exit::OK);
    }
    let mut command = whole();
    exit::note_verb(&command, &words);
    let matches = command.try_get_matches_from_mut([vec!["headstart".into()], words].concat());
    let matches = matches.unwrap_or_else(|why| exit::of_arguments(&why));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|why| exit::of_arguments(&why.format(&mut command)));
    let result = match cli.verb {
        Verb::Lab(verb) => lab::run(verb),
        Verb::Demo(args) => demo::run(&args),
        Verb::Lists(args) => list::whole(&args),
        Verb::Completions(args) => {
            let experiments: Vec<_> = headstart_lab::experiment::ALL.iter().map(|entry| entry.name).collect();
            manual::completions(&args, &whole(), &experiments)
        }
        Verb::Man(args) => manual::man(&args, &whole()),
        Verb::Probe(args) => probe::run(&args),
    };
    result.map_err(
        |why| if is_refused(&why) { exit::Coded(exit::NOT_PERMITTED, exit::one_line(&why)).into() } else { why },
    )
}

/// Whether the kernel or the host does not permit what the lab wanted.
fn is_refused(why: &anyhow::Error) -> bool {
    let refused = |e: &netns::Error| matches!(e, netns::Error::Refused { .. } | netns::Error::NotPermitted { .. });
    why.chain().filter_map(|cause| cause.downcast_ref()).any(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_the_lab_need_not_say_that_they_are() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        for (given, meant) in [
            ("run x --json", "lab run x --json"),
            ("lab run x", "lab run x"),
            ("demo --json", "demo --json"),
            ("list", "lab list"),
            ("", "lab"),
            ("--help", "lab --help"),
        ] {
            assert_eq!(as_headstart(words(given)), words(meant));
        }
    }
}
