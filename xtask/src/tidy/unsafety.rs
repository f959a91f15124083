//! `unsafe` is written in three places only, each block and implementation under a `// SAFETY:` line; every other crate
//! forbids it at its root.

use super::Violation;
use crate::source::{code_only, word_followed_by};
use crate::tree::{File, Tree};

/// Where it may be written.
const PLACES: &[&str] = &[
    "crates/io/src/sys.rs",
    "crates/io/src/sys/",
    "crates/shim/",
    "crates/realtime/src/ffi.rs",
    "crates/realtime/src/ffi/",
];
/// The crates that cannot forbid it as a whole.
const EXEMPT: &[&str] = &["crates/io/", "crates/shim/", "crates/realtime/"];

/// Finds `unsafe` out of place or without reason, and roots that do not forbid it.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let code = code_only(&file.text);
    let mut found = Vec::new();
    let exempt = EXEMPT.iter().any(|prefix| file.path.starts_with(prefix));
    if is_crate_root(&file.path) && !exempt && !code.contains("#![forbid(unsafe_code)]") {
        found.push(Violation::at(
            &file.path,
            1,
            "a crate root without `#![forbid(unsafe_code)]`: add it below the header",
        ));
    }
    let masked: Vec<&str> = code.lines().collect();
    let lines: Vec<&str> = file.text.lines().collect();
    let in_place = PLACES.iter().any(|place| file.path.starts_with(place));
    for (at, line) in masked.iter().enumerate() {
        for after in word_followed_by(line, "unsafe") {
            if !in_place {
                let what = "`unsafe` outside io::sys, shim and realtime::ffi: move it there, behind a safe function";
                found.push(Violation::at(&file.path, at + 1, what));
            } else if opens_block(after, masked.get(at + 1)) && !has_reason(&lines, &masked, at) {
                let what = "`unsafe` without a reason: put `// SAFETY:` above it and say why it is sound";
                found.push(Violation::at(&file.path, at + 1, what));
            }
        }
    }
    found
}

/// A block or an implementation; not a declaration (`unsafe fn`), a block of them or an attribute (`#[unsafe(…)]`).
fn opens_block(after: &str, next_line: Option<&&str>) -> bool {
    let text = if after.is_empty() { next_line.map_or("", |line| line.trim_start()) } else { after };
    text.starts_with('{') || text.strip_prefix("impl").is_some_and(|rest| rest.starts_with([' ', '<']))
}

/// Whether the comment above the statement that line `at` belongs to holds `SAFETY:`.
fn has_reason(lines: &[&str], masked: &[&str], at: usize) -> bool {
    let is_comment = |i: usize| masked[i].trim().is_empty() && !lines[i].trim().is_empty();
    let mut above = at;
    while above > 0 {
        above -= 1;
        if is_comment(above) {
            let comment = (0..=above).rev().take_while(|&i| is_comment(i));
            return comment.into_iter().any(|i| lines[i].contains("SAFETY:"));
        }
        let text = masked[above].trim();
        let continues = !text.is_empty() && !text.ends_with([';', '{', '}', ',']);
        if !continues && !text.starts_with("#[") {
            return false;
        }
    }
    false
}

fn is_crate_root(path: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/')).map(|(_, inside)| inside);
    let inside = inside.or_else(|| path.strip_prefix("xtask/"));
    inside.is_some_and(|inside| {
        let binary =
            inside.strip_prefix("src/bin/").is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"));
        matches!(inside, "src/lib.rs" | "src/main.rs") || binary
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn every_crate_root_forbids_it_but_those_that_need_it() {
        for root in ["crates/core/src/lib.rs", "crates/cli/src/main.rs", "xtask/src/main.rs", "crates/lab/src/bin/x.rs"]
        {
            assert_eq!(lines(root, "//! x\n"), [1], "{root}");
            assert_eq!(lines(root, "//! x\n#![forbid(unsafe_code)]\n"), [], "{root}");
        }
        assert_eq!(lines("crates/io/src/lib.rs", "//! x\n"), []);
        assert_eq!(lines("crates/core/src/time.rs", "//! x\n"), []);
    }

    #[test]
    fn elsewhere_in_an_exempt_crate_it_is_refused() {
        let text = "fn f() {\n    // SAFETY: sound\n    unsafe { g() }\n}\n";
        assert_eq!(lines("crates/io/src/tcp.rs", text), [3]);
        assert_eq!(lines("crates/io/src/sys/socket.rs", text), []);
    }

    #[test]
    fn each_block_and_implementation_needs_its_own_reason() {
        let path = "crates/shim/src/lib.rs";
        assert_eq!(lines(path, "fn f() {\n    unsafe { g() }\n}\nunsafe impl Send for X {}\n"), [2, 4]);
        assert_eq!(lines(path, "// SAFETY: a\nlet x = unsafe { g() };\nlet y = unsafe { g() };\n"), [3]);
        assert_eq!(lines(path, "// a comment, no reason\nlet x = unsafe { g() };\n"), [2]);
    }

    #[test]
    fn the_reason_may_stand_above_the_statement_and_span_lines() {
        let text = "// SAFETY: the pointer is valid,\n// and aligned.\n#[allow(x)]\nlet x =\n    unsafe { g() };\n";
        assert_eq!(lines("crates/shim/src/lib.rs", text), []);
    }

    #[test]
    fn declarations_attributes_comments_and_strings_need_none() {
        let text = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn f() {}\nunsafe extern \"C\" {}\n// unsafe {\nlet x = \"unsafe {\";\n";
        assert_eq!(lines("crates/shim/src/lib.rs", text), []);
    }
}
