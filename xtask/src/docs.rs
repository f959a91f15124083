//! `cargo xtask docs`: the book, built by mdBook from `docs/` and the pages at the root.
//!
//! `docs/SUMMARY.md` is the table of contents; decisions are added to it in their order. A link to a page of the book leads
//! there; one to a file that is not in the book becomes its name, since a book travels without the sources. Whether links
//! lead anywhere at all is tidy's business.

use crate::Failure;
use crate::markdown::{Link, links, relative, resolve};
use crate::step::Step;
use crate::tree::{Tree, workspace_root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Where the decisions go in it.
const DECISIONS: &str = "<!-- decisions -->\n";

/// Pages that are not below `docs/`, and their names in the book.
const AT_THE_ROOT: &[(&str, &str)] = &[
    ("README.md", "index.md"),
    ("ARCHITECTURE.md", "architecture.md"),
    ("CONTRIBUTING.md", "contributing.md"),
    ("SECURITY.md", "security.md"),
    ("CHANGELOG.md", "changelog.md"),
    ("CODE_OF_CONDUCT.md", "code-of-conduct.md"),
];

/// mdBook's settings.
const BOOK: &str = "[book]\ntitle = \"headstart\"\nlanguage = \"en\"\n\n[build]\nbuild-dir = \"../book\"\n\n\
    [output.html]\nno-section-label = true\n";

/// The flag that does without the book where mdBook is not installed; pages and links are checked all the same.
pub const FOUND: &str = "--found";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[FOUND])?;
    let (tree, root) = (Tree::of_workspace()?, workspace_root()?);
    crate::violation::report("docs", &crate::tidy::links(&tree))?;
    let source = root.join("target/book-source");
    let pages = pages(&tree)?;
    write(&source, &pages).map_err(|e| Failure::Failed(format!("{} cannot be written: {e}", source.display())))?;
    if installed(&root).is_none() && arguments.iter().any(|flag| flag == FOUND) {
        println!("docs: skipped: mdBook is not installed; `cargo xtask docs` installs it");
        return Ok(());
    }
    let mdbook = mdbook(&root)?;
    Step::command(&mdbook.to_string_lossy(), &["build", &source.to_string_lossy()]).run()?;
    println!("docs: {} pages in {}", pages.len() - 1, root.join("target/book/index.html").display());
    Ok(())
}

/// mdBook on the search path, or in `target/tools`.
fn installed(root: &Path) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain([root.join("target/tools/bin")]);
    folders.map(|folder| folder.join("mdbook")).find(|file| file.is_file())
}

/// mdBook, which is installed into `target/tools` the first time.
fn mdbook(root: &Path) -> Result<PathBuf, Failure> {
    match installed(root) {
        Some(found) => Ok(found),
        None => {
            let tools = root.join("target/tools");
            let at = tools.to_string_lossy();
            Step::cargo(&[
                "install",
                "mdbook@^0.4",
                "--locked",
                "--no-default-features",
                "--features",
                "search",
                "--root",
                &at,
            ])
            .run()?;
            Ok(tools.join("bin/mdbook"))
        }
    }
}

/// Every file of the book by its name in it.
fn pages(tree: &Tree) -> Result<BTreeMap<String, String>, Failure> {
    let names: BTreeMap<&str, String> =
        tree.files.iter().filter_map(|f| Some((f.path.as_str(), name(&f.path)?))).collect();
    let mut pages = BTreeMap::new();
    for file in &tree.files {
        let Some(name) = names.get(file.path.as_str()) else { continue };
        let text = if name.ends_with(".md") { in_the_book(&file.path, &file.text, &names) } else { file.text.clone() };
        pages.insert(name.clone(), text);
    }
    let summary = pages.get_mut("SUMMARY.md");
    let summary =
        summary.ok_or_else(|| Failure::Failed(format!("{SUMMARY} is missing: it is the table of contents")))?;
    *summary = summary.replace(DECISIONS, &decisions(tree));
    if let Some(missing) = pages.keys().find(|name| name.ends_with(".md") && !listed(&pages["SUMMARY.md"], name)) {
        return Err(Failure::Failed(format!("{missing} is in no chapter: name it in {SUMMARY}")));
    }
    Ok(pages)
}

