//! Where connections of programs begin, now and a moment ago: a port may be shared only with what has the same end of a program, and a port in
//! TIME_WAIT is taken again only where the program takes its own again.

use headstart_core::forward::FlowId;
use headstart_core::time::{Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// How long an end that was left is remembered: as long as the kernel keeps it (TCP_TIMEWAIT_LEN of net/tcp.h).
const HOLDS: Duration = Duration::from_secs(60);
/// Ends that were left and are remembered; the one that was left first makes room.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The latest connection at each.
    latest: HashMap<SocketAddr, FlowId>,
    /// When the last connection left.
    left: HashMap<SocketAddr, Instant>,
    order: VecDeque<(Instant, SocketAddr)>,
}

impl Ends {
    /// A connection begins there.
    pub fn begin(&mut self, app: SocketAddr, flow: FlowId) {
        self.latest.insert(app, flow);
    }

    /// A connection is over.
    pub fn leave(&mut self, now: Instant, app: SocketAddr, flow: FlowId) {
        if self.latest.get(&app) != Some(&flow) {
            return;
        }
        self.latest.remove(&app);
        self.left.insert(app, now);
        self.order.push_back((now, app));
        while self.order.len() > MOST || self.order.front().is_some_and(|(at, _)| *at + HOLDS <= now) {
            let Some((at, oldest)) = self.order.pop_front() else { return };
            // It may have been left once more since.
            if self.left.get(&oldest) == Some(&at) {
                self.left.remove(&oldest);
            }
        }
    }

    /// The latest connection there.
    pub fn latest(&self, app: SocketAddr) -> Option<FlowId> {
        self.latest.get(&app).copied()
    }

    /// Whether a connection has been there a moment ago.
    pub fn was_left(&self, now: Instant, app: SocketAddr) -> bool {
        self.left.get(&app).is_some_and(|at| now < *at + HOLDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(port: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port as u16))
    }

    #[test]
    fn an_end_that_was_left_is_remembered_for_a_minute_and_not_while_another_connection_is_there() {
        let (mut ends, begun) = (Ends::default(), Instant::ZERO + Duration::from_secs(9));
        let app = end(5000);
        ends.begin(app, FlowId(1));
        ends.begin(app, FlowId(2));
        ends.leave(begun, app, FlowId(1));
        assert_eq!((ends.latest(app), ends.was_left(begun, app)), (Some(FlowId(2)), false));
        ends.leave(begun, app, FlowId(2));
        assert_eq!(ends.latest(app), None);
        let late = [Duration::ZERO, HOLDS / 2, HOLDS].map(|later| ends.was_left(begun + later, app));
        assert_eq!(late, [true, true, false]);
        assert!(!ends.was_left(begun, end(5001)), "another one");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_was_left_again_stays() {
        let (mut ends, now) = (Ends::default(), Instant::ZERO);
        let leave = |ends: &mut Ends, port, now| {
            ends.begin(end(port), FlowId(port as u64));
            ends.leave(now, end(port), FlowId(port as u64));
        };
        leave(&mut ends, 1, now);
        let later = now + HOLDS / 2;
        leave(&mut ends, 1, later);
        (2..=MOST).for_each(|port| leave(&mut ends, port, later));
        assert!(ends.was_left(later, end(1)) && ends.was_left(later, end(2)));
        leave(&mut ends, MOST + 1, later);
        assert!(!ends.was_left(later, end(1)), "it has made room");
        leave(&mut ends, 1, later + HOLDS);
        assert_eq!((ends.left.len(), ends.order.len()), (1, 1), "what is too old is forgotten");
    }
}
