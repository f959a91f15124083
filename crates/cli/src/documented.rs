//! Every command that the documentation shows is one that this program understands.

use clap::error::ErrorKind;
use std::path::{Path, PathBuf};

/// Where commands are shown. Decisions tell of what was, and the reference is written by the program itself.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "python/README.md"].map(|page| root.join(page)).to_vec();
    for folder in ["docs", "docs/guide", "docs/internals", "docs/results"].map(|folder| root.join(folder)) {
        pages.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    pages.extend(std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("README.md")));
    pages.retain(|page| page.extension().is_some_and(|ending| ending == "md") && page.is_file());
    pages
}

/// A command as a page shows it: the number of its line, its text, and whether it is one to copy (a line of a shell's block).
type Shown = (usize, String, bool);

fn shown(page: &str) -> Vec<Shown> {
    let (mut all, mut block, mut begun) = (Vec::new(), None, String::new());
    for (number, line) in (1..).zip(page.lines()) {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(kind), None) => block = Some(kind == "sh"),
            (Some(_), Some(_)) => block = None,
            (None, Some(true)) => match line.strip_suffix('\\') {
                Some(part) => begun += part,
                None => all.push((number, std::mem::take(&mut begun) + line, true)),
            },
            (None, Some(false)) => {}
            (None, None) => all.extend(line.split('`').skip(1).step_by(2).map(|code| (number, code.to_owned(), false))),
        }
    }
    all
}

/// The words of each call of this program in a line of a shell, its own name first.
fn calls(line: &str) -> Vec<Vec<String>> {
    let Some(words) = shlex::split(line) else { return Vec::new() };
    let simple = words.split(|word| ["|", "||", "&&", ";", "&"].contains(&&**word));
    let call = |words: &[String]| {
        let prefix =
            |word: &&String| *word == "sudo" || word.split_once('=').is_some_and(|(name, _)| !name.contains('-'));
        let words: Vec<_> = words.iter().skip_while(prefix).take_while(|word| !word.starts_with(['>', '<'])).collect();
        match words.split_first()? {
            (program, rest) if *program == "headstart" => {
                Some(rest.iter().map(|word| (*word).clone()).collect::<Vec<_>>())
            }
            _ => None,
        }
    };
    simple.filter_map(call).map(|rest| [vec!["headstart".to_owned()], rest].concat()).collect()
}

fn is_stand_in(word: &str) -> bool {
    word.len() > 1 && word.bytes().all(|letter| letter.is_ascii_uppercase() || letter == b'_')
}

#[test]
fn every_command_that_the_documentation_shows_is_understood() {
    let (command, mut seen, mut wrong) = (crate::laboratory::whole(), 0, Vec::new());
    for page in pages() {
        for (line, text, is_to_copy) in shown(&std::fs::read_to_string(&page).unwrap()) {
            for words in calls(&text) {
                seen += 1;
                let Err(why) = command.clone().try_get_matches_from(&words) else { continue };
                let is_fine = match why.kind() {
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
                    // A name in capitals stands for a value, or for any verb; in a sentence an option stands without one.
                    ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                        !is_to_copy || words.iter().any(|word| is_stand_in(word))
                    }
                    ErrorKind::InvalidSubcommand => !is_to_copy && is_stand_in(&words[1]),
                    // In a sentence a verb stands for all its uses.
                    ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !is_to_copy,
                    _ => false,
                };
                if !is_fine {
                    wrong.push(format!("{}:{line}: {text}\n{why}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "{seen} commands in all pages");
}
