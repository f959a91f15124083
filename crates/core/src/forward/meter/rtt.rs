//! Round-trip times to the peer, as the kernel has them of the socket that leads there (TCP_INFO, RFC 6298).

use super::{Entry, Sources, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "rtt_ms",
    unit: "ms",
    what: "The smoothed round-trip time to the peer",
    sources: Sources::Both,
    read: |flow| Some(ms(flow.facts?.rtt)),
};

pub(super) const LEAST: Entry = Entry {
    name: "least_rtt_ms",
    unit: "ms",
    what: "The smallest round-trip time to the peer",
    sources: Sources::Both,
    read: |flow| Some(ms(flow.facts?.min_rtt?)),
};
