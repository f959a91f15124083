//! docs/internals/crates.md is an audit of crates at their versions: of another version, what changed is to be read first.

use super::Violation;
use super::locks::{PRODUCT, packages};
use crate::tree::Tree;

const PAGE: &str = "docs/internals/crates.md";
/// How the table begins that names the crates and their versions.
const HEAD: &str = "| crate | version |";
/// Crates that are audited at least.
const LEAST: usize = 10;

/// Finds audited crates of which the lock has another version, and a table with too few of them.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let text = |path: &str| tree.get(path).map_or("", |file| file.text.as_str());
    let locked = packages(text(PRODUCT));
    let audited = rows(text(PAGE));
    let mut found = Vec::new();
    if audited.len() < LEAST {
        let what = format!("{} crates in the table that begins with `{HEAD}`: at least {LEAST}", audited.len());
        found.push(Violation::at(PAGE, 1, what));
    }
    for (line, name, version) in audited {
        let versions: Vec<&str> = locked.iter().filter(|of| of.name == name).map(|of| of.version).collect();
        if versions != [version] {
            let has = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
            let what = format!(
                "{name} was audited at {version}, Cargo.lock has {has}: read what changed, then correct the row, its \
                 section and the date"
            );
            found.push(Violation::at(PAGE, line, what));
        }
    }
    found
}

/// Each row of the table: its line, the crate and the version.
fn rows(page: &str) -> Vec<(usize, &str, &str)> {
    let table = (1..).zip(page.lines()).skip_while(|(_, line)| !line.starts_with(HEAD)).skip(2);
    table
        .map_while(|(line, text)| {
            let mut cells = text.strip_prefix('|')?.split('|').map(|cell| cell.trim().trim_matches('`'));
            Some((line, cells.next()?, cells.next()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where the lock has `a` at this version and the nine others at 1.0.0, as the page says of all.
    fn found(version: &str) -> Vec<Violation> {
        let names: Vec<String> = ('a'..='j').map(String::from).collect();
        let rows: String = names.iter().map(|name| format!("| `{name}` | 1.0.0 | MIT |\n")).collect();
        let page = format!(
            "# Title\n\n| other | x |\n|---|---|\n| `z` | 9 |\n\n{HEAD} licence |\n|---|---|---|\n{rows}\n| `y` | 8 |\n"
        );
        let package = |name: &str| {
            let version = if name == "a" { version } else { "1.0.0" };
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
        };
        let lock: String = names.iter().map(|name| package(name)).collect();
        check(&Tree::of(&[(PRODUCT, lock.as_str()), (PAGE, page.as_str())]))
    }

    #[test]
    fn the_versions_of_the_table_pass_and_other_tables_are_not_read() {
        assert_eq!(found("1.0.0"), []);
    }

    #[test]
    fn another_version_is_named_with_the_row() {
        let found = found("1.0.1");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].line), (PAGE, 9));
        assert!(found[0].what.contains("a was audited at 1.0.0, Cargo.lock has 1.0.1"), "{}", found[0].what);
    }

    #[test]
    fn a_crate_that_is_gone_and_a_table_that_is_too_short_are_named() {
        let page = format!("{HEAD}\n|---|---|\n| `a` | 1.0.0 |\n");
        let found = check(&Tree::of(&[(PRODUCT, ""), (PAGE, page.as_str())]));
        let [short, gone] = &found[..] else { panic!("{found:?}") };
        assert!(short.what.starts_with("1 crates"), "{}", short.what);
        assert!(gone.what.contains("Cargo.lock has none") && gone.line == 3, "{}", gone.what);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
