//! What docs/internals says is held by a test is held by one: each name in backquotes in the last column of a table there that has
//! a column `the test` is a function of some Rust source.

use super::Violation;
use crate::tree::Tree;

/// Finds names of tests that no source has.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let pages = tree.files.iter().filter(|file| file.path.starts_with("docs/internals/") && file.path.ends_with(".md"));
    let mut found = Vec::new();
    for page in pages {
        let mut in_table = false;
        for (line, row) in (1..).zip(page.text.lines()) {
            let Some(last) = row.strip_prefix('|').and_then(|row| row.strip_suffix('|')?.rsplit('|').next()) else {
                in_table = false;
                continue;
            };
            in_table |= last.trim() == "the test";
            let names = last.split('`').skip(1).step_by(2).filter(|_| in_table);
            let absent = names.filter(|name| !tree.rust().any(|file| file.text.contains(&format!("fn {name}("))));
            found.extend(
                absent.map(|name| {
                    Violation::at(&page.path, line, format!("no test is called `{name}`: correct the name"))
                }),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_test_is_named_and_other_columns_and_tables_are_not_looked_at() {
        let page =
            "| rule | the test |\n|---|---|\n| `no_name` | `there`, `gone` |\n\n| a | b |\n|---|---|\n| x | `else` |\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", "fn there() {}"), ("docs/internals/a.md", page)]);
        let found: Vec<_> = check(&tree).into_iter().map(|violation| (violation.line, violation.what)).collect();
        assert_eq!(found, [(3, "no test is called `gone`: correct the name".to_owned())]);
    }
}
