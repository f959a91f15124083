//! A browser in virtual time: it loads pages over the link models and counts bytes instead of making them.
//!
//! A [`Browser`] is one host for a while, as a session is: below it the connector with some race, the kernel's handshakes
//! and the access link. It asks for objects when what they wait for is there, holds six connections an origin over HTTP/1.1
//! and one over HTTP/2 and HTTP/3, and everything that it moves shares the link. A later visit is the same browser loading the page
//! again with an empty cache of objects and no open connection: what it has kept is what the connector keeps.
//!
//! Over QUIC a connection is there when its name is known, and its first flight is TLS's: a round trip less than over TCP. A
//! browser is taken to know which origins speak HTTP/3; [`Page::over_tcp`] is the page of one that does not.
//!
//! Not modelled: the time that computers compute (it is in the page's gaps), resumption of TLS, coalescing of origins; of QUIC,
//! its headers (those of TCP are about as long), streams that overtake a lost packet of another, and the round trip after which a
//! host that does not listen is left for the next address.

mod chromium;
mod connection;
mod critical;
mod dial;
#[cfg(test)]
mod tests;
mod visit;

use super::channels::{Channels, Steering};
use super::company::{Company, Delays, Wanted};
use super::servers::Servers;
use super::stack::{Event, Stack, Traffic};
use super::transfer::SEGMENT;
use crate::page::{Dependency, Page};
use crate::world::World;
pub use critical::Parts;
use dial::Dialler;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, race};
use headstart_core::cwnd::start;
use headstart_core::path::NetworkId;
use headstart_core::realtime::technique::UnknownTechnique;
use headstart_core::steer::Tally;
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use std::net::IpAddr;
use visit::Visit;

/// Connections an origin over HTTP/1.1: Chromium, Firefox and Safari alike.
const CONNECTIONS: usize = 6;

/// From a browser's launch to its first request: less than Chromium takes. On two idle cores a load by a new process took 1.4 s
/// longer than one by a process that was there. Nothing of it counts as load time; knowing what browsers ask for, headstart has
/// the time to get it ready.
const STARTS: Duration = Duration::from_millis(250);

/// How a browser gets connected.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    /// Its name in tables.
    pub name: &'static str,
    /// By which race.
    pub race: &'static race::Entry,
    /// How long answers are kept from one visit to the next.
    pub lifetime: Lifetime,
    /// What is done before the browser asks.
    pub ahead: Ahead,
    /// Names and connections cost nothing: every one is there when it is asked for, the nearest address of a host. This is not
    /// possible; it says what there is to gain below a browser. TLS is the browser's, and takes as long as it takes.
    pub ready: bool,
}

impl Arm {
    /// A modern browser by itself.
    pub const BARE: Self =
        Self { name: "bare", race: &chromium::ENTRY, lifetime: Lifetime::Ttl, ahead: Ahead::OFF, ready: false };
    /// An arm that is not possible: see [`Arm::ready`].
    pub const READY: Self = Self { name: "ready", ready: true, ..Self::BARE };
}

/// A page load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// From the start until the load event: until the last object has arrived that holds it up.
    pub time: Duration,
    /// Until the last object of all has arrived.
    pub whole: Duration,
    /// The objects, in the order of the page.
    pub objects: Vec<Timing>,
    /// Connections that were used.
    pub connections: usize,
    /// The host and the address of each of them, host by host.
    pub reached: Vec<(usize, IpAddr)>,
}

/// When what happened to an object, from the start of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// It was wanted.
    pub wanted: Duration,
    /// Its request was sent, after waiting for a connection.
    pub sent: Duration,
    /// Of that wait, what went into the connection that carries it: looking up the name, connecting, TLS.
    pub opening: [Duration; 3],
    /// Its first byte was there.
    pub first_byte: Duration,
    /// All of it was there, or it was given up.
    pub end: Duration,
    /// No server could be reached for it.
    pub failed: bool,
}

