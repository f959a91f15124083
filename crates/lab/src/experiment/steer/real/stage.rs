//! Two emulated channels between a host and a place where every server of a page is, and one way over them: the kernel's own
//! TCP over one of them, its Multipath TCP over both, or our tunnel.

use super::super::ends::{self, End, Shape};
use super::super::network::Network;
use super::multipath;
use crate::condition::page::{Families, world};
use crate::experiment::page_load::put::Put;
use crate::netns::{DNS_V4, Nodes};
use crate::page::recording::{Answers, Exchange};
use crate::scenario::Scenario;
use crate::server::authority::{Authority, Trust};
use crate::server::dns::DnsServer;
use crate::server::recorder;
use crate::server::replay::{ReplayServer, Served, Tls};
use crate::socket_loader::{self, Request, SocketLoad, Transport};
use crate::world::Site;
use anyhow::Context as _;
use headstart_core::steer::Channel;
use headstart_io::sys::netlink::{LOOPBACK, Netlink, Via};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

/// Places of the nodes in the scenario, and of the channels, whose interfaces are named so on either.
pub const HOST: usize = 0;
const FAR: usize = 1;
const INTERFACES: [&str; 2] = ["link0", "link1"];
/// The ends of the channels (`scenario::routes`): the host's, and the far one.
const HOSTS_END: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 1, 1)];
const FAR_END: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 1, 2)];
/// Where servers are, and their DNS server.
const SERVERS: &str = "198.19.0.0/16";
const SERVERS_AT: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);
/// What the paper's servers used.
const CONGESTION_CONTROL: &str = "cubic";

/// A way over the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// TCP over one channel; the other carries nothing.
    Alone(Channel),
    /// The kernel's Multipath TCP over both.
    Multipath,
    /// Our tunnel, by this policy.
    Tunnel(&'static str),
}

/// What is served.
pub struct Content {
    sites: Vec<Site>,
    exchanges: Vec<Exchange>,
    tls: Tls,
    trust: Trust,
    pub url: String,
    pub requests: Vec<Request>,
}

impl Content {
    /// Of a page, for servers whose certificates are made in `folder`.
    pub fn of(put: &Put, network: &Network, seed: u64, folder: &Path) -> anyhow::Result<Self> {
        let mut sites = world(&put.page, network.fat, Families::Alike, seed).sites;
        let names = put.hosts(|n| sites[n].name.clone());
        for (site, name) in sites.iter_mut().zip(&names) {
            site.name.clone_from(name);
            // The channels are of IPv4; a browser that is told of other addresses would ask for them in vain.
            site.v6.clear();
        }
        let (exchanges, url) = put.contents(&names);
        let authority = Authority::create(folder)?;
        let tls = Tls::new(&*authority.servers(&names)?, BTreeSet::new());
        let requests = put.requests(&names);
        Ok(Self { sites, exchanges, tls, trust: authority.trust().clone(), url, requests })
    }

    /// The authority that browsers are to trust.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }
}

/// See the module. Everything ends when this is dropped.
pub struct Stage {
    // Dropped in this order: what works in a namespace before the namespace.
    replay: ReplayServer,
    _dns: DnsServer,
    _ends: Vec<End>,
    nodes: Nodes,
    way: Carrier,
}

impl Stage {
    /// Puts `content` behind the channels of `network`, to be reached by `way`.
    pub fn build(network: &Network, way: Carrier, content: &Content, seed: u64) -> anyhow::Result<Self> {
        let Network { name, fat, fast, .. } = network;
        let text = format!(
            "name = {name:?}\nwhat = \"two channels\"\nseed = {seed}\nhosts = [\"host\", \"far\"]\n\
             [[link]]\nname = \"fat\"\nbetween = [\"host\", \"far\"]\nlink = {fat:?}\nfamily = \"ipv4\"\n\
             [[link]]\nname = \"fast\"\nbetween = [\"host\", \"far\"]\nlink = {fast:?}\nfamily = \"ipv4\"\n"
        );
        let scenario = Scenario::read(name, &text, &mut |path| Err(format!("{path}: channels need no file")))?;
        let nodes = Nodes::build(&scenario)?;
        let addresses: Vec<IpAddr> = content.sites.iter().flat_map(|s| &s.v4).map(|host| host.addr).collect();
        let dns = nodes.on(FAR, || -> anyhow::Result<DnsServer> {
            let mut netlink = Netlink::open()?;
            for ip in addresses.iter().chain([&DNS_V4.into()]) {
                netlink.address(LOOPBACK, *ip, 32)?;
            }
            Ok(DnsServer::start(&[DNS_V4.into()], &content.sites, nodes.clock())?)
        })??;
        let mut replay = ReplayServer::new(Answers::new(content.exchanges.clone()), content.tls.clone());
        nodes.on(FAR, || addresses.iter().try_for_each(|ip| replay.serve(listen((*ip, 443).into(), way)?, true)))??;
        let ends = match way {
            Carrier::Alone(channel) => {
                lead(&nodes, channel)?;
                Vec::new()
            }
            Carrier::Multipath => {
                lead(&nodes, Channel::Fat)?;
                let fast = Channel::Fast.index();
                let endpoint = (INTERFACES[fast], HOSTS_END[fast].into(), FAR_END[fast].into());
                multipath::set_up(&nodes, HOST, endpoint, SERVERS)?;
                Vec::new()
            }
            Carrier::Tunnel(policy) => {
                let rates = [rate(fat)?, rate(fast)?];
                let shape = Shape { policy, rates, gateway: FAR_END, behind: &format!(", {SERVERS}") };
                let ends = ends::of_tunnel([&nodes.namespace(HOST)?, &nodes.namespace(FAR)?], &shape)?;
                ends::wait(&ends)?;
                ends.into()
            }
        };
        Ok(Self { replay, _dns: dns, _ends: ends, nodes, way })
    }

