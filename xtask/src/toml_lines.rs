//! TOML tables with the line that each value stands on, so that a violation can point at it.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A parsed document and the text that it came from.
pub struct Document<'a> {
    text: &'a str,
    /// The top-level table.
    pub table: DeTable<'a>,
}

impl<'a> Document<'a> {
    /// Parses; on a mistake, the line from 1 and what is wrong there.
    pub fn parse(text: &'a str) -> Result<Self, (usize, String)> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Self { text, table: table.into_inner() }),
            Err(e) => Err((line_at(text, e.span().map_or(0, |span| span.start)), e.message().to_owned())),
        }
    }

    /// The line, from 1, that a key or value starts on.
    pub fn line<T>(&self, spanned: &Spanned<T>) -> usize {
        line_at(self.text, spanned.span().start)
    }

    /// The entries of an array of tables (`[[name]]`), each with the line it starts on.
    pub fn tables(&self, name: &str) -> Vec<(usize, &DeTable<'a>)> {
        let entries = self.table.get(name).and_then(|value| value.get_ref().as_array());
        let entries = entries.into_iter().flat_map(|array| array.iter());
        entries.filter_map(|entry| Some((self.line(entry), entry.get_ref().as_table()?))).collect()
    }
}

/// A string, or every string of an array; empty if the key is missing.
pub fn strings<'t>(table: &'t DeTable<'_>, key: &str) -> Vec<&'t str> {
    match table.get(key).map(Spanned::get_ref) {
        Some(DeValue::String(one)) => vec![one.as_ref()],
        Some(DeValue::Array(many)) => many.iter().filter_map(|value| value.get_ref().as_str()).collect(),
        _ => Vec::new(),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_lines_and_their_strings() {
        let document = Document::parse("# c\n[[claim]]\nid = \"a\"\n\n[[claim]]\nid = [\"b\", \"c\"]\n").unwrap();
        let seen: Vec<_> = document.tables("claim").into_iter().map(|(line, t)| (line, strings(t, "id"))).collect();
        assert_eq!(seen, [(2, vec!["a"]), (5, vec!["b", "c"])]);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        assert_eq!(Document::parse("a = 1\nb = \n").err().map(|(line, _)| line), Some(2));
    }
}
