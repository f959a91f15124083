//! How many connections a program opens to a port side by side: the most to one address. One to another address of the same name is
//! for what the first does not do soon, or has not done (RFC 8305), and not beside it. Ours.
//!
//! What never happens here: one that is begun because another has failed counted as a second.

use super::{MAX_PORTS, PrefetchModel, SIDE_BY_SIDE};
use crate::connect::AppId;
use crate::time::Instant;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Addresses of one name that are counted in a burst: as many as names have (61 at most in the lab's worlds).
const MAX_ADDRESSES: usize = 64;

/// Connections to a port of a name, begun within two seconds.
#[derive(Debug, Default)]
pub(super) struct Burst {
    pub first: Instant,
    pub last: Instant,
    /// How many to each address.
    begun: Vec<(IpAddr, u32)>,
}

impl Burst {
    /// How many side by side.
    pub fn connections(&self) -> u32 {
        self.begun.iter().map(|(_, n)| *n).max().unwrap_or(0)
    }

    fn begin(&mut self, to: IpAddr) {
        if let Some((_, n)) = self.begun.iter_mut().find(|(addr, _)| *addr == to) {
            *n += 1;
        } else if self.begun.len() < MAX_ADDRESSES {
            self.begun.push((to, 1));
        }
    }
}

impl PrefetchModel {
    /// A program goes to a port of a name, by this address of it.
    pub fn connected(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, to: SocketAddr) {
        let port = to.port();
        let Some(launch) = self.launches.get_mut(&(account, AppId::clone(app))) else { return };
        let Some(known) = self.programs.get_mut(app).and_then(|p| p.names.get_mut(name)) else { return };
        if launch.leaves_out(name) || !known.ports.contains_key(&port) && known.ports.len() >= MAX_PORTS {
            return;
        }
        let known = known.ports.entry(port).or_default();
        let burst = launch.bursts.entry((Arc::clone(name), port)).or_default();
        if burst.connections() > 0 && now - burst.first > SIDE_BY_SIDE {
            known.burst_ended(burst);
            known.came_again(now - burst.last);
            *burst = Burst::default();
        }
        if burst.connections() == 0 {
            burst.first = now;
        }
        burst.last = now;
        burst.begin(to.ip());
    }

    /// What a program began there has failed: the next that it begins is in its place, and not beside it.
    pub fn failed(&mut self, account: u32, app: &AppId, name: &Arc<str>, to: SocketAddr) {
        let launch = self.launches.get_mut(&(account, AppId::clone(app)));
        let burst = launch.and_then(|l| l.bursts.get_mut(&(Arc::clone(name), to.port())));
        if let Some((_, n)) = burst.and_then(|b| b.begun.iter_mut().find(|(addr, _)| *addr == to.ip())) {
            *n = n.saturating_sub(1);
        }
    }

    /// Connections opened side by side to this port in the burst that goes on.
    pub fn in_burst(&self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) -> u32 {
        let launch = self.launches.get(&(account, AppId::clone(app)));
        let burst = launch.and_then(|l| l.bursts.get(&(Arc::clone(name), port)));
        burst.filter(|b| now - b.first <= SIDE_BY_SIDE).map_or(0, Burst::connections)
    }
}
