//! What programs do: which names each asks for, how long after its launch and after which other name, and where it
//! connects to. Prefetch and pool ask here what to expect.
//!
//! A launch is a program's first sign of life within an account (a run of the supervisor), or the moment at which the
//! account says that the program begins. What happened in it is learned of when it ends. Ours, after Chromium's predictor
//! (at most so many names, out after three misses) and paper 1, section III-B (history of an app's names).
//!
//! Programs keep connections and use them again, without asking: what a launch has been to is expected again
//! only after as long as the program has been seen to keep such a connection.
//!
//! What never happens here: a name of one program is never expected of another.

mod bursts;
mod record;

use super::AppId;
use super::memory;
use crate::path::Family;
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use bursts::Burst;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Names remembered of a program, as in Chromium's predictor.
pub const MAX_NAMES: usize = 100;
/// Programs remembered; the one used longest ago makes room.
pub const MAX_PROGRAMS: usize = 64;
/// Launches that go on at once; of more, the oldest is learned from.
const MAX_LAUNCHES: usize = 256;
/// Followers remembered of a name, ports of a name.
const MAX_FOLLOWERS: usize = 24;
const MAX_PORTS: usize = 4;
/// A name that was looked up ahead of time so many launches in a row, and not asked for, is forgotten. Ours.
const MAX_MISSES: u32 = 3;
/// Launches that a share speaks of: a habit that was given up three times in four is none any more.
const WINDOW: u32 = 4;
/// What is asked for within this time after another name follows it: half of how long a spare connection may wait.
pub(super) const FOLLOWS_WITHIN: Duration = Duration::from_secs(5);
/// Counts of followers are halved here, so that old habits fade.
const MAX_ASKED: u32 = 12;
/// Connections within this time after the first are opened side by side; what comes later is a burst of its own.
const SIDE_BY_SIDE: Duration = Duration::from_secs(2);
/// Part of the shortest time after which a program was seen to come back for another connection: until then it is taken to
/// have the last one still. Programs differ from launch to launch, so not all of that time.
const STILL_USED: f32 = 0.8;
/// How far one launch may move the time at which a name is expected: so many spreads, and a second. What is asked for
/// minutes later than usual says little about when it is usually asked for.
const OUTLIER: f32 = 4.0;

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
    /// How long after a connection the program comes back for another one, at the soonest; `None` if it never did.
    pub again: Option<Duration>,
}

/// How often a name was asked for within seconds after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    times: u32,
    /// How often it could have been: when the other was asked for and the program did not have a connection there already.
    chances: u32,
}

impl Count {
    fn chance(self) -> f32 {
        self.times as f32 / self.chances.max(1) as f32
    }
}

/// A name that follows another: when a launch asks for that one for the first time, and when it does so again. A
/// program that begins asks for all at once that later belongs to one thing or another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Follower([Count; 2]);

impl Follower {
    /// How likely it is where it is likelier.
    fn chance(self) -> f32 {
        self.0[0].chance().max(self.0[1].chance())
    }
}

/// What is known of a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    pub records: Records,
    pub share: f32,
    pub after: Duration,
    /// How far from `after` it is asked for, on average.
    pub spread: Duration,
    pub ttl: Option<Duration>,
    pub ports: BTreeMap<u16, Port>,
    launches: u32,
    misses: u32,
    /// How often it was asked for, for the first time in a launch and again.
    asked: [u32; 2],
    followers: BTreeMap<Arc<str>, Follower>,
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
    /// The launch had asked for it before.
    again: bool,
    /// Its followers that could come when it was asked for.
    could_follow: BTreeSet<Arc<str>>,
    followed_by: BTreeSet<Arc<str>>,
}

/// A launch that goes on.
#[derive(Debug, Default)]
struct Launch {
    began: Instant,
    asked: BTreeMap<Arc<str>, Instant>,
    ahead: BTreeSet<Arc<str>>,
    recent: VecDeque<Recent>,
    bursts: BTreeMap<(Arc<str>, u16), Burst>,
    /// The user wanted it forgotten: nothing is learned from it, before or after.
    off_the_record: bool,
    /// The same for these names.
    forgotten: BTreeSet<Arc<str>>,
}

impl Launch {
    /// Whether nothing is to be learned of `name` here.
    fn leaves_out(&self, name: &str) -> bool {
        self.off_the_record || self.forgotten.contains(name)
    }
}

/// All programs. See the module.
#[derive(Debug, Default)]
pub(super) struct PrefetchModel {
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
    /// How far from that, on average.
    pub spread: Duration,
}

