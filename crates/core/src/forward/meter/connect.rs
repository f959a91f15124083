//! How long a connection took to open: from the program's SYN to the peer's answer. One that a race has led has no such time:
//! it would be the race's, not the network's.

use super::{Entry, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "connect_ms",
    unit: "ms",
    what: "From the program's SYN until its peer was connected; none if it was accelerated",
    read: |flow| {
        let connected = flow.connected.filter(|_| flow.accelerated.is_none())?;
        Some(ms(connected.since(flow.asked)))
    },
};
