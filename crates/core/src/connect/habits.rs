//! What programs do: which names each asks for, how long after its launch and after which other name, and where it
//! connects to. Prefetch and pool ask here what to expect.
//!
//! A launch is a program's first sign of life within an account (a run of the supervisor), or the moment at which the
//! account says that the program begins. What happened in it is learned of when it ends. Ours, after Chromium's predictor
//! (at most so many names, out after three misses) and paper 1, section III-B (history of an app's names).
//!
//! What never happens here: a name of one program is never expected of another.

use super::AppId;
use super::memory;
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Names remembered of a program: connect.md, as in Chromium's predictor.
pub const MAX_NAMES: usize = 100;
/// Programs remembered; the one used longest ago makes room.
pub const MAX_PROGRAMS: usize = 64;
/// Launches that go on at once; of more, the oldest is learned from.
const MAX_LAUNCHES: usize = 256;
/// Followers remembered of a name, ports of a name.
const MAX_FOLLOWERS: usize = 16;
const MAX_PORTS: usize = 4;
/// A name that was looked up ahead of time so many launches in a row, and not asked for, is forgotten: connect.md.
const MAX_MISSES: u32 = 3;
/// Launches that a share speaks of: a habit that was given up three times in four is none any more.
const WINDOW: u32 = 4;
/// What is asked for within this time after another name follows it: half of how long a spare connection may wait.
pub(super) const FOLLOWS_WITHIN: Duration = Duration::from_secs(5);
/// Counts of followers are halved here, so that old habits fade.
const MAX_ASKED: u32 = 12;
/// Connections within this time after the first are opened side by side.
const SIDE_BY_SIDE: Duration = Duration::from_secs(2);
/// After this long without a connection to a port, the next is a first one again.
const EPISODE: Duration = Duration::from_secs(10);

/// The record types that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Records([bool; RecordType::ALL.len()]);

impl Records {
    pub fn add(&mut self, record: impl Into<RecordType>) {
        self.0[record.into() as usize] = true;
    }

    fn has(self, record: RecordType) -> bool {
        self.0[record as usize]
    }

    pub fn iter(self) -> impl Iterator<Item = RecordType> {
        RecordType::ALL.into_iter().filter(move |r| self.has(*r))
    }

    /// The families whose addresses are asked for: a name that a program asked for over one alone is kept to that one.
    pub fn want(self) -> super::Want {
        match (self.has(RecordType::A), self.has(RecordType::Aaaa)) {
            (true, false) => super::Want::Only(Family::V4),
            (false, true) => super::Want::Only(Family::V6),
            _ => super::Want::Both,
        }
    }
}

/// What is known of a port of a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    pub launches: u32,
    pub share: f32,
    pub parallel: f32,
    pub speaks_first: bool,
    /// Left alone for this long, a server said nothing and closed nothing.
    pub idle: Duration,
    /// After this long of silence it closes.
    pub closes: Option<Duration>,
}

/// What is known of a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    pub records: Records,
    pub share: f32,
    pub after: Duration,
    pub ttl: Option<Duration>,
    pub ports: BTreeMap<u16, Port>,
    launches: u32,
    misses: u32,
    asked: u32,
    followers: BTreeMap<Arc<str>, u32>,
}

#[derive(Debug, Default)]
struct Program {
    used: Instant,
    launches: u32,
    names: BTreeMap<Arc<str>, Name>,
}

/// A name that was asked for a short while ago, and what has followed it.
#[derive(Debug)]
struct Recent {
    name: Arc<str>,
    at: Instant,
    followed_by: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Episode {
    first: Instant,
    last: Instant,
    connections: u32,
}

/// A launch that goes on.
#[derive(Debug, Default)]
struct Launch {
    began: Instant,
    asked: BTreeMap<Arc<str>, Instant>,
    ahead: BTreeSet<Arc<str>>,
    recent: VecDeque<Recent>,
    episodes: BTreeMap<(Arc<str>, u16), Episode>,
}

/// All programs. See the module.
#[derive(Debug, Default)]
pub(super) struct Habits {
    programs: BTreeMap<AppId, Program>,
    launches: BTreeMap<(u32, AppId), Launch>,
    version: u64,
}

/// A name that is expected, with how likely it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    pub name: Arc<str>,
    pub chance: f32,
    /// How long from now, on average; unknown after another name.
    pub after: Duration,
}

