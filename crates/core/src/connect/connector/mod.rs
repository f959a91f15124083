//! The connector: a name and a port in, one connected socket out. One for each user; programs share nothing but the
//! history of paths.

mod ahead;
mod asking;
mod beside;
mod claiming;
mod denial;
mod drive;
mod guessing;
mod looked_up;
mod place;
mod rescue;
mod servers;
mod translator;

use super::agenda::Agenda;
use super::asks::Asks;
use super::cache::{Cache, Lifetime};
use super::crowd::{Crowds, MAX_UNCLAIMED};
use super::extras::Extras;
use super::failures::{Failed, Failures};
use super::hints::Hints;
use super::job::{Job, Translation};
use super::lookups::{Lookups, Patience, Question};
use super::memory::Memory;
use super::pool::{Fates, Pool, SpareEnd, Terms};
use super::prefetch::Ahead;
use super::prefetch_model::{Name, PrefetchModel};
use super::race::{self, Lookup, Race, State};
use super::service;
use super::tally::Tallies;
use super::timeline::{Event, Timelines, ms, record};
use super::visits::Visits;
use super::{AppId, AttemptId, AttemptResult, Input, Output, QueryId, RequestId, Resolve, Resolved, Tally, Want};
use crate::machine::{Deadline, Machine};
use crate::path::{Family, NetworkId, Outcome, PathBook};
use crate::time::Instant;
use crate::timing::Timings;
use crate::wire::record::RecordType;
use crate::wire::shim::Pass;
use claiming::wanted;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Jobs at once; a program that resolves without end loses its oldest.
const MAX_JOBS: usize = 1024;

/// Programs whose answers are kept at once.
const MAX_APPS: usize = 64;

/// How a connector behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The race, by its name in the registry.
    pub race: &'static race::Entry,
    /// How long answers are kept.
    pub lifetime: Lifetime,
    /// What is done before programs ask. Nothing, unless it is said: what races are compared by is what they do when asked.
    pub ahead: Ahead,
    /// Share of races that explore: 5 %, so that history can be unlearned at about one extra SYN in twenty. With 0 nothing is tried beside
    /// the chosen address on a first visit either.
    pub explore: f64,
    /// For the lab's `oracle`: the faster family of each name.
    pub faster: HashMap<String, Family>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Settings {
    /// The settings of `race` with everything else at its default.
    pub fn of(race: &'static race::Entry) -> Self {
        Self { race, lifetime: Lifetime::Ttl, ahead: Ahead::OFF, explore: 0.05, faster: HashMap::new(), seed: 0 }
    }
}

/// The machine of the connect column. See the module.
#[derive(Debug)]
pub struct Connector {
    pub(super) settings: Settings,
    race: Box<dyn Race>,
    pub(super) path: PathBook,
    pub(super) caches: HashMap<AppId, Cache>,
    lookups: Lookups,
    /// The query that asks for this network's translator.
    discovery: Option<QueryId>,
    asks: Asks,
    hints: Hints,
    pub(super) prefetch_model: PrefetchModel,
    agenda: Agenda,
    pool: Pool,
    fates: Fates,
    failures: Failures,
    visits: Visits,
    extras: Extras,
    crowds: Crowds,
    /// Programs whose sockets are of AF_INET6 even for IPv4.
    mapping: HashSet<AppId>,
    /// Programs that do not wait for their connections.
    racing: HashSet<AppId>,
    pub(super) jobs: BTreeMap<u64, Job>,
    next_job: u64,
    next_attempt: u64,
    /// The first attempt on this network.
    first_attempt_here: u64,
    /// When the last input came.
    now: Instant,
    network: NetworkId,
    patience: Patience,
    rng: fastrand::Rng,
    tally: Tallies,
    pub(super) timelines: Timelines,
    pub(super) timings: Timings,
    outputs: VecDeque<Output>,
}

