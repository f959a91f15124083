//! `cargo xtask claims`: every claim of a paper has an experiment that measures it, every experiment has a claim.
//!
//! And every claim that is measured has a verdict, of the experiment and of the words that the claim has now, in what
//! `headstart lab reproduce --docs` wrote last.
//!
//! `docs/claims.toml` holds `[[claim]]` tables with `id`, `paper` and either `experiment` or `planned`, and
//! `[[instrument]]` tables with `experiment` for those that measure the lab itself. An experiment is a file that defines
//! the `ENTRY` of the registry; files beside it that serve all of them are none. What a claim's numbers mean is the lab's
//! business; only the ties are checked here.

use crate::Failure;
use crate::source::{code_only, word_followed_by};
use crate::toml_lines::{Document, strings};
use crate::tree::Tree;
use crate::violation::{Violation, report};
use std::collections::{BTreeMap, BTreeSet};

/// Where the claims are.
pub const PATH: &str = "docs/claims.toml";
/// Where the verdicts are.
const VERDICTS: &str = "docs/results/verdicts.toml";
/// What writes them.
const REPRODUCE: &str = "`headstart lab reproduce --quick --docs .`";
/// Where the experiments are, one file each.
pub const EXPERIMENTS: &str = "crates/lab/src/experiment/";

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[])?;
    let tree = Tree::of_workspace()?;
    if tree.get(PATH).is_none() {
        return Err(Failure::Failed(format!(
            "{PATH} is missing: write one [[claim]] table with `id`, `paper` and `experiment` (or `planned`) for each \
             claim of the papers"
        )));
    }
    let violations: Vec<_> = check(&tree).into_iter().chain(unjudged(&tree)).collect();
    report("claims", &violations)?;
    let (measured, planned) = count(&tree);
    println!("claims: {measured} measured by an experiment, {planned} planned; every experiment is tied");
    Ok(())
}

/// Each experiment's name, such as `connect-black-hole`, with the path of its file.
fn experiments(tree: &Tree) -> BTreeMap<String, &str> {
    let name_of = |path: &str| {
        let name = path.strip_prefix(EXPERIMENTS)?.strip_suffix(".rs")?;
        // An experiment in several files is a folder with a mod.rs, and a family of them a folder with a file for each; the
        // registry itself is no experiment.
        let name = name.strip_suffix("/mod").unwrap_or(name);
        (name != "mod" && name.matches('/').count() < 2).then(|| name.replace(['_', '/'], "-"))
    };
    let registered = |text: &str| word_followed_by(&code_only(text), "const").any(|after| after.starts_with("ENTRY:"));
    let named = tree.files.iter().filter_map(|file| Some((name_of(&file.path)?, file)));
    named.filter(|(_, file)| registered(&file.text)).map(|(name, file)| (name, file.path.as_str())).collect()
}

/// Everything wrong between claims and experiments.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(file) = tree.get(PATH) else { return untied(tree) };
    let document = match Document::parse(&file.text) {
        Ok(document) => document,
        Err((line, why)) => return vec![Violation::at(PATH, line, format!("no valid TOML: {why}"))],
    };
    let existing = experiments(tree);
    let mut found = Vec::new();
    let mut ids = BTreeSet::new();
    let mut wrong = |line, what: String| found.push(Violation::at(PATH, line, what));
    for (line, claim) in document.tables("claim") {
        let id = strings(claim, "id").first().copied().unwrap_or_default();
        if id.is_empty() || !claim.contains_key("paper") {
            wrong(line, "a claim without `id` or `paper`: give it both".into());
        } else if !ids.insert(id) {
            wrong(line, format!("claim `{id}` stands here twice: merge the two or rename one"));
        }
        let (measured, planned) = (strings(claim, "experiment"), strings(claim, "planned"));
        if measured.is_empty() == planned.is_empty() {
            wrong(line, format!("claim `{id}`: give it either `experiment` or `planned`"));
        }
        for name in measured.iter().filter(|name| !existing.contains_key(**name)) {
            let path = format!("{EXPERIMENTS}{}.rs", name.replace('-', "_"));
            wrong(
                line,
                format!("claim `{id}`: no experiment `{name}`: write {path} with its `const ENTRY`, or say `planned`"),
            );
        }
    }
    for (line, instrument) in document.tables("instrument") {
        match strings(instrument, "experiment").first() {
            Some(name) if existing.contains_key(*name) => {}
            Some(name) => wrong(line, format!("instrument `{name}` has no file in {EXPERIMENTS}: remove the entry")),
            None => wrong(line, "an instrument without `experiment`: name the one that it is".into()),
        }
    }
    found.extend(untied(tree));
    found
}

