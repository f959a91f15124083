//! How a forwarder behaves where tools differ: ours, and the flaws that paper 3 found in three tools, as a registry.
//!
//! The flaws are here so that the lab can measure them beside ours in one run, on one host, over the same mechanism. Each is
//! what section 3 and 4 of the paper say of a tool, no more: none is the tool. The mechanism reads what a profile says,
//! and so does the reader of its sockets ([`Pace`]).

mod adaptive_sleep;
mod early_synack;
mod ours;
mod sleepy_64k;

use super::pace::Pace;

/// A way for a forwarder to behave.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence without a full stop.
    pub what: &'static str,
    /// It is there to be measured, and nothing to be used.
    pub lab_only: bool,
    /// Whether a program's SYN is answered before the peer is connected.
    pub early_answer: bool,
    /// The largest segment that programs are made to send, whatever the path takes.
    pub claimed_mss: Option<u16>,
    /// Whether Nagle's algorithm is as the program has it; otherwise it is on.
    pub mirrors_delay: bool,
    /// How packets of programs are read.
    pub programs: Pace,
    /// How sockets are read.
    pub peers: Pace,
}

/// Every profile.
pub const ALL: &[&Entry] = &[&ours::ENTRY, &sleepy_64k::ENTRY, &early_synack::ENTRY, &adaptive_sleep::ENTRY];

/// The default profile.
pub const DEFAULT: &Entry = &ours::ENTRY;

/// No profile of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", crate::choice::unknown("profile", name, known))]
pub struct Unknown {
    name: String,
    known: Vec<&'static str>,
}

/// The profile called `name`.
pub fn find(name: &str) -> Result<&'static Entry, Unknown> {
    let known = || ALL.iter().map(|entry| entry.name).collect();
    ALL.iter().find(|entry| entry.name == name).copied().ok_or_else(|| Unknown { name: name.into(), known: known() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ours_is_to_be_used_and_names_are_unique() {
        for (n, entry) in ALL.iter().enumerate() {
            assert_eq!(entry.lab_only, entry.name != DEFAULT.name);
            assert!(ALL[..n].iter().all(|other| other.name != entry.name));
            assert_eq!(find(entry.name).unwrap().name, entry.name);
        }
        assert!(find("swift").unwrap_err().to_string().contains("sleepy-64k"));
    }
}
