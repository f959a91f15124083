//! Whose connections are, and the report of what was seen of them.

use super::attribution::Attribution;
use super::{MAPPINGS, Teller, Whose, Worker, sockets};
use crate::forward::finder::{Answer, Finder, Question};
use crate::forward::owner::{Owner, Process};
use crate::forward::seen::Attributed;
use headstart_core::forward::{EchoFlow, Flow, FlowId, MappingId, Record, UdpFlow};
use headstart_core::time::Instant;
use std::net::SocketAddr;

impl Worker {
    /// Records connections as they are, and whatever waited for the name of a process.
    pub(super) fn record_open(&mut self) {
        let open: Vec<Flow> = self.forwarder.open().into_iter().cloned().collect();
        for mut flow in open {
            let whose = match self.upstreams.get(&flow.id) {
                Some(upstream) => {
                    flow.facts = (!upstream.connecting).then(|| sockets::facts(&upstream.socket)).flatten();
                    let (owner, process) = (upstream.owner, upstream.process.clone());
                    Whose { owner, process, sought: upstream.sought }
                }
                None => {
                    let Some(waiting) = self.waiting(flow.id) else { continue };
                    waiting.whose.clone()
                }
            };
            self.tell(whose, Record::Flow(Box::new(flow)));
        }
        let udp: Vec<UdpFlow> = self.forwarder.udp_flows().cloned().collect();
        for flow in udp {
            let whose = self.whose_port(flow.app);
            self.tell(whose, Record::Udp(Box::new(flow)));
        }
        let echoes: Vec<EchoFlow> = self.forwarder.echo_flows().cloned().collect();
        echoes.into_iter().for_each(|flow| self.tell(Whose::default(), Record::Echo(flow)));
        let found = self.teller.finder().map(Finder::finish).unwrap_or_default();
        found.into_iter().for_each(|answer| self.found(answer));
        let untold = self.teller.attribution().map(Attribution::finish).unwrap_or_default();
        untold.into_iter().for_each(|record| self.tell(Whose::default(), record));
        std::mem::take(&mut self.held).into_values().for_each(|seen| self.hand_over(seen));
        self.tap_all(self.clock.now());
    }

    pub(super) fn record(&mut self, now: Instant, record: Record) {
        let Some(record) = self.kept(record) else { return };
        let whose = match &record {
            Record::Flow(flow) => {
                self.tap_waiting(now, false);
                let whose = self.closed.remove(&flow.id).unwrap_or_default();
                if !whose.sought {
                    self.tap_known(flow.id, whose.process.as_ref());
                }
                self.untap_flow(flow.id, (flow.app, flow.peer));
                whose
            }
            // What waits for a name has waited for longer than the name takes: an answer from the network has come.
            Record::Dns(lookup) => self.whose_port(lookup.app),
            Record::Udp(flow) => self.whose_port(flow.app),
            // The kernel tells owners of raw sockets by protocol alone.
            Record::Echo(_) => Whose::default(),
        };
        self.record_as(now, whose, record);
    }

    /// What was seen of a port whose owner another program is still asked for is kept until it has said so.
    fn kept(&mut self, record: Record) -> Option<Record> {
        let app = match &record {
            Record::Dns(lookup) => lookup.app,
            Record::Udp(flow) => flow.app,
            Record::Flow(_) | Record::Echo(_) => return Some(record),
        };
        let Teller::Program(told) = &mut self.teller else { return Some(record) };
        let mapping = self.by_port.get(&app);
        let whose = mapping.and_then(|mapping| self.ports.get(mapping)?.whose.as_ref());
        let (Some(mapping), true) = (mapping, whose.is_some_and(|whose| whose.sought)) else { return Some(record) };
        told.keep(MAPPINGS + mapping.0, record);
        None
    }