/// A browser. See the module.
pub struct Browser {
    stack: Stack,
    dialler: Dialler,
    segment: u64,
    servers: Option<Servers>,
    company: Option<Company>,
    /// What was sent and received, and on which channels, in places that were left.
    before: (Traffic, [u64; 2]),
}

impl Browser {
    /// A browser that has never loaded anything. The hosts of its pages are the sites of `world`, in that order.
    pub fn new(world: &World, arm: Arm, seed: u64) -> Result<Self, ParseError> {
        let (stack, dialler) = (Stack::new(world)?, Dialler::new(world, arm, seed)?);
        Ok(Self { stack, dialler, segment: SEGMENT, servers: None, company: None, before: Default::default() })
    }

    /// The same behind two channels in the place of the world's link.
    pub fn steered(world: &World, arm: Arm, seed: u64, steering: &Steering) -> Result<Self, ParseError> {
        let (stack, dialler) = (Stack::steered(world, steering)?, Dialler::new(world, arm, seed)?);
        let segment = steering.segment();
        Ok(Self { stack, dialler, segment, servers: None, company: None, before: Default::default() })
    }

    /// The same before servers whose windows are those of `core::cwnd`, started by `rule`; they remember from load to load.
    #[must_use]
    pub fn before(self, rule: &'static start::Entry, world: &World) -> Self {
        Self { servers: Some(Servers::new(rule, world.sites.len())), ..self }
    }

    /// The host goes to another place: `world` has the same sites behind another link, or behind two channels. What is
    /// remembered goes with it. `place` is its name there, for the connector and for servers.
    pub fn move_to(&mut self, place: u8, world: &World, steering: Option<&Steering>) -> Result<(), ParseError> {
        let stack = match steering {
            Some(steering) => Stack::steered(world, steering)?,
            None => Stack::new(world)?,
        };
        self.before = (self.traffic(), self.channel_bytes());
        self.segment = steering.map_or(SEGMENT, Steering::segment);
        self.stack = stack.starting(self.stack.now());
        self.dialler.moved(&mut self.stack, world, NetworkId(place.into()));
        if let Some(servers) = &mut self.servers {
            servers.client_moves(place);
        }
        Ok(())
    }

    /// Times that the connector woke up by itself, calls and answers apart.
    pub fn wakeups(&self) -> u64 {
        self.dialler.wakeups
    }

    /// Bytes on the fat and on the fast channel so far, both directions together; nothing of a browser with one link.
    pub fn channel_bytes(&self) -> [u64; 2] {
        let [fat, fast] = self.stack.channels().map_or([0; 2], Channels::bytes);
        [self.before.1[0] + fat, self.before.1[1] + fast]
    }

    /// What was decided, up and down; nothing of a browser with one link.
    pub fn decided(&self) -> Option<[Tally; 2]> {
        self.stack.channels().map(Channels::tallies)
    }