impl Habits {
    /// `app` begins in `account`, or is heard of for the first time there. Whether that is news.
    pub fn launched(&mut self, now: Instant, account: u32, app: &AppId) -> bool {
        let key = (account, AppId::clone(app));
        if self.launches.contains_key(&key) {
            return false;
        }
        if self.launches.len() >= MAX_LAUNCHES
            && let Some(oldest) = self.launches.iter().min_by_key(|(_, l)| l.began).map(|(key, _)| key.clone())
        {
            self.ended(oldest);
        }
        self.launches.insert(key, Launch { began: now, ..Launch::default() });
        self.program(now, app).launches += 1;
        true
    }

    fn program(&mut self, now: Instant, app: &AppId) -> &mut Program {
        if !self.programs.contains_key(app) && self.programs.len() >= MAX_PROGRAMS {
            let oldest = self.programs.iter().min_by_key(|(app, p)| (p.used, AppId::clone(app)));
            if let Some(oldest) = oldest.map(|(app, _)| AppId::clone(app)) {
                self.programs.remove(&oldest);
            }
        }
        let program = self.programs.entry(AppId::clone(app)).or_default();
        program.used = now;
        program
    }

    /// A program asks for a name. What followed what is learned at once.
    pub fn asked(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, records: &[RecordType]) {
        let Some(launch) = self.launches.get_mut(&(account, AppId::clone(app))) else { return };
        let Some(program) = self.programs.get_mut(app) else { return };
        program.used = now;
        if !program.names.contains_key(name) && program.names.len() >= MAX_NAMES {
            let idle = program.names.iter().filter(|(n, _)| !launch.asked.contains_key(*n));
            let least = idle.min_by(|(a, x), (b, y)| x.share.total_cmp(&y.share).then_with(|| a.cmp(b)));
            let Some(least) = least.map(|(n, _)| Arc::clone(n)) else { return };
            program.names.remove(&least);
        }
        launch.asked.entry(Arc::clone(name)).or_insert(now);
        let known = program.names.entry(Arc::clone(name)).or_default();
        records.iter().for_each(|r| known.records.add(*r));
        launch.recent.retain(|r| now - r.at <= FOLLOWS_WITHIN);
        if launch.recent.iter().any(|r| r.name == *name) {
            return;
        }
        known.asked += 1;
        if known.asked > MAX_ASKED {
            known.asked /= 2;
            known.followers.values_mut().for_each(|times| *times /= 2);
            known.followers.retain(|_, times| *times > 0);
        }
        for recent in &mut launch.recent {
            let Some(leader) = program.names.get_mut(&recent.name) else { continue };
            if !recent.followed_by.insert(Arc::clone(name)) {
                continue;
            }
            let is_new = !leader.followers.contains_key(name);
            if is_new && leader.followers.len() >= MAX_FOLLOWERS {
                let rarest = leader.followers.iter().min_by_key(|(n, times)| (**times, Arc::clone(n)));
                let Some((rarest, 0..=1)) = rarest.map(|(n, times)| (Arc::clone(n), *times)) else { continue };
                leader.followers.remove(&rarest);
            }
            *leader.followers.entry(Arc::clone(name)).or_default() += 1;
        }
        launch.recent.push_back(Recent { name: Arc::clone(name), at: now, followed_by: BTreeSet::new() });
        // More than there are names of a program cannot be of use.
        if launch.recent.len() > MAX_NAMES {
            launch.recent.pop_front();
        }
    }

