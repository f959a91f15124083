//! Programs that are called from outside: their ports, connections that peers have opened, and ports of datagrams ([`Inbound`]).

use super::neighbours::Neighbours;
use super::opening::OpenedSocket;
use super::{BATCH, CALLED, LISTENS, Teller, Worker, WorkerError, failed, sockets};
use crate::driver::Hands;
use crate::forward::inbound::{Call, Heard, Inbound, Offered, Wanted};
use crate::forward::sockets::Origin;
use crate::poll::Interest;
use headstart_core::forward::{Failure, FlowId, Input, MappingId};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use rustix::net::sockopt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

impl Worker {
    /// Carries calls from outside to programs from now on.
    pub fn carry_calls(&mut self, inbound: Inbound) -> Result<(), WorkerError> {
        self.poll.add(&inbound, LISTENS, Interest::Read).map_err(failed("listening for programs that listen"))?;
        let inside = inbound.inside().map_err(failed("the namespace of programs that listen"))?;
        self.neighbours = Some(Neighbours::new(inside));
        self.inbound = Some(inbound);
        Ok(())
    }

    /// What programs listen on and is reachable by another port, or not at all.
    pub fn moved(&self) -> &[Offered] {
        self.inbound.as_ref().map_or(&[], Inbound::moved)
    }

    /// A program is about to listen, or to bind a port.
    pub(super) fn listens(&mut self, now: Instant) {
        let Some(inbound) = &mut self.inbound else { return };
        match inbound.heard(now) {
            Heard::Over => self.poll.remove(&*inbound),
            Heard::Nothing => {}
            Heard::Listens(opened) => self.listen_to(&opened),
            Heard::Binds(call, wanted) => {
                for one in wanted {
                    let open = self.open_bound(now, one);
                    self.inbound.iter_mut().for_each(|inbound| inbound.has_opened(now, one, open));
                }
                self.inbound.iter().for_each(|inbound| inbound.go_on(call));
            }
        }
    }

    /// Opens outside what a program has bound: its name, and where it is open.
    fn open_bound(&mut self, now: Instant, wanted: Wanted) -> Option<(MappingId, SocketAddr)> {
        let Wanted { app, scope, .. } = wanted;
        let (mapping, is_new) = self.forwarder.bound(now, app)?;
        self.drain(now);
        if is_new {
            let origin = (app.is_ipv4(), Origin { port: app.port(), address: scope, ..Origin::default() });
            self.insert_port(now, mapping, app, (origin, 0));
        }
        self.drain(now);
        let port = self.ports.get_mut(&mapping)?;
        port.is_bound = true;
        Some((mapping, sockets::local(&port.socket)?))
    }

    /// A program's kernel has refused a datagram: perhaps no program has bound that port any more.
    pub(super) fn look_for_the_unbound(&mut self, now: Instant) {
        self.inbound.iter_mut().for_each(|inbound| inbound.look_soon(now));
    }

    fn listen_to(&self, numbers: &[u32]) {
        let Some(inbound) = &self.inbound else { return };
        for number in numbers {
            // What cannot be listened to is not reached.
            let listener = inbound.listener(*number);
            let _ = listener.map(|listener| self.poll.add(listener, CALLED + u64::from(*number), Interest::Read));
        }
    }

    /// Closes what no program listens on any more.
    pub(super) fn look_who_listens(&mut self, now: Instant) {
        let looked = self.inbound.as_mut().map(|inbound| inbound.look(now)).unwrap_or_default();
        self.listen_to(&looked.rested);
        for mapping in looked.unbound {
            self.forwarder.unbound(mapping);
            self.drain(now);
        }
    }

    /// Peers have opened connections to a port.
    pub(super) fn accept_calls(&mut self, now: Instant, number: u64) {
        let Ok(number) = u32::try_from(number) else { return };
        for _ in 0..BATCH {
            let Some(call) = self.inbound.as_mut().and_then(|inbound| inbound.accept(now, number)) else { break };
            if let Call::Outside { socket, app, peer } = call {
                self.call(now, socket, app, peer);
            }
        }
        if let Some(inbound) = self.inbound.as_ref().filter(|inbound| inbound.rests(number))
            && let Some(listener) = inbound.listener(number)
        {
            self.poll.remove(listener);
        }
    }

    /// A peer has called a program.
    fn call(&mut self, now: Instant, socket: OwnedFd, app: SocketAddr, peer: SocketAddr) {
        let ready = sockets::ready(&socket, &self.exit).and_then(|()| rustix::io::ioctl_fionbio(&socket, true));
        let flow = ready.ok().and_then(|()| self.forwarder.call(now, app, peer, sockets::agreed(&socket)));
        let Some(flow) = flow else {
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
            return;
        };
        self.tap_flow((app, peer), flow);
        let whose = self.identify(now, flow, app, peer);
        self.insert(
            (flow, app, peer),
            whose,
            OpenedSocket { socket, reached: peer, connecting: false, accelerated: false },
        );
        let Some(upstream) = self.upstreams.get_mut(&flow) else { return };
        upstream.called = true;
        if self.poll.add(&upstream.socket, flow.0, Interest::Changes).is_err() {
            self.forwarder.handle_input(now, Input::Failed { flow, why: Failure::Here });
        }
        self.drain(now);
    }

    /// The socket that has accepted a call is another than the one that listens, and perhaps another process's. When the program speaks
    /// there is one: whether it is known only now.
    pub(super) fn know_who_accepted(&mut self, flow: FlowId) -> bool {
        let Some(upstream) = self.upstreams.get_mut(&flow).filter(|upstream| upstream.called) else { return false };
        upstream.called = false;
        let Teller::Kernel { owners, .. } = &mut self.teller else { return false };
        let owner = owners.of_tcp(upstream.app, upstream.peer).ok().flatten();
        // Whoever listens is its program until another one is found.
        upstream.owner = owner.or(upstream.owner);
        owner.is_some()
    }
}
