//! A host for a while: a program that visits names, one after the other, and what is below it.
//!
//! The program is the plainest there is, and that of the lab's own client: getaddrinfo(name, port), then a blocking
//! connect to the first address of the list, on failure to the next (as wget and Python do).

use super::dial::{Call, Dialler};
use super::driver::Driven;
use super::stack::{Event, Stack, Traffic};
use super::{Arm, Settings, faster, glibc};
use crate::world::{Site, World};
use headstart_core::connect::{self, Input, Tally, Want};
use headstart_core::machine::Machine;
use headstart_core::path::record::NetworkRecord;
use headstart_core::path::{Family, NetworkId};
use headstart_core::time::{Duration, Instant};
use headstart_link::ParseError;
use std::net::IpAddr;

/// The program that visits, as the connector knows it.
const PROGRAM: &str = "visitor";

/// One visit: a name looked up and a connection made, as the program saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Until the race had an address to go on: its first attempt, or the answer to getaddrinfo if that came first.
    ///
    /// This is the lookup time that compares with the paper's. A race may begin to connect before it tells the program,
    /// because getaddrinfo tells only once; what is hidden behind a handshake is no lookup time any more.
    pub lookup: Duration,
    /// From then until the program had a connection, or knew that it would get none.
    pub connect: Duration,
    /// How long the program waited in getaddrinfo.
    pub getaddrinfo: Duration,
    /// From the call of getaddrinfo until the program had a connection, or knew that it would get none.
    pub total: Duration,
    /// Of that, what addresses took that the program tried before the one that connected.
    pub in_vain: Duration,
    /// The peer that was reached.
    pub reached: Option<IpAddr>,
    /// Whether getaddrinfo gave addresses.
    pub lookup_ok: bool,
}

/// What a session has cost so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// Packets at the client.
    pub traffic: Traffic,
    /// Visits that ended with a connection.
    pub connections: u64,
    /// Connections that were opened and never used.
    pub unused: u64,
    /// Attempts begun only to learn; contained in the SYNs of the traffic.
    pub explorations: u64,
}

/// One host for a while. See the module.
pub struct Session {
    stack: Stack,
    sites: Vec<Site>,
    /// With headstart; else there are libc and the kernel alone.
    dialler: Option<Dialler>,
    next_query: u64,
    next_socket: u64,
    connections: u64,
    /// The routes that the connector knows of: IPv4, IPv6.
    routes: (bool, bool),
}

impl Driven for Session {
    fn deadline(&mut self) -> Option<Instant> {
        let connector = self.dialler.as_ref().and_then(Dialler::poll_timeout).map(|d| d.at);
        self.stack.deadline().into_iter().chain(connector).min()
    }

    fn woken(&mut self, now: Instant) {
        let (event, now) = (self.stack.step(now), self.stack.now());
        if let Some(dialler) = &mut self.dialler {
            match event {
                Some(event) => dialler.handle_input(now, event),
                None => dialler.handle_timeout(now),
            }
        }
        self.carry_out();
    }
}

impl Session {
    /// A host that has never visited anything.
    pub fn new(world: &World, settings: Settings) -> Result<Self, ParseError> {
        let dialler = match settings.arm {
            Arm::Bare => None,
            Arm::Race(race) => {
                let settings = connect::Settings {
                    lifetime: settings.lifetime,
                    faster: faster(world, settings.lifetime)?,
                    seed: settings.seed,
                    ..connect::Settings::of(race)
                };
                Some(Dialler::new(world, settings, PROGRAM))
            }
        };
        Ok(Self {
            stack: Stack::new(world)?,
            sites: world.sites.clone(),
            dialler,
            next_query: 0,
            next_socket: 0,
            connections: 0,
            routes: (true, true),
        })
    }

    /// What the session has cost so far.
    pub fn spent(&self) -> Spent {
        let tally = self.tally();
        let tally = tally.as_ref();
        Spent {
            traffic: self.stack.traffic(),
            connections: self.connections,
            unused: tally.map_or(0, |t| t.unused),
            explorations: tally.map_or(0, |t| t.explorations),
        }
    }

