//! What the kernel's stamps (`sys::stamps`) tell of what programs say: how fast the peer has it, and, where that is wanted, how long each
//! request takes from its last byte to the peer's acknowledgement. One request at a time of a connection.

use super::{Upstream, Worker};
use crate::sys::stamps::{self, Moment, Stamp};
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
            upstream.request = upstream.delivery.enable_stamps(&upstream.socket).then(Request::default);
        }
    }

    /// Takes in all stamps that wait; whether the connection has stamps at all, so that they may be what its queue of errors held.
    pub(super) fn stamped(&mut self, now: Instant, flow: FlowId) -> bool {
        let told = self.upstreams.get(&flow).is_some_and(|upstream| upstream.delivery.has_stamps());
        let mut came = false;
        while let Some(upstream) = self.upstreams.get_mut(&flow).filter(|upstream| upstream.delivery.has_stamps())
            && let Ok(stamp) = stamps::next(&upstream.socket)
        {
            came = true;
            let left = upstream.request.and_then(|request| request.left);
            match (stamp.moment, left) {
                (Moment::Left, _) => upstream.request.iter_mut().for_each(|r| r.left = Some((stamp.byte, stamp.at))),
                (Moment::Acknowledged, Some((byte, left))) if byte == stamp.byte => {
                    upstream.request = Some(Request::default());
                    let took = stamp.at.saturating_sub(left);
                    self.forwarder.handle_input(now, Input::Acknowledged { flow, took });
                }
                _ => {}
            }
            let delivered = Some(stamp).filter(|stamp| stamp.moment == Moment::Acknowledged);
            let at = |stamp: Stamp| (stamp.byte, self.clock.moment_of(stamp.at));
            let delivered = delivered.map(at).and_then(|(byte, at)| upstream.delivery.acknowledged(byte, at));
            if let Some((bytes, took)) = delivered {
                self.forwarder.handle_input(now, Input::Delivered { flow, bytes, took });
            }
        }
        if came {
            self.look_at_path(now, flow);
        }
        told
    }
}