impl Connector {
    /// A connector without history.
    pub fn new(settings: Settings) -> Self {
        Self {
            race: (settings.race.new)(),
            pool: Pool::new(settings.ahead.spares),
            rng: fastrand::Rng::with_seed(settings.seed),
            settings,
            path: PathBook::default(),
            caches: HashMap::new(),
            lookups: Lookups::default(),
            discovery: None,
            asks: Asks::default(),
            hints: Hints::default(),
            prefetch_model: PrefetchModel::default(),
            agenda: Agenda::default(),
            fates: Fates::default(),
            failures: Failures::default(),
            visits: Visits::default(),
            extras: Extras::default(),
            crowds: Crowds::default(),
            mapping: HashSet::new(),
            racing: HashSet::new(),
            jobs: BTreeMap::new(),
            next_job: 0,
            next_attempt: 0,
            first_attempt_here: 0,
            now: Instant::ZERO,
            network: NetworkId::default(),
            patience: Patience::default(),
            tally: Tallies::default(),
            timelines: Timelines::default(),
            timings: Timings::default(),
            outputs: VecDeque::new(),
        }
    }

    /// What was gained and what it cost so far, over all accounts.
    pub fn tally(&self) -> Tally {
        self.tally.total()
    }

    /// The same for one account (see [`RequestId::account`]).
    pub fn tally_of(&self, account: u32) -> Tally {
        self.tally.read(account)
    }

    /// No program will ask about `account` any more, and its number may be given to another. What is still done for it counts
    /// on account 0. Its spare connections are closed (drain the outputs), and its launches are learned from. Connections
    /// that are open to learn a server's patience stay, for no program: most programs end sooner than a server closes.
    pub fn close_account(&mut self, account: u32) {
        self.prefetch_model.closed(account);
        self.agenda.cancel(|due| due.account == account);
        let learns = |j: &Job| j.open_since().is_some() && j.spare.is_some_and(|terms| terms.learning);
        self.flush(self.now, SpareEnd::Expired, |j| j.account == account && j.spare.is_some() && !learns(j));
        self.fates.close(account);
        for job in self.jobs.values_mut().filter(|j| j.account == account) {
            job.account = 0;
            job.spare = job.spare.map(Terms::for_nobody);
        }
        self.lookups.disown(account);
        self.hints.close(account);
        self.visits.close(account);
        self.tally.close(account);
    }

    /// What was learned of programs, to be written down.
    pub fn remembered(&self) -> Memory {
        self.prefetch_model.remembered()
    }

    /// Counts up whenever [`Self::remembered`] may have something new.
    pub fn memory_version(&self) -> u64 {
        self.prefetch_model.version()
    }

    /// Begins with what was written down by an earlier one. Programs of which this one has learned stay as they are known.
    pub fn recall(&mut self, memory: &Memory) {
        self.prefetch_model.recall(memory);
    }

    /// Forgets what was learned of a program, or of all.
    pub fn forget(&mut self, app: Option<&str>) {
        self.prefetch_model.forget(app);
        self.agenda.cancel(|due| app.is_none_or(|app| app == &*due.app));
    }

    fn resolve(&mut self, now: Instant, request: RequestId, ask: Resolve) {
        let name: Arc<str> = ask.name.trim_end_matches('.').to_ascii_lowercase().into();
        self.make_room_for(&ask.app);
        let literal = ask.name.parse().ok();
        if literal.is_none() {
            let mut records: Vec<_> =
                Family::BOTH.into_iter().filter(|f| ask.want.includes(*f)).map(Into::into).collect();
            if self.settings.race.asks_https && ask.port == Some(service::PORT) {
                records.push(RecordType::Https);
            }
            self.asked(now, request.account(), &ask.app, &name, &records);
            if self.take_over(now, request, &ask, &name) {
                return;
            }
        }
        let mut job = Job::new(now, Arc::clone(&ask.app), Arc::clone(&name), ask.want, ask.port);
        job.account = request.account();
        job.resolver = Some((request, now));
        job.remembered = self.caches.get(&ask.app).map_or_else(Vec::new, |c| c.remembered(&name));
        job.translation = self.translation(now, &ask.app, ask.want);
        if job.translation != Translation::None && ask.want == Want::Only(Family::V6) {
            // A program that wants IPv6 addresses is as well served by those of a translator.
            (job.want, job.ipv6_alone) = (Want::Both, true);
        }
        if let Some(addr) = literal {
            job.complete_locally(now, &[addr]);
        } else if self.settings.race.asks_https && ask.port == Some(service::PORT) {
            job.https = Lookup::Unasked;
        }
        self.start(now, job);
    }

