//! What a connection waited for, and the rate at which the kernel sees data arrive: its own accounts of each socket (`chrono_stat` and
//! `rate_delivered` of `tcp_sock`, as `ss -i` prints them), which the forwarder's sockets have of another connection than the program's.

use super::super::observed::Limits;
use super::{Entry, Flow, Sources, ms};
use crate::time::Duration;

pub(super) const APP: Entry = Entry {
    name: "limited_app_ms",
    unit: "ms",
    what: "Time in which the program had nothing on its way to the peer (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| of(flow, |limits| limits.application),
};

pub(super) const CWND: Entry = Entry {
    name: "limited_cwnd_ms",
    unit: "ms",
    what: "Time in which data waited for the congestion window or its acknowledgement: for the network (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| of(flow, |limits| limits.network),
};

pub(super) const RWND: Entry = Entry {
    name: "limited_rwnd_ms",
    unit: "ms",
    what: "Time in which data waited for the receive window of the peer (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| of(flow, |limits| limits.receiver),
};

pub(super) const SNDBUF: Entry = Entry {
    name: "limited_sndbuf_ms",
    unit: "ms",
    what: "Time in which the send buffer of the program held data up (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| of(flow, |limits| limits.buffer),
};

pub(super) const DELIVERY: Entry = Entry {
    name: "delivery_mbit_s",
    unit: "Mbit/s",
    what: "The latest rate at which data reached the peer, as the kernel estimates it (`--via ebpf`)",
    sources: Sources::Kernel,
    read: |flow| {
        let (bytes, took) = flow.kernel_stats.as_ref()?.delivery?;
        (!took.is_zero()).then(|| bytes as f64 * 8.0 / 1e6 / took.as_secs_f64())
    },
};

fn of(flow: &Flow, which: fn(&Limits) -> Duration) -> Option<f64> {
    flow.kernel_stats.as_ref()?.limits.as_ref().map(which).map(ms)
}
