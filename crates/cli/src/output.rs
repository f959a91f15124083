//! What verbs write: data on standard output, all else on standard error; JSON with its version; colours only where
//! they are welcome.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

/// What kept something from being written to standard output, which is one for the whole process.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output. A closed pipe (`| head`) is ignored; any other write error (a full disk) makes the command
/// fail at its end (`lost`).
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::line(&mut std::io::stdout(), format_args!($($text)*))
    };
}

/// See [`say`].
pub fn line(out: &mut impl Write, text: fmt::Arguments<'_>) {
    if let Err(why) = writeln!(out, "{text}")
        && why.kind() != io::ErrorKind::BrokenPipe
    {
        // The first is the cause; those after it are the same.
        let _ = LOST.set(why);
    }
}

/// Why what was said did not get to where standard output leads, if so.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Writes a line to standard error; see [`say`].
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// How a verb writes its result.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Format {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Writes a verb's result as one JSON object, on one line, with the version of its form. Fields are added within a version,
/// never removed or given another meaning.
pub fn document(version: u32, object: serde_json::Value) {
    crate::say!("{}", versioned(version, object));
}

/// The object with the version of its form.
pub fn versioned(version: u32, mut object: serde_json::Value) -> serde_json::Value {
    object["version"] = version.into();
    object
}

/// How often a loop woke up, the most frequent cause first.
pub fn by_cause(wakeups: &BTreeMap<String, u64>) -> String {
    let mut all: Vec<_> = wakeups.iter().collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    all.iter().map(|(cause, n)| format!("{cause} {n}")).collect::<Vec<_>>().join(", ")
}

/// So many of something, in words: "1 address", "2 addresses".
pub fn plural(n: u64, one: &str) -> String {
    match one.strip_suffix("ry") {
        _ if n == 1 => format!("{n} {one}"),
        Some(stem) => format!("{n} {stem}ries"),
        None if one.ends_with(['s', 'x']) || one.ends_with("ch") || one.ends_with("sh") => format!("{n} {one}es"),
        None => format!("{n} {one}s"),
    }
}

/// Whether colours are welcome (no-color.org).
pub fn colour() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !dumb && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Columns of the terminal.
pub fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    told.unwrap_or_else(|| headstart_io::terminal_width().unwrap_or(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_one() {
        let words = [(0, "lookup"), (1, "address"), (2, "address"), (1, "query"), (3, "query"), (3, "launch")]
            .map(|(n, one)| plural(n, one));
        assert_eq!(words, ["0 lookups", "1 address", "2 addresses", "1 query", "3 queries", "3 launches"]);
    }
}
