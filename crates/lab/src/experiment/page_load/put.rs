//! Pages for real browsers: of the generator, with contents made up for them, or recorded.

use super::pages::{self, Recording};
use crate::condition::page::Families;
use crate::experiment::{Context, Outcome};
use crate::page::recording::{self, Exchange};
use crate::page::{Page, Protocol, content, synthetic};
use crate::server::stage::{Stage, StageError};
use crate::socket_loader::{self, Request};
use headstart_core::time::Duration;
use std::path::Path;

/// A link that hardly delays anything.
const NEXT_DOOR: &str = "rate=1gbit,delay=100us";

/// A page, and what is served of it: contents made up for it, or its recording.
pub struct Put {
    pub page: Page,
    /// And which of its exchanges each object is.
    recording: Option<(Recording, Vec<usize>)>,
}

impl Put {
    /// A page with contents made up for it.
    pub fn of_page(page: Page) -> Self {
        Self { page, recording: None }
    }

    /// Whether it was recorded.
    pub fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// Behind a link, among families that relate so, in a world of this seed.
    pub fn on_stage(&self, network: (&str, Families, u64), folder: &Path) -> Result<Stage, StageError> {
        self.behind(&self.page, network, folder)
    }

    /// With all hosts next door: what a load takes there is the browser's own work, and the replay's.
    pub fn next_door(&self, seed: u64, folder: &Path) -> Result<Stage, StageError> {
        let mut page = self.page.clone();
        page.hosts.iter_mut().for_each(|h| h.leg = Duration::ZERO);
        self.behind(&page, (NEXT_DOOR, Families::Alike, seed), folder)
    }

    fn behind(&self, page: &Page, network: (&str, Families, u64), folder: &Path) -> Result<Stage, StageError> {
        let (link, families, seed) = network;
        match &self.recording {
            None => Stage::of_contents(page, link, families, seed, folder),
            Some((r, _)) => Stage::of_recording(page, r.exchanges.clone(), &r.root, network, folder),
        }
    }

    /// What the hosts are called where it is served; those of a page with contents made up for it are `names`.
    pub fn hosts(&self, names: impl Fn(usize) -> String) -> Vec<String> {
        let of = |(n, host): (usize, &crate::page::Host)| match &self.recording {
            None => names(n),
            Some(_) => host.name.clone(),
        };
        self.page.hosts.iter().enumerate().map(of).collect()
    }

    /// The exchanges and the address of the document, where the hosts are called `names`.
    pub fn contents(&self, names: &[String]) -> (Vec<Exchange>, String) {
        match &self.recording {
            None => {
                let root = format!("https://{}/", names[self.page.objects[0].host]);
                (content::exchanges(&self.page, names), root)
            }
            Some((Recording { root, exchanges, .. }, _)) => {
                let root = root.strip_prefix("http://").map_or_else(|| root.clone(), |rest| format!("https://{rest}"));
                (exchanges.clone(), root)
            }
        }
    }

    /// What a loader asks for, object by object, where the hosts are called `names`.
    pub fn requests(&self, names: &[String]) -> Vec<Request> {
        match &self.recording {
            None => socket_loader::requests(&self.page, content::exchanges(&self.page, names).iter()),
            Some((r, order)) => socket_loader::requests(&self.page, order.iter().map(|n| &r.exchanges[*n])),
        }
    }
}

/// Pages that a busy little machine can load often enough: not large. The replay server does not think.
pub fn generated(seed: u64, count: usize) -> Vec<Put> {
    let fits = |p: &Page| (15..80).contains(&p.objects.len()) && p.bytes() < 2_000_000 && p.hosts.len() > 3;
    let mut pages: Vec<Page> = synthetic::pages(seed, 1000).filter(fits).take(count).collect();
    pages.iter_mut().flat_map(|p| &mut p.objects).for_each(|o| o.think = Duration::ZERO);
    pages.into_iter().map(Put::of_page).collect()
}

/// Recorded pages, if `--pages` names a folder that has some.
pub fn recorded(cx: &Context, count: usize, outcome: &mut Outcome) -> anyhow::Result<Vec<Put>> {
    let Some(folder) = cx.pages.as_ref().map(|p| p.join("recorded")).filter(|f| f.is_dir()) else {
        return Ok(Vec::new());
    };
    let all = pages::recordings(&folder, outcome)?.into_iter().enumerate();
    let put = |(n, recording): (usize, Recording)| {
        let Recording { name, root, exchanges } = &recording;
        let (mut page, order) = recording::page_in_order(name, exchanges, root, Protocol::Http1)?;
        pages::far(&mut page, cx.seed.wrapping_add(n as u64));
        Some(Put { page, recording: Some((recording, order)) })
    };
    Ok(all.filter_map(put).take(count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_for_a_real_browser_are_small_do_not_think_and_are_the_same_for_a_seed() {
        let pages = |seed| generated(seed, 3).into_iter().map(|p| p.page).collect::<Vec<_>>();
        let some = pages(1);
        assert_eq!(some, pages(1));
        assert_eq!(some.len(), 3);
        assert!(some.iter().flat_map(|p| &p.objects).all(|o| o.think.is_zero()));
    }
}
