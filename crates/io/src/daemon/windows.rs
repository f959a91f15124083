//! Initial windows for known peers: what the kernel remembers becomes routes in our table, refreshed, and withdrawn when they
//! are not earned any more, when the way that they copy has changed, or when another program keeps removing them.

use crate::host::change::Change;
use crate::host::change::{route, rule};
use crate::host::ledger::{Ledger, LedgerError};
use crate::host::{Kernel, KernelError, Numbers, PROTOCOL};
use crate::sys::netlink::Netlink;
use headstart_core::cwnd::initcwnd::{self, Bounds};
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::netlink::{AF_INET, AF_INET6, Route, Rule};
use headstart_core::wire::tcp_metrics::Remembered;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// How often another program may remove a route of headstart's, within [`WITHIN`], before we give it up. Ours.
const PATIENCE: usize = 5;
/// See [`PATIENCE`].
const WITHIN: Duration = Duration::from_secs(60);

/// The routes that windows have become.
#[derive(Debug)]
pub struct Windows {
    bounds: Bounds,
    numbers: Numbers,
    rules: BTreeMap<u8, u64>,
    routes: BTreeMap<IpAddr, (u64, Route)>,
    refused: BTreeMap<IpAddr, String>,
    removed_by_others: VecDeque<Instant>,
    given_up: bool,
}

/// What the kernel remembers of the paths that connections take now.
pub(super) fn memories(kernel: &mut Kernel, routes: &[Route]) -> Result<Vec<Remembered>, KernelError> {
    let mut remembered = kernel.remembered()?;
    // A kernel that does not say where a connection would come from says nothing against a memory.
    if let Ok(mut netlink) = Netlink::open() {
        initcwnd::of_this_path(&mut remembered, |peer| {
            let interface = initcwnd::way_to(peer, routes)?.interface()?;
            netlink.source_by(interface, peer).ok().flatten()
        });
    }
    Ok(remembered)
}

/// What is in the kernel now.
struct Scene {
    wanted: BTreeMap<IpAddr, Route>,
    present: Vec<IpAddr>,
    rules: Vec<Rule>,
}

impl Windows {
    /// No routes yet.
    pub fn new(bounds: Bounds, numbers: Numbers) -> Self {
        Self {
            bounds,
            numbers,
            rules: BTreeMap::new(),
            routes: BTreeMap::new(),
            refused: BTreeMap::new(),
            removed_by_others: VecDeque::new(),
            given_up: false,
        }
    }

    /// What the first [`Self::refresh`] would change, without changing it. Needs no privilege.
    pub fn plan(&self, kernel: &mut Kernel) -> Result<Vec<Change>, KernelError> {
        let scene = self.look(kernel)?;
        let families =
            [AF_INET, AF_INET6].into_iter().filter(|family| scene.wanted.values().any(|r| r.family() == *family));
        let rules = families.map(|family| Change::Rule(rule::Rule::new(family, self.numbers)));
        let routes = scene.wanted.values().map(|wanted| Change::Route(route::Route::new(wanted)));
        Ok(rules.chain(routes).collect())
    }

    /// Peers that are given a window.
    pub fn peers(&self) -> usize {
        self.routes.len()
    }

    /// What is not as it should be.
    pub fn problems(&self) -> Vec<String> {
        let given_up =
            "another program keeps removing headstart's routes or rules: initial windows are off until the next `up`";
        let given_up = self.given_up.then(|| given_up.to_owned());
        given_up.into_iter().chain(self.refused.values().cloned()).collect()
    }

