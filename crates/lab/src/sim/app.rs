//! A host with apps that are launched again and again: many names at once, each looked up and connected to when the app
//! wants it, whether the last is done or not. Below it the very `Connector` that the supervisor runs.
//!
//! Each connection is wanted as any program wants one ([`super::dial`]). What is not modelled is what is not in [`super`]; servers close
//! no connection here.

use super::behind::Behind;
use super::dial::{self, Call, Dialler};
use super::driver::Driven;
use super::stack::{Stack, Traffic};
use crate::world::World;
use headstart_core::connect::{self, Output, Tally};
use headstart_core::machine::Machine;
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;

/// A connection that an app wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How long after its launch.
    pub at: Duration,
    /// To which site of the world.
    pub site: usize,
}

/// What became of a wish, as the app saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Until there was an address to go on: the first attempt for it, or the answer to getaddrinfo if that came first.
    pub lookup: Duration,
    /// From then until there was a connection, or none to be had.
    pub connect: Duration,
    /// getaddrinfo was answered at once.
    pub hit: bool,
    /// connect was answered at once: not even one round trip.
    pub at_once: bool,
    /// There was a connection.
    pub connected: bool,
}

/// What a launch came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The wishes, in order.
    pub granted: Vec<Granted>,
    /// When queries were sent, since the launch.
    pub queries: Vec<Duration>,
    /// The connector's own counters for this launch.
    pub tally: Tally,
}

/// The host. See the module.
pub struct AppHost {
    stack: Stack,
    dialler: Dialler,
    /// What is between its programs and the network, on a phone.
    engine: Option<Behind>,
    /// Of the launch that goes on: what has become of each wish, and when queries were sent.
    granted: Vec<Option<Granted>>,
    queries: Vec<Instant>,
    /// Of the networks before this one.
    before: Traffic,
}

impl Driven for AppHost {
    fn deadline(&mut self) -> Option<Instant> {
        let engine = self.engine.as_ref().and_then(|engine| engine.deadline(self.stack.now()));
        let connector = self.dialler.poll_timeout().map(|d| d.at);
        [self.stack.deadline(), engine, connector].into_iter().flatten().min()
    }

    /// One event of the network, or what else is due.
    fn woken(&mut self, now: Instant) {
        let ended = self.engine.as_mut().and_then(Behind::ended);
        let event = ended.or_else(|| self.stack.step(now));
        let (now, has_event) = (self.stack.now(), event.is_some());
        let event = match &mut self.engine {
            Some(engine) => event.and_then(|event| engine.hears(&mut self.stack, event)),
            None => event,
        };
        if let Some(event) = event {
            self.dialler.handle_input(now, event);
        }
        if !has_event {
            if let Some(engine) = &mut self.engine {
                engine.timeout(&mut self.stack);
            }
            self.dialler.handle_timeout(now);
        }
        self.carry_out();
    }
}

impl AppHost {
    /// A host on which no app was ever launched.
    pub fn new(world: &World, settings: connect::Settings) -> Result<Self, ParseError> {
        Ok(Self {
            stack: Stack::new(world)?,
            dialler: Dialler::new(world, settings, ""),
            engine: None,
            granted: Vec::new(),
            queries: Vec::new(),
            before: Traffic::default(),
        })
    }

    /// The same host with an engine of these settings between its apps and the network.
    #[must_use]
    pub fn behind(self, engine: connect::Settings) -> Self {
        Self { engine: Some(Behind::new(engine)), ..self }
    }

    /// The host goes to another network, with routes for both families: `world` has the same sites behind another link.
    pub fn move_to(&mut self, place: u8, world: &World) -> Result<(), ParseError> {
        self.before = self.traffic();
        self.stack = Stack::new(world)?.starting(self.stack.now());
        if let Some(engine) = &mut self.engine {
            engine.moved(&mut self.stack, dial::network(place));
        }
        self.dialler.moved(self.stack.now(), world, place);
        self.carry_out();
        Ok(())
    }

    /// What was sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.before + self.stack.traffic()
    }

    /// Connections that connectors have opened, and that no app has got.
    pub fn unused(&self) -> u64 {
        self.tally().unused + self.engine.as_ref().map_or(0, Behind::unused)
    }

    /// Times that connectors woke up by themselves, calls and answers apart.
    pub fn wakeups(&self) -> u64 {
        self.dialler.wakeups + self.engine.as_ref().map_or(0, |engine| engine.wakeups)
    }

    /// Launches this app, grants its wishes (in order of time), and ends it `stays` after its launch.
    ///
    /// # Panics
    ///
    /// If a wish is for a site that the world does not have.
    pub fn launch(&mut self, app: &str, wishes: &[Wish], stays: Duration) -> Launch {
        let (began, before) = (self.stack.now(), self.tally());
        self.queries.clear();
        self.engine.iter_mut().for_each(|engine| engine.queries.clear());
        self.granted = vec![None; wishes.len()];
        self.dialler.launched(began, app);
        self.carry_out();
        for (n, wish) in wishes.iter().enumerate() {
            self.run(began + wish.at, |_| false);
            let now = self.stack.now();
            self.dialler.dial(now, Call::new(now, n, wish.site));
            self.carry_out();
        }
        self.run(began + stays, |_| false);
        self.run(Instant::FAR_FUTURE, |host| !host.dialler.is_busy());
        assert!(!self.dialler.is_busy(), "nothing is to come, and yet somebody waits at {:?}", self.stack.now());
        let engines = self.engine.iter().flat_map(|engine| &engine.queries);
        let mut queries: Vec<_> = self.queries.iter().chain(engines).map(|at| *at - began).collect();
        queries.sort_unstable();
        self.dialler.ended(self.stack.now());
        self.carry_out();
        let tally = self.tally().since(&before);
        Launch { granted: self.granted.drain(..).flatten().collect(), queries, tally }
    }

    /// No program does anything for this long.
    pub fn idle(&mut self, time: Duration) {
        let until = self.stack.now() + time;
        self.run(until, |_| false);
    }

    /// The counters over all launches.
    pub fn tally(&self) -> Tally {
        self.dialler.connector.tally()
    }

    fn carry_out(&mut self) {
        let (stack, app) = (&mut self.stack, self.dialler.app().clone());
        while let Some(output) = self.dialler.poll_output() {
            match (&mut self.engine, output) {
                (engine, Output::Query { id, name, record, server }) => {
                    if !engine.as_mut().is_some_and(|engine| engine.asks(stack, id.0, &app, &name, record)) {
                        self.queries.push(stack.now());
                        stack.ask(id.0, &name, record, server as usize);
                    }
                }
                (Some(engine), Output::Connect { id, to, .. }) => engine.connect(stack, &app, id.0, to),
                (Some(engine), Output::Close(id)) => engine.close(stack, id.0),
                (_, output) => stack.act(&output),
            }
        }
        let now = self.stack.now();
        while let Some(call) = self.dialler.done() {
            let had_address = call.began + call.lookup();
            self.granted[call.wish] = Some(Granted {
                lookup: call.lookup(),
                connect: now - had_address,
                hit: call.resolved == call.began,
                at_once: call.connected.is_some() && now == call.resolved,
                connected: call.connected.is_some(),
            });
        }
    }
}
