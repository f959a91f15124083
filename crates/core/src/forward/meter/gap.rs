//! Times between packets (paper 3, sections 3.4 to 3.6): how regular a flow is.

use super::super::Gaps;
use super::{Entry, Sources, ms};

pub(super) const UP: Entry = Entry {
    name: "up_gap_ms",
    unit: "ms",
    what: "The mean time between packets of the program",
    sources: Sources::Both,
    read: |flow| mean(&flow.up.gaps),
};

pub(super) const DOWN: Entry = Entry {
    name: "down_gap_ms",
    unit: "ms",
    what: "The mean time between packets of the peer",
    sources: Sources::Both,
    read: |flow| mean(&flow.down.gaps),
};

pub(super) const LONGEST_UP: Entry = Entry {
    name: "longest_up_gap_ms",
    unit: "ms",
    what: "The longest time between packets of the program",
    sources: Sources::Both,
    read: |flow| longest(&flow.up.gaps),
};

pub(super) const LONGEST_DOWN: Entry = Entry {
    name: "longest_down_gap_ms",
    unit: "ms",
    what: "The longest time between packets of the peer",
    sources: Sources::Both,
    read: |flow| longest(&flow.down.gaps),
};

pub(super) fn mean(gaps: &Gaps) -> Option<f64> {
    (gaps.count > 0).then(|| ms(gaps.total) / gaps.count as f64)
}

pub(super) fn longest(gaps: &Gaps) -> Option<f64> {
    (gaps.count > 0).then(|| ms(gaps.longest))
}
