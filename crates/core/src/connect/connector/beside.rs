//! Programs that ask servers and open connections themselves, past the connector, where it sees both pass (behind a TUN interface): what they
//! do is learned from as if they had asked here, what still holds is offered to them, and connections are opened ahead of their SYNs.
//!
//! What never happens here: a question of a program that is asked a second time, by us.

use super::Connector;
use crate::connect::lookups::Question;
use crate::connect::pool::{self, SpareEnd};
use crate::connect::prefetch::Ahead;
use crate::connect::race::{Attempt, State};
use crate::connect::{AppId, Claim, QueryId, RequestId, Want};
use crate::path::{Family, Outcome};
use crate::time::Instant;
use crate::wire::record::RecordType;
use std::net::IpAddr;
use std::sync::Arc;

impl Connector {
    /// A program asks a server for `record` of `name`, and has its answer from there or from what [holds](Self::answer_holds). What follows
    /// is looked up and opened; if the name's addresses are known, a connection to where it went last begins.
    pub(super) fn asks_itself(&mut self, now: Instant, account: u32, app: AppId, name: &str, record: RecordType) {
        let name: Arc<str> = name.trim_end_matches('.').to_ascii_lowercase().into();
        self.make_room_for(&app);
        let question = Question { app, name, record };
        self.asks.ask(now, &question);
        self.asked(now, account, &question.app, &question.name, &[record]);
        if !self.answer_holds(now, &question.app, &question.name, record) {
            self.tally.of(account).cache_misses += 1;
            return;
        }
        self.tally.of(account).cache_hits += 1;
        self.refresh(now, account, &question);
        if self.settings.ahead.spares == 0 {
            return;
        }
        let Some((port, want)) = self.asks.goes_to(&question) else { return };
        if pool::is_client_first(port) && self.knows_all(now, &question, want, port) {
            self.run_ahead(now, RequestId(u64::from(account) << 32), question, want, port);
        }
    }

    /// Whether all answers for `want` hold, so that nothing need be asked, and lead to where a connection may be left alone.
    fn knows_all(&mut self, now: Instant, question: &Question, want: Want, port: u16) -> bool {
        let Question { app, name, .. } = question;
        let mut families = Family::BOTH.into_iter().filter(|family| want.includes(*family));
        families.all(|family| self.answer_holds(now, app, name, family.into()))
            && self
                .caches
                .get(app)
                .is_some_and(|cache| cache.remembered(name).iter().all(|address| pool::may_lead_to(*address, port)))
    }

    /// Whether what is known of `name`, however it is spelled, and `record` may be given to this program: it holds, and none of its addresses has just failed.
    pub fn answer_holds(&mut self, now: Instant, app: &AppId, name: &str, record: RecordType) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let kept = self.caches.get_mut(app).and_then(|cache| cache.get(now, &name, record));
        let Some(kept) = kept else { return false };
        let network = self.path.current();
        !kept.addresses().iter().any(|address| network.is_failing(*address, now))
    }

    /// Whether a connection that was begun ahead can serve `claim`: it is open, or on its way.
    pub fn is_ahead_of(&self, now: Instant, request: RequestId, claim: &Claim) -> bool {
        let alive = |a: &Attempt| matches!(a.state, State::InFlight | State::Ready { .. });
        let job = self.open_for(now, request, claim).and_then(|id| self.jobs.get(&id));
        job.is_some_and(|job| job.attempts.iter().any(|a| alive(a) && job.can_serve(a, claim)))
    }

    /// The program that a query is sent for.
    pub fn asker(&mut self, query: QueryId) -> Option<AppId> {
        self.lookups.get_mut(query).map(|open| AppId::clone(&open.question.app))
    }

    /// A program opens its connection itself.
    pub(super) fn goes_itself(&mut self, now: Instant, request: RequestId, claim: &Claim) {
        self.note_where_it_goes(claim);
        self.note_its_sockets(claim);
        let Some(name) = self.caches.get(&claim.app).and_then(|cache| cache.name_of(claim.to.ip())) else { return };
        self.count_miss(now, request.account(), &super::claiming::host(claim, &name), false);
        self.connected(now, request.account(), &claim.app, &name, claim.to);
    }

    /// A program's own connection came to nothing.
    pub(super) fn unreached(&mut self, now: Instant, addr: IpAddr) {
        self.path.current().record(now, addr, Outcome::Failed);
    }

    /// From now on so much is done ahead, and no more. What is open beyond that is closed.
    pub(super) fn ahead_by(&mut self, now: Instant, ahead: Ahead) {
        self.settings.ahead = ahead;
        if ahead.spares == 0 {
            self.agenda.cancel(|_| true);
            self.flush(now, SpareEnd::Dropped, |job| job.is_unclaimed() || job.spare.is_some());
        }
    }
}
