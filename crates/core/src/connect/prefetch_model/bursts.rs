//! How many connections a program opens to a port side by side. Ours.
//!
//! What never happens here: one that is begun because another has failed counted as a second.

use super::{Burst, MAX_PORTS, PrefetchModel, SIDE_BY_SIDE};
use crate::connect::AppId;
use crate::time::Instant;
use std::sync::Arc;

impl PrefetchModel {
    /// A program goes to a port of a name.
    pub fn connected(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) {
        let Some(launch) = self.launches.get_mut(&(account, AppId::clone(app))) else { return };
        let Some(known) = self.programs.get_mut(app).and_then(|p| p.names.get_mut(name)) else { return };
        if launch.leaves_out(name) || !known.ports.contains_key(&port) && known.ports.len() >= MAX_PORTS {
            return;
        }
        let known = known.ports.entry(port).or_default();
        let burst = launch.bursts.entry((Arc::clone(name), port)).or_default();
        if burst.connections > 0 && now - burst.first > SIDE_BY_SIDE {
            known.burst_ended(burst);
            known.came_again(now - burst.last);
            *burst = Burst::default();
        }
        if burst.connections == 0 {
            burst.first = now;
        }
        burst.last = now;
        burst.connections += 1;
    }

    /// What a program began there has failed: the next that it begins is in its place, and not beside it.
    pub fn failed(&mut self, account: u32, app: &AppId, name: &Arc<str>, port: u16) {
        let launch = self.launches.get_mut(&(account, AppId::clone(app)));
        if let Some(burst) = launch.and_then(|l| l.bursts.get_mut(&(Arc::clone(name), port))) {
            burst.connections = burst.connections.saturating_sub(1);
        }
    }

    /// Connections opened side by side to this port in the burst that goes on.
    pub fn in_burst(&self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) -> u32 {
        let launch = self.launches.get(&(account, AppId::clone(app)));
        let burst = launch.and_then(|l| l.bursts.get(&(Arc::clone(name), port)));
        burst.filter(|b| now - b.first <= SIDE_BY_SIDE).map_or(0, |b| b.connections)
    }
}
