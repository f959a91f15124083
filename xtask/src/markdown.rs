//! Enough of Markdown to follow links: links outside code, the headings that they may point at, and paths.
//!
//! Reads texts, opens no file.

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its line, from 1.
    pub line: usize,
    /// Offset of its `[` in the text, or of the `!` of a picture.
    pub start: usize,
    /// Offset after its `)`.
    pub end: usize,
    /// What is shown.
    pub shown: String,
    /// Where it leads.
    pub to: String,
}

impl Link {
    /// Whether it leads into this repository.
    pub fn is_ours(&self) -> bool {
        !self.to.contains("://") && !self.to.starts_with("mailto:")
    }
}

/// Every inline link outside code.
pub fn links(text: &str) -> Vec<Link> {
    let (mut found, mut offset, mut fenced) = (Vec::new(), 0, false);
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        if content.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(of_line(content).map(|(start, end, shown, to)| Link {
                line,
                start: offset + start,
                end: offset + end,
                shown,
                to,
            }));
        }
        offset += content.len();
    }
    found
}

fn of_line(line: &str) -> impl Iterator<Item = (usize, usize, String, String)> {
    let masked = without_code(line);
    let mut found = Vec::new();
    for (middle, _) in masked.match_indices("](") {
        let Some(length) = masked[middle + 2..].find(')') else { continue };
        let Some(open) = opening(&masked[..middle]) else { continue };
        let start = if open > 0 && masked.as_bytes()[open - 1] == b'!' { open - 1 } else { open };
        let end = middle + 2 + length;
        let to = line[middle + 2..end].split_whitespace().next().unwrap_or_default().to_owned();
        found.push((start, end + 1, line[open + 1..middle].to_owned(), to));
    }
    found.into_iter()
}

/// The `[` that the `]` after this text closes.
fn opening(before: &str) -> Option<usize> {
    let mut depth = 0;
    before.char_indices().rev().find_map(|(at, c)| match c {
        ']' => {
            depth += 1;
            None
        }
        '[' if depth == 0 => Some(at),
        '[' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

/// The line with inline code replaced by as many bytes that are no link.
fn without_code(line: &str) -> String {
    let mut within = false;
    let mask = |c: char| {
        if c == '`' {
            within = !within;
            return c.to_string();
        }
        if within { "x".repeat(c.len_utf8()) } else { c.to_string() }
    };
    line.chars().map(mask).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them: a second one of the same words gets `-1`.
pub fn anchors(text: &str) -> Vec<String> {
    let (mut found, mut fenced) = (Vec::<String>::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let words = line.trim_start_matches('#');
        if fenced || words.len() == line.len() || !words.starts_with(' ') {
            continue;
        }
        let kept = words.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = found.iter().filter(|known| **known == anchor).count();
        found.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    found
}

/// The path that a link from the file `from` leads to, relative to the root; `None` if it leads out of it.
pub fn resolve(from: &str, to: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in to.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

/// The way from the file `from` to the file `to`, both relative to the root.
pub fn relative(from: &str, to: &str) -> String {
    let (mut from, mut to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    from.pop();
    while from.first().is_some_and(|first| to.len() > 1 && to.first() == Some(first)) {
        from.remove(0);
        to.remove(0);
    }
    "../".repeat(from.len()) + &to.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_alone() {
        let text = "See [a `b`](x/y.md#z \"t\") and ![p](q.svg), not `[c](d)`.\n```\n[e](f)\n```\n[![i](j)](k)\n";
        let found: Vec<_> = links(text).into_iter().map(|l| (l.line, l.shown, l.to)).collect();
        let expected = [(1, "a `b`", "x/y.md#z"), (1, "p", "q.svg"), (5, "i", "j"), (5, "![i](j)", "k")];
        assert_eq!(found, expected.map(|(line, shown, to)| (line, shown.to_owned(), to.to_owned())));
        let first = &links(text)[0];
        assert_eq!(&text[first.start..first.end], "[a `b`](x/y.md#z \"t\")");
        assert_eq!(&text[links(text)[1].start..links(text)[1].end], "![p](q.svg)");
    }

    #[test]
    fn anchors_are_those_that_readers_are_led_by() {
        let text = "# A `b`, c\n## A b c\n```sh\n# no heading\n```\n### D\n### D\n#hash\n";
        assert_eq!(anchors(text), ["a-b-c", "a-b-c-1", "d", "d-1"]);
    }

    #[test]
    fn paths_lead_there_and_back() {
        assert_eq!(resolve("docs/guide/a.md", "../decisions/b.md").as_deref(), Some("docs/decisions/b.md"));
        assert_eq!(resolve("README.md", "../x"), None);
        assert_eq!(relative("guide/a.md", "decisions/b.md"), "../decisions/b.md");
        assert_eq!(relative("guide/a.md", "guide/b.md"), "b.md");
        assert_eq!(relative("index.md", "guide/b.md"), "guide/b.md");
    }
}
