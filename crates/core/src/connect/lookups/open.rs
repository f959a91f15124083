//! One query under way: the servers that it was sent to, and what they have answered.

use super::{ASKS_AGAIN_AFTER, Question, RETRY_AFTER, SILENT_AFTER};
use crate::connect::LookupResult;
use crate::time::Instant;

#[derive(Debug)]
pub(in crate::connect) struct Open {
    pub question: Question,
    pub asked: Instant,
    /// The account that its queries are counted in: that of the first request.
    pub account: u32,
    /// The server that was asked first.
    pub first: u32,
    /// Queries sent so far, each to the next server.
    pub sent: u32,
    /// Of those, how many went to the next server for want of an answer or after a refusal, and not because a program asked it.
    pub(super) turns: u32,
    /// How many went to another server because the one before took longer than usual.
    pub besides: u32,
    /// When the next of these is due.
    pub(super) besides_at: Option<Instant>,
    pub(super) asked_of: Vec<AskedServer>,
    /// The server that has answered last.
    pub(super) replied: Option<u32>,
    /// Servers that have said that there is nothing or refused to say, each with its last word.
    pub(super) nos: Vec<(u32, LookupResult)>,
    /// How many were refused.
    pub refused: u32,
    /// Every server has refused as often as it is asked: only another answer to the other family's question keeps this open.
    pub exhausted: bool,
    /// The other family's question has been answered: a server is there.
    pub lasting: bool,
    /// The other family has addresses, or an answer in the cache: the servers that gave it decide on this one too.
    pub decider: Option<Decider>,
    /// That answer was in the cache when this was asked: its server may have died since.
    pub decided_before: bool,
    /// It gave them when it was first asked: the C library does not ask it again for a family that it refuses.
    pub decided_at_once: bool,
    /// The servers that had spoken to the other family's question when it ended, and whether they had refused it.
    pub others_heard: Option<Vec<(u32, bool)>>,
    /// Retries done because their time came; retries after a refusal are not counted.
    pub(super) timed: usize,
    /// When the next is due.
    pub(super) due: Instant,
    /// A program that takes the first answer of several servers has had a denial.
    pub(super) denied: bool,
    /// Servers that programs have asked themselves, and when, unless the answer has been passed on.
    pub(super) theirs: Vec<(u32, Option<Instant>)>,
}

/// Whose word on one family holds, since it has answered for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connect) enum Decider {
    Server(u32),
    /// Addresses are in the cache, and it is not known whose they are.
    Any,
}

/// A server that a question was sent to.
#[derive(Debug)]
pub(super) struct AskedServer {
    pub(super) server: u32,
    /// When first.
    pub(super) at: Instant,
    /// How often.
    pub(super) times: u32,
    /// Asked again for want of an answer, and not because a program asks too.
    pub(super) repeated: bool,
    pub(super) replied: bool,
    /// It has refused at least once.
    pub(super) refused: bool,
}

impl Open {
    pub(super) fn new(now: Instant, account: u32, question: Question, first: u32) -> Self {
        Self {
            question,
            asked: now,
            account,
            first,
            sent: 1,
            turns: 0,
            besides: 0,
            besides_at: None,
            asked_of: Vec::new(),
            replied: None,
            nos: Vec::new(),
            refused: 0,
            exhausted: false,
            lasting: false,
            decider: None,
            decided_before: false,
            decided_at_once: false,
            others_heard: None,
            timed: 0,
            due: now + RETRY_AFTER[0],
            denied: false,
            theirs: Vec::new(),
        }
    }

    /// What holds if nothing better comes: a denial before a refusal.
    pub fn no(&self) -> Option<LookupResult> {
        let denial = self.nos.iter().find(|(_, no)| *no != LookupResult::Refused);
        denial.or(self.nos.first()).map(|(_, no)| no.clone())
    }

    /// The server that answered it last.
    pub fn replied(&self) -> Option<u32> {
        self.replied
    }

    /// Whether `server` has answered when it was first asked, and never refused.
    pub fn was_answered_at_once(&self, server: u32) -> bool {
        self.asked_of.iter().any(|asked| asked.server == server && asked.replied && !asked.repeated && !asked.refused)
    }

    /// The servers that have spoken to it, and whether they have refused it at least once.
    pub fn heard(&self) -> Vec<(u32, bool)> {
        self.asked_of.iter().filter(|asked| asked.replied).map(|asked| (asked.server, asked.refused)).collect()
    }

    /// A program that asks several servers has had a denial from one.
    pub fn was_denied(&mut self) {
        self.denied = true;
    }

    /// Whether what comes now is none of a program's: it has taken the denial that came first, and would the next time.
    pub fn is_settled(&self) -> bool {
        self.denied
    }

    /// Whether programs have asked more than one server for it.
    pub fn is_asked_of_several(&self) -> bool {
        self.theirs.len() > 1
    }

    /// Whether `server` was asked again for want of an answer.
    pub(super) fn was_repeated(&self, server: u32) -> bool {
        self.asked_of.iter().any(|asked| asked.server == server && asked.repeated)
    }

    /// How often `server` was asked.
    pub(super) fn times(&self, server: u32) -> u32 {
        self.asked_of.iter().find(|asked| asked.server == server).map_or(0, |asked| asked.times)
    }

    pub(super) fn has_denied(&self, server: u32) -> bool {
        self.nos.iter().any(|(of, _)| *of == server)
    }

    /// Whether it was just retransmitted because the network seems to drop it.
    pub fn falls_silent(&self) -> bool {
        self.timed == SILENT_AFTER
    }

