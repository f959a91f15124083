//! Whose connections are, and who is told what was seen of them.

use super::{Seen, Worker, sockets};
use crate::forward::owner::Process;
use headstart_core::forward::{Flow, FlowId, Record};
use rustix::net::sockopt;

impl Worker {
    /// Records connections as they are.
    pub(super) fn record_open(&mut self) {
        let open: Vec<Flow> = self.forwarder.open().into_iter().cloned().collect();
        for mut flow in open {
            let Some(upstream) = self.upstreams.get(&flow.id) else { continue };
            flow.facts = (!upstream.connecting).then(|| sockets::facts(&upstream.socket)).flatten();
            self.identify(flow.id);
            let whose = self.upstreams.get(&flow.id).map(|upstream| (upstream.owner, upstream.process.clone()));
            let (owner, process) = whose.unwrap_or_default();
            (self.sink)(Seen { record: Record::Flow(Box::new(flow)), owner, process });
        }
    }

    pub(super) fn record(&mut self, record: Record) {
        let whose = match &record {
            Record::Flow(flow) => self.closed.remove(&flow.id),
            Record::Dns(_) => None,
        };
        let (owner, process) = whose.unwrap_or_default();
        (self.sink)(Seen { record, owner, process });
    }

    /// Finds out whose a connection is, when there is nothing better to do.
    pub(super) fn identify(&mut self, flow: FlowId) {
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        if upstream.process.is_none()
            && let Some(owner) = upstream.owner
        {
            upstream.process = self.owners.process(owner.inode);
        }
    }

    pub(super) fn mirror_delay(&mut self, flow: FlowId) {
        self.identify(flow);
        let Some(upstream) = self.upstreams.get(&flow) else { return };
        if let Some(no_delay) = upstream.process.as_ref().and_then(Process::no_delay) {
            let _ = sockopt::set_tcp_nodelay(&upstream.socket, no_delay);
        }
    }
}
