//! Worlds: what servers say of one name, how its addresses treat a SYN, which program goes there, and by which front end.
//!
//! All times are in milliseconds. A world says nothing random: the same world is played bare and under headstart.

use headstart_core::path::Family;
use proptest::prelude::*;
use std::net::IpAddr;

/// What a server says to one kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// All addresses of the family.
    Addresses,
    NoData,
    NxDomain,
    /// SERVFAIL, REFUSED, or nobody at its port.
    Fails,
}

/// How a server treats one kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub after: u64,
    pub says: Says,
    /// So many questions are swallowed before the first is answered.
    pub lost: u32,
    /// So many, after those, are answered by a failure first.
    pub failed: u32,
}

/// A server, by kind of question; `None` swallows all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    pub a: Option<Record>,
    pub aaaa: Option<Record>,
    pub https: Option<Record>,
}

/// How an address treats a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A SYN+ACK after so long, up to seconds.
    Alive(u64),
    Refuses(u64),
    Silent,
    /// The first SYNs of each connection are lost; then it answers after so long.
    Loses(u32, u64),
    /// It answers after so long, and resets the connection so long afterwards.
    Resets(u64, u64),
    /// ICMP says so after that long.
    Unreachable(u64),
}

/// Which program goes there; see `client`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// getaddrinfo, then blocking connects one by one: wget, Python's urllib, most others.
    Blocking,
    /// The same with a limit for each address: Python with a timeout.
    Limited(u64),
    Curl,
    Go,
    Node,
    /// Blocking, IPv4 first, sockets of AF_INET6.
    Java,
    Chromium,
    /// A static program of musl: blocking.
    Musl,
}

impl Client {
    /// Whether it says a port in getaddrinfo. The JDK (Inet6AddressImpl.c), libuv (node's lib/dns.js) and Chromium
    /// (host_resolver_system_task.cc) give no service; Go and musl ask by DNS.
    fn may_say_port(self) -> bool {
        matches!(self, Self::Blocking | Self::Limited(_) | Self::Curl)
    }
}

/// How the program is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The library alone.
    Preload,
    /// The library, and its system calls heard.
    Both,
    /// System calls alone; its questions go to the stub.
    Filter,
}

/// The host moves to another network while a visit goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub visit: usize,
    pub after: u64,
    pub v4: Vec<Fate>,
    pub v6: Vec<Fate>,
    pub routes: (bool, bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    pub client: Client,
    pub front: Front,
    /// Families that the program's hints allow.
    pub families: (bool, bool),
    /// getaddrinfo is told the port.
    pub port: bool,
    pub servers: Vec<Server>,
    pub v4: Vec<Fate>,
    pub v6: Vec<Fate>,
    /// Routes for IPv4 and IPv6.
    pub routes: (bool, bool),
    pub moves: Option<Move>,
    pub visits: usize,
    /// From the end of a visit to the next.
    pub pause: u64,
    /// Settings of the supervisor (`Ahead::ON`), or those that races are compared by.
    pub ahead: bool,
    pub seed: u64,
}

impl World {
    pub fn allows(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.families.0,
            Family::V6 => self.families.1,
        }
    }

    /// The addresses that servers give.
    pub fn addresses(&self, family: Family) -> Vec<IpAddr> {
        let n = if family == Family::V4 { self.v4.len() } else { self.v6.len() };
        (0..n).map(|n| address(family, n)).collect()
    }

    /// How `to` treats a SYN, before or after the host has `moved`.
    pub fn fate(&self, to: IpAddr, moved: bool) -> Fate {
        let [v4, v6] = match &self.moves {
            Some(to) if moved => [&to.v4, &to.v6],
            _ => [&self.v4, &self.v6],
        };
        let list = if to.is_ipv4() { v4 } else { v6 };
        list.get(place(to)).copied().unwrap_or(Fate::Silent)
    }

    /// Whether headstart hears of a port before the program goes there: a question over DNS has none.
    pub fn says_port(&self) -> bool {
        self.port && self.front != Front::Filter
    }

    /// Whether every address refuses at once and every lookup is answered: a race can gain nothing.
    pub fn all_refuse(&self) -> bool {
        let refuse = |list: &[Fate]| list.iter().all(|f| matches!(f, Fate::Refuses(_)));
        self.moves.is_none() && refuse(&self.v4) && refuse(&self.v6)
    }

    /// Whether all is well: answers within 20 ms, and every address alive and near.
    pub fn is_healthy(&self) -> bool {
        let quick =
            |r: Option<Record>| r.is_some_and(|r| r.after <= 20 && r.lost + r.failed == 0 && r.says != Says::Fails);
        let near = |f: &Fate| matches!(f, Fate::Alive(..=200));
        self.moves.is_none()
            && self.routes == (true, true)
            && self.servers.iter().all(|s| quick(s.a) && quick(s.aaaa) && quick(s.https))
            && self.v4.iter().chain(&self.v6).all(near)
    }
}

pub fn address(family: Family, n: usize) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([198, 51, 100, n as u8 + 1]),
        Family::V6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n as u16 + 1]),
    }
}

