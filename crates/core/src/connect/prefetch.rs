//! Prefetch: which names are looked up before a program asks for them, and what else is done with answers ahead of time.
//!
//! Paper 1, section III-B, resolves an app's frequent names when it starts. Ours adds what follows a name (a first-order
//! chain, as browsers' predictors have), looks up again what is asked for in the last tenth of its lifetime, and begins
//! to connect to what a name had last time while the fresh answer is on its way (optimistic DNS,
//! draft-ietf-happy-happyeyeballs-v3): such a connection is given to a program only once an answer has confirmed its
//! address.
//!
//! What never happens here: a lookup of a name that this program has not looked up itself before.

use super::AppId;
use super::cache::Lifetime;
use super::pool;
use super::prefetch_model::{Expected, PrefetchModel};
use crate::time::Duration;
use std::sync::Arc;

/// How likely a name must be before it is looked up ahead of time: a query costs little, and most of them must be of use.
const LIKELY: f32 = 0.5;
/// An answer is looked up again when it is used in the last tenth of its lifetime, as unbound does.
pub(super) const REFRESH_IN_LAST: u32 = 10;
/// How long after its end an answer may still lead a connection attempt. Ours; RFC 8767 allows days.
pub(super) const STALE_FOR: Duration = Duration::from_secs(3600);

/// What is done ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Names are looked up when a program is launched and when they are about to follow.
    pub prefetch: bool,
    /// Answers are looked up again in the last tenth of their lifetime, when they are used.
    pub refresh: bool,
    /// Connections to addresses that a name had last time begin while it is looked up again.
    pub optimistic: bool,
    /// Spare connections that may be open at once, over all programs; 0 for none.
    pub spares: usize,
}

impl Ahead {
    /// Nothing: names and connections when programs ask for them.
    pub const OFF: Self = Self { prefetch: false, refresh: false, optimistic: false, spares: 0 };
    /// Everything, within the default bounds.
    pub const ON: Self = Self { prefetch: true, refresh: true, optimistic: true, spares: pool::MAX_SPARES };
}

/// The names to look up now that `app` begins, the one that is asked for soonest first.
pub(super) fn at_launch(model: &PrefetchModel, app: &AppId, lifetime: Lifetime) -> Vec<Arc<str>> {
    let holds_until_asked = |e: &Expected| match (lifetime, model.name(app, &e.name).and_then(|n| n.ttl)) {
        (Lifetime::Fixed(time), _) | (Lifetime::Ttl, Some(time)) => e.after < time,
        (Lifetime::Ttl, None) => true,
        (Lifetime::Off, _) => false,
    };
    let all = model.expected_at_launch(app).into_iter();
    all.filter(|e| e.chance >= LIKELY && holds_until_asked(e)).map(|e| e.name).collect()
}

/// The names to look up now that `app` asks for `name`, for the first time in this launch or `again`.
pub(super) fn after(model: &PrefetchModel, app: &AppId, name: &str, again: bool) -> Vec<Arc<str>> {
    let all = model.expected_after(app, name, again).into_iter();
    all.filter(|e| e.chance >= LIKELY).map(|e| e.name).collect()
}
