//! Queries and the servers that they go to: which is asked first, which beside it, and what is learned of them.

use super::Connector;
use crate::connect::lookups::{Due, Question};
use crate::connect::{Output, QueryId};
use crate::path::Family;
use crate::time::Instant;
use std::sync::Arc;

impl Connector {
    /// There are so many servers now.
    pub(super) fn servers_are(&mut self, count: u32) {
        let given_up = self.lookups.servers.are(count);
        self.outputs.extend(given_up.into_iter().map(Output::Forget));
    }

    /// Sends the query for `question` to `server`, and asks a silent one beside it if it is time to.
    pub(super) fn send(&mut self, now: Instant, account: u32, id: QueryId, question: &Question, server: u32) {
        let query = |id, server| {
            let (name, record) = (Arc::clone(&question.name), question.record);
            Output::Query { id, name, record, server }
        };
        self.lookups.sent(now, id, server);
        self.tally.of(account).queries += 1;
        self.outputs.push_back(query(id, server));
        if let Some((probe, server, before)) = self.lookups.probe(now) {
            self.outputs.extend(before.map(Output::Forget));
            self.tally.of(account).queries += 1;
            self.outputs.push_back(query(probe, server));
        }
    }

    /// A server that is asked without a program's choice of one: the query for `question`, unless there is one under way.
    pub(super) fn ask_anew(&mut self, now: Instant, account: u32, question: &Question) -> (QueryId, bool) {
        let (query, server) = self.look_up_beside(now, account, question, 0);
        if let Some(server) = server {
            self.send(now, account, query, question, server);
        }
        (query, server.is_some())
    }

    /// Does what is due of lookups: asks again, asks another server besides, gives up.
    pub(super) fn attend_lookups(&mut self, now: Instant) {
        while let Some(due) = self.lookups.due(now) {
            match due {
                Due::Retry(id) => self.ask_once_more(now, id),
                Due::Besides(id, server) => {
                    let Some(open) = self.lookups.get_mut(id) else { continue };
                    let (account, before, question) = (open.account, open.sent - 1, open.question.clone());
                    self.note_repeated(now, &question, before);
                    self.send(now, account, id, &question, server);
                }
                Due::GiveUp(id) => self.lookup_ended(now, id, None),
            }
        }
    }

    fn ask_once_more(&mut self, now: Instant, id: QueryId) {
        if let Some(no) = self.lookups.get_mut(id).and_then(|open| open.no()) {
            self.tell_askers_no(now, id, &no);
        }
        let Some(open) = self.lookups.get_mut(id) else { return };
        let (before, account, server) = (open.sent - 1, open.account, open.server());
        let (question, falls_silent) = (open.question.clone(), open.falls_silent());
        self.note_repeated(now, &question, before);
        let family: Option<Family> = question.record.family();
        if let Some(family) = family.filter(|_| falls_silent && self.lookups.is_of_here(id)) {
            self.path.current().family_mut(family).lookup_unanswered();
        }
        self.send(now, account, id, &question, server);
    }
}
