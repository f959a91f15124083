//! Floors: which of our crates may depend on which, read from each crate's Cargo.toml.
//!
//! Development and build dependencies count too: a test that needs a higher floor belongs on that floor. Pure crates
//! also stay clear of crates that do input or output.

use super::Violation;
use crate::toml_lines::Document;
use crate::tree::{File, Tree};
use toml::Spanned;
use toml::de::DeTable;

/// A crate's folder and the folders of those that it may depend on; `cli` may use all.
const FLOORS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("link", &["core"]),
    ("io", &["core"]),
    ("quic", &["core"]),
    ("realtime", &["core", "io"]),
    ("shim", &["core", "io"]),
    ("lab", &["core", "link", "io", "quic", "realtime"]),
    ("cli", &["core", "link", "io", "quic", "realtime", "shim", "lab"]),
];

/// The floors that do no input or output.
pub const PURE: &[&str] = &["core", "link"];

/// Crates that a pure floor may not use, because using them is doing input or output.
const EFFECTS: &[&str] =
    &["async-std", "libc", "mio", "netlink-sys", "nix", "polling", "rustix", "smol", "socket2", "tokio"];

/// The kinds of dependency tables.
const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Finds every dependency that the floors forbid, and every crate that stands on no floor.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.crates().flat_map(|(name, manifest)| check_crate(name, manifest)).collect()
}

fn check_crate(name: &str, manifest: &File) -> Vec<Violation> {
    let wrong = |line, what: String| Violation::at(&manifest.path, line, what);
    let Some((_, allowed)) = FLOORS.iter().find(|(floor, _)| *floor == name) else {
        let what = format!(
            "`{name}` stands on no floor: add it to FLOORS in xtask/src/tidy/floors.rs, to ARCHITECTURE.md and to a \
             record in docs/decisions"
        );
        return vec![wrong(1, what)];
    };
    let document = match Document::parse(&manifest.text) {
        Ok(document) => document,
        Err((line, why)) => return vec![wrong(line, format!("no valid TOML: {why}"))],
    };
    let mut found = Vec::new();
    for (key, package) in dependencies(&document.table) {
        let line = document.line(key);
        match floor_of(&package) {
            Some(floor) if floor != name && !allowed.contains(&floor) => {
                let may = if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
                found.push(wrong(
                    line,
                    format!("`{name}` may depend on {may}, not on `{floor}`: move what it needs down, or itself up"),
                ));
            }
            None if PURE.contains(&name) && EFFECTS.contains(&package.as_str()) => {
                let what = format!("`{name}` is pure, `{package}` does input or output: take its results as arguments");
                found.push(wrong(line, what));
            }
            _ => {}
        }
    }
    found
}

/// The folder of one of our crates, from its package name.
fn floor_of(package: &str) -> Option<&str> {
    if package == "headstart" { Some("cli") } else { package.strip_prefix("headstart-") }
}

/// Every dependency of every kind, for every target: its key and the name of its package.
fn dependencies<'t, 'a>(manifest: &'t DeTable<'a>) -> Vec<(&'t Spanned<std::borrow::Cow<'a, str>>, String)> {
    let for_targets = manifest.get("target").and_then(|value| value.get_ref().as_table());
    let for_targets = for_targets.into_iter().flat_map(|targets| targets.iter());
    let for_targets = for_targets.filter_map(|(_, target)| target.get_ref().as_table());
    let mut found = Vec::new();
    for scope in std::iter::once(manifest).chain(for_targets) {
        let tables = TABLES.iter().filter_map(|table| scope.get(*table)?.get_ref().as_table());
        for (key, value) in tables.flat_map(|table| table.iter()) {
            let renamed = value.get_ref().get("package").and_then(|name| name.get_ref().as_str());
            found.push((key, renamed.unwrap_or(key.get_ref()).to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, manifest: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, manifest)])).into_iter().map(|v| (v.line, v.what)).collect()
    }

    #[test]
    fn a_floor_may_depend_on_those_below_it() {
        assert_eq!(found("crates/lab/Cargo.toml", "[dependencies]\nheadstart-core = '1'\nheadstart-io = '1'\n"), []);
        assert_eq!(found("crates/cli/Cargo.toml", "[dependencies]\nheadstart-lab.workspace = true\n"), []);
    }

    #[test]
    fn a_floor_may_not_depend_on_one_above_or_beside_it() {
        let found = found("crates/link/Cargo.toml", "[package]\n[dependencies]\nheadstart-io.workspace = true\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 3);
        assert!(found[0].1.starts_with("`link` may depend on core, not on `io`"), "{found:?}");
    }

    #[test]
    fn every_kind_of_dependency_table_counts_and_so_does_a_renamed_package() {
        for text in [
            "[dev-dependencies]\nheadstart-io = '1'",
            "[build-dependencies.headstart-io]\npath = '../io'",
            "[target.'cfg(unix)'.dependencies]\nheadstart-io = '1'",
            "[dependencies]\nx = { package = 'headstart-io', path = '../io' }",
            "[dependencies]\nheadstart = '1'",
        ] {
            assert_eq!(found("crates/core/Cargo.toml", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_pure_floor_may_not_use_a_crate_that_acts() {
        assert_eq!(found("crates/core/Cargo.toml", "[dependencies]\nrustix = '1'\nfastrand = '2'\n").len(), 1);
        assert_eq!(found("crates/io/Cargo.toml", "[dependencies]\nrustix = '1'\n"), []);
    }

    #[test]
    fn a_crate_on_no_floor_is_refused() {
        assert!(found("crates/extra/Cargo.toml", "")[0].1.contains("stands on no floor"));
    }
}
