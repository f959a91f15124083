//! Queries under way: repeated until they are answered or given up, shared by the jobs that wait for the same answer.

use super::{AppId, QueryId};
use crate::time::{Duration, Instant};
use crate::wire::record::RecordType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// When a query is sent again, after its first sending, each time to the next server. glibc waits 5 s; a resolver that
/// answers at all answers 99 % of queries within a second (RFC 8767, section 4, bounds a client's patience at 1.8 s).
pub(super) const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// When a query is given up: glibc's timeout of one try.
pub(super) const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// What a lookup is about: answers are never shared between programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub app: AppId,
    pub name: Arc<str>,
    pub record: RecordType,
}

#[derive(Debug)]
pub(super) struct Open {
    pub question: Question,
    pub asked: Instant,
    /// Whose tally its queries are counted in: that of who asked first.
    pub account: u32,
    /// The server that was asked first.
    pub first: u32,
    /// Queries sent so far, each to the next server.
    pub sent: u32,
    /// Retries done because their time came; retries after a refusal are not counted.
    timed: usize,
}

impl Open {
    fn due(&self) -> Instant {
        self.asked + RETRY_AFTER.get(self.timed).copied().unwrap_or(GIVE_UP_AFTER)
    }
}

/// What became of a query whose time came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Retry(QueryId),
    GiveUp(QueryId),
}

/// All queries under way.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    open: BTreeMap<QueryId, Open>,
    next: u64,
    /// The first that was asked on this network.
    first_here: u64,
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

    /// The query for `question` on this network, and whether it is new and must be sent.
    pub fn ask(&mut self, now: Instant, account: u32, question: &Question) -> (QueryId, bool) {
        let mut of_here = self.open.range(QueryId(self.first_here)..);
        if let Some((id, _)) = of_here.find(|(_, o)| o.question == *question) {
            return (*id, false);
        }
        let id = QueryId(self.next);
        self.next += 1;
        self.open.insert(id, Open { question: question.clone(), asked: now, account, first: 0, sent: 1, timed: 0 });
        (id, true)
    }

    /// Whether the answer to `question` is awaited.
    pub fn is_open(&self, question: &Question) -> bool {
        self.open.values().any(|o| o.question == *question)
    }

    pub fn get_mut(&mut self, id: QueryId) -> Option<&mut Open> {
        self.open.get_mut(&id)
    }

    pub fn close(&mut self, id: QueryId) -> Option<Open> {
        self.open.remove(&id)
    }

    /// Counts the queries of `account` on account 0 from now on.
    pub fn disown(&mut self, account: u32) {
        self.open.values_mut().filter(|o| o.account == account).for_each(|o| o.account = 0);
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.open.values().map(Open::due).min()
    }

    /// The next query whose time has come by `now`; a retry is counted as sent.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        let (id, open) = self.open.iter_mut().find(|(_, o)| o.due() <= now)?;
        if open.timed < RETRY_AFTER.len() {
            open.timed += 1;
            open.sent += 1;
            Some(Due::Retry(*id))
        } else {
            Some(Due::GiveUp(*id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_repeated_twice_and_given_up_after_five_seconds() {
        let mut l = Lookups::default();
        let q = Question { app: "curl".into(), name: "a.example".into(), record: RecordType::A };
        let (id, new) = l.ask(Instant::ZERO, 0, &q);
        assert!(new && !l.ask(Instant::ZERO, 0, &q).1, "asked once, however many wait");
        let mut story = Vec::new();
        while let Some(at) = l.next_due() {
            match l.due(at).unwrap() {
                Due::Retry(_) => story.push((at.as_millis_f64() as u64, "again")),
                Due::GiveUp(_) => {
                    story.push((at.as_millis_f64() as u64, "given up"));
                    l.close(id);
                }
            }
        }
        assert_eq!(story, [(1000, "again"), (3000, "again"), (5000, "given up")]);
    }
}
