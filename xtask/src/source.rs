//! Enough of Rust's grammar to read a source without being fooled by its comments and literals.
//!
//! Not a parser: it masks comments, strings and character literals, finds where tests begin, and lists the heads of
//! paths. It never looks at types or macros.

/// The text with comments, strings and character literals replaced by spaces; lines keep their numbers.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let peek = |ahead: usize| chars.get(at + ahead).copied().unwrap_or('\0');
    let inside_word = at > 0 && is_word(chars[at - 1]);
    match (chars[at], peek(1)) {
        ('/', '/') => (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len()),
        ('/', '*') => block_comment_end(chars, at),
        ('"', _) => string_end(chars, at + 1),
        ('\'', '\\') => (at + 3..chars.len()).find(|&i| chars[i] == '\'').map_or(chars.len(), |i| i + 1),
        ('\'', _) if peek(2) == '\'' => at + 3,
        ('r', '"' | '#') if !inside_word => raw_string_end(chars, at + 1).unwrap_or(at),
        ('b' | 'c', 'r') if !inside_word => raw_string_end(chars, at + 2).unwrap_or(at),
        _ => at,
    }
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) if depth == 1 => return at + 2,
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `at` is just after the `r`; `None` if this is a raw identifier (`r#type`) and no string.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let body = at + hashes + 1;
    let closes = |i: &usize| chars[*i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    Some((body..chars.len()).find(closes).map_or(chars.len(), |i| i + 1 + hashes))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a file holds tests alone, by its path.
pub fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|folder| folder == "tests")
}

/// How many lines stand before the inline test module at the end; all of them if there is none.
///
/// A single function or import under `#[cfg(test)]` does not end the production code: only `mod NAME {` does.
pub fn production_lines(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().collect();
    let opens_tests = |i: &usize| {
        let next =
            lines[i + 1..].iter().map(|line| line.trim()).find(|line| !line.is_empty() && !line.starts_with("#["));
        lines[*i].trim_end() == "#[cfg(test)]"
            && next.is_some_and(|line| line.split_whitespace().any(|word| word == "mod") && line.ends_with('{'))
    };
    (0..lines.len()).find(opens_tests).unwrap_or(lines.len())
}

/// The lines of production code, numbered from 1.
pub fn production(code: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(code.lines()).take(production_lines(code))
}

/// Every path in masked code that begins with the word `root` (such as `crate`), with its line from 1. The members of a group,
/// `crate::{a, b::c}`, are paths of their own; a glob adds nothing.
pub fn paths_from(code: &str, root: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices(root) {
        let begins = !code[..start].chars().next_back().is_some_and(|c| is_word(c) || c == ':');
        if begins && code[start + root.len()..].starts_with("::") {
            follow(code, start, &[], &mut found);
        }
    }
    let line = |at: usize| 1 + code[..at].matches('\n').count();
    found.into_iter().map(|(at, path)| (line(at), path)).collect()
}

/// The paths of all `use` in masked code, those of a group each by itself, as [`paths_from`] has them.
pub fn imports(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (start, keyword) in code.match_indices("use ") {
        if !code[..start].chars().next_back().is_some_and(is_word) {
            follow(code, start + keyword.len(), &[], &mut found);
        }
    }
    found.into_iter().map(|(_, path)| path).collect()
}

/// Notes the path at `start` of `code`, which goes on from `parent`, or those of its group, with where each begins. Returns where it
/// ends.
fn follow(code: &str, start: usize, parent: &[String], found: &mut Vec<(usize, Vec<String>)>) -> usize {
    let (mut at, mut path) = (start, parent.to_vec());
    loop {
        let word: String = code[at..].chars().take_while(|c| is_word(*c)).collect();
        at += word.len();
        path.push(word);
        match code[at..].strip_prefix("::") {
            Some(rest) if rest.starts_with(is_word) => at += 2,
            Some(rest) if rest.starts_with('{') => break at += 3,
            _ => {
                found.push((start, path));
                return at;
            }
        }
    }
    while let Some(next) = code[at..].chars().next() {
        match next {
            '}' => return at + 1,
            c if is_word(c) => {
                at = follow(code, at, &path, found);
                // ` as another` is no path.
                at += code[at..].find([',', '}']).unwrap_or(code.len() - at);
            }
            c => at += c.len_utf8(),
        }
    }
    at
}

/// Whether `word` stands in `line` as a whole word, and what follows it, trimmed, at each place.
pub fn word_followed_by<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(word).filter_map(move |(at, _)| {
        let after = &line[at + word.len()..];
        let starts = !line[..at].chars().next_back().is_some_and(is_word);
        (starts && !after.chars().next().is_some_and(is_word)).then(|| after.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_masked_and_lifetimes_are_not() {
        let text = "a /* x /* y */ z */ b // c\n\"d \\\" e\" f r#\"g \" h\"# 'i' '\\'' &'j k b\"l\" br\"m\"";
        let code = code_only(text);
        let left: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(left, ["a", "b", "f", "&'j", "k", "b"]);
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn a_raw_identifier_is_no_string() {
        assert_eq!(code_only("r#type + for\"x\"").trim_end(), "r#type + for");
    }

    #[test]
    fn an_escaped_backslash_as_a_character_ends_where_it_should() {
        assert_eq!(code_only(r"'\\' x '\u{41}' y").split_whitespace().collect::<Vec<_>>(), ["x", "y"]);
    }

    #[test]
    fn production_code_ends_at_the_inline_test_module_and_not_at_a_helper_of_tests() {
        let helper = "fn a() {}\n#[cfg(test)]\nfn only_for_tests() {}\n";
        assert_eq!(production_lines(helper), 3);
        assert_eq!(production_lines(&format!("{helper}\n#[cfg(test)]\n#[allow(x)]\nmod tests {{\n}}\n")), 4);
        assert_eq!(production_lines("#[cfg(test)]\nmod tests;\nfn a() {}\n"), 3);
    }

    #[test]
    fn single_paths_and_those_of_groups_are_found_with_their_lines() {
        let code = "use crate::a::b;\nuse crate::{\n  c::{d, e as g},\n  self, f::*,\n};\nother::crate::g; mycrate::h(crate::i())";
        let paths = paths_from(code, "crate").into_iter().map(|(line, path)| format!("{line} {}", path.join(".")));
        let expected =
            ["1 crate.a.b", "3 crate.c.d", "3 crate.c.e", "4 crate.self", "4 crate.f", "6 crate.i"].map(String::from);
        assert_eq!(paths.collect::<Vec<_>>(), expected);
        assert_eq!(paths_from("super::{a, b", "super").len(), 2, "what is cut off is read as far as it goes");
    }

    #[test]
    fn what_is_imported_is_found_whether_it_is_re_exported_or_not() {
        let code = "pub use a::{b, c::d};\npub(in crate::x) use super::e;\nuse f;\nreuse g::h();";
        let paths: Vec<String> = imports(code).into_iter().map(|path| path.join(".")).collect();
        assert_eq!(paths, ["a.b", "a.c.d", "super.e", "f"]);
    }

    #[test]
    fn whole_words_only() {
        assert_eq!(word_followed_by("unsafe_code unsafe { unsafely", "unsafe").collect::<Vec<_>>(), ["{ unsafely"]);
    }
}