/// A file's name in the book; none for what is not in it.
fn name(path: &str) -> Option<String> {
    if let Some((_, name)) = AT_THE_ROOT.iter().find(|(file, _)| *file == path) {
        return Some((*name).to_owned());
    }
    let inside = path.strip_prefix("docs/")?;
    let kept = [".md", ".svg", ".json", ".toml"].iter().any(|end| inside.ends_with(end));
    (kept && !inside.ends_with("0000-template.md")).then(|| inside.to_owned())
}

fn listed(summary: &str, name: &str) -> bool {
    name == "SUMMARY.md" || links(summary).iter().any(|link| link.to == name)
}

/// A line for each decision, by its heading.
fn decisions(tree: &Tree) -> String {
    let decisions = tree.files.iter().filter(|file| file.path.starts_with("docs/decisions/"));
    let line = |file: &crate::tree::File| {
        let name = name(&file.path)?;
        let title = file.text.lines().next()?.trim_start_matches("# ");
        Some(format!("  - [{title}]({name})\n"))
    };
    decisions.filter_map(line).collect()
}

/// A page whose links lead to pages of the book.
fn in_the_book(path: &str, text: &str, names: &BTreeMap<&str, String>) -> String {
    let own = &names[path];
    let mut out = text.to_owned();
    for link in links(text).into_iter().rev().filter(Link::is_ours) {
        let (to, anchor) =
            link.to.split_once('#').map_or((link.to.as_str(), String::new()), |(to, a)| (to, format!("#{a}")));
        if to.is_empty() {
            continue;
        }
        let target = resolve(path, to).unwrap_or_default();
        let picture = if text[link.start..].starts_with('!') { "!" } else { "" };
        let instead = match names.get(target.as_str()) {
            Some(name) => format!("{picture}[{}]({}{anchor})", link.shown, relative(own, name)),
            None if link.shown.contains(&target) => link.shown.clone(),
            None => format!("{} (`{target}`)", link.shown),
        };
        out.replace_range(link.start..link.end, &instead);
    }
    out
}

fn write(source: &Path, pages: &BTreeMap<String, String>) -> std::io::Result<()> {
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    for (name, text) in pages {
        let file = source.join("src").join(name);
        fs::create_dir_all(file.parent().expect("it is below src"))?;
        fs::write(file, text)?;
    }
    fs::write(source.join("book.toml"), BOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_pages_lead_to_pages_of_the_book_and_to_nothing_else() {
        let files = [
            ("README.md", "[a](docs/guide/a.md#b) [c](crates/core/src/lib.rs) ![p](docs/p.svg) [w](https://x) [h](#h)"),
            ("docs/guide/a.md", "[up](../../README.md) [`crates/x.rs`](../../crates/x.rs)"),
            ("docs/p.svg", "<svg/>"),
            ("docs/SUMMARY.md", "- [home](../README.md)\n- [a](guide/a.md)\n<!-- decisions -->\n"),
            ("docs/decisions/0001-x.md", "# 0001: X\n"),
            ("docs/decisions/0000-template.md", "# NNNN\n"),
        ];
        let pages = pages(&Tree::of(&files)).unwrap_or_else(|e| panic!("{e:?}"));
        let home = "[a](guide/a.md#b) c (`crates/core/src/lib.rs`) ![p](p.svg) [w](https://x) [h](#h)";
        assert_eq!((pages["index.md"].as_str(), pages["p.svg"].as_str()), (home, "<svg/>"));
        assert_eq!(pages["guide/a.md"], "[up](../index.md) `crates/x.rs`");
        assert_eq!(pages["SUMMARY.md"], "- [home](index.md)\n- [a](guide/a.md)\n  - [0001: X](decisions/0001-x.md)\n");
    }

    #[test]
    fn a_page_that_no_chapter_names_is_refused() {
        let Err(Failure::Failed(why)) = pages(&Tree::of(&[("docs/SUMMARY.md", ""), ("docs/a.md", "# A")])) else {
            panic!("it was accepted")
        };
        assert!(why.starts_with("a.md is in no chapter"), "{why}");
    }

    #[test]
    fn every_page_of_this_repository_is_in_a_chapter() {
        assert!(pages(&Tree::of_workspace().unwrap()).is_ok_and(|pages| pages.len() > 50));
    }
}