    /// What was sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.before.0 + self.stack.traffic()
    }

    /// Connections that were opened and never used.
    pub fn unused(&self) -> u64 {
        self.dialler.unused()
    }

    /// Nothing is loaded for this long.
    pub fn idle(&mut self, time: Duration) {
        let until = self.stack.now() + time;
        while self.stack.now() < until {
            let company = self.company.as_ref().and_then(Company::deadline);
            let wake = self.dialler.deadline().into_iter().chain(company).min();
            let wake = wake.map_or(until, |at| at.min(until).max(self.stack.now()));
            match (self.stack.step(wake), &mut self.company) {
                (Some(Event::Company(carried)), Some(company)) => company.arrived(self.stack.now(), carried),
                (Some(event), _) => self.dialler.notice(&mut self.stack, &event),
                (None, company) => {
                    if let Some(company) = company {
                        company.handle_timeout(self.stack.now());
                    }
                    self.dialler.handle_timeout(&mut self.stack);
                }
            }
            self.send_company();
        }
        self.dialler.forget_calls();
    }

    /// As [`Self::idle`], with channels that are probed for as long as they are there, as a host probes them.
    pub fn rest(&mut self, time: Duration) {
        self.stack.probe_at_rest(true);
        self.idle(time);
        self.stack.probe_at_rest(false);
    }

    /// A call or messages for this long, and nothing else.
    pub fn converse(&mut self, time: Duration, wanted: &Wanted) -> Result<Delays, UnknownTechnique> {
        self.company = Some(Company::new(self.stack.now(), wanted)?);
        self.idle(time);
        let delays = self.company.take().map(|company| company.delays(self.stack.now()));
        Ok(delays.unwrap_or_default())
    }

    fn send_company(&mut self) {
        while let Some(carried) = self.company.as_mut().and_then(Company::poll_output) {
            self.stack.send_company(carried);
        }
    }

    /// Starts, and loads `page` with an empty cache; the times are those since its first request.
    ///
    /// # Panics
    ///
    /// If the world has fewer sites than the page hosts, or the page does not pass [`Page::check`].
    pub fn load(&mut self, page: &Page, by: Dependency) -> Load {
        self.dialler.begin(&mut self.stack);
        self.idle(STARTS);
        let mut visit = Visit::new(page, by, self.stack.now(), self.segment);
        visit.servers = self.servers.take();
        visit.want_roots();
        while visit.open > 0 {
            self.turn(&mut visit);
        }
        self.dialler.end(&mut self.stack);
        visit.close(self.stack.now());
        self.servers = visit.servers.take();
        visit.finish()
    }

    /// The same beside a call or messages, which begin with the load and end with it.
    ///
    /// # Panics
    ///
    /// As [`Self::load`].
    pub fn load_beside(
        &mut self,
        page: &Page,
        by: Dependency,
        wanted: &Wanted,
    ) -> Result<(Load, Delays), UnknownTechnique> {
        self.company = Some(Company::new(self.stack.now(), wanted)?);
        let load = self.load(page, by);
        let delays = self.company.take().map(|company| company.delays(self.stack.now()));
        Ok((load, delays.unwrap_or_default()))
    }

    /// One event of the network, or one deadline.
    fn turn(&mut self, visit: &mut Visit<'_>) {
        let now = self.stack.now();
        let due = visit.agenda.first_key_value().map(|(key, _)| key.0);
        let timer = visit.timers.first().map(|key| key.0);
        let company = self.company.as_ref().and_then(Company::deadline);
        let wake = [due, timer, company, self.dialler.deadline()].into_iter().flatten().min();
        let event = self.stack.step(wake.map_or(Instant::FAR_FUTURE, |at| at.max(now)));
        let now = self.stack.now();
        match event {
            Some(Event::Segment(segment)) => visit.receive(now, &segment),
            Some(Event::Company(carried)) => {
                if let Some(company) = &mut self.company {
                    company.arrived(now, carried);
                }
            }
            Some(event) => {
                self.dialler.notice(&mut self.stack, &event);
            }
            None if wake.is_none() => visit.give_up(now),
            None => {
                while let Some(entry) = visit.agenda.first_entry().filter(|e| e.key().0 <= now) {
                    let due = entry.remove();
                    visit.carry_out(now, due);
                }
                while visit.timers.first().is_some_and(|(at, _)| *at <= now) {
                    if let Some((_, socket)) = visit.timers.pop_first() {
                        visit.timed_out(now, socket);
                    }
                }
                if let Some(company) = &mut self.company {
                    company.handle_timeout(now);
                }
                self.dialler.handle_timeout(&mut self.stack);
            }
        }
        self.send_company();
        while let Some(host) = visit.dials.pop() {
            let state = &visit.hosts[host];
            self.dialler.dial(&mut self.stack, host, &state.addresses, state.over_quic());
        }
        while let Some(dialled) = self.dialler.done() {
            visit.dialled(now, dialled);
        }
        for segment in visit.out.drain(..) {
            self.stack.send_segment(segment);
        }
    }
}
