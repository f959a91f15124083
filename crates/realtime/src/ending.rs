//! How a session came to its end, and what is not known to have arrived by then. No session ends in silence: a program that is told
//! that a session is over can ask why, and how much of what it sent is unconfirmed.

use headstart_core::realtime::FrameError;
use std::time::Duration;

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// This side has closed it.
    Closed,
    /// The peer has closed it.
    Left {
        /// Messages of `Event` and `Ordered` lanes that the peer had confirmed, and that its program did not take.
        untaken: u64,
    },
    /// The peer does not know it any more: it was restarted, or has given it up.
    Gone,
    /// There was no connection on which the peer answers, or it sent nothing while it owed an answer, for so long.
    Lost(Duration),
    /// The peer never answered, for so long.
    Silent(Duration),
    /// The peer does not speak this protocol, or another version of it, or violates it.
    Stranger(FrameError),
}

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub why: Why,
    /// Messages that were handed in and that the peer has not confirmed: some may have arrived all the same. What it had confirmed
    /// and its program had not taken is not counted here; where the peer died, none knows how much that was.
    pub unconfirmed: usize,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("this side closed it"),
            Self::Left { untaken: 0 } => f.write_str("the peer closed it"),
            Self::Left { untaken } => write!(f, "the peer closed it and left {untaken} messages unread"),
            Self::Gone => FrameError::Gone.fmt(f),
            Self::Lost(patience) => {
                write!(f, "the peer stopped answering: nothing for {} s", patience.as_secs_f64())
            }
            Self::Silent(patience) => write!(
                f,
                "the peer did not answer for {} s: it does not speak this protocol, or only version 1 of it",
                patience.as_secs_f64()
            ),
            Self::Stranger(error) => error.fmt(f),
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.why.fmt(f)?;
        match self.unconfirmed {
            0 => Ok(()),
            count => write!(f, "; {count} messages may not have arrived"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_why_and_what_may_not_have_arrived() {
        let told = |why, unconfirmed| Ending { why, unconfirmed }.to_string();
        assert_eq!(told(Why::Closed, 0), "this side closed it");
        assert_eq!(told(Why::Left { untaken: 0 }, 0), "the peer closed it");
        assert_eq!(
            told(Why::Left { untaken: 4 }, 3),
            "the peer closed it and left 4 messages unread; 3 messages may not have arrived"
        );
        assert_eq!(told(Why::Lost(Duration::from_millis(2500)), 0), "the peer stopped answering: nothing for 2.5 s");
        assert!(told(Why::Silent(Duration::from_secs(30)), 1).starts_with("the peer did not answer for 30 s"));
        assert_eq!(told(Why::Gone, 0), told(Why::Stranger(FrameError::Gone), 0));
    }
}
