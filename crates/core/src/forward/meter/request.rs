//! Round trips of requests one by one (SO_TIMESTAMPING), where a smoothed one hides the few that were slow. As any that TCP can see they
//! hold what the peer's kernel waits before it acknowledges (RFC 9293, section 3.8.6.3), but nothing of what its program does.

use super::{Entry, Sources, mean, ms};

pub(super) const ENTRY: Entry = Entry {
    name: "request_rtt_ms",
    unit: "ms",
    what: "The mean time from the last byte of a request to its acknowledgement by the peer; none if requests are not timed",
    sources: Sources::Both,
    read: |flow| mean(&flow.requests),
};

pub(super) const LONGEST: Entry = Entry {
    name: "longest_request_rtt_ms",
    unit: "ms",
    what: "The longest time from the last byte of a request to its acknowledgement by the peer",
    sources: Sources::Both,
    read: |flow| (flow.requests.count > 0).then(|| ms(flow.requests.longest)),
};
