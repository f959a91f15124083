//! A [`World`] out of the kernel's own networking: namespaces, real packets, real sockets, unmodified programs.
//!
//! [`InnerCommand::enter`] starts the program again where it may do as it likes; [`Network::build`] then makes a client, an
//! emulated access link with black holes and distant peers behind it, a DNS server and web servers. No external program
//! is run, no root is needed where user namespaces are allowed, and nothing is left behind however it ends.

mod addressing;
mod attach;
mod certificate;
mod control;
mod emulator;
mod enter;
mod frame;
mod gather;
mod nodes;
mod outside;
mod parcel;
mod private_files;
mod record;
mod settings;
mod shell;
pub mod super_packet;
mod switch;
mod timeline;
mod topology;
mod visitor;
mod worker;

pub use addressing::{Block, DNS_V4, DNS_V6, MOST_DNS_SERVERS, NotABlock, dns_server};
pub use attach::{Target, attach};
pub use certificate::{Certificate, Drops, Lateness};
pub use control::{Request, ask};
pub use enter::{Entered, InnerCommand, inside};
pub use nodes::{Nodes, on_node};
pub use outside::NAME as HOST_NAME;
pub use settings::{Follower, PortKind, Settings, UnknownPortKind};
pub use shell::{default_world, run_command, shell, shell_with};
pub(crate) use topology::PREFERRED_CONGESTION_CONTROL;
pub use visitor::{Visited, Visitor};

use crate::lock;
use crate::server::dns::{DnsServer, Manner, Query};
use crate::server::web::{Accepted, WebServer};
use crate::world::{Event, Fate, Host, Resolver, Site, When, World};
use emulator::Emulator;
use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_io::clock::Clock;
use headstart_io::sys::mountns::MountNs;
use headstart_io::sys::netlink::{Netlink, NetlinkError};
use headstart_io::sys::reexec::ReexecError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Mutex;
use switch::{Cable, Peer, Peers};
use timeline::Timeline;
use topology::{Attachment, Far, Wires};

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel grants no namespaces.
    #[error("the lab needs network namespaces, which this host does not allow ({source}); {advice}")]
    Refused {
        /// What the kernel said.
        source: ReexecError,
        /// What to do.
        advice: String,
    },
    /// The files of name resolution could not be replaced.
    #[error("setting up the lab's private files: {what}{}", source.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Files {
        /// The step.
        what: String,
        /// What the kernel said.
        source: Option<io::Error>,
    },
    /// An interface, an address or a route.
    #[error("{0}; if that is a lack of permission, call it inside InnerCommand::enter")]
    Netlink(#[from] NetlinkError),
    /// Any other system call.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The link is not one.
    #[error(transparent)]
    Link(#[from] headstart_link::ParseError),
    /// The world contradicts itself or the lab's own addresses.
    #[error("the world cannot be built: {0}")]
    World(String),
    /// A running lab has not done what it was asked for.
    #[error("{0}")]
    Asked(String),
    /// There is nothing to attach to, or it must not be.
    #[error("{0}")]
    NoTarget(String),
    /// A right of the host is missing.
    #[error("{what}: {why}; run it as root of the host (sudo)")]
    NotPermitted {
        /// The step.
        what: String,
        /// What the kernel said.
        why: String,
    },
    /// Labs are nested too deeply.
    #[error("labs can be nested at most five deep: leave the innermost shell first")]
    TooDeep,
    /// Too many labs in one client.
    #[error("seven labs already run inside this one: stop one first")]
    TooMany,
}

impl Error {
    /// What becomes of the error of a system call at this step.
    fn io(what: impl Into<String>) -> impl Fn(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what: what.clone(), source }
    }
}

/// A running network: client, emulator and servers. All of it ends when this is dropped.
pub struct Network {
    // Dropped in this order: servers first, so that they do not see their namespace go.
    timeline: Option<Timeline>,
    web: WebServer,
    dns: DnsServer,
    emulator: Emulator,
    wires: Wires,
    /// The client's own files, where its DNS servers are not those of all nodes.
    files: Option<MountNs>,
    resolvers: Vec<Resolver>,
    sites: Mutex<Vec<Site>>,
    clock: Clock,
}

