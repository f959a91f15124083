//! `cargo xtask size`: how large the house is, crate by crate, how much of it is public, and which functions are longer than the house
//! wants.
//!
//! A report, not a gate: it says what a change added. Lines of comments and blank ones are not counted.

use crate::Failure;
use crate::source::{code_only, is_test, production_lines, word_followed_by};
use crate::tree::{File, Tree};
use crate::violation::Violation;
use std::collections::BTreeMap;

/// A function that is longer than this is two.
const LONG: usize = 60;

/// What a crate consists of.
#[derive(Default, Debug, PartialEq, Eq)]
struct Size {
    files: usize,
    production: usize,
    tests: usize,
    longest: usize,
    long_functions: usize,
    /// Items that other crates may name: those that say `pub`, whether or not their module is public.
    public: usize,
    /// Lines of files with production code, the tests in them included.
    source: usize,
}

impl Size {
    /// Public items in a thousand lines.
    fn density(&self) -> f64 {
        1000.0 * self.public as f64 / self.source.max(1) as f64
    }
}

/// Runs the chore.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    crate::only_flags(arguments, &["--functions"])?;
    let tree = Tree::of_workspace()?;
    if !arguments.is_empty() {
        for file in tree.rust().filter(|file| of(&file.path).is_some()) {
            for (line, name, lines) in long_functions(file) {
                println!("{}:{line}: {name}, {lines} lines", file.path);
            }
        }
        return Ok(());
    }
    println!(
        "{:<10} {:>6} {:>11} {:>8} {:>13} {:>21} {:>7} {:>13}",
        "crate", "files", "production", "tests", "longest file", "functions > 60 lines", "public", "per 1000 lines"
    );
    let sizes = sizes(&tree);
    for (name, size) in sizes.iter().map(|(name, size)| (*name, size)).chain([("all", &total(&sizes))]) {
        let Size { files, production, tests, longest, long_functions, public, .. } = size;
        let density = size.density();
        println!(
            "{name:<10} {files:>6} {production:>11} {tests:>8} {longest:>13} {long_functions:>21} {public:>7} {density:>13.1}"
        );
    }
    Ok(())
}

/// The rule of tidy: no function of production code is longer than [`LONG`] lines.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.rust().filter(|file| of(&file.path).is_some());
    let found = files.flat_map(|file| {
        long_functions(file).into_iter().map(|(line, name, lines)| {
            Violation::at(&file.path, line, format!("`{name}` has {lines} lines: at most {LONG}; take a part out"))
        })
    });
    found.collect()
}

fn sizes(tree: &Tree) -> BTreeMap<&str, Size> {
    let mut sizes = BTreeMap::<&str, Size>::new();
    for file in tree.rust() {
        let Some(name) = of(&file.path) else { continue };
        let code = code_only(&file.text);
        let of_code: Vec<bool> = code.lines().map(|line| !line.trim().is_empty()).collect();
        let count = |lines: &[bool]| lines.iter().filter(|is_code| **is_code).count();
        let size = sizes.entry(name).or_default();
        if is_test(&file.path) {
            size.tests += count(&of_code);
            continue;
        }
        let (production, tests) = of_code.split_at(production_lines(&code));
        let (production, tests) = (count(production), count(tests));
        size.files += 1;
        size.production += production;
        size.tests += tests;
        size.longest = size.longest.max(production);
        size.long_functions += long_functions(file).len();
        size.public += code.lines().take(production_lines(&code)).filter(|line| is_public_item(line)).count();
        size.source += production + tests;
    }
    sizes
}

fn total(sizes: &BTreeMap<&str, Size>) -> Size {
    sizes.values().fold(Size::default(), |sum, size| Size {
        files: sum.files + size.files,
        production: sum.production + size.production,
        tests: sum.tests + size.tests,
        longest: sum.longest.max(size.longest),
        long_functions: sum.long_functions + size.long_functions,
        public: sum.public + size.public,
        source: sum.source + size.source,
    })
}

