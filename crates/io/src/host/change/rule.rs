//! A rule that leads packets through our table. Priorities are right before the main table's, so that the rules of other programs
//! (a VPN's above all) come first.

use super::{ChangeError, Entry, Undone};
use crate::host::{Kernel, Numbers, PROTOCOL};
use headstart_core::wire::netlink::{self, AF_INET6};
use serde::{Deserialize, Serialize};
use std::fmt;

/// This kind.
pub const ENTRY: Entry =
    Entry { name: "rule", what: "a rule that leads to headstart's own routing table; undone by removing it" };

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// AF_INET or AF_INET6.
    family: u8,
    table: u32,
    priority: u32,
    /// The mark of the packets that it is for; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<u32>,
}

impl Rule {
    /// The rule of a family that leads to our table.
    pub fn new(family: u8, numbers: Numbers) -> Self {
        Self { family, table: numbers.table, priority: numbers.priority, mark: None }
    }

    /// The same for packets with this mark alone.
    pub fn with_mark(self, mark: u32) -> Self {
        Self { mark: Some(mark), ..self }
    }

    fn rule(&self) -> netlink::Rule {
        let rule = netlink::Rule::through(self.family, self.table, self.priority, PROTOCOL);
        match self.mark {
            None => rule,
            Some(mark) => rule.with_mark(mark),
        }
    }

    /// Its family.
    pub fn family(&self) -> u8 {
        self.family
    }

    pub(super) fn make(&self, kernel: &mut Kernel) -> Result<(), ChangeError> {
        match kernel.add_rule(&self.rule(), &in_words(&self.rule())) {
            Err(e) if e.is_there() => {
                Err(ChangeError::Occupied { what: format!("a rule like {}", in_words(&self.rule())) })
            }
            made => Ok(made?),
        }
    }

    pub(super) fn undo(&self, kernel: &mut Kernel) -> Result<Undone, ChangeError> {
        match kernel.delete_rule(&self.rule(), &in_words(&self.rule())) {
            Err(e) if e.is_missing() || e.is_unsupported() => Ok(Undone::WasGone),
            undone => undone.map(|()| Undone::Removed).map_err(Into::into),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.family == AF_INET6 { "-6 " } else { "" };
        write!(f, "ip {family}rule add {}", in_words(&self.rule()))
    }
}

/// A rule as ip-rule(8) would write it, as far as people need.
pub fn in_words(rule: &netlink::Rule) -> String {
    let mark = rule.mark().map_or(String::new(), |mark| format!(" fwmark {mark:#x}"));
    format!("priority {}{mark} lookup {} protocol {}", rule.priority(), rule.table(), rule.protocol())
}