impl Network {
    /// Builds `world` and starts its servers. Call it inside (see [`InnerCommand::enter`]).
    pub fn build(world: &World) -> Result<Self, Error> {
        Self::build_with(world, &Settings::default())
    }

    /// As [`Self::build`], with the emulator set up by `settings`.
    pub fn build_with(world: &World, settings: &Settings) -> Result<Self, Error> {
        check(&world.sites)?;
        check_resolvers(&world.resolvers)?;
        check_timeline(world)?;
        let link = link(&world.link)?;
        let kind = settings.ports_for(&link);
        let clock = Clock::new();
        let addresses: Vec<IpAddr> = hosts(&world.sites).map(|host| host.addr).collect();
        let (wires, ports) = topology::lay(Far::Servers(&addresses), kind)?;
        let cable = Cable { name: topology::ACCESS_NAME.into(), ends: topology::ACCESS, link, ahead: kind.quantum() };

        let dns = topology::in_ns(&wires.far, || {
            let there = (0..).zip(&world.resolvers).filter(|(_, r)| r.fate == Fate::Answers).map(|(n, _)| n);
            let addresses: Vec<_> = there.flat_map(|n| Family::BOTH.map(|family| dns_server(n, family))).collect();
            DnsServer::start(&addresses, &world.sites, clock).map_err(Error::io("starting the DNS server"))
        })?;
        let web = topology::in_ns(&wires.far, || {
            WebServer::start(topology::PREFERRED_CONGESTION_CONTROL).map_err(Error::io("starting the web server"))
        })?;
        for host in hosts(&world.sites).filter(|host| host.fate != Fate::Refuses) {
            topology::in_ns(&wires.far, || web.listen(host.addr).map_err(Error::io("listening for a site")))?;
        }
        let peers = peers(&world.sites, &world.resolvers);
        let emulator = Emulator::start(&[cable], world.seed, ports, peers, clock, settings)
            .map_err(Error::io("starting the emulator"))?;
        let files = match &world.resolvers[..] {
            [Resolver::ORDINARY] => None,
            other => {
                let servers = (0..).zip(other).map(|(n, resolver)| dns_server(n, resolver.family));
                Some(private_files::asking(&servers.collect::<Vec<_>>())?)
            }
        };
        let timeline = match &world.timeline[..] {
            [] => None,
            changes => Some(Timeline::start(changes, Attachment::of(&wires)?, clock)?),
        };
        if let Some(timeline) = &timeline {
            dns.follow(timeline.listener());
        }
        let (sites, resolvers) = (Mutex::new(world.sites.clone()), world.resolvers.clone());
        Ok(Self { timeline, web, dns, emulator, wires, files, resolvers, sites, clock })
    }

