//! Every link of a page leads to a file that is there, and its anchor to a heading of it.

use super::Violation;
use crate::markdown::{anchors, links, resolve};
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Finds every link that leads nowhere.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let files: BTreeSet<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    let is_there = |path: &str| {
        let folder = format!("{path}/");
        path.is_empty()
            || files.contains(path)
            || files.range(folder.as_str()..).next().is_some_and(|f| f.starts_with(&folder))
    };
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for link in links(&page.text).into_iter().filter(crate::markdown::Link::is_ours) {
            let (path, anchor) = link.to.split_once('#').unwrap_or((&link.to, ""));
            let target = if path.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, path) };
            let Some(target) = target.filter(|target| is_there(target)) else {
                let what = format!("the link to {} leads to no file: mend or remove it", link.to);
                found.push(Violation::at(&page.path, link.line, what));
                continue;
            };
            let has = || tree.get(&target).is_some_and(|file| anchors(&file.text).iter().any(|known| known == anchor));
            if !anchor.is_empty() && target.ends_with(".md") && !has() {
                let what = format!("{target} has no heading #{anchor}: mend the link");
                found.push(Violation::at(&page.path, link.line, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_folders_and_headings_hold_and_others_are_named() {
        let good = "[a](docs/b.md#c-d) [f](docs/) [h](#e) [w](https://x/y)\n\n# E\n";
        let tree = |page: &str| Tree::of(&[("README.md", page), ("docs/b.md", "# C d\n")]);
        assert_eq!(check(&tree(good)), []);
        let found = check(&tree("\n[a](docs/x.md)\n[b](docs/b.md#nowhere) [o](../out.md)\n"));
        let lines: Vec<_> = found.iter().map(|v| v.line).collect();
        assert_eq!(lines, [2, 3, 3], "{found:?}");
    }
}
