//! One table, four forms: aligned text for terminals, Markdown, HTML and CSV.
//!
//! Knows nothing of what it shows. Cells are plain text; each form escapes them itself. Never adds colour unless told.

use super::escape;
use super::layout::{self, ColumnStyle};
use maud::{Markup, html};

/// A table with a caption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    columns: Vec<(String, ColumnStyle)>,
    rows: Vec<Vec<String>>,
}

/// A cell of at most this many characters is not broken on the page.
const ONE_LINE: usize = 18;

impl Table {
    /// A table without rows.
    pub fn new(caption: &str, columns: &[(&str, ColumnStyle)]) -> Self {
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

    /// Aligned columns for a terminal of `width` columns, each line ended.
    ///
    /// Text that is too wide is broken at spaces, names at hyphens; nothing is cut, so that names that differ look different. Where
    /// the words themselves are too wide, each row becomes lines of name and value. `colour` adds ANSI colours to the head and the
    /// verdicts.
    pub fn to_text(&self, width: usize, colour: bool) -> String {
        let mut out = String::new();
        if !self.caption.is_empty() {
            out = layout::paragraph(&self.caption, width);
        }
        let head = self.columns.iter().map(|(name, kind)| layout::head(name, *kind)).collect();
        let cells = |row: &Vec<String>| {
            self.columns.iter().zip(row).map(|((_, kind), cell)| layout::cell(cell, *kind)).collect()
        };
        let kinds: Vec<ColumnStyle> = self.columns.iter().map(|(_, kind)| *kind).collect();
        let set = layout::set(head, self.rows.iter().map(cells).collect(), &kinds, width, colour);
        out + &set.unwrap_or_else(|| self.to_blocks(width, colour))
    }

    /// A line for each cell that is not empty, an empty one between rows.
    fn to_blocks(&self, width: usize, colour: bool) -> String {
        let mut lines = Vec::new();
        for (n, row) in self.rows.iter().enumerate() {
            if n > 0 {
                lines.push(Vec::new());
            }
            for ((name, kind), cell) in self.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                // Not to the right: these values have no column in common.
                let kind = if *kind == ColumnStyle::Number { ColumnStyle::Text } else { *kind };
                lines.push(vec![layout::cell(name, ColumnStyle::Text), layout::cell(cell, kind)]);
            }
        }
        layout::loose(lines, width, colour)
    }

    /// A GitHub-flavoured Markdown table.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(|(n, _)| escape::markdown(n)).collect());
        out += &line(
            self.columns.iter().map(|(_, k)| if *k == ColumnStyle::Number { "---:" } else { "---" }.into()).collect(),
        );
        for row in &self.rows {
            out += &line(row.iter().map(|c| escape::markdown(c)).collect());
        }
        out
    }

    /// An HTML table inside a container that scrolls sideways when the page is narrow. `headed`: with its caption visible;
    /// otherwise only screen readers get it, for there is a heading above.
    pub fn to_html(&self, headed: bool) -> Markup {
        let right = |kind: ColumnStyle| (kind == ColumnStyle::Number).then_some("n");
        html! {
            div.scroll tabindex="0" role="region" aria-label=(self.caption) {
                table {
                    @if headed { caption { (self.caption) } }
                    thead {
                        tr { @for (name, kind) in &self.columns { th scope="col" class=[right(*kind)] { (name) } } }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for ((_, kind), cell) in self.columns.iter().zip(row) {
                                    @match kind {
                                        // Names stay in one piece; sentences break.
                                        ColumnStyle::Text if cell.chars().count() <= ONE_LINE => td.s { (cell) },
                                        ColumnStyle::Text => td { (cell) },
                                        ColumnStyle::Number => td.n { (cell) },
                                        ColumnStyle::Verdict => td { span.v data-v=(cell) { (cell) } },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new(
            "Times",
            &[("arm", ColumnStyle::Text), ("ms", ColumnStyle::Number), ("verdict", ColumnStyle::Verdict)],
        );
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
    fn a_narrow_terminal_breaks_names_at_hyphens_and_cuts_nothing() {
        let mut t = table();
        t.push(["paper1-lte-happy-eyeballs", "117", "weaker"].map(String::from));
        t.push(["paper1-lte-happy-families", "118", "weaker"].map(String::from));
        let text = t.to_text(38, false);
        assert!(text.lines().all(|l| l.chars().count() <= 38), "{text}");
        let expected = "paper1-lte-happy-      117  weaker\neyeballs\npaper1-lte-happy-      118  weaker\nfamilies\n";
        assert!(text.ends_with(expected), "{text}");
        let narrower = t.to_text(30, false);
        assert!(
            narrower.lines().all(|l| l.chars().count() <= 30) && narrower.contains("simultaneous  48.0"),
            "{narrower}"
        );
    }

    #[test]
    fn a_terminal_too_narrow_for_its_words_gets_blocks() {
        let text = table().to_text(22, false);
        let expected = "Times\narm      simultaneous\nms       48.0\nverdict  reproduced\n\narm      bare <b>\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 22), "{text}");
        let narrow = table().to_text(10, false);
        assert!(narrow.lines().all(|l| l.chars().count() <= 10), "{narrow}");
    }

    #[test]
    fn colour_comes_only_when_told() {
        assert!(!table().to_text(80, false).contains('\u{1b}'));
        let coloured = table().to_text(80, true);
        assert!(coloured.contains("\u{1b}[1marm") && coloured.contains("reproduced\u{1b}["), "{coloured}");
        let mut hostile = Table::new("", &[("a", ColumnStyle::Text)]);
        hostile.push(["\u{1b}[2J".to_owned()]);
        assert!(!hostile.to_text(80, false).contains('\u{1b}'));
    }

    #[test]
    fn html_and_markdown_escape_their_cells() {
        assert!(
            table().to_html(true).into_string().contains("<td class=\"s\">bare &lt;b&gt;</td><td class=\"n\">117</td>")
        );
        assert_eq!(table().to_markdown().lines().nth(1), Some("| --- | ---: | --- |"));
        assert!(table().to_markdown().contains("| bare \\<b\\> | 117 |  |"));
    }

    #[test]
    fn blank_columns_are_left_out() {
        let mut t = Table::new("", &[("a", ColumnStyle::Text), ("b", ColumnStyle::Number), ("c", ColumnStyle::Text)]);
        t.push(["x", "–", "y"].map(String::from));
        t.push(["x", "–", "–"].map(String::from));
        assert!(t.clone().without_blank_columns("–").to_markdown().starts_with("| a | c |\n"));
        assert!(
            Table::new("", &[("a", ColumnStyle::Text)]).without_blank_columns("–").to_markdown().starts_with("| a |\n")
        );
    }
}
