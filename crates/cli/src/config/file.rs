//! A file of settings: TOML, with the line of whatever is wrong in it.

use super::all::ALL;
use super::nearest::unknown;
use super::setting::{Setting, Value};
use crate::exit::Usage;
use crate::input;
use std::io::ErrorKind;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a file; none if it is not there and need not be.
pub fn text(path: &Path, required: bool) -> Result<Option<String>, Usage> {
    match input::text(path, input::MOST) {
        // A folder in the way is a file's absence.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) && !required => Ok(None),
        read => read.map(Some).map_err(|e| Usage(format!("cannot read settings from {}: {e}", path.display()))),
    }
}

/// What a file says, each with its line.
pub fn read(path: &Path, text: &str) -> Result<Vec<(&'static Setting, Value, usize)>, Usage> {
    let wrong = |offset: usize, why: String| Usage(format!("{}:{}: {why}", path.display(), line_at(text, offset)));
    let table = DeTable::parse(text).map_err(|e| wrong(e.span().map_or(0, |s| s.start), e.message().to_owned()))?;
    let mut sections: Vec<&str> = ALL.iter().map(|setting| setting.section()).collect();
    sections.dedup();
    let mut found = Vec::new();
    for (section, keys) in table.get_ref() {
        let name = section.get_ref().as_ref();
        if !sections.contains(&name) {
            return Err(wrong(section.span().start, unknown("section", name, &sections)));
        }
        let DeValue::Table(keys) = keys.get_ref() else {
            return Err(wrong(section.span().start, format!("[{name}] is a section, not a value")));
        };
        let settings: Vec<_> = ALL.iter().filter(|setting| setting.section() == name).collect();
        for (key, value) in keys {
            let Some(setting) = settings.iter().find(|setting| setting.name() == key.get_ref().as_ref()) else {
                let known: Vec<_> = settings.iter().map(|setting| setting.name()).collect();
                return Err(wrong(key.span().start, unknown(&format!("key in [{name}]:"), key.get_ref(), &known)));
            };
            let at = Spanned::span(key).start;
            let read =
                setting.read_toml(value.get_ref()).map_err(|why| wrong(at, format!("{}: {why}", setting.key)))?;
            found.push((**setting, read, line_at(text, at)));
        }
    }
    Ok(found)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