    pub(super) fn record_as(&mut self, now: Instant, whose: Whose, record: Record) {
        match (&record, whose.owner, &mut self.accelerator) {
            (Record::Dns(lookup), Some(owner), Some(accelerator)) => {
                accelerator.on_dns_answer(now, &self.poll, owner.user, lookup);
            }
            (Record::Flow(flow), _, Some(accelerator)) => accelerator.has_ended(now, &self.poll, flow),
            _ => {}
        }
        self.tell(whose, record);
    }

    /// Whose a port is, as far as that is known.
    pub(super) fn whose_port(&self, app: SocketAddr) -> Whose {
        let port = self.by_port.get(&app).and_then(|mapping| self.ports.get(mapping));
        let whose = port.and_then(|port| port.whose.clone());
        whose.map(|whose| Whose { sought: false, ..whose }).unwrap_or_default()
    }

    fn tell(&mut self, whose: Whose, record: Record) {
        let Whose { owner, process, sought } = whose;
        let seen = Attributed { record, owner, process };
        match &seen.record {
            Record::Flow(flow) if sought => {
                let flow = flow.id;
                self.held.insert(flow, seen);
            }
            _ => self.hand_over(seen),
        }
    }

    fn hand_over(&mut self, seen: Attributed) {
        if let Some(window) = &mut self.window {
            window.take(&seen);
        }
        (self.sink)(seen);
    }

    /// The process of a socket if it is known at once, and otherwise whether it is being looked for.
    pub(super) fn look_for(
        &mut self,
        flow: FlowId,
        owner: Option<Owner>,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> (Option<Process>, bool) {
        let Some(Owner { inode, .. }) = owner else { return (None, false) };
        let Some(finder) = self.teller.finder() else { return (None, false) };
        let process = finder.at_once(inode);
        let sought = process.is_none() && finder.ask(Question { flow, inode, ends, known: None, options: false });
        (process, sought)
    }

    /// A process has been looked for, and perhaps its socket looked at.
    pub(super) fn found(&mut self, answer: Answer) {
        let Answer { flow, process, options, .. } = answer;
        if let Some(mapping) = flow.0.checked_sub(MAPPINGS) {
            let port = self.ports.get_mut(&MappingId(mapping));
            if let Some(whose) = port.and_then(|port| port.whose.as_mut()) {
                (whose.process, whose.sought) = (process, false);
            }
            return;
        }
        self.attribute(flow, Whose { owner: None, process, sought: false });
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        options.into_iter().for_each(|options| sockets::mirror(&upstream.socket, &options));
    }

    /// It is known whose a connection is; an owner that was known already stays.
    pub(super) fn attribute(&mut self, flow: FlowId, known: Whose) {
        self.tap_known(flow, known.process.as_ref());
        if let Some(mut seen) = self.held.remove(&flow) {
            (seen.owner, seen.process) = (known.owner.or(seen.owner), known.process.or(seen.process.take()));
            return self.hand_over(seen);
        }
        let waiting = self.accelerator.as_mut().and_then(|accelerator| accelerator.waiting(flow));
        let waiting = waiting.map(|waiting| &mut waiting.whose);
        if let Some(whose) = waiting.or_else(|| self.closed.get_mut(&flow)) {
            let process = known.process.or(whose.process.take());
            (whose.owner, whose.process, whose.sought) = (known.owner.or(whose.owner), process, false);
            return;
        }
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        upstream.sought = false;
        upstream.owner = known.owner.or(upstream.owner);
        upstream.process = known.process.or(upstream.process.take());
    }

    /// Starts a lookup of the options of the program's socket.
    pub(super) fn mirror_options(&mut self, flow: FlowId) {
        let is_new = self.know_who_accepted(flow);
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        let Some(owner) = upstream.owner else { return };
        let known = upstream.process.clone().filter(|_| !is_new);
        let ends = Some((upstream.app, upstream.peer));
        if let Some(finder) = self.teller.finder() {
            finder.ask(Question { flow, inode: owner.inode, ends, known, options: true });
        }
    }
}
