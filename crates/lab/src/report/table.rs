//! One table, four forms: aligned text for terminals, Markdown, HTML and CSV.
//!
//! Knows nothing of what it shows. Cells are plain text; each form escapes them itself. Never adds colour unless told.

use super::escape;
use std::fmt::Write;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the left; may be shortened on a narrow terminal.
    Text,
    /// To the right; never shortened.
    Number,
    /// A verdict: to the left, marked by colour and sign where the form has them.
    Verdict,
}

/// A table with a caption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<String>>,
}

/// Space between columns on a terminal.
const GAP: usize = 2;

/// A text column is not shortened below this many characters.
const NARROWEST: usize = 8;

/// A cell of at most this many characters is not broken on the page.
const ONE_LINE: usize = 18;

impl Table {
    /// A table without rows.
    pub fn new(caption: &str, columns: &[(&str, Kind)]) -> Self {
        let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Self { caption: caption.into(), columns, rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty, surplus cells are not shown.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// What it shows.
    pub fn caption(&self) -> &str {
        &self.caption
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Leaves out the columns called `name`: what the caption says already.
    pub fn without_column(mut self, name: &str) -> Self {
        let keep: Vec<bool> = self.columns.iter().map(|(n, _)| n != name).collect();
        self.retain_columns(&keep);
        self
    }

    /// Leaves out the columns in which every row says the same as `blank`.
    pub fn without_blank_columns(mut self, blank: &str) -> Self {
        let keep: Vec<bool> =
            (0..self.columns.len()).map(|i| self.rows.is_empty() || self.rows.iter().any(|r| r[i] != blank)).collect();
        self.retain_columns(&keep);
        self
    }

    fn retain_columns(&mut self, keep: &[bool]) {
        let mut flags = keep.iter();
        self.columns.retain(|_| *flags.next().unwrap_or(&true));
        for row in &mut self.rows {
            let mut flags = keep.iter();
            row.retain(|_| *flags.next().unwrap_or(&true));
        }
    }

    /// Aligned columns for a terminal of `width` characters, each line ended.
    ///
    /// Where the table is too wide, the widest text columns are shortened (with `…`), and where that is not enough each
    /// row becomes a block of `name: value` lines. A character counts as one column wide. `colour` adds ANSI colours to the
    /// head and the verdicts.
    pub fn to_text(&self, width: usize, colour: bool) -> String {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|r| r.iter().map(|c| escape::terminal(c)).collect()).collect();
        let mut out = String::new();
        if !self.caption.is_empty() {
            out += &super::wrap(&escape::terminal(&self.caption), width);
        }
        let Some(widths) = self.fit(&rows, width) else {
            self.write_blocks(&mut out, &rows, width, colour);
            return out;
        };
        let head: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let rule: usize = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        self.write_line(&mut out, &head, &widths, if colour { Some("1") } else { None }, false);
        let _ = writeln!(out, "{}", "─".repeat(rule));
        for row in &rows {
            self.write_line(&mut out, row, &widths, None, colour);
        }
        out
    }

    /// Widths of the columns so that a line is at most `width` wide; none if that cannot be.
    fn fit(&self, rows: &[Vec<String>], width: usize) -> Option<Vec<usize>> {
        let length = |s: &str| s.chars().count();
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|i| rows.iter().map(|r| length(&r[i])).max().unwrap_or(0).max(length(&self.columns[i].0)))
            .collect();
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > width {
            let shrinkable = (0..widths.len())
                .filter(|&i| self.columns[i].1 == Kind::Text && widths[i] > NARROWEST.max(length(&self.columns[i].0)));
            let widest = shrinkable.max_by_key(|&i| widths[i])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn write_line(&self, out: &mut String, cells: &[String], widths: &[usize], style: Option<&str>, verdicts: bool) {
        let mut line = String::new();
        for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            let kind = self.columns[i].1;
            let cell = shorten(cell, width);
            let cell = if kind == Kind::Number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            let style = style.or_else(|| (verdicts && kind == Kind::Verdict).then(|| verdict_style(cell.trim())));
            if i > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            match style.filter(|s| !s.is_empty()) {
                Some(s) => {
                    let _ = write!(line, "\u{1b}[{s}m{cell}\u{1b}[0m");
                }
                None => line.push_str(&cell),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    fn write_blocks(&self, out: &mut String, rows: &[Vec<String>], width: usize, colour: bool) {
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            for ((name, kind), cell) in self.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                // A number whose name leaves no room for it stands on a line of its own.
                let room = width.saturating_sub(name.chars().count() + 2);
                let cell = if *kind == Kind::Text { shorten(cell, room.max(NARROWEST)) } else { cell.clone() };
                let separator = if cell.chars().count() > room { "\n  " } else { " " };
                match verdict_style(&cell) {
                    s if colour && *kind == Kind::Verdict && !s.is_empty() => {
                        let _ = writeln!(out, "{name}:{separator}\u{1b}[{s}m{cell}\u{1b}[0m");
                    }
                    _ => {
                        let _ = writeln!(out, "{name}:{separator}{cell}");
                    }
                }
            }
        }
    }

    /// A GitHub-flavoured Markdown table.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(|(n, _)| escape::markdown(n)).collect());
        out +=
            &line(self.columns.iter().map(|(_, k)| if *k == Kind::Number { "---:" } else { "---" }.into()).collect());
        for row in &self.rows {
            out += &line(row.iter().map(|c| escape::markdown(c)).collect());
        }
        out
    }

    /// An HTML table inside a container that scrolls sideways when the page is narrow. `headed`: with its caption visible;
    /// otherwise only a reader who cannot see the heading above it is told.
    pub fn to_html(&self, headed: bool) -> String {
        let caption = escape::html(&self.caption);
        let mut out = format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>");
        if headed {
            let _ = write!(out, "<caption>{caption}</caption>");
        }
        out += "<thead><tr>";
        for (name, kind) in &self.columns {
            let class = if *kind == Kind::Number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape::html(name));
        }
        out += "</tr></thead><tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for ((_, kind), cell) in self.columns.iter().zip(row) {
                let text = escape::html(cell);
                let _ = match kind {
                    // Names stay in one piece; sentences break.
                    Kind::Text if cell.chars().count() <= ONE_LINE => write!(out, "<td class=\"s\">{text}</td>"),
                    Kind::Text => write!(out, "<td>{text}</td>"),
                    Kind::Number => write!(out, "<td class=\"n\">{text}</td>"),
                    Kind::Verdict => write!(out, "<td><span class=\"v\" data-v=\"{text}\">{text}</span></td>"),
                };
            }
            out += "</tr>\n";
        }
        out + "</tbody></table></div>\n"
    }
}

