//! The targets of fuzzing are locked to the crates that the product is locked to: what they play is what is shipped.
//!
//! `fuzz` is a workspace with a lock of its own, which nothing else keeps in step.

use super::Violation;
use crate::tree::Tree;

/// The lock of the product.
pub(super) const PRODUCT: &str = "Cargo.lock";
const FUZZ: &str = "fuzz/Cargo.lock";

/// Finds crates of which the lock of fuzzing has a version that the product's has not, though it has another.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let text = |path: &str| tree.get(path).map_or("", |file| file.text.as_str());
    let product = packages(text(PRODUCT));
    let named = |name: &str| product.iter().filter(|of| of.name == name).map(|of| of.version).collect::<Vec<_>>();
    let mut found = Vec::new();
    for package in packages(text(FUZZ)) {
        let Package { name, version, line } = package;
        let versions = named(name);
        if !versions.is_empty() && !versions.contains(&version) {
            let ours = versions.join(", ");
            let what = format!(
                "{name} is {version} here and {ours} in Cargo.lock: `cargo update --manifest-path fuzz/Cargo.toml \
                 {name} --precise {}`",
                versions[0]
            );
            found.push(Violation::at(FUZZ, line, what));
        }
    }
    found
}

/// One `[[package]]` of a lock.
pub(super) struct Package<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its version.
    pub(super) version: &'a str,
    line: usize,
}

/// All packages of a lock.
pub(super) fn packages(lock: &str) -> Vec<Package<'_>> {
    let value = |text: &'_ str, key: &str| -> Option<(usize, usize)> {
        let start = text.strip_prefix(key)?.strip_prefix(" = \"")?;
        let from = text.len() - start.len();
        Some((from, from + start.find('"')?))
    };
    let mut all = Vec::new();
    let mut name = None;
    for (line, text) in (1..).zip(lock.lines()) {
        if let Some((from, to)) = value(text, "name") {
            name = Some(&text[from..to]);
        } else if let (Some((from, to)), Some(name)) = (value(text, "version"), name.take()) {
            all.push(Package { name, version: &text[from..to], line });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fuzz: &str) -> Vec<Violation> {
        let product = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\n\
                       version = \"2.1.0\"\ndependencies = [\n \"a 1.0.0\",\n]\n";
        check(&Tree::of(&[(PRODUCT, product), (FUZZ, fuzz)]))
    }

    #[test]
    fn any_version_of_the_product_passes_and_so_does_what_only_fuzzing_needs() {
        let fuzz = "[[package]]\nname = \"a\"\nversion = \"2.1.0\"\n\n[[package]]\nname = \"b\"\nversion = \"9.0.0\"\n";
        assert_eq!(found(fuzz), []);
    }

    #[test]
    fn another_version_is_named_with_its_line() {
        let found = found("version = 4\n[[package]]\nname = \"a\"\nversion = \"2.6.0\"\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), (FUZZ, 4));
        assert!(found[0].what.contains("2.6.0 here and 1.0.0, 2.1.0"), "{}", found[0].what);
    }
}
