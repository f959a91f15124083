//! Data over the time in which it was on its way: upwards what the peer has acknowledged, which is the path's and not what a program has
//! handed to its kernel; downwards what came, pauses of the peer left out.

use super::super::observed::Transfer;
use super::{Entry, Sources, ms};

pub(super) const UP: Entry = Entry {
    name: "up_mbit_s",
    unit: "Mbit/s",
    what: "Data that the peer acknowledged, divided by the time with data in flight; none if never more than 8 KiB were in flight",
    sources: Sources::Both,
    read: |flow| rate(&flow.delivered),
};

pub(super) const BUSY: Entry = Entry {
    name: "up_busy_ms",
    unit: "ms",
    what: "The time with data of the program in flight, as used for up_mbit_s; if it is short, the program sent little",
    sources: Sources::Both,
    read: |flow| (flow.delivered.bytes > 0).then(|| ms(flow.delivered.took)),
};

pub(super) const DOWN: Entry = Entry {
    name: "down_mbit_s",
    unit: "Mbit/s",
    what: "Data of the peer divided by the time in which it arrived; pauses longer than 200 ms and two round trips do not count",
    sources: Sources::Both,
    read: |flow| rate(&flow.down.without_pauses),
};

pub(super) fn rate(transfer: &Transfer) -> Option<f64> {
    let time = transfer.took.as_secs_f64();
    (time > 0.0).then(|| transfer.bytes as f64 * 8.0 / 1e6 / time)
}
