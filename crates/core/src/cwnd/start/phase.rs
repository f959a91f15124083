//! The phases of careful resume (RFC 9959, section 3) and the events that tell of their changes, by the names of
//! draft-ietf-tsvwg-careful-resume-qlog-02.

use crate::time::{Duration, Instant};
use std::fmt;

/// Where a connection stands between a memory and its own experience.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The initial window; whether this is the path that is remembered is being found out.
    Reconnaissance,
    /// The jump: more is sent than was ever acknowledged on this connection.
    Unvalidated,
    /// What was sent in the jump is being acknowledged.
    Validating,
    /// The jump met congestion; what is left of it drains.
    SafeRetreat,
    /// Congestion control as ever.
    #[default]
    Normal,
}

impl Phase {
    /// Its name in qlog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reconnaissance => "reconnaissance",
            Self::Unvalidated => "unvalidated",
            Self::Validating => "validating",
            Self::SafeRetreat => "safe_retreat",
            Self::Normal => "normal",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The window is all that holds the sender back: the jump begins.
    CwndLimited,
    /// The round-trip time is not that of the path that is remembered.
    RttNotValidated,
    /// The round-trip time has become another during the jump.
    PathChanged,
    /// Packets were lost.
    PacketLoss,
    /// Packets were marked.
    EcnCe,
    /// A round trip has passed since the jump.
    RttExceeded,
    /// The jump is sent.
    LastUnvalidatedPacketSent,
    /// The first packet of the jump has arrived.
    FirstUnvalidatedPacketAcknowledged,
    /// The last packet of the jump has arrived.
    LastUnvalidatedPacketAcknowledged,
    /// The application has less to send than the window allows.
    RateLimited,
    /// The last packet of the jump has arrived, after a retreat.
    ExitRecovery,
    /// Another connection uses the memory. Not of the draft, which has no name for it.
    InUse,
}

impl Trigger {
    /// Its name in qlog.
    pub fn name(self) -> &'static str {
        match self {
            Self::CwndLimited => "congestion_window_limited",
            Self::RttNotValidated => "rtt_not_validated",
            Self::PathChanged => "path_changed",
            Self::PacketLoss => "packet_loss",
            Self::EcnCe => "ECN_CE",
            Self::RttExceeded => "rtt_exceeded",
            Self::LastUnvalidatedPacketSent => "last_unvalidated_packet_sent",
            Self::FirstUnvalidatedPacketAcknowledged => "first_unvalidated_packet_acknowledged",
            Self::LastUnvalidatedPacketAcknowledged => "last_unvalidated_packet_acknowledged",
            Self::RateLimited => "rate_limited",
            Self::ExitRecovery => "exit_recovery",
            Self::InUse => "in_use",
        }
    }
}

/// A change of phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// From where.
    pub old: Phase,
    /// To where.
    pub new: Phase,
    /// Why.
    pub trigger: Trigger,
    /// PipeSize in bytes: what the path has shown to carry.
    pub pipe: u64,
    /// When the first packet of the jump was sent, if there was one.
    pub first_unvalidated: Option<Instant>,
    /// When the last was.
    pub last_unvalidated: Option<Instant>,
    /// The window now, in bytes.
    pub window: u64,
    /// The threshold in bytes that the change brought, if it did.
    pub threshold: Option<u64>,
    /// What was remembered: the window in bytes …
    pub saved_window: u64,
    /// … and the round-trip time.
    pub saved_rtt: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_draft() {
        assert_eq!(format!("{:>13}", Phase::SafeRetreat), " safe_retreat");
        assert_eq!(Trigger::EcnCe.name(), "ECN_CE");
    }
}
