//! Text that came from elsewhere, made harmless for the format that it goes into.
//!
//! Everything that is not written in the source of the report passes through here: names of conditions, notes, machine
//! models.

/// For SVG, in text and in quoted attributes. Characters that XML forbids become U+FFFD.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// For a cell of a Markdown table or a line of Markdown text: one line, no markup of its own.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '#' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// For a terminal: no control characters, so that no text moves the cursor or changes colours.
pub fn terminal(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_format() {
        assert_eq!(xml("<a b=\"c\" d='e'>&\u{1}"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{fffd}");
        assert_eq!(markdown("a|b *c*\n<d>"), "a\\|b \\*c\\* \\<d\\>");
        assert_eq!(terminal("a\u{1b}[31mb"), "a [31mb");
    }
}
