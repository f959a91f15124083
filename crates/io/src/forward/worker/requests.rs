//! Requests of programs, timed one by one from their last byte to the peer's acknowledgement, where that is wanted: by the kernel's
//! stamps of both (`sys::stamps`). One at a time of a connection, so that what waits in a socket's queue of errors is two stamps.

use super::{Upstream, Worker};
use crate::sys::stamps::{self, Moment};
use headstart_core::forward::{FlowId, Input};
use headstart_core::machine::Machine;
use headstart_core::time::{Duration, Instant};

/// What is being timed on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// One is on its way.
    waits: bool,
    /// Its last byte, and when that has left.
    left: Option<(u32, Duration)>,
}

impl Upstream {
    /// Whether what is sent now is to be timed.
    pub(super) fn begins_request(&mut self) -> bool {
        self.request.as_mut().is_some_and(|request| !std::mem::replace(&mut request.waits, true))
    }

    /// The peer has said something, or nothing was sent: whatever becomes of the stamps, the next one may be timed.
    pub(super) fn ends_request(&mut self) {
        self.request.iter_mut().for_each(|request| request.waits = false);
    }
}

impl Worker {
    /// Times the requests of connections that are opened from now on.
    pub fn time_requests(&mut self) {
        self.times_requests = true;
    }

    /// A connection is open: its requests are timed, if that is wanted and the kernel can.
    pub(super) fn time(&mut self, flow: FlowId) {
        if let Some(upstream) = self.upstreams.get_mut(&flow).filter(|_| self.times_requests) {
            upstream.request = stamps::tell(&upstream.socket).is_ok().then(Request::default);
        }
    }

    /// Takes in all stamps that wait; whether there were any.
    pub(super) fn stamped(&mut self, now: Instant, flow: FlowId) -> bool {
        let mut any = false;
        while let Some(upstream) = self.upstreams.get_mut(&flow)
            && let Some(request) = &mut upstream.request
            && let Ok(stamp) = stamps::next(&upstream.socket)
        {
            any = true;
            match (stamp.moment, request.left) {
                (Moment::Left, _) => request.left = Some((stamp.byte, stamp.at)),
                (Moment::Acknowledged, Some((byte, left))) if byte == stamp.byte => {
                    *request = Request::default();
                    let took = stamp.at.saturating_sub(left);
                    self.forwarder.handle_input(now, Input::Acknowledged { flow, took });
                }
                (Moment::Acknowledged, _) => {}
            }
        }
        any
    }
}