    /// A command that will run on the client. Its descendants cannot tell that they are in a lab.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let mut command = Command::new(program);
        self.adopt(&mut command)?;
        Ok(command)
    }

    /// Makes `command` run on the client.
    pub fn adopt(&self, command: &mut Command) -> Result<(), Error> {
        let failed = |source| Error::Io { what: "preparing a command".into(), source };
        self.wires.client.adopt(command).map_err(failed)?;
        if let Some(files) = &self.files {
            files.adopt(command).map_err(failed)?;
        }
        command.env_remove(enter::INSIDE).env(shell::BLOCK, self.wires.block.to_string());
        Ok(())
    }

    /// Begins the world's timeline again: the client has its addresses and routes of the beginning, and what changes is to
    /// come. `Err` also if a change has failed since the last time. For networks in which nothing changes, nothing.
    pub fn rewind(&self) -> Result<(), Error> {
        self.timeline.as_ref().map_or(Ok(()), Timeline::rewind)
    }

    /// Changes the client's connectivity, at once. What has come already, or gone, must not do so again.
    pub fn change(&self, event: Event) -> Result<(), Error> {
        let mut attachment = Attachment::of(&self.wires)?;
        Ok(match event {
            Event::Leaves(family) => attachment.leave(family),
            Event::Comes(family) => attachment.come(family),
        }?)
    }

    /// Runs `f` on the client, in a thread of its own; its sockets stay the client's wherever they are used later. Names are
    /// looked up as in a world with one ordinary DNS server; run a command where there are others.
    pub fn on_client<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        topology::in_ns(&self.wires.client, || Ok(f()))
    }

    /// Runs `f` where the servers are, in a thread of its own: what it listens on is reached by the sites' addresses.
    pub fn on_servers<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        topology::in_ns(&self.wires.far, || Ok(f()))
    }

    /// A command that will run where the servers are, for servers that are programs of their own.
    pub fn server_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let mut command = Command::new(program);
        self.wires.far.adopt(&mut command).map_err(Error::io("preparing a server"))?;
        command.env_remove(enter::INSIDE);
        Ok(command)
    }

    /// The clock of this network; the DNS server's log uses it.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The emulator's account of itself so far.
    pub fn certificate(&self) -> Certificate {
        self.emulator.certificate()
    }

    /// The emulator's account since the last call of this, which begins a new one: of a round that is kept or played again.
    pub fn take_certificate(&self) -> Certificate {
        self.emulator.take_certificate()
    }

    /// Whether the emulator is still at work; it ends early only if the kernel takes its sockets away.
    pub fn emulator_running(&self) -> bool {
        self.emulator.running()
    }

    /// All queries that reached the DNS server so far.
    pub fn dns_log(&self) -> Vec<Query> {
        self.dns.log()
    }

    /// Queries for `name` (without the trailing dot) of type `rtype` ("A", "AAAA", "HTTPS", ...) so far.
    pub fn dns_count(&self, name: &str, rtype: &str) -> usize {
        self.dns.log().iter().filter(|query| query.name == name && query.rtype == rtype).count()
    }

    /// How the DNS servers go about questions from now on.
    pub fn set_dns_manner(&self, manner: Manner) {
        self.dns.set_manner(manner);
    }

    /// What each address has accepted so far.
    pub fn accepted(&self) -> BTreeMap<IpAddr, Accepted> {
        self.web.accepted()
    }

    /// Frees port 80 of every site: the ordinary web server takes no new connections there. What the sites have
    /// [accepted](Self::accepted) stays known.
    pub fn stop_web_server(&self) -> Result<(), Error> {
        let mut all = self.web.accepted().into_keys();
        all.try_for_each(|ip| self.web.close(ip)).map_err(Error::io("stopping the web server"))
    }

    /// Congestion control that the client's connections begin with; a program that wants another has to ask for it after
    /// connecting.
    pub fn client_congestion_control(&self) -> &str {
        &self.wires.client_congestion_control
    }

    /// Congestion control of the web server's sockets.
    pub fn server_congestion_control(&self) -> String {
        self.web.congestion_control()
    }

    /// Replaces the site of that name, or adds one: its DNS records, distances and fates. In force when this returns,
    /// for packets that reach the emulator and connections that begin from then on.
    pub fn set_site(&self, site: Site) -> Result<(), Error> {
        let mut sites = lock(&self.sites);
        let mut next = sites.clone();
        match next.iter_mut().find(|old| old.name == site.name) {
            Some(old) => *old = site,
            None => next.push(site),
        }
        check(&next)?;
        let owned = |sites: &[Site]| hosts(sites).map(|host| host.addr).collect::<BTreeSet<_>>();
        let listening = |sites: &[Site]| {
            hosts(sites).filter(|host| host.fate != Fate::Refuses).map(|host| host.addr).collect::<BTreeSet<_>>()
        };
        let what = "changing a site";
        topology::in_ns(&self.wires.far, || {
            let mut netlink = Netlink::open()?;
            let (before, after) = (owned(&sites), owned(&next));
            after.difference(&before).try_for_each(|ip| topology::own(&mut netlink, *ip))?;
            let (open, wanted) = (listening(&sites), listening(&next));
            open.difference(&wanted).try_for_each(|ip| self.web.close(*ip)).map_err(Error::io(what))?;
            wanted.difference(&open).try_for_each(|ip| self.web.listen(*ip)).map_err(Error::io(what))?;
            before.difference(&after).try_for_each(|ip| topology::disown(&mut netlink, *ip))?;
            Ok(())
        })?;
        self.dns.set_sites(&next);
        self.emulator.set_peers(peers(&next, &self.resolvers)).map_err(Error::io(what))?;
        *sites = next;
        Ok(())
    }
}

