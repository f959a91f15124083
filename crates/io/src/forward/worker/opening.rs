//! How connections to peers begin: by a socket to the peer, or by a race over the addresses of its name.

use super::accelerator::{Accelerator, Ended, Waiting};
use super::delivery::Delivery;
use super::{LOOP, Teller, Upstream, Whose, Worker, WorkerError, sockets};
use crate::driver::Hands;
use crate::forward::sockets::Origin;
use crate::host::change::capture::OWN_MARK;
use crate::poll::Interest;
use headstart_core::forward::{Agreed, Failure, FlowId, Input};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// A socket of a connection, and where it leads.
pub(super) struct OpenedSocket {
    pub socket: OwnedFd,
    pub reached: SocketAddr,
    pub connecting: bool,
    pub accelerated: bool,
}

impl Worker {
    /// A program wants a connection whose packets have this traffic class and hop limit, with Nagle's algorithm off or on, and which takes
    /// segments of this length.
    pub(super) fn open(
        &mut self,
        now: Instant,
        (flow, app, peer): (FlowId, SocketAddr, SocketAddr),
        (traffic_class, hop_limit, no_delay, mss): (u8, u8, bool, u16),
    ) {
        self.tap_flow((app, peer), flow);
        if self.is_own(app, peer) {
            self.came_back(&format!("a connection of the forwarder to {peer}"));
            return self.unopened(now, flow, Whose::default(), Failure::Here);
        }
        let limit = Some(hop_limit).filter(|limit| *limit != self.default_ttl);
        let shorter = self.mtu.filter(|mtu| u32::from(mss) < sockets::usual_mss(*mtu, peer.is_ipv4())).map(|_| mss);
        let mut whose = None;
        // A program that counts routers, measures segments or has chosen an address wants to know of this way, not of another.
        let chosen = self.addresses.chosen(now, app.ip(), Some(peer.ip()), &self.exit);
        if self.accelerator.is_some() && limit.is_none() && shorter.is_none() && chosen.is_none() {
            let known = self.identify(now, flow, app, peer);
            let waiting = Waiting { flow, app, peer, traffic_class, no_delay, whose: known.clone() };
            if self.race(now, waiting) {
                return;
            }
            whose = Some(known);
        }
        let wanted = (traffic_class, limit, no_delay, shorter);
        let began = self.begin(now, (app, peer), chosen, wanted);
        self.began(now, (flow, app, peer), whose, began);
    }

    /// Begins to connect to `peer` for a program that is at `app`, whose address it has chosen or not.
    fn begin(
        &mut self,
        now: Instant,
        (app, peer): (SocketAddr, SocketAddr),
        address: Option<IpAddr>,
        wanted: sockets::Wanted,
    ) -> Result<OwnedFd, Errno> {
        let beside = self.ends.latest(app).and_then(|flow| self.upstreams.get(&flow));
        let beside = beside.map(|upstream| upstream.socket.as_fd());
        let origin = Origin { port: app.port(), address, beside, was_left: self.ends.was_left(now, app) };
        sockets::begin(peer, origin, wanted, (&mut self.stock, &self.exit))
    }

    /// What it sends is led back to it: nothing is forwarded any more.
    pub(super) fn came_back(&mut self, what: &str) {
        let way_out = format!(
            "{what} was led into the interface: exclude it, by --protect or by a rule such as \
             `ip rule add fwmark {OWN_MARK} lookup main` (which needs CAP_NET_ADMIN here)"
        );
        self.lost = Some(WorkerError { what: LOOP, source: io::Error::other(way_out) });
    }

    /// Whether a program's connection is one of ours, led back.
    fn is_own(&self, app: SocketAddr, peer: SocketAddr) -> bool {
        let flow = self.own.as_ref().and_then(|own| own.get(&app));
        flow.and_then(|flow| self.upstreams.get(flow)).is_some_and(|upstream| upstream.reached == peer)
    }

    /// Whose connection this is, as far as that is known at once.
    pub(super) fn identify(&mut self, now: Instant, flow: FlowId, app: SocketAddr, peer: SocketAddr) -> Whose {
        let owner = match &mut self.teller {
            Teller::Kernel { owners, .. } => owners.of_tcp(app, peer).ok().flatten(),
            Teller::Program(told) => {
                let sought = told.ask(now, flow.0, true, app, peer);
                return Whose { sought, ..Whose::default() };
            }
        };
        let (process, sought) = self.look_for(flow, owner, Some((app, peer)));
        Whose { owner, process, sought }
    }