/// The place of `addr` in its family's list.
fn place(addr: IpAddr) -> usize {
    match addr {
        IpAddr::V4(v4) => usize::from(v4.octets()[3]) - 1,
        IpAddr::V6(v6) => usize::from(v6.segments()[7]) - 1,
    }
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![12 => Just(Says::Addresses), 2 => Just(Says::NoData), 1 => Just(Says::NxDomain), 1 => Just(Says::Fails)]
}

/// Most answers come within a second, some after most have given up.
fn answer_time() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1u64..60, 3 => 60u64..400, 1 => 400u64..4000, 1 => 4000u64..9000]
}

fn record(says: impl Strategy<Value = Says>) -> impl Strategy<Value = Option<Record>> {
    let count = || prop_oneof![12 => Just(0u32), 1 => 1u32..3];
    let record = (answer_time(), says, count(), count()).prop_map(|(after, says, lost, failed)| Record {
        after,
        says,
        lost,
        failed,
    });
    proptest::option::weighted(0.93, record)
}

fn server() -> impl Strategy<Value = Server> {
    let https = prop_oneof![8 => Just(Says::NoData), 1 => Just(Says::Fails)];
    let here = (record(says()), record(says()), record(https)).prop_map(|(a, aaaa, https)| Server { a, aaaa, https });
    let dead = Just(Server { a: None, aaaa: None, https: None });
    prop_oneof![4 => healthy(), 8 => here, 1 => dead]
}

fn healthy() -> impl Strategy<Value = Server> {
    (1u64..20, 1u64..20).prop_map(|(a, aaaa)| {
        let quick = |after, says| Some(Record { after, says, lost: 0, failed: 0 });
        let [a_record, aaaa] = [a, aaaa].map(|after| quick(after, Says::Addresses));
        Server { a: a_record, aaaa, https: quick(a, Says::NoData) }
    })
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => (1u64..400).prop_map(Fate::Alive),
        1 => (400u64..4000).prop_map(Fate::Alive),
        4 => (1u64..400).prop_map(Fate::Refuses),
        4 => Just(Fate::Silent),
        1 => (1u32..3, 1u64..400).prop_map(|(n, rtt)| Fate::Loses(n, rtt)),
        1 => (1u64..400, 1u64..3000).prop_map(|(rtt, after)| Fate::Resets(rtt, after)),
        1 => (0u64..400).prop_map(Fate::Unreachable),
    ]
}

/// One address in most cases, a few in some, up to thirty in others; all alike as often as not.
fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let many = || prop_oneof![6 => 1usize..2, 4 => 2usize..6, 1 => 6usize..31];
    prop_oneof![
        (many(), fate()).prop_map(|(n, fate)| vec![fate; n]),
        many().prop_flat_map(|n| proptest::collection::vec(fate(), n)),
    ]
}

fn client() -> impl Strategy<Value = Client> {
    prop_oneof![
        3 => Just(Client::Blocking),
        1 => (300u64..6000).prop_map(Client::Limited),
        2 => Just(Client::Curl),
        2 => Just(Client::Go),
        1 => Just(Client::Node),
        1 => Just(Client::Java),
        1 => Just(Client::Chromium),
        1 => Just(Client::Musl),
    ]
}

fn routes() -> impl Strategy<Value = (bool, bool)> {
    prop_oneof![12 => Just((true, true)), 1 => Just((true, false)), 1 => Just((false, true))]
}

/// Any world.
pub fn worlds() -> impl Strategy<Value = World> {
    let families = prop_oneof![10 => Just((true, true)), 1 => Just((true, false)), 1 => Just((false, true))];
    let fronts = prop_oneof![Just(Front::Preload), Just(Front::Both), Just(Front::Filter)];
    let program = (client(), fronts, families, any::<bool>());
    let moves = (0usize..3, 0u64..3000, fates(), fates(), routes());
    let near = || proptest::collection::vec((1u64..200).prop_map(Fate::Alive), 1..4);
    let well = (proptest::collection::vec(healthy(), 1..3), near(), near(), Just((true, true)), Just(None));
    let any_net =
        (proptest::collection::vec(server(), 1..4), fates(), fates(), routes(), proptest::option::weighted(0.1, moves));
    let net = prop_oneof![9 => any_net.boxed(), 1 => well.boxed()];
    let run = (1usize..4, prop_oneof![2_500u64..10_000, 60_000u64..90_000], any::<bool>(), any::<u64>());
    (program, net, run).prop_map(
        |((client, front, families, port), (servers, v4, v6, routes, moves), (visits, pause, ahead, seed))| {
            // Go and musl programs are static: nothing is preloaded.
            let front = if matches!(client, Client::Go | Client::Musl) { Front::Filter } else { front };
            let port = port && client.may_say_port();
            let moves = moves.map(|(visit, after, m4, m6, routes)| {
                let fit = |list: Vec<Fate>, n: usize| list.into_iter().cycle().take(n).collect();
                Move { visit: visit % visits, after, v4: fit(m4, v4.len()), v6: fit(m6, v6.len()), routes }
            });
            World { client, front, families, port, servers, v4, v6, routes, moves, visits, pause, ahead, seed }
        },
    )
}
