//! Segments that had to be retransmitted: on the way to the peer, and between the program and the forwarder, where none should be.

use super::{Entry, Sources};

pub(super) const ENTRY: Entry = Entry {
    name: "retransmissions",
    unit: "",
    what: "Segments that the host retransmitted to the peer",
    sources: Sources::Both,
    read: |flow| Some(f64::from(flow.facts?.retransmissions)),
};

pub(super) const HERE: Entry = Entry {
    name: "local_retransmissions",
    unit: "",
    what: "Segments that were lost between the program and the forwarder",
    sources: Sources::Forwarder,
    read: |flow| flow.kernel_stats.is_none().then(|| f64::from(flow.local_retransmissions)),
};
