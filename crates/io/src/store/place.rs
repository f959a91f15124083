//! Where the store of a user is: the folder of the XDG Base Directory Specification for state.

use rustix::fs::{Access, access};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

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

/// Makes the folder, for this user alone.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes the folder and checks that files can be made in it.
pub fn usable(folder: &Path) -> io::Result<()> {
    make(folder)?;
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(Into::into)
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

    #[test]
    fn a_folder_in_which_nothing_can_be_kept_is_found_out() {
        let folder = std::env::temp_dir().join(format!("hs-usable-{}", std::process::id()));
        assert!(usable(&folder.join("a/b")).is_ok() && usable(&folder.join("a/b")).is_ok());
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert!(usable(&folder).is_err() && usable(Path::new("/proc/x")).is_err());
        fs::remove_file(&folder).unwrap();
    }
}
