//! `cargo xtask release --cut VERSION [--dry-run]`: what is unreleased becomes that version, in every file that names it: the manifests, their
//! locks and the changelog. Nothing is committed; `--dry-run` writes nothing and says what would change.

use super::git;
use crate::Failure;
use crate::package::version;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Manifests outside of `crates` and the locks, which say the version of what is built here.
const FILES: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "fuzz/Cargo.lock", "python/Cargo.lock", "python/Cargo.toml", "python/pyproject.toml"];
const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "\n## [Unreleased]\n";

/// Cuts the version `to`, if `writes`; says in any case what changes.
pub fn run(root: &Path, to: &str, writes: bool) -> Result<(), Failure> {
    let today = Command::new("date").args(["-u", "+%F"]).output();
    let today = today.map_err(|why| Failure::Failed(format!("date: {why}")))?;
    let changed = changed(root, to, String::from_utf8_lossy(&today.stdout).trim())?;
    for (name, old, new) in &changed {
        for line in differences(old, new) {
            println!("xtask: {name}: {line}");
        }
    }
    if !writes {
        println!("xtask: nothing was written");
        return Ok(());
    }
    for (name, _, new) in &changed {
        fs::write(root.join(name), new).map_err(|why| Failure::Failed(format!("{name}: {why}")))?;
    }
    println!("xtask: commit this, then: cargo xtask release --check");
    Ok(())
}

/// Each file that changes: its name, its text, its new text.
fn changed(root: &Path, to: &str, today: &str) -> Result<Vec<(String, String, String)>, Failure> {
    let from = version(root)?;
    let refused = |why: String| Err(Failure::Failed(format!("nothing is cut: {why}")));
    if git(root, &["status", "--porcelain"]) != Some(String::new()) {
        return refused("the tree is dirty, or no git repository: commit what is there".into());
    }
    if numbers(to).is_none_or(|to| Some(to) <= numbers(&from)) {
        return refused(format!("`{to}` is no version after {from}, as in 0.2.0"));
    }
    let read = |name: &str| fs::read_to_string(root.join(name)).ok();
    let Some(log) = read(CHANGELOG).filter(|log| has_news(log)) else {
        return refused(format!("{CHANGELOG} has nothing below `{}`", UNRELEASED.trim()));
    };
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let mut crates: Vec<_> =
        crates.map(|entry| format!("crates/{}/Cargo.toml", entry.file_name().to_string_lossy())).collect();
    crates.sort();
    let names = FILES.iter().map(|name| (*name).to_owned()).chain(crates);
    let mut all: Vec<_> = names
        .filter_map(|name| {
            let old = read(&name)?;
            let new = if name.ends_with(".lock") { lock(&old, &from, to) } else { manifest(&old, &from, to) };
            (new != old).then_some((name, old, new))
        })
        .collect();
    let new = log.replacen(UNRELEASED, &format!("{UNRELEASED}\n## [{to}] - {today}\n"), 1);
    all.push((CHANGELOG.to_owned(), log, new));
    Ok(all)
}

/// The three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Whether anything is listed between the heading of what is unreleased and the next version.
fn has_news(log: &str) -> bool {
    let news = log.split_once(UNRELEASED).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or_default());
    news.lines().any(|line| line.starts_with("- "))
}

/// A manifest with its own version and that of its neighbours changed; those of others' crates stay.
fn manifest(text: &str, from: &str, to: &str) -> String {
    let (old, new) = (format!("version = \"{from}\""), format!("version = \"{to}\""));
    let is_ours = |line: &str| line.starts_with(&old) || line.contains(&format!("{old}, path = \""));
    text.split_inclusive('\n').map(|line| if is_ours(line) { line.replace(&old, &new) } else { line.into() }).collect()
}