    /// Forgets the answers of the program that has asked for none for longest, should there be too many programs.
    fn make_room_for(&mut self, app: &AppId) {
        if self.caches.contains_key(app) || self.caches.len() < MAX_APPS {
            return;
        }
        let oldest = self.caches.iter().min_by_key(|(app, cache)| (cache.used(), AppId::clone(app)));
        if let Some(oldest) = oldest.map(|(app, _)| AppId::clone(app)) {
            self.caches.remove(&oldest);
        }
    }

    fn start(&mut self, now: Instant, mut job: Job) -> u64 {
        // Spare connections teach nothing that waiting programs could not tell as well.
        job.explore = job.spare.is_none() && self.rng.f64() < self.settings.explore;
        if job.spare.is_none() && job.port.is_some() {
            self.extras.earn();
        }
        let been_to = |known: &Name| known.ports.values().any(|port| port.launches > 0);
        job.comes_again = job.spare.is_none() && self.prefetch_model.name(&job.app, &job.name).is_some_and(been_to);
        if self.jobs.len() >= MAX_JOBS
            && let Some((_, mut oldest)) = self.jobs.pop_first()
        {
            if let Some((request, _)) = oldest.resolver.take() {
                self.outputs.push_back(Output::Answer(request, Resolved::Unanswered));
            }
            if let Some(waiting) = oldest.claim.take() {
                self.pass(waiting.request, Pass::NothingReady);
            }
            self.close_all(now, &mut oldest);
        }
        let is_same = |j: &&Job| j.port == job.port && j.name == job.name && j.app == job.app && j.is_unclaimed();
        job.comes_first = job.is_unclaimed() && self.jobs.values().filter(is_same).count() >= MAX_UNCLAIMED;
        let id = self.next_job;
        self.next_job += 1;
        job.number = id;
        self.timelines.begin(now, id, &job.app, &job.name);
        if let (Some(port), true) = (job.port, job.spare.is_some()) {
            self.timelines.note(now, id, &job.name, Event::Ahead { port });
        }
        if job.resolver.is_some() {
            self.timelines.note(now, id, &job.name, Event::Asked { port: job.port });
        }
        if let Some(waiting) = &job.claim {
            self.timelines.note(now, id, &job.name, wanted(&waiting.claim));
        }
        self.jobs.insert(id, job);
        self.drive(now, id);
        id
    }

    fn abandon(&mut self, now: Instant, request: RequestId) {
        self.timelines.forget(request);
        if let Some((question, server)) = self.asks.abandon(request) {
            self.no_longer_asked(now, &question, server);
        }
        let mut touched = Vec::new();
        for (id, job) in &mut self.jobs {
            if job.resolver.is_some_and(|(r, _)| r == request) {
                job.resolver = None;
                touched.push(*id);
            }
            if job.claim.as_ref().is_some_and(|w| w.request == request) {
                job.claim = None;
                touched.push(*id);
            }
        }
        touched.into_iter().for_each(|id| self.drive(now, id));
    }

    fn note_repeated(&mut self, now: Instant, question: &Question, before: u32) {
        for job in self.jobs.values().filter(|j| j.app == question.app && j.name == question.name) {
            self.timelines.note(now, job.number, &job.name, Event::Query { record: record(question.record), before });
        }
    }

