//! `cargo xtask requirements`: what RFCs ask for, and where the code keeps it and a test holds it.
//!
//! `docs/internals/requirements.toml` lists the requirements; code and tests cite them by a comment, `//= RFC 9293#3.8.5`. The chore
//! writes `docs/internals/requirements.md` from both. Tidy refuses a citation of what is not listed, a MUST that no test cites and
//! that has no reason, and a page that is not what the chore would write.

use crate::Failure;
use crate::source::{is_test, production_lines};
use crate::toml_lines::{Document, strings};
use crate::tree::{Tree, workspace_root};
use crate::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "docs/internals/requirements.toml";
const PAGE: &str = "docs/internals/requirements.md";
/// What a citation begins with. In two parts, so that this file cites nothing.
const CITATION: &str = concat!("//", "= RFC ");

/// The number of an RFC and the place in it.
type Key = (i64, String);

/// A citation: of what, in which file, on which line.
type Citation = (Key, String, usize);

#[derive(Debug)]
struct Requirement {
    line: usize,
    key: Key,
    level: String,
    says: String,
    reason: Option<String>,
}

/// The RFCs with their titles, and what they ask, in the order of the list.
#[derive(Debug, Default)]
struct List {
    titles: Vec<(i64, String)>,
    asks: Vec<Requirement>,
}

/// Where a requirement is cited.
#[derive(Debug, Default)]
struct Cited {
    code: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[])?;
    let tree = Tree::of_workspace()?;
    let list = read(&tree).map_err(|found| Failure::Failed(format!("{LIST}:{}: {}", found.line, found.what)))?;
    let (cited, _) = citations(&tree);
    let page = workspace_root()?.join(PAGE);
    std::fs::write(&page, page_of(&list, &cited)).map_err(|e| Failure::Failed(format!("{}: {e}", page.display())))?;
    println!("requirements: {} in {PAGE}", list.asks.len());
    Ok(())
}

/// The rule of tidy.
pub fn check(tree: &Tree) -> Vec<Violation> {
    if tree.get(LIST).is_none() {
        return Vec::new();
    }
    let list = match read(tree) {
        Ok(list) => list,
        Err(found) => return vec![found],
    };
    let (cited, places) = citations(tree);
    let known: BTreeSet<_> = list.asks.iter().map(|ask| &ask.key).collect();
    let strange = places.iter().filter(|(key, ..)| !known.contains(key));
    let mut found: Vec<_> = strange
        .map(|((rfc, at), path, line)| {
            Violation::at(
                path,
                *line,
                format!("RFC {rfc}#{at} is not in {LIST}: list it there, or correct the citation"),
            )
        })
        .collect();
    let held = |ask: &Requirement| cited.get(&ask.key).is_some_and(|cited| !cited.tests.is_empty());
    found.extend(list.asks.iter().filter(|ask| !held(ask) && ask.reason.is_none()).map(|ask| {
        let what = format!("no test cites RFC {}#{}: cite it in one, or say the reason", ask.key.0, ask.key.1);
        Violation::at(LIST, ask.line, what)
    }));
    if tree.get(PAGE).is_none_or(|page| page.text != page_of(&list, &cited)) {
        found.push(Violation::at(PAGE, 1, "not what the sources say: cargo xtask requirements"));
    }
    found
}

fn read(tree: &Tree) -> Result<List, Violation> {
    let text = tree.get(LIST).map_or("", |file| &file.text);
    let document = Document::parse(text).map_err(|(line, what)| Violation::at(LIST, line, what))?;
    let mut list = List::default();
    for (line, rfc) in document.tables("rfc") {
        let wrong = |what: &str| Violation::at(LIST, line, what);
        let one = |key: &str| strings(rfc, key).first().map(|text| (*text).to_owned());
        let number = rfc.get("number").and_then(|value| value.get_ref().as_integer());
        let number =
            number.and_then(|number| number.as_str().parse().ok()).ok_or_else(|| wrong("number is missing"))?;
        list.titles.push((number, one("title").ok_or_else(|| wrong("title is missing"))?));
        let asks = rfc.get("asks").and_then(|value| value.get_ref().as_array());
        for entry in asks.into_iter().flat_map(|array| array.iter()) {
            let line = document.line(entry);
            let Some(ask) = entry.get_ref().as_table() else { continue };
            let one = |key: &str| strings(ask, key).first().map(|text| (*text).to_owned());
            let (Some(at), Some(level), Some(says)) = (one("at"), one("level"), one("says")) else {
                return Err(Violation::at(LIST, line, "at, level and says are needed"));
            };
            list.asks.push(Requirement { line, key: (number, at), level, says, reason: one("reason") });
        }
    }
    Ok(list)
}