    /// A program goes to a port of a name.
    pub fn connected(&mut self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) {
        let Some(launch) = self.launches.get_mut(&(account, AppId::clone(app))) else { return };
        let Some(known) = self.programs.get_mut(app).and_then(|p| p.names.get_mut(name)) else { return };
        if !known.ports.contains_key(&port) && known.ports.len() >= MAX_PORTS {
            return;
        }
        let known = known.ports.entry(port).or_default();
        let episode = launch.episodes.entry((Arc::clone(name), port)).or_default();
        if episode.connections > 0 && now - episode.last > EPISODE {
            known.ended(episode);
            *episode = Episode::default();
        }
        if episode.connections == 0 {
            episode.first = now;
        }
        episode.last = now;
        if now - episode.first <= SIDE_BY_SIDE {
            episode.connections += 1;
        }
    }

    /// Connections opened side by side to this port in the burst that goes on.
    pub fn in_burst(&self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) -> u32 {
        let launch = self.launches.get(&(account, AppId::clone(app)));
        let episode = launch.and_then(|l| l.episodes.get(&(Arc::clone(name), port)));
        episode.filter(|e| now - e.first <= SIDE_BY_SIDE).map_or(0, |e| e.connections)
    }

    /// Whether the name was asked for so lately that it does not follow what is asked for now.
    pub fn is_recent(&self, now: Instant, account: u32, app: &AppId, name: &str) -> bool {
        let launch = self.launches.get(&(account, AppId::clone(app)));
        launch.is_some_and(|l| l.recent.iter().any(|r| &*r.name == name && now - r.at <= FOLLOWS_WITHIN))
    }

    /// An answer for this name holds so long.
    pub fn held_for(&mut self, app: &AppId, name: &Arc<str>, ttl: Duration) {
        if let Some(known) = self.programs.get_mut(app).and_then(|p| p.names.get_mut(name)) {
            known.ttl = Some(ttl);
        }
    }

    /// The name was looked up although nobody had asked for it yet.
    pub fn looked_up_ahead(&mut self, account: u32, app: &AppId, name: &Arc<str>) {
        if let Some(launch) = self.launches.get_mut(&(account, AppId::clone(app))) {
            launch.ahead.insert(Arc::clone(name));
        }
    }

    /// The account is closed: its launches are over, and learned from.
    pub fn closed(&mut self, account: u32) {
        let over = self.launches.keys().filter(|(a, _)| *a == account).cloned().collect::<Vec<_>>();
        over.into_iter().for_each(|key| self.ended(key));
    }

    fn ended(&mut self, key: (u32, AppId)) {
        if let (Some(launch), Some(program)) = (self.launches.remove(&key), self.programs.get_mut(&key.1)) {
            program.learn(&launch);
            self.version += 1;
        }
    }