fn hosts(sites: &[Site]) -> impl Iterator<Item = &Host> {
    sites.iter().flat_map(|site| site.v4.iter().chain(&site.v6))
}

fn peers(sites: &[Site], resolvers: &[Resolver]) -> Peers {
    let peer = |host: &Host| {
        let black_hole = host.fate == Fate::BlackHole;
        (host.addr, Peer { one_way: host.extra_rtt / 2, black_hole })
    };
    let silent = (0..).zip(resolvers).filter(|(_, r)| r.fate == Fate::BlackHole).map(|(n, _)| n);
    let silent = silent.flat_map(|n| Family::BOTH.map(|family| dns_server(n, family)));
    let hole = Peer { one_way: Duration::ZERO, black_hole: true };
    hosts(sites).map(peer).chain(silent.map(|addr| (addr, hole))).collect()
}

fn check_resolvers(resolvers: &[Resolver]) -> Result<(), Error> {
    if (1..=MOST_DNS_SERVERS).contains(&resolvers.len()) {
        return Ok(());
    }
    Err(Error::World(format!("it has {} DNS servers; give it 1 to {MOST_DNS_SERVERS}", resolvers.len())))
}

/// A change that waits for a question that no client can ask would never happen.
fn check_timeline(world: &World) -> Result<(), Error> {
    for change in &world.timeline {
        if let When::Asked { name, .. } = &change.when
            && !world.sites.iter().any(|site| site.name.eq_ignore_ascii_case(name))
        {
            return Err(Error::World(format!("a change waits for a query for {name}, which is not one of its sites")));
        }
    }
    Ok(())
}

/// Every address belongs to one host, to the family that it is listed under, and not to the lab itself.
fn check(sites: &[Site]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for site in sites {
        let families = site.v4.iter().map(|host| (host, true)).chain(site.v6.iter().map(|host| (host, false)));
        for (host, v4) in families {
            let complaint = if host.addr.is_ipv4() != v4 {
                "is listed under the other family"
            } else if !addressing::free_for_hosts(host.addr) {
                "is reserved for the lab; use 198.19.0.0/16 (but not 198.19.255.53) and 2001:db8::/33"
            } else if !seen.insert(host.addr) {
                "belongs to two hosts"
            } else {
                continue;
            };
            return Err(Error::World(format!("the address {} of {} {complaint}", host.addr, site.name)));
        }
    }
    Ok(())
}

/// The longest trace file of a link: days of recording.
const LONGEST_TRACE: u64 = 64 << 20;

/// Reads a link specification; trace files that it names (`rate=trace:FILE`) are found from the current folder.
pub fn link(text: &str) -> Result<headstart_link::DuplexSpec, headstart_link::ParseError> {
    headstart_link::parse_duplex_with_files(text, &mut files)
}

/// As [`link`], with a queue that suits the rate where none is written: for links of people, not of experiments.
pub fn sized_link(text: &str) -> Result<headstart_link::DuplexSpec, headstart_link::ParseError> {
    headstart_link::parse_duplex_sized(text, &mut files)
}

/// Reads a trace file.
fn files(name: &str) -> Result<String, String> {
    let mut trace = String::new();
    let read = File::open(name).and_then(|file| file.take(LONGEST_TRACE + 1).read_to_string(&mut trace));
    match read {
        Ok(bytes) if bytes as u64 > LONGEST_TRACE => Err("it is larger than 64 MiB".to_owned()),
        Ok(_) => Ok(trace),
        Err(why) => Err(why.to_string()),
    }
}
