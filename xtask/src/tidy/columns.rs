//! Columns of `core` never import each other: they meet below, in `path` and `wire`, and above, in `io` and `cli`.

use super::Violation;
use crate::source::{code_only, paths_from};
use crate::tree::Tree;

/// The columns.
const COLUMNS: &[&str] = &["connect", "cwnd", "forward", "realtime", "steer"];
const CORE: &str = "crates/core/src/";

/// Finds every path from one column into another.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let Some((column, depth)) = column_of(&file.path) else { continue };
        let code = code_only(&file.text);
        let mut heads: Vec<_> = [paths_from(&code, "crate"), paths_from(&code, "super")]
            .concat()
            .into_iter()
            // From a module of this depth, so many steps up reach the root of the crate; one more inside a test module.
            .filter_map(|(line, path)| match path.iter().take_while(|word| *word == "super").count() {
                0 => Some((line, path.get(1)?.clone())),
                up => Some((line, path.get(up).filter(|_| [depth, depth + 1].contains(&up))?.clone())),
            })
            .filter(|(_, head)| head != column && COLUMNS.contains(&head.as_str()))
            .collect();
        heads.sort();
        heads.dedup();
        for (line, other) in heads {
            let what = format!(
                "`{column}` imports `{other}`: put what they share into core::path or core::wire, or join them in io"
            );
            found.push(Violation::at(&file.path, line, what));
        }
    }
    found
}

/// The column that a file of `core` belongs to, and how deep below the crate's root its module is.
fn column_of(path: &str) -> Option<(&'static str, usize)> {
    let modules = path.strip_prefix(CORE)?.strip_suffix(".rs")?;
    let modules = modules.strip_suffix("/mod").unwrap_or(modules);
    let first = modules.split('/').next()?;
    let column = COLUMNS.iter().find(|column| **column == first)?;
    Some((column, modules.split('/').count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_column_may_use_itself_and_what_lies_below() {
        let text = "use crate::connect::race;\nuse crate::{path::Rtt, wire, time};\n// crate::steer\n";
        assert_eq!(lines("crates/core/src/connect/race/mod.rs", text), []);
    }

    #[test]
    fn every_way_of_naming_another_column_is_seen() {
        let path = "crates/core/src/connect/race/adaptive.rs";
        assert_eq!(lines(path, "//! x\nuse crate::steer::policy;\n"), [2]);
        assert_eq!(lines(path, "use crate::{\n    path,\n    cwnd::start,\n};\n"), [3]);
        assert_eq!(lines(path, "fn f() { super::super::super::forward::g() }\n"), [1]);
        assert_eq!(lines("crates/core/src/connect.rs", "use super::steer;\n"), [1]);
    }

    #[test]
    fn a_module_of_its_own_that_is_called_like_a_column_is_fine() {
        assert_eq!(lines("crates/core/src/connect/race/adaptive.rs", "use super::forward;\n"), []);
    }

    #[test]
    fn other_floors_may_join_columns() {
        assert_eq!(lines("crates/io/src/tcp.rs", "use crate::steer;\nuse crate::connect;\n"), []);
    }
}
