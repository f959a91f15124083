//! Changes of a host: one kind a file, and [`ALL`] of them. Each can be made where nothing of its name is there, described in
//! words, and undone repeatedly: what is gone already, or is another program's by now, is left alone.
//!
//! A new kind is one file, one line here and one arm in each function.

pub mod bundle;
pub mod capture;
pub mod route;
pub mod rule;
pub mod sysctl;
pub mod table;

use super::Kernel;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::PathBuf;

/// A kind of change.
#[derive(Debug)]
pub struct Entry {
    /// Its name in the journal.
    pub name: &'static str,
    /// What it changes, and how it is undone.
    pub what: &'static str,
}

/// Every kind.
pub const ALL: &[Entry] = &[route::ENTRY, rule::ENTRY, sysctl::ENTRY, table::ENTRY, bundle::ENTRY, capture::ENTRY];

/// The names of all our nftables tables.
pub const TABLES: [&str; 3] = [super::TABLE_NAME, bundle::TABLE.0, capture::TABLE.0];

/// One change of a host, with all that it takes to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Change {
    /// A route in our table.
    Route(route::Route),
    /// A rule that leads to our table.
    Rule(rule::Rule),
    /// A value below /proc/sys.
    Sysctl(sysctl::Sysctl),
    /// Our nftables table.
    Table(table::Table),
    /// Our nftables table for small segments.
    Bundle(bundle::Bundle),
    /// Our nftables table for what is measured.
    Capture(capture::Capture),
}

/// Why a change was not made or not undone.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The kernel refused.
    #[error("{0}")]
    Kernel(#[from] super::KernelError),
    /// Something of that name is there, and it is not ours.
    #[error("{what} already exists and was not made by headstart; it is left unchanged")]
    Occupied {
        /// What.
        what: String,
    },
    /// What would have to be changed back cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The program that does it is missing or failed.
    #[error("nft: {0}")]
    Nft(String),
    /// The journal holds something that this kind never wrote.
    #[error("the journal names {0}, which headstart never changes; it stays unchanged")]
    NotOurs(String),
}

impl ChangeError {
    /// Whether a right is missing.
    pub fn is_not_permitted(&self) -> bool {
        match self {
            Self::Kernel(e) => e.is_not_permitted(),
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
            Self::Nft(said) => said.contains("Operation not permitted"),
            Self::Occupied { .. } | Self::NotOurs(_) => false,
        }
    }
}

/// What an undoing came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It was there and is gone.
    Removed,
    /// It was not there (any more).
    WasGone,
    /// Another program has changed it since; why it was left as it is.
    LeftAlone(String),
}

impl Change {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Route(_) => route::ENTRY.name,
            Self::Rule(_) => rule::ENTRY.name,
            Self::Sysctl(_) => sysctl::ENTRY.name,
            Self::Table(_) => table::ENTRY.name,
            Self::Bundle(_) => bundle::ENTRY.name,
            Self::Capture(_) => capture::ENTRY.name,
        }
    }

    /// The same with all that undoing it will take, read from the host as it is now.
    pub fn prepared(&self) -> Result<Self, ChangeError> {
        match self {
            Self::Sysctl(sysctl) => sysctl.prepared().map(Self::Sysctl),
            Self::Route(_) | Self::Rule(_) | Self::Table(_) | Self::Bundle(_) | Self::Capture(_) => Ok(self.clone()),
        }
    }

    /// Makes it. `lock` is held by every process that may still be at it, should this one be killed.
    pub fn make(&self, kernel: &mut Kernel, lock: &File) -> Result<(), ChangeError> {
        match self {
            Self::Route(route) => route.make(kernel),
            Self::Rule(rule) => rule.make(kernel),
            Self::Sysctl(sysctl) => sysctl.make(kernel),
            Self::Table(table) => table.make(lock),
            Self::Bundle(bundle) => bundle.make(lock),
            Self::Capture(capture) => capture.make(lock),
        }
    }

    /// Undoes it, whether it was ever made or not.
    pub fn undo(&self, kernel: &mut Kernel, lock: &File) -> Result<Undone, ChangeError> {
        match self {
            Self::Route(route) => route.undo(kernel),
            Self::Rule(rule) => rule.undo(kernel),
            Self::Sysctl(sysctl) => sysctl.undo(kernel),
            Self::Table(table) => table.undo(lock),
            Self::Bundle(bundle) => bundle.undo(lock),
            Self::Capture(capture) => capture.undo(lock),
        }
    }
}

impl std::fmt::Display for Change {
    /// The line that a person would type.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Route(route) => route.fmt(f),
            Self::Rule(rule) => rule.fmt(f),
            Self::Sysctl(sysctl) => sysctl.fmt(f),
            Self::Table(table) => table.fmt(f),
            Self::Bundle(bundle) => bundle.fmt(f),
            Self::Capture(capture) => capture.fmt(f),
        }
    }
}

/// Bytes of a message as hexadecimal digits: in the journal it must be legible, and exactly what was sent.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes = text.as_bytes().chunks(2).map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect();
        Option::ok_or(bytes, serde::de::Error::custom("not a string of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Numbers, PROTOCOL};
    use headstart_core::wire::netlink;

    /// A change of this kind. A kind that has none here has to be given one.
    fn one_of(kind: &str) -> Change {
        match kind {
            "route" => {
                let head = netlink::Route::decode(&[2, 24, 0, 0, 0, PROTOCOL, 0, 1, 0, 0, 0, 0]).unwrap();
                Change::Route(route::Route::new(&head.narrowed([192, 0, 2, 1].into(), 18515, PROTOCOL, 20)))
            }
            "rule" => Change::Rule(rule::Rule::new(2, Numbers { table: 18515, priority: 32765 })),
            "sysctl" => Change::Sysctl(sysctl::Sysctl::new("net/ipv4/ip_forward", "1")),
            "table" => Change::Table(table::Table::new("chain c { }")),
            "bundle" => Change::Bundle(bundle::Bundle::new(18515)),
            "capture" => Change::Capture(capture::Capture::new(vec![([192, 0, 2, 0].into(), 24)])),
            other => panic!("{other}: make one here"),
        }
    }

    #[test]
    fn every_kind_is_there_once_under_the_name_that_the_journal_has_and_says_what_it_is() {
        for entry in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == entry.name).count(), 1, "{} twice", entry.name);
            assert!(entry.what.len() > 10 && !entry.what.contains('\n'), "{}: {:?}", entry.name, entry.what);
            let change = one_of(entry.name);
            assert_eq!(change.kind(), entry.name);
            let written = serde_json::to_string(&change).unwrap();
            assert!(written.starts_with(&format!("{{\"kind\":\"{}\"", entry.name)), "{written}");
            assert_eq!(serde_json::from_str::<Change>(&written).unwrap(), change, "{written}");
            // A record with an unknown field is not undone.
            let more = written.replacen(",", ",\"more\":1,", 1);
            assert!(serde_json::from_str::<Change>(&more).is_err(), "{more}");
        }
    }

    #[test]
    fn every_kind_is_told_in_a_line_and_in_as_many_as_it_takes() {
        for entry in ALL {
            let change = one_of(entry.name);
            let (short, long) = (change.to_string(), format!("{change:#}"));
            assert!(!short.is_empty() && !short.contains('\n'), "{}: {short:?}", entry.name);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&short).first(), words(&long).first(), "{}: {long:?}", entry.name);
        }
    }
}
