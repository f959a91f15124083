//! No files of a crate use each other in a circle, of two or of more; a file and those below it are one here.
//!
//! What two of them need goes to the lower one, to a file below both, or to their parent. Read from paths that begin with `crate` or
//! `super`; a file's own submodules are below it anyhow. A name that a file has only imported itself, or re-exported, stands for the
//! file that it comes from.

use super::Violation;
use crate::source::{code_only, imports, paths_from, production_lines};
use crate::tree::{File, Tree};
use std::collections::{BTreeMap, VecDeque};

/// A module: the folder of its crate's sources, and its path there.
type Module = (String, Vec<String>);
/// The modules that each one uses, and on which line first.
type Uses = BTreeMap<Module, BTreeMap<Module, usize>>;

/// A name is followed through so many imports: more than there are floors of modules.
const MOST_IMPORTS: usize = 8;

/// Finds a circle through each file, if it is the first of it by name.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let crates = Crates::of(tree);
    let uses: Uses = crates.files.keys().map(|module| (module.clone(), crates.used_by(module))).collect();
    let found = uses.keys().filter_map(|module| {
        let circle = circle_from(module, &uses)?;
        let path = |module: &Module| crates.files[module].file.path.as_str();
        let others: Vec<&str> = circle.iter().map(path).collect();
        let what = format!(
            "uses {}, which uses this file too: move what both need to a file below, or to their parent",
            others.join(", which uses ")
        );
        Some(Violation::at(path(module), uses[module][circle.first()?], what))
    });
    found.collect()
}

/// The shortest way from `module` back to it through others that are behind it by name.
fn circle_from(module: &Module, uses: &Uses) -> Option<Vec<Module>> {
    let mut ways = VecDeque::from([vec![module.clone()]]);
    let mut seen = vec![module.clone()];
    while let Some(way) = ways.pop_front() {
        for next in uses[way.last()?].keys() {
            if next == module {
                return Some(way[1..].to_vec());
            }
            if next > module && !seen.contains(next) {
                seen.push(next.clone());
                ways.push_back([way.as_slice(), std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

/// A source file, and what the names that it imports stand for.
struct Source<'a> {
    file: &'a File,
    /// By name: the path in the crate.
    imported: BTreeMap<String, Vec<String>>,
}

/// All crates.
struct Crates<'a> {
    files: BTreeMap<Module, Source<'a>>,
}

impl<'a> Crates<'a> {
    fn of(tree: &'a Tree) -> Self {
        let source = |file: &'a File| {
            let module = module_of(&file.path)?;
            let paths = imports(&code_only(&file.text)).into_iter();
            let imported = paths.filter_map(|path| Some((path.last()?.clone(), absolute(&module.1, &path)?)));
            Some((module.clone(), Source { file, imported: imported.collect() }))
        };
        Self { files: tree.rust().filter_map(source).collect() }
    }

    /// The modules beside it that the production code of `module` uses.
    fn used_by(&self, module: &Module) -> BTreeMap<Module, usize> {
        let code = code_only(&self.files[module].file.text);
        let end = production_lines(&code);
        let mut used = BTreeMap::new();
        for (line, path) in [paths_from(&code, "crate"), paths_from(&code, "super")].concat() {
            let target = absolute(&module.1, &path).and_then(|path| self.holder(&module.0, path));
            let is_beside = |other: &Module| !other.1.starts_with(&module.1) && !module.1.starts_with(&other.1);
            if let Some(target) = target.filter(|target| line <= end && is_beside(target)) {
                let first = used.entry(target).or_insert(line);
                *first = line.min(*first);
            }
        }
        used
    }

    /// The file that has what is at `path` of a crate.
    fn holder(&self, folder: &str, mut path: Vec<String>) -> Option<Module> {
        for _ in 0..MOST_IMPORTS {
            // The longest beginning that is a file.
            let of = |n: usize| (folder.to_owned(), path[..n].to_vec());
            let module = (0..=path.len()).rev().map(of).find(|module| self.files.contains_key(module))?;
            let at = module.1.len();
            match path.get(at).and_then(|name| self.files[&module].imported.get(name)) {
                Some(onward) => path = [onward, &path[at + 1..]].concat(),
                None => return Some(module),
            }
        }
        None
    }
}

/// The path in the crate of what is called `path` in the module at `from`.
fn absolute(from: &[String], path: &[String]) -> Option<Vec<String>> {
    let up = path.iter().take_while(|word| *word == "super").count();
    let kept = from.len().checked_sub(up)?;
    Some(match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [from, &path[1..]].concat(),
        _ => [&from[..kept], &path[up..]].concat(),
    })
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
    fn a_circle_of_three_is_found_once_and_said_as_it_goes() {
        let [a, b, c] = ["a", "b", "c"].map(|name| format!("crates/x/src/{name}.rs"));
        let files = [(&*a, "//! a\nuse crate::b::B;\n"), (&*b, "use crate::c;\n"), (&*c, "use crate::a::{A, Z};\n")];
        let violations = check(&Tree::of(&files));
        let [circle] = &violations[..] else { panic!("{violations:?}") };
        assert_eq!((&*circle.path, circle.line), (&*a, 2));
        assert!(circle.what.starts_with(&format!("uses {b}, which uses {c}, which uses this file")), "{}", circle.what);
        assert_eq!(found(&files[..2]), []);
    }

    #[test]
    fn a_name_that_a_parent_only_imports_stands_for_the_file_that_it_comes_from() {
        let a = ("crates/x/src/part/a.rs", "use super::B;\n");
        let b = ("crates/x/src/part/b/mod.rs", "use super::a::A;\nmod inner;\npub use inner::B;\n");
        let inner = ("crates/x/src/part/b/inner.rs", "use crate::part::A;\n");
        let exports =
            ("crates/x/src/part/mod.rs", "mod a;\nmod b;\npub use a::A;\npub(crate) use self::b::{B, C as D};\n");
        assert_eq!(found(&[a, b, inner, exports]), [(a.0.to_owned(), 1)]);
        assert_eq!(found(&[a, inner, exports]), [], "it is not there");
        let itself = ("crates/x/src/part/mod.rs", "use self::A;\nuse self::B;\nuse B::B;\n");
        assert_eq!(found(&[a, b, inner, itself]), [], "names that lead to themselves lead nowhere");
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