    /// What a program asks for in most of its launches, soonest first.
    pub fn expected_at_launch(&self, app: &AppId) -> Vec<Expected> {
        let names = self.programs.get(app).into_iter().flat_map(|p| &p.names).filter(|(_, known)| known.launches > 0);
        let expected =
            |(name, k): (&Arc<str>, &Name)| Expected { name: Arc::clone(name), chance: k.share, after: k.after };
        let mut all: Vec<_> = names.map(expected).collect();
        all.sort_by(|a, b| a.after.cmp(&b.after).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// What it asks for within seconds after it has asked for `name`, likeliest first. To be asked before that is learned.
    pub fn expected_after(&self, app: &AppId, name: &str) -> Vec<Expected> {
        let Some(leader) = self.programs.get(app).and_then(|p| p.names.get(name)) else { return Vec::new() };
        let chance = |times: u32| times as f32 / leader.asked.max(1) as f32;
        let expected = |(name, times): (&Arc<str>, &u32)| Expected {
            name: Arc::clone(name),
            chance: chance(*times),
            after: Duration::ZERO,
        };
        let mut all: Vec<_> = leader.followers.iter().map(expected).collect();
        all.sort_by(|a, b| b.chance.total_cmp(&a.chance).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// What is known of a name.
    pub fn name(&self, app: &AppId, name: &str) -> Option<&Name> {
        self.programs.get(app)?.names.get(name)
    }

    /// What is known of a port, to be added to.
    pub fn port_mut(&mut self, app: &AppId, name: &str, port: u16) -> Option<&mut Port> {
        self.version += 1;
        self.programs.get_mut(app)?.names.get_mut(name)?.ports.get_mut(&port)
    }

    /// Counts up whenever there is something new to be remembered.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All of it, to be written down.
    pub fn remembered(&self) -> memory::Memory {
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by(|(a, p), (b, q)| q.used.cmp(&p.used).then_with(|| a.cmp(b)));
        let program = |(app, p): (&AppId, &Program)| memory::Program {
            app: app.to_string(),
            launches: p.launches,
            names: p.names.iter().filter(|(_, n)| n.launches > 0).map(written).collect(),
        };
        memory::Memory { programs: programs.into_iter().map(program).collect() }
    }

    /// Begins with what was written down. What has been learned already stays as it is; a program that is in its first
    /// launch here has taught nothing yet, and is known of old from now on.
    pub fn recall(&mut self, memory: &memory::Memory) {
        for p in memory.programs.iter().take(MAX_PROGRAMS) {
            let app: AppId = p.app.as_str().into();
            let full = self.programs.len() >= MAX_PROGRAMS;
            match self.programs.get_mut(&app) {
                Some(known) if known.names.values().all(|name| name.launches == 0) => {
                    known.launches = known.launches.saturating_add(p.launches);
                    known.recall(&p.names);
                }
                None if !full => {
                    let mut known = Program { used: Instant::ZERO, launches: p.launches, names: BTreeMap::new() };
                    known.recall(&p.names);
                    self.programs.insert(app, known);
                }
                _ => {}
            }
        }
    }

    /// Forgets that a program, or any, has ever asked for `host`.
    pub fn forget_host(&mut self, app: Option<&str>, host: &str) {
        for (_, program) in self.programs.iter_mut().filter(|(known, _)| app.is_none_or(|app| app == &***known)) {
            program.names.remove(host);
            program.names.values_mut().for_each(|name| _ = name.followers.remove(host));
        }
        self.version += 1;
    }

    /// Forgets a program, or all.
    pub fn forget(&mut self, app: Option<&str>) {
        self.programs.retain(|known, _| app.is_some_and(|app| &**known != app));
        self.launches.retain(|(_, known), _| app.is_some_and(|app| &**known != app));
        self.version += 1;
    }
}

/// Takes one more of `n` samples into a mean over the last few of them.
fn mean(old: f32, sample: f32, n: u32) -> f32 {
    old + (sample - old) / n.clamp(1, WINDOW) as f32
}

impl Program {
    /// Takes in names that were written down; of those that are asked for in the launch that goes on, this stays known too.
    fn recall(&mut self, names: &[memory::Name]) {
        for n in names.iter().take(MAX_NAMES) {
            let name: Arc<str> = n.name.as_str().into();
            if !self.names.contains_key(&name) && self.names.len() >= MAX_NAMES {
                continue;
            }
            let mut known = read(n);
            if let Some(new) = self.names.remove(&name) {
                new.records.iter().for_each(|record| known.records.add(record));
                known.ttl = new.ttl.or(known.ttl);
                for (number, port) in new.ports {
                    if known.ports.len() < MAX_PORTS {
                        known.ports.entry(number).or_insert(port);
                    }
                }
            }
            self.names.insert(name, known);
        }
    }

    fn learn(&mut self, launch: &Launch) {
        for ((name, port), episode) in &launch.episodes {
            if let Some(known) = self.names.get_mut(name).and_then(|n| n.ports.get_mut(port)) {
                known.ended(episode);
            }
        }
        for (name, known) in &mut self.names {
            known.launches += 1;
            let asked = launch.asked.get(name);
            known.share = mean(known.share, if asked.is_some() { 1.0 } else { 0.0 }, known.launches);
            if let Some(at) = asked {
                let (old, new) = (known.after.as_secs_f32(), (*at - launch.began).as_secs_f32());
                let after = if known.launches == 1 { new } else { mean(old, new, WINDOW) };
                known.after = Duration::from_secs_f32(after.max(0.0));
                known.misses = 0;
            } else if launch.ahead.contains(name) {
                known.misses += 1;
            }
            for (port, known_port) in &mut known.ports {
                let connected = launch.episodes.contains_key(&(Arc::clone(name), *port));
                let first = known_port.launches == 0;
                known_port.launches += u32::from(connected);
                let sample = if connected { 1.0 } else { 0.0 };
                known_port.share = if first { sample } else { mean(known_port.share, sample, known.launches) };
            }
        }
        self.names.retain(|_, known| known.misses < MAX_MISSES);
    }
}

impl Port {
    fn ended(&mut self, episode: &Episode) {
        let sample = episode.connections as f32;
        self.parallel = if self.parallel == 0.0 { sample } else { mean(self.parallel, sample, WINDOW) };
    }
}

/// Milliseconds, as records have them.
fn ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn written((name, known): (&Arc<str>, &Name)) -> memory::Name {
    let port = |(port, p): (&u16, &Port)| memory::Port {
        port: *port,
        launches: p.launches,
        share: p.share,
        parallel: p.parallel,
        speaks_first: p.speaks_first,
        idle_ms: ms(p.idle),
        closes_ms: p.closes.map_or(0, |closes| ms(closes).max(1)),
    };
    let follower = |(name, times): (&Arc<str>, &u32)| memory::Follower { name: name.to_string(), times: *times };
    memory::Name {
        name: name.to_string(),
        a: known.records.has(RecordType::A),
        aaaa: known.records.has(RecordType::Aaaa),
        https: known.records.has(RecordType::Https),
        launches: known.launches,
        share: known.share,
        after_ms: ms(known.after),
        misses: known.misses,
        ttl_s: known.ttl.map_or(0, |ttl| u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX)),
        asked: known.asked,
        followers: known.followers.iter().map(follower).collect(),
        ports: known.ports.iter().map(port).collect(),
    }
}

/// A share as it may be: what a store gives back is not to be trusted.
fn share(of: f32) -> f32 {
    if of.is_finite() { of.clamp(0.0, 1.0) } else { 0.0 }
}

fn read(n: &memory::Name) -> Name {
    let millis = |n: u32| Duration::from_millis(n.into());
    let port = |p: &memory::Port| Port {
        launches: p.launches,
        share: share(p.share),
        parallel: if p.parallel.is_finite() { p.parallel.clamp(0.0, 100.0) } else { 0.0 },
        speaks_first: p.speaks_first,
        idle: millis(p.idle_ms),
        closes: (p.closes_ms > 0).then(|| millis(p.closes_ms)),
    };
    let mut records = Records::default();
    let asked = [(n.a, RecordType::A), (n.aaaa, RecordType::Aaaa), (n.https, RecordType::Https)];
    asked.into_iter().filter(|(asked, _)| *asked).for_each(|(_, record)| records.add(record));
    Name {
        records,
        share: share(n.share),
        after: millis(n.after_ms),
        ttl: (n.ttl_s > 0).then(|| Duration::from_secs(n.ttl_s.into())),
        ports: n.ports.iter().take(MAX_PORTS).map(|p| (p.port, port(p))).collect(),
        launches: n.launches,
        misses: n.misses,
        asked: n.asked.min(MAX_ASKED),
        followers: n.followers.iter().take(MAX_FOLLOWERS).map(|f| (f.name.as_str().into(), f.times)).collect(),
    }
}

#[cfg(test)]
mod tests;
