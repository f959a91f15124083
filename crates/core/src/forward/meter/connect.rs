//! How long a connection took to open: from the program's SYN to the peer's answer.

use super::{Entry, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "connect_ms",
    unit: "ms",
    what: "From the program's SYN until its peer was connected",
    read: |flow| Some(ms(flow.connected?.since(flow.asked))),
};
