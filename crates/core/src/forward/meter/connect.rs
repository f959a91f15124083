//! How long a connection took to open: the handshake by the kernel that made it; where that does not tell, as after a lost SYN, from the
//! program's SYN to the peer's answer. One that a race has led has no such time: it would be the race's, not the network's; nor has one
//! that a peer asked for, nor one that was open before.

use super::{Entry, Sources, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "connect_ms",
    unit: "ms",
    what: "Time from the SYN until the peer was connected; none for accelerated connections",
    sources: Sources::Both,
    read: |flow| {
        let unseen = flow.is_accepted() || flow.kernel_stats.as_ref().is_some_and(|stats| stats.before);
        let connected = flow.connected.filter(|_| flow.accelerated.is_none() && !unseen)?;
        Some(ms(flow.handshake.unwrap_or_else(|| connected.since(flow.asked))))
    },
};

pub(super) const CALL: Entry = Entry {
    name: "connect_call_ms",
    unit: "ms",
    what: "Time from the call of connect(2) until the peer was connected, lost SYNs included; a call that does not wait returns \
           earlier (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| {
        let stats = flow.kernel_stats.as_ref().filter(|stats| !stats.accepted && !stats.before);
        stats.and(flow.connected).map(|connected| ms(connected.since(flow.asked)))
    },
};
