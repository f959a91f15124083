//! The distribution of smoothed round trips, and losses, as programs in the kernel count them, with no event for each.
//! The forwarder asks its sockets when it wants to know, and does not see what was between.

use super::{Entry, Sources, ms};

pub(super) const P95: Entry = Entry {
    name: "rtt_p95_ms",
    unit: "ms",
    what: "The 95th percentile of all smoothed round-trip times, to within an eighth (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| flow.kernel_stats.as_ref()?.round_trip(0.95).map(ms),
};

pub(super) const REORDERED: Entry = Entry {
    name: "reordered",
    unit: "",
    what: "How often segments to the peer arrived in another order than they were sent in (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| flow.kernel_stats.as_ref().map(|stats| f64::from(stats.reordered)),
};

pub(super) const LOST: Entry = Entry {
    name: "lost",
    unit: "",
    what: "Segments to the peer that the host considered lost (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| flow.kernel_stats.as_ref().map(|stats| f64::from(stats.lost)),
};
