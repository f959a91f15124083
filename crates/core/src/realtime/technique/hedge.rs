//! Six warm connections, one of them in use. As soon as a message on it is overdue it is left for a clean one, and what was
//! on its way is resent there. Ours; parallel connections for delay are from Brosh et al. (SIGMETRICS 2008).
//!
//! A lost segment holds up only its own connection, so the messages after it pass by.

use super::{Technique, View};
use crate::time::Duration;

/// Connections: as many as a burst of loss blocks that loses five messages (150 ms at the paper's interval), and a clean one for
/// its end. Ours.
pub(super) const CONNECTIONS: usize = 6;
/// How late an acknowledgement may be at least: timers and schedulers take as much. Ours.
const SLACK: Duration = Duration::from_millis(4);
/// Before the first round trip is known. Ours: a person notices when a message of a session takes 100 ms (ITU-T Y.1541).
const UNKNOWN: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Hedge;

/// SRTT + max(4 ms, 2 RTTVAR), held below 1.5 SRTT + 4 ms; what is beyond SRTT once more for each time that it was too little
/// (as RFC 8985, section 6.2, step 4, widens its window).
pub(super) fn patience(view: &View) -> Duration {
    let Some(rtt) = view.rtt else { return UNKNOWN };
    let slack = SLACK.max(rtt.variation * 2).min(rtt.smoothed / 2 + SLACK);
    rtt.smoothed + slack * (1 + view.tolerance)
}

impl Technique for Hedge {
    fn connections(&self) -> usize {
        CONNECTIONS
    }

    fn acknowledges(&self) -> bool {
        true
    }

    fn patience(&self, view: &View) -> Option<Duration> {
        Some(patience(view))
    }

    /// It is bounded by the messages themselves: each is resent at most as often as there are connections.
    fn earns(&self, _: &View) -> u32 {
        100
    }
}
