//! ARCHITECTURE.md is there, and short enough to be read in one sitting.

use super::Violation;
use crate::tree::Tree;

const PATH: &str = "ARCHITECTURE.md";
/// The most lines of it.
const MOST: usize = 200;

/// Finds it missing or too long.
pub fn check(tree: &Tree) -> Vec<Violation> {
    match tree.get(PATH).map(|file| file.text.lines().count()) {
        None => vec![Violation::at(PATH, 1, "missing: say how the code is laid out, in at most 200 lines")],
        Some(lines) if lines > MOST => {
            let what = format!("{lines} lines, at most {MOST}: move details into docs/ or the headers of modules");
            vec![Violation::at(PATH, MOST + 1, what)]
        }
        Some(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_must_exist_and_stay_short() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
        assert_eq!(check(&Tree::of(&[(PATH, &"x\n".repeat(MOST))])), []);
        assert_eq!(check(&Tree::of(&[(PATH, &"x\n".repeat(MOST + 1))])).len(), 1);
    }
}
