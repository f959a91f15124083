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
#[cfg(test)]
mod tests;
mod visit;

use super::channels::{Channels, Steering};
use super::company::{Company, Delays, Wanted};
use super::dial::{Call, Dialler};
use super::driver::Driven;
use super::faster;
use super::servers::Servers;
use super::stack::{Event, Stack, Traffic};
use super::transfer::SEGMENT;
use crate::page::{Dependency, Page};
use crate::world::World;
pub use critical::Parts;
use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::{Ahead, Settings, race};
use headstart_core::cwnd::start;
use headstart_core::machine::Machine;
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

/// The program, as the connector knows it.
const PROGRAM: &str = "browser";

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
        Self::over(Stack::new(world)?, SEGMENT, world, arm, seed)
    }

    /// The same behind two channels in the place of the world's link.
    pub fn steered(world: &World, arm: Arm, seed: u64, steering: &Steering) -> Result<Self, ParseError> {
        Self::over(Stack::steered(world, steering)?, steering.segment(), world, arm, seed)
    }

    fn over(stack: Stack, segment: u64, world: &World, arm: Arm, seed: u64) -> Result<Self, ParseError> {
        let settings = Settings {
            lifetime: arm.lifetime,
            ahead: arm.ahead,
            faster: faster(world, arm.lifetime)?,
            seed,
            ..Settings::of(arm.race)
        };
        let dialler = Dialler::new(world, settings, PROGRAM).ready(arm.ready);
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
        self.dialler.moved(self.stack.now(), world, place);
        self.carry_out();
        self.dialler.forget_calls();
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
        Busy { browser: self, visit: None }.run(until, |busy| busy.browser.stack.now() >= until);
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

    fn carry_out(&mut self) {
        while let Some(output) = self.dialler.poll_output() {
            self.stack.act(&output);
        }
    }

    /// Does what a visit asks for.
    fn go_on(&mut self, now: Instant, visit: &mut Visit<'_>) {
        while let Some(host) = visit.dials.pop() {
            let state = &visit.hosts[host];
            let (over_quic, addresses) = (state.over_quic(), state.addresses.clone());
            self.dialler.dial(now, Call { over_quic, addresses, ..Call::new(now, host, host) });
        }
        self.carry_out();
        while let Some(call) = self.dialler.done() {
            visit.dialled(now, call);
        }
        for segment in visit.out.drain(..) {
            self.stack.send_segment(segment);
        }
    }

    /// Starts, and loads `page` with an empty cache; the times are those since its first request.
    ///
    /// # Panics
    ///
    /// If the world has fewer sites than the page hosts, or the page does not pass [`Page::check`].
    pub fn load(&mut self, page: &Page, by: Dependency) -> Load {
        self.dialler.launched(self.stack.now(), PROGRAM);
        self.carry_out();
        self.idle(STARTS);
        let mut visit = Visit::new(page, by, self.stack.now(), self.segment);
        visit.servers = self.servers.take();
        visit.want_roots();
        let mut busy = Busy { browser: self, visit: Some(&mut visit) };
        busy.run(Instant::FAR_FUTURE, |busy| busy.visit.as_ref().is_none_or(|visit| visit.open == 0));
        // Nothing is to come that could still hold it up.
        visit.give_up(self.stack.now());
        self.dialler.ended(self.stack.now());
        self.carry_out();
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
}

/// A browser for a while, with the page that it loads, if any.
struct Busy<'b, 'p> {
    browser: &'b mut Browser,
    visit: Option<&'b mut Visit<'p>>,
}

impl Driven for Busy<'_, '_> {
    fn deadline(&mut self) -> Option<Instant> {
        let Browser { stack, dialler, company, .. } = &mut *self.browser;
        let visit = self.visit.as_ref().and_then(|visit| visit.deadline());
        let company = company.as_ref().and_then(Company::deadline);
        let connector = dialler.poll_timeout().map(|d| d.at);
        [stack.deadline(), visit, company, connector].into_iter().flatten().min()
    }

    /// One event of the network, or all that is due without one.
    fn woken(&mut self, now: Instant) {
        let Browser { stack, dialler, company, .. } = &mut *self.browser;
        let (event, now) = (stack.step(now), stack.now());
        match (event, &mut self.visit, company) {
            (Some(Event::Segment(segment)), Some(visit), _) => visit.receive(now, &segment),
            (Some(Event::Company(carried)), _, Some(company)) => company.arrived(now, carried),
            (Some(event), ..) => dialler.handle_input(now, event),
            (None, visit, company) => {
                if let Some(visit) = visit {
                    visit.handle_timeout(now);
                }
                if let Some(company) = company {
                    company.handle_timeout(now);
                }
                dialler.handle_timeout(now);
            }
        }
        self.browser.carry_out();
        while let Some(carried) = self.browser.company.as_mut().and_then(Company::poll_output) {
            self.browser.stack.send_company(carried);
        }
        if let Some(visit) = &mut self.visit {
            self.browser.go_on(now, visit);
        }
    }
}