/// What each file cites, and every citation with its place.
fn citations(tree: &Tree) -> (BTreeMap<Key, Cited>, Vec<Citation>) {
    let (mut cited, mut places) = (BTreeMap::<Key, Cited>::new(), Vec::new());
    for file in tree.rust() {
        let code = production_lines(&crate::source::code_only(&file.text));
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(key) = line.trim().strip_prefix(CITATION).and_then(key_of) else { continue };
            places.push((key.clone(), file.path.clone(), at + 1));
            let cited = cited.entry(key).or_default();
            if is_test(&file.path) || at >= code {
                cited.tests.extend(lines[at..].iter().find_map(|line| name_of(line)));
            } else {
                cited.code.insert(file.path.clone());
            }
        }
    }
    (cited, places)
}

fn key_of(text: &str) -> Option<Key> {
    let (rfc, at) = text.split_once('#')?;
    Some((rfc.trim().parse().ok()?, at.split_whitespace().next()?.to_owned()))
}

/// The name of the function whose head this is.
fn name_of(line: &str) -> Option<String> {
    let name = line.trim_start().strip_prefix("fn ")?.split(['(', '<']).next()?;
    Some(name.to_owned())
}

fn page_of(list: &List, cited: &BTreeMap<Key, Cited>) -> String {
    let mut page = String::from(
        "# Requirements of RFCs\n\nWritten by `cargo xtask requirements` from requirements.toml and the citations in the sources; tidy compares \
         them. What no\ntest holds has a reason. RFC 9959 has [its own page](rfc9959.md).\n",
    );
    for (number, title) in &list.titles {
        page += &format!(
            "\n## RFC {number}: {title}\n\n| section | level | the rule | code | the test |\n|---|---|---|---|---|\n"
        );
        for ask in list.asks.iter().filter(|ask| ask.key.0 == *number) {
            let nothing = Cited::default();
            let Cited { code, tests } = cited.get(&ask.key).unwrap_or(&nothing);
            let quoted =
                |names: &BTreeSet<String>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let tests = match (&ask.reason, tests.is_empty()) {
                (Some(reason), true) => format!("none: {}", reason.replace('`', "")),
                _ => quoted(tests),
            };
            let section = ask.key.1.split('/').next().unwrap_or_default();
            page += &format!("| {section} | {} | {} | {} | {tests} |\n", ask.level, ask.says, quoted(code));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: &str = "[[rfc]]\nnumber = 1\ntitle = \"t\"\n[[rfc.asks]]\nat = \"2/x\"\nlevel = \"MUST\"\nsays = \"a\"\n\
        [[rfc.asks]]\nat = \"3\"\nlevel = \"MUST\"\nsays = \"b\"\n";

    fn found(source: &str, list: &str) -> Vec<String> {
        let tree = |page: &str| Tree::of(&[(LIST, list), (PAGE, page), ("crates/core/src/a.rs", source)]);
        let (cited, _) = citations(&tree(""));
        let page = page_of(&read(&tree("")).unwrap(), &cited);
        let tree = tree(&page);
        check(&tree).into_iter().map(|found| format!("{}:{}: {}", found.path, found.line, found.what)).collect()
    }

    #[test]
    fn what_no_test_cites_and_what_is_not_listed_is_named() {
        let source = format!(
            "{CITATION}1#3\nfn f() {{}}\n#[cfg(test)]\nmod tests {{\n    {CITATION}1#2/x\n    #[test]\n    fn t() {{}}\n    {CITATION}1#9\n    #[test]\n    fn u() {{}}\n}}\n"
        );
        let found = found(&source, ASKS);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("a.rs:8: RFC 1#9 is not in"), "{found:?}");
        assert!(found[1].contains(":8: no test cites RFC 1#3"), "held by code alone: {found:?}");
    }

    #[test]
    fn a_reason_does_for_a_test_and_the_page_names_both() {
        let list = format!("{ASKS}reason = \"of old\"\n");
        let source = format!("#[cfg(test)]\nmod tests {{\n    {CITATION}1#2/x\n    #[test]\n    fn t() {{}}\n}}\n");
        assert_eq!(found(&source, &list), Vec::<String>::new());
        let tree = Tree::of(&[(LIST, &list), ("crates/core/src/a.rs", &source)]);
        let page = page_of(&read(&tree).unwrap(), &citations(&tree).0);
        assert!(
            page.contains("| 2 | MUST | a |  | `t` |") && page.contains("| 3 | MUST | b |  | none: of old |"),
            "{page}"
        );
        assert_eq!(check(&tree).len(), 1, "the page is not there yet");
    }
}
