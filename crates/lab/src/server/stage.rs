//! A page put on a network: its world, every host on its own addresses with its own certificate, and whom to believe.
//!
//! What is replayed stays where it is: nothing of a recording is written anywhere. The authority is made for this stage; its
//! key never leaves the process.

use super::authority::{Authority, AuthorityError, Trust};
use super::replay::{ReplayServer, Served};
use crate::condition::page::{Families, world};
use crate::netns::{Error, Network};
use crate::page::recording::{Answers, Exchange};
use crate::page::{Page, content};
use crate::world::World;
use std::io;
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
    /// Nobody listens.
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
        Self::build(&world, exchanges, root, folder)
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
        Self::build(&world, exchanges, root, folder)
    }

    fn build(world: &World, exchanges: Vec<Exchange>, url: String, folder: &Path) -> Result<Self, StageError> {
        let network = Network::build(world)?;
        let authority = Authority::create(folder)?;
        let names: Vec<String> = world.sites.iter().map(|s| s.name.clone()).collect();
        let mut replay = ReplayServer::new(Answers::new(exchanges), authority.servers(&names)?);
        let addresses: Vec<_> = network.accepted().into_keys().collect();
        network.on_servers(|| addresses.iter().try_for_each(|ip| replay.listen(*ip)))??;
        Ok(Self { replay, network, trust: authority.trust().clone(), url })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Whom programs are to believe.
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
