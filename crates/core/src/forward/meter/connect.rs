//! How long a connection took to open: the handshake by the kernel that made it; where that does not tell, as after a lost SYN, from the
//! program's SYN to the peer's answer. One that a race has led has no such time: it would be the race's, not the network's.

use super::{Entry, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "connect_ms",
    unit: "ms",
    what: "From the SYN until the peer was connected; none if it was accelerated",
    read: |flow| {
        let connected = flow.connected.filter(|_| flow.accelerated.is_none())?;
        Some(ms(flow.handshake.unwrap_or_else(|| connected.since(flow.asked))))
    },
};
