//! Programs that speak DNS themselves: their questions use the same cache and the same queries as everybody's.

use super::Connector;
use crate::connect::asks::Answered;
use crate::connect::lookups::Question;
use crate::connect::{Ask, Output, QueryId, RequestId};
use crate::time::{Duration, Instant};
use std::sync::Arc;

impl Connector {
    pub(super) fn ask(&mut self, now: Instant, request: RequestId, ask: Ask) {
        let name: Arc<str> = ask.name.trim_end_matches('.').to_ascii_lowercase().into();
        let question = Question { app: ask.app, name, family: ask.family };
        self.make_room_for(&question.app);
        let said = self.asks.ask(now, &question);
        let cache = self.caches.entry(Arc::clone(&question.app)).or_default();
        let holds = cache.get(now, &question.name, question.family).is_some();
        if let Some(said) = said.filter(|_| holds) {
            self.tally.of(request.account()).cache_hits += 1;
            return self.outputs.push_back(Output::Answered(request, said));
        }
        self.tally.of(request.account()).cache_misses += 1;
        let (query, new) = self.lookups.ask(now, request.account(), &question);
        if new {
            self.tally.of(request.account()).queries += 1;
            let (name, family) = (Arc::clone(&question.name), question.family);
            self.outputs.push_back(Output::Query { id: query, name, family, server: ask.server });
        }
        if let Some(oldest) = self.asks.wait(now, request, question) {
            self.outputs.push_back(Output::Answered(oldest, Answered::Unanswered));
        }
    }

    /// A query has ended: whoever asked for the same is told. `said` is whether anything was said at all, `addresses` and
    /// `kept` what it was.
    pub(super) fn tell_askers(
        &mut self,
        now: Instant,
        query: QueryId,
        question: &Question,
        said: bool,
        (addresses, kept): (bool, bool),
    ) {
        self.asks.heard(now, query, question, addresses, kept);
        let answer = if said { Answered::Said { query, age: Duration::ZERO } } else { Answered::Unanswered };
        for request in self.asks.take(question) {
            self.outputs.push_back(Output::Answered(request, answer));
        }
    }
}
