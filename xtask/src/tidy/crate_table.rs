//! ARCHITECTURE.md has a table of the crates, by path, and it is complete and true.

use super::Violation;
use crate::tree::Tree;
use std::collections::BTreeMap;

const PAGE: &str = "ARCHITECTURE.md";

/// Finds crates that the table lacks, and rows whose crate is gone.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let text = tree.get(PAGE).map_or("", |file| file.text.as_str());
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, row) in (1..).zip(text.lines()).filter(|(_, row)| row.trim_start().starts_with('|')) {
        for (at, prefix) in row.match_indices("crates/") {
            let name = row[at + prefix.len()..].split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').next();
            rows.entry(name.unwrap_or_default()).or_insert(line);
        }
    }
    let crates: Vec<&str> = tree.crates().map(|(name, _)| name).collect();
    let absent = crates.iter().filter(|name| !rows.contains_key(*name)).map(|name| {
        let what = format!("no table row names `crates/{name}`: add one that says what the crate is for");
        Violation::at(PAGE, 1, what)
    });
    let stale = rows.iter().filter(|(name, _)| !name.is_empty() && !crates.contains(name)).map(|(name, line)| {
        Violation::at(PAGE, *line, format!("there is no `crates/{name}`: correct the path or remove the row"))
    });
    absent.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATES: [(&str, &str); 2] = [("crates/core/Cargo.toml", ""), ("crates/io/Cargo.toml", "")];

    fn found(page: &str) -> Vec<String> {
        let [a, b] = CRATES;
        check(&Tree::of(&[a, b, (PAGE, page)])).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_complete_table_passes_with_links_or_backticks() {
        assert_eq!(found("| `crates/core` | decides |\n| [crates/io](crates/io) | acts |\n"), [] as [&str; 0]);
    }

    #[test]
    fn a_missing_row_and_a_stale_row_are_named() {
        let found = found("`crates/io` in prose is no row\n| `crates/core` | |\n| `crates/gone` | |\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("crates/io") && found[1].contains("crates/gone"), "{found:?}");
    }
}