    fn began(
        &mut self,
        now: Instant,
        (flow, app, peer): (FlowId, SocketAddr, SocketAddr),
        whose: Option<Whose>,
        began: Result<OwnedFd, Errno>,
    ) {
        // Neighbours have answered by now: a look at the socket is less than a turn of the event loop, and tells when that was.
        let there = |socket: &OwnedFd| rustix::net::getpeername(socket).is_ok_and(|peer| peer.is_some());
        let at_once = began.as_ref().is_ok_and(there).then(|| self.clock.now());
        // Asked while the SYN is on its way, which takes longer.
        let whose = whose.unwrap_or_else(|| self.identify(now, flow, app, peer));
        let socket = match began {
            Ok(socket) => socket,
            Err(errno) => return self.unopened(now, flow, whose, sockets::failure(errno)),
        };
        let connected = at_once.or_else(|| there(&socket).then(|| self.clock.now()));
        let (connecting, agreed) = (connected.is_none(), connected.map(|_| sockets::agreed(&socket)));
        self.insert((flow, app, peer), whose, OpenedSocket { socket, reached: peer, connecting, accelerated: false });
        if let Some((at, agreed)) = connected.zip(agreed) {
            self.connected(at, flow, agreed);
            self.has_opened(at, flow);
        }
        // Only now, when the program has its answer. What has happened until now is told by this, too.
        let Some(upstream) = self.upstreams.get(&flow) else { return };
        if self.poll.add(&upstream.socket, flow.0, Interest::Changes).is_err() {
            self.feed(now, Input::Failed { flow, why: Failure::Here });
        }
        // While the program wakes up: the next SYN may be there before this thread waits here, and finds a socket.
        if connected.is_some() {
            self.stock.refill(&self.exit);
        }
    }

    /// A connection is open, and its kernels have agreed on this.
    pub(super) fn connected(&mut self, now: Instant, flow: FlowId, (mss, agreed): (Option<u16>, Agreed)) {
        self.forwarder.handle_input(now, Input::Agreed { flow, agreed });
        self.feed(now, Input::Connected { flow, mss });
    }

    /// Only now, when the program has its answer: how long the handshake took is known for as long as nothing was said.
    pub(super) fn has_opened(&mut self, now: Instant, flow: FlowId) {
        let Some(upstream) = self.upstreams.get(&flow) else { return };
        sockets::opened(&upstream.socket, upstream.reached.is_ipv4());
        if let Some(took) = sockets::handshake(&upstream.socket) {
            self.forwarder.handle_input(now, Input::Handshake { flow, took });
        }
        self.look_at_path(now, flow);
    }

    /// What the kernel has learned of a connection's path, the program's kernel learns too.
    pub(super) fn look_at_path(&mut self, now: Instant, flow: FlowId) {
        let Some(upstream) = self.upstreams.get_mut(&flow).filter(|upstream| !upstream.accelerated) else { return };
        let known = sockets::path_mtu(&upstream.socket, upstream.reached.is_ipv4());
        if let Some(mtu) = known.filter(|mtu| *mtu < upstream.path_mtu) {
            upstream.path_mtu = mtu;
            self.forwarder.handle_input(now, Input::PathMtu { flow, mtu });
        }
    }

    /// What was not opened has an owner all the same.
    fn unopened(&mut self, now: Instant, flow: FlowId, whose: Whose, why: Failure) {
        self.closed.insert(flow, whose);
        self.forwarder.handle_input(now, Input::Failed { flow, why });
    }

    pub(super) fn insert(
        &mut self,
        (flow, app, peer): (FlowId, SocketAddr, SocketAddr),
        Whose { owner, process, sought }: Whose,
        OpenedSocket { socket, reached, connecting, accelerated }: OpenedSocket,
    ) {
        let upstream = Upstream {
            socket,
            app,
            peer,
            reached,
            accelerated,
            connecting,
            readable: false,
            ending: false,
            ended: false,
            shut: false,
            broken: None,
            urgent: false,
            queued: false,
            owner,
            process,
            sought,
            called: false,
            request: None,
            delivery: Delivery::default(),
            path_mtu: u32::MAX,
        };
        if let Some(own) = &mut self.own
            && let Some(local) = sockets::local(&upstream.socket)
        {
            own.insert(local, flow);
        }
        self.ends.begin(app, flow);
        self.upstreams.insert(flow, upstream);
        if !connecting {
            self.time(flow);
        }
    }

