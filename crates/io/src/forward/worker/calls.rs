//! Programs that are called from outside: their ports, and connections that peers have opened ([`Inbound`]).

use super::opening::Way;
use super::{BATCH, CALLED, LISTENS, Teller, Worker, WorkerError, failed, sockets};
use crate::driver::Hands;
use crate::forward::inbound::{Call, Inbound, Offered};
use crate::poll::Interest;
use headstart_core::forward::{Failure, FlowId, Input};
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
        self.inbound = Some(inbound);
        Ok(())
    }

    /// What programs listen on and is reachable by another port, or not at all.
    pub fn moved(&self) -> &[Offered] {
        self.inbound.as_ref().map_or(&[], Inbound::moved)
    }

    /// A program is about to listen.
    pub(super) fn listens(&mut self, now: Instant) {
        let Some(inbound) = &mut self.inbound else { return };
        let (opened, goes_on) = inbound.listens(now);
        if !goes_on {
            self.poll.remove(&*inbound);
        }
        self.listen_to(&opened);
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
        let rested = self.inbound.as_mut().map(|inbound| inbound.look(now)).unwrap_or_default();
        self.listen_to(&rested);
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
        let flow = ready.ok().and_then(|()| self.forwarder.call(now, app, peer, sockets::mss(&socket)));
        let Some(flow) = flow else {
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
            return;
        };
        self.tap_flow((app, peer), flow);
        let whose = self.identify(now, flow, app, peer);
        self.insert((flow, app, peer), whose, Way { socket, reached: peer, connecting: false, accelerated: false });
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
