//! Questions of programs that speak DNS themselves: one name and one family each, answered with what the server said,
//! and one family never held up by the other.
//!
//! Such a program asks for both families and waits for both answers: 15 s in the C library, 10 s in Go's resolver, if one
//! of them is lost. Once one family has addresses, the other is waited for as long as these are worth (see
//! [`reliance`](super::race::reliance)), and then said to have none. That is never remembered: what the server says later is
//! what holds.
//! A program that has not asked for the other family gets no such answer, for it may have no use for it.
//!
//! Most that ask for one family ask for the other in the next moment, and each of their questions is a few system calls after
//! the one before. So the server is asked for both at the first, unless this program has been seen to ask for one alone.

use super::lookups::{Lookups, Question};
use super::{AppId, QueryId, RequestId, Want};
use crate::path::Family;
use crate::time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Two questions of a program for one name belong together if the second comes within this time of the first. The C library
/// asks both at once; where it asks one after the other (`single-request`), the second follows the first's answer.
const TOGETHER: Duration = Duration::from_secs(2);
/// Questions that wait for an answer; the oldest makes room. Programs ask again what is not answered.
const MAX_WAITING: usize = 1024;
/// Questions remembered, to know which belong together.
const MAX_RECENT: usize = 256;
/// Answers whose query is remembered: as many as there may be names in the caches of a few programs.
const MAX_REPLIES: usize = 8192;

/// Names whose port is remembered.
const MAX_PORTS: usize = 1024;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// What the server said to this query, so long ago. If it said nothing that can be read, it refused.
    Reply {
        /// The query that it was said to.
        query: QueryId,
        /// Time since then, by which its TTLs are less now.
        age: Duration,
    },
    /// The other family has addresses, and this one's answer is not to be waited for: none, for now.
    NotWaitedFor,
    /// No server answered.
    Unanswered,
}

#[derive(Debug)]
struct Waiting {
    request: RequestId,
    question: Question,
    /// The server that it asks, by its number.
    server: u32,
    since: Instant,
}

#[derive(Debug)]
struct LastReply {
    query: QueryId,
    at: Instant,
    addresses: bool,
    /// How long the other family is waited for beside these addresses.
    reliance: Option<Duration>,
}

/// A question that a program has asked lately.
#[derive(Debug)]
struct Recent {
    question: Question,
    at: Instant,
    /// It was refused: addresses that come later are not the program's own.
    refused: bool,
}

/// Which requests wait for which question, and the replies so far.
#[derive(Debug)]
pub(super) struct Asks {
    waiting: VecDeque<Waiting>,
    recent: VecDeque<Recent>,
    replies: BTreeMap<Question, LastReply>,
    /// Where programs have gone after they had asked for a name, and when.
    ports: BTreeMap<(AppId, Arc<str>), (u16, Instant)>,
    routes: [bool; 2],
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            recent: VecDeque::new(),
            replies: BTreeMap::new(),
            ports: BTreeMap::new(),
            routes: [true; 2],
        }
    }
}

impl Asks {
    /// A program asks. What was said to this question, if it is known.
    pub fn ask(&mut self, now: Instant, question: &Question) -> Option<Answered> {
        self.recent.truncate(MAX_RECENT - 1);
        self.recent.push_front(Recent { question: question.clone(), at: now, refused: false });
        self.replies.get(question).map(|reply| Answered::Reply { query: reply.query, age: now - reply.at })
    }

    /// What this program, which has [asked](Self::ask) `question`, will most likely ask next: for the other family of the same
    /// name, if there are routes for both and it did not leave that out the last time.
    pub fn next(&self, question: &Question) -> Option<Question> {
        let family = question.record.family().filter(|_| self.routes == [true; 2])?;
        let other = |q: &Question, family: Family| Question { record: family.other().into(), ..q.clone() };
        let next = other(question, family);
        // Refused or not: what it asks for is a habit.
        let was_asked = |wanted: &Question| self.recent.iter().any(|recent| recent.question == *wanted);
        let mut earlier = self.recent.iter().skip(1).map(|r| &r.question).filter(|q| q.app == question.app);
        let asks_for_one = earlier.find_map(|q| Some(!was_asked(&other(q, q.record.family()?)))).unwrap_or(false);
        (!asks_for_one && self.asked_at(&next).is_none()).then_some(next)
    }