    /// Whether it has been counted as such.
    pub fn was_silent(&self) -> bool {
        self.timed >= SILENT_AFTER
    }

    /// The server that is asked next; counted as sent.
    pub fn next_server(&mut self) -> u32 {
        self.sent += 1;
        self.turns += 1;
        self.server()
    }

    /// The server that was asked last.
    pub fn server(&self) -> u32 {
        self.first + self.turns
    }

    /// Programs have been answered what server number `server` of `count` said: if one asks again, that is another question.
    pub fn was_passed_on(&mut self, server: u32, count: u32) {
        self.theirs.iter_mut().filter(|(of, _)| of % count == server).for_each(|(_, at)| *at = None);
    }

    /// A program asks server number `server` anew: a refusal of before is of no matter.
    pub fn is_anew(&mut self, server: u32) {
        self.nos.retain(|(of, no)| *of != server || *no != LookupResult::Refused);
    }

    /// Whether a program that asks `server` now has this sent there. Some ask all of them at once, and others one after the
    /// other.
    pub fn is_asked_of(&mut self, now: Instant, server: u32) -> bool {
        let recently = |at: Option<Instant>| at.is_some_and(|at| now - at < ASKS_AGAIN_AFTER);
        if let Some((_, at)) = self.theirs.iter_mut().find(|(s, _)| *s == server) {
            return !recently(at.replace(now));
        }
        self.theirs.push((server, Some(now)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::QueryId;
    use crate::connect::lookups::{Due, Lookups};
    use crate::time::Duration;
    use crate::wire::record::RecordType;

    const NONE: LookupResult = LookupResult::NoData(Duration::from_secs(60));

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A question that the first of so many servers is asked at 0.
    fn ask(servers: u32) -> (Lookups, QueryId) {
        let mut lookups = Lookups::default();
        lookups.servers.are(servers);
        let question = Question { app: "go".into(), name: "a.example".into(), record: RecordType::A };
        let (id, _) = lookups.ask(at(0), 0, &question, 0);
        lookups.sent(at(0), id, 0);
        (lookups, id)
    }

    /// Servers say no, one after the other.
    fn noes(said: &[LookupResult]) -> Open {
        let (mut lookups, id) = ask(said.len() as u32);
        for (n, no) in (0..).zip(said) {
            lookups.sent(at(10), id, n);
            lookups.replied(at(20), id, n);
            lookups.note_denial(id, no);
        }
        lookups.close(at(20), id).unwrap()
    }

    #[test]
    fn what_each_server_has_made_of_it_is_told_apart() {
        let (mut lookups, id) = ask(5);
        assert_eq!(lookups.get_mut(id).unwrap().replied(), None);
        // Server 0 is silent, 1 answers, 2 only when it is asked again, and 3 refuses; 4 is not asked.
        (1..4).for_each(|server| lookups.sent(at(10), id, server));
        [1, 3].into_iter().for_each(|server| lookups.replied(at(20), id, server));
        lookups.note_denial(id, &LookupResult::Refused);
        lookups.sent(at(700), id, 2);
        lookups.replied(at(710), id, 2);
        let open = lookups.get_mut(id).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|n| open.was_answered_at_once(n)), [false, true, false, false, false]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| open.times(n)), [1, 1, 2, 1, 0]);
        assert_eq!(open.heard(), [(1, false), (2, false), (3, true)]);
        assert_eq!(open.replied(), Some(2));
    }

    #[test]
    fn what_one_server_denies_holds_before_what_others_refuse() {
        for said in [[LookupResult::Refused, NONE], [NONE, LookupResult::Refused]] {
            assert_eq!(noes(&said).no(), Some(NONE));
        }
        assert_eq!(noes(&[LookupResult::Refused]).no(), Some(LookupResult::Refused));
    }

    #[test]
    fn a_server_that_is_asked_anew_has_not_refused_and_what_it_denied_stands() {
        let mut open = noes(&[LookupResult::Refused, NONE, LookupResult::Refused]);
        open.is_anew(0);
        assert_eq!([0, 1, 2].map(|n| open.has_denied(n)), [false, true, true]);
        open.is_anew(1);
        assert_eq!([0, 1, 2].map(|n| open.has_denied(n)), [false, true, true]);
    }

    #[test]
    fn a_program_that_was_told_what_a_server_said_is_heard_there_at_once() {
        let (mut lookups, id) = ask(3);
        let open = lookups.get_mut(id).unwrap();
        // Servers are counted on from that which was asked first, so that 5 of 3 is number 2.
        assert!(open.is_asked_of(at(0), 0) && open.is_asked_of(at(0), 5));
        assert!(!open.is_asked_of(at(1), 0) && !open.is_asked_of(at(1), 5));
        open.was_passed_on(2, 3);
        assert!(!open.is_asked_of(at(2), 0) && open.is_asked_of(at(2), 5));
    }

    #[test]
    fn a_question_is_silent_after_its_third_repetition_and_settled_by_a_denial() {
        let (mut lookups, id) = ask(1);
        for (ms, is_silent) in [(1000, false), (3000, false), (5000, true)] {
            assert!(!lookups.get_mut(id).unwrap().was_silent());
            assert_eq!(lookups.due(at(ms)), Some(Due::Retry(id)));
            assert_eq!(lookups.get_mut(id).unwrap().was_silent(), is_silent);
        }
        let open = lookups.get_mut(id).unwrap();
        assert!(!open.is_settled());
        open.was_denied();
        assert!(open.is_settled());
    }
}
