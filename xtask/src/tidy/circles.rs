//! No two files of a crate use each other, unless one is the parent of the other (or its parent's parent).
//!
//! What both need goes to the lower of the two, or to their parent. Read from paths that begin with `crate` or `super`; a file's own
//! submodules are below it anyhow.

use super::Violation;
use crate::source::{code_only, paths_from, production_lines};
use crate::tree::{File, Tree};
use std::collections::BTreeMap;

/// A module: the folder of its crate's sources, and its path there.
type Module = (String, Vec<String>);

/// Finds every such pair, at the file that is first by name.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let files: BTreeMap<Module, &File> = tree.rust().filter_map(|file| Some((module_of(&file.path)?, file))).collect();
    let uses: BTreeMap<&Module, BTreeMap<Module, usize>> =
        files.iter().map(|(module, file)| (module, used_by(module, file, &files))).collect();
    let mut found = Vec::new();
    for (module, used) in &uses {
        for (other, line) in used.range((*module).clone()..) {
            let is_below = other.1.starts_with(&module.1) || module.1.starts_with(&other.1);
            if !is_below && uses.get(other).is_some_and(|back| back.contains_key(*module)) {
                let what = format!(
                    "{} uses this file too: move what both need to one of them, or to their parent",
                    files[other].path
                );
                found.push(Violation::at(&files[*module].path, *line, what));
            }
        }
    }
    found
}

/// The modules that the production code of `file` uses, and where first.
fn used_by(module: &Module, file: &File, files: &BTreeMap<Module, &File>) -> BTreeMap<Module, usize> {
    let code = code_only(&file.text);
    let end = production_lines(&code);
    let mut used = BTreeMap::new();
    for (line, path) in [paths_from(&code, "crate"), paths_from(&code, "super")].concat() {
        let up = path.iter().take_while(|word| *word == "super").count();
        let Some(kept) = module.1.len().checked_sub(up) else { continue };
        let (from, rest) = if up == 0 { (&[][..], &path[1..]) } else { (&module.1[..kept], &path[up..]) };
        let full = [from, rest].concat();
        // The longest beginning that is a file.
        let target =
            (0..=full.len()).rev().map(|n| (module.0.clone(), full[..n].to_vec())).find(|m| files.contains_key(m));
        if let Some(target) = target.filter(|target| line <= end && target != module) {
            let first = used.entry(target).or_insert(line);
            *first = line.min(*first);
        }
    }
    used
}

/// The module of a source file; `None` of tests, and of what is not in `src`.
fn module_of(path: &str) -> Option<Module> {
    let (folder, file) = path.split_once("src/")?;
    let mut words: Vec<String> = file.strip_suffix(".rs")?.split('/').map(String::from).collect();
    if ["mod", "lib", "main"].contains(&words.last()?.as_str()) {
        words.pop();
    }
    (!words.iter().any(|word| word == "tests")).then(|| (folder.to_owned(), words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        check(&Tree::of(files)).into_iter().map(|violation| (violation.path, violation.line)).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_found_however_they_say_so() {
        let a = ("crates/x/src/part/a.rs", "//! a\nuse super::b::B;\n");
        let b = ("crates/x/src/part/b.rs", "fn f() { crate::part::a::g() }\n");
        assert_eq!(found(&[a, b]), [(a.0.to_owned(), 2)]);
        let group = ("crates/x/src/part/b.rs", "use crate::{\n    part::{a, c},\n};\n");
        assert_eq!(found(&[a, group]), [(a.0.to_owned(), 2)]);
        assert_eq!(found(&[a, ("crates/x/src/part/b.rs", "// super::a\nuse super::c;\n")]), []);
        assert_eq!(found(&[a, ("crates/y/src/part/b.rs", "use super::a;\n")]), [], "in another crate");
    }

    #[test]
    fn a_parent_may_use_its_parts_and_they_it_and_tests_what_they_like() {
        let parent = ("crates/x/src/part/mod.rs", "use self::a::A;\nuse crate::part::a;\n");
        let a = (
            "crates/x/src/part/a.rs",
            "use super::Part;\n#[cfg(test)]\nmod tests {\n    use super::super::b;\n    use crate::part::b;\n}\n",
        );
        let b = ("crates/x/src/part/b.rs", "use super::a;\n");
        assert_eq!(found(&[parent, a, b]), []);
    }
}