    /// When `question` was asked lately, if it was not refused.
    fn asked_at(&self, question: &Question) -> Option<Instant> {
        let mut asked = self.recent.iter().filter(|recent| recent.question == *question && !recent.refused);
        asked.next().map(|recent| recent.at)
    }

    /// The request waits, for `question` is being looked up. Returns the one that has waited longest, if it has to go.
    pub fn wait(&mut self, now: Instant, request: RequestId, question: Question, server: u32) -> Option<RequestId> {
        self.waiting.push_back(Waiting { request, question, server, since: now });
        if self.waiting.len() > MAX_WAITING { self.waiting.pop_front().map(|w| w.request) } else { None }
    }

    /// The requests that wait for the answer to `question`.
    pub fn awaiting<'a>(&'a self, question: &'a Question) -> impl Iterator<Item = RequestId> + 'a {
        self.waiting.iter().filter(move |w| w.question == *question).map(|w| w.request)
    }

    /// Whether a program that waits for `question` waits for `other` too, or has asked it together with that.
    pub fn is_asked_with(&self, question: &Question, other: &Question) -> bool {
        let together = |(one, two): (Instant, Instant)| one.since(two).max(two.since(one)) <= TOGETHER;
        self.awaiting(other).next().is_some() || self.asked_at(question).zip(self.asked_at(other)).is_some_and(together)
    }

    /// It waits no longer.
    pub fn abandon(&mut self, request: RequestId) -> Option<(Question, u32)> {
        let at = self.waiting.iter().position(|w| w.request == request)?;
        let waiting = self.waiting.remove(at)?;
        Some((waiting.question, waiting.server))
    }

    /// The server replied to `question`: whether with addresses, and whether the reply is kept.
    pub fn on_reply(&mut self, now: Instant, query: QueryId, question: &Question, addresses: bool, kept: bool) {
        if !kept {
            self.replies.remove(question);
            return;
        }
        if self.replies.len() >= MAX_REPLIES
            && !self.replies.contains_key(question)
            && let Some(oldest) = self.replies.iter().min_by_key(|(_, s)| s.at).map(|(q, _)| q.clone())
        {
            self.replies.remove(&oldest);
        }
        self.replies.insert(question.clone(), LastReply { query, at: now, addresses, reliance: None });
    }

    /// How long the reply to `question` makes a wait for the other family worthwhile; `None`: without limit.
    pub fn rely(&mut self, question: &Question, reliance: Option<Duration>) {
        if let Some(reply) = self.replies.get_mut(question) {
            reply.reliance = reliance;
        }
    }

    /// Removes the requests that wait for `question`, and returns them.
    pub fn take(&mut self, question: &Question) -> Vec<RequestId> {
        let gone = self.waiting.iter().filter(|w| w.question == *question).map(|w| w.request).collect();
        self.waiting.retain(|w| w.question != *question);
        gone
    }

    /// Removes the requests that wait for `server` to answer `question`, and returns them.
    pub fn take_of(&mut self, question: &Question, server: u32) -> Vec<RequestId> {
        let is_one = |w: &Waiting| w.question == *question && w.server == server;
        let gone = self.waiting.iter().filter(|w| is_one(w)).map(|w| w.request).collect();
        self.waiting.retain(|w| !is_one(w));
        gone
    }

    /// The program that asked `question` was refused: addresses that come later are not its own until it asks again, and nothing is
    /// reported to it in their favour.
    pub fn was_refused(&mut self, question: &Question) {
        let asked = self.recent.iter_mut().filter(|recent| recent.question == *question);
        asked.for_each(|recent| recent.refused = true);
    }

    /// Whether this program is one that asks.
    pub fn knows(&self, app: &AppId) -> bool {
        self.recent.iter().any(|recent| recent.question.app == *app)
    }

