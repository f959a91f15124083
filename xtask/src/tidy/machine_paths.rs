//! No file names a path of one machine: what works in one home folder works nowhere else.

use super::Violation;
use crate::tree::Tree;

/// Beginnings of such paths; split so that this file passes its own rule.
const BEGINNINGS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/tm", "p/bash_jobs")];

/// Finds every one outside lock files.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.ends_with(".lock")) {
        for (line, text) in (1..).zip(file.text.lines()) {
            for beginning in BEGINNINGS.iter().filter(|beginning| holds(text, beginning)) {
                let what =
                    format!("`{beginning}…` is a path of one machine: make it relative, or take it from a setting");
                found.push(Violation::at(&file.path, line, what));
            }
        }
    }
    found
}

/// Whether an absolute path starts so: not the middle of a relative path or of an address.
fn holds(text: &str, beginning: &str) -> bool {
    text.match_indices(beginning).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '~'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_of_a_machine_are_found_wherever_they_stand() {
        for beginning in BEGINNINGS {
            for text in [format!("x = \"{beginning}x\""), format!("file://{beginning}x"), format!("{beginning}x")] {
                assert_eq!(check(&Tree::of(&[("docs/a.md", &text)])).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn relative_paths_and_lock_files_are_fine() {
        let beginning = BEGINNINGS[0];
        assert_eq!(check(&Tree::of(&[("a.rs", &format!("target{beginning}x, ${{x}}{beginning}"))])), []);
        assert_eq!(check(&Tree::of(&[("Cargo.lock", beginning)])), []);
    }
}
