//! A connection that a peer has opened to a program (RFC 9293, section 3.10.7.3): the peer's socket stands already, and the program is
//! called from the peer's own address. What the peer says waits in its socket until the program has answered.

use super::super::{Agreed, FlowId, Output, Settings, WINDOW};
use super::down::Down;
use super::stamps::Stamps;
use super::up::Up;
use super::{Connection, Phase, headers_len, reset_for};
use crate::forward::observed::{Flow, FlowEnd};
use crate::time::Instant;
use crate::wire::ip::tcp::{Flags, Segment};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The largest segment where the host does not tell: 1460 and 1440, those of Ethernet less headers.
const USUAL_MSS: [u16; 2] = [1460, 1440];

impl Connection {
    /// A peer has opened a connection to the program at `app`, by segments of at most `mss`; `first` is our first sequence number.
    pub fn called(
        now: Instant,
        (id, (app, peer)): (FlowId, (SocketAddr, SocketAddr)),
        (first, mss, agreed): (u32, Option<u16>, Agreed),
        settings: &Settings,
        out: &mut VecDeque<Output>,
    ) -> Self {
        let mss = mss.filter(|mss| *mss > 0).unwrap_or(USUAL_MSS[usize::from(app.is_ipv6())]);
        let mut connection = Self {
            id,
            flow: Flow { accepted: true, ..Flow::new(id, (app, peer), now) },
            phase: Phase::Calling { times: 0 },
            connected: true,
            profile: settings.profile,
            // Until the program has said its numbers.
            up: Up::new(0, true, WINDOW),
            down: Down::new(first, &Segment::default(), mss),
            stamps: Stamps::calling(now, agreed, first.rotate_left(16)),
            syn: Vec::new(),
            mss,
            mtu: u32::MAX,
            cut_to: None,
            long: false,
            traffic_class: 0,
            answer_again: None,
            // Only where a peer has not answered.
            look: (now, 0),
            small: 0,
            armed: None,
        };
        connection.send_answer(now, out);
        connection
    }

    /// What the program's kernel says to a call.
    pub(super) fn answered(&mut self, now: Instant, segment: &Segment, len: usize, out: &mut VecDeque<Output>) {
        let flags = segment.flags;
        let is_ours = flags.has(Flags::ACK) && segment.acknowledged == self.down.next();
        if flags.has(Flags::ACK) && !is_ours {
            // Of a connection that had the same ends before; its kernel forgets it by this (RFC 9293, section 3.10.7.3).
            out.extend(reset_for(self.flow.app, self.flow.peer, segment, len).map(Output::Packet));
            return;
        }
        if flags.has(Flags::RST) {
            if is_ours {
                self.flow.end(now, FlowEnd::Refused);
                self.close(true, out);
            }
            return;
        }
        if !flags.has(Flags::SYN) || !is_ours {
            return;
        }
        let offered = segment.mss.unwrap_or(if self.flow.app.is_ipv4() { 536 } else { 1220 });
        self.mtu = u32::from(offered) + headers_len(self.flow.app);
        self.up = Up::new(segment.sequence, segment.scale.is_some(), WINDOW);
        self.stamps.answered(now, segment);
        self.down = Down::opened(self.down.next(), segment, offered.saturating_sub(self.stamps.len()).min(self.mss));
        self.phase = Phase::Open;
        self.answer_again = None;
        self.flow.connected = Some(now);
        self.acknowledge(out);
        out.push_back(Output::Resume { flow: self.id });
    }
}
