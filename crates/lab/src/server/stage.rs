//! A page put on a network: its world, every host on its own addresses with its own certificate, and the authority to trust.
//!
//! What is replayed stays where it is: nothing of a recording is written anywhere. The authority is made for this
//! stage; its key never leaves the process.

use super::authority::{Authority, AuthorityError, Trust};
use super::replay::{ReplayServer, Served, Tls};
use crate::condition::page::{Families, world};
use crate::netns::{Error, Network};
use crate::page::recording::{Answers, Exchange, Scheme};
use crate::page::{Page, Protocol, content};
use crate::world::World;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Why a page is not on a network.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// There is no network.
    #[error(transparent)]
    Network(#[from] Error),
    /// There are no certificates.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// There is no name to look up.
    #[error("no request of the recording names a host: a replay looks hosts up by their names")]
    Nameless,
    /// The servers cannot listen.
    #[error("replaying a page: {0}")]
    Listen(#[from] io::Error),
}

/// A page on a network. Everything ends when this is dropped.
pub struct Stage {
    // Dropped first: it listens in the network.
    replay: ReplayServer,
    network: Network,
    trust: Trust,
    url: String,
    over_quic: Vec<String>,
}

impl Stage {
    /// Puts a page with contents made up for it behind `link`.
    pub fn of_contents(
        page: &Page,
        link: &str,
        families: Families,
        seed: u64,
        folder: &Path,
    ) -> Result<Self, StageError> {
        let world = world(page, link, families, seed);
        let names: Vec<String> = world.sites.iter().map(|s| s.name.clone()).collect();
        let root = format!("https://{}/", names[page.objects[0].host]);
        let exchanges = content::exchanges(page, &names);
        Self::build(&world, page, exchanges, root, folder)
    }

    /// Puts a recording behind `link`; `page` is the page that was made of it, `root` the address of its document.
    pub fn of_recording(
        page: &Page,
        exchanges: Vec<Exchange>,
        root: &str,
        (link, families, seed): (&str, Families, u64),
        folder: &Path,
    ) -> Result<Self, StageError> {
        let mut world = world(page, link, families, seed);
        for (site, host) in world.sites.iter_mut().zip(&page.hosts) {
            site.name.clone_from(&host.name);
        }
        let root = root.strip_prefix("http://").map_or_else(|| root.to_owned(), |rest| format!("https://{rest}"));
        Self::build(&world, page, exchanges, root, folder)
    }

    /// Puts whatever was recorded behind `link`, at the ports that it was recorded from (80 and 443 always): hosts over
    /// TLS offer HTTP up to the version of `protocol`. Hosts that have no name cannot be looked up; they are left out.
    pub fn of_exchanges(
        exchanges: Vec<Exchange>,
        protocol: Protocol,
        (link, families, seed): (&str, Families, u64),
        folder: &Path,
    ) -> Result<Self, StageError> {
        let named = |name: &String| !name.is_empty() && name.parse::<IpAddr>().is_err();
        let names: BTreeSet<String> = exchanges.iter().map(Exchange::host).filter(named).collect();
        if names.is_empty() {
            return Err(StageError::Nameless);
        }
        let page = Page::of_hosts(names.iter().cloned(), protocol);
        let mut world = world(&page, link, families, seed);
        for (site, name) in world.sites.iter_mut().zip(&names) {
            site.name.clone_from(name);
        }
        let first = names.first().map_or("", String::as_str);
        let ports: BTreeSet<(u16, bool)> = exchanges.iter().map(|e| (e.port, e.scheme == Scheme::Https)).collect();
        let mut stage = Self::build(&world, &page, exchanges, format!("https://{first}/"), folder)?;
        stage.network.stop_web_server()?;
        let addresses: Vec<IpAddr> = stage.network.accepted().into_keys().collect();
        let more: BTreeSet<(u16, bool)> = ports.into_iter().chain([(80, false)]).filter(|(p, _)| *p != 443).collect();
        let (network, replay) = (&stage.network, &mut stage.replay);
        let mut every = addresses.iter().flat_map(|ip| more.iter().map(move |(port, tls)| (*ip, *port, *tls)));
        network.on_servers(|| every.try_for_each(|(ip, port, tls)| replay.listen(ip, port, tls)))??;
        Ok(stage)
    }

    fn build(
        world: &World,
        page: &Page,
        exchanges: Vec<Exchange>,
        url: String,
        folder: &Path,
    ) -> Result<Self, StageError> {
        let network = Network::build(world)?;
        let authority = Authority::create(folder)?;
        let names: Vec<String> = world.sites.iter().map(|s| s.name.clone()).collect();
        // A host of which one object came over HTTP/2 speaks it; one of which one came over HTTP/3 speaks that, and HTTP/2 too.
        let speaking = |fits: fn(Protocol) -> bool| -> BTreeSet<usize> {
            page.objects.iter().filter(|o| fits(o.protocol)).map(|o| o.host).collect()
        };
        let lower = |hosts: &BTreeSet<usize>| hosts.iter().map(|n| names[*n].to_ascii_lowercase()).collect();
        let quic = speaking(|p| p == Protocol::Http3);
        let config = authority.servers(&names)?;
        let tls = Tls::new(&config, lower(&speaking(|p| p != Protocol::Http1))).over_quic(lower(&quic));
        let mut replay = ReplayServer::new(Answers::new(exchanges), tls);
        let addresses: BTreeSet<IpAddr> = network.accepted().into_keys().collect();
        let of_quic = quic.iter().flat_map(|n| world.sites[*n].v4.iter().chain(&world.sites[*n].v6)).map(|h| h.addr);
        let of_quic: Vec<IpAddr> = of_quic.filter(|ip| addresses.contains(ip)).collect();
        network.on_servers(|| {
            addresses.iter().try_for_each(|ip| replay.listen(*ip, 443, true))?;
            if of_quic.is_empty() { Ok(()) } else { replay.listen_quic(&of_quic, 443) }
        })??;
        let over_quic = quic.iter().map(|n| format!("{}:443", names[*n])).collect();
        Ok(Self { replay, network, trust: authority.trust().clone(), url, over_quic })
    }

    /// The origins that speak HTTP/3, as browsers are told of them.
    pub fn over_quic(&self) -> &[String] {
        &self.over_quic
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The authority that programs are to trust.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The address of the document.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What was asked for so far.
    pub fn served(&self) -> Served {
        self.replay.served()
    }
}
