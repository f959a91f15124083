//! The far side of the access link: the DNS server and the hosts of a world, and what each answers to a packet.
//!
//! Answers are a function of the world alone. Hosts and server take no time but what the world says, hold no state, and
//! never speak first. `netns` builds the same far side out of real sockets; the two must not differ.

use super::packet::{Body, Packet, Says, Server};
use crate::world::{Fate, Host, Record, Reply, Resolver, Site, World};
use headstart_core::connect::LookupResult;
use headstart_core::time::Duration;
use headstart_core::wire::record::RecordType;
use std::collections::HashMap;
use std::net::IpAddr;

/// Seconds that a negative answer may be kept where no record says otherwise: the lab's SOA minimum.
const NEGATIVE_TTL: u32 = 60;

/// All that is beyond the gateway.
#[derive(Debug)]
pub(super) struct FarSide {
    sites: Vec<Site>,
    names: HashMap<String, usize>,
    hosts: HashMap<IpAddr, (Duration, Fate)>,
    resolvers: Vec<Resolver>,
}

impl FarSide {
    pub fn new(world: &World) -> Self {
        let host = |h: &Host| (h.addr, (h.extra_rtt, h.fate));
        Self {
            names: world.sites.iter().enumerate().map(|(i, s)| (s.name.to_ascii_lowercase(), i)).collect(),
            hosts: world.sites.iter().flat_map(|s| s.v4.iter().chain(&s.v6)).map(host).collect(),
            sites: world.sites.clone(),
            resolvers: world.resolvers.clone(),
        }
    }

    /// DNS server number `n` of the client's list, which begins again at its end.
    pub fn server(&self, n: usize) -> Server {
        let index = n % self.resolvers.len();
        Server { index, family: self.resolvers[index].family }
    }

    /// How many DNS servers the client's list has.
    pub fn servers(&self) -> usize {
        self.resolvers.len()
    }

    /// The name that `packet`, which has reached the gateway, asks a DNS server that reads it about.
    pub fn asked_about(&self, packet: &Packet) -> Option<&str> {
        let Body::Question { site, server, .. } = packet.body else { return None };
        let reads = self.resolvers[server.index].fate == Fate::Answers;
        Some(self.sites.get(site.filter(|_| reads)?)?.name.as_str())
    }

    /// The index of the site called `name`.
    pub fn site(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// How far beyond the gateway a host is: a round trip.
    pub fn distance(&self, host: IpAddr) -> Duration {
        self.hosts.get(&host).map_or(Duration::ZERO, |(extra, _)| *extra)
    }

    /// What comes back to a packet that has reached the gateway, and how much later it is back there.
    pub fn answer(&self, packet: &Packet) -> Option<(Duration, Packet)> {
        match packet.body {
            Body::Question { query, site, record, over_tcp, server } => {
                match self.resolvers[server.index].fate {
                    Fate::Answers => {}
                    Fate::Refuses => return Some((Duration::ZERO, Packet::no_server(query, packet))),
                    Fate::BlackHole => return None,
                }
                let (delay, says) = match site.and_then(|i| self.sites.get(i)) {
                    None => (Duration::ZERO, Says::Result(LookupResult::NxDomain(seconds(NEGATIVE_TTL)))),
                    Some(site) => says(site, record, over_tcp)?,
                };
                Some((delay, Packet::response(query, packet, says)))
            }
            Body::DnsSyn { query } => Some((Duration::ZERO, Packet::dns_syn_ack(query, packet.over))),
            Body::Syn { socket, to } => match self.hosts.get(&to)? {
                (extra, Fate::Answers) => Some((*extra, Packet::syn_ack(socket, to))),
                (extra, Fate::Refuses) => Some((*extra, Packet::rst(socket, to))),
                (_, Fate::BlackHole) => None,
            },
            // The loader plays both ends of an open connection.
            Body::Ack
            | Body::Segment(_)
            | Body::Company(_)
            | Body::Response { .. }
            | Body::NoServer { .. }
            | Body::DnsSynAck { .. }
            | Body::SynAck { .. }
            | Body::Rst { .. } => None,
        }
    }
}

/// What the server says about `site`, and how long it takes over it; nothing if the query is swallowed.
fn says(site: &Site, record: RecordType, over_tcp: bool) -> Option<(Duration, Says)> {
    let (Record { delay, reply, ttl }, hosts) = match record {
        RecordType::A => (site.a, site.v4.as_slice()),
        RecordType::Aaaa => (site.aaaa, site.v6.as_slice()),
        RecordType::Https => (site.https_record(), &[][..]),
    };
    let ttl_of = || seconds(ttl);
    let records = || {
        Says::Result(match (&site.https, hosts) {
            (Some(https), _) if record == RecordType::Https => LookupResult::Services(https.services.clone(), ttl_of()),
            (_, []) => LookupResult::NoData(ttl_of()),
            (_, hosts) => LookupResult::Addresses(hosts.iter().map(|h| h.addr).collect(), ttl_of()),
        })
    };
    let says = match reply {
        Reply::Records => records(),
        Reply::Truncated if over_tcp => records(),
        Reply::Truncated => Says::Truncated,
        Reply::NxDomain => Says::Result(LookupResult::NxDomain(seconds(ttl))),
        Reply::ServFail => Says::Result(LookupResult::Refused),
        Reply::Malformed => Says::Malformed,
        Reply::Lost => return None,
    };
    Some((delay, says))
}

fn seconds(n: u32) -> Duration {
    Duration::from_secs(n.into())
}
