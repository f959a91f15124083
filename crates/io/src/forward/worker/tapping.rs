//! Packets as they pass, shown in their order, each with the process whose it is.
//!
//! Whose the first packet of a flow is, is known only when it was handed over, and sometimes when the finder has answered. Until then it
//! waits, and with it what has passed after it: no packet waits longer than the finder takes, and no more wait than [`MOST_WAITING`].

use super::{MAPPINGS, Tap, Tapped, Whose, Worker};
use crate::forward::owner::Process;
use headstart_core::forward::{FlowId, MappingId};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::ip::{self, tcp, udp};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Packets that wait at most. 256: of 64 KiB each, 16 MiB.
const MOST_WAITING: usize = 256;
/// One that has waited so long is shown with the next packet, whether its process is known or not. 20 ms: a walk through /proc of a busy host.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Who is shown packets, and what waits to be shown.
pub(super) struct Shown {
    tap: Tap,
    /// Connections by their ends.
    by_ends: HashMap<(SocketAddr, SocketAddr), FlowId>,
    waiting: VecDeque<Kept>,
}

/// A packet that waits.
struct Kept {
    at: Instant,
    to_program: bool,
    bytes: Vec<u8>,
    flow: Option<FlowId>,
    process: Option<Process>,
}

impl Shown {
    pub fn to(tap: Tap) -> Self {
        Self { tap, by_ends: HashMap::new(), waiting: VecDeque::new() }
    }
}

/// The program's end of a packet and the other one, and whether it is of TCP; none where it is neither TCP nor UDP.
fn ends(to_program: bool, bytes: &[u8]) -> Option<((SocketAddr, SocketAddr), bool)> {
    let (header, payload) = ip::parse(bytes)?;
    let (source, destination) = match header.protocol {
        ip::TCP => tcp::parse(payload).map(|(segment, _)| (segment.source, segment.destination)),
        ip::UDP => udp::parse(payload).map(|(source, destination, _)| (source, destination)),
        _ => None,
    }?;
    let (from, to) = (SocketAddr::new(header.source, source), SocketAddr::new(header.destination, destination));
    Some((if to_program { (to, from) } else { (from, to) }, header.protocol == ip::TCP))
}

impl Worker {
    /// A flow has these ends from now on.
    pub(super) fn tap_flow(&mut self, ends: (SocketAddr, SocketAddr), flow: FlowId) {
        self.shown.iter_mut().for_each(|shown| _ = shown.by_ends.insert(ends, flow));
    }

    /// A flow has them no more.
    pub(super) fn untap_flow(&mut self, flow: FlowId, ends: (SocketAddr, SocketAddr)) {
        let Some(shown) = &mut self.shown else { return };
        // They may be another's by now.
        if shown.by_ends.get(&ends) == Some(&flow) {
            shown.by_ends.remove(&ends);
        }
    }

    /// It is known whose a flow is.
    pub(super) fn tap_known(&mut self, flow: FlowId, process: Option<&Process>) {
        let waiting = self.shown.iter_mut().flat_map(|shown| &mut shown.waiting);
        waiting.filter(|kept| kept.flow == Some(flow)).for_each(|kept| kept.process = process.cloned());
    }

    /// A packet passes: it is shown now, or when its turn has come.
    pub(super) fn tapped(&mut self, at: Instant, to_program: bool, bytes: &[u8]) {
        if self.shown.is_none() {
            return;
        }
        self.tap_waiting(at, false);
        let Some(mut shown) = self.shown.take() else { return };
        let flow = self.tapped_flow(&shown, to_program, bytes);
        let is_news = flow.is_none() && !to_program && ends(false, bytes).is_some();
        if shown.waiting.is_empty() && !is_news && flow.is_none_or(|flow| !self.is_sought(flow)) {
            self.show_one(&mut shown, (at, to_program, bytes), flow, None);
        } else {
            shown.waiting.push_back(Kept { at, to_program, bytes: bytes.to_vec(), flow, process: None });
        }
        self.shown = Some(shown);
    }

    /// Shows what has waited for long enough. What was handed over and belongs to no flow, never will.
    pub(super) fn tap_waiting(&mut self, now: Instant, handed_over: bool) {
        if self.shown.as_ref().is_none_or(|shown| shown.waiting.is_empty()) {
            return;
        }
        let Some(mut shown) = self.shown.take() else { return };
        let mut waiting = std::mem::take(&mut shown.waiting);
        for kept in waiting.iter_mut().filter(|kept| kept.flow.is_none()) {
            kept.flow = self.tapped_flow(&shown, kept.to_program, &kept.bytes);
        }
        while let Some(kept) = waiting.pop_front() {
            let is_known = kept.process.is_some() || kept.flow.map_or(handed_over, |flow| !self.is_sought(flow));
            if !is_known && waiting.len() < MOST_WAITING && now.since(kept.at) < LONGEST_WAIT {
                waiting.push_front(kept);
                break;
            }
            self.show_one(&mut shown, (kept.at, kept.to_program, &kept.bytes), kept.flow, kept.process.as_ref());
        }
        shown.waiting = waiting;
        self.shown = Some(shown);
    }

    /// Shows all that waits.
    pub(super) fn tap_all(&mut self, now: Instant) {
        self.tap_waiting(now + LONGEST_WAIT, true);
    }

    /// The flow that a packet belongs to; that of a port has a number from [`MAPPINGS`] on.
    fn tapped_flow(&self, shown: &Shown, to_program: bool, bytes: &[u8]) -> Option<FlowId> {
        let (ends, is_tcp) = ends(to_program, bytes)?;
        if is_tcp {
            return shown.by_ends.get(&ends).copied();
        }
        self.by_port.get(&ends.0).map(|mapping| FlowId(MAPPINGS + mapping.0))
    }

    /// Whether a flow's process is still looked for.
    fn is_sought(&mut self, flow: FlowId) -> bool {
        if let Some(mapping) = flow.0.checked_sub(MAPPINGS) {
            return self.ports.get(&MappingId(mapping)).is_some_and(|p| p.whose.as_ref().is_none_or(|w| w.sought));
        }
        match self.upstreams.get(&flow) {
            Some(upstream) => upstream.sought,
            None => self.held.contains_key(&flow) || self.unopened_whose(flow).is_some_and(|whose| whose.sought),
        }
    }

    /// Whose a connection is that has no socket yet, or no more.
    fn unopened_whose(&mut self, flow: FlowId) -> Option<&Whose> {
        if self.closed.contains_key(&flow) {
            return self.closed.get(&flow);
        }
        self.waiting(flow).map(|waiting| &waiting.whose)
    }

    fn show_one(
        &mut self,
        shown: &mut Shown,
        (at, to_program, bytes): (Instant, bool, &[u8]),
        flow: Option<FlowId>,
        process: Option<&Process>,
    ) {
        let mut tapped = Tapped { at, to_program, bytes, process, accelerated: None };
        let Some(flow) = flow else { return (shown.tap)(tapped) };
        let known = if let Some(mapping) = flow.0.checked_sub(MAPPINGS) {
            let port = self.ports.get(&MappingId(mapping));
            port.and_then(|port| port.whose.as_ref()?.process.as_ref())
        } else if self.upstreams.contains_key(&flow) {
            let upstream = &self.upstreams[&flow];
            tapped.accelerated = upstream.accelerated.then_some(upstream.reached);
            upstream.process.as_ref()
        } else {
            self.unopened_whose(flow).and_then(|whose| whose.process.as_ref())
        };
        tapped.process = process.or(known);
        (shown.tap)(tapped);
    }
}
