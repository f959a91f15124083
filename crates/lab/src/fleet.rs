//! Telemetry of a fleet that never was: hosts of several operators whose programs look up and connect in virtual time, day after day, each host
//! under headstart but for a control group. What they write has the form of real hosts (`headstart_io::telemetry`), so that a report can be
//! tried before there is a fleet.
//!
//! The same seed gives the same bytes. Days of a host are sessions of the lab's own connector, or of glibc and the kernel alone; apps differ by the
//! sites that they visit.

mod pack;

pub use pack::{EVENTS, EVENTS_VERSION, Packed, days, pack};

use crate::condition;
use crate::sim::{Arm, Session, Settings};
use crate::world::Site;
use anyhow::Context as _;
use headstart_core::connect::Want;
use headstart_core::connect::cache::Lifetime;
use headstart_core::time::Duration;
use headstart_io::telemetry::{Connection, Names, Stamp};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What operators there are: the label of their hosts, and the condition of their network.
pub const OPERATORS: [(&str, &str); 4] =
    [("mobile", "paper1-lte"), ("fibre", "healthy"), ("detour", "ipv6-slower"), ("hotel", "ipv6-black-hole")];
/// Programs, and how many sites each visits a day.
const APPS: [(&str, usize); 3] = [("browser", 4), ("mail", 1), ("updater", 1)];
/// Sites of a host's world.
const SITES: usize = 12;
/// One host in so many is of the control group.
const CONTROL: u64 = 5;
/// 2026-11-01, the first day.
const BEGAN: u64 = 1_793_491_200;
const DAY: u64 = 86_400;
/// The key of the site that never was.
const KEY: [u8; 16] = [0x5a; 16];

/// How much is made.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Hosts.
    pub hosts: u64,
    /// Days of each.
    pub days: u64,
    /// Seed of everything.
    pub seed: u64,
}

/// Writes a batch for each host into `folder`; how many events there are.
pub fn simulate(size: Size, folder: &Path) -> anyhow::Result<u64> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let (next, events) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> anyhow::Result<()> {
        loop {
            let host = next.fetch_add(1, Ordering::Relaxed);
            if host >= size.hosts {
                return Ok(());
            }
            events.fetch_add(Host::new(size, host).write(size.days, folder)?, Ordering::Relaxed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a host died")))
    })?;
    Ok(events.into_inner())
}

struct Host {
    rng: fastrand::Rng,
    names: Names,
    condition: &'static str,
    arm: &'static str,
}

impl Host {
    fn new(size: Size, number: u64) -> Self {
        let rng = fastrand::Rng::with_seed(size.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (label, condition) = OPERATORS[number as usize % OPERATORS.len()];
        let names = Names::new(KEY, false, label.to_owned(), &format!("simulated {} {number}", size.seed));
        // Not in step with the operators.
        let is_control = (number / OPERATORS.len() as u64).is_multiple_of(CONTROL);
        Self { rng, names, condition, arm: if is_control { "bare" } else { "adaptive" } }
    }

    fn write(mut self, days: u64, folder: &Path) -> anyhow::Result<u64> {
        let path = folder.join(format!("{}-{BEGAN:012}-{:016x}.jsonl", self.names.host(), self.rng.u64(..)));
        let named = || format!("writing {}", path.display());
        let mut file = BufWriter::new(File::create(&path).with_context(named)?);
        let mut events = 0;
        for day in 0..days {
            for event in self.day(BEGAN + day * DAY)? {
                writeln!(file, "{event}").with_context(named)?;
                events += 1;
            }
        }
        file.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(named)?;
        Ok(events)
    }

    /// The events of a day that begins at `midnight`: a session, in which apps take turns.
    fn day(&mut self, midnight: u64) -> anyhow::Result<Vec<serde_json::Value>> {
        let world = (condition::find(self.condition)?.world)(self.rng.u64(..), SITES);
        let (arm, seed) = (Arm::find(self.arm)?, self.rng.u64(..));
        let mut session = Session::new(&world, Settings { arm, lifetime: Lifetime::Ttl, seed })?;
        let (mut events, mut at) = (Vec::new(), midnight + self.rng.u64(..DAY / 2));
        for (app, visits) in APPS {
            let before = session.tally();
            for _ in 0..visits {
                let site = self.rng.usize(..SITES);
                self.visit(&mut session, &world.sites[site], site, app, at, &mut events);
                let pause = self.rng.u64(1..120);
                session.idle(Duration::from_secs(pause));
                at += pause;
            }
            if let (Some(before), Some(after)) = (before, session.tally()) {
                let stamp = self.stamp(at);
                events.push(self.names.run(stamp, app, &after.since(&before)));
            }
        }
        Ok(events)
    }

    fn stamp(&mut self, at: u64) -> Stamp {
        Stamp { id: self.rng.u128(..), at }
    }

    fn visit(
        &mut self,
        session: &mut Session,
        to: &Site,
        site: usize,
        app: &str,
        at: u64,
        events: &mut Vec<serde_json::Value>,
    ) {
        let visit = session.visit(site, Want::Both);
        let stamp = self.stamp(at);
        events.push(self.names.lookup(stamp, app, &to.name, visit.getaddrinfo));
        let flow = |peer: IpAddr, connect: Option<Duration>, failed_after: Option<Duration>| Connection {
            peer,
            accelerated: self.arm != "bare",
            connect,
            failed_after,
            rtt_ms: None,
            up_bytes: 0,
            down_bytes: 0,
            end: if connect.is_some() { "finished" } else { "failed" },
        };
        let mut flows = Vec::new();
        let of_v6 = to.v6.first().filter(|_| !visit.in_vain.is_zero());
        flows.extend(of_v6.map(|host| flow(host.addr, None, Some(visit.in_vain))));
        let waited = visit.total - visit.getaddrinfo - visit.in_vain;
        flows.extend(visit.reached.map(|peer| flow(peer, Some(waited), None)));
        for flow in flows {
            let stamp = self.stamp(at);
            events.push(self.names.flow(stamp, app, &flow));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn made(seed: u64) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let events = simulate(Size { hosts: 8, days: 2, seed }, folder.path()).unwrap();
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut all: Vec<_> = files.map(|path| (name(&path), fs::read_to_string(path).unwrap())).collect();
        all.sort();
        assert_eq!(events, all.iter().map(|(_, text)| text.lines().count() as u64).sum::<u64>());
        all
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_in_the_form_of_real_hosts() {
        let all = made(7);
        assert!(all.len() == 8 && all == made(7) && all != made(8));
        let events: Vec<Value> =
            all.iter().flat_map(|(_, text)| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!(of("lookup"), 8 * 2 * 6);
        assert!(of("flow") >= of("lookup") && of("run") > 0);
        let ids: std::collections::BTreeSet<String> = events.iter().map(|event| event["id"].to_string()).collect();
        assert_eq!(ids.len(), events.len());
        let waits = |accelerated: bool| {
            let flows = events.iter().filter(|e| e["label"] == "hotel" && e["accelerated"] == accelerated);
            flows.map(|flow| flow["failed_after_ms"].as_f64().unwrap_or(0.0)).fold(0.0, f64::max)
        };
        assert!(waits(false) > 100_000.0 && waits(true) < 10_000.0, "{} {}", waits(false), waits(true));
    }
}