/// The experiments that neither a claim nor an `[[instrument]]` names. A broken claims file ties nothing here: its
/// mistake is reported by [`check`].
pub fn untied(tree: &Tree) -> Vec<Violation> {
    let text = tree.get(PATH).map_or("", |file| file.text.as_str());
    let Ok(document) = Document::parse(text) else { return Vec::new() };
    let entries = ["claim", "instrument"].into_iter().flat_map(|kind| document.tables(kind));
    let tied: BTreeSet<&str> = entries.flat_map(|(_, entry)| strings(entry, "experiment")).collect();
    let loose = experiments(tree).into_iter().filter(|(name, _)| !tied.contains(name.as_str()));
    let what = |name: &str| {
        format!("experiment `{name}` is tied to nothing: name it in a [[claim]] of {PATH}, or in an [[instrument]]")
    };
    loose.map(|(name, path)| Violation::at(path, 1, what(&name))).collect()
}

/// The measured claims that have no verdict, or one of another experiment or of other words: what was found is stale then.
fn unjudged(tree: &Tree) -> Vec<Violation> {
    let Some(Ok(claims)) = tree.get(PATH).map(|file| Document::parse(&file.text)) else { return Vec::new() };
    let verdicts = match tree.get(VERDICTS).map(|file| Document::parse(&file.text)) {
        Some(Ok(verdicts)) => verdicts,
        Some(Err((line, why))) => return vec![Violation::at(VERDICTS, line, format!("no valid TOML: {why}"))],
        None => return vec![Violation::at(VERDICTS, 1, format!("there are no verdicts: run {REPRODUCE}"))],
    };
    let judged: BTreeMap<_, _> =
        verdicts.tables("claim").into_iter().map(|(line, verdict)| (strings(verdict, "id"), (line, verdict))).collect();
    let mut found = Vec::new();
    for (line, claim) in claims.tables("claim").into_iter().filter(|(_, claim)| claim.contains_key("experiment")) {
        let id = strings(claim, "id");
        let Some((at, verdict)) = judged.get(&id) else {
            found.push(Violation::at(PATH, line, format!("claim `{}` has no verdict: run {REPRODUCE}", id.join(" "))));
            continue;
        };
        let stale = [("experiment", "experiment"), ("what", "says")]
            .into_iter()
            .find(|(ours, theirs)| strings(claim, ours) != strings(verdict, theirs));
        if let Some((what, _)) = stale {
            let what = format!("the verdict on `{}` is stale, its `{what}` has changed: run {REPRODUCE}", id.join(" "));
            found.push(Violation::at(VERDICTS, *at, what));
        }
    }
    found
}

