//! The variables of the environment: HEADSTART, HEADSTART_QUIET, HEADSTART_LINGER, HEADSTART_HISTORY, HEADSTART_CONFIG. A value that
//! is not understood is an error, because a command that ignores it would look like one that obeys it.

use crate::config::{Config, all};
use crate::exit::{Usage, without_user};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Seconds in a year: the longest that a supervisor stays.
const LONGEST: u64 = 31_536_000;

/// Checks every variable.
pub fn check() -> Result<(), Usage> {
    let read = |name| std::env::var_os(name).unwrap_or_default();
    mode(&read("HEADSTART"))?;
    linger(&read("HEADSTART_LINGER"))?;
    quiet(&read("HEADSTART_QUIET"))?;
    history(&read("HEADSTART_HISTORY"))?;
    usual_files(&read("HEADSTART_CONFIG"))
}

/// Whether a run prints no summary line: by its flag, the environment or the setting.
pub fn is_quiet(flag: bool, config: &Config) -> bool {
    flag || quiet(&std::env::var_os("HEADSTART_QUIET").unwrap_or_default()).unwrap_or(false)
        || config.is_on(&all::QUIET)
}

fn mode(value: &OsStr) -> Result<(), Usage> {
    match value.to_str() {
        Some("" | "on" | "off" | "private") => Ok(()),
        _ => Err(Usage(format!("HEADSTART: must be `on`, `off` or `private` (got {value:?})"))),
    }
}

fn linger(value: &OsStr) -> Result<(), Usage> {
    let seconds = value.to_str().and_then(|text| text.parse::<u64>().ok());
    match seconds {
        _ if value.is_empty() => Ok(()),
        Some(seconds) if seconds <= LONGEST => Ok(()),
        _ => Err(Usage(format!("HEADSTART_LINGER: must be a number of seconds from 0 to {LONGEST} (got {value:?})"))),
    }
}

fn quiet(value: &OsStr) -> Result<bool, Usage> {
    match value.to_str() {
        Some("" | "0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        _ => Err(Usage(format!("HEADSTART_QUIET: must be 1 or 0 (got {value:?})"))),
    }
}

fn history(value: &OsStr) -> Result<(), Usage> {
    if value.is_empty() || value == "off" || Path::new(value).is_absolute() {
        return Ok(());
    }
    // It may be meant for a shared store, which has a password.
    let shown = value.to_string_lossy();
    let shown = without_user(&shown);
    Err(Usage(format!("HEADSTART_HISTORY: must be `off` or the absolute path of a folder (got {shown:?})")))
}

/// Why nothing can be kept in the folder that HEADSTART_HISTORY names; runs are covered without it.
pub fn unusable_history() -> Option<String> {
    let folder = PathBuf::from(std::env::var_os("HEADSTART_HISTORY")?);
    let why = folder.is_absolute().then(|| headstart_io::store::usable(&folder))?.err()?;
    Some(format!("warning: HEADSTART_HISTORY={}: {why}; the history is not saved", folder.display()))
}

fn usual_files(value: &OsStr) -> Result<(), Usage> {
    match value.to_str() {
        Some("" | "on" | "off") => Ok(()),
        _ => Err(Usage(format!("HEADSTART_CONFIG: must be `on` or `off`; `-c FILE` adds a file (got {value:?})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood_is_accepted_and_anything_else_is_named() {
        let of = OsStr::new;
        for good in ["", "on", "off", "private"] {
            assert!(mode(of(good)).is_ok(), "{good}");
        }
        for good in ["", "0", "600"] {
            assert!(linger(of(good)).is_ok(), "{good}");
        }
        assert_eq!(["", "0", "1", "true"].map(|text| quiet(of(text)).unwrap()), [false, false, true, true]);
        for good in ["", "off", "/var/lib/me"] {
            assert!(history(of(good)).is_ok(), "{good}");
        }
        for good in ["", "on", "off"] {
            assert!(usual_files(of(good)).is_ok(), "{good}");
        }
        let why = history(of("redis://me:hunter2@store")).unwrap_err();
        assert!(why.0.contains("redis://…@store") && !why.0.contains("hunter2"), "{why}");
        for (why, value) in [
            (history(of("kept/here")).unwrap_err(), "\"kept/here\""),
            (usual_files(of("/my.toml")).unwrap_err(), "\"/my.toml\""),
            (mode(of("nonsense")).unwrap_err(), "\"nonsense\""),
            (linger(of("abc")).unwrap_err(), "\"abc\""),
            (linger(of("-1")).unwrap_err(), "\"-1\""),
            (quiet(of("maybe")).unwrap_err(), "\"maybe\""),
        ] {
            assert!(why.0.starts_with("HEADSTART") && why.0.contains(value), "{why}");
        }
    }
}
