//! README.md and ARCHITECTURE.md are there, and short enough to be read in one sitting.

use super::Violation;
use crate::tree::Tree;

/// A page that newcomers read, and its words at most.
struct Page {
    path: &'static str,
    most: usize,
    /// The heading from which on words do not count.
    until: Option<&'static str>,
}

/// The README in three minutes, the map in five, at 240 words a minute.
const PAGES: [Page; 2] = [
    Page { path: "README.md", most: 700, until: Some("\n## Licence") },
    Page { path: "ARCHITECTURE.md", most: 1200, until: None },
];

/// Finds each that is missing or too long.
pub fn check(tree: &Tree) -> Vec<Violation> {
    PAGES.iter().filter_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, Page { path, most, until }: &Page) -> Option<Violation> {
    let Some(file) = tree.get(path) else {
        return Some(Violation::at(path, 1, format!("missing: write it, in at most {most} words")));
    };
    let text = until.and_then(|until| file.text.split_once(until)).map_or(&*file.text, |(text, _)| text);
    // As `wc -w` counts.
    let words = text.split_whitespace().count();
    (words > *most).then(|| {
        let what = format!("{words} words, at most {most}: move details into docs/ or the headers of modules");
        Violation::at(path, text.lines().count(), what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_must_exist_and_stay_short() {
        let found = |readme: &str, map: &str| {
            let tree = Tree::of(&[("README.md", readme), ("ARCHITECTURE.md", map)]);
            check(&tree).into_iter().map(|violation| violation.path).collect::<Vec<_>>()
        };
        assert_eq!(check(&Tree::of(&[])).len(), 2);
        let licence = "x | ".repeat(350) + "\n## Licence\n" + &"x ".repeat(100);
        assert!(found(&licence, &"x | ".repeat(600)).is_empty());
        let too_long = found(&"x |\n".repeat(351), &"x |\n".repeat(601));
        assert_eq!(too_long.len(), 2);
    }
}