/// How many claims are measured and how many planned.
fn count(tree: &Tree) -> (usize, usize) {
    let text = tree.get(PATH).map_or("", |file| file.text.as_str());
    let Ok(document) = Document::parse(text) else { return (0, 0) };
    let claims = document.tables("claim");
    let measured = claims.iter().filter(|(_, claim)| claim.contains_key("experiment")).count();
    (measured, claims.len() - measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "pub const ENTRY: Entry = Entry { run };\n";
    const EXPERIMENT: (&str, &str) = ("crates/lab/src/experiment/connect_black_hole.rs", ENTRY);
    const REGISTRY: (&str, &str) = ("crates/lab/src/experiment/mod.rs", "");

    fn found(claims: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[EXPERIMENT, REGISTRY, (PATH, claims)]);
        check(&tree).into_iter().map(|violation| (violation.line, violation.what)).collect()
    }

    #[test]
    fn a_claim_with_its_experiment_and_a_planned_one_are_fine() {
        let claims = "[[claim]]\nid = 'a'\npaper = 1\nexperiment = 'connect-black-hole'\n\
                      [[claim]]\nid = 'b'\npaper = 2\nplanned = 'cwnd'\n";
        assert_eq!(found(claims), []);
        assert_eq!(count(&Tree::of(&[(PATH, claims)])), (1, 1));
    }

    #[test]
    fn a_claim_without_its_experiment_and_the_experiment_without_claim_are_both_named() {
        let found = found("\n[[claim]]\nid = 'a'\npaper = 1\nexperiment = 'connect-nothing'\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].0, 2);
        assert!(found[0].1.contains("write crates/lab/src/experiment/connect_nothing.rs"), "{found:?}");
        assert!(found[1].1.contains("`connect-black-hole` is tied to nothing"), "{found:?}");
    }

    #[test]
    fn an_instrument_needs_no_claim_and_must_exist() {
        assert_eq!(found("[[instrument]]\nexperiment = 'connect-black-hole'\n"), []);
        let found = found("[[instrument]]\nexperiment = 'gone'\n[[instrument]]\nexperiment = 'connect-black-hole'\n");
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn neither_or_both_of_experiment_and_planned_is_refused_and_so_is_an_id_twice() {
        let tied = "[[instrument]]\nexperiment = 'connect-black-hole'\n";
        assert_eq!(found(&format!("{tied}[[claim]]\nid = 'a'\npaper = 1\n")).len(), 1);
        let both = "[[claim]]\nid = 'a'\npaper = 1\nplanned = 'x'\nexperiment = 'connect-black-hole'\n";
        assert_eq!(found(both).len(), 1);
        let planned = "[[claim]]\nid = 'a'\npaper = 1\nplanned = 'x'\n";
        assert_eq!(found(&format!("{tied}{planned}{planned}")).len(), 1);
    }

    #[test]
    fn an_experiment_in_a_folder_is_one_experiment() {
        let tree = Tree::of(&[
            ("crates/lab/src/experiment/page_load/mod.rs", ENTRY),
            ("crates/lab/src/experiment/page_load/arms.rs", ""),
        ]);
        assert_eq!(experiments(&tree).into_keys().collect::<Vec<_>>(), ["page-load"]);
        assert_eq!(check(&tree).len(), 1, "without claims file the experiment is tied to nothing");
    }

    #[test]
    fn experiments_of_a_family_are_named_after_their_folder_and_their_file() {
        let tree = Tree::of(&[
            ("crates/lab/src/experiment/window/mod.rs", ""),
            ("crates/lab/src/experiment/window/simple.rs", ENTRY),
            ("crates/lab/src/experiment/window/rows.rs", ""),
        ]);
        assert_eq!(experiments(&tree).into_keys().collect::<Vec<_>>(), ["window-simple"]);
    }

    #[test]
    fn a_file_beside_the_experiments_that_serves_them_is_none() {
        let tree = Tree::of(&[("crates/lab/src/experiment/verdict.rs", "//! const ENTRY: x\nuse super::Entry;\n")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_claim_without_a_verdict_and_a_verdict_on_other_words_are_named() {
        let claims = "[[claim]]\nid = 'a'\npaper = 1\nwhat = 'it is faster'\nexperiment = 'connect-black-hole'\n\
                      [[claim]]\nid = 'b'\npaper = 2\nplanned = 'cwnd'\n";
        let of = |verdicts: &str| {
            let found = unjudged(&Tree::of(&[EXPERIMENT, (PATH, claims), (VERDICTS, verdicts)]));
            found.into_iter().map(|violation| (violation.path, violation.line)).collect::<Vec<_>>()
        };
        let verdict = "[[claim]]\nid = 'a'\nsays = 'it is faster'\nexperiment = 'connect-black-hole'\n";
        assert_eq!(of(verdict), []);
        assert_eq!(of("how = 'x'\n"), [(PATH.to_owned(), 1)]);
        assert_eq!(of(&verdict.replace("faster", "slower")), [(VERDICTS.to_owned(), 1)]);
        assert_eq!(of(&verdict.replace("black-hole", "hole")), [(VERDICTS.to_owned(), 1)]);
        assert_eq!(of("[[claim]]\nid = \n"), [(VERDICTS.to_owned(), 2)]);
        assert_eq!(unjudged(&Tree::of(&[EXPERIMENT, (PATH, claims)])).len(), 1, "there is no such file");
    }

    #[test]
    fn a_broken_file_is_reported_once_with_its_line() {
        assert_eq!(found("[[claim]]\nid = \n").iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2]);
    }
}
