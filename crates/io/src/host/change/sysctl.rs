//! A value below /proc/sys/net. What it was is in the journal; it is written back unless somebody has changed it since.

use super::{ChangeError, Entry, Undone};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// This kind.
pub const ENTRY: Entry =
    Entry { name: "sysctl", what: "a value below /proc/sys/net; undone by writing back what it was" };

/// A value of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sysctl {
    /// Its path below /proc/sys, such as `net/ipv4/ip_forward`.
    path: String,
    /// Not known before it is about to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<String>,
    becomes: String,
}

impl Sysctl {
    /// What makes the value at `path` (such as `net/ipv4/ip_forward`) `becomes`.
    pub fn new(path: &str, becomes: &str) -> Self {
        Self { path: path.to_owned(), was: None, becomes: becomes.to_owned() }
    }

    /// The same with what the value is now: after whatever a dead daemon had set was put back, and right before the change.
    pub(super) fn prepared(&self) -> Result<Self, ChangeError> {
        Ok(Self { was: Some(self.read()?), ..self.clone() })
    }

    fn file(&self) -> Result<PathBuf, ChangeError> {
        let plain = self.path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if plain && self.path.starts_with("net/") {
            Ok(PathBuf::from("/proc/sys").join(&self.path))
        } else {
            Err(ChangeError::NotOurs(format!("the value {:?}", self.path)))
        }
    }

    fn read(&self) -> Result<String, ChangeError> {
        let path = self.file()?;
        let text = std::fs::read_to_string(&path).map_err(|source| ChangeError::File { path, source })?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    fn write(&self, value: &str) -> Result<(), ChangeError> {
        let path = self.file()?;
        std::fs::write(&path, value).map_err(|source| ChangeError::File { path, source })
    }

    pub(super) fn make(&self) -> Result<(), ChangeError> {
        self.write(&self.becomes)
    }

    pub(super) fn undo(&self) -> Result<Undone, ChangeError> {
        let is = match self.read() {
            // Values of an interface go with it.
            Err(ChangeError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Undone::WasGone);
            }
            is => is?,
        };
        let Some(was) = self.was.as_ref().filter(|was| **was != is) else { return Ok(Undone::WasGone) };
        if is != self.becomes {
            let path = &self.path;
            return Ok(Undone::LeftAlone(format!("{path} is {is:?} by now: somebody has set it since")));
        }
        self.write(was).map(|()| Undone::Removed)
    }
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sysctl -w {}={}", self.path.replace('/', "."), self.becomes)?;
        self.was.as_ref().map_or(Ok(()), |was| write!(f, " (was {was})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_cannot_make_us_write_elsewhere() {
        for path in ["kernel/core_pattern", "net/../kernel/core_pattern", "net//x", "/etc/passwd", "net/./x"] {
            let change = Sysctl { path: path.into(), was: Some("x".into()), becomes: "y".into() };
            assert!(matches!(change.undo(), Err(ChangeError::NotOurs(_))), "{path}");
        }
    }

    #[test]
    fn a_value_that_went_with_its_interface_needs_no_undoing() {
        let change =
            Sysctl { path: "net/ipv4/conf/no-such-if/forwarding".into(), was: Some("0".into()), becomes: "1".into() };
        assert_eq!(change.undo().unwrap(), Undone::WasGone);
    }
}
