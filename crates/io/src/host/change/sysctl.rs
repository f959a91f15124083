//! A value below /proc/sys/net, one of `VALUES`. Its previous value is in the journal, and is written back unless another
//! program has changed it since.
//!
//! It bears a mark, so that it is found without a journal: a route in a table of its own, to which no rule leads. The
//! route's destination says which value it is, what it has become and what it was: `blackhole 240.0.1.0 table 18517 proto 72`
//! stands for the first of `VALUES`, 1 by now and 0 before. Nothing is sent to 240.0.0.0/4 (RFC 1112, 4).

use super::{ChangeError, Entry, Undone};
use crate::host::{Kernel, PROTOCOL};
use headstart_core::wire::netlink::Route;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// This kind.
pub const ENTRY: Entry =
    Entry { name: "sysctl", what: "a value below /proc/sys/net; undone by restoring the old value" };

/// All values that headstart changes, as paths below /proc/sys. Marks name them by their place here, which must not change.
const VALUES: [&str; 3] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/ip_default_ttl"];
/// The routing table of the marks: after those of windows and of what is measured, as they are by default.
pub const TABLE: u32 = 18_517;
/// The first byte of their destinations.
const RESERVED: u8 = 240;

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

    /// What a mark stands for, if this route is one.
    pub fn marked_by(route: &Route) -> Option<Self> {
        let Some((IpAddr::V4(to), 32)) = route.destination() else { return None };
        let [RESERVED, place, becomes, was] = to.octets() else { return None };
        let is_ours = route.table() == TABLE && route.protocol() == PROTOCOL;
        let path = VALUES.get(usize::from(place)).filter(|_| is_ours)?;
        Some(Self { was: Some(was.to_string()), ..Self::new(path, &becomes.to_string()) })
    }

    /// The route that marks it; none where the value fits into no byte.
    fn mark(&self) -> Option<Route> {
        let place = VALUES.iter().position(|path| *path == self.path)?;
        let [place, becomes] = [u8::try_from(place).ok()?, self.becomes.parse().ok()?];
        let to = Ipv4Addr::new(RESERVED, place, becomes, self.was.as_ref()?.parse().ok()?);
        Some(Route::dropping(to, TABLE, PROTOCOL))
    }

    /// The same with what the value is now: after whatever a dead daemon had set was put back, and right before the change.
    pub(super) fn prepared(&self) -> Result<Self, ChangeError> {
        Ok(Self { was: Some(self.read()?), ..self.clone() })
    }

    fn file(&self) -> Result<PathBuf, ChangeError> {
        let known = VALUES.contains(&self.path.as_str()).then(|| Path::new("/proc/sys").join(&self.path));
        known.ok_or_else(|| ChangeError::NotOurs(format!("the value {:?}", self.path)))
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

    /// Marks it first: a value that is changed and bears no mark could not be found again.
    pub(super) fn make(&self, kernel: &mut Kernel) -> Result<(), ChangeError> {
        if let Some(mark) = self.mark() {
            match kernel.add_route(&mark, &self.to_string()) {
                Err(e) if e.is_there() => {}
                made => made?,
            }
        }
        self.write(&self.becomes)
    }

    pub(super) fn undo(&self, kernel: &mut Kernel) -> Result<Undone, ChangeError> {
        let undone = self.put_back()?;
        if let Some(mark) = self.mark() {
            match kernel.delete_route(&mark, &self.to_string()) {
                Err(e) if e.is_missing() => {}
                gone => gone?,
            }
        }
        Ok(undone)
    }

    fn put_back(&self) -> Result<Undone, ChangeError> {
        let is = match self.read() {
            // Values of a family go with its module.
            Err(ChangeError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Undone::WasGone);
            }
            is => is?,
        };
        let Some(was) = self.was.as_ref().filter(|was| **was != is) else { return Ok(Undone::WasGone) };
        if is != self.becomes {
            let path = &self.path;
            return Ok(Undone::LeftAlone(format!("{path} is now {is:?}: another program has changed it since")));
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
        for path in ["kernel/core_pattern", "net/../kernel/core_pattern", "net/ipv4/ip_forward/", "/etc/passwd", ""] {
            let change = Sysctl { path: path.into(), was: Some("x".into()), becomes: "y".into() };
            assert!(matches!(change.put_back(), Err(ChangeError::NotOurs(_))), "{path}");
        }
    }

    #[test]
    fn a_mark_says_what_the_value_was() {
        for path in VALUES {
            let change = Sysctl { was: Some("64".into()), ..Sysctl::new(path, "63") };
            let mark = change.mark().unwrap();
            assert_eq!(Sysctl::marked_by(&mark), Some(change), "{path}");
        }
        let strange = [([240, 3, 1, 0], TABLE, PROTOCOL), ([240, 0, 1, 0], 254, PROTOCOL), ([240, 0, 1, 0], TABLE, 4)];
        for (to, table, protocol) in strange {
            assert_eq!(Sysctl::marked_by(&Route::dropping(to.into(), table, protocol)), None, "{to:?}");
        }
        assert_eq!(Sysctl { was: Some("256".into()), ..Sysctl::new(VALUES[0], "1") }.mark(), None);
    }
}