    /// A command that runs `/bin/sh` on the host, whose connections take the way.
    pub fn shell(&self) -> anyhow::Result<Command> {
        let mut command = if self.way == Carrier::Multipath {
            let mut command = Command::new(multipath::PROGRAM);
            command.args(["run", "/bin/sh"]);
            command
        } else {
            Command::new("/bin/sh")
        };
        self.nodes.adopt(HOST, &mut command)?;
        Ok(command)
    }

    /// Loads a page without a browser; none if that was given up.
    pub fn load(&self, page: &crate::page::Page, content: &Content) -> anyhow::Result<Option<SocketLoad>> {
        let roots = recorder::roots_of(&content.trust.certificate)?;
        let transport = if self.way == Carrier::Multipath { Transport::Multipath } else { Transport::Tcp };
        let by = crate::page::Dependency::Structure;
        let load = || socket_loader::load_over(transport, page, by, content.requests.clone(), roots);
        let loaded = socket_loader::unless_given_up(self.nodes.on(HOST, load)?);
        loaded.with_context(|| format!("loading {} over sockets", page.name))
    }

    /// Bytes that the host has sent and received over the fat channel and over the fast one so far, with all headers.
    pub fn bytes(&self) -> anyhow::Result<[u64; 2]> {
        let text = self.nodes.on(HOST, || std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let of = |name| interface(&text, name).with_context(|| format!("the kernel counts nothing of {name}"));
        Ok([of(INTERFACES[0])?, of(INTERFACES[1])?])
    }

    /// Connections of Multipath TCP that were asked for so far, and second subflows.
    pub fn subflows(&self) -> anyhow::Result<[u64; 2]> {
        multipath::counted(&self.nodes, HOST)
    }

    /// What was asked for so far.
    pub fn served(&self) -> Served {
        self.replay.served()
    }

    /// Why its times are not to be believed, if they are not.
    pub fn doubt(&self) -> Option<String> {
        self.nodes.certificate().doubt()
    }

    /// The same of the time since the last call of this; from here on it is about what comes.
    pub fn take_doubt(&self) -> Option<String> {
        self.nodes.take_certificate().doubt()
    }
}

/// The rate in the text of a link.
fn rate(link: &'static str) -> anyhow::Result<&'static str> {
    let rate = link.split(',').find_map(|part| part.strip_prefix("rate="));
    rate.with_context(|| format!("the channel {link:?} has no rate"))
}

/// A listener of servers whose data the papers' congestion control sends, where the kernel grants it.
fn listen(to: SocketAddr, way: Carrier) -> std::io::Result<TcpListener> {
    let listener = if way == Carrier::Multipath { multipath::listen(to)? } else { TcpListener::bind(to)? };
    let _ = rustix::net::sockopt::set_tcp_congestion(&listener, CONGESTION_CONTROL);
    Ok(listener)
}

/// Has the host reach servers over one channel.
fn lead(nodes: &Nodes, channel: Channel) -> anyhow::Result<()> {
    nodes.on(HOST, || -> anyhow::Result<()> {
        let mut netlink = Netlink::open()?;
        let index = netlink.index(INTERFACES[channel.index()])?;
        let (servers, bits) = SERVERS_AT;
        let via = Via::Gateway(FAR_END[channel.index()].into(), index);
        Ok(netlink.route(servers.into(), bits, via)?)
    })?
}

/// Bytes received and sent by an interface, out of /proc/net/dev.
fn interface(text: &str, name: &str) -> Option<u64> {
    let numbers = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // Eight numbers of what was received, then those of what was sent.
    Some(numbers.first()? + numbers.get(8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_both_directions_are_added_and_an_interface_is_found_by_its_whole_name() {
        let line =
            |name: &str, received: u64, sent: u64| format!("  {name}: {received} 1 0 0 0 0 0 0 {sent} 2 0 0 0 0 0 0\n");
        let text = line("link10", 7, 7) + &line("link1", 30, 4);
        assert_eq!((interface(&text, "link1"), interface(&text, "link0")), (Some(34), None));
    }

    #[test]
    fn the_rate_of_each_channel_of_the_sweep_is_known_to_its_tunnel() {
        for network in super::super::super::network::SWEEP {
            assert!(rate(network.fat).is_ok() && rate(network.fast).is_ok(), "{network:?}");
        }
    }
}
