//! Queries under way: repeated until they are answered or given up, shared by the jobs that wait for the same answer.

mod open;

pub(super) use open::{Decider, Open};

use super::servers::Servers;
use super::{AppId, LookupResult, QueryId};
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use open::AskedServer;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// When a query is retransmitted, each time to the next server: after its sending, and then after each repetition; the last
/// interval repeats. The C library waits 5 s, but a resolver that answers at all answers 99 % of queries within a second
/// (RFC 8767, section 4, bounds a client's patience at 1.8 s).
const RETRY_AFTER: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(2), Duration::from_secs(4)];
/// A query that was retransmitted so often has been unanswered for 5 s, the C library's timeout: the network is taken to swallow
/// it, though it
/// is still awaited.
const SILENT_AFTER: usize = 3;
/// Denials remembered: those of the names that a busy host looks up at once.
const MAX_DENIALS: usize = 64;
/// A program that asks the same again within this time is another part of it: what is under way answers both.
const ASKS_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the resolver that programs would use asks before it gives up (resolv.conf(5)): nothing is given up here before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long one server is waited for.
    pub timeout: Duration,
    /// How often each is asked.
    pub attempts: u32,
}

impl Default for Patience {
    /// RES_TIMEOUT and RES_DFLRETRY of the C library.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), attempts: 2 }
    }
}

/// What a lookup is about: answers are never shared between programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub app: AppId,
    pub name: Arc<str>,
    pub record: RecordType,
}

/// What is to be done with a query whose time has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Retry(QueryId),
    /// To be sent to this server too.
    Besides(QueryId, u32),
    GiveUp(QueryId),
}

/// All queries under way.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    open: BTreeMap<QueryId, Open>,
    next: u64,
    /// The first that was asked on this network.
    first_here: u64,
    /// For the first server.
    timeout: Option<Duration>,
    /// For all servers together.
    patience: Option<Duration>,
    pub servers: Servers,
    /// What was denied lately, by which server and when.
    denials: VecDeque<(Question, u32, Instant)>,
    /// What was refused lately, if all servers before had nothing to say either, whatever was said when it was asked again.
    refusals: VecDeque<(Question, u32, Instant)>,
}

impl Lookups {
    /// The host is on another network: what is under way was asked on the one before.
    pub fn move_on(&mut self) {
        self.first_here = self.next;
    }

    /// Whether this was asked on the network that the host is on.
    pub fn is_of_here(&self, id: QueryId) -> bool {
        id.0 >= self.first_here
    }

    /// The query for `question` on this network, and if it is new and must be sent, to which server: `server`, or another if that
    /// is known to be silent.
    pub fn ask(&mut self, now: Instant, account: u32, question: &Question, server: u32) -> (QueryId, Option<u32>) {
        if let Some((id, _)) = self.of(question) {
            return (id, None);
        }
        let first = self.servers.instead_of(server);
        let id = QueryId(self.next);
        self.next += 1;
        self.open.insert(id, Open::new(now, account, question.clone(), first));
        (id, Some(first))
    }

    /// How long the servers are asked.
    pub fn wait(&mut self, patience: Patience) {
        self.timeout = Some(patience.timeout);
        self.patience = Some(patience.timeout * patience.attempts.max(1) * self.servers.count());
    }

