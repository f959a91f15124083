//! `ours`: nothing is answered that is not true, and nothing sleeps.

use super::{Entry, Pace};

pub(super) const ENTRY: Entry = Entry {
    name: "ours",
    what: "Answers after the peer has, accepts segments up to the MSS of the path, keeps the program's TCP_NODELAY, never sleeps",
    lab_only: false,
    early_answer: false,
    claimed_mss: None,
    mirrors_delay: true,
    programs: Pace::AtOnce,
    peers: Pace::AtOnce,
};