    /// Begins a race for a connection, if there is anything to race; whether there is. Where another program is asked whose it is, it waits
    /// for the answer.
    pub(super) fn race(&mut self, now: Instant, waiting: Waiting) -> bool {
        let Some(accelerator) = &mut self.accelerator else { return false };
        let Some(owner) = waiting.whose.owner else {
            let (Teller::Program(told), true) = (&mut self.teller, waiting.whose.sought) else { return false };
            let peer = waiting.peer.ip();
            let is_known = accelerator.anyone_knows_another(peer) || told.may_be_known(peer);
            let may_race = is_known || accelerator.is_ahead_of_anyone(now, waiting.peer);
            if may_race {
                told.hold(now, waiting);
            }
            return may_race;
        };
        let knows_another = accelerator.knows_another(now, &self.poll, owner.user, waiting.peer.ip());
        if !knows_another && !accelerator.is_ahead(now, owner.user, waiting.peer) {
            accelerator.goes_itself(now, &self.poll, owner.user, waiting.peer);
            return false;
        }
        accelerator.race(now, &self.poll, owner.user, waiting);
        self.raced(now);
        true
    }

    /// Something has happened to an attempt of a race.
    pub(super) fn attempt(&mut self, now: Instant, number: u64) {
        let Some(accelerator) = &mut self.accelerator else { return };
        accelerator.event(now, &self.poll, number);
        self.raced(now);
        self.drain(now);
    }

    /// Time has passed for races.
    pub(super) fn race_timeout(&mut self, now: Instant) {
        let Some(accelerator) = &mut self.accelerator else { return };
        accelerator.timeout(now, &self.poll);
        self.raced(now);
        self.drain(now);
    }

    /// Removes the connection that waits for the race of `flow`, and returns it.
    pub(super) fn abandon(&mut self, now: Instant, flow: FlowId) -> Option<Waiting> {
        if let Some(waiting) = self.teller.attribution().and_then(|told| told.release(flow)) {
            return Some(waiting);
        }
        self.accelerator.as_mut()?.abandon(now, &self.poll, flow)
    }

    /// Tells the forwarder of the races that have ended. Only now is a program answered.
    pub(super) fn raced(&mut self, now: Instant) {
        while let Some((waiting, how)) = self.accelerator.as_mut().and_then(Accelerator::ended) {
            let Waiting { flow, app, peer, traffic_class, no_delay, whose } = waiting;
            match how {
                Ended::Connected(socket, to, ahead) => {
                    if self.poll.add(&socket, flow.0, Interest::Changes).is_err() {
                        self.unopened(now, flow, whose, Failure::Here);
                        continue;
                    }
                    // Attempts are all alike; from here on it is the program's.
                    if traffic_class != 0 {
                        let _ = sockets::mark(&socket, to.is_ipv4(), traffic_class);
                    }
                    if !no_delay {
                        let _ = sockopt::set_tcp_nodelay(&socket, false);
                    }
                    let (mss, agreed) = sockets::agreed(&socket);
                    let way = OpenedSocket { socket, reached: to, connecting: false, accelerated: true };
                    self.insert((flow, app, peer), whose, way);
                    self.forwarder.handle_input(now, Input::Accelerated { flow, to, ahead });
                    self.forwarder.handle_input(now, Input::Agreed { flow, agreed });
                    self.forwarder.handle_input(now, Input::Connected { flow, mss });
                }
                Ended::Failed(errno) => self.unopened(now, flow, whose, sockets::failure(errno)),
                Ended::NotRun => {
                    self.open_as_asked(now, Waiting { flow, app, peer, traffic_class, no_delay, whose });
                }
            }
        }
    }

    /// Opens the very connection that a program wants, which has waited for a race.
    pub(super) fn open_as_asked(&mut self, now: Instant, waiting: Waiting) {
        let Waiting { flow, app, peer, traffic_class, no_delay, whose } = waiting;
        let wanted = (traffic_class, None, no_delay, None);
        let began = self.begin(now, (app, peer), None, wanted);
        self.began(now, (flow, app, peer), Some(whose), began);
    }

    /// A connection that is not opened yet.
    pub(super) fn waiting(&mut self, flow: FlowId) -> Option<&mut Waiting> {
        let told = self.teller.attribution().and_then(|told| told.waiting(flow));
        told.or_else(|| self.accelerator.as_mut()?.waiting(flow))
    }
}
