//! Every source file opens with `//!`: what it is, where it comes from, what never happens in it.

use super::Violation;
use crate::tree::Tree;

/// Finds every file whose first line is something else.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let what = "the first line is no `//!`: say what this file is, where it comes from, what never happens in it";
    let headless = tree.rust().filter(|file| {
        let header = file.text.lines().next().and_then(|line| line.strip_prefix("//!"));
        header.is_none_or(|words| words.trim().is_empty())
    });
    headless.map(|file| Violation::at(&file.path, 1, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_must_say_something() {
        for text in ["", "use x;\n//! late\n", "//!\n//! late\n", "// no doc\n"] {
            assert_eq!(check(&Tree::of(&[("a.rs", text)])).len(), 1, "{text:?}");
        }
        assert_eq!(check(&Tree::of(&[("a.rs", "//! What it is.\n"), ("b.md", "")])), []);
    }
}
