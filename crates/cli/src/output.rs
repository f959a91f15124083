//! What verbs write: data on standard output, all else on standard error; JSON with its version; colours only where
//! they are welcome.

/// Writes a line to standard output. Whoever has stopped reading (`| head`) is not told more, and nothing else stops.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
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
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Writes a verb's result as one JSON object, on one line, with the version of its form. Fields are added within a version,
/// never removed or given another meaning.
pub fn document(version: u32, mut object: serde_json::Value) {
    object["version"] = version.into();
    crate::say!("{object}");
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
