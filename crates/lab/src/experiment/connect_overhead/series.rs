//! What was measured, as series for the report's distributions.

use super::Block;
use super::speed::{Taken, Timing};
use crate::experiment::Series;
use crate::sim::Arm;
use headstart_core::time::Duration;

/// A time of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Lookup,
    Connect,
    GetAddrInfo,
    Total,
}

impl Metric {
    pub const ALL: [Self; 4] = [Self::Total, Self::Lookup, Self::Connect, Self::GetAddrInfo];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "DNS lookup time",
            Self::Connect => "TCP connect time",
            Self::GetAddrInfo => "time in getaddrinfo",
            Self::Total => "connectivity overhead",
        }
    }

    /// The time of a visit that ended with a connection; a visit that did not has none.
    fn of(self, visit: &Timing) -> Option<Duration> {
        let total = visit.total?;
        match self {
            Self::Lookup => visit.lookup,
            Self::Connect => visit.lookup.map(|l| total - l),
            Self::GetAddrInfo => Some(visit.getaddrinfo),
            Self::Total => Some(total),
        }
    }
}

/// `metric` of every visit in milliseconds, to the microsecond.
pub(super) fn one(condition: &str, metric: Metric, arm: Arm, taken: &Taken) -> Series {
    let values = taken.visits.iter().map(|v| metric.of(v).map(|d| d.as_nanos().div_ceil(1000) as f64 / 1e3));
    Series::with_failures(condition, metric.name(), "ms", arm.name(), values)
}

/// Every series of a block that has values.
pub(super) fn of(block: &Block) -> Vec<Series> {
    let each = |metric: Metric| block.taken.iter().map(move |(arm, t)| one(&block.condition, metric, *arm, t));
    Metric::ALL.into_iter().flat_map(each).filter(|s| s.failed() < s.values.len()).collect()
}
