//! Files stay under 600 lines of production code; what follows the opening of the test module does not count.

use super::Violation;
use crate::source::{code_only, is_test, production_lines};
use crate::tree::Tree;

/// The most lines of production code in a file; most files are near 150.
const MOST: usize = 600;

/// Finds every longer file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let measured = tree.rust().filter(|file| !is_test(&file.path));
    let measured = measured.map(|file| (file, production_lines(&code_only(&file.text))));
    let what = |lines| format!("{lines} lines of production code, at most {MOST}: split it by role");
    measured
        .filter(|(_, lines)| *lines > MOST)
        .map(|(file, lines)| Violation::at(&file.path, lines, what(lines)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count_and_production_does() {
        let production = "fn f() {}\n".repeat(MOST);
        let tests = format!("{production}#[cfg(test)]\nmod tests {{\n{production}}}\n");
        assert_eq!(check(&Tree::of(&[("a.rs", &tests), ("tests/b.rs", &production.repeat(2))])), []);
        let found = check(&Tree::of(&[("a.rs", &format!("{production}fn g() {{}}\n{tests}"))]));
        assert_eq!(found.len(), 1);
    }
}