    fn look(&self, kernel: &mut Kernel) -> Result<Scene, KernelError> {
        let mut routes = kernel.routes(AF_INET)?;
        routes.extend(kernel.routes(AF_INET6)?);
        let remembered = memories(kernel, &routes)?;
        let windows = initcwnd::windows(&remembered, &self.bounds);
        let narrowed = |window: &initcwnd::Window| {
            let way = initcwnd::way_to(window.peer, &routes)?;
            Some((window.peer, way.narrowed(window.peer, self.numbers.table, PROTOCOL, window.segments)))
        };
        let wanted = windows.iter().filter_map(narrowed).collect();
        let ours = routes.iter().filter(|route| route.table() == self.numbers.table && route.protocol() == PROTOCOL);
        let present = ours.filter_map(|route| Some(route.destination()?.0)).collect();
        let mut rules = kernel.rules(AF_INET)?;
        rules.extend(kernel.rules(AF_INET6)?);
        rules.retain(|rule| rule.table() == self.numbers.table && rule.protocol() == PROTOCOL);
        Ok(Scene { wanted, present, rules })
    }

    /// Makes the host as it should be now. An error leaves what there is, all of it in the journal.
    pub fn refresh(&mut self, now: Instant, ledger: &mut Ledger) -> Result<(), LedgerError> {
        if self.given_up {
            return Ok(());
        }
        let Scene { wanted, present, rules } = self.look(ledger.kernel())?;
        self.forget_what_is_gone(now, ledger, &wanted, &present, &rules);
        if self.removed_by_others.len() >= PATIENCE {
            self.given_up = true;
            return self.withdraw(ledger);
        }
        let stale =
            |(peer, (n, route)): (&IpAddr, &(u64, Route))| (wanted.get(peer) != Some(route)).then_some((*peer, *n));
        let stale: Vec<_> = self.routes.iter().filter_map(stale).collect();
        for (peer, n) in stale {
            ledger.undo(n)?;
            self.routes.remove(&peer);
        }
        self.refused.retain(|peer, _| wanted.contains_key(peer));
        for family in wanted.values().map(Route::family).collect::<BTreeSet<_>>() {
            self.lead(family, ledger)?;
        }
        for (peer, route) in wanted {
            if self.routes.contains_key(&peer) {
                continue;
            }
            match ledger.make(&Change::Route(route::Route::new(&route))) {
                Ok(n) => {
                    self.refused.remove(&peer);
                    self.routes.insert(peer, (n, route));
                }
                // One way that cannot be copied is no reason to have no others.
                Err(LedgerError::Change(e)) if !e.is_not_permitted() => _ = self.refused.insert(peer, e.to_string()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sees to it that the rule of a family is there.
    fn lead(&mut self, family: u8, ledger: &mut Ledger) -> Result<(), LedgerError> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.rules.entry(family) {
            place.insert(ledger.make(&Change::Rule(rule::Rule::new(family, self.numbers)))?);
        }
        Ok(())
    }

    /// Notes what is not there any more; counts what another program has removed although it is still wanted.
    fn forget_what_is_gone(
        &mut self,
        now: Instant,
        ledger: &mut Ledger,
        wanted: &BTreeMap<IpAddr, Route>,
        present: &[IpAddr],
        rules: &[Rule],
    ) {
        let mut taken = false;
        self.routes.retain(|peer, (n, route)| {
            let is_there = present.contains(peer);
            if !is_there {
                ledger.forget(*n);
                // The kernel itself takes routes away when an interface goes; then the way is another.
                taken |= wanted.get(peer) == Some(route);
            }
            is_there
        });
        self.rules.retain(|family, n| {
            let is_there = rules.iter().any(|rule| rule.family() == *family);
            if !is_there {
                ledger.forget(*n);
                taken = true;
            }
            is_there
        });
        while self.removed_by_others.front().is_some_and(|at| now.since(*at) > WITHIN) {
            self.removed_by_others.pop_front();
        }
        if taken {
            self.removed_by_others.push_back(now);
        }
    }

    fn withdraw(&mut self, ledger: &mut Ledger) -> Result<(), LedgerError> {
        for (n, _) in std::mem::take(&mut self.routes).into_values() {
            ledger.undo(n)?;
        }
        for n in std::mem::take(&mut self.rules).into_values() {
            ledger.undo(n)?;
        }
        Ok(())
    }
}
