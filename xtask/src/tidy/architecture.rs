//! ARCHITECTURE.md is there, and short enough to be read in one sitting.

use super::Violation;
use crate::tree::Tree;

const PATH: &str = "ARCHITECTURE.md";
/// The most words of it: what a newcomer reads in five minutes, at 220 a minute.
const MOST: usize = 1100;

/// Finds it missing or too long.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(file) = tree.get(PATH) else {
        let what = format!("missing: say how the code is laid out, in at most {MOST} words");
        return vec![Violation::at(PATH, 1, what)];
    };
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    match file.text.split_whitespace().filter(is_word).count() {
        words if words > MOST => {
            let what = format!("{words} words, at most {MOST}: move details into docs/ or the headers of modules");
            vec![Violation::at(PATH, file.text.lines().count(), what)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_must_exist_and_stay_short() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
        assert_eq!(check(&Tree::of(&[(PATH, &"x | - ".repeat(MOST))])), []);
        assert_eq!(check(&Tree::of(&[(PATH, &"x\n".repeat(MOST + 1))])).len(), 1);
    }
}
