//! A file of settings: TOML, with the line of whatever is wrong in it.

use super::all::ALL;
use super::setting::{Setting, Value};
use crate::exit::Usage;
use crate::input;
use headstart_core::choice::unknown;
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

/// What a file says and what is wrong in it, each with its line.
#[derive(Debug, Default)]
pub struct Read {
    /// Settings.
    pub settings: Vec<(&'static Setting, Value, usize)>,
    /// Mistakes, by line.
    pub mistakes: Vec<Mistake>,
}

/// Something wrong in a file or in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// `FILE:LINE`, or a variable of the environment.
    pub at: String,
    /// What is wrong, and what is right.
    pub why: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.why)
    }
}

/// Reads a file to its end, past mistakes.
pub fn read(path: &Path, text: &str) -> Read {
    let mut mistakes = Vec::new();
    let mut settings = Vec::new();
    let mut wrong = |offset: usize, why: String| mistakes.push((line_at(text, offset), why));
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        wrong(error.span().map_or(0, |span| span.start), error.message().to_owned());
    }
    let mut sections: Vec<&str> = ALL.iter().map(|setting| setting.section()).collect();
    sections.dedup();
    for (section, keys) in table.get_ref() {
        let name = section.get_ref().as_ref();
        if !sections.contains(&name) {
            wrong(section.span().start, unknown("section", name, &sections));
            continue;
        }
        let DeValue::Table(keys) = keys.get_ref() else {
            wrong(section.span().start, format!("[{name}] is a section, not a value"));
            continue;
        };
        let of_section: Vec<_> = ALL.iter().filter(|setting| setting.section() == name).collect();
        for (key, value) in keys {
            let at = Spanned::span(key).start;
            let Some(setting) = of_section.iter().find(|setting| setting.name() == key.get_ref().as_ref()) else {
                let known: Vec<_> = of_section.iter().map(|setting| setting.name()).collect();
                wrong(at, format!("[{name}]: {}", unknown("key", key.get_ref(), &known)));
                continue;
            };
            match setting.read_toml(value.get_ref()) {
                Ok(read) => settings.push((**setting, read, line_at(text, at))),
                Err(why) => wrong(at, format!("{}: {why}", setting.key)),
            }
        }
    }
    mistakes.sort();
    let at = |(line, why)| Mistake { at: format!("{}:{line}", path.display()), why };
    Read { settings, mistakes: mistakes.into_iter().map(at).collect() }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