/// The same of a lock, in which others' crates have a source.
fn lock(text: &str, from: &str, to: &str) -> String {
    let (old, new) = (format!("\nversion = \"{from}\"\n"), format!("\nversion = \"{to}\"\n"));
    let package =
        |text: &str| if text.contains("\nsource = ") { text.to_owned() } else { text.replacen(&old, &new, 1) };
    text.split("[[package]]").map(package).collect::<Vec<_>>().join("[[package]]")
}

/// The lines that change, each with what becomes of it; of a text that grows, those that come.
fn differences(old: &str, new: &str) -> Vec<String> {
    if old.lines().count() == new.lines().count() {
        let pairs = old.lines().zip(new.lines()).filter(|(old, new)| old != new);
        return pairs.map(|(old, new)| format!("{old} -> {new}")).collect();
    }
    new.lines().filter(|line| !old.lines().any(|other| other == *line)).map(|line| format!("+ {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tests::{folder, run_git};

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"other\"\nversion = \"0.1.0\"\nsource = \"registry\"\n\n\
                        [[package]]\nname = \"headstart\"\nversion = \"0.1.0\"\ndependencies = [\n \"other\",\n]\n";
    const LOG: &str = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n";

    #[test]
    fn a_cut_changes_what_names_the_version_of_ours_and_nothing_else() {
        let root = folder("cut");
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        };
        let workspace = "[workspace.package]\nversion = \"0.1.0\"\n\n[workspace.dependencies]\n\
                         ours = { version = \"0.1.0\", path = \"crates/ours\" }\nother = { version = \"0.1.0\" }\n";
        write("Cargo.toml", workspace);
        write("Cargo.lock", LOCK);
        write("crates/ours/Cargo.toml", "[package]\nversion.workspace = true\n");
        write(CHANGELOG, LOG);
        run_git(&root, &["init", "--quiet"]);
        run_git(&root, &["add", "."]);
        run_git(&root, &["commit", "--quiet", "-m", "one"]);
        let named = |changed: &[(String, String, String)]| {
            changed.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>().join(" ")
        };
        let cut = changed(&root, "0.2.0", "2026-12-01").unwrap();
        assert_eq!(named(&cut), "Cargo.toml Cargo.lock CHANGELOG.md");
        assert_eq!(
            cut[0].2,
            workspace.replacen("0.1.0", "0.2.0", 2),
            "the version and that of a neighbour, not that of another's crate"
        );
        assert_eq!(cut[1].2.matches("0.2.0").count(), 1);
        assert!(cut[1].2.contains("name = \"other\"\nversion = \"0.1.0\""), "{}", cut[1].2);
        assert!(cut[2].2.contains("\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n"), "{}", cut[2].2);

        run(&root, "0.2.0", false).unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(git(&root, &["status", "--porcelain"]).unwrap(), "", "a dry run writes nothing");
        run(&root, "0.2.0", true).unwrap_or_else(|why| panic!("{why:?}"));
        assert!(
            fs::read_to_string(root.join("Cargo.toml"))
                .unwrap()
                .starts_with("[workspace.package]\nversion = \"0.2.0\"")
        );
        let why = |result: Result<_, Failure>| match result {
            Err(Failure::Failed(why)) => why,
            _ => panic!("it was cut"),
        };
        assert!(why(changed(&root, "0.3.0", "")).contains("dirty"));
        run_git(&root, &["commit", "--quiet", "-a", "-m", "two"]);
        assert!(why(changed(&root, "0.2.0", "")).contains("no version after 0.2.0"));
        assert!(why(changed(&root, "0.3", "")).contains("no version after 0.2.0"));
        assert!(why(changed(&root, "0.3.0", "")).contains("has nothing below"), "what is released is no news");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_would_change_is_told_line_by_line() {
        assert_eq!(differences("a\nb\nb\n", "a\nB\nb\n"), ["b -> B"], "also where the same line stays elsewhere");
        assert_eq!(differences("a\nb\n", "a\nB\nb\n"), ["+ B"]);
    }
}