/// `text` in at most `width` characters, with `…` where it was cut.
fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Green, bold green, red, none: the ANSI style of a verdict.
fn verdict_style(verdict: &str) -> &'static str {
    match verdict {
        "reproduced" | "stronger" => "32",
        "exceeded" => "1;32",
        "weaker" => "33",
        "not reproduced" => "31",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new("Times", &[("arm", Kind::Text), ("ms", Kind::Number), ("verdict", Kind::Verdict)]);
        t.push(["simultaneous", "48.0", "reproduced"].map(String::from));
        t.push(["bare <b>", "117", ""].map(String::from));
        t
    }

    #[test]
    fn text_is_aligned_by_kind() {
        let expected = "\
Times
arm             ms  verdict
────────────────────────────
simultaneous  48.0  reproduced
bare <b>       117
";
        let text = table().to_text(80, false);
        assert_eq!(text.replace('─', ""), expected.replace('─', ""));
        assert_eq!(text.matches('─').count(), 12 + 2 + 4 + 2 + 10);
    }

    #[test]
    fn a_narrow_terminal_shortens_text_and_never_numbers() {
        let text = table().to_text(26, false);
        assert!(text.lines().all(|l| l.chars().count() <= 26), "{text}");
        assert!(text.contains("simulta…  48.0  reproduced"), "{text}");
    }

    #[test]
    fn a_terminal_too_narrow_for_columns_gets_blocks() {
        let text = table().to_text(20, false);
        assert!(
            text.starts_with("Times\narm: simultaneous\nms: 48.0\nverdict: reproduced\n\narm: bare <b>\n"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 20), "{text}");
    }

    #[test]
    fn colour_comes_only_when_told() {
        assert!(!table().to_text(80, false).contains('\u{1b}'));
        let coloured = table().to_text(80, true);
        assert!(coloured.contains("\u{1b}[32mreproduced\u{1b}[0m"), "{coloured}");
        let mut hostile = Table::new("", &[("a", Kind::Text)]);
        hostile.push(["\u{1b}[2J".to_owned()]);
        assert!(!hostile.to_text(80, false).contains('\u{1b}'));
    }

    #[test]
    fn html_and_markdown_escape_their_cells() {
        assert!(table().to_html(true).contains("<td class=\"s\">bare &lt;b&gt;</td><td class=\"n\">117</td>"));
        assert_eq!(table().to_markdown().lines().nth(1), Some("| --- | ---: | --- |"));
        assert!(table().to_markdown().contains("| bare \\<b\\> | 117 |  |"));
    }

    #[test]
    fn blank_columns_are_left_out() {
        let mut t = Table::new("", &[("a", Kind::Text), ("b", Kind::Number), ("c", Kind::Text)]);
        t.push(["x", "–", "y"].map(String::from));
        t.push(["x", "–", "–"].map(String::from));
        assert!(t.clone().without_blank_columns("–").to_markdown().starts_with("| a | c |\n"));
        assert!(Table::new("", &[("a", Kind::Text)]).without_blank_columns("–").to_markdown().starts_with("| a |\n"));
    }
}