    fn attempt_ended(&mut self, now: Instant, attempt: AttemptId, result: AttemptResult) {
        let found = self.jobs.iter_mut().find_map(|(id, j)| {
            let mut all = j.attempts.iter_mut().chain(&mut j.unconfirmed);
            let a = all.find(|a| a.id == attempt && a.state == State::InFlight)?;
            Some((*id, a))
        });
        let Some((id, ended)) = found else { return };
        let outcome = match result {
            AttemptResult::Connected(rtt) => {
                ended.state = State::Ready { rtt, at: now };
                Some(Outcome::Connected(rtt))
            }
            AttemptResult::Failed(errno) => {
                ended.state = State::Failed(errno);
                Some(Outcome::Failed)
            }
            AttemptResult::NotBegun(errno) => {
                ended.state = State::Failed(errno);
                None
            }
        };
        let (addr, given, began) = (ended.addr, ended.given, ended.started);
        let event = match result {
            AttemptResult::Connected(rtt) => Event::Connected { to: addr, rtt_ms: ms(rtt) },
            AttemptResult::Failed(errno) | AttemptResult::NotBegun(errno) => Event::Failed { to: addr, errno },
        };
        // What was given is the program's now, whatever came of it.
        ended.state = if given { State::Gone } else { ended.state };
        self.time_handshake(id, addr, now - began, outcome);
        // A port that was only guessed says nothing of the address.
        let guessed = self.jobs.get(&id).is_some_and(|job| job.guesses.is_some() && job.claim.is_none());
        if let Some(outcome) = outcome.filter(|o| !guessed || matches!(o, Outcome::Connected(_))) {
            self.learn(now, attempt, addr, outcome);
        }
        if let Some((app, name)) = self.jobs.get(&id).map(|job| (AppId::clone(&job.app), Arc::clone(&job.name))) {
            self.rely(now, &app, &name);
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.in_want |= outcome.is_none();
            self.timelines.note(now, id, &job.name, event);
            if let (true, Some(port), AttemptResult::Connected(_)) = (given, job.port, result) {
                self.crowds.connected(now, (addr, port).into());
            }
            if let (true, Some(own)) = (matches!(result, AttemptResult::Connected(_)), job.own_by(attempt)) {
                self.visits.arrived(own.request.account(), &job.app, &job.name, own.claim.to);
            }
            if let (AttemptResult::Failed(errno), Some(own)) = (result, job.own_by(attempt)) {
                let (account, to) = (own.request.account(), own.claim.to);
                self.prefetch_model.failed(account, &job.app, &job.name, to);
                // What has failed the program itself is not tried again in its favour.
                self.failures.note(now, (account, &job.app), to, Failed { errno, began, reported: true });
            }
            job.own.retain(|own| own.attempt != attempt);
            job.done |= given && matches!(result, AttemptResult::Connected(_));
            if job.spare.is_some() && !given && matches!(result, AttemptResult::Connected(_)) {
                self.outputs.push_back(Output::Watch(attempt));
            }
        }
        self.drive(now, id);
    }

    /// Writes down how an attempt ended, unless it was begun on another network.
    pub(super) fn learn(&mut self, now: Instant, AttemptId(attempt): AttemptId, addr: IpAddr, outcome: Outcome) {
        if attempt >= self.first_attempt_here {
            self.path.current().record(now, addr, outcome);
        }
    }
}

