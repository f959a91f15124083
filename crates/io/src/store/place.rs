//! Where the store of a user is: the folder of the XDG Base Directory Specification for state.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for what is to outlive the supervisor: `$HEADSTART_HISTORY`, else `$XDG_STATE_HOME/headstart`, else
/// `~/.local/state/headstart`. `None` if the user wants nothing kept (`HEADSTART_HISTORY=off`) or has no home. `variable`
/// reads the environment.
pub fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if set("HEADSTART_HISTORY").is_some_and(|value| value == "off") {
        return None;
    }
    // Relative ones are to be ignored, the specification says.
    let absolute = |name: &str| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(own) = absolute("HEADSTART_HISTORY") {
        return Some(own);
    }
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|state| state.join("headstart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<PathBuf> {
        folder(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_folder_is_where_the_specification_says() {
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), Some("/s/headstart".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", ""), ("HOME", "/h")]), Some("/h/.local/state/headstart".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "s"), ("HOME", "/h")]), Some("/h/.local/state/headstart".into()));
        assert_eq!(of(&[("HOME", "h")]), None);
        assert_eq!(of(&[("HOME", "/h"), ("HEADSTART_HISTORY", "off")]), None);
        assert_eq!(of(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s"), ("HEADSTART_HISTORY", "/k")]), Some("/k".into()));
        assert_eq!(of(&[("HOME", "/h"), ("HEADSTART_HISTORY", "on")]), Some("/h/.local/state/headstart".into()));
    }
}
