//! Kinds of columns, and columns on a terminal: widths by content, by the crate comfy-table. Knows nothing of what it sets.

use super::escape;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, TableComponent, Width, presets,
};

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnStyle {
    /// To the left; broken at spaces or hyphens on a narrow terminal.
    Text,
    /// To the right; broken at spaces where there is no room for it.
    Number,
    /// A verdict: as a number, but to the left, marked by colour and sign where the form has them.
    Verdict,
}

/// Space behind a column, and where there is no room for that.
const GAP: usize = 2;
const LEAST_GAP: usize = 1;

/// Where a name may be broken: behind a hyphen, invisibly. comfy-table would take the hyphen itself away.
const BREAK: char = '\u{200b}';

/// A cell of the head.
pub(super) fn head(name: &str, kind: ColumnStyle) -> Cell {
    let cell = cell(name, ColumnStyle::Text).add_attribute(Attribute::Bold);
    if kind == ColumnStyle::Number { cell.set_alignment(CellAlignment::Right) } else { cell }
}

/// A cell below it.
pub(super) fn cell(text: &str, kind: ColumnStyle) -> Cell {
    let shown = escape::terminal(text);
    let cell = if shown.contains(' ') || kind != ColumnStyle::Text {
        Cell::new(shown).set_delimiter(' ')
    } else {
        Cell::new(shown.replace('-', &format!("-{BREAK}"))).set_delimiter(BREAK)
    };
    let cell = if kind == ColumnStyle::Number { cell.set_alignment(CellAlignment::Right) } else { cell };
    match verdict(text).filter(|_| kind == ColumnStyle::Verdict) {
        Some((colour, true)) => cell.fg(colour).add_attribute(Attribute::Bold),
        Some((colour, false)) => cell.fg(colour),
        None => cell,
    }
}

/// Green, bold green, yellow, red, none: how a verdict is shown, and whether bold.
fn verdict(verdict: &str) -> Option<(Color, bool)> {
    match verdict {
        "reproduced" | "stronger" => Some((Color::DarkGreen, false)),
        "exceeded" | "better" => Some((Color::DarkGreen, true)),
        "weaker" | "not better than printed" => Some((Color::DarkYellow, false)),
        "not reproduced" | "below the paper's way" => Some((Color::DarkRed, false)),
        _ => None,
    }
}

/// A head and rows in at most `width` columns, numbers and verdicts in one piece if there is room for it; none if the words need more.
pub(super) fn set(
    head: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
    kinds: &[ColumnStyle],
    width: usize,
    colour: bool,
) -> Option<String> {
    let least = |(whole, gap): (bool, usize)| {
        let column = |(n, kind): (usize, &ColumnStyle)| {
            let of = |cell: &Cell| {
                if whole && *kind != ColumnStyle::Text { columns(&cell.content()) } else { longest(cell) }
            };
            let gap = if n + 1 < kinds.len() { gap } else { 0 };
            rows.iter().map(|row| of(&row[n])).fold(longest(&head[n]), usize::max) + gap
        };
        (gap, kinds.iter().enumerate().map(column).collect::<Vec<usize>>())
    };
    let tries = [(true, GAP), (false, GAP), (false, LEAST_GAP)].map(least);
    let (gap, least) = tries.into_iter().find(|(_, least)| least.iter().sum::<usize>() <= width)?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head).add_rows(rows);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_constraints(least.into_iter().map(|least| ColumnConstraint::LowerBoundary(Width::Fixed(short(least)))));
    Some(lines(table, gap, width, colour))
}

/// Rows without a head, in `width` columns even if words have to be broken for it.
pub(super) fn loose(rows: Vec<Vec<Cell>>, width: usize, colour: bool) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).add_rows(rows);
    lines(table, GAP, width, colour)
}

/// The longest part of a cell that is not broken.
fn longest(cell: &Cell) -> usize {
    cell.content().split([' ', BREAK]).map(columns).max().unwrap_or(0)
}

fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

fn short(columns: usize) -> u16 {
    u16::try_from(columns).unwrap_or(u16::MAX)
}

fn lines(mut table: Table, gap: usize, width: usize, colour: bool) -> String {
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let last = table.column_count().saturating_sub(1);
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if n < last { short(gap) } else { 0 }));
    }
    table.set_width(short(width)).style_text_only();
    let table = if colour { table.enforce_styling() } else { table.force_no_tty() };
    let lines = table.lines().map(|line| line.replace(BREAK, "").trim_end().to_owned() + "\n");
    lines.collect()
}

/// `text` in lines of at most `width` columns, broken at spaces and hyphens; longer words stay whole. Each line ended.
pub(super) fn paragraph(text: &str, width: usize) -> String {
    textwrap::fill(&escape::terminal(text), textwrap::Options::new(width).break_words(false)) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_breaks_at_spaces_and_never_inside_a_word() {
        assert_eq!(paragraph("aa bb cc", 5), "aa bb\ncc\n");
        assert_eq!(paragraph("longerthanthat x", 5), "longerthanthat\nx\n");
    }

    #[test]
    fn a_table_is_never_wider_than_the_terminal_and_loses_no_character() {
        let kinds = [ColumnStyle::Text, ColumnStyle::Number];
        let texts = ["paper1-lte-happy-eyeballs-v2", "two words", "名前-は-ここ"];
        for width in 12..60 {
            let rows = texts
                .iter()
                .map(|text| vec![cell(text, ColumnStyle::Text), cell("1.5 ms", ColumnStyle::Number)])
                .collect();
            let head = vec![head("a name", ColumnStyle::Text), head("value", ColumnStyle::Number)];
            let Some(text) = set(head, rows, &kinds, width, false) else { continue };
            assert!(text.lines().all(|line| columns(line) <= width), "{width}:\n{text}");
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
            let all = texts.iter().map(|text| letters(text)).sum::<usize>() + 3 * 4 + "anamevalue".len();
            assert_eq!(letters(&text), all, "{width}:\n{text}");
            let whole = text.matches("1.5 ms").count() == 3;
            assert!(whole || width < 19, "{width}:\n{text}");
        }
    }
}
