//! `ours`: nothing is answered that is not true, and nothing sleeps.

use super::{Entry, Pace};

pub(super) const ENTRY: Entry = Entry {
    name: "ours",
    what: "Answers when the peer has, takes segments as long as the path does, keeps the program's TCP_NODELAY, never sleeps",
    lab_only: false,
    early_answer: false,
    claimed_mss: None,
    mirrors_delay: true,
    programs: Pace::AtOnce,
    peers: Pace::AtOnce,
};
