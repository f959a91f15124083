//! A world: which names exist, where their hosts are, how their DNS records behave, and the access link to all of it.
//!
//! One world has two readings: `sim` plays it in virtual time, `netns` builds it out of namespaces, real sockets and
//! the emulator. Both must give the same answers, so nothing in here may depend on how it is played.

use headstart_core::path::Family;
use headstart_core::time::Duration;
use headstart_core::wire::record::Service;
use std::net::IpAddr;

/// What becomes of a TCP connection attempt to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The host completes the handshake.
    Answers,
    /// The host answers with a reset.
    Refuses,
    /// Packets to the host vanish: no answer of any kind.
    BlackHole,
}

/// One address of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its address; unique in the world.
    pub addr: IpAddr,
    /// Round-trip time beyond the access link; half of it is spent each way.
    pub extra_rtt: Duration,
    /// What happens to connection attempts.
    pub fate: Fate,
}

/// How the DNS server treats one record type of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The addresses of the site in that family; an empty answer (NODATA) if it has none.
    Records,
    /// RCODE 3.
    NxDomain,
    /// RCODE 2.
    ServFail,
    /// The query is swallowed: no answer ever.
    Lost,
    /// Bytes that do not parse as a DNS message.
    Malformed,
    /// An answer with the truncation bit over UDP, whole over TCP.
    Truncated,
}

/// The behaviour of the DNS server for one name and record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Time that the server takes before it answers, beyond the access link.
    pub delay: Duration,
    /// What it answers.
    pub reply: Reply,
    /// Lifetime of the records, in seconds.
    pub ttl: u32,
}

/// The HTTPS records of a name (RFC 9460).
#[derive(Clone, Debug, PartialEq)]
pub struct Https {
    /// How the query is answered.
    pub record: Record,
    /// What the records say; those of a target's addresses that are named go into the additional section.
    pub services: Vec<Service>,
}

/// A name with its hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Fully qualified, without the trailing dot.
    pub name: String,
    /// IPv4 addresses, in the order of the answer.
    pub v4: Vec<Host>,
    /// IPv6 addresses, in the order of the answer.
    pub v6: Vec<Host>,
    /// How the A query is answered.
    pub a: Record,
    /// How the AAAA query is answered.
    pub aaaa: Record,
    /// Its HTTPS records; without any, the query is answered so as quickly as that for A.
    pub https: Option<Https>,
}

impl Site {
    /// One that answers with its addresses at once, to be kept for five minutes.
    pub fn new(name: impl Into<String>, v4: Vec<Host>, v6: Vec<Host>) -> Self {
        let record = Record { delay: Duration::ZERO, reply: Reply::Records, ttl: 300 };
        Self { name: name.into(), v4, v6, a: record, aaaa: record, https: None }
    }

    /// How the HTTPS query is answered.
    pub fn https_record(&self) -> Record {
        self.https.as_ref().map_or(Record { reply: Reply::Records, ..self.a }, |h| h.record)
    }
}

/// A DNS server, as the client's resolv.conf lists it. All of them know the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolver {
    /// The family of its address.
    pub family: Family,
    /// Whether it answers, sends its client away (a closed port), or is silent.
    pub fate: Fate,
}

impl Resolver {
    /// One over IPv4 that answers: all that most worlds have.
    pub const ORDINARY: Self = Self { family: Family::V4, fate: Fate::Answers };
}

/// What happens to the client's own connectivity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The client loses its address and its default route in a family: packets to the old address reach no host, attempts
    /// under way hear nothing more, and new ones fail at once.
    Leaves(Family),
    /// The client gets the same address and route back.
    Comes(Family),
}

/// When a change is due. Nothing here depends on how fast a program is: it may be told by what the program does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// From the start: no program has seen the network otherwise.
    AtFirst,
    /// This long after the first question about a name (of either family) has reached a DNS server.
    Asked {
        /// The name: a site's.
        name: String,
        /// How long after.
        later: Duration,
    },
}

/// Something that happens once while programs run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// When.
    pub when: When,
    /// What.
    pub event: Event,
}

/// A client behind an access link, DNS servers, the sites, and what changes meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Name of a link preset of `headstart_link` (see `headstart list links`).
    pub link: String,
    /// Seed of everything random in the network (jitter, loss).
    pub seed: u64,
    /// The names that resolve.
    pub sites: Vec<Site>,
    /// The DNS servers, in the order in which clients ask them; at least one.
    pub resolvers: Vec<Resolver>,
    /// What changes, in the order in which changes that are due at once happen.
    pub timeline: Vec<Change>,
}

impl World {
    /// A world with one ordinary DNS server, in which nothing changes.
    pub fn new(link: impl Into<String>, seed: u64, sites: Vec<Site>) -> Self {
        Self { link: link.into(), seed, sites, resolvers: vec![Resolver::ORDINARY], timeline: Vec::new() }
    }
}
