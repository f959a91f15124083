//! User-facing text avoids the phrases in `wording.txt`: string literals of all crates, doc comments of the command line (clap prints
//! them), the pages at the root and below docs/, schemas, claims, the page of `headstart ui`, the Python package, what packages
//! install, and the strings of the Android app. Decisions are history and docs/style.md quotes what not to write; both are left out.

use super::Violation;
use crate::source::production_lines;
use crate::tree::{File, Tree};

const PHRASES: &str = include_str!("wording.txt");
/// The page that quotes what not to write.
const STYLE: &str = "docs/style.md";

/// Finds every phrase of the list.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let phrases: Vec<&str> =
        PHRASES.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    tree.files.iter().filter_map(texts).flat_map(|(file, texts)| found(file, &texts, &phrases)).collect()
}

/// The user-facing texts of a file, each with its line.
fn texts(file: &File) -> Option<(&File, Vec<(usize, String)>)> {
    let path = file.path.as_str();
    if path.ends_with(".md") {
        let page = !path.contains('/') || ["docs/", "python/"].iter().any(|folder| path.starts_with(folder));
        let is_read = page && path != STYLE && !path.starts_with("docs/decisions/");
        return is_read.then(|| (file, paragraphs(&file.text)));
    }
    if is_plain(path) {
        return Some((file, (1..).zip(file.text.lines().map(str::to_owned)).collect()));
    }
    let source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let tests = path.ends_with("/tests.rs") || path.contains("/tests/");
    (source && !tests).then(|| (file, of_source(&file.text, path.starts_with("crates/cli/"))))
}

/// Whether all lines of a file are read: it is no Rust, and people see what it says.
fn is_plain(path: &str) -> bool {
    // A library of others is as it is, and so is the text of a licence.
    if path.ends_with("/uplot.js") || path.ends_with("/copyright") {
        return false;
    }
    let within = |folder: &str, ending: &str| path.starts_with(folder) && path.ends_with(ending);
    within("docs/", ".json")
        || within("docs/", ".toml")
        || within("crates/cli/src/ui/page/", ".js")
        || within("crates/cli/src/ui/page/", ".html")
        || within("android/res/", "/strings.xml")
        || within("python/", ".py")
        || path.starts_with("packaging/")
}

/// A page by paragraphs, so that a phrase may be broken over lines.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut apart = true;
    for (line, text) in (1..).zip(text.lines()) {
        let own = text.trim().is_empty() || text.starts_with('|');
        match all.last_mut() {
            Some((_, last)) if !own && !apart => *last = format!("{last} {}", text.trim()),
            _ => all.push((line, text.trim().to_owned())),
        }
        apart = own;
    }
    all
}

/// The string literals of production code, and its doc comments if `comments`.
fn of_source(text: &str, comments: bool) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let production = lines[..production_lines(text)].join("\n");
    let mut all = literals(&production);
    let docs = (1..).zip(production.lines().map(str::trim)).filter(|(_, line)| comments && line.starts_with("///"));
    all.extend(docs.map(|(line, text)| (line, text.trim_start_matches('/').trim().to_owned())));
    all
}

/// The string literals of a source, continued lines joined, each with the line where it begins.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let (mut line, mut chars) = (1, text.chars().peekable());
    let mut last = ' ';
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            '/' if last == '/' => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            // '"' as a character.
            '"' if last == '\'' && chars.peek() == Some(&'\'') => {}
            '"' => {
                let (start, mut literal) = (line, String::new());
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => match chars.next() {
                            Some('\n') => {
                                line += 1;
                                while chars.peek().is_some_and(|c| c.is_whitespace()) {
                                    line += usize::from(chars.next() == Some('\n'));
                                }
                            }
                            _ => literal.push(' '),
                        },
                        c => {
                            line += usize::from(c == '\n');
                            literal.push(c);
                        }
                    }
                }
                all.push((start, literal));
            }
            _ => {}
        }
        last = c;
    }
    all
}

fn found(file: &File, texts: &[(usize, String)], phrases: &[&str]) -> Vec<Violation> {
    let hit = |(line, text): &(usize, String)| {
        let words = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let phrase = phrases.iter().find(|phrase| stands_in(&words, phrase))?;
        Some(Violation::at(&file.path, *line, format!("{phrase:?}: say it plainly, as {STYLE} shows")))
    };
    texts.iter().filter_map(hit).collect()
}

/// Whether `phrase` stands in `text` as whole words.
fn stands_in(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase)
        .any(|(at, _)| !is_word(text[..at].chars().next_back()) && !is_word(text[at + phrase.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.line).collect()
    }

    #[test]
    fn literals_and_clap_comments_are_read_and_other_comments_are_not() {
        let text = "//! Nobody.\n/// Nobody reads it.\nfn a() {\n  // whom\n  f(\"what \\\n     became of it\", '\"', \"Whoever\");\n}\n";
        assert_eq!(lines("crates/cli/src/a.rs", text), [5, 6, 2]);
        assert_eq!(lines("crates/core/src/a.rs", text), [5, 6]);
        assert_eq!(lines("crates/core/tests/a.rs", text), Vec::<usize>::new());
        let tests = "fn a() {}\n#[cfg(test)]\nmod tests {\n  const A: &str = \"nobody\";\n}\n";
        assert_eq!(lines("crates/core/src/a.rs", tests), Vec::<usize>::new());
    }

    #[test]
    fn pages_are_read_over_line_ends_and_decisions_and_the_style_page_are_not() {
        let text = "# Title\n\nIt says what became\nof it.\n\n| nobody | x |\n| somebodys | y |\n";
        assert_eq!(lines("docs/guide/a.md", text), [3, 6]);
        assert_eq!(lines("README.md", text), [3, 6]);
        assert_eq!(lines("CHANGELOG.md", text), [3, 6]);
        for other in ["docs/decisions/0001-a.md", "docs/style.md", "crates/cli/tests/a.md"] {
            assert_eq!(lines(other, text), Vec::<usize>::new(), "{other}");
        }
    }

    #[test]
    fn schemas_pages_packages_and_the_app_are_read_line_by_line() {
        for path in [
            "docs/reference/schemas/a.json",
            "docs/claims.toml",
            "crates/cli/src/ui/page/app.js",
            "python/headstart/lab.py",
            "packaging/systemd/headstart.service",
            "android/res/values/strings.xml",
        ] {
            assert_eq!(lines(path, "a\nNobody.\n"), [2], "{path}");
        }
        assert!(lines("crates/cli/src/ui/page/uplot.js", "nobody").is_empty());
    }

    #[test]
    fn only_whole_words_count() {
        assert!(stands_in("told whom.", "whom") && !stands_in("whomever", "whom") && !stands_in("a whom1", "whom"));
    }

    #[test]
    fn the_list_has_what_the_style_page_forbids_first() {
        let first = ["nobody", "whoever", "gone on with", "what became of", "made no sense", "believe everybody"];
        let others = ["sent again", "carried again", "in vain", "is told", "of ours", "there is no experiment"];
        let more = ["what is known of", "memory of what was", "believe", "hears of", "programs who"];
        for phrase in first.into_iter().chain(others).chain(more) {
            assert!(PHRASES.lines().any(|line| line == phrase), "{phrase}");
        }
    }
}