/// Whether a line begins an item that is `pub`, and neither a field nor `pub(crate)`.
fn is_public_item(line: &str) -> bool {
    const KINDS: [&str; 13] = [
        "fn", "const", "async", "unsafe", "extern", "struct", "enum", "union", "trait", "type", "static", "mod", "use",
    ];
    let word = line.trim_start().strip_prefix("pub ").and_then(|rest| rest.split(' ').next());
    word.is_some_and(|word| KINDS.contains(&word))
}

/// The crate that a file belongs to.
fn of(path: &str) -> Option<&str> {
    match path.strip_prefix("crates/") {
        Some(inside) => inside.split('/').next(),
        None => path.starts_with("xtask/").then_some("xtask"),
    }
}

/// Line, name and length of each function of production code that is too long.
fn long_functions(file: &File) -> Vec<(usize, String, usize)> {
    if is_test(&file.path) {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let lines: Vec<&str> = code.lines().take(production_lines(&code)).collect();
    let mut long = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(after) = word_followed_by(line, "fn").next() else { continue };
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if let Some(length) = length(&lines[at..]).filter(|length| !name.is_empty() && *length > LONG) {
            long.push((at + 1, name, length));
        }
    }
    long
}

/// How many lines a function takes from its head to the brace that closes it; none for one without a body.
fn length(lines: &[&str]) -> Option<usize> {
    // Brackets of the head, in which the type of an array has a semicolon and a pattern has braces.
    let (mut head, mut depth, mut opened) = (0_usize, 0_usize, false);
    for (at, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                ';' if !opened && head == 0 => return None,
                '[' | '(' if !opened => head += 1,
                ']' | ')' if !opened => head = head.saturating_sub(1),
                '{' if head == 0 => (depth, opened) = (depth + 1, true),
                '}' if head == 0 => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if opened && depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_and_tests_are_counted_apart() {
        let long = format!("fn long(a: [u8; 2]) -> u8 {{\n{}}}\n", "    f();\n".repeat(LONG));
        let inside = format!("//! x\n\n{long}\n#[cfg(test)]\nmod tests {{\n    fn t() {{}}\n}}\n");
        let tree =
            Tree::of(&[("crates/core/src/a.rs", &inside), ("crates/core/tests/b.rs", "fn t() {}\n"), ("c.rs", "")]);
        let sizes = sizes(&tree);
        let lines = LONG + 2;
        let expected = Size {
            files: 1,
            production: lines,
            tests: 5,
            longest: lines,
            long_functions: 1,
            public: 0,
            source: lines + 4,
        };
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [("core", expected)]);
        assert_eq!(long_functions(tree.get("crates/core/src/a.rs").unwrap()), [(3, "long".to_owned(), LONG + 2)]);
    }

    #[test]
    fn items_that_are_public_are_counted_and_nothing_else() {
        let text = "pub mod a;\npub(crate) fn b() {}\npub struct C {\n    pub d: u8,\n}\nimpl C {\n    pub const fn e() {}\n}\n\
                    // pub fn f() {}\n#[cfg(test)]\nmod tests {\n    pub fn g() {}\n}\n";
        let tree = Tree::of(&[("crates/core/src/a.rs", text)]);
        let size = &sizes(&tree)["core"];
        assert_eq!((size.public, size.source), (3, 12));
        assert!((size.density() - 250.0).abs() < 1e-9);
    }

    #[test]
    fn a_function_without_a_body_has_no_length() {
        assert_eq!(length(&["fn f(a: [u8; 4]);", "fn g() {", "}"]), None);
        assert_eq!(length(&["fn g()", "where", "    T: X,", "{", "}"]), Some(5));
        let patterns = ["fn g(", "    A { a, b }: A,", "    C { c }: C,", ") {", "    h();", "}", "fn other() {", "}"];
        assert_eq!(length(&patterns), Some(6));
    }
}