    /// It has gone to `port` of an address of `name`, and will most likely go there after its next question too.
    pub fn went_to(&mut self, now: Instant, app: &AppId, name: Arc<str>, port: u16) {
        let key = (Arc::clone(app), name);
        if self.ports.len() >= MAX_PORTS
            && !self.ports.contains_key(&key)
            && let Some(oldest) = self.ports.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone())
        {
            self.ports.remove(&oldest);
        }
        self.ports.insert(key, (port, now));
    }

    /// Where the program will most likely go, now that it asks, and over which families. Said once for each time that it has gone
    /// there: a program that only asks is not run ahead of twice.
    pub fn goes_to(&mut self, question: &Question) -> Option<(u16, Want)> {
        let family = question.record.family()?;
        let (port, _) = self.ports.remove(&(Arc::clone(&question.app), Arc::clone(&question.name)))?;
        let other = Question { record: family.other().into(), ..question.clone() };
        let both = self.asked_at(&other).is_some() || self.next(question).is_some();
        Some((port, if both { Want::Both } else { Want::Only(family) }))
    }

    /// The host has routes for these families.
    pub fn routed(&mut self, v4: bool, v6: bool) {
        self.routes = [v4, v6];
    }

    /// What was said on another network is not what is said on this one.
    pub fn forget(&mut self) {
        self.replies.clear();
    }

    /// When the next request stops waiting.
    pub fn next_release(&self, lookups: &Lookups) -> Option<Instant> {
        self.waiting.iter().filter_map(|w| self.release_at(w, lookups)).min()
    }

    /// Removes the requests whose time has come, and returns them.
    pub fn release(&mut self, now: Instant, lookups: &Lookups) -> Vec<RequestId> {
        let due = |w: &&Waiting| self.release_at(w, lookups).is_some_and(|at| at <= now);
        let released: Vec<_> = self.waiting.iter().filter(due).map(|w| w.request).collect();
        self.waiting.retain(|w| !released.contains(&w.request));
        released
    }

    /// Whether a program, by what it has asked just now, waits for the other family of `question` beside addresses of this one, of which
    /// it is not known whether they will do.
    pub fn may_do_alone(&self, now: Instant, question: &Question, lookups: &Lookups) -> bool {
        let Some(family) = question.record.family() else { return false };
        let other = Question { record: family.other().into(), ..question.clone() };
        let is_new = |w: &Waiting| {
            let beside = self.beside(w, lookups);
            beside.is_some_and(|(known, asked)| asked.max(w.since) == now && known.reliance.is_none())
        };
        self.waiting.iter().any(|w| w.question == other && is_new(w))
    }

    /// When this program stops waiting: only if it has asked for the other family too, that has
    /// addresses, and there is a way to them.
    fn release_at(&self, waiting: &Waiting, lookups: &Lookups) -> Option<Instant> {
        let (known, asked) = self.beside(waiting, lookups)?;
        Some(known.at.max(asked).max(waiting.since) + known.reliance?)
    }

    /// What is known of the other family, if that is of use and was asked for together with the one that is waited for; and when it was
    /// asked for.
    fn beside(&self, waiting: &Waiting, lookups: &Lookups) -> Option<(&LastReply, Instant)> {
        let family = waiting.question.record.family()?.other();
        let other = Question { record: family.into(), ..waiting.question.clone() };
        let has_route = self.routes[usize::from(family == Family::V6)];
        let known = self.replies.get(&other).filter(|s| s.addresses && has_route && !lookups.is_open(&other))?;
        let asked = self.asked_at(&other)?;
        let apart = waiting.since.since(asked).max(asked.since(waiting.since));
        (apart <= TOGETHER).then_some((known, asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_program_went_longest_ago_is_forgotten_first() {
        let mut asks = Asks::default();
        let question = |app: &str, n: usize| Question {
            app: app.into(),
            name: format!("{n}.example").into(),
            record: Family::V4.into(),
        };
        let go = |asks: &mut Asks, app: &str, n: usize, at: usize| {
            let Question { app, name, .. } = question(app, n);
            asks.went_to(Instant::from_millis(at as u64), &app, name, 443);
        };
        (0..MAX_PORTS).for_each(|n| go(&mut asks, "many", n, n));
        go(&mut asks, "many", 0, MAX_PORTS);
        assert_eq!(asks.ports.len(), MAX_PORTS, "it is known already");
        go(&mut asks, "another", 0, MAX_PORTS + 1);
        go(&mut asks, "yet another", 0, MAX_PORTS + 2);
        let goes = |asks: &mut Asks, app, n| asks.goes_to(&question(app, n)).map(|(port, _)| port);
        assert_eq!((goes(&mut asks, "many", 1), goes(&mut asks, "many", 2)), (None, None));
        for (app, n) in [("many", 0), ("many", 3), ("another", 0), ("yet another", 0)] {
            assert_eq!(goes(&mut asks, app, n), Some(443), "{app} {n}");
        }
    }

    const DELAY: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn of(name: &str, family: Family) -> Question {
        Question { app: "go".into(), name: name.into(), record: family.into() }
    }

    /// A program has asked for both families of a name, the other 10 ms after `family`, which is answered 20 ms after that with
    /// addresses that are good for the Resolution Delay; it waits for the other.
    fn half(family: Family, addresses: bool) -> Asks {
        let mut asks = Asks::default();
        let (known, other) = (of("a.example", family), of("a.example", family.other()));
        asks.ask(at(0), &known);
        asks.ask(at(10), &other);
        asks.wait(at(10), RequestId(1), other, 0);
        asks.on_reply(at(30), QueryId(1), &known, addresses, true);
        asks.rely(&known, Some(DELAY));
        asks
    }

    #[test]
    fn a_family_is_not_waited_for_beside_addresses_of_the_other_to_which_there_is_a_way() {
        let lookups = Lookups::default();
        for family in Family::BOTH {
            let mut asks = half(family, true);
            assert_eq!(asks.next_release(&lookups), Some(at(80)));
            asks.routed(family == Family::V4, family == Family::V6);
            assert_eq!(asks.next_release(&lookups), Some(at(80)), "to these");
            asks.routed(family == Family::V6, family == Family::V4);
            assert_eq!(asks.next_release(&lookups), None, "to the others");
            assert_eq!(half(family, false).next_release(&lookups), None, "there are none");
            let mut lookups = Lookups::default();
            lookups.ask(at(40), 0, &of("a.example", family), 0);
            assert_eq!(half(family, true).next_release(&lookups), None, "it is asked for again");
        }
    }

    #[test]
    fn who_waits_is_released_in_its_time_and_once() {
        let (lookups, mut asks) = (Lookups::default(), half(Family::V4, true));
        assert_eq!(asks.release(at(79), &lookups), []);
        assert_eq!(asks.release(at(80), &lookups), [RequestId(1)]);
        assert_eq!(asks.release(at(80), &lookups), []);
    }

    #[test]
    fn questions_that_come_one_soon_after_the_other_belong_together() {
        let mut asks = Asks::default();
        let (four, six) = (of("a.example", Family::V4), of("a.example", Family::V6));
        asks.ask(at(0), &four);
        assert!(!asks.is_asked_with(&four, &six));
        asks.ask(at(2000), &six);
        assert!(asks.is_asked_with(&four, &six) && asks.is_asked_with(&six, &four));
        assert!(!asks.is_asked_with(&four, &of("b.example", Family::V6)));
        asks.ask(at(4001), &four);
        assert!(!asks.is_asked_with(&four, &six));
        asks.wait(at(4001), RequestId(1), six.clone(), 0);
        assert!(asks.is_asked_with(&four, &six), "it waits for it");
    }

    #[test]
    fn a_program_is_known_by_the_latest_questions() {
        let mut asks = Asks::default();
        asks.ask(at(0), &Question { app: "dig".into(), ..of("a.example", Family::V4) });
        assert!(asks.knows(&"dig".into()) && !asks.knows(&"go".into()));
        (0..2 * MAX_RECENT).for_each(|n| _ = asks.ask(at(n as u64), &of(&n.to_string(), Family::V4)));
        assert!(!asks.knows(&"dig".into()) && asks.knows(&"go".into()));
        assert_eq!(asks.recent.len(), MAX_RECENT);
    }

    #[test]
    fn the_oldest_reply_makes_room_for_another_question_and_none_outlives_its_network() {
        let mut asks = Asks::default();
        let name = |n: usize| of(&n.to_string(), Family::V4);
        let mut reply = |n: usize, ms: usize| {
            asks.on_reply(at(ms as u64), QueryId(n as u64), &name(n), true, true);
        };
        (0..MAX_REPLIES).for_each(|n| reply(n, n));
        reply(1, MAX_REPLIES);
        let is_known = |asks: &mut Asks, n| asks.ask(at(0), &name(n)).is_some();
        assert!(is_known(&mut asks, 0), "nothing has to go for what is known already");
        asks.on_reply(at(9000), QueryId(0), &name(MAX_REPLIES), true, true);
        assert_eq!([0, 1, 2, MAX_REPLIES].map(|n| is_known(&mut asks, n)), [false, true, true, true]);
        asks.on_reply(at(9000), QueryId(0), &name(1), true, false);
        assert_eq!([1, 2].map(|n| is_known(&mut asks, n)), [false, true], "what is not kept is not known");
        asks.forget();
        assert!(!is_known(&mut asks, 2));
    }
}