    /// The connector's own counters; none without headstart.
    pub fn tally(&self) -> Option<Tally> {
        self.dialler.as_ref().map(|dialler| dialler.connector.tally())
    }

    /// What it has learned of networks, as old as it is now; nothing without headstart.
    pub fn learned(&self) -> Vec<NetworkRecord> {
        self.dialler.as_ref().map_or_else(Vec::new, |dialler| dialler.connector.networks(self.stack.now()))
    }

    /// Takes in what another host has learned.
    pub fn take_prior(&mut self, records: &[NetworkRecord]) {
        if let Some(dialler) = &mut self.dialler {
            dialler.connector.take_prior(self.stack.now(), records);
        }
    }

    /// Nothing is visited for this long.
    pub fn idle(&mut self, time: Duration) {
        let until = self.stack.now() + time;
        self.run(until, |session| session.stack.now() >= until);
    }

    /// Visits site number `site` of the world as often as it takes to connect or fail.
    ///
    /// # Panics
    ///
    /// If the world has no such site.
    pub fn visit(&mut self, site: usize, want: Want) -> Visit {
        self.visit_within(site, want, None)
    }

    /// As [`Session::visit`]; a program that has waited for `patience` in one call goes away.
    pub fn visit_within(&mut self, site: usize, want: Want, patience: Option<Duration>) -> Visit {
        let mut call = Call { want, ..Call::new(self.stack.now(), 0, site) };
        if self.dialler.is_some() {
            self.look_around();
            call = self.dial(call, patience);
        } else {
            self.connect_alone(&mut call, patience);
        }
        let total = self.stack.now() - call.began;
        self.connections += u64::from(call.connected.is_some());
        Visit {
            lookup: call.lookup(),
            connect: total - call.lookup(),
            getaddrinfo: call.resolved - call.began,
            total,
            in_vain: call.last - call.resolved,
            reached: call.connected.map(|(_, peer)| peer),
            lookup_ok: !call.addresses.is_empty(),
        }
    }

    /// Lets time pass until this call has ended.
    fn dial(&mut self, call: Call, patience: Option<Duration>) -> Call {
        if let Some(dialler) = &mut self.dialler {
            dialler.patience = patience;
            dialler.dial(self.stack.now(), call);
        }
        self.carry_out();
        self.run(Instant::FAR_FUTURE, |session| !session.dialler.as_ref().is_some_and(Dialler::is_busy));
        let ended = self.dialler.as_mut().and_then(Dialler::done);
        ended.unwrap_or_else(|| panic!("nothing is to come, and yet somebody waits at {:?}", self.stack.now()))
    }

    /// The program without headstart.
    fn connect_alone(&mut self, call: &mut Call, patience: Option<Duration>) {
        let name = &self.sites[call.site].name;
        call.addresses = glibc::getaddrinfo(&mut self.stack, &mut self.next_query, name, call.want).unwrap_or_default();
        call.resolved = self.stack.now();
        for peer in &call.addresses {
            self.next_socket += 1;
            let own = self.next_socket;
            call.last = self.stack.now();
            let until = patience.map_or(Instant::FAR_FUTURE, |patience| call.last + patience);
            self.stack.connect(own, *peer);
            let about = |event: &Event| matches!(event, Event::Connected { socket, .. } | Event::Failed { socket, .. } if *socket == own);
            let event = std::iter::from_fn(|| self.stack.step(until)).find(about);
            if matches!(event, Some(Event::Connected { .. })) {
                call.connected = Some((own, *peer));
                return;
            }
            self.stack.close(own);
        }
    }

    /// Tells the connector if routes have come or gone since the last lookup, as the supervisor does.
    fn look_around(&mut self) {
        let routes = (self.stack.has_route(Family::V4), self.stack.has_route(Family::V6));
        if let Some(dialler) = self.dialler.as_mut().filter(|_| routes != self.routes) {
            self.routes = routes;
            let network = Input::Network { id: NetworkId::default(), v4: routes.0, v6: routes.1, v4_first: false };
            dialler.tell(self.stack.now(), network);
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.dialler.as_mut().and_then(Dialler::poll_output) {
            self.stack.act(&output);
        }
    }
}
