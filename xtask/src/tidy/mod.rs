//! `cargo xtask tidy`: the rules of the house that a program can check.
//!
//! A rule is a pure function over paths and texts, one file and one line in [`ALL`] each; what clippy can hold
//! (clocks, safety comments) it holds too, and tidy says where such things may be at all.

mod audit;
mod brevity;
mod circles;
mod columns;
mod crate_table;
mod floors;
mod headers;
mod length;
mod links;
mod locks;
mod machine_paths;
mod named_tests;
mod names;
mod purity;
mod unsafety;
mod wording;

use crate::Failure;
use crate::tree::Tree;
pub use crate::violation::Violation;
use crate::violation::report;

/// A rule of the house.
struct Rule {
    /// One word for it.
    name: &'static str,
    /// Finds every place where it is broken.
    check: fn(&Tree) -> Vec<Violation>,
}

/// Every rule.
const ALL: &[Rule] = &[
    Rule { name: "floors", check: floors::check },
    Rule { name: "columns", check: columns::check },
    Rule { name: "circles", check: circles::check },
    Rule { name: "purity", check: purity::check },
    Rule { name: "length", check: length::check },
    Rule { name: "headers", check: headers::check },
    Rule { name: "names", check: names::check },
    Rule { name: "named tests", check: named_tests::check },
    Rule { name: "requirements", check: crate::requirements::check },
    Rule { name: "functions", check: crate::size::check },
    Rule { name: "unsafety", check: unsafety::check },
    Rule { name: "experiments", check: crate::claims::untied },
    Rule { name: "crate table", check: crate_table::check },
    Rule { name: "machine paths", check: machine_paths::check },
    Rule { name: "brevity", check: brevity::check },
    Rule { name: "locks", check: locks::check },
    Rule { name: "audit", check: audit::check },
    Rule { name: "wording", check: wording::check },
    Rule { name: "links", check: links::check },
    Rule { name: "bpf", check: crate::bpf::check },
];

/// Every link that leads nowhere, for whatever builds pages.
pub fn links(tree: &Tree) -> Vec<Violation> {
    links::check(tree)
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &[])?;
    let tree = Tree::of_workspace()?;
    let mut all = Vec::new();
    for rule in ALL {
        let named = (rule.check)(&tree).into_iter();
        all.extend(named.map(|found| Violation { what: format!("{}: {}", rule.name, found.what), ..found }));
    }
    all.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    report("tidy", &all)?;
    println!("tidy: {} rules hold in {} files", ALL.len(), tree.files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rules_are_distinct() {
        let mut names: Vec<&str> = ALL.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
