//! Names are the field's own; a module called `util` says nothing about what is in it.

use super::Violation;
use crate::source::{code_only, word_followed_by};
use crate::tree::Tree;

/// Names that say nothing.
const EMPTY: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

/// Finds every file, folder or inline module with such a name.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let what = |name: &str| format!("`{name}` says nothing: name the module by what it is about, in the field's words");
    let mut found = Vec::new();
    for file in tree.rust() {
        let path = file.path.strip_suffix(".rs").unwrap_or(&file.path);
        for name in path.split('/').filter(|name| EMPTY.contains(name)) {
            found.push(Violation::at(&file.path, 1, what(name)));
        }
        for (line, text) in (1..).zip(code_only(&file.text).lines()) {
            for after in word_followed_by(text, "mod") {
                let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                // `mod NAME;` is reported at its file.
                if EMPTY.contains(&name) && after.contains('{') {
                    found.push(Violation::at(&file.path, line, what(name)));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_folders_and_inline_modules_are_found() {
        let tree = Tree::of(&[
            ("crates/io/src/util.rs", ""),
            ("crates/io/tests/common/mod.rs", ""),
            ("crates/io/src/dns.rs", "mod dns {}\npub mod misc {\n}\n"),
        ]);
        let found = check(&tree);
        let places: Vec<(&str, usize)> = found.iter().map(|v| (v.path.as_str(), v.line)).collect();
        assert_eq!(
            places,
            [("crates/io/src/dns.rs", 2), ("crates/io/src/util.rs", 1), ("crates/io/tests/common/mod.rs", 1)]
        );
    }

    #[test]
    fn a_name_that_only_contains_such_a_word_is_fine() {
        assert_eq!(check(&Tree::of(&[("crates/io/src/utilisation.rs", "mod commons {}\n")])), []);
    }
}