    /// Query `id` goes to `server` now.
    pub fn sent(&mut self, now: Instant, id: QueryId, server: u32) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let number = self.servers.number(server);
        match open.asked_of.iter_mut().find(|asked| asked.server == number) {
            Some(asked) => {
                asked.times += 1;
                asked.repeated |= !asked.replied && now - asked.at >= ASKS_AGAIN_AFTER / 2;
            }
            None => open.asked_of.push(AskedServer {
                server: number,
                at: now,
                times: 1,
                repeated: false,
                replied: false,
                refused: false,
            }),
        }
        let more = (open.asked_of.len() as u32) < self.servers.count();
        open.besides_at = more.then(|| now + self.servers.wait(server));
    }

    /// A query that a silent server is asked besides, to learn whether it still is; and the one before it, which is given up.
    pub fn probe(&mut self, now: Instant) -> Option<(QueryId, u32, Option<QueryId>)> {
        let id = QueryId(self.next);
        let (server, before) = self.servers.probe(now, id)?;
        self.next += 1;
        Some((id, server, before))
    }

    /// `server` has answered query `id`.
    pub fn replied(&mut self, now: Instant, id: QueryId, server: u32) {
        if self.servers.is_probe(now, id, server) {
            return;
        }
        let Some(open) = self.open.get_mut(&id) else { return };
        let number = self.servers.number(server);
        let asked = open.asked_of.iter_mut().find(|asked| asked.server == number);
        let took = asked.and_then(|asked| {
            asked.replied = true;
            (asked.times == 1).then(|| now - asked.at)
        });
        self.servers.answered(now, number, took);
        open.replied = Some(number);
    }

    /// The server that has just answered has nothing to say of `id`, or says that there is nothing.
    pub fn note_denial(&mut self, id: QueryId, no: &LookupResult) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let server = open.replied.unwrap_or(self.servers.number(open.server()));
        let asked = open.asked_of.iter_mut().filter(|asked| asked.server == server);
        asked.for_each(|asked| asked.refused |= *no == LookupResult::Refused);
        match open.nos.iter_mut().find(|(of, _)| *of == server) {
            Some((_, before)) => *before = no.clone(),
            None => open.nos.push((server, no.clone())),
        }
    }

    /// Whether the noes to question `id` hold, as they would without us: those of the server that gave the other family's addresses,
    /// else denials; and only if all servers before it have been asked for as long as the C library waits for one, or have said no
    /// too. Ours asks the second server sooner than the C library would, and it may be of another network (split horizon). Where
    /// the other family `is_known` to do, any will do.
    pub fn no_holds(&self, now: Instant, id: QueryId, is_known: bool) -> bool {
        self.open.get(&id).is_some_and(|open| {
            let any_denial = open.nos.iter().any(|(_, no)| *no != LookupResult::Refused);
            self.no_of(open, now) || is_known && any_denial
        })
    }

    fn no_of(&self, open: &Open, now: Instant) -> bool {
        if open.nos.is_empty() {
            return false;
        }
        let all = self.in_order(open);
        // Programs that ask several servers themselves wait for each.
        let is_awaited = |at: Option<Instant>| at.is_some() || now < open.asked + self.one_server();
        let waits =
            |(server, at): &(u32, Option<Instant>)| !open.has_denied(self.servers.number(*server)) && is_awaited(*at);
        if open.theirs.len() > 1 && open.theirs.iter().any(waits) {
            return false;
        }
        let denies = |server: u32| open.nos.iter().any(|(of, no)| *of == server && *no != LookupResult::Refused);
        // The C library leaves a server that does not answer at once for the next, and comes back to it after all others.
        let all_deny = all.iter().all(|server| denies(*server) || self.servers.is_silent(*server));
        let has_come_back = |server: u32| {
            let turn = all.iter().position(|s| *s == server).unwrap_or_default();
            now >= open.asked + self.one_server() * (all.len() + turn) as u32
        };
        let is_denial =
            |server: u32| denies(server) && (all_deny || !open.was_repeated(server) || has_come_back(server));
        // One that refuses, and owes the other family's answer, is asked once more.
        let is_done =
            |server: u32| is_denial(server) || open.has_denied(server) && !self.other_is_missing_of(open, server);
        if all.iter().all(|server| is_done(*server)) && all.iter().any(|server| is_denial(*server)) {
            return true;
        }
        let is_over = now >= open.asked + self.one_server();
        let before = |server: u32| all.iter().take_while(move |s| **s != server);
        let is_next = |server: u32| is_over || before(server).all(|s| is_done(*s));
        match open.decider {
            // A program that has asked another server waits for that one.
            Some(Decider::Any) => all.iter().any(|server| open.has_denied(*server) && is_next(*server)),
            Some(Decider::Server(server)) => {
                let has_said = denies(server) || open.decided_at_once && open.has_denied(server);
                let is_dead = || self.decider_is_dead_at(open).is_some_and(|at| now >= at);
                has_said && is_next(server) || all.iter().any(|s| is_denial(*s) && is_next(*s)) && is_dead()
            }
            None => all.iter().any(|server| {
                let doubted = open.question.record == RecordType::Aaaa && self.other_is_missing_of(open, *server);
                is_denial(*server) && is_next(*server) && (is_over || !doubted)
            }),
        }
    }

    /// When a server whose answer for the other family is in the cache is taken for dead: it has been asked, and is silent for longer than usual.
    fn decider_is_dead_at(&self, open: &Open) -> Option<Instant> {
        let Some(Decider::Server(server)) = open.decider.filter(|_| open.decided_before) else { return None };
        let asked = open.asked_of.iter().find(|asked| asked.server == server && !asked.replied)?;
        Some(asked.at + self.servers.wait(server))
    }

    /// Whether the other family's question is open or was, and `server` has not spoken to it: it may have nothing of both, or lose the
    /// other's answer, and then the next server decides on both. The C library stays with the one that has answered A.
    fn other_is_missing_of(&self, open: &Open, server: u32) -> bool {
        if let Some(heard) = &open.others_heard {
            return !heard.iter().any(|(of, _)| *of == server);
        }
        self.other_open(open).any(|other| !other.heard().iter().any(|(of, _)| *of == server))
    }

    /// Whether a program that waits for both families is not told yet what `server` has said to query `id`, or that it has refused:
    /// the C library takes both answers from one server, and this one has not spoken to the other question, or refused both, or
    /// another has answered that.
    pub fn is_half(&self, id: QueryId, server: u32, is_refusal: bool) -> bool {
        let Some(open) = self.open.get(&id) else { return false };
        let refuses_both = || {
            let has_refused = open.others_heard.as_ref().is_some_and(|heard| heard.contains(&(server, true)));
            has_refused || self.other_open(open).any(|other| other.nos.contains(&(server, LookupResult::Refused)))
        };
        let by_another = matches!(open.decider, Some(Decider::Server(decider)) if decider != server);
        // The other's addresses came only when it was asked again: the C library asks for both again.
        let came_late = open.decider.is_some() && !open.decided_at_once;
        self.other_is_missing_of(open, server) || by_another || is_refusal && (refuses_both() || came_late)
    }

    /// The question under way for the other family of the same name.
    fn other_open<'a>(&'a self, open: &'a Open) -> impl Iterator<Item = &'a Open> {
        let record = open.question.record.family().map(|family| family.other().into());
        let of_here = self.open.range(QueryId(self.first_here)..).map(|(_, o)| o);
        of_here.filter(move |o| {
            Some(o.question.record) == record
                && o.question.app == open.question.app
                && o.question.name == open.question.name
        })
    }

    /// Numbers of the servers, that which was asked first leading.
    fn in_order(&self, open: &Open) -> Vec<u32> {
        (0..self.servers.count()).map(|n| self.servers.number(open.first + n)).collect()
    }

    /// How long the C library waits for one server.
    pub fn one_server(&self) -> Duration {
        self.timeout.unwrap_or(Patience::default().timeout)
    }

    /// The server that decides on question `id` and has not been asked.
    pub fn decider_to_ask(&self, id: QueryId) -> Option<u32> {
        let open = self.open.get(&id)?;
        let Some(Decider::Server(server)) = open.decider else { return None };
        open.asked_of.iter().all(|asked| asked.server != server).then_some(server)
    }

    /// When `open` is given up. Where one family has been answered the C library asks once more, one question after the other.
    fn give_up_at(&self, open: &Open) -> Instant {
        let default = Patience::default();
        let patience = self.patience.unwrap_or(default.timeout * default.attempts);
        let one_is_over = open.asked + self.one_server();
        if let Some(at) = self.decider_is_dead_at(open).filter(|at| self.no_of(open, *at)) {
            return at;
        }
        if open.theirs.is_empty() && self.no_of(open, one_is_over) {
            // Without us the first would have been waited for alone until now.
            return one_is_over;
        }
        let count = self.servers.count();
        let mut come_back = (count..2 * count).map(|turn| open.asked + self.one_server() * turn);
        if let Some(at) = come_back.find(|at| open.theirs.is_empty() && self.no_of(open, *at)) {
            return at;
        }
        match open.decider {
            // It is asked for both once more, and twice for this one alone.
            Some(Decider::Server(server)) => {
                let before = self.in_order(open).iter().take_while(|s| **s != server).count() as u32;
                open.asked + self.one_server() * (before + 3)
            }
            _ => open.asked + if open.lasting { patience * 3 / 2 } else { patience },
        }
    }

    /// The query under way for the other family of the same name.
    pub fn other_of(&mut self, question: &Question) -> Option<(QueryId, &mut Open)> {
        let record = question.record.family()?.other().into();
        let is_other = |o: &Open| {
            o.question.record == record && o.question.app == question.app && o.question.name == question.name
        };
        let mut of_here = self.open.range_mut(QueryId(self.first_here)..);
        of_here.find(|(_, o)| is_other(o)).map(|(id, o)| (*id, o))
    }

    /// The query under way for `question`.
    pub fn of(&mut self, question: &Question) -> Option<(QueryId, &mut Open)> {
        let mut of_here = self.open.range_mut(QueryId(self.first_here)..);
        of_here.find(|(_, o)| o.question == *question).map(|(id, o)| (*id, o))
    }

    /// Whether the answer to `question` is awaited.
    pub fn is_open(&self, question: &Question) -> bool {
        self.open.values().any(|o| o.question == *question)
    }

    pub fn get_mut(&mut self, id: QueryId) -> Option<&mut Open> {
        self.open.get_mut(&id)
    }

    /// Query `id` has ended: what is learned of the servers that have not answered it where another has.
    pub fn close(&mut self, now: Instant, id: QueryId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        let (last, is_denied) = (open.replied, matches!(open.no(), Some(no) if no != LookupResult::Refused));
        if let Some(server) = last.filter(|_| is_denied) {
            self.denials.truncate(MAX_DENIALS - 1);
            self.denials.push_front((open.question.clone(), server, now));
        }
        let order = self.in_order(&open);
        for server in order.iter().take_while(|server| open.has_denied(**server)) {
            if open.nos.contains(&(*server, LookupResult::Refused)) {
                self.refusals.truncate(MAX_DENIALS - 1);
                self.refusals.push_front((open.question.clone(), *server, now));
            }
        }
        // A refusal is no answer that another owes.
        let is_answered = |server: u32| !open.nos.contains(&(server, LookupResult::Refused));
        if open.replied.is_some_and(is_answered) {
            for asked in open.asked_of.iter().filter(|asked| !asked.replied) {
                self.servers.was_silent(now, id, asked.server, asked.at);
            }
        }
        Some(open)
    }

    /// Whether `question` has just been denied, and last by another server than `server`.
    pub fn was_denied_by_another(&self, now: Instant, question: &Question, server: u32) -> bool {
        let denial = self.denials.iter().find(|(of, ..)| of == question);
        denial.is_some_and(|(_, by, at)| *by != server && now - *at < self.one_server() * 2)
    }

    /// Whether `server` has just refused `question`, whatever was said when it was asked again.
    pub fn was_refused_by(&self, now: Instant, question: &Question, server: u32) -> bool {
        let mut refusals = self.refusals.iter();
        refusals.any(|(of, by, at)| of == question && *by == server && now - *at < self.one_server())
    }

    /// Counts the queries of `account` on account 0 from now on.
    pub fn disown(&mut self, account: u32) {
        self.open.values_mut().filter(|o| o.account == account).for_each(|o| o.account = 0);
    }

    pub fn next_due(&self) -> Option<Instant> {
        let due = |open: &Open| open.besides_at.into_iter().fold(open.due, Instant::min).min(self.give_up_at(open));
        self.open.values().map(due).min()
    }

    /// How many servers are passed over in the turns of `open`: every other time all up to the one that has answered the other question,
    /// which the C library stays with, and between all up to that of the others which was asked the least; else those that have said no,
    /// be it to both questions, while another has said nothing.
    fn passed_over(&self, open: &Open, now: Instant) -> u32 {
        let next = || (1..=self.servers.count()).map(|n| self.servers.number(open.server() + n));
        let is_decider = |server: u32| open.decider == Some(Decider::Server(server)) && !open.has_denied(server);
        let refuses = |open: &Open, server| open.nos.contains(&(server, LookupResult::Refused));
        let both = |server| open.decider.is_none() && self.other_open(open).all(|other| refuses(other, server));
        let is_over = now >= open.asked + self.one_server() || next().all(|server| open.has_denied(server));
        let says_no = |server: u32| !is_over && open.has_denied(server) && (!refuses(open, server) || both(server));
        if !next().any(is_decider) {
            return next().take_while(|server| says_no(*server)).count() as u32;
        }
        let wanted = if open.timed % 2 == 1 {
            next().find(|server| is_decider(*server))
        } else {
            next().filter(|server| !is_decider(*server) && !says_no(*server)).min_by_key(|server| open.times(*server))
        };
        wanted.and_then(|wanted| next().position(|server| server == wanted)).unwrap_or(0) as u32
    }

    /// The next query whose time has come by `now`; a retry is counted as sent.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        let given_up = self.open.iter().find(|(_, open)| self.give_up_at(open) <= now);
        if let Some((id, _)) = given_up {
            return Some(Due::GiveUp(*id));
        }
        if let Some((id, open)) = self.open.iter_mut().find(|(_, o)| o.besides_at.is_some_and(|at| at <= now)) {
            open.besides_at = None;
            let is_new = |s: &u32| open.asked_of.iter().all(|asked| asked.server != self.servers.number(*s));
            if let Some(server) = (0..self.servers.count()).map(|n| open.first + n).find(is_new) {
                open.sent += 1;
                open.besides += 1;
                return Some(Due::Besides(*id, server));
            }
        }
        let (id, passed_over) =
            self.open.iter().find(|(_, o)| o.due <= now).map(|(id, o)| (*id, self.passed_over(o, now)))?;
        let open = self.open.get_mut(&id)?;
        open.timed += 1;
        open.turns += passed_over;
        open.next_server();
        open.due += RETRY_AFTER[open.timed.min(RETRY_AFTER.len() - 1)];
        Some(Due::Retry(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(mut l: Lookups, servers: u32, lasting: bool) -> Vec<(u64, &'static str)> {
        l.servers.are(servers);
        l.wait(Patience::default());
        let q = Question { app: "curl".into(), name: "a.example".into(), record: RecordType::A };
        let (id, new) = l.ask(Instant::ZERO, 0, &q, 0);
        assert_eq!((new, l.ask(Instant::ZERO, 0, &q, 0).1), (Some(0), None), "asked once, however many wait");
        l.sent(Instant::ZERO, id, 0);
        l.get_mut(id).unwrap().lasting = lasting;
        let mut story = Vec::new();
        while let Some(at) = l.next_due() {
            match l.due(at).unwrap() {
                Due::Retry(_) => story.push((at.as_millis_f64() as u64, "again")),
                Due::Besides(_, server) => {
                    story.push((at.as_millis_f64() as u64, "another"));
                    l.sent(at, id, server);
                }
                Due::GiveUp(_) => {
                    story.push((at.as_millis_f64() as u64, "given up"));
                    l.close(at, id);
                }
            }
        }
        story
    }

    #[test]
    fn a_query_is_repeated_and_given_up_when_the_c_library_would() {
        let one = story(Lookups::default(), 1, false);
        assert_eq!(one, [(1000, "again"), (3000, "again"), (5000, "again"), (9000, "again"), (10_000, "given up")]);
        let last = |servers, lasting| story(Lookups::default(), servers, lasting).last().copied();
        assert_eq!(last(1, true), Some((15_000, "given up")), "the other family was answered");
        assert_eq!(last(3, false), Some((30_000, "given up")));
        let three = story(Lookups::default(), 3, false);
        assert_eq!(three[..3], [(376, "another"), (752, "another"), (1000, "again")]);
    }

    #[test]
    fn a_program_that_asks_another_server_is_heard_there_and_once_a_second() {
        let mut l = Lookups::default();
        let q = Question { app: "curl".into(), name: "a.example".into(), record: RecordType::A };
        let (id, _) = l.ask(Instant::ZERO, 0, &q, 0);
        let open = l.get_mut(id).unwrap();
        let mut asks = |ms, server| open.is_asked_of(Instant::from_millis(ms), server);
        assert!(asks(0, 0) && asks(0, 1) && !asks(1, 0) && !asks(1, 1) && asks(2501, 0));
    }

    const NONE: LookupResult = LookupResult::NoData(Duration::from_secs(60));

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn question(app: &str, record: RecordType) -> Question {
        Question { app: app.into(), name: "a.example".into(), record }
    }

    /// The first of so many servers is asked for A at 0.
    fn asked(servers: u32) -> (Lookups, QueryId) {
        let mut l = Lookups::default();
        l.servers.are(servers);
        l.wait(Patience::default());
        let (id, _) = l.ask(at(0), 0, &question("curl", RecordType::A), 0);
        l.sent(at(0), id, 0);
        (l, id)
    }

    /// The other family of the same name is asked for too.
    fn with_aaaa(l: &mut Lookups) -> QueryId {
        let (id, _) = l.ask(at(0), 0, &question("curl", RecordType::Aaaa), 0);
        l.sent(at(0), id, 0);
        id
    }

    /// `server` is asked besides, and answers 20 ms later.
    fn says(l: &mut Lookups, now: u64, id: QueryId, server: u32, no: &LookupResult) {
        l.sent(at(now), id, server);
        l.replied(at(now + 20), id, server);
        l.note_denial(id, no);
    }

    #[test]
    fn a_silent_server_is_asked_a_question_of_its_own() {
        let (mut l, id) = asked(2);
        says(&mut l, 400, id, 1, &NONE);
        l.close(at(420), id);
        let Some((probe, 0, Some(before))) = l.probe(at(2000)) else { panic!("the first is silent") };
        assert_eq!(before, id);
        let (next, server) = l.ask(at(2000), 0, &question("curl", RecordType::Aaaa), 0);
        assert!(next != probe && probe != id, "{next:?} {probe:?}");
        assert_eq!(server, Some(1));
    }

    #[test]
    fn how_long_a_server_takes_is_learned_from_a_question_that_it_was_asked_once() {
        for (times, usual) in [(1, 300), (2, 376)] {
            let (mut l, id) = asked(2);
            (1..times).for_each(|n| l.sent(at(10 * n), id, 0));
            l.replied(at(100), id, 0);
            assert_eq!(l.servers.wait(0), Duration::from_millis(usual), "{times}");
        }
    }

    #[test]
    fn where_the_other_family_will_do_any_denial_holds_and_no_refusal() {
        for (no, is_known, holds) in [(NONE, true, true), (NONE, false, false), (LookupResult::Refused, true, false)] {
            let (mut l, id) = asked(2);
            says(&mut l, 400, id, 1, &no);
            assert_eq!(l.no_holds(at(420), id, is_known), holds, "{no:?}");
        }
    }

    #[test]
    fn a_program_that_asks_two_servers_itself_is_answered_by_both_as_long_as_it_waits_for_both() {
        let (mut l, id) = asked(2);
        let open = l.get_mut(id).unwrap();
        assert!(open.is_asked_of(at(0), 0) && open.is_asked_of(at(0), 1));
        says(&mut l, 0, id, 0, &NONE);
        assert!(!l.no_holds(at(20), id, false) && !l.no_holds(at(9000), id, false), "it waits for the second");
        l.get_mut(id).unwrap().was_passed_on(1, 2);
        assert!(!l.no_holds(at(4999), id, false), "others may");
        assert!(l.no_holds(at(5000), id, false));
        // One that has asked the first alone is told what the second says when it would ask that.
        let (mut l, id) = asked(2);
        l.get_mut(id).unwrap().is_asked_of(at(0), 0);
        says(&mut l, 400, id, 1, &NONE);
        assert!(!l.no_holds(at(4999), id, false) && l.no_holds(at(5000), id, false));
    }

    #[test]
    fn the_server_of_the_other_familys_answer_is_not_dead_if_it_speaks() {
        for (speaks, holds) in [(true, false), (false, true)] {
            let (mut l, id) = asked(3);
            let open = l.get_mut(id).unwrap();
            (open.decider, open.decided_before) = (Some(Decider::Server(1)), true);
            assert_eq!(l.decider_to_ask(id), Some(1));
            l.sent(at(0), id, 1);
            assert_eq!(l.decider_to_ask(id), None, "it was asked");
            l.sent(at(0), id, 2);
            if speaks {
                says(&mut l, 10, id, 1, &LookupResult::Refused);
            }
            says(&mut l, 10, id, 0, &NONE);
            assert!(!l.no_holds(at(375), id, false));
            assert_eq!(l.no_holds(at(376), id, false), holds);
        }
    }

    #[test]
    fn half_an_answer_is_one_of_a_server_that_owes_the_other_family() {
        let (mut l, a) = asked(2);
        let aaaa = with_aaaa(&mut l);
        says(&mut l, 0, aaaa, 0, &NONE);
        assert!(l.is_half(aaaa, 0, false), "it has not said anything of A");
        says(&mut l, 30, a, 0, &NONE);
        assert!(!l.is_half(aaaa, 0, false) && !l.is_half(aaaa, 0, true));
        l.get_mut(aaaa).unwrap().decider = Some(Decider::Server(1));
        assert!(l.is_half(aaaa, 0, false), "another decides");
        l.get_mut(aaaa).unwrap().decider = Some(Decider::Server(0));
        assert!(!l.is_half(aaaa, 0, false) && l.is_half(aaaa, 0, true), "a refusal is when the other came late");
        l.get_mut(aaaa).unwrap().decided_at_once = true;
        assert!(!l.is_half(aaaa, 0, true));
        l.note_denial(a, &LookupResult::Refused);
        assert!(!l.is_half(aaaa, 0, false) && l.is_half(aaaa, 0, true), "both are refused");
    }

    #[test]
    fn what_another_program_asks_and_what_is_asked_of_another_name_is_no_other_half() {
        let (mut l, a) = asked(2);
        says(&mut l, 0, a, 0, &NONE);
        let elsewhere = Question { name: "b.example".into(), ..question("curl", RecordType::Aaaa) };
        for other in [question("wget", RecordType::Aaaa), question("wget", RecordType::A), elsewhere] {
            l.ask(at(0), 0, &other, 0);
        }
        assert!(!l.is_half(a, 0, false));
        with_aaaa(&mut l);
        assert!(l.is_half(a, 0, false));
    }

    #[test]
    fn a_denial_that_came_late_is_believed_when_the_c_library_comes_back_to_its_server() {
        let (mut l, id) = asked(3);
        says(&mut l, 0, id, 2, &NONE);
        // Asked again for want of an answer.
        l.get_mut(id).unwrap().asked_of[1].repeated = true;
        let given_up = (1..=40).map(|s| at(s * 1000)).find(|now| matches!(l.due(*now), Some(Due::GiveUp(_))));
        assert_eq!(given_up, Some(at(25_000)), "after three servers, and two more");
    }

    #[test]
    fn the_server_that_has_answered_the_other_question_is_asked_three_times() {
        let (mut l, id) = asked(3);
        let open = l.get_mut(id).unwrap();
        (open.decider, open.lasting) = (Some(Decider::Server(1)), true);
        (1..3).for_each(|server| l.sent(at(0), id, server));
        let given_up = (1..=60).map(|s| at(s * 1000)).find(|now| matches!(l.due(*now), Some(Due::GiveUp(_))));
        assert_eq!(given_up, Some(at(20_000)), "and the one before it once");
    }

    #[test]
    fn noes_are_remembered_by_question_and_server_and_for_a_while() {
        let (mut l, id) = asked(2);
        says(&mut l, 0, id, 0, &LookupResult::Refused);
        says(&mut l, 0, id, 1, &NONE);
        l.close(at(20), id);
        let (of, other) = (question("curl", RecordType::A), question("curl", RecordType::Aaaa));
        let denied = |now, of, server| l.was_denied_by_another(at(now), of, server);
        assert!(denied(10_019, &of, 0), "without us it would have been asked twice");
        assert!(!denied(10_020, &of, 0) && !denied(9000, &of, 1) && !denied(9000, &other, 0));
        let refused = |now, of, server| l.was_refused_by(at(now), of, server);
        assert!(refused(5019, &of, 0));
        assert!(!refused(5020, &of, 0) && !refused(5000, &of, 1) && !refused(5000, &other, 0));
        for n in 0..2 * MAX_DENIALS {
            let of = Question { name: format!("{n}.example").into(), ..question("curl", RecordType::A) };
            let (id, _) = l.ask(at(0), 0, &of, 0);
            says(&mut l, 0, id, 0, &LookupResult::Refused);
            says(&mut l, 0, id, 1, &NONE);
            l.close(at(20), id);
        }
        assert_eq!((l.denials.len(), l.refusals.len()), (MAX_DENIALS, MAX_DENIALS));
    }

    #[test]
    fn what_a_run_that_has_ended_has_asked_is_counted_on_nobody() {
        let mut l = Lookups::default();
        let ids = [7, 8].map(|account| l.ask(at(0), account, &question(&account.to_string(), RecordType::A), 0).0);
        l.disown(7);
        assert_eq!(ids.map(|id| l.get_mut(id).unwrap().account), [0, 8]);
    }

    /// The servers that a question is repeated to, each time when that is due.
    fn turns(l: &mut Lookups, id: QueryId, times: &[u64]) -> Vec<u32> {
        let turn = |ms: &u64| {
            assert_eq!(l.due(at(*ms)), Some(Due::Retry(id)), "{ms}");
            let server = l.get_mut(id).unwrap().server();
            l.sent(at(*ms), id, server);
            server % l.servers.count()
        };
        times.iter().map(turn).collect()
    }

    #[test]
    fn every_other_turn_is_that_of_the_server_that_has_answered_the_other_question() {
        let three = || {
            let (mut l, id) = asked(3);
            (1..3).for_each(|server| l.sent(at(0), id, server));
            l.get_mut(id).unwrap().decider = Some(Decider::Server(0));
            (l, id)
        };
        let (mut l, id) = three();
        assert_eq!(turns(&mut l, id, &[1000, 3000, 5000, 9000]), [1, 0, 2, 0], "and of those that were asked least");
        let (mut l, id) = three();
        l.replied(at(20), id, 1);
        l.note_denial(id, &NONE);
        assert_eq!(turns(&mut l, id, &[1000, 3000]), [2, 0], "who has said no is passed over");
    }

    #[test]
    fn who_has_said_no_is_passed_over_unless_it_refused_and_owes_the_other_family() {
        for (said, of_both, next) in
            [(NONE, false, 2), (LookupResult::Refused, false, 1), (LookupResult::Refused, true, 2)]
        {
            let (mut l, a) = asked(3);
            let aaaa = with_aaaa(&mut l);
            l.sent(at(0), a, 2);
            says(&mut l, 0, a, 1, &said);
            (1..3).for_each(|server| l.sent(at(0), aaaa, server));
            if of_both {
                l.replied(at(20), aaaa, 1);
                l.note_denial(aaaa, &said);
            }
            assert_eq!(turns(&mut l, a, &[1000]), [next], "{said:?} {of_both}");
        }
        // Once the time of the first is over, all have their turn again.
        let (mut l, id) = asked(3);
        l.get_mut(id).unwrap().is_asked_of(at(0), 0);
        l.sent(at(0), id, 2);
        says(&mut l, 0, id, 1, &NONE);
        assert_eq!(turns(&mut l, id, &[1000, 3000, 5000]), [2, 0, 1]);
    }

    #[test]
    fn what_is_sent_besides_is_counted_as_that() {
        let (mut l, id) = asked(3);
        for (ms, besides) in [(376, 1), (752, 2)] {
            assert_eq!(l.due(at(ms)), Some(Due::Besides(id, besides)));
            l.sent(at(ms), id, besides);
            let open = l.get_mut(id).unwrap();
            assert_eq!((open.sent, open.besides), (1 + besides, besides));
        }
    }
}