impl Machine for Connector {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Resolve(request, ask) => self.resolve(now, request, ask),
            Input::Ask(request, ask) => self.ask(now, request, ask),
            Input::Claim(request, claim) => {
                self.timelines.called(request, claim.to.ip());
                self.claim(now, request, claim);
            }
            Input::Abandon(request) => self.abandon(now, request),
            Input::Passed(request, host, reason) => self.passed(now, request, host, reason),
            Input::NotTaken { request, to, connected, reason } => {
                self.not_taken(request, connected);
                self.passed(now, request, Some(to.to_string()), reason);
            }
            Input::Lookup(query, result) => self.lookup_ended(now, query, Some(result)),
            Input::Replied(query, server) => self.lookups.replied(now, query, server),
            Input::Overheard { app, name, record, result } => self.overheard(now, &app, &name, record, result),
            Input::AsksItself { account, app, name, record } => self.asks_itself(now, account, app, &name, record),
            Input::GoesItself(request, claim) => self.goes_itself(now, request, &claim),
            Input::Unreached(addr) => self.unreached(now, addr),
            Input::Ahead(ahead) => self.ahead_by(now, ahead),
            Input::Attempt(attempt, result) => self.attempt_ended(now, attempt, result),
            Input::Launched { account, app } => self.launched(now, account, &app, None),
            Input::Spoilt(attempt, how, ago) => self.spoilt(now, attempt, how, ago),
            Input::Servers(servers) => {
                self.servers_are(servers);
                self.lookups.wait(self.patience);
            }
            Input::Patience(patience) => {
                self.patience = patience;
                self.lookups.wait(patience);
            }
            Input::Network { id, v4, v6, v4_first } => {
                self.moved(now, id, v4, v6);
                self.path.current().v4_first = v4_first;
            }
            Input::Recognised(id) => self.recognised(id),
            Input::Woken(slept) => self.woken(slept),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.attend_lookups(now);
        self.release_askers(now);
        self.open_expected(now);
        let due = |j: &Job| deadline(j).is_some_and(|d| d.at <= now);
        let ids: Vec<_> = self.jobs.iter().filter(|(_, j)| due(j)).map(|(id, _)| *id).collect();
        for id in ids {
            self.drive(now, id);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        self.timelines.note_output(self.now, &output);
        Some(output)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let retry = self.lookups.next_due().map(|at| Deadline { at, why: "query retry" });
        let release =
            self.asks.next_release(&self.lookups).map(|at| Deadline { at, why: "resolution delay of a question" });
        let expected = self.agenda.next().map(|at| Deadline { at, why: "a connection is expected" });
        self.jobs.values().filter_map(deadline).chain(retry).chain(release).chain(expected).min_by_key(|d| d.at)
    }
}

/// When this job wants to be looked at again.
fn deadline(job: &Job) -> Option<Deadline> {
    let wake = job.wake.map(|(at, why)| Deadline { at, why });
    let why = if job.spare.is_some() { "spare connection unclaimed" } else { "connection unclaimed" };
    let unclaimed = job.unclaimed_at().map(|at| Deadline { at, why });
    let guess = job.guesses_at().map(|at| Deadline { at, why: "resolution delay" });
    let moving_on = job.moves_on_at().map(|at| Deadline { at, why: "a silent family" });
    let retry = job.just_failed.iter().map(|(_, until)| *until).min().filter(|_| job.claim.is_some());
    let retry = retry.map(|at| Deadline { at, why: "what had just failed" });
    let rescue = job.rescue_at().map(|at| Deadline { at, why: "a stalled attempt of a program" });
    let exploring = job.done.then(|| job.exploring_until()).flatten();
    let exploring = exploring.map(|at| Deadline { at, why: "exploration over" });
    [wake, unclaimed, guess, moving_on, retry, rescue, exploring].into_iter().flatten().min_by_key(|d| d.at)
}

#[cfg(test)]
impl Connector {
    /// Jobs that are still open, for tests that nothing is left behind.
    pub(super) fn open_jobs(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn path(&mut self) -> &mut PathBook {
        &mut self.path
    }

    /// Lets every answer expire at once; what is remembered for races stays.
    pub(super) fn forget_answers(&mut self) {
        self.caches.values_mut().for_each(Cache::expire);
    }
}