impl PrefetchModel {
    /// `app` begins in `account`, or is seen for the first time there. Whether that is news.
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
        let Some(program) = self.programs.get_mut(app).filter(|_| !launch.leaves_out(name)) else { return };
        program.used = now;
        if !program.names.contains_key(name) && program.names.len() >= MAX_NAMES {
            let idle = program.names.iter().filter(|(n, _)| !launch.asked.contains_key(*n));
            let least = idle.min_by(|(a, x), (b, y)| x.share.total_cmp(&y.share).then_with(|| a.cmp(b)));
            let Some(least) = least.map(|(n, _)| Arc::clone(n)) else { return };
            program.names.remove(&least);
        }
        let again = launch.asked.contains_key(name);
        launch.asked.entry(Arc::clone(name)).or_insert(now);
        let known = program.names.entry(Arc::clone(name)).or_default();
        records.iter().for_each(|r| known.records.add(*r));
        launch.recent.retain(|r| now - r.at <= FOLLOWS_WITHIN);
        if launch.recent.iter().any(|r| r.name == *name) {
            return;
        }
        let asked = &mut known.asked[usize::from(again)];
        *asked += 1;
        if *asked > MAX_ASKED {
            *asked /= 2;
        }
        for recent in &mut launch.recent {
            let Some(leader) = program.names.get_mut(&recent.name) else { continue };
            if recent.followed_by.insert(Arc::clone(name)) {
                leader.followed(name, recent.again, recent.could_follow.contains(name));
            }
        }
        let could_follow = launch.could_follow(now, program, name);
        if let Some(leader) = program.names.get_mut(name) {
            for follower in &could_follow {
                leader.followers.entry(Arc::clone(follower)).and_modify(|f| f.0[usize::from(again)].chances += 1);
            }
        }
        let followed_by = BTreeSet::new();
        launch.recent.push_back(Recent { name: Arc::clone(name), at: now, again, could_follow, followed_by });
        // More than there are names of a program cannot be of use.
        if launch.recent.len() > MAX_NAMES {
            launch.recent.pop_front();
        }
    }

    /// Whether this launch has asked for the name.
    pub fn was_asked(&self, account: u32, app: &AppId, name: &str) -> bool {
        self.launches.get(&(account, AppId::clone(app))).is_some_and(|l| l.asked.contains_key(name))
    }

    /// Whether the program most likely has a connection to this port still, so that it will not want one now.
    pub fn still_uses(&self, now: Instant, account: u32, app: &AppId, name: &Arc<str>, port: u16) -> bool {
        let launch = self.launches.get(&(account, AppId::clone(app)));
        let known = self.name(app, name).and_then(|n| n.ports.get(&port));
        launch.zip(known).is_some_and(|(launch, known)| launch.still_uses(now, known, name, port))
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

    /// The name was looked up before any program asked for it.
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
            if !launch.off_the_record {
                program.learn(&launch);
            }
            self.version += 1;
        }
    }

    /// What a program asks for in most of its launches, soonest first.
    pub fn expected_at_launch(&self, app: &AppId) -> Vec<Expected> {
        let names = self.programs.get(app).into_iter().flat_map(|p| &p.names).filter(|(_, known)| known.launches > 0);
        let expected = |(name, k): (&Arc<str>, &Name)| Expected {
            name: Arc::clone(name),
            chance: k.share,
            after: k.after,
            spread: k.spread,
        };
        let mut all: Vec<_> = names.map(expected).collect();
        all.sort_by(|a, b| a.after.cmp(&b.after).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// What it asks for within seconds after it has asked for `name`, for the first time in a launch or `again`,
    /// likeliest first. To be asked before that is learned.
    pub fn expected_after(&self, app: &AppId, name: &str, again: bool) -> Vec<Expected> {
        let Some(leader) = self.programs.get(app).and_then(|p| p.names.get(name)) else { return Vec::new() };
        let expected = |(name, f): (&Arc<str>, &Follower)| Expected {
            name: Arc::clone(name),
            chance: f.0[usize::from(again)].chance(),
            after: Duration::ZERO,
            spread: Duration::ZERO,
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
        let known = self.programs.get_mut(app)?.names.get_mut(name)?.ports.get_mut(&port);
        self.version += u64::from(known.is_some());
        known
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
            names: p.names.iter().filter(|(_, n)| n.launches > 0).map(record::written).collect(),
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

    /// Forgets that a program, or any, has ever asked for `host`. What launches that go on have to do with it is not learned.
    pub fn forget_host(&mut self, app: Option<&str>, host: &str) {
        for (_, program) in self.programs.iter_mut().filter(|(known, _)| app.is_none_or(|app| app == &***known)) {
            program.names.remove(host);
            program.names.values_mut().for_each(|name| _ = name.followers.remove(host));
        }
        for (_, launch) in self.launches.iter_mut().filter(|((_, known), _)| app.is_none_or(|app| app == &**known)) {
            launch.forgotten.insert(host.into());
            launch.asked.remove(host);
            launch.ahead.remove(host);
            launch.bursts.retain(|(name, _), _| &**name != host);
            launch.recent.retain(|r| &*r.name != host);
        }
        self.version += 1;
    }

    /// Forgets a program, or all. Nothing is learned from launches that go on, neither what has happened in them nor what is
    /// still to come.
    pub fn forget(&mut self, app: Option<&str>) {
        self.programs.retain(|known, _| app.is_some_and(|app| &**known != app));
        for (_, launch) in self.launches.iter_mut().filter(|((_, known), _)| app.is_none_or(|app| app == &**known)) {
            *launch = Launch { began: launch.began, off_the_record: true, ..Launch::default() };
        }
        self.version += 1;
    }
}

impl Launch {
    fn still_uses(&self, now: Instant, known: &Port, name: &Arc<str>, port: u16) -> bool {
        let Some(burst) = self.bursts.get(&(Arc::clone(name), port)) else { return false };
        known.again.is_none_or(|again| now - burst.last < again.mul_f32(STILL_USED))
    }

    /// The followers of `name` that may come now: neither asked for just before it, nor with all their connections there.
    fn could_follow(&self, now: Instant, program: &Program, name: &Arc<str>) -> BTreeSet<Arc<str>> {
        let comes = |follower: &Arc<str>| {
            let Some(known) = program.names.get(follower) else { return false };
            let is_wanted = |(port, p): (&u16, &Port)| !self.still_uses(now, p, follower, *port);
            !self.recent.iter().any(|r| r.name == *follower)
                && (known.ports.is_empty() || known.ports.iter().any(is_wanted))
        };
        let followers = program.names.get(name).into_iter().flat_map(|known| known.followers.keys());
        followers.filter(|f| comes(f)).cloned().collect()
    }
}

impl Name {
    /// `follower` has come after this name, which was asked for `again` or for the first time; whether that was counted as a
    /// chance.
    fn followed(&mut self, follower: &Arc<str>, again: bool, was_counted: bool) {
        let is_new = !self.followers.contains_key(follower);
        if is_new && self.followers.len() >= MAX_FOLLOWERS {
            let by_chance = |(a, x): &(&Arc<str>, &Follower), (b, y): &(&Arc<str>, &Follower)| {
                x.chance().total_cmp(&y.chance()).then_with(|| a.cmp(b))
            };
            let least = self.followers.iter().min_by(by_chance).map(|(n, f)| (Arc::clone(n), f.chance()));
            // A follower that comes as often as not is not replaced.
            let Some((least, _)) = least.filter(|(_, chance)| *chance < 0.5) else { return };
            self.followers.remove(&least);
        }
        let known = &mut self.followers.entry(Arc::clone(follower)).or_default().0[usize::from(again)];
        known.times += 1;
        match (is_new, was_counted) {
            // It could have come all the other times.
            (true, _) => known.chances = self.asked[usize::from(again)].max(1),
            (false, true) => {}
            (false, false) => known.chances += 1,
        }
        if known.chances > MAX_ASKED {
            (known.times, known.chances) = (known.times / 2, known.chances / 2);
        }
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
            let mut known = record::read(n);
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
        for ((name, port), burst) in &launch.bursts {
            if let Some(known) = self.names.get_mut(name).and_then(|n| n.ports.get_mut(port)) {
                known.burst_ended(burst);
            }
        }
        for (name, known) in &mut self.names {
            known.launches += 1;
            let asked = launch.asked.get(name);
            known.share = mean(known.share, if asked.is_some() { 1.0 } else { 0.0 }, known.launches);
            if let Some(at) = asked {
                known.asked_after(*at - launch.began);
                known.misses = 0;
            } else if launch.ahead.contains(name) {
                known.misses += 1;
            }
            for (port, known_port) in &mut known.ports {
                let connected = launch.bursts.contains_key(&(Arc::clone(name), *port));
                let first = known_port.launches == 0;
                known_port.launches += u32::from(connected);
                let sample = if connected { 1.0 } else { 0.0 };
                known_port.share = if first { sample } else { mean(known_port.share, sample, known.launches) };
            }
        }
        self.names.retain(|_, known| known.misses < MAX_MISSES);
    }
}

/// As exactly as records have it.
fn whole_ms(secs: f32) -> Duration {
    Duration::from_millis((secs * 1e3).round() as u64)
}

impl Name {
    /// A launch has asked for it so long after it began.
    fn asked_after(&mut self, time: Duration) {
        let (old, new, spread) = (self.after.as_secs_f32(), time.as_secs_f32(), self.spread.as_secs_f32());
        if self.launches == 1 {
            // A quarter, as one does not know.
            (self.after, self.spread) = (time, whole_ms(spread.max(new / WINDOW as f32)));
            return;
        }
        let most = OUTLIER * spread + 1.0;
        let off = (new - old).clamp(-most, most);
        self.after = Duration::from_secs_f32(mean(old, old + off, self.launches).max(0.0));
        self.spread = whole_ms(mean(spread, off.abs(), WINDOW));
    }
}

impl Port {
    fn burst_ended(&mut self, burst: &Burst) {
        if burst.connections() == 0 {
            return;
        }
        let sample = burst.connections() as f32;
        self.parallel = if self.parallel == 0.0 { sample } else { mean(self.parallel, sample, WINDOW) };
    }

    /// The program wants another connection, so long after it has opened its last. Sooner than ever counts at once; one that
    /// came soon by accident is outlived bit by bit.
    fn came_again(&mut self, after: Duration) {
        self.again = Some(match self.again {
            Some(old) if old < after => old + (after - old) / 8,
            _ => after,
        });
    }
}

#[cfg(test)]
mod tests;
